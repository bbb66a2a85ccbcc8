//! A project of Google Cloud that is answered by every interface: one machine type in two zones, its prices, quotas and history.

use serde_json::{Value, json};

use crate::fake_gce::{self, Call};

const SKUS: &str = include_str!("../fixtures/gcp/skus.json");

/// A project that is answered by every interface.
pub fn project(call: &Call) -> fake_gce::Answer {
    let machine = || call.body["instanceProperties"]["machineType"].clone();
    let interval = json!({"startTime": "2026-07-29T00:00:00Z", "endTime": "2026-07-30T00:00:00Z"});
    fake_gce::Answer::Json(match call.method.as_str() {
        "compute.advice.capacityHistory" if call.body["types"] == json!(["PREEMPTION"]) => json!({
            "machineType": machine(), "location": "https://www.googleapis.com/compute/v1/projects/some-project/zones/us-central1-a",
            "preemptionHistory": [{"interval": interval, "preemptionRate": 0.1}, {"interval": interval, "preemptionRate": 0.3}]}),
        "compute.advice.capacityHistory" => {
            json!({"machineType": machine(), "location": "regions/us-central1", "priceHistory": [
            {"interval": interval, "listPrice": {"currencyCode": "USD", "units": "50", "nanos": 600_000_000}}]})
        }
        // As long as is asked, in a zone, from a day in the future on.
        "compute.advice.calendarMode" => {
            let spec = &call.body["futureResourcesSpecs"]["machines"];
            let seconds: i64 =
                spec["timeRangeSpec"]["minDuration"].as_str().unwrap().trim_end_matches('s').parse().unwrap();
            let starts = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(30);
            let ends = starts + jiff::SignedDuration::from_secs(seconds);
            json!({"recommendations": [{"recommendationsPerSpec": {"machines": {"recommendationType": "FUTURE_RESERVATION",
                "location": "zones/us-central1-c", "startTime": format!("{starts:.0}"), "endTime": format!("{ends:.0}")}}}]})
        }
        "compute.advice.capacity" => {
            json!({"recommendations": [{"scores": {"obtainability": 0.7, "estimatedUptime": "5400s"},
            "shards": [{"zone": "zones/us-central1-b", "instanceCount": 1, "machineType": "a3-highgpu-8g", "provisioningModel": "SPOT"}]}]})
        }
        "compute.machineTypes.aggregatedList" => machine_types(call),
        "compute.acceleratorTypes.aggregatedList" => accelerators(call),
        "compute.regions.get" => json!({"name": "us-central1", "quotas": [
            {"metric": "PREEMPTIBLE_NVIDIA_H100_GPUS", "limit": 8.0, "usage": 8.0},
            {"metric": "PREEMPTIBLE_NVIDIA_H200_GPUS", "limit": 16.0, "usage": 0.0}]}),
        "compute.projects.get" => {
            json!({"name": "some-project", "quotas": [{"metric": "GPUS_ALL_REGIONS", "limit": 0.0, "usage": 0.0}]})
        }
        "GET /v1/services/6F81-5844-456A/skus" => billing(call),
        "POST /v1/projects/some-project:testIamPermissions" => json!({"permissions":
            call.body["permissions"].as_array().unwrap().iter().filter(|name| **name != "compute.instances.delete").collect::<Vec<_>>()}),
        method if method.ends_with("/quotaInfos/GPUS-PER-GPU-FAMILY-per-project-region") => json!({"dimensionsInfos": [
            {"dimensions": {"gpu_family": "NVIDIA_H100"}, "details": {"value": "64"}, "applicableLocations": ["us-central1"]}]}),
        _ => return fake_gce::Answer::Refused(501, "notImplemented", call.method.clone()),
    })
}

/// The list comes in two pages, as zones and as types that are no longer sold do.
fn machine_types(call: &Call) -> Value {
    assert_eq!(call.parameters["filter"], r#"name eq "(a|g)[0-9]+[a-z]?-.*|n1-standard-[0-9]+""#);
    let machine =
        |zone: &str, name: &str, state: &str| json!({"name": name, "zone": zone, "deprecated": {"state": state}});
    // A machine and a GPU that no catalog has.
    let new = json!({"name": "a9-highgpu-8g", "zone": "us-central1-c", "guestCpus": 224, "memoryMb": 4_063_232, "architecture": "X86_64",
        "accelerators": [{"guestAcceleratorType": "nvidia-vera-r300-288gb", "guestAcceleratorCount": 8}]});
    // It comes without cards.
    let n1 = |vcpus: u32| json!({"name": format!("n1-standard-{vcpus}"), "zone": "us-central1-a", "guestCpus": vcpus, "memoryMb": vcpus * 3840});
    let c = "us-central1-c";
    let (scope, types, token) = match call.parameters.get("pageToken").map_or("", String::as_str) {
        "" => {
            let a = "us-central1-a";
            (
                "zones/us-central1-a",
                vec![machine(a, "a3-highgpu-8g", "ACTIVE"), machine(a, "a2-highgpu-1g", "DEPRECATED"), n1(2), n1(8)],
                "second",
            )
        }
        _ => (
            "zones/us-central1-c",
            vec![machine(c, "a3-highgpu-8g", "ACTIVE"), machine(c, "a4-highgpu-8g", "ACTIVE"), new],
            "",
        ),
    };
    let mut items = serde_json::Map::new();
    items.insert(scope.to_owned(), json!({"machineTypes": types}));
    json!({"items": items, "nextPageToken": token})
}

/// The cards that N1 takes, with one that is no longer sold.
fn accelerators(call: &Call) -> Value {
    assert_eq!(call.parameters["filter"], r#"name eq "nvidia-tesla-(t4|v100|p100)""#);
    let card = |name: &str, most: u32, state: &str| {
        json!({"name": name, "zone": "https://www.googleapis.com/compute/v1/projects/some-project/zones/us-central1-a",
            "maximumCardsPerInstance": most, "deprecated": {"state": state}})
    };
    json!({"items": {
        "zones/us-central1-a": {"acceleratorTypes": [card("nvidia-tesla-t4", 4, "ACTIVE"), card("nvidia-tesla-p100", 4, "DEPRECATED")]},
        "zones/us-central1-c": {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "No results"}}}})
}

/// The price list in two pages.
fn billing(call: &Call) -> Value {
    let rows: Value = serde_json::from_str(SKUS).unwrap();
    let rows = rows["skus"].as_array().unwrap();
    let (first, second) = rows.split_at(rows.len() / 2);
    match call.parameters.get("pageToken").map(String::as_str) {
        None => json!({"skus": first, "nextPageToken": "a/b+c="}),
        Some("a/b+c=") => json!({"skus": second}),
        Some(other) => panic!("token {other}"),
    }
}
