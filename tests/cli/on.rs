//! `launch --on ENGINE` over clients that behave as help texts and sources say (Slurm is tried for real in tests/slurm.sh): handed over, asked,
//! read, stopped, forgotten; and what is refused.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::support::Ran;
use gpuplan_testbed::clients::Clients;

const PLAN: &str = "tests/fixtures/plans/one-node.json";

/// With these clients alone on the path.
fn run(clients: &Clients, home: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(arguments).current_dir(home).env_clear().stdin(Stdio::null());
    command.env("PATH", clients.path()).env("GPUPLAN_HOME", home).env("GPUPLAN_OFFLINE", "1").env("COLUMNS", "100");
    let output = command.output().unwrap();
    Ran {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}

fn launched(clients: &Clients, home: &Path, engine: &str, more: &[&str]) -> Ran {
    let (plan, store) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(PLAN), format!("file://{}/store", home.display()));
    let plan = plan.to_string_lossy().into_owned();
    let words = [
        "launch",
        &plan,
        "--on",
        engine,
        "--run",
        "handed",
        "--store",
        &store,
        "--framework",
        "none",
        "--image",
        "registry/train:3",
    ];
    run(clients, home, &[&words[..], more, &["-y", "--", "python3", "train.py"]].concat())
}

fn status(clients: &Clients, home: &Path) -> Value {
    let ran = run(clients, home, &["status", "handed", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()["runs"][0].clone()
}

fn life(engine: &str, running: &str) {
    let (clients, home) = (Clients::of(engine), tempfile::tempdir().unwrap());
    let home = home.path();
    let ran = launched(&clients, home, engine, &["--rate", "30"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "handed\n"), "{engine}: {}", ran.stderr);
    assert!(ran.stderr.contains("at $30.00 an hour a machine"), "{}", ran.stderr);
    assert_eq!(status(&clients, home)["state"], "launching");
    let again = launched(&clients, home, engine, &[]);
    assert_eq!((again.code, clients.submissions()), (2, 1), "a name is handed over once: {}", again.stderr);
    clients.is_now(running);
    let row = status(&clients, home);
    assert_eq!((row["state"].as_str(), row["engine"].as_str()), (Some("running"), Some(engine)));
    assert!(
        row["expected_cost_usd"].is_string() && row["machines"][0]["pool"].as_str().unwrap().starts_with(engine),
        "{row}"
    );
    std::fs::write(home.join("gpuplan-handed.out"), "step 1 of 2\n").unwrap();
    let logs = run(&clients, home, &["logs", "handed"]);
    assert_eq!((logs.code, logs.stdout.as_str()), (0, "step 1 of 2\n"), "{}", logs.stderr);
    let stopped = run(&clients, home, &["stop", "handed"]);
    assert!(stopped.code == 0 && stopped.stdout.contains("is stopped"), "{}{}", stopped.stdout, stopped.stderr);
    assert_eq!(status(&clients, home)["state"], "stopped");
    let table = run(&clients, home, &["status"]);
    assert!(table.stdout.contains("handed") && table.stdout.contains("stopped"), "{}", table.stdout);
    let down = run(&clients, home, &["down", "handed", "-y"]);
    assert!(down.code == 0 && down.stdout.contains("had already ended"), "{}{}", down.stdout, down.stderr);
    assert_eq!(run(&clients, home, &["status", "handed"]).code, 2, "it is forgotten");
}

#[test]
fn a_run_lives_on_slurm() {
    life("slurm", "RUNNING");
}

#[test]
fn a_run_lives_on_kubernetes() {
    life("kubernetes", "running");
}

#[test]
fn a_run_lives_on_skypilot() {
    life("skypilot", "RUNNING");
}

#[test]
fn a_submission_whose_answer_is_lost_is_found_again() {
    let (clients, home) = (Clients::of("slurm"), tempfile::tempdir().unwrap());
    clients.loses_answers();
    let ran = launched(&clients, home.path(), "slurm", &[]);
    assert_eq!(ran.code, 9, "{}", ran.stderr);
    let row = status(&clients, home.path());
    assert_eq!(
        (row["job"].as_str(), row["state"].as_str(), row["cost_usd"].is_null()),
        (Some("17"), Some("launching"), true)
    );
    assert_eq!(clients.submissions(), 1);
}

#[test]
fn what_cannot_be_handed_over_says_why_and_leaves_nothing() {
    let (none, slurm, home) = (Clients::of("none"), Clients::of("slurm"), tempfile::tempdir().unwrap());
    let missing = launched(&none, home.path(), "slurm", &[]);
    assert!(
        missing.code == 2 && missing.stderr.contains("not installed") && missing.stderr.contains("slurm-client"),
        "{}",
        missing.stderr
    );
    let unknown = launched(&none, home.path(), "nomad", &[]);
    assert!(unknown.code == 2 && unknown.stderr.contains("slurm, kubernetes, skypilot"), "{}", unknown.stderr);
    let dry = launched(&slurm, home.path(), "slurm", &["--dry-run"]);
    assert!(dry.code == 0 && dry.stdout.starts_with("#!/usr/bin/env bash\n#SBATCH"), "{}", dry.stderr);
    assert!(dry.stderr.contains("not counted"), "{}", dry.stderr);
    assert_eq!(run(&slurm, home.path(), &["status", "--output", "json"]).json()["runs"], Value::Array(Vec::new()));
    assert_eq!(slurm.submissions(), 0);
}
