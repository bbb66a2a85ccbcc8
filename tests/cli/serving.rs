//! Plans of served models: what the JSON says, what adds up, what is refused and with which way out.

use std::fs;

use serde_json::Value;

use crate::cli::support::{Ran, gpuplan, plan};

const SERVE: &str = "examples/serve-llama-3.1-8b.toml";
const BATCH: &str = "examples/batch-llama-3.1-8b.toml";

/// The example with lines of its own put in place of others.
fn changed(folder: &tempfile::TempDir, changes: &[(&str, &str)]) -> String {
    let mut text = fs::read_to_string(SERVE).unwrap();
    for (key, line) in changes {
        text = text
            .lines()
            .map(|old| if old.starts_with(key) { line.to_string() } else { old.to_owned() })
            .collect::<Vec<_>>()
            .join("\n");
    }
    let file = folder.path().join("serve.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn nanos(money: &Value) -> i128 {
    let text = money.as_str().unwrap();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<9}").parse().unwrap()
}

fn adds_up(plan: &Value) {
    let lines: i128 = plan["bill"].as_array().unwrap().iter().map(|line| nanos(&line["cost_usd"])).sum();
    assert_eq!(lines, nanos(&plan["cost_usd"]["expected"]), "{}", plan["id"]);
}

#[test]
fn a_service_states_load_latency_and_money_and_keeps_its_targets() {
    let document = plan("serve-llama-3.1-8b", &[]);
    assert_eq!(
        (
            document["workload"]["serving"]["requests_per_second"].as_f64(),
            document["workload"]["serving"]["hours"].as_f64()
        ),
        (Some(20.0), Some(730.0))
    );
    let plans: Vec<&Value> =
        ["frontier", "alternatives"].iter().flat_map(|key| document[*key].as_array().unwrap()).collect();
    assert!(plans.len() > 3);
    for plan in plans.into_iter().chain([&document["recommendation"]]) {
        adds_up(plan);
        let (first, token) = (&plan["latency_seconds"]["ttft"], &plan["latency_seconds"]["per_token"]);
        assert!(
            first["p50"].as_f64() <= first["p90"].as_f64() && first["p90"].as_f64().unwrap() <= 0.3,
            "{}",
            plan["id"]
        );
        assert!(token["expected"].as_f64().unwrap() <= 0.05, "{}", plan["id"]);
        assert!(
            plan["replicas"].as_u64().unwrap() >= 1 && plan["serving"]["load"].as_f64().unwrap() <= 0.8,
            "{}",
            plan["id"]
        );
        assert!(plan["checkpoint"].is_null() && plan["chance_by_deadline"].is_null());
        // 20 x 768 tokens a second for 730 hours.
        let tokens = 20.0 * 768.0 * 730.0 * 3600.0;
        let million = plan["usd_per_million_tokens"].as_str().unwrap().parse::<f64>().unwrap();
        let cost = plan["cost_usd"]["expected"].as_str().unwrap().parse::<f64>().unwrap();
        assert!((million * tokens / 1e6 / cost - 1.0).abs() < 1e-6);
    }
}

#[test]
fn a_billion_tokens_fill_the_memory_and_may_run_on_spot() {
    let document = plan("batch-llama-3.1-8b", &[]);
    let best = &document["recommendation"];
    adds_up(best);
    assert_eq!(document["workload"]["serving"]["requests"].as_f64(), Some(1e6));
    assert!(best["purchase"].as_str().unwrap().starts_with("spot"), "{}", best["id"]);
    assert!(best["serving"]["batch_limit"].as_u64().unwrap() > 64, "{}", best["serving"]);
    assert!(best["chance_by_deadline"].as_f64().unwrap() >= 0.9);
    let firm = plan("batch-llama-3.1-8b", &["--on-demand"]);
    assert_eq!(firm["recommendation"]["purchase"], "on-demand");
}

#[test]
fn spot_carries_a_service_only_with_spare_machines_and_places_enough() {
    let folder = tempfile::tempdir().unwrap();
    let ask = |availability: &str| {
        let file = changed(&folder, &[("availability", &format!("availability = {availability}"))]);
        gpuplan(&["plan", &file, "--cloud", "aws", "--spot", "--gpus", "L40S", "--output", "json"])
    };
    let strict = ask("0.999");
    assert_eq!(strict.code, 3, "{}", strict.stdout);
    assert!(
        strict.stderr.contains("may be lost together") && strict.stderr.contains("serving.availability = 0."),
        "{}",
        strict.stderr
    );
    let loose = ask("0.95").json();
    let best = &loose["recommendation"];
    assert_eq!(best["purchase"], "spot-with-fallback");
    adds_up(best);
    let standby = &best["serving"]["standby"];
    assert!(standby["too_few_replicas_share"].as_f64().unwrap() <= 0.05, "{standby}");
    let placed: u64 = standby["places"].as_array().unwrap().iter().map(|place| place["nodes"].as_u64().unwrap()).sum();
    assert_eq!(placed, best["nodes"].as_u64().unwrap());
    assert!(
        nanos(&best["cost_usd"]["p90"]) > nanos(&best["cost_usd"]["expected"]),
        "how long spot is gone is not known"
    );
}

#[test]
fn targets_and_lengths_that_cannot_be_kept_are_refused_with_the_nearest_fix() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |changes: &[(&str, &str)], code: i32| -> Ran {
        let ran = gpuplan(&["plan", &changed(&folder, changes)]);
        assert_eq!(ran.code, code, "{changes:?}: {}", ran.stdout);
        ran
    };
    let soon = refused(&[("time_to_first_token", "time_to_first_token = \"2ms\"")], 3);
    assert!(
        soon.stderr.contains("the first token takes") && soon.stderr.contains("serving.time_to_first_token = \""),
        "{}",
        soon.stderr
    );
    let long = refused(&[("prompt_tokens", "prompt_tokens = 140000")], 2);
    assert!(long.stderr.contains("reads 131072"), "{}", long.stderr);
    let alone = gpuplan(&[
        "plan",
        &changed(&folder, &[("preset", "preset = \"llama-3.1-70b\"")]),
        "--gpus",
        "H100:1",
        "--max-nodes",
        "1",
    ]);
    assert_eq!(alone.code, 3, "{}", alone.stdout);
    assert!(alone.stderr.contains("hint: --gpus H100:8 carries the work as it is"), "{}", alone.stderr);
    let instant = refused(&[("time_per_token", "time_per_token = \"0.1ms\"")], 3);
    assert!(instant.stderr.contains("0.10 ms are asked for"), "{}", instant.stderr);
}

#[test]
fn a_load_for_more_machines_than_are_looked_at_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let large = gpuplan(&["plan", &changed(&folder, &[("requests_per_second", "requests_per_second = 100000")])]);
    assert_eq!(large.code, 3, "{}", large.stdout);
    assert!(large.stderr.contains("more than the 64") && large.stderr.contains("--max-nodes 1"), "{}", large.stderr);
    let huge = gpuplan(&["plan", &changed(&folder, &[("requests_per_second", "requests_per_second = 5000000")])]);
    assert_eq!(huge.code, 3, "{}", huge.stdout);
    assert!(huge.stderr.contains("replicas of") && huge.stderr.contains("requests a second here"), "{}", huge.stderr);
    let few = gpuplan(&["plan", SERVE, "--gpus", "L40S:1", "--max-nodes", "1"]);
    assert_eq!(few.code, 3, "{}", few.stdout);
    assert!(few.stderr.contains("--max-nodes "), "{}", few.stderr);
}

#[test]
fn a_served_model_is_planned_and_not_run() {
    for arguments in [
        ["launch", SERVE, "--cloud", "fake", "-y", "--", "true"].as_slice(),
        &["launch", BATCH, "--cloud", "fake", "-y", "--", "true"],
        &["estimate", SERVE, "--gpus", "H100:1"],
    ] {
        let ran = gpuplan(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stdout);
        assert!(
            ran.stderr.contains("can only be planned") && ran.stderr.contains("gpuplan plan FILE"),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
    let money = gpuplan(&["budget", SERVE, "--output", "json"]).json();
    let planned = plan("serve-llama-3.1-8b", &[]);
    assert_eq!(money["total"]["cost_usd"]["expected"], planned["recommendation"]["cost_usd"]["expected"]);
    let page = gpuplan(&["report", SERVE, "--format", "md"]);
    assert_eq!(page.code, 0, "{}", page.stderr);
    let told = gpuplan(&["explain", SERVE]);
    assert!(told.code == 0 && told.stdout.contains("first token in"), "{}", told.stdout);
}

#[test]
fn a_small_model_fits_a_slice_of_a_card() {
    let folder = tempfile::tempdir().unwrap();
    let file = changed(
        &folder,
        &[("preset", "preset = \"qwen2.5-0.5b\""), ("requests_per_second", "requests_per_second = 0.5")],
    );
    let ran = gpuplan(&["plan", &file, "--on-demand", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let document = ran.json();
    let counted = document["counts"]["candidates"].as_u64().unwrap();
    assert!(counted > 100, "{counted}");
    let cost = document["recommendation"]["cost_usd"]["expected"].as_str().unwrap().parse::<f64>().unwrap();
    assert!(cost < 400.0, "half a request a second needs no large card: {cost}");
}

#[test]
fn the_page_of_a_service_says_what_its_users_see() {
    let ran = gpuplan(&["report", "examples/serve-llama-3.1-8b.toml", "--format", "md"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for words in ["It serves for 30.4 d.", "the first token after ", "A million tokens cost $0."] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("expected to end"), "{}", ran.stdout);
}
