//! The training stack of a command, and what its parser does where the command says nothing.

use super::entry::Entry;
use super::programs::{
    ANY, AWS_SAMPLES, AXOLOTL, BERT, DECODER, DIFFUSERS, DPO_REFERENCE, FAIRSEQ, GALORE, HUGGING_FACE, LEROBOT,
    LEVANTER, LIGHTNING, LIKE_LLAMA_FACTORY, LITGPT, LITGPT_FULL, LITGPT_PRETRAIN, LLAMA_COOKBOOK, LLAMA_FACTORY,
    MAXTEXT, MEGATRON, MEGATRON_DEEPSPEED, MEGATRON_SWIFT, NEMO, OPEN_CLIP, OPEN_RLHF, OUMI, RL2, RL2_SFT, SERVE,
    SGLANG, SWIFT, TGI, TORCHTITAN, TORCHTUNE, TRL, UNSLOTH, VERL, VERL_SFT,
};
use super::setting::Dialect;
use crate::JobRequest;
use gpuplan_units::names::word as spelt;
use gpuplan_workload::Stacks;
use gpuplan_workload::assumption::JobAssumption;

/// The tables of a command, by the program that it starts and its flags.
pub fn of_command(program: &str, entries: &[Entry]) -> &'static Dialect {
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let name = program.rsplit('/').next().unwrap_or(program);
    let parts: Vec<&str> = program.split(['/', '.', ' ']).collect();
    let is_of = |package: &str| parts.contains(&package);
    if program.starts_with("vllm serve")
        || program == "trl vllm-serve"
        || program.starts_with("vllm.entrypoints")
        || serves_with_vllm(program, entries)
    {
        &SERVE
    } else if SGLANGS.iter().any(|known| program.starts_with(known)) {
        &SGLANG
    } else if program.starts_with("text-generation-launcher") {
        &TGI
    } else if is_of("axolotl") {
        &AXOLOTL
    } else if program.starts_with("llamafactory-cli") || (has("finetuning_type") && is_llama_factory(program)) {
        &LLAMA_FACTORY
    } else if has("finetuning_type") {
        &LIKE_LLAMA_FACTORY
    } else if program.starts_with("megatron ") {
        &MEGATRON_SWIFT
    } else if program.starts_with("swift ") || is_of("swift") || has("sft_type") {
        &SWIFT
    } else if program == "litgpt pretrain" {
        &LITGPT_PRETRAIN
    } else if program == "litgpt finetune_full" {
        &LITGPT_FULL
    } else if program.starts_with("litgpt ") {
        &LITGPT
    } else if program.starts_with("tune run") {
        &TORCHTUNE
    } else if program.starts_with("torchtitan") || has("job.config_file") || has("training.seq_len") {
        &TORCHTITAN
    } else if is_of("oumi") {
        &OUMI
    } else if is_of("verl") && name.contains("sft_trainer") {
        &VERL_SFT
    } else if is_of("verl") || has("actor_rollout_ref.model.path") {
        &VERL
    } else if is_of("RL2") {
        if is_of("ppo") { &RL2 } else { &RL2_SFT }
    } else if is_of("MaxText") || is_of("maxtext") || has("base_emb_dim") {
        &MAXTEXT
    } else if is_of("levanter") {
        &LEVANTER
    } else if is_of("openrlhf") || (has("pretrain") && has("micro_train_batch_size")) {
        &OPEN_RLHF
    } else {
        of_words(name, &parts, entries)
    }
}

/// A server of somebody's own that is told what only vLLM is told: `serve_compat.py --gpu_memory_utilization 0.9`.
pub fn serves_with_vllm(program: &str, entries: &[Entry]) -> bool {
    const OF_VLLM: [&str; 2] = ["max_model_len", "gpu_memory_utilization"];
    let module = program.rsplit('/').next().unwrap_or(program).trim_end_matches(".py");
    let name = module.rsplit('.').next().unwrap_or(module).to_ascii_lowercase();
    let is_server = name.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| word.starts_with("serv"));
    is_server && entries.iter().any(|entry| OF_VLLM.contains(&entry.key.as_str()))
}

/// LLaMA-Factory's own programs, in its early versions too (`src/train_bash.py`, `src/train_sft.py`).
fn is_llama_factory(program: &str) -> bool {
    const NAMES: [&str; 7] =
        ["train.py", "train_bash.py", "train_sft.py", "train_pt.py", "train_rm.py", "train_dpo.py", "train_ppo.py"];
    let name = program.rsplit('/').next().unwrap_or(program);
    program.contains("llamafactory") || NAMES.contains(&name)
}

/// Programs of SGLang that serve. Its others (`sglang.bench_serving`) ask one that does, of any engine.
const SGLANGS: [&str; 2] = ["sglang.launch", "sglang serve"];

/// The tables of a program whose own name says less than its words.
fn of_words(name: &str, parts: &[&str], entries: &[Entry]) -> &'static Dialect {
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let is_of = |package: &str| parts.contains(&package);
    if has("hidden_width") {
        &AWS_SAMPLES
    } else if is_megatron(name, entries) {
        if has("deepspeed") { &MEGATRON_DEEPSPEED } else { &MEGATRON }
    } else if is_nemo(name, entries) {
        &NEMO
    } else if OF_LIGHTNING.iter().any(|key| has(key)) {
        &LIGHTNING
    } else if is_of("trl") {
        &TRL
    } else if name == "lerobot-train" {
        &LEROBOT
    } else if name.starts_with("unsloth") {
        &UNSLOTH
    } else if name.starts_with("fairseq-") || (has("arch") && (has("max_tokens") || has("tokens_per_sample"))) {
        &FAIRSEQ
    } else if is_of("open_clip_train") || (has("train_data") && has("dataset_type")) {
        &OPEN_CLIP
    } else if is_of("llama_recipes") || is_of("llama_cookbook") || has("batch_size_training") {
        &LLAMA_COOKBOOK
    } else if has("exp_name") && has("loss") && (has("trainer") || has("datasets")) {
        &DPO_REFERENCE
    } else if name.starts_with("torchrun_main") || (has("total_batch_size") && has("model_config")) {
        &GALORE
    } else if has("per_device_train_batch_size") {
        &HUGGING_FACE
    } else if has("pretrained_model_name_or_path")
        && (has("resolution") || has("instance_prompt") || has("network_module"))
    {
        &DIFFUSERS
    } else if has("train_batch_size") && (has("bert_model") || (has("do_train") && has("max_seq_length"))) {
        &BERT
    } else if (SIZES.iter().all(|key| has(key)) || SIZES_OF_GPT.iter().any(|sizes| sizes.iter().all(|key| has(key))))
        && !MODELS.iter().any(|key| has(key))
    {
        &DECODER
    } else {
        &ANY
    }
}

/// What LightningCLI and Hydra call arguments of Lightning's `Trainer` that no other trainer has.
const OF_LIGHTNING: [&str; 5] = [
    "trainer.accelerator",
    "trainer.devices",
    "trainer.accumulate_grad_batches",
    "trainer.precision",
    "trainer.strategy",
];

/// Sizes by which a program of one's own describes a language model; Megatron-LM's are known by `num_attention_heads`.
const SIZES: [&str; 4] = ["num_layers", "hidden_size", "num_heads", "vocab_size"];
/// The same in the words of GPT-2's code and of nanoGPT. RWKV has no `n_head`.
const SIZES_OF_GPT: [[&str; 4]; 2] =
    [["n_layer", "n_embd", "n_head", "block_size"], ["n_layers", "n_embed", "n_heads", "block_size"]];
/// Keys that name a model, of which sizes change a part.
const MODELS: [&str; 4] = ["model_name_or_path", "model", "model_path", "base_model"];

/// Its settings, or one of its examples (examples/nlp/language_modeling/megatron_*.py) with some of them.
fn is_nemo(name: &str, entries: &[Entry]) -> bool {
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let has_batch = has("model.micro_batch_size") || has("model.global_batch_size");
    (has("trainer.num_nodes") && has_batch)
        || (name.starts_with("megatron_") && entries.iter().any(|entry| entry.key.starts_with("trainer.")))
}

fn is_megatron(name: &str, entries: &[Entry]) -> bool {
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let has_sizes = has("num_layers") && has("hidden_size");
    (has("micro_batch_size") && (name.starts_with("pretrain") || has_sizes))
        || (has_sizes && has("num_attention_heads"))
}

/// What a command leaves open is what its stack's own parser does, not what a sensible user would have chosen.
pub fn leave_to_the_parser(dialect: &Dialect, entries: &[Entry], asked: &mut JobRequest) {
    let Some(stack) = Stacks::embedded().find(dialect.stack).filter(|_| !dialect.stack.is_empty()) else { return };
    let says_recompute = entries.iter().any(|entry| {
        ["gradient_checkpointing", "disable_gradient_checkpointing", "recompute_activations", "recompute_granularity"]
            .contains(&entry.key.as_str())
    });
    let training = &mut asked.workload.training;
    training.framework.get_or_insert_with(|| stack.id.clone());
    let recompute = stack.recompute.parser();
    if training.recompute.is_none() && says_recompute {
        training.recompute = Some("none".to_owned());
    } else if let (None, Some(recompute)) = (&training.recompute, recompute) {
        training.recompute = Some(spelt(recompute));
        asked.assumed.push(JobAssumption::RecomputeOfStack { stack: stack.id.clone(), recompute });
    }
    if (&training.overlap, stack.overlap.parser()) == (&None, Some(false)) {
        training.overlap = Some(Vec::new());
        asked.assumed.push(JobAssumption::OverlapOfStack { stack: stack.id.clone() });
    }
    let has_adapters = training.task.as_deref().is_some_and(|task| matches!(task, "lora" | "qlora"));
    if let (true, None, Some(targets)) = (has_adapters, &training.lora.targets, stack.lora_targets.parser()) {
        training.lora.targets = Some(targets.into());
        asked.assumed.push(JobAssumption::LoraTargetsOfStack { stack: stack.id.clone(), targets });
    }
}
