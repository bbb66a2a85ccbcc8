//! Google Cloud over canned answers, and over a stand-in that holds every question against Google's own schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpuplan::clouds::gcp::account::Account;
use gpuplan::clouds::gcp::account::project::Project;
use gpuplan::clouds::gcp::prices::billing::SkuPrices;
use gpuplan::clouds::gcp::prices::capacity::Capacity;
use gpuplan::clouds::gcp::prices::machine_list::ListedMachines;
use gpuplan::clouds::gcp::prices::preemptions::Preemptions;
use gpuplan::clouds::gcp::prices::spot_prices::SpotPrices;
use gpuplan::clouds::http::{self, Http};
use gpuplan::clouds::{ask, ask::all};
use gpuplan::hardware::{CloudId, Hardware};
use gpuplan::market::{
    AccountSource, Availability, MachineList, MachineSource, OfferQuery, Origin, PriceAnswer, Purchase, Quota,
    QuotaNeed, RiskAnswer, RiskSource, Signal, SourceError, Verdict,
};
use serde_json::{Value, json};

use gpuplan_testbed::fake_gce::{self, FakeGce};
use gpuplan_testbed::gcp_project::project;
use gpuplan_testbed::server::{Reply, Request, Server};

/// Planted wherever a key can be planted; it may come out nowhere.
pub const SECRET: &str = "AIzaPlantedKey";

fn query<'a>(hardware: &'a Hardware, types: &[&str], regions: &[&str]) -> OfferQuery<'a> {
    let instances: Vec<_> =
        types.iter().map(|name| hardware.find_instance(&CloudId::new("gcp"), name).unwrap()).collect();
    OfferQuery::for_instances(hardware, regions.iter().map(|region| ((*region).into(), instances.clone())).collect())
}

fn ask_gcp(hardware: &Hardware, endpoint: &str, types: &[&str], regions: &[&str]) -> Result<PriceAnswer, SourceError> {
    let source = SpotPrices { project: Project::at(endpoint, "some-project") };
    ask(&[(&source, query(hardware, types, regions))]).unwrap().remove(0)
}

fn risks(source: &dyn RiskSource, query: &OfferQuery) -> Result<RiskAnswer, SourceError> {
    all(vec![(source.about().id, source.risks(query))], &|_| {}).unwrap().remove(0)
}

fn machines(source: &dyn MachineSource, known: &OfferQuery) -> MachineList {
    all(vec![("gcp", source.machines(known))], &|_| {}).unwrap().remove(0).unwrap()
}

fn json(status: u16, body: &str) -> Reply {
    Reply::Text(status, "application/json", body.to_owned())
}

pub fn sells_in_us_central1_only(request: &Request) -> Reply {
    if !request.path.contains("/regions/us-central1/") {
        return json(
            400,
            r#"{"error":{"code":400,"message":"Machine type is not available in this region.","status":"INVALID_ARGUMENT"}}"#,
        );
    }
    if request.body.contains("g2-standard-4") {
        return json(200, r#"{"machineType":"g2-standard-4","priceHistory":[]}"#);
    }
    json(
        200,
        r#"{"machineType":"a2-highgpu-1g","priceHistory":[
            {"interval":{"startTime":"2026-06-01T00:00:00Z","endTime":"2026-07-01T00:00:00Z"},"listPrice":{"currencyCode":"USD","units":"1","nanos":500000000}},
            {"interval":{"startTime":"2026-07-01T00:00:00Z","endTime":"2026-07-30T06:00:00Z"},"listPrice":{"currencyCode":"USD","units":"1","nanos":750000000}}]}"#,
    )
}

#[test]
fn gcp_the_newest_record_is_the_offer_and_what_has_none_is_a_note() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(sells_in_us_central1_only);
    let answer =
        ask_gcp(&hardware, &server.endpoint, &["a2-highgpu-1g", "g2-standard-4"], &["us-central1", "europe-west9"])
            .unwrap();
    assert_eq!(answer.offers.len(), 1, "{answer:?}");
    let offer = &answer.offers[0];
    assert_eq!(offer.quote.rate.to_string(), "1.75");
    assert_eq!(offer.quote.origin, Origin::Live);
    assert_eq!(offer.quote.observed_at, "2026-07-30T06:00:00Z".parse().unwrap());
    assert_eq!((&*offer.place.region, offer.place.zone_id.as_deref()), ("us-central1", None));
    let history: Vec<_> =
        answer.history.iter().map(|point| (point.since.to_string(), point.rate.to_string())).collect();
    assert_eq!(
        history,
        [("2026-06-01T00:00:00Z", "1.50"), ("2026-07-01T00:00:00Z", "1.75")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    let notes: Vec<String> = answer.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(
        notes[0],
        "europe-west9, a2-highgpu-1g: refused with HTTP 400: Machine type is not available in this region."
    );
    assert_eq!(notes[2], "us-central1, g2-standard-4: the history has no price for it");
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|request| request.header("authorization").is_empty()), "no key goes to a stand-in");
    let first = asked.iter().find(|request| request.path.contains("us-central1")).unwrap();
    assert!(
        first.path.starts_with("/compute/v1/projects/some-project/regions/us-central1/advice/capacityHistory"),
        "{}",
        first.path
    );
    assert!(
        first.body.contains(r#""provisioningModel":"SPOT""#) && first.body.contains(r#""types":["PRICE"]"#),
        "{}",
        first.body
    );
}

#[test]
fn gcp_a_refusal_of_the_project_ends_the_question_at_once() {
    let hardware = Hardware::embedded().unwrap();
    let server =
        Server::start(|_| json(403, r#"{"error":{"code":403,"message":"Not enabled.","status":"PERMISSION_DENIED"}}"#));
    let regions: Vec<String> = (0..40).map(|index| format!("region-{index}")).collect();
    let regions: Vec<&str> = regions.iter().map(String::as_str).collect();
    let error = ask_gcp(&hardware, &server.endpoint, &["a2-highgpu-1g"], &regions).unwrap_err();
    assert!(matches!(&error, SourceError::Refused { code, .. } if code == "HTTP 403"), "{error}");
    assert!(error.to_string().contains("compute.advice.capacityHistory"), "{error}");
    assert!(server.asked().len() < 40, "{} questions", server.asked().len());
}

#[test]
fn gcp_an_answer_that_is_no_json_and_a_closed_port_are_errors() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(|_| json(200, "<html>sign in</html>"));
    let error = ask_gcp(&hardware, &server.endpoint, &["a2-highgpu-1g"], &["us-central1"]).unwrap_err();
    assert!(matches!(error, SourceError::Malformed { .. }), "{error}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ask_gcp(&hardware, &format!("http://{closed}"), &["a2-highgpu-1g"], &["us-central1"]).unwrap_err();
    assert!(matches!(&error, SourceError::Unreachable { detail, .. } if detail.contains("refused")), "{error}");
}

#[test]
fn gcp_what_the_schema_does_not_know_is_refused_by_name() {
    let fake = FakeGce::start(project);
    let post = |path: &str, body: Value| {
        let request = http::Request::post(
            format!("{}/compute/v1/projects/p/{path}", fake.endpoint),
            "application/json",
            body.to_string(),
        );
        let http = Http::new().unwrap();
        all(vec![("fake", Box::pin(async move { http.json::<Value>(&request).await }))], &|_| {}).unwrap().remove(0)
    };
    let insert = |body: Value| post("zones/us-central1-a/instances?requestId=x", body).unwrap_err().to_string();
    for (body, named) in [
        (json!({"name": "vm", "machineTyp": "x"}), r#"Unknown name \"machineTyp\""#),
        (json!({"name": "vm", "scheduling": {"provisioningModel": "CHEAP"}}), "Instance.scheduling.provisioningModel"),
        (json!({"name": "VM_1"}), "Instance.name"),
        (json!({"name": 7}), "Instance.name"),
        (json!({"name": "vm", "disks": {"boot": true}}), "Instance.disks"),
        (json!({"name": "vm", "scheduling": {"maxRunDuration": {"seconds": "soon"}}}), "maxRunDuration.seconds"),
    ] {
        let error = insert(body);
        assert!(error.starts_with("refused with 400") && error.contains(named), "{named}: {error}");
    }
    let unknown =
        post("zones/us-central1-a/instances?requestIdentity=x", json!({"name": "vm"})).unwrap_err().to_string();
    assert!(unknown.contains("requestIdentity"), "{unknown}");
    assert!(post("zones/US/instances", json!({"name": "vm"})).unwrap_err().to_string().contains("zone"));
    assert!(fake.calls().is_empty(), "nothing of it came through");
    let understood = insert(
        json!({"name": "vm", "scheduling": {"provisioningModel": "SPOT", "maxRunDuration": {"seconds": "3600"}}}),
    );
    assert!(understood.contains("compute.instances.insert"), "{understood}");
}

#[test]
fn gcp_the_price_list_becomes_machines_in_the_zones_that_list_them() {
    let hardware = Hardware::embedded().unwrap();
    let fake = FakeGce::start(project);
    let source = SkuPrices::at(Project::at(&fake.endpoint, "some-project"), None);
    let question = query(&hardware, &["a3-highgpu-8g", "a2-highgpu-1g"], &["us-central1"]);
    let answer = ask(&[(&source, question)]).unwrap().remove(0).unwrap();
    let mut rows: Vec<_> = answer
        .offers
        .iter()
        .map(|offer| {
            (
                offer.place.zone_id.as_deref().unwrap().to_owned(),
                offer.purchase.to_string(),
                offer.quote.rate.to_string(),
            )
        })
        .collect();
    rows.sort();
    let expected: Vec<_> = ["us-central1-a", "us-central1-c"]
        .into_iter()
        .flat_map(|zone| {
            [("flex-start", "38.320038247"), ("on-demand", "88.489999903"), ("spot", "50.609540822")]
                .map(|(a, b)| (zone, a, b))
        })
        .map(|(zone, purchase, rate)| (zone.to_owned(), purchase.to_owned(), rate.to_owned()))
        .collect();
    assert_eq!(rows, expected);
    assert!(
        answer
            .offers
            .iter()
            .all(|offer| offer.availability == Availability::Listed && offer.quote.origin == Origin::Live)
    );
    let notes: Vec<String> = answer.notes.iter().map(ToString::to_string).collect();
    assert!(
        notes.iter().any(|note| note == "a2-highgpu-1g: priced in us-central1, where no zone lists it"),
        "{notes:#?}"
    );
    assert!(fake.calls().iter().all(|call| !call.headers.contains_key("authorization")), "no key goes to a stand-in");
}

/// Which cards a zone has is asked beside its machine types; where that is refused, only N1 is lost.
#[test]
fn gcp_cards_of_n1_are_machines_of_the_zones_that_have_them() {
    let cloud = CloudId::new("gcp");
    let hardware = Hardware::embedded().unwrap();
    let fake = FakeGce::start(project);
    let source = ListedMachines { project: Project::at(&fake.endpoint, "some-project") };
    let list = machines(&source, &query(&hardware, &[], &["us-central1"]));
    let attached: Vec<&String> = list.regions["us-central1"].iter().filter(|name| name.starts_with("n1-")).collect();
    assert_eq!(
        attached,
        ["n1-standard-8-t4x1", "n1-standard-8-t4x2"],
        "no P100, which is no longer sold, and nothing on two vCPUs"
    );
    let mut taught = hardware.clone();
    for sheet in &list.sheets {
        let _ = taught.learn(&cloud, sheet);
    }
    let id = taught.find_instance(&cloud, "n1-standard-8-t4x2").unwrap();
    assert_eq!((taught.gpu(taught.instance(id).node.gpu).id.as_str(), taught.instance(id).node.devices()), ("t4", 2));

    let prices = SkuPrices::at(Project::at(&fake.endpoint, "some-project"), None);
    let answer =
        ask(&[(&prices, query(&taught, &["n1-standard-8-t4x2"], &["us-central1"]))]).unwrap().remove(0).unwrap();
    let mut rows: Vec<(String, String, String)> = answer
        .offers
        .iter()
        .map(|offer| {
            (
                offer.place.zone_id.as_deref().unwrap_or_default().to_owned(),
                offer.purchase.to_string(),
                offer.quote.rate.to_string(),
            )
        })
        .collect();
    rows.sort();
    let row = |terms: &str, rate: &str| ("us-central1-a".to_owned(), terms.to_owned(), rate.to_owned());
    // Two cards at 0.35, eight vCPUs at 0.031611 and 30 GiB at 0.004237; as spot at the rates of the same day.
    assert_eq!(rows, [row("on-demand", "1.079998"), row("spot", "0.30")]);

    let refusing = FakeGce::start(|call| match call.method.as_str() {
        "compute.acceleratorTypes.aggregatedList" => {
            fake_gce::Answer::Refused(403, "forbidden", "Required permission missing".to_owned())
        }
        _ => project(call),
    });
    let source = ListedMachines { project: Project::at(&refusing.endpoint, "some-project") };
    let list = machines(&source, &query(&hardware, &[], &["us-central1"]));
    assert!(list.regions["us-central1"].contains("a3-highgpu-8g"));
    assert!(!list.regions["us-central1"].iter().any(|name| name.starts_with("n1-")));
    assert!(list.notes[0].detail.contains("N1"), "{:?}", list.notes);
}

#[test]
fn gcp_without_the_zones_a_price_stands_for_its_region() {
    let hardware = Hardware::embedded().unwrap();
    let fake = FakeGce::start(|call| match call.method.as_str() {
        "compute.machineTypes.aggregatedList" => {
            fake_gce::Answer::Refused(403, "forbidden", "Required permission missing".to_owned())
        }
        _ => project(call),
    });
    let source = SkuPrices::at(Project::at(&fake.endpoint, "some-project"), None);
    let answer = ask(&[(&source, query(&hardware, &["g2-standard-48"], &["us-central1"]))]).unwrap().remove(0).unwrap();
    assert!(!answer.offers.is_empty());
    assert!(
        answer.offers.iter().all(|offer| offer.place.zone_id.is_none() && offer.availability == Availability::Unknown)
    );
    assert!(answer.notes.iter().any(|note| note.detail.contains("compute.machineTypes.list")), "{:?}", answer.notes);
}

#[test]
fn gcp_a_planted_key_comes_out_nowhere() {
    let hardware = Hardware::embedded().unwrap();
    let echo = |status: u16| {
        FakeGce::start(move |call| {
            let key = call.headers.get("x-goog-api-key").cloned().unwrap_or_default();
            assert!(!call.parameters.values().any(|value| value.contains(SECRET)), "a key never stands in an address");
            match call.method.starts_with("GET /v1/services") {
                true if status == 200 => project(call),
                true => fake_gce::Answer::Refused(status, "badKey", format!("API key {key} is not valid")),
                false => fake_gce::Answer::Refused(403, "forbidden", format!("{:?}", call.headers)),
            }
        })
    };
    for status in [200, 400] {
        let fake = echo(status);
        let source = SkuPrices::at(Project::at(&fake.endpoint, "some-project"), Some(SECRET));
        let answer = ask(&[(&source, query(&hardware, &["g2-standard-48"], &["us-central1"]))]).unwrap().remove(0);
        assert_eq!(answer.is_ok(), status == 200);
        assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
        assert!(
            fake.calls().iter().any(|call| call.headers.get("x-goog-api-key").is_some_and(|key| key == SECRET)),
            "it was sent"
        );
    }
    let source = SkuPrices::at(Project::at("http://private.example", "some-project"), Some(SECRET));
    let error =
        ask(&[(&source, query(&hardware, &["g2-standard-48"], &["us-central1"]))]).unwrap().remove(0).unwrap_err();
    assert!(error.to_string().contains("no key is sent") && !error.to_string().contains(SECRET), "{error}");
}

#[test]
fn gcp_signals_belong_to_the_zone_that_the_interface_names() {
    let hardware = Hardware::embedded().unwrap();
    let fake = FakeGce::start(project);
    let at = || Project::at(&fake.endpoint, "some-project");
    let question = query(&hardware, &["a3-highgpu-8g"], &["us-central1"]);
    let signals = |source: &dyn RiskSource| -> Vec<_> {
        let answer = risks(source, &question).unwrap();
        answer
            .signals
            .into_iter()
            .map(|(_, place, signal)| (place.zone_id.unwrap_or_else(|| Arc::from("")).to_string(), signal))
            .collect()
    };
    let found = signals(&Preemptions { project: at() });
    assert_eq!(found, [("us-central1-a".to_owned(), Signal::DailyPreemptionShare(0.2))]);
    let found = signals(&Capacity { project: at() });
    let zone = "us-central1-b".to_owned();
    assert_eq!(found, [(zone.clone(), Signal::Obtainability(0.7)), (zone, Signal::UptimeHours(1.5))]);
    let asked = fake.calls().into_iter().find(|call| call.method == "compute.advice.capacity").unwrap();
    assert_eq!(asked.body["distributionPolicy"]["targetShape"], "ANY_SINGLE_ZONE");
    assert_eq!(
        asked.body["instanceFlexibilityPolicy"]["instanceSelections"]["machine"]["machineTypes"],
        json!(["a3-highgpu-8g"])
    );
}

fn quotas(
    account: &Account,
    hardware: &Hardware,
    machine: &str,
    purchase: Purchase,
) -> Result<Vec<Quota>, SourceError> {
    let instance = hardware.instance(hardware.find_instance(&CloudId::new("gcp"), machine).unwrap());
    let need = QuotaNeed { region: "us-central1", instance, gpus_per_node: 8.0, gpu: "h100", purchase, nodes: 1 };
    all(vec![("gcp", account.quotas(need))], &|_| {}).unwrap().remove(0)
}

#[test]
fn gcp_a_bucket_says_what_it_deletes() {
    let server = Server::start(|request| {
        let rule = json!({"action": {"type": "Delete"}, "condition": {"age": 30}});
        match request.path.as_str() {
            "/storage/v1/b/runs?fields=lifecycle,softDeletePolicy,versioning,billing" => {
                Reply::Text(200, "application/json", json!({"lifecycle": {"rule": [rule]}}).to_string())
            }
            _ => Reply::Text(404, "application/json", "{}".to_owned()),
        }
    });
    let account = Account { project: Project::at(&server.endpoint, "some-project") };
    let ask = |bucket| all(vec![("gcp", account.bucket(bucket, "runs/"))], &|_| {}).unwrap().remove(0);
    let rules = ask("runs").unwrap();
    assert_eq!((rules.losses.len(), rules.losses[0].after_days, rules.can_undelete), (1, Some(30), Some(false)));
    assert!(ask("nowhere").is_err());
}

#[test]
fn gcp_the_account_says_who_it_is_what_it_may_and_how_much() {
    let hardware = Hardware::embedded().unwrap();
    let fake = FakeGce::start(project);
    let account = Account { project: Project::at(&fake.endpoint, "some-project") };
    let identity = all(vec![("gcp", account.identity())], &|_| {}).unwrap().remove(0).unwrap();
    assert_eq!((identity.account.as_str(), identity.principal.as_str()), ("some-project", "nobody"));
    let permissions = all(vec![("gcp", account.permissions("us-central1"))], &|_| {}).unwrap().remove(0).unwrap();
    let verdicts: BTreeMap<&str, &Verdict> =
        permissions.iter().map(|row| (row.action.as_str(), &row.verdict)).collect();
    assert!(matches!(verdicts["compute.instances.delete"], Verdict::Denied { .. }), "the missing one is named");
    assert_eq!(verdicts["compute.instances.create"], &Verdict::Allowed);
    let accounts = ["machine", "kept"].map(|name| {
        let row = format!("iam.serviceAccounts.actAs on gpuplan-{name}@some-project.iam.gserviceaccount.com");
        format!("{:?}", verdicts[row.as_str()])
    });
    // The stand-in knows no accounts, and no answer is no permission.
    assert!(accounts.iter().all(|said| said.starts_with("Unknown") && said.contains("501")), "{accounts:?}");
    assert_eq!(permissions.iter().filter(|row| row.verdict != Verdict::Allowed).count(), 3);

    let spot = quotas(&account, &hardware, "a3-highgpu-8g", Purchase::Spot).unwrap();
    assert_eq!(
        spot.iter().map(|quota| quota.code.as_str()).collect::<Vec<_>>(),
        ["PREEMPTIBLE_NVIDIA_H100_GPUS", "GPUS_ALL_REGIONS"]
    );
    assert!(
        spot.iter().all(Quota::blocks) && spot.iter().all(|quota| quota.request.starts_with("gcloud ")),
        "{spot:?}"
    );
    let on_demand = quotas(&account, &hardware, "a3-highgpu-8g", Purchase::OnDemand).unwrap();
    assert_eq!(
        (on_demand[0].code.as_str(), on_demand[0].limit),
        ("GPUS-PER-GPU-FAMILY-per-project-region/NVIDIA_H100", 64.0)
    );
    let unlisted = quotas(&account, &hardware, "a2-highgpu-8g", Purchase::Spot).unwrap_err();
    assert!(unlisted.to_string().contains("PREEMPTIBLE_NVIDIA_A100_GPUS"), "no limit is assumed: {unlisted}");
    let newer = quotas(&account, &hardware, "a3-ultragpu-8g", Purchase::FlexStart).unwrap();
    assert_eq!(newer[0].limit, 16.0, "a metric that the SDK does not know is read all the same");
}
