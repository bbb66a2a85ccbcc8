//! The command as people really write it: in a script, in a pipeline, behind a launcher, with `&`. Whatever stands before the training
//! program, it has its time to save.

use crate::agent::bench::{Bench, processes_with};
use gpuplan_testbed::executable::executable;
use std::fs;

/// Saves its one checkpoint when it is told to, after a while and with words, and says from what it resumed.
const SLOW: &str = r#"
import os, signal, sys, time
folder = os.environ["GPUPLAN_CKPT_DIR"]
def save(number, frame):
    print("saving", flush=True)
    time.sleep(1)
    print("still saving", flush=True)
    new = os.path.join(folder, "tmp-7")
    os.makedirs(new)
    open(os.path.join(new, "weights"), "w").write("7")
    open(os.path.join(new, ".complete"), "w")
    os.rename(new, os.path.join(folder, "step-7"))
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
resumed = os.environ["GPUPLAN_RESUME_FROM"]
print("resumed " + os.path.basename(resumed) if resumed else "from nothing", flush=True)
if resumed:
    sys.exit(0)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"#;

/// In a folder with these files the command is interrupted once; what it saved then is where the next one begins.
#[track_caller]
fn survives(files: &[(&str, &str)], command: &[&str]) -> String {
    let bench = Bench::new();
    for folder in ["a", "b"] {
        for (name, text) in [("slow.py", SLOW)].iter().chain(files) {
            let path = bench.path(folder).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            executable(&path, text);
        }
    }
    let mut agent = bench.start("a", &[], command);
    agent.wait_for("ready");
    agent.signal("TERM");
    agent.ends_with(75);
    assert_eq!(bench.committed(), Some(7), "{}", agent.log());
    assert!(agent.log().contains("still saving\nsaved\n"), "{}", agent.log());
    assert_eq!(processes_with(&bench.path("store").display().to_string()), [0_i32; 0]);
    let mut next = bench.start("b", &[], command);
    next.ends_with(0);
    assert!(next.log().contains("resumed step-7"), "{}", next.log());
    agent.log() + &next.log()
}

#[test]
fn a_script_dies_of_the_signal_and_its_trainer_saves() {
    let script = "#!/bin/bash\nset -euo pipefail\ncd \"$(dirname \"$0\")/..\"\nexport OMP_NUM_THREADS=1\npython3 slow.py\necho done\n";
    survives(&[("scripts/train.sh", script)], &["bash", "scripts/train.sh"]);
}

#[test]
fn a_reader_of_a_pipeline_outlives_its_writer() {
    let said = survives(&[], &["bash", "-c", "set -o pipefail; python3 slow.py 2>&1 | tee train.log; echo done"]);
    assert!(said.ends_with("done\n") || said.contains("done\n"), "{said}");
    survives(&[("train.sh", "exec > >(tee -a train.log) 2>&1\npython3 slow.py\nexit $?\n")], &["bash", "train.sh"]);
}

/// Whatever its log is piped into.
#[test]
fn a_program_that_fails_in_a_pipeline_has_failed() {
    let ends = |files: &[(&str, &str)], command: &[&str], code: i32| {
        let bench = Bench::new();
        fs::create_dir_all(bench.path("a")).unwrap();
        for (name, text) in files {
            executable(&bench.path("a").join(name), text);
        }
        let mut agent = bench.start("a", &["--no-restart"], command);
        agent.ends_with(code);
        agent.log()
    };
    let (fails, works) = ("import sys\nprint('loss 1')\nsys.exit(3)\n", "print('loss 1')\n");
    let piped = "python3 train.py 2>&1 | tee train.log";
    for command in [&["bash", "-c", piped][..], &["sh", "-c", piped], &["env", "A=1", "bash", "-c", piped]] {
        let said = ends(&[("train.py", fails)], command, 3);
        assert!(said.contains("loss 1\n") && said.contains("with `-o pipefail`"), "{said}");
        ends(&[("train.py", works)], command, 0);
    }
    let script = format!("#!/usr/bin/env bash\nset -e\ncd .\n{piped} | grep -v Warning\necho done\n");
    for command in [&["bash", "train.sh"][..], &["./train.sh"]] {
        let said = ends(&[("train.py", fails), ("train.sh", &script)], command, 3);
        assert!(!said.contains("done\n"), "{said}");
        assert!(ends(&[("train.py", works), ("train.sh", &script)], command, 0).contains("done\n"));
    }
    // What decides for itself keeps its own end.
    let own = format!("{piped}; exit ${{PIPESTATUS[1]}}");
    ends(&[("train.py", fails)], &["bash", "-c", &own], 0);
}

/// As `accelerate launch` does on one GPU, and `deepspeed` on one machine.
#[test]
fn a_launcher_that_passes_nothing_on_is_no_end_of_its_worker() {
    let launcher =
        "#!/usr/bin/env python3\nimport subprocess, sys\nsys.exit(subprocess.call([sys.executable] + sys.argv[2:]))\n";
    survives(&[("bin/accelerate", launcher)], &["bin/accelerate", "launch", "slow.py"]);
    survives(&[("bin/accelerate", launcher), ("train.sh", "bin/accelerate launch slow.py\n")], &["sh", "train.sh"]);
}

#[test]
fn what_a_script_leaves_in_the_background_is_ended_and_said() {
    let bench = Bench::new();
    // It ends once `nohup` has become `sleep`: before, it would be named otherwise.
    let script = "nohup sleep 600 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done";
    let mut agent = bench.start("a", &[], &["sh", "-c", script]);
    agent.ends_with(0);
    assert!(agent.log().contains("what it left running is ended too: sleep"), "{}", agent.log());
    assert_eq!(processes_with(&bench.path("store").display().to_string()), [0_i32; 0]);
}

/// As a Trainer with `--output_dir results` that resumes from the newest checkpoint it finds there, and knows nothing of us.
const TRAINER_OF_OTHERS: &str = r#"
import json, os, sys, time
out, last = "results/run-1", int(sys.argv[1])
found = [int(name.split("-")[1]) for name in os.listdir(out) if name.startswith("checkpoint-")] if os.path.isdir(out) else []
step = max(found, default=0)
print("from step %d" % step, flush=True)
while step < last:
    step += 1
    time.sleep(0.02)
    if step % 10 == 0:
        new = os.path.join(out, "checkpoint-%d" % step)
        os.makedirs(new)
        open(os.path.join(new, "model.safetensors"), "w").write(str(step))
        json.dump({"global_step": step}, open(os.path.join(new, "trainer_state.json"), "w"))
while len(sys.argv) > 2:
    time.sleep(0.05)
"#;

#[test]
fn a_program_that_saves_where_nobody_told_it_to_is_followed_there() {
    let bench = Bench::new();
    for folder in ["a", "b", "c"] {
        fs::create_dir_all(bench.path(folder)).unwrap();
        fs::write(bench.path(folder).join("train.py"), TRAINER_OF_OTHERS).unwrap();
    }
    let mut agent = bench.start("a", &[], &["python3", "train.py", "40", "hold"]);
    agent.wait_until_safe(40);
    assert!(agent.log().contains("a/results/run-1, not in"), "{}", agent.log());
    agent.kill();
    let mut next = bench.start("b", &["--force"], &["python3", "train.py", "60"]);
    next.ends_with(0);
    assert!(next.log().contains("from step 40\n") && bench.committed() == Some(60), "{}", next.log());
    assert!(next.folder.join("results/run-1/checkpoint-60").exists());
    bench.assert_whole();
    // Whoever says where a command saves is believed.
    let mut told = bench.start("c", &["--checkpoints", "results/run-1"], &["python3", "train.py", "70"]);
    told.ends_with(0);
    assert!(told.log().contains("from step 60\n") && bench.committed() == Some(70), "{}", told.log());
}

#[test]
fn what_was_saved_only_at_the_end_is_found() {
    let bench = Bench::new();
    let script = "mkdir -p out/ck && echo 1 >out/ck/model_epoch_3.pth && echo 1 >out/last.ckpt";
    let mut agent = bench.start("a", &[], &["sh", "-c", script]);
    agent.ends_with(0);
    assert_eq!(bench.committed(), Some(3), "{}", agent.log());
}

/// As nanoGPT and YOLO do: one file, written over and over, and resumed from if it is there.
const OVERWRITES: &str = r#"
import os, sys, time
out, last = sys.argv[1] if len(sys.argv) > 2 else os.environ["GPUPLAN_CKPT_DIR"], int(sys.argv[-1])
os.makedirs(out, exist_ok=True)
path = os.path.join(out, "ckpt.pt")
step = int(open(path).read()) if os.path.exists(path) else 0
print("from step %d" % step, flush=True)
while step < last:
    step += 1
    for name in ["best.pt", "ckpt.pt"]:
        open(os.path.join(out, name), "w").write(str(step))
    time.sleep(1.5)
"#;

#[track_caller]
fn overwritten(told: &[&str]) {
    let bench = Bench::new();
    for folder in ["a", "b"] {
        fs::create_dir_all(bench.path(folder)).unwrap();
        fs::write(bench.path(folder).join("train.py"), OVERWRITES).unwrap();
    }
    let mut agent = bench.start("a", &[], &[&["python3", "train.py"], told, &["1000"]].concat());
    agent.wait_until_safe(2);
    agent.kill();
    bench.assert_whole();
    let mut next = bench.start("b", &["--force"], &[&["python3", "train.py"], told, &["4"]].concat());
    next.ends_with(0);
    let from = next.log().split("from step ").nth(1).unwrap().lines().next().unwrap().parse::<u64>().unwrap();
    assert!(from >= 2, "{}", next.log());
    let out = next.folder.join(told.first().unwrap_or(&"checkpoints"));
    for name in ["best.pt", "ckpt.pt"] {
        assert!(out.join(name).exists(), "{name}: {}", next.log());
    }
}

#[test]
fn a_checkpoint_that_is_written_over_and_over_is_kept_with_all_its_files() {
    overwritten(&[]);
}

#[test]
fn so_is_one_in_a_folder_that_nobody_named() {
    overwritten(&["out"]);
}

#[test]
fn a_program_that_begins_to_save_where_it_was_told_is_followed_back() {
    let bench = Bench::new();
    let script = "mkdir -p out/step-5 && echo 1 >out/step-5/.complete && echo early
        until grep -q 'step 5 is safe' ../log-0; do sleep 0.05; done
        mkdir -p $GPUPLAN_CKPT_DIR/step-9 && echo 1 >$GPUPLAN_CKPT_DIR/step-9/.complete
        until grep -q 'step 9 is safe' ../log-0; do sleep 0.05; done";
    let mut agent = bench.start("a", &[], &["sh", "-c", script]);
    agent.ends_with(0);
    assert_eq!(bench.committed(), Some(9), "{}", agent.log());
}
