//! `bench --simulate` from the suite to the plan: the table, the file, what a plan makes of it, and what is refused.

use std::fs;

use serde_json::Value;

use crate::cli::support::{gpuplan, gpuplan_at};

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
    for name in [
        "feed-forward up, forward",
        "feed-forward up, input gradient",
        "feed-forward up, weight gradient",
        "output head, forward",
    ] {
        assert!(named(name), "{name}");
    }
    assert!(results.iter().all(|one| one["statistics"]["median_seconds"].as_f64().unwrap() > 0.0));
    assert!(calibration["waived"].as_array().unwrap().iter().all(|one| !one["reason"].as_str().unwrap().is_empty()));
    assert_eq!(simulated("H100").2, calibration);
}

#[test]
fn the_table_shows_shares_and_spreads_and_what_was_waived_in_any_width() {
    for columns in ["80", "160"] {
        let ran = gpuplan_at(crate::cli::support::NOW, columns, &["bench", WORKLOAD, "--simulate=L40S"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        for word in [
            "of peak",
            "spread",
            "TFLOP/s",
            "GB/s",
            "waived: peer copy",
            "A plan says: SIMULATED, not measured, on",
            "matmuls reach",
        ] {
            assert!(ran.stdout.contains(word), "{word}\n{}", ran.stdout);
        }
        let widest = ran.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{widest} of {columns}\n{}", ran.stdout);
        assert!(ran.stderr.contains("nothing is stored"), "{}", ran.stderr);
    }
}

#[test]
fn a_calibration_changes_answer_and_band_and_the_notes_say_why() {
    let (_folder, path, _) = simulated("H100");
    let planned =
        |more: &[&str]| gpuplan(&[&["plan", WORKLOAD, "--gpus", "H100", "--output", "json"], more].concat()).json();
    let (before, measured) = (planned(&[]), planned(&["--calibration", &path]));
    let step = |plan: &Value, key: &str| plan["recommendation"]["step_seconds"][key].as_f64().unwrap();
    let longer = step(&measured, "expected") / step(&before, "expected");
    assert!(longer > 1.02, "the simulated card is slower than its model: {longer}");
    let width = |plan: &Value| step(plan, "high") / step(plan, "low");
    assert!(width(&measured) < width(&before), "{} {}", width(&measured), width(&before));
    let notes = measured["notes"].as_array().unwrap();
    let note = |word: &str| notes.iter().any(|note| note.as_str().unwrap().contains(word));
    assert!(
        note("SIMULATED, not measured, on H100") && note("of the peak") && note("measured on this model"),
        "{notes:?}"
    );
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
    assert!(
        missing.stderr.contains("there is no file no-such-file.json") && missing.stderr.contains("gpuplan bench"),
        "{}",
        missing.stderr
    );
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

/// A calibration of sizes alone, changed, as a file.
fn changed(change: impl Fn(&mut Value)) -> (tempfile::TempDir, String) {
    let mut calibration = gpuplan(&["bench", "--simulate=H100", "--output", "json"]).json();
    change(&mut calibration);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calibration.json");
    fs::write(&path, calibration.to_string()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// Seconds of arithmetic and what the notes of a plan say, for a model on an H100.
fn planned_on_h100(model: &str, calibration: &str) -> (f64, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.toml");
    let text = format!(
        "[model]\npreset = \"{model}\"\n[training]\ntask = \"pretrain\"\ntokens = \"1B\"\nsequence_length = 1024\nglobal_batch = 64\n\
         precision = \"bf16\"\n"
    );
    fs::write(&file, text).unwrap();
    let plan = gpuplan(&[
        "plan",
        file.to_str().unwrap(),
        "--gpus",
        "H100:8",
        "--calibration",
        calibration,
        "--output",
        "json",
    ])
    .json();
    (plan["recommendation"]["step_seconds"]["expected"].as_f64().unwrap(), plan["notes"].to_string())
}

#[test]
fn a_card_that_is_bad_at_small_products_changes_the_plan_of_a_small_model_alone() {
    let (_plain, plain) = changed(|_| {});
    let (_bad, bad) = changed(|calibration| {
        for one in calibration["results"].as_array_mut().unwrap() {
            let is_small =
                one["benchmark"]["work"]["kind"] == "matmul" && one["benchmark"]["work"]["m"].as_u64().unwrap() <= 2048;
            let seconds = one["statistics"]["median_seconds"].as_f64().unwrap();
            one["statistics"]["median_seconds"] = (seconds * if is_small { 2.0 } else { 1.0 }).into();
        }
    });
    let slower = |model| planned_on_h100(model, &bad).0 / planned_on_h100(model, &plain).0;
    let (small, large) = (slower("gpt-2"), slower("llama-2-7b"));
    // Of the large one, attention over short sequences alone is small work.
    assert!(small > 1.1 && large > 0.999 && large - 1.0 < (small - 1.0) / 5.0, "{small} {large}");
    let (_, notes) = planned_on_h100("gpt-2", &bad);
    assert!(notes.contains(", at 17 GFLOP ") && notes.contains(" at 17 GFLOP to x "), "{notes}");
}

#[test]
fn a_measured_host_bounds_a_run_that_says_what_a_sample_costs() {
    let images = "examples/resnet-50-imagenet.toml";
    let planned = |file: &str, calibration: &str| {
        gpuplan(&["plan", file, "--gpus", "h100-sxm5-80", "--calibration", calibration, "--output", "json"]).json()
    };
    let host = |decode: f64, read: Option<f64>| {
        changed(move |calibration| {
            calibration["host"] = serde_json::json!({
                "processor": "Test", "cores": 10, "decode_bytes_per_second_one_core": 1e8, "decode_bytes_per_second": decode * 1e8,
                "read_bytes_per_second": read, "read_bytes": read.map(|_| 1e9), "waived": []
            });
        })
    };
    let cost = |plan: &Value| plan["recommendation"]["cost_usd"]["expected"].as_str().unwrap().parse::<f64>().unwrap();
    let ((_one, without), (_two, idle), (_three, busy)) = (changed(|_| {}), host(10.0, None), host(1.0, None));
    let (plain, fast, slow) = (planned(images, &without), planned(images, &idle), planned(images, &busy));
    assert!(cost(&fast) < 1.3 * cost(&plain), "{} {}", cost(&plain), cost(&fast));
    // Ten cores that load as one does: what every machine loads is a tenth, and longer runs cost more.
    assert!(cost(&slow) > 1.5 * cost(&fast), "{} {}", cost(&fast), cost(&slow));
    assert_eq!(slow["recommendation"]["bound_by"], "input: cpu decode");
    let notes = slow["notes"].to_string();
    assert!(notes.contains("10 cores load as 1.0 do alone; counted on machines with this GPU"), "{notes}");
    // What another workload reads is not said, so nothing is counted and the notes tell how to say it.
    let other = planned(WORKLOAD, &busy);
    assert_eq!(cost(&other), cost(&planned(WORKLOAD, &without)));
    assert!(other["notes"].to_string().contains("data.cpu_seconds_per_sample"), "{}", other["notes"]);
}
