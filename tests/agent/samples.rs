//! What the agent sees of the machine: GPUs through a tool, the host, what costs time by both; and a tool that is not there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::bench::{Agent, Bench, kill_programs};

const TOOL: &str = "a-tool-like-nvidia-smi";
const LINE: &str = "0, NVIDIA H100 80GB HBM3, 31, 20, 70000, 81559, 300.5, 700.00, 61, 1980, 1980, 0x0000000000000000";

/// A bench whose agents find that script in their PATH under the name of the tool, and where it notes its process.
fn bench_with(script: &str) -> Bench {
    let mut bench = Bench::new();
    let (folder, tool) = (bench.path("tools"), bench.path("tools").join(TOOL));
    fs::create_dir_all(&folder).unwrap();
    let script = format!("echo $$ >> {}\n{script}", started(&bench).display());
    // Written by a process of its own: a file that this one holds open for writing cannot be run by a child of another test.
    let write =
        ["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod +x \"$2\"", "sh", &script, tool.to_str().unwrap()];
    assert!(Command::new("sh").args(write).status().unwrap().success());
    bench.set("PATH", &format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default()));
    bench.heartbeat("0.1s");
    bench
}

fn started(bench: &Bench) -> PathBuf {
    bench.path("tools/started")
}

/// Waits for a status of that kind.
fn status(bench: &Bench, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let text = fs::read(bench.path("store/runs/t/status/0.json")).unwrap_or_default();
        let status: Value = serde_json::from_slice(&text).unwrap_or_default();
        if is(&status) {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_mins(3), "no {what}: {status}");
        sleep(Duration::from_millis(10));
    }
}

fn end(mut agent: Agent) -> String {
    agent.signal("TERM");
    agent.ends_with(75);
    agent.log()
}

#[test]
fn a_status_has_the_newest_sample_and_what_costs_time() {
    let bench = bench_with(&format!("while :; do echo '{LINE}'; sleep 0.1; done"));
    let mut agent = bench.start("a", &["--nvidia-smi", TOOL], &["sh", "-c", "while :; do sleep 0.1; done"]);
    agent.wait_for("finding host-bound: GPUs busy 31 % of the time");
    let status = status(&bench, "finding", |status| status["findings"][0]["rule"] == "host-bound");
    let (gpu, host) = (&status["sample"]["gpus"][0], &status["sample"]["host"]);
    assert_eq!(
        (gpu["power_watts"].as_f64(), gpu["temperature_celsius"].as_f64(), gpu["busy"].as_f64()),
        (Some(300.5), Some(61.0), Some(0.31))
    );
    assert!(host["memory_bytes"].as_f64() > Some(1e5) && status["disk_free_bytes"].as_u64() > Some(0), "{status}");
    assert!(status["findings"][0]["advice"].as_str().unwrap().contains("gpuplan profile trace"), "{status}");
    assert!(status["findings"][0]["since"].is_string());
    let started = fs::read_to_string(started(&bench)).unwrap();
    let log = end(agent);
    assert_eq!(log.matches("finding host-bound").count(), 1, "{log}");
    // One child for all samples, and none is left behind.
    assert_eq!(started.lines().count(), 1, "{started}");
    assert!(!Path::new(&format!("/proc/{}", started.trim())).exists());
}

#[test]
fn a_tool_that_is_not_there_or_fails_is_told_once_and_costs_only_counters() {
    let failing =
        bench_with("echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9");
    for (tool, why) in [("no-such-tool", "there is no no-such-tool"), (TOOL, "nvidia-smi has ended")] {
        let mut agent = failing.start(
            tool,
            &["--nvidia-smi", tool],
            &["sh", "-c", "echo start $GPUPLAN_RESTART_COUNT; exec sleep 600"],
        );
        for start in 0..2 {
            agent.wait_for(&format!("start {start}"));
            agent.wait_for(why);
            let is_sampled = |status: &Value| {
                status["starts"] == start + 1 && status["sample"]["host"]["memory_bytes"].as_f64() > Some(0.0)
            };
            let status = status(&failing, "sample of the host", is_sampled);
            assert_eq!(status["sample"]["gpus"].as_array().map(Vec::len), Some(0), "{status}");
            if start == 0 {
                kill_programs(&failing.path("store").display().to_string());
            }
        }
        let log = end(agent);
        assert_eq!(log.matches("no GPU counters").count(), 1, "{log}");
        assert!(log.contains(why), "{log}");
    }
}

/// Its own tool must not make a program look alive that does nothing.
#[test]
fn a_tool_at_work_does_not_hide_a_stall() {
    let bench = bench_with(&format!("echo '{LINE}'; while :; do :; done"));
    let mut agent = bench.start("a", &["--nvidia-smi", TOOL, "--stall", "2s"], &["sleep", "600"]);
    agent.wait_for("no step, checkpoint, output or work of a processor");
    assert_eq!(fs::read_to_string(started(&bench)).unwrap().lines().count(), 1);
    end(agent);
}

#[test]
fn a_disk_without_room_for_another_checkpoint_is_told_before_it_is_full() {
    let mut bench = Bench::new();
    bench.heartbeat("0.1s");
    let disk = bench.path("a");
    fs::create_dir_all(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|done| done.status.success()) {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "\nWAIVED a_disk_without_room: no right to mount a small disk here");
        return;
    }
    let script = "mkdir -p $GPUPLAN_CKPT_DIR/.aside; head -c 4194304 /dev/zero > $GPUPLAN_CKPT_DIR/.aside/weights; \
                  touch $GPUPLAN_CKPT_DIR/.aside/.complete; mv $GPUPLAN_CKPT_DIR/.aside $GPUPLAN_CKPT_DIR/step-1; exec sleep 600";
    let mut agent = bench.start("a", &[], &["sh", "-c", script]);
    agent.wait_for("make room");
    let log = end(agent);
    assert!(Command::new("umount").arg("-l").arg(&disk).status().unwrap().success());
    assert_eq!(log.matches("make room").count(), 1, "{log}");
}
