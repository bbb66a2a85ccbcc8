//! Oumi (oumi/core/configs): `model`, `data`, `training` and `peft` of a training configuration.

use super::hugging_face::adapters;
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Choice, Either, Flag, Model, Objective, Optimizer, Rank, Switch, Targets};
use crate::recipe::usual::{ATTENTION, OPTIMIZERS};
use crate::recipe::words::{ACCUMULATION, EPOCHS, LENGTH, MICRO_BATCH, PRECISION, RECOMPUTE, STEPS, TASK, value};
use crate::{JobRequest, Names};
use gpuplan_workload::assumption::JobAssumption;
use gpuplan_workload::file::Scalar;

/// Trainers (oumi/core/configs/params/training_params.py, `TrainerType`).
const TRAINERS: &[(&str, &str)] =
    &[("trl_sft", ""), ("hf", ""), ("oumi", ""), ("trl_dpo", "dpo"), ("trl_kto", "kto"), ("", "")];

pub const OUMI: Dialect = Dialect {
    stack: "",
    settings: &[
        ("model.model_name", Model),
        ("model.model_max_length", LENGTH),
        ("model.attn_implementation", Choice(|file| &mut file.training.attention, ATTENTION)),
        // Weights as they are loaded, and with them gradients and the optimizer.
        ("model.torch_dtype_str", Choice(PRECISION, &[("bfloat16", "pure-bf16"), ("float32", "fp32")])),
        ("training.trainer_type", Objective(TRAINERS)),
        ("training.use_peft", Switch(TASK, "lora")),
        ("training.per_device_train_batch_size", MICRO_BATCH),
        ("training.gradient_accumulation_steps", ACCUMULATION),
        ("training.max_steps", STEPS),
        ("training.num_train_epochs", EPOCHS),
        ("training.enable_gradient_checkpointing", Either(RECOMPUTE, "full", "none")),
        ("training.optimizer", Optimizer(OPTIMIZERS)),
        ("training.mixed_precision_dtype", Choice(PRECISION, &[("bf16", "bf16"), ("fp16", "amp-fp16")])),
        ("training.compile", Flag(|file| &mut file.training.compile)),
        ("peft.lora_r", Rank),
        ("peft.lora_target_modules", Targets),
        ("peft.q_lora", Switch(|file| &mut file.training.base_weights, "nf4")),
    ],
    nothing: &["model", "training", "data", "peft", "fsdp", "deepspeed"],
    has_common: false,
    complete: oumi,
};

/// It trains every weight where `use_peft` is not set, whatever stands under `peft`.
fn oumi(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    let is_adapted = value(entries, "training.use_peft").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let training = &mut asked.workload.training;
    if is_adapted {
        adapters(entries, asked, names);
    } else if value(entries, "model.model_name").is_some() {
        let described = value(entries, "model.load_pretrained_weights").is_some_and(|text| text == "false");
        training.task = Some(if described { "pretrain" } else { "full-fine-tune" }.to_owned());
        training.lora = gpuplan_workload::file::LoraSection::default();
        training.base_weights = None;
    }
    // `num_train_epochs` is 3 where nothing is said (params/training_params.py).
    let training = &mut asked.workload.training;
    if training.task.is_some() && training.steps.is_none() && training.epochs.is_none() {
        training.epochs = Some(Scalar::from(3));
        asked.assumed.push(JobAssumption::EpochsOfStack { stack: "oumi".to_owned(), epochs: 3 });
    }
}
