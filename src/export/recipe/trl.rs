//! TRL (trl/trainer, trl/scripts): `trl sft --config FILE`.

use serde_json::json;

use super::{Names, adapters, file, fsdp, is_eager, quantizes_twice, recomputes, shared};
use crate::ExportError;
use crate::job::Job;

const NAMES: Names = Names {
    program: "trl",
    model: "model_name_or_path",
    length: "max_length",
    micro_batch: "per_device_train_batch_size",
    epochs: "num_train_epochs",
    optimizer: "optim",
    rank: "lora_r",
    alpha: "lora_alpha",
    has_fp8: false,
};

pub fn render(job: &Job) -> Result<String, ExportError> {
    let mut all = shared(job, NAMES)?;
    let recipe = &job.recipe;
    let mut add = |key: &str, value| all.insert(key.to_owned(), value);
    let command = match recipe.objective.as_str() {
        "" | "next-token" => "sft",
        known @ ("dpo" | "kto" | "reward") => known,
        _ => return Err(job.misfit(NAMES.program, "its command line has no such objective")),
    };
    let (has_adapters, has_four_bits) = adapters(job);
    if has_adapters {
        add("use_peft", json!(true));
        let targets = if recipe.targets.is_empty() { json!("all-linear") } else { json!(recipe.targets) };
        add("lora_target_modules", targets);
        add("load_in_4bit", json!(has_four_bits));
        add("load_in_8bit", json!(recipe.has_eight_bits));
        if has_four_bits && let Some(twice) = quantizes_twice(job) {
            add("use_bnb_nested_quant", json!(twice));
        }
    }
    add("gradient_checkpointing", json!(recomputes(job, NAMES.program)?));
    add("attn_implementation", json!(if is_eager(job) { "eager" } else { "flash_attention_2" }));
    if command == "sft" {
        add("packing", json!(recipe.packing));
    }
    if let Some(sharding) = fsdp(job) {
        add("fsdp", json!(sharding));
    }
    add("dataset_name", json!("DATASET"));
    // Of its own examples of adapters; to be edited.
    add("learning_rate", json!(2e-4));
    let processes = job.machines().nodes * job.machines().gpus_per_node;
    let how = if job.machines().nodes > 1 {
        format!(
            "on each machine: trl {command} --config FILE --num_machines {} --machine_rank N --main_process_ip FIRST --num_processes {processes}",
            job.machines().nodes
        )
    } else {
        format!("trl {command} --config FILE --num_processes {processes}")
    };
    file(job, all, &["DATASET and the learning rate"], &[how])
}
