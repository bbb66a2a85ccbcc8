//! What a launch says while it waits, and of a hundred machines; and how fast, on a machine that does nothing else (tests/slow.sh).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpuplan::launch::events::Order;
use gpuplan::launch::launcher::Machine;
use gpuplan::launch::{Journal, RunSpec};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::launch::{PATIENCE, gpuplan, launched, run, spawn, status, wait_for_a_machine};
use crate::cli::support::Ran;

/// From the yes to the first call. The best of a few launches counts: other work on this machine is not the launch's.
#[test]
#[ignore = "measures; meant for a release build"]
fn the_first_call_follows_the_yes_within_150_ms() {
    let delay = |name: &str| {
        let home = tempfile::tempdir().unwrap();
        let words = launched(name, &["--fake-scenario", "calm"]);
        let mut leader = gpuplan(home.path(), &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let file = home.path().join("fake-cloud/state.json");
        let until = Instant::now() + PATIENCE;
        let created = loop {
            let state: Value = std::fs::read_to_string(&file)
                .ok()
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default();
            if let Some(at) = state["machines"][0]["machine"]["created_at"].as_str() {
                break at.parse::<Timestamp>().unwrap();
            }
            assert!(Instant::now() < until, "no machine came");
            std::thread::sleep(Duration::from_millis(20));
        };
        // The specification is dated when the question is put, and `-y` has answered it already.
        let agreed: Timestamp = status(home.path(), name)["started_at"].as_str().unwrap().parse().unwrap();
        assert_eq!(run(home.path(), &["stop", name]).code, 0);
        leader.wait().unwrap();
        created.duration_since(agreed).as_secs_f64()
    };
    let mut delays = Vec::new();
    let is_met = (0..6).any(|launch| {
        delays.push(delay(&format!("launch-{launch}")));
        delays[launch] <= 0.150
    });
    println!("from the yes to the first call: {delays:?} s");
    assert!(is_met, "{delays:?} s");
}

/// What a leader says of a run that ends once it has said `words` more lines after it rented a machine, with the time of each.
fn said_while_waiting(words: usize) -> Vec<(Instant, String)> {
    let home = tempfile::tempdir().unwrap();
    let go = home.path().join("go");
    let command = format!("until test -e {}; do sleep 0.05; done", go.display());
    let question = [
        "launch",
        "llama-3.1-8b-finetune.toml",
        "--cloud",
        "fake",
        "--fake-scenario",
        "calm",
        "--lifetime",
        "1000h",
        "--max-nodes",
        "1",
        "-y",
    ];
    let job = ["--run", "long", "--", "sh", "-c", &command];
    let mut leader = gpuplan(home.path(), &[&question[..], &job].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut said, mut since) = (Vec::new(), None);
    for line in BufReader::new(leader.stderr.take().unwrap()).lines() {
        said.push((Instant::now(), line.unwrap()));
        since = since.or(said[said.len() - 1].1.contains("rented 1 x").then_some(said.len()));
        if since.is_some_and(|since| said.len() >= since + words) {
            std::fs::write(&go, "").unwrap();
        }
    }
    assert!(leader.wait().unwrap().success(), "{said:?}");
    said.drain(..since.unwrap() - 1);
    said
}

/// Where nobody looks at a terminal, lines come, as often as it takes.
#[test]
fn who_waits_hears_a_word_again_and_again() {
    let said = said_while_waiting(2);
    assert!(said.len() >= 3, "{said:?}");
}

#[test]
#[ignore = "measures; meant for a release build"]
fn who_waits_hears_a_word_every_five_seconds() {
    let said = said_while_waiting(3);
    let longest = said.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
    println!("longest time without a word: {longest:?}");
    assert!(longest <= Duration::from_secs(5), "{longest:?} without a word: {said:?}");
}

/// Processes that stand for machines, and end with the test.
struct Machines(Vec<Child>);

impl Drop for Machines {
    fn drop(&mut self) {
        for machine in &mut self.0 {
            let _ = machine.kill();
            let _ = machine.wait();
        }
    }
}

/// Ten runs with ten machines each, at a cloud that takes so long to answer. Seconds.
fn a_hundred_machines(home: &Path, latency: f64) -> Machines {
    let (mut processes, mut kept) = (Machines(Vec::new()), Vec::new());
    let mut leader = spawn(home, "first", &["--fake-scenario", "calm"]);
    wait_for_a_machine(home, "first");
    assert_eq!(run(home, &["stop", "first"]).code, 0);
    leader.wait().unwrap();
    let mut journal = Journal::open(&home.join("launches.sqlite")).unwrap();
    let spec = journal.run("first").unwrap().unwrap().spec;
    let (now, expires_at) = (Timestamp::now(), "2999-01-01T00:00:00Z");
    for number in 0..10 {
        let spec = RunSpec { run: format!("run-{number}"), nodes: 10, started_at: now, ..spec.clone() };
        assert!(journal.begin(&spec).unwrap());
        let offered = spec.places().next().unwrap();
        let choice = offered.choice();
        for node in 0..10 {
            let (id, token) = (format!("fake-{number}-{node}"), format!("{number} {node}"));
            let order = Order {
                epoch: 1,
                node,
                choice: choice.clone(),
                token: token.clone(),
                name: id.clone(),
                lifetime: 3600.0,
                ledger: gpuplan::runstore::Ledger::default(),
            };
            assert!(journal.intend(&spec.run, 1000 + u64::from(node), &order, 0.0).unwrap());
            journal.answer(&token, &id, true).unwrap();
            let machine = json!({"id": id, "run": spec.run, "epoch": 1, "node": node, "token": token, "pool": choice.pool, "state": "running",
                "reason": null, "was_taken": false, "created_at": now, "expires_at": expires_at});
            let machine: Machine = serde_json::from_value(machine).unwrap();
            journal.found(&spec.run, &machine, &choice, 0.0).unwrap();
            let folder = home.join("fake-cloud/machines").join(&machine.id.0);
            let process = Command::new("sleep")
                .arg("600")
                .env("GPUPLAN_MACHINE_FOLDER", folder)
                .stdin(Stdio::null())
                .spawn()
                .unwrap();
            kept.push(json!({"machine": machine, "pid": process.id(), "taken_at": null, "noticed_at": null}));
            processes.0.push(process);
        }
    }
    let state = json!({"scenario": {"latency_seconds": latency}, "orders": 100, "machines": kept});
    std::fs::write(home.join("fake-cloud/state.json"), state.to_string()).unwrap();
    processes
}

fn running(ran: &Ran) -> usize {
    let rows = ran.json();
    let machines = rows["runs"].as_array().unwrap().iter().flat_map(|row| row["machines"].as_array().unwrap());
    machines.filter(|machine| machine["state"] == "running").count()
}

/// The answer is the cloud's, and not what the journal last heard.
#[test]
fn every_one_of_a_hundred_machines_is_asked_after() {
    let home = tempfile::tempdir().unwrap();
    let mut machines = a_hundred_machines(home.path(), 0.0);
    let ran = run(home.path(), &["status", "--output", "json"]);
    assert_eq!(running(&ran), 100, "{}", ran.stderr);
    for gone in machines.0.drain(..30) {
        drop(Machines(vec![gone]));
    }
    let ran = run(home.path(), &["status", "--output", "json"]);
    assert_eq!(running(&ran), 70, "{}", ran.stderr);
}

#[test]
#[ignore = "measures; meant for a release build"]
fn the_status_of_a_hundred_machines_takes_a_second_at_most() {
    let home = tempfile::tempdir().unwrap();
    let _machines = a_hundred_machines(home.path(), 0.05);
    let look = || {
        let begun = Instant::now();
        let ran = run(home.path(), &["status", "--output", "json"]);
        let took = begun.elapsed();
        assert_eq!(running(&ran), 100, "{}", ran.stderr);
        took
    };
    let looks = [look(), look(), look()];
    println!("status of 100 machines: {looks:?}");
    assert!(looks.iter().min().unwrap() <= &Duration::from_secs(1), "{looks:?}");
    assert!(looks.iter().all(|took| *took >= Duration::from_millis(50)), "the cloud was asked: {looks:?}");
}
