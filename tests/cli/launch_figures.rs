//! How fast a launch answers: to the first call of a cloud, while it waits, and what runs on a hundred machines.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpuplan::launch::events::Order;
use gpuplan::launch::launcher::Machine;
use gpuplan::launch::{Choice, Journal, RunSpec};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::launch::{gpuplan, launched, run, spawn, status, wait_for_a_machine};

/// From the yes to the first call. The best of a few launches counts: other work on this machine is not the launch's.
#[test]
fn the_first_call_follows_the_yes_within_150_ms() {
    let delay = |name: &str| {
        let home = tempfile::tempdir().unwrap();
        let words = launched(home.path(), name, &["--fake-scenario", "calm"]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut leader = gpuplan(home.path(), &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let file = home.path().join("fake-cloud/state.json");
        let until = Instant::now() + Duration::from_mins(1);
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

/// Where nobody looks at a terminal, lines come.
#[test]
fn who_waits_hears_a_word_every_five_seconds() {
    let home = tempfile::tempdir().unwrap();
    let words = [
        &[
            "launch",
            "llama-3.1-8b-finetune.toml",
            "--cloud",
            "fake",
            "--fake-scenario",
            "calm",
            "-y",
            "--run",
            "long",
            "--",
        ][..],
        &["sleep", "9"],
    ];
    let mut leader =
        gpuplan(home.path(), &words.concat()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = vec![];
    for line in BufReader::new(leader.stderr.take().unwrap()).lines() {
        said.push((Instant::now(), line.unwrap()));
    }
    said.push((Instant::now(), "the end".to_owned()));
    assert!(leader.wait().unwrap().success(), "{said:?}");
    let rented = said.iter().position(|(_, line)| line.contains("rented 1 x")).unwrap();
    let longest = said[rented..].windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
    println!("longest time without a word: {longest:?}");
    assert!(longest <= Duration::from_secs(5), "{longest:?} without a word: {said:?}");
    assert!(said[said.len() - 1].0 - said[rented].0 > Duration::from_secs(8), "it had to wait: {said:?}");
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

#[test]
fn the_status_of_a_hundred_machines_takes_a_second_at_most() {
    let (home, mut processes, mut kept) = (tempfile::tempdir().unwrap(), Machines(Vec::new()), Vec::new());
    let mut leader = spawn(home.path(), "first", &["--fake-scenario", "calm"]);
    wait_for_a_machine(home.path(), "first");
    assert_eq!(run(home.path(), &["stop", "first"]).code, 0);
    leader.wait().unwrap();
    // Ten more runs like it, with ten machines each.
    let mut journal = Journal::open(&home.path().join("launches.sqlite")).unwrap();
    let spec = journal.run("first").unwrap().unwrap().spec;
    let (now, expires_at) = (Timestamp::now(), "2999-01-01T00:00:00Z");
    for number in 0..10 {
        let spec = RunSpec { run: format!("run-{number}"), nodes: 10, started_at: now, ..spec.clone() };
        assert!(journal.begin(&spec).unwrap());
        let offered = spec.places().next().unwrap();
        let choice = Choice { pool: offered.pool.clone(), rate: offered.rate_usd_per_hour, rule: offered.billing };
        for node in 0..10 {
            let (id, token) = (format!("fake-{number}-{node}"), format!("{number} {node}"));
            let order = Order {
                epoch: 1,
                node,
                choice: choice.clone(),
                token: token.clone(),
                name: id.clone(),
                lifetime: 3600.0,
            };
            journal.intend(&spec.run, 1000 + u64::from(node), &order, 0.0).unwrap();
            journal.answer(&token, &id, true).unwrap();
            let machine = json!({"id": id, "run": spec.run, "epoch": 1, "node": node, "token": token, "pool": choice.pool, "state": "running",
                "reason": null, "was_taken": false, "created_at": now, "expires_at": expires_at});
            let machine: Machine = serde_json::from_value(machine).unwrap();
            journal.found(&spec.run, &machine, &choice, 0.0).unwrap();
            let folder = home.path().join("fake-cloud/machines").join(&machine.id.0);
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
    let state = json!({"scenario": {"latency_seconds": 0.05}, "orders": 100, "machines": kept});
    std::fs::write(home.path().join("fake-cloud/state.json"), state.to_string()).unwrap();
    let look = || {
        let begun = Instant::now();
        let ran = run(home.path(), &["status", "--output", "json"]);
        let took = begun.elapsed();
        let rows = ran.json();
        let machines = rows.as_array().unwrap().iter().flat_map(|row| row["machines"].as_array().unwrap());
        assert_eq!(machines.filter(|machine| machine["state"] == "running").count(), 100, "{}", ran.stderr);
        took
    };
    let looks = [look(), look(), look()];
    println!("status of 100 machines: {looks:?}");
    assert!(looks.iter().min().unwrap() <= &Duration::from_secs(1), "{looks:?}");
    assert!(looks.iter().all(|took| *took >= Duration::from_millis(50)), "the cloud was asked: {looks:?}");
}
