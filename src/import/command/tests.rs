//! Tests of `command.rs`.

#![cfg(test)]

use super::*;
use crate::JobKind;
use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;
use gpuplan_workload::file::Scalar;

fn asked(script: &str) -> JobRequest {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let mut asked = JobRequest::new(JobKind::Slurm);
    read(script, &[], &mut asked, Names::new(&hardware, &models));
    asked
}

fn keys(list: &[crate::KeyValue]) -> Vec<&str> {
    list.iter().map(|one| one.key.as_str()).collect()
}

#[test]
fn the_flags_of_the_trainer_are_a_workload() {
    let asked = asked(
        "pip install --upgrade -r a.py.txt\nsrun torchrun --nproc_per_node=8 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B-Instruct \\\n \
         --per_device_train_batch_size 4 --gradient_accumulation_steps=8 --bf16 --max_steps 500 --block_size 2048 \\\n --mystery 7 --fp16 False",
    );
    let training = &asked.workload.training;
    assert_eq!(asked.workload.model.preset.as_deref(), Some("llama-3.1-8b"));
    assert_eq!(
        (training.precision.as_deref(), training.steps.clone()),
        (Some("bf16"), Some(Scalar::from("500".to_owned())))
    );
    assert_eq!((keys(&asked.unread), keys(&asked.no_effect)), (vec!["--mystery"], vec!["--fp16"]));
    assert_eq!(keys(&asked.understood).len(), 6);
}

#[test]
fn the_flags_of_megatron_are_a_workload() {
    let asked = asked(
        "torchrun pretrain_gpt.py --micro-batch-size 2 --global-batch-size 512 --train-iters 1000 --tensor-model-parallel-size 4",
    );
    let training = &asked.workload.training;
    assert_eq!(
        (training.task.as_deref(), keys(&asked.no_effect)),
        (Some("pretrain"), vec!["--tensor_model_parallel_size"])
    );
    assert_eq!(training.global_batch, Some(Scalar::from("512".to_owned())));
}

#[test]
fn what_a_command_leaves_open_is_what_its_parser_does() {
    let read = |script: &str| {
        let asked = asked(script);
        let training = asked.workload.training;
        (training.framework.unwrap_or_default(), training.recompute.unwrap_or_default(), asked.assumed.len())
    };
    for (script, framework, recompute, assumed) in [
        ("torchrun pretrain_gpt.py --micro-batch-size 2 --bf16", "megatron", "none", 2),
        ("torchrun pretrain_gpt.py --micro-batch-size 2 --recompute-activations", "megatron", "selective", 1),
        ("deepspeed pretrain_gpt.py --micro-batch-size 2 --deepspeed", "megatron-deepspeed", "none", 1),
        ("torchrun -m torchtitan.train --training.steps 9", "torchtitan", "selective", 1),
        ("torchrun run_clm.py --per_device_train_batch_size 4", "hf-trainer", "none", 1),
        ("accelerate launch trl/scripts/sft.py --per_device_train_batch_size 4", "trl", "full", 1),
        ("python trl/scripts/sft.py --per_device_train_batch_size 4 --gradient_checkpointing False", "trl", "none", 0),
        ("python src/train.py --finetuning_type full --per_device_train_batch_size 1", "llama-factory", "full", 1),
        ("python train.py --max_steps 5", "", "", 0),
    ] {
        assert_eq!(read(script), (framework.to_owned(), recompute.to_owned(), assumed), "{script}");
    }
    let overlap = |flags: &str| {
        asked(&format!("torchrun pretrain_gpt.py --micro-batch-size 2 {flags}")).workload.training.overlap
    };
    assert_eq!(overlap(""), Some(Vec::new()));
    assert_eq!(overlap("--overlap-param-gather --overlap-grad-reduce"), Some(vec!["weight-gather".to_owned()]));
    let adapters = asked("python run_clm.py --per_device_train_batch_size 4 --use_peft --lora_r 8");
    assert_eq!(adapters.workload.training.lora.targets, Some(vec!["q".to_owned(), "v".to_owned()]));
}

#[test]
fn a_command_ends_where_the_shell_ends_it() {
    for end in ["| tee log", "> log 2>&1", "2>&1 | tee log", "&", "&& echo --fp16 done", "; done", "&>log"] {
        let asked = asked(&format!("python train.py --max_steps 5 --bf16 {end}"));
        assert_eq!(asked.workload.training.precision.as_deref(), Some("bf16"), "{end}");
        assert!(asked.unread.is_empty() && asked.no_effect.is_empty(), "{end}");
    }
    let two = asked("python a.py --seq_len 8 && python b.py --bf16; python c.py --max_steps=3");
    assert_eq!(keys(&two.understood), ["--seq_len", "--bf16", "--max_steps"]);
    let nested = asked("srun torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) train.py --bf16");
    assert_eq!(keys(&nested.understood), ["--bf16"]);
    let script = asked("srun bash -c 'torchrun \\\n --nproc_per_node 8 train.py --bf16'");
    assert_eq!(keys(&script.understood), ["--bf16"]);
    assert_eq!(asked("python train.py --bf16 --run_name \"it").unread[0].key, "train.py");
}

#[test]
fn what_starts_no_program_is_no_command() {
    for script in
        ["cp a.py b.py --force", "echo --bf16", "module load cuda", "# python a.py --bf16", "python", "torchrun -m"]
    {
        let asked = asked(script);
        assert!(asked.understood.is_empty() && asked.unread.is_empty(), "{script}");
    }
    // A model that the catalog lacks is kept by its name, for the one who completes it.
    let strange = asked("python -m train --model nowhere/none --max_steps -1 --base_model /tmp/mine");
    assert_eq!((strange.model_name.as_deref(), keys(&strange.unread)), (Some("nowhere/none"), vec!["--base_model"]));
}
