//! Two machines on one run, as two agents with folders of their own: one epoch, one manifest, one step at which all stop.

use std::process::{Command, Stdio};

use crate::agent::bench::{Agent, Bench, processes_with, signal};

const TRAINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/two_nodes.py");
const STEPS: &str = "80";

/// A machine is missed after three heartbeats and two seconds: on a busy one a heartbeat may be late.
fn team() -> Bench {
    let mut bench = Bench::new();
    bench.heartbeat("2s");
    bench
}

/// Both machines of a life, in folders named after it. They stay at the step `hold`.
fn start(bench: &Bench, life: &str, hold: &str) -> [Agent; 2] {
    let meet = bench.path(&format!("{life}-port")).display().to_string();
    ["0", "1"].map(|node| {
        let options = ["--node", node, "--nodes", "2", "--machine", node, "--grace", "5s"];
        bench.start(&format!("{life}-{node}"), &options, &["python3", TRAINER, &meet, STEPS, "0.02", hold])
    })
}

/// A machine with all that runs on it is gone.
fn vanish(bench: &Bench, agent: &mut Agent, node: usize) {
    let programs = processes_with(&format!("{}|{node}|n{node}|", bench.path("store").display()));
    agent.kill();
    for pid in programs {
        signal(pid, "KILL");
    }
}

/// What two programs without agents come to.
fn undisturbed() -> [String; 2] {
    let root = tempfile::tempdir().unwrap();
    let meet = root.path().join("port").display().to_string();
    let folders = ["0", "1"].map(|node| root.path().join(node));
    let children = [0, 1].map(|node: usize| {
        std::fs::create_dir_all(&folders[node]).unwrap();
        let mut command = Command::new("python3");
        command.args([TRAINER, &meet, STEPS, "0"]).current_dir(&folders[node]).stdout(Stdio::null());
        command.env("GPUPLAN_NODE", node.to_string()).env("GPUPLAN_NODES", "2").spawn().unwrap()
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    folders.map(|folder| std::fs::read_to_string(folder.join("result.json")).unwrap())
}

fn finish(bench: &Bench, life: &str) {
    let mut agents = start(bench, life, STEPS);
    for agent in &mut agents {
        agent.ends_with(0);
    }
    assert_eq!(agents.map(|agent| agent.result()), undisturbed());
    bench.assert_whole();
}

fn newest_manifest(bench: &Bench) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(bench.objects("manifests").pop().unwrap()).unwrap()).unwrap()
}

#[test]
fn shards_of_all_machines_are_one_checkpoint() {
    let bench = team();
    finish(&bench, "only");
    let manifest = newest_manifest(&bench);
    let shown = |file: &serde_json::Value| {
        format!("{} {}", file["path"].as_str().unwrap().split_once('/').unwrap().1, file["node"])
    };
    let mut files: Vec<String> = manifest["files"].as_array().unwrap().iter().map(shown).collect();
    files.sort();
    assert_eq!(files, [".complete null", "own.json 0", "own.json 1", "shard-0.json null", "shard-1.json null"]);
    assert_eq!((manifest["epoch"].as_u64(), bench.objects("epochs").len()), (Some(1), 1));
}

#[test]
fn a_notice_on_any_machine_stops_all_at_the_same_step() {
    let bench = team();
    for (life, told, hold) in [("first", 1, "25"), ("second", 0, "45")] {
        let mut agents = start(&bench, life, hold);
        agents[0].wait_for("is safe");
        agents[told].signal("TERM");
        for agent in &mut agents {
            agent.ends_with(75);
        }
        let stopped = agents
            .map(|agent| agent.log().split("stopped at step ").nth(1).unwrap().lines().next().unwrap().to_owned());
        assert_eq!(stopped[0], stopped[1]);
        assert_eq!(bench.committed(), stopped[0].parse().ok(), "the step at which all stopped is safe");
        assert_eq!(newest_manifest(&bench)["files"].as_array().unwrap().len(), 5);
    }
    finish(&bench, "last");
}

#[test]
fn a_machine_that_vanishes_does_not_leave_the_others_hanging() {
    one_of_two_vanishes(1, "25");
}

#[test]
fn the_first_machine_that_vanishes_does_not_leave_the_others_hanging() {
    one_of_two_vanishes(0, "45");
}

fn one_of_two_vanishes(vanishing: usize, hold: &str) {
    let bench = team();
    let mut agents = start(&bench, &format!("without-{vanishing}"), hold);
    agents[0].wait_for("is safe");
    vanish(&bench, &mut agents[vanishing], vanishing);
    agents[1 - vanishing].ends_with(75);
    assert!(agents[1 - vanishing].log().contains("has fallen silent"), "{}", agents[1 - vanishing].log());
    bench.assert_whole();
    finish(&bench, "last");
}

/// A program that loses its peer fails at once (`connection reset by peer`); that the other machine is gone shows only in its silence.
/// It has not failed by itself, and files that will never come are not waited for.
#[test]
fn a_program_that_fails_because_its_peer_is_gone_is_interrupted() {
    for vanishing in [1, 0] {
        let bench = team();
        let gone = bench.path("gone").display().to_string();
        let script = format!(
            "echo ready; until [ -e {gone} ]; do sleep 0.05; done; mkdir $GPUPLAN_CKPT_DIR/.aside; \
             touch $GPUPLAN_CKPT_DIR/.aside/.complete; mv $GPUPLAN_CKPT_DIR/.aside $GPUPLAN_CKPT_DIR/step-1; \
             echo connection reset by peer; exit 1"
        );
        let mut agents = ["0", "1"].map(|node| {
            let options = ["--node", node, "--nodes", "2", "--machine", node, "--grace", "2s"];
            bench.start(node, &options, &["sh", "-c", &script])
        });
        for agent in &mut agents {
            agent.wait_for("ready");
        }
        vanish(&bench, &mut agents[vanishing], vanishing);
        std::fs::write(&gone, "").unwrap();
        agents[1 - vanishing].ends_with(75);
        let log = agents[1 - vanishing].log();
        assert!(
            log.contains("connection reset by peer") && log.contains(&format!("node {vanishing}: has fallen silent")),
            "{log}"
        );
        if vanishing == 1 {
            let result = bench.json("result.json");
            assert_eq!((result["outcome"].as_str(), result["exit"]["code"].as_i64()), (Some("interrupted"), Some(1)));
        }
    }
}

/// Files that cannot be read are not none, so the checkpoint is not committed without them; and the machine that failed does not wait
/// for them when the other one is gone.
#[test]
fn files_that_a_machine_cannot_read_are_missed_until_it_is_gone() {
    let bench = team();
    // A link to itself leads nowhere, whoever follows it.
    let script = "if [ $GPUPLAN_NODE = 1 ]; then ln -s step-1 $GPUPLAN_CKPT_DIR/step-1; sleep 600; fi; mkdir $GPUPLAN_CKPT_DIR/.aside; \
                  touch $GPUPLAN_CKPT_DIR/.aside/.complete; mv $GPUPLAN_CKPT_DIR/.aside $GPUPLAN_CKPT_DIR/step-1; exit 3";
    let mut agents = ["0", "1"].map(|node| {
        let options = ["--node", node, "--nodes", "2", "--machine", node, "--grace", "5s"];
        bench.start(node, &options, &["sh", "-c", script])
    });
    agents[0].ends_with(3);
    agents[1].ends_with(75);
    assert!(agents[1].log().contains("files of a checkpoint not sent yet"), "{}", agents[1].log());
    assert_eq!(bench.committed(), None);
}

#[test]
fn a_machine_whose_first_one_never_comes_can_be_told_to_go() {
    let bench = team();
    let mut alone = bench.start("1", &["--node", "1", "--nodes", "2"], &["true"]);
    alone.wait_for("waiting for the first machine");
    alone.signal("TERM");
    alone.ends_with(75);
}

/// A folder that all machines share is restored and sent once, by the first.
#[test]
fn what_lies_on_a_shared_disk_is_sent_once() {
    let bench = team();
    let folder = bench.path("shared").display().to_string();
    let script = "echo \"resumed from $GPUPLAN_RESUME_FROM\"; [ $GPUPLAN_NODE = 0 ] && [ ! -e $GPUPLAN_CKPT_DIR/step-1 ] && { \
                  mkdir $GPUPLAN_CKPT_DIR/.aside; echo w > $GPUPLAN_CKPT_DIR/.aside/weights; touch $GPUPLAN_CKPT_DIR/.aside/.complete; \
                  mv $GPUPLAN_CKPT_DIR/.aside $GPUPLAN_CKPT_DIR/step-1; }; echo done";
    for life in ["first", "second"] {
        let mut agents = ["0", "1"].map(|node| {
            let options = ["--node", node, "--nodes", "2", "--machine", node, "--checkpoints", &folder];
            bench.start(&format!("{life}-{node}"), &options, &["sh", "-c", script])
        });
        for agent in &mut agents {
            agent.ends_with(0);
            let from =
                if life == "first" { "resumed from \n".to_owned() } else { format!("resumed from {folder}/step-1\n") };
            assert!(agent.log().contains(&from), "{}", agent.log());
        }
    }
    assert_eq!(newest_manifest(&bench)["files"].as_array().unwrap().len(), 2);
    assert!(bench.objects("data").iter().all(|path| !path.display().to_string().contains("/n1-")));
    bench.assert_whole();
}

#[test]
fn a_program_that_fails_on_one_machine_ends_all() {
    for failing in [0, 1] {
        let bench = team();
        let script = format!("[ $GPUPLAN_NODE = {failing} ] && {{ sleep 1; exit 3; }}; sleep 600");
        let mut agents = ["0", "1"].map(|node| {
            let options = ["--node", node, "--nodes", "2", "--machine", node, "--grace", "2s"];
            bench.start(node, &options, &["sh", "-c", &script])
        });
        agents[failing].ends_with(3);
        agents[1 - failing].ends_with(75);
        let log = agents[1 - failing].log();
        assert!(log.contains(&format!("node {failing}: ")) && log.contains("failed"), "{log}");
    }
}

/// Shards of a machine that does not come back are restored by who is left; and who waits for it does not wait beyond its limits.
#[test]
fn a_run_goes_on_with_fewer_machines_or_waits_for_all() {
    let bench = team();
    let script = "echo resumed from $(ls $GPUPLAN_RESUME_FROM 2>/dev/null | tr '\\n' ' '); if [ -z \"$GPUPLAN_RESUME_FROM\" ]; then \
                  mkdir -p $GPUPLAN_CKPT_DIR/.aside; echo $GPUPLAN_NODE > $GPUPLAN_CKPT_DIR/.aside/shard-$GPUPLAN_NODE; \
                  touch $GPUPLAN_CKPT_DIR/.aside/.complete; mv $GPUPLAN_CKPT_DIR/.aside $GPUPLAN_CKPT_DIR/step-1; fi";
    let start = |life: &str, node: &str, nodes: &str, lifetime: &str| {
        let options = ["--node", node, "--nodes", nodes, "--machine", node, "--lifetime", lifetime];
        bench.start(&format!("{life}-{node}"), &options, &["sh", "-c", script])
    };
    for mut agent in ["0", "1"].map(|node| start("both", node, "2", "1h")) {
        agent.ends_with(0);
    }
    let mut waiting = start("waits", "0", "2", "15s");
    waiting.ends_with(77);
    let log = waiting.log();
    assert!(log.contains("waiting for node 1 of 2; to go on without it") && !log.contains("resumed"), "{log}");
    let mut alone = start("alone", "0", "1", "1h");
    alone.ends_with(0);
    assert!(alone.log().contains("resumed from shard-0 shard-1"), "{}", alone.log());
    assert_eq!(bench.json("spec.json")["nodes"], 2);
}

/// Its last checkpoint waits for files that will never come: the others' silence shortens that, too.
#[test]
fn a_machine_that_vanishes_after_the_last_step_does_not_hold_up_the_end() {
    let bench = team();
    let go = bench.path("go").display().to_string();
    let script = format!(
        "until [ -e {go} ]; do sleep 0.05; done; mkdir $GPUPLAN_CKPT_DIR/.aside; touch $GPUPLAN_CKPT_DIR/.aside/.complete; \
         mv $GPUPLAN_CKPT_DIR/.aside $GPUPLAN_CKPT_DIR/step-1; echo done"
    );
    let mut agents = ["0", "1"].map(|node| {
        let options = ["--node", node, "--nodes", "2", "--machine", node, "--grace", "2s"];
        bench.start(node, &options, &["sh", "-c", &format!("echo ready; {script}")])
    });
    for agent in &mut agents {
        agent.wait_for("ready");
    }
    vanish(&bench, &mut agents[1], 1);
    std::fs::write(&go, "").unwrap();
    agents[0].ends_with(75);
    assert!(agents[0].log().contains("done") && agents[0].log().contains("has fallen silent"), "{}", agents[0].log());
}
