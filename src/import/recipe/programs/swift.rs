//! ms-swift, swift/llm/argument (docs, "Command Line Parameters"); its second version had other names.

use super::hugging_face::{ANY, adapters};
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Choice, Model, Nothing, Objective, Switch};
use crate::recipe::usual::OBJECTIVES;
use crate::recipe::words::{MICRO_BATCH, PRECISION, TASK, value};
use crate::{JobRequest, Names};

const TASKS: &[(&str, &str)] = &[("lora", "lora"), ("full", "full-fine-tune")];

/// ms-swift.
pub const SWIFT: Dialect = Dialect {
    stack: "",
    settings: &[
        ("train_type", Choice(TASK, TASKS)),
        ("tuner_type", Choice(TASK, TASKS)),
        ("sft_type", Choice(TASK, TASKS)),
        // Of weights and, where nothing else is said, of the mixed precision too.
        ("torch_dtype", Choice(PRECISION, &[("bfloat16", "bf16"), ("float16", "amp-fp16"), ("float32", "fp32")])),
        ("dtype", Choice(PRECISION, &[("bf16", "bf16"), ("fp16", "amp-fp16"), ("fp32", "fp32")])),
        ("batch_size", MICRO_BATCH),
        ("model_type", Model),
        ("model_name", Nothing),
        ("quant_bits", Choice(|file| &mut file.training.base_weights, &[("4", "nf4"), ("8", "int8")])),
        ("attn_impl", Choice(|file| &mut file.training.attention, crate::recipe::usual::ATTENTION)),
        ("use_flash_attn", Switch(|file| &mut file.training.attention, "flash")),
        ("rlhf_type", Objective(OBJECTIVES)),
    ],
    nothing: &[
        "model_author",
        "loss_scale",
        "tools_prompt",
        "deepspeed",
        "template",
        "template_type",
        "tuner_backend",
        "ddp_backend",
        "train_dataset_sample",
        "save_only_model",
        "system",
    ],
    complete: swift,
    ..ANY
};

/// Adapters where nothing is said (swift/arguments, `tuner_type`).
fn swift(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    let stated = ["train_type", "tuner_type", "sft_type"].iter().find_map(|key| value(entries, key));
    match stated {
        None => {
            asked.workload.training.task.get_or_insert_with(|| "lora".to_owned());
        }
        Some("lora" | "full") => {}
        Some(other) => {
            let why = format!("the estimate knows no training of the kind `{other}`");
            asked.not_planned.get_or_insert(why);
        }
    }
    if asked.workload.training.task.as_deref() == Some("lora") {
        adapters(entries, asked, names);
    }
}
