//! The process that leads a run, at the fake cloud: a machine that freezes, a name that is used again, a second leader, and stopping.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::cli::launch::{
    HOLD, PATIENCE, gpuplan, launched, nothing_is_left, run, spawn, status, wait_for, wait_for_a_machine,
};
use crate::cli::support::Ran;

const TRAINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py");

fn scenario(home: &Path, text: &str) -> String {
    let path = home.join("scenario.toml");
    fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

/// Until it is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn machines(home: &Path) -> Vec<Value> {
    let state = fs::read_to_string(home.join("fake-cloud/state.json")).unwrap_or_default();
    // The cloud may be writing it.
    let state: Value = serde_json::from_str(&state).unwrap_or_default();
    state["machines"].as_array().into_iter().flatten().map(|kept| kept["machine"].clone()).collect()
}

/// The machine that was rented last.
fn newest(home: &Path) -> String {
    let begun = Instant::now();
    loop {
        if let Some(machine) = machines(home).last() {
            return machine["id"].as_str().unwrap().to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "no machine is listed");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// What the agent of the first machine says.
fn word(home: &Path, name: &str) -> Value {
    let path = home.join("fake-cloud/store/runs").join(name).join("status/0.json");
    fs::read_to_string(path).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// A run whose program saves only when it is told to stop, and waits for that at step 60.
fn saves_when_told(home: &Path, name: &str, more: &[&str]) {
    let command = format!("{HOLD}; exec {TRAINER} --every 1000 $hold");
    let more = [more, &["--detach"]].concat();
    let mut words = launched(name, &more);
    words.truncate(words.len() - 1);
    let ran = run(home, &[&words[..], &["sh", "-c", &command]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    until("the program comes to step 60", || word(home, name)["progress"] == 60);
}

fn to_every_process(home: &Path, machine: &str, signal: rustix::process::Signal) {
    let folder = fs::canonicalize(home.join("fake-cloud/machines").join(machine)).unwrap();
    let mark = format!("GPUPLAN_MACHINE_FOLDER={}", folder.display());
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_its = environ.split(|byte| *byte == 0).any(|one| one == mark.as_bytes());
        let pid = entry.file_name().to_string_lossy().parse::<i32>().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_its) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

#[test]
fn a_machine_that_freezes_is_noticed_and_replaced() {
    let home = tempfile::tempdir().unwrap();
    let scenario = scenario(home.path(), "silence_seconds = 2.0\n");
    let command = format!("{HOLD}; exec {TRAINER} $hold");
    let mut words = launched("frozen", &["--fake-scenario", &scenario]);
    words.truncate(words.len() - 1);
    let words = [&words[..], &["sh", "-c", &command]].concat();
    let leader = gpuplan(home.path(), &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("something is safe", || word(home.path(), "frozen")["committed"].is_object());
    let id = newest(home.path());
    // Every process of the machine stands still, and is there.
    to_every_process(home.path(), &id, rustix::process::Signal::STOP);
    let ran = Ran::of(leader.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "frozen: completed\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing was heard for too long"), "{}", ran.stderr);
    nothing_is_left(home.path());
}

/// EC2 remembers the token of a machine for a day after it is gone, and refuses it with other parameters.
#[test]
fn a_name_is_used_again_after_its_run_was_deleted() {
    let home = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let ran = run(home.path(), &launched("again", &["--fake-scenario", "calm"]));
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "again: completed\n"), "{}", ran.stderr);
        assert_eq!(run(home.path(), &["down", "again", "-y"]).code, 0);
    }
    nothing_is_left(home.path());
}

/// The answer to an order is lost with its leader, and lists show the machine only later.
#[test]
fn stopping_waits_for_what_was_ordered_and_is_not_listed_yet() {
    std::thread::scope(|scope| {
        for words in [&["stop", "late", "--at-once"][..], &["down", "late", "-y"], &["gc", "--cloud", "fake", "-y"]] {
            scope.spawn(move || {
                let home = tempfile::tempdir().unwrap();
                let scenario = scenario(home.path(), "latency_seconds = 2.0\nlist_late_seconds = 4.0\n");
                let mut leader = spawn(home.path(), "late", &["--fake-scenario", &scenario]);
                until("there is a machine", || !machines(home.path()).is_empty());
                leader.kill().unwrap();
                leader.wait().unwrap();
                let ran = run(home.path(), words);
                assert_eq!(ran.code, 0, "{words:?}: {}", ran.stderr);
                let states: Vec<Value> = machines(home.path()).iter().map(|machine| machine["state"].clone()).collect();
                assert_eq!(states, ["gone"], "{words:?}: {}{}", ran.stdout, ran.stderr);
            });
        }
    });
}

#[test]
fn stopping_lets_the_program_save() {
    let home = tempfile::tempdir().unwrap();
    saves_when_told(home.path(), "saves", &["--fake-scenario", "calm"]);
    let stopped = run(home.path(), &["stop", "saves"]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("saves has saved and ended: step 60 is safe"), "{}", stopped.stderr);
    nothing_is_left(home.path());
    let resumed = run(home.path(), &["resume", "saves"]);
    assert_eq!((resumed.code, resumed.stdout.as_str()), (0, "saves: completed\n"), "{}", resumed.stderr);
    let logs = run(home.path(), &["logs", "saves"]).stdout;
    assert!(logs.contains("train: from step 60 of 120"), "{logs}");
    nothing_is_left(home.path());
}

/// Nobody had told its program, which lost what it had done since it saved last.
#[test]
fn a_machine_whose_lease_ends_is_followed_and_nothing_is_repeated() {
    let home = tempfile::tempdir().unwrap();
    let command = format!("{HOLD}; exec {TRAINER} --every 1000 $hold");
    // Twenty seconds here, of which the last quarter is the notice.
    let mut words = launched("ends", &["--fake-scenario", "calm"]);
    words.truncate(words.len() - 1);
    let lifetime = words.iter().position(|word| *word == "--lifetime").unwrap();
    words[lifetime + 1] = "200m";
    let ran = run(home.path(), &[&words[..], &["sh", "-c", &command]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ends: completed\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("its lease ends, and its work is saved"), "{}", ran.stderr);
    let logs = run(home.path(), &["logs", "ends"]).stdout;
    assert!(logs.contains("train: from step 60 of 120"), "{logs}");
    assert_eq!(machines(home.path()).len(), 2, "the first, and the one that follows it");
    nothing_is_left(home.path());
}

#[test]
fn stopping_now_does_not_wait() {
    let home = tempfile::tempdir().unwrap();
    saves_when_told(home.path(), "now", &["--fake-scenario", "calm"]);
    let stopped = run(home.path(), &["stop", "now", "--at-once"]);
    assert_eq!(
        (stopped.code, stopped.stdout.as_str()),
        (0, "now: 1 machines ended, none is left\n"),
        "{}",
        stopped.stderr
    );
    assert!(word(home.path(), "now")["committed"].is_null(), "it had no time to save");
    nothing_is_left(home.path());
}

#[test]
fn a_second_leader_is_refused_unless_it_takes_over() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut leader = spawn(first.path(), "same", &["--fake-scenario", "calm"]);
    wait_for_a_machine(first.path(), "same");
    let store = format!("file://{}", first.path().join("fake-cloud/store").display());
    let refused = run(second.path(), &launched("same", &["--fake-scenario", "calm", "--store", &store]));
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("has been leading this run since") && refused.stderr.contains("--take-over"),
        "{}",
        refused.stderr
    );
    assert!(!second.path().join("fake-cloud/state.json").exists(), "nothing was rented");
    assert_eq!(status(first.path(), "same")["state"], "running", "and the first leads on");
    let other = ["--fake-scenario", "calm", "--store", &store, "--take-over", "--detach"];
    let taken = run(second.path(), &launched("same", &other));
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    assert!(leader.wait().unwrap().success(), "who led it hears that it does not any more");
    assert_eq!(status(first.path(), "same")["state"], "running", "and ends nothing that is not its own");
    for home in [first.path(), second.path()] {
        assert_eq!(run(home, &["stop", "same", "--at-once"]).code, 0);
        wait_for(home, &["gc", "--cloud", "fake"], |ran| ran.code == 0 && ran.stdout.is_empty());
    }
}

/// Two computers of one account: here, two journals of one cloud.
#[test]
fn stopping_a_run_that_is_led_elsewhere_rents_nothing_more() {
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    saves_when_told(here.path(), "far", &["--fake-scenario", "calm"]);
    std::os::unix::fs::symlink(here.path().join("fake-cloud"), elsewhere.path().join("fake-cloud")).unwrap();
    let store = format!("file://{}", here.path().join("fake-cloud/store").display());
    let adopted = run(elsewhere.path(), &["adopt", "far", "--store", &store, "--cloud", "fake", "-y"]);
    assert_eq!(adopted.code, 0, "{}", adopted.stderr);
    let leader = gpuplan(elsewhere.path(), &["watch", "far", "--take-over"]).stdout(Stdio::null()).spawn().unwrap();
    let leads = here.path().join("fake-cloud/store/runs/far/lead-keeps/2");
    until("the other one leads", || leads.exists());
    let stopped = run(here.path(), &["stop", "far"]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("far has saved and ended: step 60 is safe"), "{}", stopped.stderr);
    let ended = leader.wait_with_output().unwrap();
    assert!(ended.status.success(), "it hears that it leads no more");
    assert_eq!(machines(here.path()).len(), 1, "the end of its machine is no interruption");
    nothing_is_left(here.path());
}

/// The journal here knows nothing of the machine that the other leader rents: it is shown all the same, and no stray.
#[test]
fn what_another_leader_rents_is_seen_from_here() {
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    saves_when_told(here.path(), "seen", &["--fake-scenario", "calm"]);
    std::os::unix::fs::symlink(here.path().join("fake-cloud"), elsewhere.path().join("fake-cloud")).unwrap();
    let store = format!("file://{}", here.path().join("fake-cloud/store").display());
    assert_eq!(run(elsewhere.path(), &["adopt", "seen", "--store", &store, "--cloud", "fake", "-y"]).code, 0);
    let leader = gpuplan(elsewhere.path(), &["watch", "seen", "--take-over"]).stdout(Stdio::null()).spawn().unwrap();
    let leads = here.path().join("fake-cloud/store/runs/seen/lead-keeps/2");
    until("the other one leads", || leads.exists());
    to_every_process(here.path(), &newest(here.path()), rustix::process::Signal::KILL);
    until("another machine is rented", || machines(here.path()).len() == 2);
    let strays = run(here.path(), &["gc", "--cloud", "fake"]);
    assert_eq!((strays.code, strays.stdout.as_str()), (0, ""), "{}", strays.stderr);
    let shown = status(here.path(), "seen");
    assert_eq!(shown["machines"].as_array().map(Vec::len), Some(2), "{shown}");
    assert_eq!((&shown["state"], &shown["relaunches"]), (&"running".into(), &1.into()), "{shown}");
    assert_eq!(run(here.path(), &["stop", "seen", "--at-once"]).code, 0);
    assert!(leader.wait_with_output().unwrap().status.success(), "it hears that it leads no more");
    nothing_is_left(here.path());
}

/// It was said that $3.50 were the worst of a run that was expected to cost $13.95.
#[test]
fn at_worst_is_no_less_than_what_is_expected() {
    let home = tempfile::tempdir().unwrap();
    let example =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/llama-3.1-8b-finetune.toml")).unwrap();
    let without: Vec<&str> = example.lines().filter(|line| !line.starts_with("budget")).collect();
    let file = home.path().join("job.toml").display().to_string();
    fs::write(&file, without.join("\n")).unwrap();
    for purchase in ["spot", "on-demand"] {
        let words = ["launch", &file, "--cloud", "fake", "--lifetime", "1h", "--purchase", purchase];
        let ran = run(home.path(), &[&words[..], &["--dry-run", "--", "sh"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let line = ran.stderr.lines().find(|line| line.starts_with("cost ")).unwrap().to_owned();
        let dollars: Vec<f64> = line
            .split('$')
            .skip(1)
            .map(|rest| rest.split([' ', ';']).next().unwrap().replace(',', "").parse().unwrap())
            .collect();
        let [expected, likely, worst] = dollars[..] else { panic!("{line}") };
        assert!(expected <= likely && likely <= worst, "{line}");
    }
}

/// No process of the user is left once the command has ended: the machine that leads sees the run through an interruption.
#[test]
fn a_machine_of_its_own_leads_a_run_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &launched("led", &["--leader", "fake"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "led\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("led       by a machine of its own, t3.small"), "{}", ran.stderr);
    until("the run has ended", || status(home.path(), "led")["state"] == "completed");
    until("its leader has ended", || status(home.path(), "led-leader")["state"] == "completed");
    let told = status(home.path(), "led");
    assert!(told["relaunches"].as_u64() >= Some(1) && told["cost_usd"] != "0", "{told}");
    nothing_is_left(home.path());
    assert_eq!(run(home.path(), &["delete", "led", "-y"]).code, 0);
    let all = run(home.path(), &["status", "-o", "json"]).json();
    assert_eq!(all["runs"], serde_json::json!([]), "the leader's run goes with the one that it led");
}

#[test]
fn stopping_a_run_ends_the_machine_that_leads_it() {
    let home = tempfile::tempdir().unwrap();
    saves_when_told_by_a_leader(home.path(), "halted");
    let ran = run(home.path(), &["stop", "halted"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(status(home.path(), "halted")["state"], "stopped");
    nothing_is_left(home.path());
}

/// As `saves_when_told`, led by a machine.
fn saves_when_told_by_a_leader(home: &Path, name: &str) {
    let command = format!("{HOLD}; exec {TRAINER} --every 1000 $hold");
    let mut words = launched(name, &["--leader", "fake", "--fake-scenario", "calm"]);
    words.truncate(words.len() - 1);
    let ran = run(home, &[&words[..], &["sh", "-c", &command]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    until("the program comes to step 60", || word(home, name)["progress"] == 60);
}
