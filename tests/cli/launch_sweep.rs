//! A sweep on the cloud of this machine: many runs beside each other, a machine that is killed in the middle, runs that fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::launch::{HOLD, PATIENCE, gpuplan, nothing_is_left, run, status};

const TRAINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py");

/// A question with a small sweep in it.
fn question(home: &Path, sweep: &str) -> PathBuf {
    let path = home.join("sweep.toml");
    let job = "model.preset = \"llama-3.1-8b\"\ntraining = { task = \"lora\", steps = 120, global_batch = 16, sequence_length = 2048 }\n";
    std::fs::write(&path, format!("{job}[sweep]\n{sweep}\n")).unwrap();
    path
}

fn launched(home: &Path, name: &str, sweep: &str, command: &[&str]) -> Child {
    let file = question(home, sweep);
    let words = ["launch", file.to_str().unwrap(), "--cloud", "fake", "--gpus", "A100:8", "--lifetime", "1000h", "-y"];
    let words = [&words[..], &["--run", name, "--fake-scenario", "calm", "--"]].concat();
    let said = std::fs::File::create(home.join("said")).unwrap();
    gpuplan(home, &[&words[..], command].concat()).stdout(Stdio::null()).stderr(said).spawn().unwrap()
}

fn said(home: &Path) -> String {
    std::fs::read_to_string(home.join("said")).unwrap()
}

/// Until the status of the run is so.
fn until(home: &Path, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let known = home.join("launches.sqlite").exists() && run(home, &["status", name]).code == 0;
        let row = if known { status(home, name) } else { Value::Null };
        if is_so(&row) {
            return row;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {row:#}\n{}", said(home));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The power fails: every process of the machine is killed at once, and nobody said a word.
fn kill(home: &Path, machine: &str) {
    let mark = format!("GPUPLAN_MACHINE_FOLDER={}", home.join("fake-cloud/machines").join(machine).display());
    let is_marked = |pid: &str| {
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
    };
    loop {
        let entries =
            std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let found: Vec<String> =
            entries.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && is_marked(name)).collect();
        if found.is_empty() {
            return;
        }
        let _ = Command::new("kill").arg("-9").args(&found).stderr(Stdio::null()).status().unwrap();
    }
}

/// What every run of the sweep left on any machine, by its name.
fn results(home: &Path) -> BTreeMap<String, String> {
    let machines = std::fs::read_dir(home.join("fake-cloud/machines")).unwrap().flatten();
    let runs = machines
        .flat_map(|machine| std::fs::read_dir(machine.path().join("work/sweep")).into_iter().flatten().flatten());
    let result = |run: std::fs::DirEntry| {
        Some((run.file_name().into_string().unwrap(), std::fs::read_to_string(run.path().join("result.json")).ok()?))
    };
    runs.filter_map(result).collect()
}

fn undisturbed(index: usize) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = Command::new(TRAINER);
    trainer
        .args(["--seed", &index.to_string(), "--seconds-per-step", "0"])
        .current_dir(folder.path())
        .stderr(Stdio::null());
    assert!(trainer.status().unwrap().success());
    std::fs::read_to_string(folder.path().join("result.json")).unwrap()
}

#[test]
fn a_sweep_survives_its_machine_and_repeats_nothing_that_is_completed() {
    let home = tempfile::tempdir().unwrap();
    // The first two runs are completed when the machine dies; the next two have saved half of their steps, and the last did not begin.
    let command = format!(
        "case $GPUPLAN_SWEEP_INDEX in 2|3) {HOLD} ;; *) hold= ;; esac; \
         echo index $GPUPLAN_SWEEP_INDEX of $GPUPLAN_SWEEP_RUNS on $CUDA_VISIBLE_DEVICES; exec {TRAINER} --seconds-per-step 0.005 $hold"
    );
    let mut leader = launched(home.path(), "many", "runs = 5\nparallel = 2", &["sh", "-c", &command]);
    let is_midway =
        |row: &Value| row["sweep"]["completed"].as_u64() >= Some(2) && row["progress"].as_f64() > Some(0.55);
    let row = until(home.path(), "many", "two runs and half of two others", is_midway);
    assert_eq!(row["sweep"]["runs"], 5, "{row:#}");
    let first = row["machines"][0]["id"].as_str().unwrap().to_owned();
    kill(home.path(), &first);
    assert!(leader.wait().unwrap().success(), "{}", said(home.path()));
    let row = status(home.path(), "many");
    assert_eq!(
        (row["state"].as_str(), row["relaunches"].as_u64()),
        (Some("completed"), Some(1)),
        "{row:#}\n{}",
        said(home.path())
    );
    assert_eq!(row["sweep"], serde_json::json!({"runs": 5, "completed": 5, "running": 0, "waiting": 0, "failed": []}));
    let expected: BTreeMap<String, String> =
        (0..5).map(|index| (format!("many-{index:03}"), undisturbed(index))).collect();
    assert_eq!(results(home.path()), expected, "neither neighbours nor a lost machine change a result");
    let log = run(home.path(), &["logs", "many"]).stdout;
    for completed in ["many-000", "many-001"] {
        // The last words of a machine that died may be lost with it.
        assert!(
            log.matches(&format!("run {completed} starts")).count() <= 1,
            "what is completed is not run again: {log}"
        );
    }
    assert!(log.contains("already completed"), "{log}");
    // Each run has its own output, card and checkpoints.
    let run_log = run(home.path(), &["logs", "many", "--index", "4"]).stdout;
    assert!(run_log.contains("index 4 of 5 on ") && !run_log.contains("index 3"), "{run_log}");
    let fetched = home.path().join("fetched");
    let ran = run(home.path(), &["fetch", "many", fetched.to_str().unwrap(), "--index", "3"]);
    assert!(ran.code == 0 && ran.stdout.contains("step-000120"), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(run(home.path(), &["fetch", "many"]).code, 2);
    let beyond = run(home.path(), &["logs", "many", "--index", "5"]);
    assert!(beyond.code == 2 && beyond.stderr.contains("has 5 runs"), "{}", beyond.stderr);
    nothing_is_left(home.path());
    let gone = run(home.path(), &["down", "many", "-y"]);
    assert_eq!(gone.code, 0, "{}", gone.stderr);
    let left: Vec<_> =
        std::fs::read_dir(home.path().join("fake-cloud/store/runs")).into_iter().flatten().flatten().collect();
    let objects = left
        .iter()
        .filter(|run| run.path().join("manifests").read_dir().is_ok_and(|mut all| all.next().is_some()))
        .count();
    assert_eq!(objects, 0, "{left:?}");
}

#[test]
fn runs_that_fail_are_named_and_the_others_go_on() {
    let home = tempfile::tempdir().unwrap();
    let command = format!("test $GPUPLAN_SWEEP_INDEX != 1 || exit 127; exec {TRAINER} --seconds-per-step 0.001");
    let mut leader = launched(home.path(), "some", "runs = 3\nparallel = 8", &["sh", "-c", &command]);
    assert_eq!(leader.wait().unwrap().code(), Some(1), "{}", said(home.path()));
    assert!(said(home.path()).contains("1 runs of the sweep: some-001"), "{}", said(home.path()));
    let row = status(home.path(), "some");
    assert_eq!((row["state"].as_str(), row["sweep"]["completed"].as_u64()), (Some("failed"), Some(2)), "{row:#}");
    assert_eq!(row["sweep"]["failed"], serde_json::json!([{"index": 1, "run": "some-001", "why": "exit code 127"}]));
    let shown = run(home.path(), &["status", "some"]);
    assert!(
        shown.stdout.contains("2 of 3 runs") && shown.stderr.contains("gpuplan logs some --index 1"),
        "{}{}",
        shown.stdout,
        shown.stderr
    );
    nothing_is_left(home.path());
}

#[test]
fn a_plan_of_a_sweep_fills_one_machine_and_pays_it_once() {
    let plan = |more: &[&str]| {
        let ran = crate::cli::support::gpuplan(&[&["plan", "examples/sweep.toml", "--output", "json"], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.json()["recommendation"].clone()
    };
    let eight = plan(&["--gpus", "A100:8"]);
    let sweep = &eight["sweep"];
    assert_eq!((eight["nodes"].as_u64(), eight["gpus_per_node"].as_u64()), (Some(1), Some(8)));
    assert_eq!(
        (sweep["runs"].as_u64(), sweep["side_by_side"].as_u64(), sweep["rounds"].as_u64()),
        (Some(64), Some(8), Some(8))
    );
    assert_eq!(eight["layout"]["data"], 1, "each run has one card: {}", eight["layout"]);
    let one = plan(&["--gpus", "A100:1"]);
    assert_eq!((one["sweep"]["side_by_side"].as_u64(), one["sweep"]["rounds"].as_u64()), (Some(1), Some(64)));
    let hours = |plan: &Value| plan["sweep"]["run_hours"].as_f64().unwrap();
    assert!(
        (hours(&eight) / hours(&one) - 1.0).abs() < 0.3,
        "a run is as fast beside others: {} and {}",
        hours(&eight),
        hours(&one)
    );
    let all = |plan: &Value| plan["gpu_hours"].as_f64().unwrap();
    assert!((all(&eight) / hours(&eight) - 64.0).abs() < 1e-6, "every run is paid, once: {}", all(&eight));
    let ran = crate::cli::support::gpuplan(&["plan", "examples/sweep.toml", "--gpus", "A100:8", "--details"]);
    assert!(ran.stdout.contains("64 runs, 8 at a time on one machine, 1 GPU each, 8 rounds of "), "{}", ran.stdout);
}
