//! What clouds told `doctor` of quotas holds for `plan`: what is over one gives way, with whose it is and how old; what nobody asked is unknown.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli::support::{NOW, Ran};

const LORA: &str = "examples/llama-3.1-8b-lora.toml";
const ACCOUNT: &str = "123456789012";
/// Eight days before the plans.
const ASKED_AT: &str = "2026-11-02T12:00:00Z";

/// With this as what clouds said; `None`: none was asked.
fn run(home: &Path, quotas: Option<&Value>, arguments: &[&str]) -> Ran {
    let file = home.join("quotas.json");
    match quotas {
        Some(quotas) => fs::write(&file, json!({"version": 1, "quotas": quotas}).to_string()).unwrap(),
        None => drop(fs::remove_file(&file)),
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(arguments).args(["--now", NOW]).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
    command.env("COLUMNS", "100").env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", home).stdin(Stdio::null());
    Ran::of(command.output().unwrap())
}

fn plan(home: &Path, quotas: Option<&Value>, more: &[&str]) -> Value {
    let ran = run(home, quotas, &[&["plan", LORA, "--cloud", "aws", "--on-demand", "-o", "json"], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()
}

/// Both quotas of on-demand GPUs in a region.
fn both(region: &str, limit: f64, used: Option<f64>) -> Value {
    let one = |code: &str, name: &str| {
        json!({"cloud": "aws", "account": ACCOUNT, "region": region, "code": code, "name": name, "unit": "vCPUs",
            "limit": limit, "used": used, "asked_at": ASKED_AT})
    };
    json!([
        one("L-DB2E81BA", "Running On-Demand G and VT instances"),
        one("L-417A185B", "Running On-Demand P instances")
    ])
}

fn kinds(document: &Value) -> Vec<&str> {
    document["warnings"].as_array().unwrap().iter().map(|warning| warning["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_plan_over_a_quota_that_is_known_gives_way_and_is_named() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let free = plan(home, None, &[]);
    let (id, region) = (&free["recommendation"]["id"], free["recommendation"]["region"].as_str().unwrap());
    assert_eq!(free["recommendation"]["quota"], json!({"state": "unknown"}), "nobody asked");
    assert!(kinds(&free).contains(&"quota-unknown"), "{:?}", kinds(&free));
    let none = both(region, 0.0, Some(0.0));
    let elsewhere = plan(home, Some(&none), &[]);
    let best = &elsewhere["recommendation"];
    assert!(best["region"] != *region && best["quota"]["state"] == "unknown", "{best:#}");
    let warnings = elsewhere["warnings"].as_array().unwrap();
    let better = warnings.iter().find(|warning| warning["kind"] == "better-beyond-quota").unwrap();
    assert_eq!((&better["plan"], &better["age_hours"]), (id, &json!(192.0)), "{better:#}");
    let text = better["sentence"].as_str().unwrap();
    for part in [ACCOUNT, region, "may run 0 vCPUs", "2026-11-02", "8 d ago", "gpuplan doctor"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for plan in crate::cli::support::plans(&elsewhere) {
        let is_there = plan["region"] == *region;
        assert_eq!(plan["quota"]["state"] == "exceeded", is_there, "{}", plan["id"]);
    }
}

#[test]
fn where_every_plan_is_over_the_quota_the_screen_says_whose_and_how_old() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let free = plan(home, None, &[]);
    let region = free["recommendation"]["region"].as_str().unwrap();
    let question = ["plan", LORA, "--cloud", "aws", "--on-demand", "--region", region];
    let shown = |quotas: Option<&Value>| {
        let ran = run(home, quotas, &question);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.lines().count() <= 24, "{}", ran.stdout);
        ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let unknown = shown(None);
    assert!(unknown.contains("quota not known: `gpuplan doctor` asks") && !unknown.contains("Quota:"), "{unknown}");
    let over = shown(Some(&both(region, 3.0, None)));
    for part in ["Quota: OVER IT:", "of 3 vCPUs (L-", region, ACCOUNT, "8 d ago"] {
        assert!(over.contains(part), "{part}: {over}");
    }
    let taken = shown(Some(&both(region, 10_000.0, Some(9999.0))));
    assert!(taken.contains("and 9999 of it in use then") && !taken.contains("OVER"), "{taken}");
    let within = shown(Some(&both(region, 10_000.0, Some(0.0))));
    assert!(!within.contains("Quota:") && !within.contains("quota not known"), "{within}");
}

#[test]
fn a_plan_that_is_made_again_rests_on_the_quotas_of_then_and_a_broken_file_on_none() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let free = plan(home, None, &[]);
    let region = free["recommendation"]["region"].as_str().unwrap();
    let none = both(region, 0.0, None);
    let asked = run(home, Some(&none), &["plan", LORA, "--cloud", "aws", "--on-demand", "-o", "json"]);
    let file = home.join("plan.json");
    fs::write(&file, &asked.stdout).unwrap();
    let again = run(home, None, &["plan", "--locked", file.to_str().unwrap()]);
    assert!(again.stdout == asked.stdout, "{}\n{}", again.stderr, again.stdout);
    for broken in ["", "{", "{\"version\": 9, \"quotas\": []}", "[]"] {
        fs::write(home.join("quotas.json"), broken).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command.args(["plan", LORA, "--cloud", "aws", "--on-demand", "-o", "json", "--now", NOW]).env_clear();
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", home);
        let ran = Ran::of(command.stdin(Stdio::null()).output().unwrap());
        assert_eq!((ran.code, &ran.json()["recommendation"]["id"]), (0, &free["recommendation"]["id"]), "{broken}");
        assert!(ran.stderr.contains("quotas.json") && ran.stderr.contains("not known"), "{broken}: {}", ran.stderr);
    }
}
