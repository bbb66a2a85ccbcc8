//! `export` of served models: what each engine and platform gets for recorded plans, what is refused, and the engines' own flags.

use crate::cli::export::{accepted_by, around, text};
use crate::cli::support::{NOW, gpuplan, gpuplan_at};
use gpuplan_testbed::executable::executable;

/// One GPU a replica, two machines a replica, and two replicas a machine.
const PLANS: [&str; 3] = ["service", "service-two-machines", "service-sglang"];

#[test]
fn engines_get_the_reviewed_commands() {
    for (plan, target) in [(PLANS[0], "vllm"), (PLANS[1], "vllm"), (PLANS[2], "sglang")] {
        let script = text(plan, target, &[]);
        let checked = std::process::Command::new("bash").args(["-n", "-c", &script]).status().unwrap();
        assert!(checked.success(), "{script}");
        insta::assert_snapshot!(format!("{target}_{plan}"), script);
    }
}

#[test]
fn platforms_get_the_reviewed_objects() {
    for (plan, target) in [
        (PLANS[2], "kubernetes"),
        (PLANS[1], "leaderworkerset"),
        (PLANS[2], "kserve"),
        (PLANS[0], "llm-d"),
        (PLANS[2], "dynamo"),
    ] {
        insta::assert_snapshot!(format!("{target}_{plan}"), text(plan, target, &[]));
    }
}

/// Two replicas of four GPUs each run beside each other with GPUs and ports of their own.
#[test]
fn replicas_of_one_machine_share_no_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let script = text(PLANS[2], "sglang", &[]);
    // A stand-in for the engine writes down what it was started with.
    let path = folder.path().join("python3");
    executable(&path, "#!/bin/bash\necho \"$CUDA_VISIBLE_DEVICES $*\" >>\"$OUT\"\nsleep 1\n");
    let out = folder.path().join("out");
    let paths = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let ran =
        std::process::Command::new("bash").args(["-c", &script]).env("PATH", paths).env("OUT", &out).status().unwrap();
    assert!(ran.success());
    let mut started: Vec<String> = std::fs::read_to_string(&out).unwrap().lines().map(str::to_owned).collect();
    started.sort();
    let begins: Vec<&str> = started.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(begins, ["0,1,2,3", "4,5,6,7"]);
    assert!(started[0].ends_with("--port 8000") && started[1].ends_with("--port 8001"), "{started:?}");
}

/// The last lines of a first screen are what a person types next.
#[test]
fn the_command_that_the_first_screen_of_a_service_shows_writes_what_starts_it() {
    let asked = ["--model", "gpt-oss-120b", "--requests-per-second", "20", "--prompt-tokens", "1000"];
    let asked = [&asked[..], &["--answer-tokens", "300", "--engine", "sglang"]].concat();
    let encoder =
        ["--model", "bge-m3", "--requests-per-second", "200", "--prompt-tokens", "256", "--answer-tokens", "0"];
    for (question, engine) in [
        (&["examples/serve-llama-3.1-8b.toml"][..], "vllm serve"),
        (&["examples/serve-deepseek-v3.toml", "--engine", "vllm"], "vllm serve"),
        (&asked, "sglang.launch_server"),
        (&encoder, "vllm serve"),
    ] {
        let shown = gpuplan_at(NOW, "400", &[&["plan"], question].concat());
        let command = shown.stdout.lines().find_map(|line| line.strip_prefix("Serve:   gpuplan "));
        let command = command.unwrap_or_else(|| panic!("{}{}", shown.stdout, shown.stderr));
        let written = gpuplan_at(NOW, "400", &command.split(' ').collect::<Vec<_>>());
        assert!(
            written.code == 0 && written.stdout.contains(engine),
            "{command}: {}{}",
            written.stdout,
            written.stderr
        );
    }
    let images = gpuplan(&["plan", "examples/serve-flux.toml"]);
    assert!(images.code == 0 && !images.stdout.contains("Serve: "), "{}", images.stdout);
}

#[test]
fn the_model_and_more_flags_are_given_behind_the_dashes() {
    let words = ["meta-llama/Llama-3.1-8B-Instruct", "--enable-prefix-caching"];
    let script = around(PLANS[0], "vllm", &[], &words);
    assert!(!script.contains("EDIT"), "{script}");
    assert!(script.contains("vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 1"), "{script}");
    assert!(script.contains("--enable-prefix-caching --host"), "{script}");
}

#[test]
fn what_a_target_cannot_start_is_refused_with_what_can() {
    for (plan, target, words) in [
        (PLANS[0], "slurm", "export to kubernetes, vllm, sglang"),
        (PLANS[0], "sglang", "plan again with --engine sglang"),
        (PLANS[2], "llm-d", "plan again with --engine vllm"),
        (PLANS[1], "kserve", "export to leaderworkerset"),
        ("one-node", "vllm", "this plan trains one"),
    ] {
        let ran = gpuplan(&["export", &format!("tests/fixtures/plans/{plan}.json"), "--to", target]);
        assert!(ran.code == 2 && ran.stderr.contains(words), "{plan} {target}: {}", ran.stderr);
    }
    // A price of TensorRT-LLM is no promise of another engine.
    let ran = gpuplan(&["export", "examples/serve-deepseek-v3.toml", "--to", "kubernetes"]);
    assert!(ran.code == 2 && ran.stderr.contains("tensorrt-llm"), "{}", ran.stderr);
}

#[test]
fn vllm_knows_the_flags() {
    let (first, second) = (PLANS[0], PLANS[1]);
    accepted_by("vllm", "vllm", ("--max-num-seqs", "--max-num-seq"), &[first, second]);
}

#[test]
fn sglang_knows_the_flags() {
    accepted_by("sglang", "sglang", ("--tp-size", "--tp-sizes"), &PLANS[2..]);
}

#[test]
fn kubernetes_takes_the_deployment() {
    accepted_by("kubernetes", "kubernetes", ("matchLabels", "matchLabel"), &PLANS[2..]);
}
