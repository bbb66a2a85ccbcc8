//! `diff`: why two plans, budgets or price lists differ, and guardrails that end with code 4.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cli::support::{NOW, Ran, gpuplan, gpuplan_in, plan};

fn compared(folder: &Path, before: &Value, after: &Value, more: &[&str]) -> Ran {
    fs::write(folder.join("before.json"), before.to_string()).unwrap();
    fs::write(folder.join("after.json"), after.to_string()).unwrap();
    let mut ran = gpuplan_in(folder, NOW, "100", &[&["diff", "before.json", "after.json"], more].concat());
    let folder = format!("{}/", folder.display());
    (ran.stdout, ran.stderr) = (ran.stdout.replace(&folder, ""), ran.stderr.replace(&folder, ""));
    ran
}

#[test]
fn a_longer_run_is_a_request_and_its_parts_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ["--gpus", "H100:8", "--on-demand"];
    let before = plan("llama-3.1-8b-finetune", &limits);
    let after = plan("llama-3.1-8b-finetune", &[&limits[..], &["--tokens", "150M"]].concat());
    let ran = compared(folder.path(), &before, &after, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    insta::assert_snapshot!("diff_of_plans", ran.stdout);
    insta::assert_snapshot!(
        "diff_of_plans_markdown",
        compared(folder.path(), &before, &after, &["--output", "markdown"]).stdout
    );
    let json = compared(folder.path(), &before, &after, &["--output", "json"]).json();
    let dollars = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    let change = dollars(&json["total"]["change_usd"]);
    let lines = json["lines"].as_array().unwrap();
    assert!((lines.iter().map(|line| dollars(&line["change_usd"])).sum::<f64>() - change).abs() < 1e-6);
    assert!(
        (change - dollars(&after["recommendation"]["cost_usd"]["expected"])
            + dollars(&before["recommendation"]["cost_usd"]["expected"]))
        .abs()
            < 1e-6
    );
    assert_eq!(json["reasons"][0]["cause"], "request");
}

#[test]
fn a_broken_guardrail_ends_with_code_4_and_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("house.toml");
    fs::write(&policy, "gpus = [\"A100\"]\n\n[guardrail]\nmax_increase_percent = 10\nmax_increase_usd = 100000\n")
        .unwrap();
    let before = plan("llama-3.1-8b-finetune", &["--gpus", "H100:8", "--on-demand"]);
    let after = plan("llama-3.1-8b-finetune", &["--gpus", "H100:8", "--on-demand", "--tokens", "150M"]);
    let ran = compared(folder.path(), &before, &after, &["--policy", policy.to_str().unwrap(), "--output", "markdown"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("- house.toml line 1: llama-3.1-8b-finetune: gpus does not list h100"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("- house.toml line 4: it costs "), "{}", ran.stdout);
    assert!(ran.stderr.contains("house.toml line 1: ") && ran.stderr.contains(", and 1 more"), "{}", ran.stderr);
    let ran = compared(folder.path(), &after, &after, &["--policy", policy.to_str().unwrap()]);
    assert_eq!(ran.code, 4, "a rule of the house holds without a change");
    fs::write(&policy, "gpus = [\"H100\"]\n[guardrail]\nmax_increase_percent = 10\n").unwrap();
    assert_eq!(
        compared(folder.path(), &after, &before, &["--policy", policy.to_str().unwrap()]).code,
        0,
        "less is always allowed"
    );
    fs::write(&policy, "[guardrail]\nmax_increase_percent = \"lots\"\n").unwrap();
    let ran = compared(folder.path(), &after, &before, &["--policy", policy.to_str().unwrap()]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("house.toml line 2: guardrail.max_increase_percent: `lots`"), "{}", ran.stderr);
}

#[test]
fn two_budgets_differ_by_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let text = |repeats: u32| {
        format!(
            "currency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-09\"\nmonths = 2\n[[team]]\nname = \"a\"\n[[run]]\nname = \"one\"\nteam = \"a\"\n\
             usd_per_hour = \"2\"\nhours = 10\ncloud = \"aws\"\nsource = \"s\"\nas_of = 2026-07-20\nrepeats = {repeats}\n[[run]]\nname = \"two\"\nteam = \"a\"\n\
             usd_per_hour = \"3\"\nhours = 10\ncloud = \"aws\"\nsource = \"s\"\nas_of = 2026-07-20\n"
        )
    };
    let budget = |text: String| {
        let path = folder.path().join("p.toml");
        fs::write(&path, text).unwrap();
        gpuplan(&["budget", path.to_str().unwrap(), "--output", "json"]).json()
    };
    let (before, after) = (budget(text(1)), budget(text(4).replace("\"two\"", "\"three\"")));
    let json = compared(folder.path(), &before, &after, &["--output", "json"]).json();
    assert_eq!(json["total"]["change_usd"], "60.00");
    let lines: Vec<(&str, &str)> = json["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["mark"].as_str().unwrap(), line["parts"][0]["cause"].as_str().unwrap()))
        .collect();
    assert_eq!(lines, [("changed", "request"), ("removed", "request"), ("added", "request")]);
    // Who is charged is a tag like the others.
    let policy = folder.path().join("house.toml");
    let held = |rule: &str| {
        fs::write(&policy, rule).unwrap();
        compared(folder.path(), &before, &after, &["--policy", policy.to_str().unwrap()])
    };
    assert_eq!(held("required_tags = [\"team\"]\n").code, 0);
    let ran = held("# of the house\nrequired_tags = [\"team\", \"project\"]\n");
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("house.toml line 2: one: required_tags lists `project`, which it does not bear, and 1 more"),
        "{}",
        ran.stderr
    );
    let table = compared(folder.path(), &before, &after, &[]).stdout;
    assert!(table.contains("$50.00 -> $110.00: +$60.00 (+120 %)"), "{table}");
}

#[test]
fn a_catalog_folder_is_a_price_list_and_other_files_are_refused() {
    let ran = gpuplan(&["diff", "catalogs", "catalogs", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.json()["lines"].as_array().unwrap().is_empty() && ran.json()["unchanged"].as_u64().unwrap() > 1000);
    let ran = gpuplan(&["diff", "Cargo.toml", "catalogs"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("Cargo.toml is not valid JSON"), "{}", ran.stderr);
    let folder = tempfile::tempdir().unwrap();
    let ran = compared(folder.path(), &serde_json::json!([]), &serde_json::json!({ "a": 1 }), &[]);
    assert!(ran.code == 2 && ran.stderr.contains("the second cannot be compared"), "{}", ran.stderr);
}

/// A bill with spot and a fallback has a price change for each of the two.
#[test]
fn a_plan_does_not_differ_from_itself() {
    let folder = tempfile::tempdir().unwrap();
    let one = plan("llama-3.1-8b-lora", &["--purchase", "spot-with-fallback"]);
    let bill = one["recommendation"]["bill"].as_array().unwrap();
    let named = bill.iter().filter(|line| line["item"] == "expected price change").count();
    assert_eq!(named, 2, "the case has an item twice");
    let json = compared(folder.path(), &one, &one, &["--output", "json"]).json();
    assert_eq!(json["lines"].as_array().unwrap().len(), 0, "{json}");
}
