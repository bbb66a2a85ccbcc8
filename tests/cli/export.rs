//! `export`: what each engine gets for the same three plans, what cannot be exported, and the engines' own parsers on it.
//!
//! The plans are recorded (tests/fixtures/plans), so a new price or estimate changes nothing here. Parsers are asked where
//! `GPUPLAN_TEST_ENGINES` names a folder with a virtual environment for each (tests/slow.sh makes it); the test says where not.

use gpuplan_testbed::executable::executable;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::cli::support::{Ran, gpuplan, plan};

const PLANS: [&str; 3] = ["one-gpu", "one-node", "eight-nodes"];

fn exported(plan: &str, target: &str, more: &[&str]) -> Ran {
    gpuplan(&[&["export", &format!("tests/fixtures/plans/{plan}.json"), "--to", target], more].concat())
}

/// Standard output of an export that has to work.
pub fn text(plan: &str, target: &str, more: &[&str]) -> String {
    let ran = exported(plan, target, more);
    assert_eq!(ran.code, 0, "{target} {plan}: {}", ran.stderr);
    ran.stdout
}

/// The same around a training command. The clock does not matter to a recorded plan.
pub fn around(plan: &str, target: &str, more: &[&str], command: &[&str]) -> String {
    let file = format!("tests/fixtures/plans/{plan}.json");
    let mut program = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    program
        .args(["export", &file, "--to", target])
        .args(more)
        .arg("--")
        .args(command)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = program.env_clear().env("GPUPLAN_OFFLINE", "1").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn reviewed(target: &str) {
    for plan in PLANS {
        insta::assert_snapshot!(format!("{target}_{plan}"), text(plan, target, &[]));
    }
}

#[test]
fn torchrun_and_slurm_get_the_reviewed_scripts() {
    reviewed("torchrun");
    reviewed("slurm");
    for target in ["torchrun", "slurm"] {
        for plan in PLANS {
            let checked = Command::new("bash").args(["-n", "-c", &text(plan, target, &[])]).status().unwrap();
            assert!(checked.success(), "{target} {plan}");
        }
    }
}

#[test]
fn kubernetes_jobset_and_kueue_get_the_reviewed_objects() {
    for target in ["kubernetes", "jobset", "kueue"] {
        reviewed(target);
    }
}

#[test]
fn skypilot_dstack_ray_and_terraform_get_the_reviewed_files() {
    for target in ["skypilot", "dstack", "ray", "terraform"] {
        reviewed(target);
    }
}

/// The eight nodes split layers, which these two cannot.
#[test]
fn accelerate_and_deepspeed_get_the_reviewed_configurations() {
    for target in ["accelerate", "deepspeed"] {
        for plan in &PLANS[..2] {
            insta::assert_snapshot!(format!("{target}_{plan}"), text(plan, target, &[]));
        }
        insta::assert_snapshot!(format!("{target}_eight-nodes"), exported("eight-nodes", target, &[]).refusal());
    }
}

#[test]
fn training_programs_get_the_reviewed_configurations() {
    for target in ["axolotl", "llama-factory", "trl"] {
        for plan in &PLANS[..2] {
            insta::assert_snapshot!(format!("{target}_{plan}"), text(plan, target, &[]));
        }
        let refused = exported("eight-nodes", target, &[]);
        assert!(refused.code == 2 && refused.stderr.contains("it cannot split layers"), "{}", refused.stderr);
    }
}

#[test]
fn training_programs_know_the_keys() {
    for (target, key) in
        [("axolotl", "sequence_len"), ("llama-factory", "cutoff_len"), ("trl", "gradient_accumulation_steps")]
    {
        let wrong = format!("{key}x");
        accepted(target, "recipes", &target.replace('-', "_"), (key, &wrong), &PLANS[..2]);
    }
}

#[test]
fn the_runs_of_a_sweep_are_queued_by_the_engine() {
    let sweep =
        |target: &str, more: &[&str]| gpuplan(&[&["export", "examples/sweep.toml", "--to", target], more].concat());
    for (target, words) in [
        (
            "slurm",
            &[
                "#SBATCH --array=0-63%8",
                "#SBATCH --gpus-per-node=1",
                "export GPUPLAN_SWEEP_INDEX=\"$SLURM_ARRAY_TASK_ID\"",
            ][..],
        ),
        ("kubernetes", &["completions: 64", "parallelism: 8", "backoffLimitPerIndex:", "nvidia.com/gpu: 1"]),
        ("kueue", &["completions: 64", "job-min-parallelism", "nominalQuota: 8"]),
        ("skypilot", &["for i in $(seq 0 63); do sky jobs launch", ":1", "GPUPLAN_SWEEP_INDEX"]),
        ("ray", &["RUNS, AT_A_TIME = 64, 8", "MACHINES, GPUS = 1, 1"]),
    ] {
        let ran = sweep(target, &[]);
        assert_eq!(ran.code, 0, "{target}: {}", ran.stderr);
        for word in words {
            assert!(ran.stdout.contains(word), "{target} has no {word}:\n{}", ran.stdout);
        }
        let name = "--run \\\"sweep-$(printf %03d \\\"$GPUPLAN_SWEEP_INDEX\\\")";
        assert!(ran.stdout.replace('\\', "").contains(&name.replace('\\', "")), "{target}:\n{}", ran.stdout);
    }
    for (target, more, words) in [
        ("terraform", &[][..], "a sweep of 64 runs is not a single job"),
        ("slurm", &["--set", "sweep.gpus_per_run=0.5"], "share cards"),
    ] {
        let refused = sweep(target, more);
        assert!(refused.code == 2 && refused.stderr.contains(words), "{}", refused.stderr);
    }
}

/// A run of the array finds its number, and its store a name that no other run has.
#[test]
fn a_run_of_an_array_is_told_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let ran = gpuplan(&["export", "examples/sweep.toml", "--to", "slurm", "--store", "file:///s"]);
    for (name, body) in
        [("srun", "shift 2; exec \"$@\""), ("gpuplan", "echo \"$GPUPLAN_SWEEP_INDEX of $GPUPLAN_SWEEP_RUNS: $*\"")]
    {
        let path = folder.path().join(name);
        executable(&path, format!("#!/bin/bash\n{body}\n"));
    }
    let output = Command::new("bash")
        .args(["-c", &ran.stdout])
        .env("PATH", format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap()))
        .env("SLURM_ARRAY_TASK_ID", "7")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("7 of 64: agent --store file:///s --run sweep-007 "), "{said}");
}

#[test]
fn phases_are_exported_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("phases.json");
    let planned = gpuplan(&["plan", "examples/phases.toml", "--output", "json"]);
    fs::write(&path, &planned.stdout).unwrap();
    let refused = gpuplan(&["export", path.to_str().unwrap(), "--to", "slurm"]);
    assert!(
        refused.code == 2
            && refused.stderr.contains("each a job of its own")
            && refused.stderr.contains("--phase train"),
        "{}",
        refused.stderr
    );
    let one = gpuplan(&["export", "examples/phases.toml", "--phase", "train", "--to", "slurm"]);
    assert!(one.code == 0 && one.stdout.contains("#SBATCH --nodes="), "{}", one.stderr);
}

/// The words of the agent's command in a script.
fn command(script: &str) -> String {
    let from = script.find("  -- ").unwrap_or_else(|| panic!("{script}"));
    script[from..].lines().next().unwrap().trim().to_owned()
}

#[test]
fn a_layout_is_told_in_the_words_of_the_framework() {
    let mut told = String::new();
    for framework in ["none", "fsdp", "accelerate", "deepspeed", "megatron", "torchtitan", "hf-trainer", "lightning"] {
        let script = around("one-node", "torchrun", &["--framework", framework], &["my train.py", "--lr", "1e-4"]);
        told.push_str(&format!("{framework}\n{}\n\n", command(&script)));
    }
    let split = text("eight-nodes", "torchrun", &["--framework", "megatron"]);
    assert!(
        split.contains("--pipeline-model-parallel-size 2") && split.contains("--use-distributed-optimizer"),
        "{split}"
    );
    insta::assert_snapshot!("frameworks", told);
}

#[test]
fn every_job_wraps_the_same_agent() {
    // Ray's script is a Python text and Terraform's a template: quotes and breaks are written otherwise there.
    let agent = |script: &str| -> String {
        let plain: String = script.chars().filter(|c| !"\"\\,".contains(*c)).collect();
        let (from, to) = (plain.find("gpuplan agent").unwrap(), plain.find("--exit-signal-handler").unwrap());
        plain[from..to].split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let wrapped = |target| {
        agent(&around("eight-nodes", target, &["--store", "gs://bucket/runs", "--run", "same"], &["pretrain_gpt.py"]))
    };
    let first = wrapped("slurm");
    assert!(first.contains("--store gs://bucket/runs --run same --node $NODE --nodes $NODES"), "{first}");
    for target in ["torchrun", "kubernetes", "jobset", "kueue", "skypilot", "dstack", "ray", "terraform"] {
        assert_eq!(wrapped(target), first, "{target}");
    }
}

#[test]
fn machines_of_aws_are_told_of_their_fabric() {
    let aws = [
        "export",
        "examples/llama-7b-pretrain.toml",
        "--cloud",
        "aws",
        "--gpus",
        "h100:64",
        "--deadline",
        "90d",
        "--on-demand",
    ];
    let ran = gpuplan(&[&aws[..], &["--framework", "megatron", "--to", "kubernetes"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("vpc.amazonaws.com/efa: 32") && ran.stdout.contains("FI_PROVIDER=efa"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("completions: 8") && !ran.stdout.contains("affinity"), "on-demand: {}", ran.stdout);
    let terraform = gpuplan(&[&aws[..], &["--framework", "megatron", "--to", "terraform"]].concat()).stdout;
    assert_eq!(terraform.matches("interface_type        = \"efa").count(), 32, "{terraform}");
}

#[test]
fn what_cannot_be_exported_says_what_can() {
    let refused = |ran: Ran, words: &[&str]| {
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert_eq!(ran.stdout, "", "a refusal prints no data");
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{}", ran.stderr);
    };
    refused(exported("one-gpu", "nomad", &[]), &["`nomad` is not an export target", "slurm"]);
    refused(exported("one-gpu", "slurm", &["--framework", "kaldi"]), &["`kaldi`", "megatron"]);
    refused(exported("eight-nodes", "slurm", &["--framework", "fsdp"]), &["fsdp", "PP2", "--framework megatron"]);
    refused(exported("one-gpu", "kubernetes", &["--run", "9-lives"]), &["`9-lives`", "starts with a letter"]);
    refused(exported("eight-nodes", "kubernetes", &["--min-nodes", "4"]), &["--min-nodes", "slurm"]);
    refused(exported("one-gpu", "slurm", &["--tokens", "1B"]), &["recorded plan"]);
    refused(exported("one-gpu", "slurm", &["--plan", "aws/nowhere"]), &["no plan in it has the id"]);
    let elastic = text("eight-nodes", "slurm", &["--min-nodes", "4"]);
    assert!(elastic.contains("#SBATCH --nodes=4-8\n"), "{elastic}");
}

/// Python of an engine's own environment; says so where there is none.
fn python_of(engine: &str, test: &str) -> Option<PathBuf> {
    let python =
        std::env::var_os("GPUPLAN_TEST_ENGINES").map(|folder| Path::new(&folder).join(engine).join("bin/python"));
    let found = python.filter(|python| python.exists());
    if found.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "\nWAIVED {test}: no environment for {engine}; tests/slow.sh sets GPUPLAN_TEST_ENGINES"
        );
    }
    found
}

/// Asks the parser about a good file for each plan, and about one with `good` replaced by `bad`.
fn accepted(target: &str, engine: &str, checker: &str, replaced: (&str, &str), plans: &[&str]) {
    accepted_with(target, &[], engine, checker, replaced, plans);
}

/// The same where target, engine and check have one name.
pub fn accepted_by(target: &str, engine: &str, replaced: (&str, &str), plans: &[&str]) {
    accepted(target, engine, engine, replaced, plans);
}

/// The same with further flags of the export.
fn accepted_with(target: &str, more: &[&str], engine: &str, checker: &str, (good, bad): (&str, &str), plans: &[&str]) {
    let Some(python) = python_of(engine, target) else { return };
    let folder = tempfile::tempdir().unwrap();
    let check = |name: String, text: &str| -> (bool, String) {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let mut command = Command::new(&python);
        // A home of its own: some engines write there.
        command
            .args(["tests/engines/check.py", checker])
            .arg(&path)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("HOME", folder.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for plan in plans {
        let (taken, why) = check(format!("{plan}.yaml"), &text(plan, target, more));
        assert!(taken, "{target} {plan}: {why}");
    }
    let whole = text(plans[0], target, more);
    assert!(whole.contains(good), "{target} has no `{good}`");
    let (taken, _) = check("broken.yaml".to_owned(), &whole.replace(good, bad));
    assert!(!taken, "{target}: the parser took `{bad}`");
}

#[test]
fn kubernetes_takes_the_files() {
    accepted("kubernetes", "kubernetes", "kubernetes", ("completions:", "completionz:"), &PLANS);
    accepted("jobset", "kubernetes", "kubernetes", ("maxRestarts", "maxRestartz"), &PLANS);
    accepted("kueue", "kubernetes", "kubernetes", ("nominalQuota", "quota"), &PLANS);
}

#[test]
fn skypilot_takes_the_files() {
    accepted("skypilot", "skypilot", "skypilot", ("accelerators", "accelerator"), &PLANS);
}

#[test]
fn dstack_takes_the_files() {
    accepted("dstack", "dstack", "dstack", ("spot_policy", "spot_polcy"), &PLANS);
}

#[test]
fn ray_knows_what_the_program_names() {
    accepted("ray", "ray", "ray", ("import placement_group", "import placement_groups"), &PLANS);
}

#[test]
fn accelerate_takes_the_files() {
    accepted("accelerate", "accelerate", "accelerate", ("mixed_precision", "mixed_precison"), &PLANS[..2]);
}

#[test]
fn torchtitan_takes_the_flags() {
    let torchtitan = ["--framework", "torchtitan"];
    let seq_len = ("--training.seq_len", "--training.sequence");
    accepted_with("torchrun", &torchtitan, "torchtitan", "torchtitan", seq_len, &PLANS[1..2]);
}

/// Flags of a framework behind a training command, by the framework's own parser.
fn flags_accepted(framework: &str, own: &[&str], replaced: (&str, &str), plans: &[&str]) {
    let Some(python) = python_of(framework, framework) else { return };
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str| -> (bool, String) {
        let path = folder.path().join("run.sh");
        fs::write(&path, text).unwrap();
        let mut command = Command::new(&python);
        command.args(["tests/engines/check.py", framework]).arg(&path).current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = command.env("HOME", folder.path()).stdin(Stdio::null()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for plan in plans {
        let script = around(plan, "torchrun", &["--framework", framework], own);
        let (taken, why) = check(&script);
        assert!(taken, "{framework} {plan}: {why}");
        assert!(script.contains(replaced.0), "{script}");
        assert!(!check(&script.replace(replaced.0, replaced.1)).0, "the parser took `{}`", replaced.1);
    }
}

#[test]
fn megatron_takes_the_flags() {
    flags_accepted("megatron", &["train.py"], ("--micro-batch-size", "--micro-batches"), &PLANS);
}

#[test]
fn lightning_takes_the_flags() {
    flags_accepted("lightning", &["train.py", "fit"], ("--trainer.num_nodes", "--trainer.nodes"), &PLANS[..2]);
}

#[test]
fn torchtitan_gets_the_flags_of_the_version_that_the_command_is_for() {
    let words = |own: &[&str]| command(&around("one-node", "torchrun", &["--framework", "torchtitan"], own));
    let now = words(&["--module", "llama3", "--config", "llama3_8b"]);
    assert!(
        now.contains("-m torchtitan.train --module llama3 --config llama3_8b --training.local_batch_size 1"),
        "{now}"
    );
    assert!(now.contains(" --dump_folder . ") && now.ends_with(" activation-checkpoint:none"), "{now}");
    assert!(!now.contains("disable_cuda_graphs"), "{now}");
    let before = words(&["train.toml"]);
    assert!(before.contains("-m torchtitan.train --job.config_file train.toml --training"), "{before}");
    assert!(
        before.contains("--job.dump_folder . ") && before.contains("--activation_checkpoint.mode none"),
        "{before}"
    );
}

#[test]
fn a_framework_limits_the_layouts_that_are_searched() {
    let mut planned = plan(
        "llama-7b-pretrain",
        &["--cloud", "aws", "--gpus", "h100:64", "--deadline", "90d", "--on-demand", "--framework", "torchtitan"],
    );
    let layout = &mut planned["recommendation"]["layout"];
    assert_ne!(layout["shard"], "zero1", "torchtitan splits weights");
    (layout["data"], layout["pipeline"], layout["shard"]) = (json!(32), json!(2), json!("zero3"));
    layout.as_object_mut().unwrap().remove("shard_group");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    fs::write(&path, planned.to_string()).unwrap();
    let ran = gpuplan(&["export", path.to_str().unwrap(), "--to", "slurm"]);
    assert!(ran.code == 0 && ran.stdout.contains("torchtitan.train"), "{}", ran.stderr);
    // 0.3 refuses a pipeline with the CUDA graphs that it has by default.
    let has_pipeline = ran.stdout.contains("--parallelism.pipeline_parallel_degree 2");
    assert!(has_pipeline && ran.stdout.contains(" --training.disable_cuda_graphs "), "{}", ran.stdout);
    // A recorded plan stays as it is, and the answer says how to plan again.
    let refused = exported("eight-nodes", "slurm", &["--framework", "torchtitan"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("plan WORKLOAD.toml --framework torchtitan"),
        "{}",
        refused.stderr
    );
}

#[test]
fn deepspeed_takes_the_files() {
    accepted("deepspeed", "deepspeed", "deepspeed", ("\"stage\"", "\"stages\""), &PLANS[..2]);
}

/// With the provider in a folder, `GPUPLAN_TEST_TERRAFORM` (as `terraform init -plugin-dir` wants it).
#[test]
fn terraform_takes_the_files() {
    let Some(plugins) = std::env::var_os("GPUPLAN_TEST_TERRAFORM") else {
        let _ = writeln!(
            std::io::stderr(),
            "\nWAIVED terraform_takes_the_files: GPUPLAN_TEST_TERRAFORM names no folder with providers"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let terraform = |arguments: &[&str]| -> bool {
        let mut command = Command::new("terraform");
        command.args(arguments).current_dir(folder.path()).env("HOME", folder.path()).env_remove("TF_CLI_CONFIG_FILE");
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    };
    let good = text("one-node", "terraform", &[]);
    let fresh = gpuplan(&[
        "export",
        "examples/llama-7b-pretrain.toml",
        "--cloud",
        "aws",
        "--gpus",
        "h100:64",
        "--deadline",
        "90d",
        "--framework",
        "megatron",
        "--to",
        "terraform",
    ]);
    for (text, is_good) in
        [(good.as_str(), true), (fresh.stdout.as_str(), true), (&good.replace("instance_type", "instance_typ"), false)]
    {
        fs::write(folder.path().join("main.tf"), text).unwrap();
        assert!(terraform(&["init", "-no-color", &format!("-plugin-dir={}", plugins.to_string_lossy())]), "init");
        assert_eq!(terraform(&["validate", "-no-color"]), is_good, "{text}");
    }
}
