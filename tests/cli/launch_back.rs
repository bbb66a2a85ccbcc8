//! A run falls back to on-demand while spot is down, and comes back from it: the program itself, over a recorded trace.

use std::path::Path;

use serde_json::Value;

use crate::cli::launch::{gpuplan, nothing_is_left};
use crate::cli::support::Ran;

/// Counts of H100 machines on Google Cloud that could be had, every ten minutes: a second of the fake cloud (tests/launch/sight.rs has
/// the source).
const TRACES: &str = include_str!("../fixtures/spot_h100.jsonl");
const ZONE: &str = "skynomad-artifact/h100_16/us-east5-a";
/// The run begins in the outage of 45 ticks, this many before its end: longer than its promise lets it wait.
const OUTAGE: usize = 45;
const BEFORE_ITS_END: usize = 42;

/// Far ahead of the plan at once, and then it trains on until it is told to leave: what is gained is time to go back to spot. What is
/// left takes no time.
const TRAINER: &str = r#"
import os, signal, sys, time
folder, resumed = os.environ["GPUPLAN_CKPT_DIR"], os.environ["GPUPLAN_RESUME_FROM"]
print("from " + os.path.basename(resumed), flush=True)
def save(step):
    new = os.path.join(folder, "tmp-%d" % step)
    os.makedirs(new)
    open(os.path.join(new, ".complete"), "w").write("x")
    os.rename(new, os.path.join(folder, "step-%d" % step))
if resumed:
    save(11444)
    sys.exit(0)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
save(8000)
time.sleep(600)
"#;

/// Seconds without spot, from the start of the run. What comes after the outage is left out: on a busy computer the program ends in a later one.
fn outages() -> Vec<[f64; 2]> {
    let recorded = TRACES.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let trace = recorded.into_iter().find(|trace| trace["source"] == ZONE).unwrap();
    let spans =
        trace["rle"].as_array().unwrap().iter().map(|span| (span[0].as_u64().unwrap(), span[1].as_u64().unwrap()));
    let ticks: Vec<bool> = spans.flat_map(|(count, ticks)| vec![count > 0; ticks as usize]).collect();
    let begin = ticks.windows(OUTAGE).position(|window| !window.contains(&true)).unwrap() + OUTAGE - BEFORE_ITS_END;
    let down = ticks[begin..].iter().take(BEFORE_ITS_END).enumerate().filter(|(_, is_up)| !**is_up);
    down.map(|(tick, _)| [tick as f64, tick as f64 + 1.0]).collect()
}

fn has_in_order(text: &str, words: &[&str]) -> bool {
    words.iter().try_fold(text, |rest, word| rest.split_once(word).map(|(_, rest)| rest)).is_some()
}

#[test]
fn a_run_comes_back_from_on_demand_over_a_recorded_trace() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let outages = outages();
    assert_eq!(outages[..BEFORE_ITS_END].last().unwrap()[1], BEFORE_ITS_END as f64, "it begins with the outage");
    let scenario = file("scenario.toml", &format!("no_spot_seconds = {outages:?}\n"));
    let trainer = file("fast.py", TRAINER);
    // 11,444 steps, six hours of work as planned.
    let words = [
        "launch",
        "llama-3.1-8b-finetune.toml",
        "--tokens",
        "3B",
        "--deadline",
        "12h30m",
        "--cloud",
        "fake",
        "--lifetime",
        "1000h",
    ];
    let more = [
        "--budget",
        "100000",
        "--max-nodes",
        "1",
        // Whatever the planner would rather rent today.
        "--purchase",
        "spot-with-fallback",
        "--gpus",
        "B200:8",
        "-y",
        "--run",
        "back",
        "--fake-scenario",
        &scenario,
        "--",
        "python3",
        &trainer,
    ];
    let ran = Ran::of(gpuplan(home.path(), &[&words[..], &more].concat()).output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "back: completed\n"), "{}", ran.stderr);
    let course = [
        "no capacity (InsufficientInstanceCapacity)",
        "on-demand: spot is down",
        "on-demand at $",
        "spot beside what runs",
        "spot at $",
        "what runs saves and leaves",
    ];
    assert!(has_in_order(&ran.stderr, &course), "{}", ran.stderr);
    let said = gpuplan(home.path(), &["logs", "back"]).output().unwrap();
    assert!(has_in_order(&String::from_utf8_lossy(&said.stdout), &["from \n", "from step-8000\n"]), "{said:?}");
    assert_eq!(markets(home.path()), ["on-demand", "spot"], "{}", ran.stderr);
    nothing_is_left(home.path());
}

/// Of the first machine and of the last.
fn markets(home: &Path) -> [String; 2] {
    let state: Value =
        serde_json::from_str(&std::fs::read_to_string(home.join("fake-cloud/state.json")).unwrap()).unwrap();
    let machines = state["machines"].as_array().unwrap();
    let market = |kept: &Value| kept["machine"]["pool"]["market"].as_str().unwrap().to_owned();
    [market(machines.first().unwrap()), market(machines.last().unwrap())]
}
