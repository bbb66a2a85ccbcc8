//! Tests of what the set `held-back-30` showed (`tests/fixtures/jobs/labels/strict.csv`): its files retold in other words.

#![cfg(test)]

use super::tests::asked;
use crate::{Gpus, ImportError, JobRequest, Names};
use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;

fn job(text: &str, path: &str) -> Result<JobRequest, ImportError> {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    crate::read(text, Names { path, ..Names::new(&hardware, &models) })
}

fn sizes(asked: &JobRequest) -> String {
    let model = &asked.workload.model;
    let text = |number: &Option<_>| number.as_ref().map_or_else(String::new, ToString::to_string);
    format!(
        "{}x{} {}",
        text(&model.layers),
        text(&model.hidden),
        asked.workload.training.task.as_deref().unwrap_or("-")
    )
}

/// A backslash keeps the quote behind it, and the flags behind such a text are read.
#[test]
fn a_quote_in_a_quoted_text_does_not_end_it() {
    let line = "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --input_template $'Q: {}\\nLet\\'s go\\n' --pretrain a/Qwen2.5-7B --micro_train_batch_size 2 --max_epochs 3";
    let read = asked(line);
    assert_eq!(read.model_name.as_deref(), Some("a/Qwen2.5-7B"));
    assert_eq!(read.workload.training.epochs.unwrap().to_string(), "3");
    let plain = asked("torchrun train.py --model_name_or_path \"it costs $'5'\" --num_train_epochs 2");
    assert_eq!(plain.workload.training.epochs.unwrap().to_string(), "2", "no such quote begins between others");
    let open = asked("torchrun train.py --num_train_epochs 2 --text $'never closed");
    assert!(open.unread.iter().any(|one| one.value.contains("never closed")), "{:?}", open.unread);
}

#[test]
fn a_language_model_may_be_given_by_its_sizes_alone() {
    let flags = "--num-layers 4 --d-model 512 --num-heads 16 --lr 1e-3 --batch-size 8 --steps 10";
    let read = |line: &str, name: &str| sizes(&job(&format!("#!/bin/bash\npython {line}\n"), name).unwrap());
    assert_eq!(read(&format!("train.py {flags} --context-length 256"), "a.sh"), "4x512 pretrain");
    assert_eq!(read(&format!("train.py {flags} --context-length 256 --pretrained_checkpoint a.pt"), "a.sh"), "4x512 -");
    // Without a word of texts it may be a model of anything.
    assert_eq!(read(&format!("train.py {flags} --seq_len 96"), "a.sh"), "x -");
    assert_eq!(read(&format!("train.py {flags} --context-length 256 --patch_size 16"), "a.sh"), "x -");
}

/// Sections of somebody's own: the sizes stand in one and the training in another.
#[test]
fn a_configuration_may_describe_its_model() {
    let model = "model:\n  n_layers: 28\n  d_model: 1024\n  n_q_heads: 16\n  n_kv_heads: 8\n  vocab_size: 50000\n";
    let training = "  micro_batch_size: 2\n  grad_accum_steps: 16\n  epochs: 1\n  peak_lr: 2.0e-5\n";
    let read = |text: &str, name: &str| job(text, name).map(|asked| sizes(&asked));
    assert_eq!(read(&format!("{model}sft:\n{training}"), "sft_config.yaml").unwrap(), "28x1024 -");
    assert_eq!(read(&format!("{model}training:\n{training}"), "conf.yaml").unwrap(), "28x1024 pretrain");
    assert_eq!(read(&format!("{model}training:\n{training}lora:\n  rank: 8\n"), "conf.yaml").unwrap(), "28x1024 lora");
    let picture = format!("{model}  patch_size: 16\ntraining:\n{training}");
    assert!(read(&picture, "conf.yaml").is_err(), "a model of pictures is none of texts");
    let named = "model:\n  model_name_or_path: out/small/checkpoint-10000\n  hidden_size: 768\n  num_hidden_layers: 12\n  num_attention_heads: 12\n  max_position_embeddings: 2048\ntraining:\n  per_device_train_batch_size: 4\n  num_train_epochs: 1\nlora:\n  r: 16\n";
    assert_eq!(read(named, "conf.yaml").unwrap(), "12x768 lora");
}

#[test]
fn an_epoch_of_torchtune_may_end_before_its_data() {
    let text = "model:\n  _component_: torchtune.models.llama3_1.lora_llama3_1_8b\nbatch_size: 2\nepochs: 2\nmax_steps_per_epoch: 300\n";
    let training = |text: &str| {
        let training = job(text, "a.yaml").unwrap().workload.training;
        (training.steps.map(|steps| steps.to_string()), training.epochs.map(|epochs| epochs.to_string()))
    };
    assert_eq!(training(text), (Some("600".to_owned()), None));
    assert_eq!(training(&text.replace("300", "null")), (None, Some("2".to_owned())));
}

#[test]
fn a_folder_of_a_state_has_the_name_of_the_one_above() {
    let model = |path: &str| asked(&format!("torchrun sft.py --model_name_or_path {path}")).workload.model.preset;
    assert_eq!(model("/a/moduleformer-8b-hf/iter_0264000").as_deref(), Some("moduleformer-8b-hf"));
    assert_eq!(model("/a/foo-8b/global_step_40").as_deref(), Some("foo-8b"));
    assert_eq!(model("/a/b/step"), None);
}

#[test]
fn a_server_of_pictures_is_told_how_many_gpus_it_has() {
    let read =
        asked("sglang serve --model-type diffusion --model-path a/b --num-gpus 8 --tp-size 1 --ulysses-degree 8");
    assert_eq!(read.launch.gpus, Some(8));
}

/// The Container Device Interface names cards; `all` is as many as the server is told.
#[test]
fn a_service_may_name_its_cards_as_devices() {
    let gpus = |devices: &str, flags: &str| {
        let text = format!(
            "services:\n  a:\n    image: vllm/vllm-openai:v1\n    command: --model gpt2 {flags}\n    devices: {devices}\n"
        );
        job(&text, "compose.yaml").unwrap().choices.first().and_then(|choice| choice.gpus)
    };
    assert_eq!(gpus("[nvidia.com/gpu=all]", "-tp 2"), Some(Gpus::Together(2)));
    assert_eq!(gpus("[nvidia.com/gpu=0, nvidia.com/gpu=1]", ""), Some(Gpus::PerMachine(2)));
    assert_eq!(gpus("[nvidia.com/gpu=all]", ""), None);
}

#[test]
fn a_runtime_of_vllms_production_stack_serves() {
    let text = "apiVersion: production-stack.vllm.ai/v1alpha1\nkind: VLLMRuntime\nmetadata: {name: a}\nspec:\n  model: {modelURL: Qwen/Qwen2.5-7B-Instruct}\n  vllmConfig: {tensorParallelSize: 4}\n  deploymentConfig:\n    replicas: 2\n    resources: {cpu: '8', memory: 16Gi, gpu: '4'}\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: b}\nspec: {}\n";
    let read = job(text, "a.yaml").unwrap();
    assert_eq!(read.model_name.as_deref(), Some("Qwen/Qwen2.5-7B-Instruct"));
    assert_eq!((read.choices[0].gpus, read.nodes), (Some(Gpus::PerMachine(4)), Some(2..=2)));
    assert_eq!(read.workload.serving.tensor_parallel.unwrap().to_string(), "4");
    assert!(job(&text.replace("gpu: '4'", "disk: '4'"), "a.yaml").is_err());
}

/// Of many different keys each is looked up once.
#[test]
fn what_changes_no_price_is_said_once() {
    let line = "torchrun train.py --model_name_or_path gpt2 --seed 1 --output_dir a\n";
    let read = job(&format!("#!/bin/bash\n{line}{line}"), "a.sh").unwrap();
    assert_eq!(read.no_effect.iter().filter(|one| one.key == "--seed").count(), 1);
    let mut many = JobRequest::new(crate::JobKind::Script);
    for key in 0..300_000 {
        many.note_without_effect(&key.to_string(), 0);
    }
    many.forget_repeated();
    assert_eq!(many.no_effect.len(), 300_000);
}

/// A script of a megabyte may have sixty thousand ways, and no stack holds them all. What lies behind more commands than a script has is not read.
#[test]
fn many_ways_through_a_script_are_read_one_by_one() {
    let ways = |count: u32, begin: &str, way: fn(u32) -> String, end: &str| {
        let all: String = (0..count).map(way).collect();
        let line = "torchrun train.py --model_name_or_path gpt2 --learning_rate $X --num_train_epochs $Y";
        asked(&format!("Y=3\n{begin}{all}{end}\n{line}")).workload.training.epochs.map(|epochs| epochs.to_string())
    };
    let arm: fn(u32) -> String = |arm| format!("a{arm}) X={arm} ;;\n");
    let elif: fn(u32) -> String = |arm| format!("elif [ -f a{arm} ]; then X={arm}\n");
    assert_eq!(ways(500, "case $1 in\n", arm, "esac").as_deref(), Some("3"));
    assert_eq!(ways(500, "if [ -f a ]; then X=1\n", elif, "fi").as_deref(), Some("3"));
    assert_eq!(ways(500, "case $1 in\n", |arm| format!("a{arm}) Y={arm} ;;\n"), "esac"), None);
    ways(30_000, "case $1 in\n", arm, "esac");
    ways(30_000, "if [ -f a ]; then X=1\n", elif, "fi");
}
