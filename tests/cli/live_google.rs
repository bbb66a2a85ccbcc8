//! Prices, zones, signals and quotas of a Google project that runs here and knows Google's own schema.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::support::Ran;
use gpuplan_testbed::fake_gce::FakeGce;
use gpuplan_testbed::gcp_project::project;

const QUESTION: [&str; 9] = [
    "examples/llama-3.1-8b-finetune.toml",
    "--cloud",
    "gcp",
    "--gpus",
    "H100:8",
    "--spot",
    "--max-nodes",
    "1",
    "--output=json",
];

fn run(home: &tempfile::TempDir, endpoint: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .env("COLUMNS", "120")
        .stdin(Stdio::null());
    command.env("GPUPLAN_HOME", home.path()).env("HOME", home.path()).env("GOOGLE_CLOUD_PROJECT", "some-project");
    let output = command.env("GPUPLAN_GCP_ENDPOINT", endpoint).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code().unwrap_or(-1) }
}

fn recommended(home: &tempfile::TempDir, endpoint: &str) -> Value {
    let ran = run(home, endpoint, &[&["plan", "--live"], &QUESTION[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()["recommendation"].clone()
}

#[test]
fn google_prices_are_taken_by_zone_and_kept() {
    let (fake, home) = (FakeGce::start(project), tempfile::tempdir().unwrap());
    let refreshed = run(&home, &fake.endpoint, &["refresh", "--cloud", "gcp"]);
    assert_eq!(refreshed.code, 0, "{}", refreshed.stderr);
    assert!(
        refreshed.stdout.lines().any(|line| line.contains("gcp-skus") && line.contains("answered")),
        "{}",
        refreshed.stdout
    );
    // B200 has no price in the snapshot for this region's zone, and a9 is in no catalog at all.
    let prices = run(
        &home,
        &fake.endpoint,
        &["prices", "B200:8", "--cloud", "gcp", "--region", "us-central1-c", "--output=json"],
    );
    let machines: Vec<Value> = prices.json()["offers"].as_array().unwrap().clone();
    assert!(
        machines.iter().any(|offer| offer["instance_type"] == "a4-highgpu-8g" && offer["zone_id"] == "us-central1-c"),
        "{}{}",
        prices.stdout,
        prices.stderr
    );
    assert!(
        refreshed.stdout.contains("gcp-machine-types") && refreshed.stdout.contains("a9-highgpu-8g"),
        "{}",
        refreshed.stdout
    );
    // Cards that are attached to N1 are machines of no catalog, with the price of their parts.
    let attached = run(&home, &fake.endpoint, &["prices", "T4:1", "--cloud", "gcp", "--output=json"]);
    let offers = attached.json()["offers"].as_array().unwrap().clone();
    let n1: Vec<&Value> = offers.iter().filter(|offer| offer["instance_type"] == "n1-standard-8-t4x1").collect();
    assert!(
        n1.iter().any(|offer| offer["purchase"] == "on-demand" && offer["rate_usd_per_hour"] == "0.729998"),
        "{}{}",
        attached.stdout,
        attached.stderr
    );
    let live = recommended(&home, &fake.endpoint);
    assert_eq!(
        (live["instance_type"].as_str(), live["price"]["origin"].as_str()),
        (Some("a3-highgpu-8g"), Some("live")),
        "{live:#}"
    );
    assert_eq!(
        (live["zone_id"].as_str(), live["rate_usd_per_hour"].as_str()),
        (Some("us-central1-a"), Some("50.609540822")),
        "{live:#}"
    );
    let doctor = run(&home, &fake.endpoint, &[&["doctor"], &QUESTION[..8]].concat());
    assert_eq!(doctor.code, 7, "{}{}", doctor.stdout, doctor.stderr);
    assert!(doctor.stdout.contains("denied: compute.instances.delete"), "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("PREEMPTIBLE_NVIDIA_H100_GPUS") && doctor.stdout.contains("gcloud "),
        "{}",
        doctor.stdout
    );
    let closed = format!("http://{}", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let cached = recommended(&home, &closed);
    assert_eq!(cached["price"]["origin"], "cached", "{cached:#}");
    assert_eq!((&live["quota"]["state"], &cached["quota"]["state"]), (&"unknown".into(), &"exceeded".into()));
    for same in ["zone_id", "rate_usd_per_hour", "instance_type", "cost_usd"] {
        assert_eq!(cached[same], live[same], "{same}");
    }
}

/// Reservations for a date are asked for as the plan needs them, and wait for their day; what is queued has no date and a longest time.
#[test]
fn google_capacity_for_a_date_and_from_a_queue_is_planned() {
    let (fake, home) = (FakeGce::start(project), tempfile::tempdir().unwrap());
    let question = [
        "plan",
        "--model",
        "llama-3.1-8b",
        "--task",
        "full-fine-tune",
        "--tokens",
        "2B",
        "--cloud",
        "gcp",
        "--live",
        "--output",
        "json",
    ];
    let ask = |more: &[&str]| run(&home, &fake.endpoint, &[&question[..], more].concat());
    let ran = ask(&["--gpus", "B200:8", "--purchase", "calendar"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let plan = ran.json();
    let best = &plan["recommendation"];
    assert_eq!(
        (best["zone_id"].as_str(), best["purchase"].as_str()),
        (Some("us-central1-c"), Some("calendar")),
        "{best:#}"
    );
    let booked = plan["warnings"].as_array().unwrap().iter().find(|note| note["kind"] == "booked").unwrap();
    let calls = fake.calls();
    let asked = calls.iter().find(|call| call.method == "compute.advice.calendarMode").unwrap();
    let machines = &asked.body["futureResourcesSpecs"]["machines"]["targetResources"]["specificSkuResources"];
    assert_eq!(
        (machines["machineType"].as_str(), &machines["instanceCount"]),
        (Some("a4-highgpu-8g"), &Value::from("1"))
    );
    assert_eq!(booked["booking"]["paid_hours"].as_u64().map(|hours| hours % 24), Some(0), "whole days: {booked}");
    assert!(best["run_hours"]["expected"].as_f64().unwrap() > 30.0, "it waits for its day");
    let queued = ask(&["--gpus", "H100:8", "--purchase", "flex-start"]);
    assert_eq!(queued.code, 0, "{}", queued.stderr);
    let best = queued.json()["recommendation"].clone();
    assert_eq!(
        (best["purchase"].as_str(), best["rate_usd_per_hour"].as_str()),
        (Some("flex-start"), Some("38.320038247"))
    );
    let long = ask(&["--gpus", "H100:8", "--purchase", "flex-start", "--set", "training.tokens=\"60B\""]);
    assert_eq!(long.code, 3, "{}{}", long.stdout, long.stderr);
    assert!(long.stderr.contains("is sold for"), "{}", long.stderr);
}
