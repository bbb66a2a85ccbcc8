//! LLaMA-Factory (src/llamafactory/hparams): `llamafactory-cli train FILE`.

use serde_json::json;

use super::{Names, adapters, file, fsdp, is_eager, quantizes_twice, recomputes, shared};
use crate::ExportError;
use crate::job::Job;
use gpuplan_workload::Task;

const NAMES: Names = Names {
    program: "llama-factory",
    model: "model_name_or_path",
    length: "cutoff_len",
    micro_batch: "per_device_train_batch_size",
    epochs: "num_train_epochs",
    optimizer: "optim",
    rank: "lora_rank",
    alpha: "lora_alpha",
    has_fp8: true,
};

pub fn render(job: &Job) -> Result<String, ExportError> {
    let mut all = shared(job, NAMES)?;
    let recipe = &job.recipe;
    let mut add = |key: &str, value| all.insert(key.to_owned(), value);
    let (has_adapters, has_four_bits) = adapters(job);
    let stage = match (recipe.objective.as_str(), recipe.task) {
        ("" | "next-token", Task::Pretrain) => "pt",
        ("" | "next-token", _) => "sft",
        ("reward", _) => "rm",
        ("kto", _) => "kto",
        ("dpo" | "ipo" | "orpo" | "simpo", _) => "dpo",
        _ => return Err(job.misfit(NAMES.program, "it is told no such objective by this export")),
    };
    add("stage", json!(stage));
    if let loss @ ("orpo" | "simpo" | "ipo") = recipe.objective.as_str() {
        add("pref_loss", json!(loss));
    }
    add("do_train", json!(true));
    add("finetuning_type", json!(if has_adapters { "lora" } else { "full" }));
    if has_adapters {
        add("lora_target", json!(if recipe.targets.is_empty() { "all".to_owned() } else { recipe.targets.join(",") }));
        if has_four_bits || recipe.has_eight_bits {
            add("quantization_bit", json!(if has_four_bits { 4 } else { 8 }));
        }
        if has_four_bits && quantizes_twice(job) == Some(false) {
            add("double_quantization", json!(false));
        }
    }
    // It recomputes where nothing is said.
    add("disable_gradient_checkpointing", json!(!recomputes(job, NAMES.program)?));
    add("flash_attn", json!(if is_eager(job) { "disabled" } else { "fa2" }));
    if recipe.packing {
        add("packing", json!(true));
    }
    if let Some(sharding) = fsdp(job) {
        add("fsdp", json!(sharding));
    }
    add("dataset", json!("DATASET"));
    add("template", json!("TEMPLATE"));
    // Of its own examples of LoRA; to be edited.
    add("learning_rate", json!(1e-4));
    let nodes = job.machines().nodes;
    let how = if nodes > 1 {
        format!(
            "on each machine: FORCE_TORCHRUN=1 NNODES={nodes} NODE_RANK=0.. MASTER_ADDR=address-of-0 llamafactory-cli train FILE"
        )
    } else {
        "llamafactory-cli train FILE".to_owned()
    };
    file(job, all, &["DATASET (of dataset_info.json), TEMPLATE (of the model), and the learning rate"], &[how])
}
