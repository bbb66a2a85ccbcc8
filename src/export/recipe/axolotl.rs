//! Axolotl (axolotl/utils/schemas): `axolotl train FILE`.

use serde_json::json;

use super::{Names, adapters, file, is_eager, quantizes_twice, recomputes, shared};
use crate::ExportError;
use crate::job::Job;
use gpuplan_workload::{Shard, Task};

const NAMES: Names = Names {
    program: "axolotl",
    model: "base_model",
    length: "sequence_len",
    micro_batch: "micro_batch_size",
    epochs: "num_epochs",
    optimizer: "optimizer",
    rank: "lora_r",
    alpha: "lora_alpha",
    has_fp8: true,
};

pub fn render(job: &Job) -> Result<String, ExportError> {
    let mut all = shared(job, NAMES)?;
    let recipe = &job.recipe;
    let mut add = |key: &str, value| all.insert(key.to_owned(), value);
    let (has_adapters, has_four_bits) = adapters(job);
    if has_adapters {
        add("adapter", json!(if has_four_bits { "qlora" } else { "lora" }));
        if recipe.targets.is_empty() {
            add("lora_target_linear", json!(true));
        } else {
            add("lora_target_modules", json!(recipe.targets));
        }
        add("load_in_4bit", json!(has_four_bits));
        add("load_in_8bit", json!(recipe.has_eight_bits));
        if has_four_bits && quantizes_twice(job) == Some(false) {
            add("bnb_config_kwargs", json!({ "bnb_4bit_use_double_quant": false }));
        }
    }
    add("gradient_checkpointing", json!(recomputes(job, NAMES.program)?));
    add(if is_eager(job) { "eager_attention" } else { "flash_attention" }, json!(true));
    add("sample_packing", json!(recipe.packing));
    match recipe.objective.as_str() {
        "" | "next-token" => {}
        "reward" => {
            add("reward_model", json!(true));
        }
        known @ ("dpo" | "ipo" | "kto" | "orpo" | "simpo") => {
            add("rl", json!(known));
        }
        _ => return Err(job.misfit(NAMES.program, "it is told no such objective by this export")),
    }
    match job.layout().shard {
        Shard::Zero3 | Shard::Hsdp => {
            add("fsdp_version", json!(2));
            add(
                "fsdp_config",
                json!({ "auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "reshard_after_forward": true, "state_dict_type": "SHARDED_STATE_DICT" }),
            );
        }
        Shard::None | Shard::Zero1 | Shard::Zero2 => {}
    }
    if let (Shard::Hsdp, Some(group)) = (job.layout().shard, job.layout().shard_group) {
        add("dp_shard_size", json!(group));
        add("dp_replicate_size", json!(job.layout().data / group.max(1)));
    }
    let kind = if recipe.task == Task::Pretrain { "completion" } else { "alpaca" };
    add("datasets", json!([{ "path": "DATASET", "type": kind }]));
    // Of its own examples of adapters; to be edited.
    add("learning_rate", json!(2e-4));
    let how = ["axolotl train FILE".to_owned()];
    file(job, all, &["DATASET and its type, and the learning rate"], &how)
}
