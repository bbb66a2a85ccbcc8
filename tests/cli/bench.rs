//! `bench --simulate` from the suite to the plan: the table, the file, what a plan makes of it, and what is refused.

use std::fs;

use serde_json::Value;

use crate::support::{gpuplan, gpuplan_at};

const WORKLOAD: &str = "examples/llama-3.1-8b-finetune.toml";

fn simulated(gpu: &str) -> (tempfile::TempDir, String, Value) {
    let ran = gpuplan(&["bench", WORKLOAD, &format!("--simulate={gpu}"), "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calibration.json");
    fs::write(&path, &ran.stdout).unwrap();
    let value = ran.json();
    (folder, path.to_str().unwrap().to_owned(), value)
}

#[test]
fn the_file_names_what_was_measured_and_the_same_seed_gives_it_again() {
    let (_folder, _, calibration) = simulated("H100");
    assert_eq!((&calibration["version"], &calibration["simulated"]), (&1.into(), &true.into()));
    assert!(calibration["gpu"].as_str().unwrap().starts_with("h100"));
    assert_eq!(calibration["workload"]["model"], "llama-3.1-8b");
    let results = calibration["results"].as_array().unwrap();
    let named = |name: &str| results.iter().any(|one| one["benchmark"]["name"] == name);
    for name in ["feed-forward up, forward", "feed-forward up, input gradient", "feed-forward up, weight gradient", "output head, forward"]
    {
        assert!(named(name), "{name}");
    }
    assert!(results.iter().all(|one| one["statistics"]["median_seconds"].as_f64().unwrap() > 0.0));
    assert!(calibration["waived"].as_array().unwrap().iter().all(|one| !one["reason"].as_str().unwrap().is_empty()));
    assert_eq!(simulated("H100").2, calibration);
}

#[test]
fn the_table_shows_shares_and_spreads_and_what_was_waived_in_any_width() {
    for columns in ["80", "160"] {
        let ran = gpuplan_at(crate::support::NOW, columns, &["bench", WORKLOAD, "--simulate=L40S"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        for word in
            ["of peak", "spread", "TFLOP/s", "GB/s", "waived: peer copy", "A plan says: SIMULATED, not measured, on", "matmuls reach"]
        {
            assert!(ran.stdout.contains(word), "{word}\n{}", ran.stdout);
        }
        let widest = ran.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{widest} of {columns}\n{}", ran.stdout);
        assert!(ran.stderr.contains("nothing is kept"), "{}", ran.stderr);
    }
}

#[test]
fn a_calibration_changes_answer_and_band_and_the_notes_say_why() {
    let (_folder, path, _) = simulated("H100");
    let planned = |more: &[&str]| gpuplan(&[&["plan", WORKLOAD, "--gpus", "H100", "--output", "json"], more].concat()).json();
    let (before, measured) = (planned(&[]), planned(&["--calibration", &path]));
    let step = |plan: &Value, key: &str| plan["recommendation"]["step_seconds"][key].as_f64().unwrap();
    let longer = step(&measured, "expected") / step(&before, "expected");
    assert!(longer > 1.02, "the simulated card is slower than its model: {longer}");
    let width = |plan: &Value| step(plan, "high") / step(plan, "low");
    assert!(width(&measured) < width(&before), "{} {}", width(&measured), width(&before));
    let notes = measured["notes"].as_array().unwrap();
    let note = |word: &str| notes.iter().any(|note| note.as_str().unwrap().contains(word));
    assert!(note("SIMULATED, not measured, on H100") && note("of the peak") && note("measured on this model"), "{notes:?}");
    assert_eq!(before["inputs"]["measured_sha256"], Value::Null);
    assert_eq!(measured["inputs"]["measured_sha256"].as_str().unwrap().len(), 64);
    assert_eq!(planned(&["--calibration", "none"]), before);
}

#[test]
fn a_locked_plan_wants_the_calibration_it_rested_on() {
    let (folder, path, _) = simulated("H100");
    let plan = gpuplan(&["plan", WORKLOAD, "--gpus", "H100", "--output", "json", "--calibration", &path]);
    let locked = folder.path().join("plan.json");
    fs::write(&locked, &plan.stdout).unwrap();
    let locked = locked.to_str().unwrap();
    let again = gpuplan(&["plan", "--locked", locked, "--calibration", &path]);
    assert_eq!((again.code, again.stdout == plan.stdout), (0, true), "{}", again.stderr);
    let without = gpuplan(&["plan", "--locked", locked]);
    assert_eq!(without.code, 5);
    assert!(without.stderr.contains("other measurements"), "{}", without.stderr);
}

#[test]
fn a_file_that_is_no_calibration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.json");
    let refused = |text: &str| {
        fs::write(&path, text).unwrap();
        let ran = gpuplan(&["plan", WORKLOAD, "--calibration", path.to_str().unwrap()]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        ran.stderr
    };
    assert!(refused("{\"version\": 9}").contains("it has version 9; this program reads version 1"));
    assert!(refused("nonsense").contains("not JSON of a calibration"));
    let missing = gpuplan(&["plan", WORKLOAD, "--calibration", "no-such-file.json"]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("cannot read no-such-file.json") && missing.stderr.contains("gpuplan bench"), "{}", missing.stderr);
}

/// Machines of the project's tests have no GPU; one that has gets the other tests.
#[test]
fn without_a_gpu_bench_ends_with_the_usage_code_and_the_way_out() {
    let here = gpuplan(&["catalog", "gpus", "--here"]);
    if here.code == 0 {
        return;
    }
    let ran = gpuplan(&["bench"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.starts_with("error: nothing to measure on: ") && ran.stderr.contains("`gpuplan bench --simulate`"),
        "{}",
        ran.stderr
    );
    let slip = gpuplan(&["bench", "--simulate", "L40S"]);
    assert!(slip.code == 2 && slip.stderr.contains("--simulate=L40S"), "{}", slip.stderr);
}
