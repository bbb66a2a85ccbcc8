//! One agent after the other on the same run: finished, killed, interrupted, crashed.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::agent::bench::{Bench, TRAINER, kill_programs, processes_with, undisturbed};

/// Every second life commits a step of 120 at least, so there are no more.
const MOST_LIVES: u64 = 250;

#[test]
fn an_undisturbed_run_is_not_changed_and_a_finished_one_finishes_again() {
    let bench = Bench::new();
    let mut agent = bench.start("a", &[], &[TRAINER]);
    agent.ends_with(0);
    assert_eq!(agent.result(), undisturbed());
    // Three are kept; on a busy machine more of them are overtaken before they are sent.
    assert_eq!(bench.committed(), Some(120));
    assert!((1..=3).contains(&bench.objects("manifests").len()));
    assert_eq!(bench.json("result.json")["outcome"], "completed");
    let mut again = bench.start("b", &[], &[TRAINER]);
    again.ends_with(0);
    assert_eq!(again.result(), undisturbed());
    assert!(
        again.log().contains("restored step 120") && again.log().contains("from step 120 of 120"),
        "{}",
        again.log()
    );
    bench.assert_whole();
}

/// Kills the agent, and in every other life its program too, some time after its start or after the next step is safe, each life in an
/// empty folder or in the one that the last left behind.
fn sweep(seed: u64, same_folder: bool) {
    let bench = Bench::new();
    let mut committed = 0;
    for life in 0_u64.. {
        assert!(life < MOST_LIVES, "it never ends");
        let folder = if same_folder { "a".to_owned() } else { format!("life-{life}") };
        let mut agent = bench.start(&folder, &["--keep-last", "2"], &[TRAINER, "--every", "3", "--keep", "4"]);
        if life % 2 == 1 {
            agent.lives_until(|agent| agent.safe_step() > Some(committed));
        }
        sleep(Duration::from_millis((life * 137 + seed * 61) % 1900));
        if agent.has_ended() {
            agent.ends_with(0);
            assert_eq!(agent.result(), undisturbed());
            break;
        }
        agent.kill();
        if life % 2 == 0 {
            kill_programs(&bench.path("store").display().to_string());
        }
        bench.assert_whole();
        let now = bench.committed().unwrap_or(0);
        assert!(now >= committed, "step {committed} was committed and is lost: {now}");
        committed = now;
    }
    bench.assert_whole();
}

#[test]
fn killed_at_any_moment_it_goes_on_in_an_empty_folder() {
    sweep(1, false);
}

#[test]
fn killed_at_any_moment_it_goes_on_where_it_was() {
    sweep(2, true);
}

#[test]
fn on_a_signal_the_program_saves_and_the_next_agent_goes_on() {
    let bench = Bench::new();
    for (life, name) in (0..).zip(["TERM", "USR1", "INT"]) {
        let step = 10 + life * 20;
        let mut agent = bench.start(&format!("{life}"), &[], &[TRAINER, "--hold-at", &step.to_string()]);
        agent.wait_until_safe(step);
        agent.signal(name);
        agent.signal(name);
        agent.ends_with(75);
        let stopped: u64 =
            agent.log().split("interrupted at step ").nth(1).unwrap().trim().lines().next().unwrap().parse().unwrap();
        assert_eq!(bench.committed(), Some(stopped), "the very step at which it stopped is safe");
        assert_eq!(bench.json("result.json")["outcome"], "interrupted");
    }
    let mut last = bench.start("last", &[], &[TRAINER]);
    last.ends_with(0);
    assert_eq!(last.result(), undisturbed());
}

#[test]
fn the_user_chooses_the_signal() {
    let bench = Bench::new();
    let script = "trap 'echo by $0 USR1; exit 0' USR1; trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut agent = bench.start("a", &["--signal", "USR1"], &["sh", "-c", script]);
    agent.wait_for("ready");
    agent.signal("TERM");
    agent.ends_with(75);
    assert!(agent.log().contains("by sh USR1\n"), "{}", agent.log());
    bench.start("b", &["--signal", "KILL"], &["true"]).ends_with(2);
}

#[test]
fn a_program_that_ignores_the_signal_is_killed_with_all_that_it_started() {
    let bench = Bench::new();
    let hidden = "setsid sh -c 'trap \"\" TERM; echo hidden; while :; do sleep 0.1; done'";
    let script = format!("trap '' TERM; {hidden} & echo ready; while :; do sleep 0.1; done");
    let mut agent = bench.start("a", &["--grace", "1s"], &["sh", "-c", &script]);
    agent.wait_for("ready");
    agent.wait_for("hidden");
    let store = bench.path("store").display().to_string();
    assert!(processes_with(&store).len() >= 2);
    agent.signal("TERM");
    agent.ends_with(75);
    assert_eq!(processes_with(&store), [0_i32; 0]);
}

#[test]
fn what_a_program_leaves_running_ends_with_it() {
    let bench = Bench::new();
    let mut agent = bench.start("a", &[], &["sh", "-c", "setsid sleep 600 & exit 0"]);
    agent.ends_with(0);
    assert_eq!(processes_with(&bench.path("store").display().to_string()), [0_i32; 0]);
}

#[test]
fn the_outcome_goes_by_evidence_and_not_by_the_code() {
    for code in [0, 1, 75, 143] {
        let bench = Bench::new();
        let script = format!("trap 'exit {code}' TERM; echo ready; while :; do sleep 0.05; done");
        let mut agent = bench.start("a", &[], &["sh", "-c", &script]);
        agent.wait_for("ready");
        agent.signal("TERM");
        agent.ends_with(75);
    }
    for (code, said) in [(0, 0), (3, 3), (70, 1), (75, 1), (76, 1), (77, 1), (143, 143)] {
        let bench = Bench::new();
        bench.start("a", &[], &["sh", "-c", &format!("exit {code}")]).ends_with(said);
    }
    let bench = Bench::new();
    let mut missing = bench.start("a", &[], &["no-such-command"]);
    missing.ends_with(127);
    assert!(missing.log().contains("cannot be run"), "{}", missing.log());
}

#[test]
fn a_crash_with_progress_is_started_again_and_one_without_is_not_for_ever() {
    let bench = Bench::new();
    let held = "[ $GPUPLAN_RESTART_COUNT -lt 2 ] && hold=\"--hold-at $((GPUPLAN_RESTART_COUNT * 20 + 20))\"; exec \"$0\" $hold";
    let mut agent = bench.start("a", &[], &["sh", "-c", held, TRAINER]);
    for step in [20, 40] {
        agent.wait_until_safe(step);
        kill_programs(&bench.path("store").display().to_string());
    }
    agent.ends_with(0);
    assert_eq!(agent.result(), undisturbed());
    assert_eq!(bench.json("status/0.json")["starts"], 3);
    let bench = Bench::new();
    let mut hopeless = bench.start("a", &[], &["sh", "-c", "echo started; exit 5"]);
    hopeless.ends_with(5);
    assert_eq!(hopeless.log().matches("started\n").count(), 2, "{}", hopeless.log());
    let script = "echo started; echo 7 > $GPUPLAN_PROGRESS_FILE; exit 6";
    let bench = Bench::new();
    let mut stuck = bench.start("a", &[], &["sh", "-c", script]);
    stuck.ends_with(6);
    assert!(stuck.log().contains("twice at the same step"), "{}", stuck.log());
}

#[test]
fn a_cap_saves_and_stops() {
    let bench = Bench::new();
    let mut agent = bench.start("a", &["--lifetime", "15s"], &[TRAINER, "--hold-at", "10"]);
    agent.ends_with(77);
    assert!(bench.committed().is_some());
    // The minimum of a minute at this price is the whole budget at once.
    let mut poor = bench.start("b", &["--rate", "60", "--budget", "1.00"], &[TRAINER]);
    poor.ends_with(77);
    assert!(poor.log().contains("budget"), "{}", poor.log());
    // And it stays spent: the bill of the epoch before counts.
    let mut next = bench.start("c", &["--rate", "0.000000001", "--budget", "0.90"], &[TRAINER]);
    next.ends_with(77);
    let spent = bench.json("result.json")["spent_usd"].as_str().unwrap().to_owned();
    assert_eq!(spent, "1.000000001");
}

/// It saves only when it is told to, and its machine would end with all that it has done.
#[test]
fn a_program_whose_machine_ends_saves_before() {
    let bench = Bench::new();
    let end = (Timestamp::now() + SignedDuration::from_secs(24)).as_second().to_string();
    let mut agent = bench.start("a", &["--ends-at", &end], &[TRAINER, "--every", "1000", "--hold-at", "10"]);
    agent.ends_with(77);
    assert!(Timestamp::now().as_second() < end.parse::<i64>().unwrap(), "in time: {}", agent.log());
    assert!(agent.log().contains("the lease of this machine ends"), "{}", agent.log());
    assert_eq!(bench.committed(), Some(10), "{}", agent.log());
}

/// What a launch hands over to a machine that lives term by term, and when the first one ends. Seconds.
fn lease(bench: &Bench, first: u64, term: u64) -> Vec<String> {
    let (file, hand_off) = (bench.path("lease-ends"), bench.path("hand-off.json"));
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let now: u64 = uptime.split('.').next().unwrap().parse().unwrap();
    fs::write(&file, (now + first).to_string()).unwrap();
    let lease = json!({"order": "0123ab", "term_seconds": term, "file": file});
    fs::write(&hand_off, json!({"version": 1, "lease": lease}).to_string()).unwrap();
    let share = (Timestamp::now() + SignedDuration::from_hours(9)).as_second().to_string();
    ["--hand-off", &hand_off.display().to_string(), "--ends-at", &share].map(str::to_owned).into()
}

/// Nobody leads it, and it would cost its whole share: nine hours.
#[test]
fn a_machine_whose_program_gets_nowhere_ends_with_its_term() {
    let bench = Bench::new();
    let pipe = bench.path("pipe").display().to_string();
    let words = lease(&bench, 8, 4);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut agent = bench.start("a", &words, &["sh", "-c", &format!("mkfifo {pipe}; read go < {pipe}")]);
    agent.ends_with(77);
    assert!(agent.log().contains("the lease of this machine ends"), "{}", agent.log());
}

#[test]
fn a_machine_whose_program_gets_further_has_its_lease_renewed_and_moves_its_end() {
    let bench = Bench::new();
    // A first term that nobody has to hurry for, and further ones that are due at once.
    let words = lease(&bench, 1000, 2);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut agent = bench.start("a", &words, &[TRAINER, "--steps", "1000000", "--every", "1000000"]);
    // One that is being written has another name yet.
    let is_renewal = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("renewed-0123ab-") && name.ends_with(".json")
    };
    let renewals = || bench.objects("events").into_iter().filter(|path| is_renewal(path)).collect::<Vec<_>>();
    agent.lives_until(|_| renewals().len() >= 2);
    agent.signal("TERM");
    agent.wait();
    let number = |path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap()["number"].as_u64().unwrap();
    let mut numbers: Vec<u64> = renewals().into_iter().map(number).collect();
    numbers.sort_unstable();
    assert!(numbers.len() >= 2, "{}", agent.log());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "each once");
}

#[test]
fn the_program_knows_where_it_stands() {
    let bench = Bench::new();
    let mut agent = bench.start("a", &[], &["sh", "-c", "env | grep -E '^(GPUPLAN_|TORCH_)' | sort"]);
    agent.ends_with(0);
    for wanted in [
        "GPUPLAN_RUN_ID=t",
        "GPUPLAN_EPOCH=1",
        "GPUPLAN_RESUME_FROM=\n",
        "GPUPLAN_RESTART_COUNT=0",
        "GPUPLAN_NOTICE_FILE=/",
        "GPUPLAN_PROGRESS_FILE=/",
        "GPUPLAN_CKPT_DIR=/",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=120",
    ] {
        assert!(agent.log().contains(wanted), "{wanted} in:\n{}", agent.log());
    }
}

/// Whoever has only the store knows what the run was begun with.
#[test]
fn a_run_says_once_what_it_is() {
    let bench = Bench::new();
    let options = ["--rate", "2.50", "--budget", "100", "--lifetime", "2h"];
    let mut agent = bench.start("a", &options, &["sh", "-c", "true"]);
    agent.ends_with(0);
    let spec = bench.json("spec.json");
    assert_eq!((spec["run"].as_str(), spec["command"].to_string().as_str()), (Some("t"), r#"["sh","-c","true"]"#));
    assert_eq!((spec["rate_usd_per_hour"].as_str(), spec["budget_usd"].as_str()), (Some("2.50"), Some("100.00")));
    assert_eq!((spec["lifetime_seconds"].as_u64(), spec["nodes"].as_u64()), (Some(7200), Some(1)));
    assert!(!agent.log().contains("another command"), "{}", agent.log());
    let mut again = bench.start("b", &[], &["sh", "-c", "true"]);
    again.ends_with(0);
    assert!(!again.log().contains("another command"), "{}", again.log());
    let mut other = bench.start("c", &[], &["sh", "-c", "exit 0"]);
    other.ends_with(0);
    assert!(other.log().contains("another command") && other.log().contains("--run NAME"), "{}", other.log());
    assert_eq!(bench.json("spec.json"), spec);
}
