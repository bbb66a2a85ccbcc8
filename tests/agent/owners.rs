//! Two agents on one run: the old one is fenced, a living one is left alone.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::agent::bench::{Agent, Bench, TRAINER, kill_programs, processes_with, undisturbed};

#[test]
fn a_stopped_owner_is_replaced_after_three_heartbeats_and_fenced_when_it_wakes() {
    let bench = Bench::new();
    let mut old = bench.start("old", &["--machine", "one"], &[TRAINER, "--hold-at", "10"]);
    old.wait_until_safe(1);
    old.signal("STOP");
    let begun = Instant::now();
    let mut new = bench.start("new", &["--machine", "two"], &[TRAINER]);
    new.wait_for("epoch 2");
    assert!(begun.elapsed() >= Duration::from_millis(600), "it watched for three heartbeats");
    new.wait_for("is safe");
    old.signal("CONT");
    old.ends_with(76);
    new.ends_with(0);
    assert_eq!(new.result(), undisturbed());
    assert_eq!(processes_with(&bench.path("store").display().to_string()), [0_i32; 0]);
    bench.assert_whole();
    assert_eq!(bench.json("result.json")["epoch"], 2, "the fenced one recorded nothing");
}

#[test]
fn a_living_owner_is_left_alone() {
    let mut bench = Bench::new();
    // Three of them without one mean that it is gone: none is so late, even on a busy machine.
    bench.heartbeat("5s");
    let mut first = bench.start("a", &["--machine", "one"], &[TRAINER, "--hold-at", "20"]);
    first.wait_for("epoch 1");
    for machine in ["one", "two"] {
        let mut second = bench.start("b", &["--machine", machine], &[TRAINER]);
        second.ends_with(76);
        assert!(second.log().contains("is alive on"), "{}", second.log());
    }
    assert!(!first.has_ended());
    first.signal("TERM");
    first.ends_with(75);
}

#[test]
fn of_two_that_start_at_once_one_owns_the_run() {
    let mut bench = Bench::new();
    bench.heartbeat("5s");
    let mut agents: Vec<_> = (0..4)
        .map(|number| bench.start(&number.to_string(), &["--machine", &number.to_string()], &["sleep", "600"]))
        .collect();
    while agents.len() > 1 {
        let ended = agents.iter_mut().position(Agent::has_ended);
        if let Some(mut agent) = ended.map(|at| agents.remove(at)) {
            agent.ends_with(76);
        }
        sleep(Duration::from_millis(5));
    }
    agents[0].wait_for("epoch 1");
    agents[0].signal("TERM");
    agents[0].ends_with(75);
}

#[test]
fn after_the_agent_was_killed_its_program_is_ended_before_the_next_starts() {
    let bench = Bench::new();
    let mut agent = bench.start("a", &[], &[TRAINER, "--steps", "100000"]);
    agent.wait_until_safe(20);
    let store = bench.path("store").display().to_string();
    let orphans = processes_with(&store);
    agent.kill();
    assert!(!orphans.is_empty() && processes_with(&store) == orphans);
    let mut next = bench.start("a", &[], &["sh", "-c", "echo resumed from $GPUPLAN_RESUME_FROM; sleep 600"]);
    next.wait_for("resumed from /");
    assert!(!next.log().contains("watching for its heartbeat"), "it is known to be gone: {}", next.log());
    assert!(processes_with(&store).iter().all(|pid| !orphans.contains(pid)));
    next.signal("TERM");
    next.ends_with(75);
}

#[test]
fn force_takes_a_run_from_a_stopped_owner_on_the_same_machine() {
    let bench = Bench::new();
    let mut old = bench.start("a", &[], &[TRAINER, "--hold-at", "10"]);
    old.wait_until_safe(1);
    old.signal("STOP");
    let mut new = bench.start("b", &["--force"], &[TRAINER]);
    new.ends_with(0);
    assert_eq!(new.result(), undisturbed());
    assert_eq!(old.wait().code(), None, "it was killed with its program");
}

/// An owner that is stopped between its last look and its commit may still commit; that must not branch the history.
#[test]
fn a_late_commit_of_the_old_owner_is_passed_over() {
    // However far the first had come, what it committed is there.
    const KEEP: [&str; 2] = ["--keep-last", "20"];
    let bench = Bench::new();
    let mut first = bench.start("a", &KEEP, &[TRAINER, "--hold-at", "20"]);
    first.wait_until_safe(1);
    first.signal("KILL");
    first.wait();
    kill_programs(&bench.path("store").display().to_string());
    let mut second = bench.start("b", &KEEP, &[TRAINER, "--hold-at", "40"]);
    second.wait_for("is safe");
    let newest = bench.committed().unwrap();
    second.signal("TERM");
    second.ends_with(75);
    // Epoch 1 commits a step that is ahead of epoch 2, with data that would verify.
    let manifests = bench.objects("manifests");
    let own =
        manifests.iter().find(|path| path.display().to_string().contains("-e1.json")).expect("one of epoch 1 is kept");
    let mut late: serde_json::Value = serde_json::from_slice(&std::fs::read(own).unwrap()).unwrap();
    late["step"] = (newest + 50).into();
    std::fs::write(own.with_file_name(format!("step-{:012}-e1.json", newest + 50)), late.to_string()).unwrap();
    let mut third = bench.start("c", &[], &[TRAINER]);
    third.ends_with(0);
    assert!(third.log().contains("of epoch 2"), "{}", third.log());
    assert_eq!(third.result(), undisturbed());
}
