//! A machine stays after its run, and the next launch takes it over: on the cloud of this machine, with nothing of the run before left.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::cli::launch::{
    PATIENCE, gpuplan, launched, machines, nothing_is_left, run, status, wait_for, wait_for_a_machine,
};
use crate::cli::support::Ran;

const CALM: [&str; 2] = ["--fake-scenario", "calm"];
/// Ten minutes here.
const LONG: [&str; 2] = ["--keep-warm", "100h"];
/// A second here.
const SHORT: [&str; 2] = ["--keep-warm", "10m"];

/// What a run finds of others on its machine: variables, files and processes.
const LOOK: &str = "test -e left.txt && echo 'a file of another run'; test -n \"$LEFT\" && echo 'a variable of another run'; \
     grep -slzx LEFT=warm-one /proc/[0-9]*/environ; echo looked";

fn launch(name: &str, more: &[&str], command: &str) -> Vec<String> {
    let mut words: Vec<String> =
        launched(name, &[&CALM[..], more].concat()).iter().map(|word| (*word).to_owned()).collect();
    words.pop();
    words.extend(["sh", "-c", command].map(str::to_owned));
    words
}

fn start(home: &Path, name: &str, more: &[&str], command: &str) -> Child {
    let words = launch(name, more, command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    gpuplan(home, &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn completed(home: &Path, name: &str, more: &[&str], command: &str) -> Ran {
    let ran = Ran::of(start(home, name, more, command).wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, format!("{name}: completed\n").as_str()), "{}", ran.stderr);
    ran
}

/// From and until when each machine of a run was paid for: seconds since 1970.
fn paid(home: &Path, name: &str) -> Vec<(String, f64, f64)> {
    let journal = rusqlite::Connection::open(home.join("launches.sqlite")).unwrap();
    let spec: String = journal.query_row("SELECT spec FROM runs WHERE run = ?1", [name], |row| row.get(0)).unwrap();
    let spec: Value = serde_json::from_str(&spec).unwrap();
    let start: jiff::Timestamp = spec["started_at"].as_str().unwrap().parse().unwrap();
    let at = |seconds: f64| start.as_millisecond() as f64 / 1e3 + seconds / 600.0;
    let mut rows = journal.prepare("SELECT id, since, until FROM machines WHERE run = ?1 ORDER BY since").unwrap();
    let rows = rows.query_map([name], |row| Ok((row.get(0)?, at(row.get(1)?), at(row.get(2)?)))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn the_next_launch_takes_the_machine_over_and_finds_nothing_of_the_run_before() {
    let home = tempfile::tempdir().unwrap();
    let first = "echo left >left.txt; sleep 1000 & exec ./train.py --out .";
    let first = first.replace("exec ./train.py --out .", concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py"));
    let ran = completed(home.path(), "one", &[&LONG[..], &["--env", "LEFT=warm-one"]].concat(), &first);
    assert!(ran.stderr.contains("min, which one pays for"), "{}", ran.stderr);
    let row = status(home.path(), "one");
    assert_eq!((row["state"].as_str(), row["machines"][0]["state"].as_str()), (Some("completed"), Some("running")));
    let strays = run(home.path(), &["gc", "--cloud", "fake", "--output", "json"]);
    assert_eq!(strays.json()["found"].as_array().map(Vec::len), Some(0), "it is no stray: {}", strays.stdout);

    let go = format!("{LOOK}; until test -e {}/go; do sleep 0.05; done", home.path().display());
    let second = start(home.path(), "two", &[], &go);
    wait_for_a_machine(home.path(), "two");
    let refused = run(home.path(), &["delete", "one", "-y"]);
    assert!(refused.code == 2 && refused.stderr.contains("two has the machine of one"), "{}", refused.stderr);
    let stopped = run(home.path(), &["stop", "one"]);
    assert_eq!(
        (stopped.code, stopped.stdout.as_str()),
        (0, "one: 0 machines ended, none is left\n"),
        "{}",
        stopped.stderr
    );
    assert_eq!(status(home.path(), "two")["state"], "running", "the machine of another run is left alone");
    std::fs::write(home.path().join("go"), "").unwrap();
    let ran = Ran::of(second.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "two: completed\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("of one is taken over: nothing is rented"), "{}", ran.stderr);
    assert_eq!(run(home.path(), &["logs", "two"]).stdout, "looked\n");
    assert_eq!(machines(home.path()).len(), 1, "one machine served both");
    let ([(one, _, until)], [(two, since, _)]) = (&paid(home.path(), "one")[..], &paid(home.path(), "two")[..]) else {
        panic!("{:?} {:?}", paid(home.path(), "one"), paid(home.path(), "two"));
    };
    assert_eq!(one, two);
    assert!((until - since).abs() < 5.0, "no second of it is paid twice or by nobody: until {until}, from {since}");
    nothing_is_left(home.path());
    assert_eq!(run(home.path(), &["delete", "one", "-y"]).code, 0);
}

/// It bears the tags of the first run to its end, and belongs to whichever has it: the second left it idle for a hundred hours, and for `gc` to end.
#[test]
fn a_machine_that_was_taken_over_is_kept_for_the_one_after_that() {
    let home = tempfile::tempdir().unwrap();
    completed(home.path(), "one", &LONG, "true");
    let second = completed(home.path(), "two", &LONG, "true");
    assert!(second.stderr.contains("of one is taken over"), "{}", second.stderr);
    let strays = run(home.path(), &["gc", "--cloud", "fake", "--output", "json"]);
    assert_eq!(strays.json()["found"].as_array().map(Vec::len), Some(0), "it is no stray: {}", strays.stdout);
    let go = format!("until test -e {}/go; do sleep 0.05; done", home.path().display());
    let third = start(home.path(), "three", &LONG, &go);
    wait_for_a_machine(home.path(), "three");
    for (name, has) in [("one", "two"), ("two", "three")] {
        let refused = run(home.path(), &["delete", name, "-y"]);
        let why = format!("{has} has the machine of {name}");
        assert!(refused.code == 2 && refused.stderr.contains(&why), "{}", refused.stderr);
        let stopped = run(home.path(), &["stop", name]);
        assert_eq!(stopped.stdout, format!("{name}: 0 machines ended, none is left\n"), "{}", stopped.stderr);
    }
    assert_eq!(status(home.path(), "three")["state"], "running", "the machine of another run is left alone");
    std::fs::write(home.path().join("go"), "").unwrap();
    let ran = Ran::of(third.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "three: completed\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("of two is taken over: nothing is rented"), "{}", ran.stderr);
    assert_eq!(machines(home.path()).len(), 1, "one machine served all three");
    let [(_, _, first)] = &paid(home.path(), "one")[..] else { panic!("{:?}", paid(home.path(), "one")) };
    let [(_, since, until)] = &paid(home.path(), "two")[..] else { panic!("{:?}", paid(home.path(), "two")) };
    let [(_, last, _)] = &paid(home.path(), "three")[..] else { panic!("{:?}", paid(home.path(), "three")) };
    assert!((first - since).abs() < 5.0 && (until - last).abs() < 5.0, "{first} {since}, {until} {last}");
    let stopped = run(home.path(), &["stop", "three"]);
    assert_eq!(stopped.stdout, "three: 1 machines ended, none is left\n", "{}", stopped.stderr);
    nothing_is_left(home.path());
}

#[test]
fn a_run_that_is_interrupted_on_a_machine_that_it_took_over_rents_the_next() {
    let home = tempfile::tempdir().unwrap();
    completed(home.path(), "one", &LONG, "true");
    let taken = machines(home.path())[0]["id"].as_str().unwrap().to_owned();
    let command = "test -n \"$GPUPLAN_RESUME_FROM\" && exit 0; mkdir -p $GPUPLAN_CKPT_DIR/step-1; touch $GPUPLAN_CKPT_DIR/step-1/.complete; \
         echo saved; sleep 600";
    let second = start(home.path(), "two", &[], command);
    wait_for(home.path(), &["status", "two", "--output", "json"], |ran| {
        ran.code == 0 && ran.json()["runs"][0]["progress"].as_f64() > Some(0.0)
    });
    std::fs::write(home.path().join("fake-cloud/machines").join(&taken).join("notice"), "terminate\n").unwrap();
    let ran = Ran::of(second.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "two: completed\n"), "{}", ran.stderr);
    let all: Vec<String> = machines(home.path()).iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert!(all.len() == 2 && all[0] == taken, "{all:?}: {}", ran.stderr);
    nothing_is_left(home.path());
}

#[test]
fn a_machine_that_does_not_fit_is_left_alone_and_why_is_said() {
    let home = tempfile::tempdir().unwrap();
    completed(home.path(), "one", &LONG, "true");
    let elsewhere = format!("file://{}/elsewhere", home.path().display());
    for (name, more, why) in [
        ("two", ["--store", elsewhere.as_str()], "it reads and writes file://"),
        ("three", ["--tag", "team=a"], "it bears other tags"),
        ("four", ["--fresh", "--accept-stale-prices"], ""),
    ] {
        let ran = completed(home.path(), name, &more, "true");
        let said = format!("the machine that one keeps warm is not taken over: {why}");
        assert_eq!(ran.stderr.contains(&said), !why.is_empty(), "{}", ran.stderr);
        assert!(!ran.stderr.contains("is taken over") && ran.stderr.contains("rented 1 x"), "{}", ran.stderr);
    }
    let before = paid(home.path(), "one")[0].2;
    let stopped = run(home.path(), &["stop", "one"]);
    assert_eq!(stopped.stdout, "one: 1 machines ended, none is left\n", "{}", stopped.stderr);
    assert!(paid(home.path(), "one")[0].2 < before - 60.0, "what did not wait is not paid for");
    nothing_is_left(home.path());
}

#[test]
fn a_machine_that_nobody_takes_ends_itself() {
    let home = tempfile::tempdir().unwrap();
    completed(home.path(), "one", &SHORT, "true");
    let until = Instant::now() + PATIENCE;
    while run(home.path(), &["gc", "--cloud", "fake"]).code == 0
        && machines(home.path()).iter().any(|one| one["state"] != "gone")
    {
        assert!(Instant::now() < until, "it waits for ever");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let ran = completed(home.path(), "two", &[], "true");
    assert!(!ran.stderr.contains("taken"), "{}", ran.stderr);
    let (gang, leader) = (["--max-nodes", "2", "--keep-warm", "1h"], ["--leader", "fake", "--keep-warm", "1h"]);
    for (more, why) in [(&leader[..], "cannot be used with"), (&gang[..], "")] {
        let words = launch("three", &[more, &["--dry-run"]].concat(), "true");
        let ran = run(home.path(), &words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
    nothing_is_left(home.path());
}
