//! Real frameworks, where a Python with them is at hand: `GPUPLAN_TEST_PYTHON`, else `python3`. tests/slow.sh makes one.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::agent::bench::Bench;

fn python() -> String {
    std::env::var("GPUPLAN_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Says so where they are not at hand; a test that did not run never passes in silence.
fn has(modules: &str, test: &str) -> bool {
    let found = Command::new(python()).args(["-c", &format!("import {modules}")]).stderr(Stdio::null()).status();
    let has = found.is_ok_and(|status| status.success());
    if !has {
        let _ = writeln!(std::io::stderr(), "\nWAIVED {test}: {} has no {modules}; set GPUPLAN_TEST_PYTHON", python());
    }
    has
}

fn script(name: &str) -> String {
    format!("{}/tests/agent/frameworks/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn undisturbed(name: &str, steps: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python());
    command.args([&script(name), steps, "0"]).current_dir(folder.path()).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
    serde_json::from_slice(&std::fs::read(folder.path().join("result.json")).unwrap()).unwrap()
}

/// Interrupts at the words, one life each in an empty folder, then lets it finish. Gives what it came to.
fn interrupted(name: &str, steps: &str, framework: &str, lives: [(&str, &str); 3]) -> (Bench, serde_json::Value) {
    let (bench, python, script) = (Bench::new(), python(), script(name));
    let options = ["--framework", framework, "--grace", "20s"];
    for (number, (words, signal)) in lives.into_iter().enumerate() {
        let mut agent = bench.start(&format!("life-{number}"), &options, &[&python, &script, steps, "0.05"]);
        agent.wait_for(words);
        agent.signal(signal);
        agent.ends_with(75);
        bench.assert_whole();
    }
    let mut last = bench.start("last", &options, &[&python, &script, steps, "0"]);
    last.ends_with(0);
    let result = serde_json::from_str(&last.result()).unwrap();
    (bench, result)
}

#[test]
fn torch_resumes_bit_for_bit_after_three_interruptions() {
    if !has("torch", "torch_resumes_bit_for_bit") {
        return;
    }
    let lives = [("step 20 is safe", "TERM"), ("step 60 is safe", "USR1"), ("step 100 is safe", "INT")];
    let (_bench, result) = interrupted("torch_plain.py", "200", "auto", lives);
    assert_eq!(result, undisturbed("torch_plain.py", "200"));
}

/// Trainer saves on SIGTERM, three seconds later, and ends with 0 although work is left.
#[test]
fn the_trainer_of_transformers_resumes_where_it_stopped() {
    if !has("torch, transformers, accelerate", "the_trainer_of_transformers") {
        return;
    }
    let lives = [("hf: step 25\n", "TERM"), ("hf: step 130\n", "TERM"), ("hf: step 235\n", "TERM")];
    let (_bench, result) = interrupted("trainer_hf.py", "400", "hf", lives);
    assert_eq!(result, undisturbed("trainer_hf.py", "400"));
}

/// Lightning, too, ends with 0 and work left. With `save_on_exception` the step at which it stopped is kept.
#[test]
fn lightning_resumes_where_it_stopped() {
    if !has("torch, lightning", "lightning_resumes") {
        return;
    }
    let lives = [("lightning: step 25\n", "TERM"), ("lightning: step 50\n", "TERM"), ("lightning: step 85\n", "TERM")];
    let (_bench, result) = interrupted("trainer_lightning.py", "120", "lightning", lives);
    assert_eq!(result["steps"], 120);
    assert_eq!(result, undisturbed("trainer_lightning.py", "120"));
}

/// `import torch` takes seconds, in which no handler is installed: the program dies of the signal, and that is an interruption.
#[test]
fn a_notice_while_torch_is_imported_is_an_interruption() {
    if !has("torch", "a_notice_while_torch_is_imported") {
        return;
    }
    let (bench, python) = (Bench::new(), python());
    let mut agent =
        bench.start("a", &[], &[&python, "-c", "print('importing', flush=True); import torch, time; time.sleep(60)"]);
    agent.wait_for("importing");
    agent.signal("TERM");
    agent.ends_with(75);
    let result = bench.json("result.json");
    assert_eq!((result["outcome"].as_str(), result["exit"]["signal"].as_i64()), (Some("interrupted"), Some(15)));
}
