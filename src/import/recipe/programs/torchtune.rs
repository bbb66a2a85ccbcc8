//! torchtune, recipes/configs.

use super::hugging_face::ANY;
use crate::recipe::entry::Entry;
use crate::recipe::model;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Choice, Completed, Either, Flag, Optimizer, Rank, Share, Switch};
use crate::recipe::usual::{OPTIMIZERS, REINFORCEMENT};
use crate::recipe::words::value;
use crate::recipe::words::{LENGTH, MICRO_BATCH, PRECISION, RECOMPUTE};
use crate::{JobRequest, KeyValue, Names};
use gpuplan_workload::file::Scalar;

/// torchtune, recipes/configs.
pub const TORCHTUNE: Dialect = Dialect {
    stack: "torchtune",
    settings: &[
        ("batch_size", MICRO_BATCH),
        ("max_steps_per_epoch", Completed),
        ("dtype", Choice(PRECISION, &[("bf16", "pure-bf16"), ("fp32", "fp32")])),
        ("enable_activation_checkpointing", Either(RECOMPUTE, "full", "none")),
        ("enable_activation_offloading", Switch(|file| &mut file.training.offload, "activations")),
        ("optimizer_in_bwd", Flag(|file| &mut file.training.optimizer_in_backward)),
        ("optimizer._component_", Optimizer(OPTIMIZERS)),
        ("model.lora_rank", Rank),
        ("model.lora_dropout", Share(|file| &mut file.training.lora.dropout)),
        ("compile", Flag(|file| &mut file.training.compile)),
        ("tokenizer.max_seq_len", LENGTH),
        (
            "loss._component_",
            Choice(
                |file| &mut file.training.loss,
                &[
                    ("torchtune.modules.loss.cewithchunkedoutputloss", "chunked"),
                    ("torchtune.modules.loss.linearcrossentropyloss", "chunked"),
                ],
            ),
        ),
    ],
    nothing: &[
        "tokenizer",
        "checkpointer",
        "optimizer",
        "lr_scheduler",
        "kd_ratio",
        "kd_loss",
        "teacher_model",
        "teacher_checkpointer",
        "shuffle",
        "device",
        "metric_logger",
        "log_every_n_steps",
        "log_peak_memory_stats",
        "profiler",
        "save_adapter_weights_only",
        "model._component_",
        "policy_model",
        "reward_and_value_model",
        "model.lora_alpha",
        "model.lora_attn_modules",
        "model.apply_lora_to_mlp",
        "model.apply_lora_to_output",
        "clip_grad_norm",
        "log_level",
    ],
    complete: torchtune,
    ..ANY
};

/// The name of the builder says model and task: `torchtune.models.llama3_1.lora_llama3_1_8b`.
fn torchtune(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    let learns_from_answers = value(entries, "policy_model._component_");
    if learns_from_answers.is_some() {
        asked.not_planned.get_or_insert_with(|| REINFORCEMENT.to_owned());
    }
    let Some(component) = value(entries, "model._component_").or(learns_from_answers) else { return };
    let builder = component.rsplit('.').next().unwrap_or_default();
    let (used, rest) = asked.no_effect.drain(..).partition(|one| one.key.ends_with("model._component_"));
    asked.no_effect = rest;
    asked.understood.extend::<Vec<KeyValue>>(used);
    if let Some(teacher) = value(entries, "teacher_model._component_") {
        model::teacher(&with_point(teacher.rsplit('.').next().unwrap_or_default()), asked, names);
    }
    let model = builder.trim_start_matches("qlora_").trim_start_matches("lora_").trim_start_matches("dora_");
    model::name(&with_point(model), asked, names);
    // A configuration that asks, measures or quantizes a model has its builder too.
    let learns = |key: &str| entries.iter().any(|entry| entry.key == key || entry.key.starts_with(&format!("{key}.")));
    let has_adapters = ["lora_", "qlora_", "dora_"].iter().any(|beginning| builder.starts_with(beginning));
    if !has_adapters && !["dataset", "optimizer", "loss", "epochs"].iter().any(|key| learns(key)) {
        return;
    }
    let training = &mut asked.workload.training;
    training.task = Some(
        if builder.starts_with("qlora_") {
            "qlora"
        } else if builder.starts_with("lora_") {
            "lora"
        } else {
            "full-fine-tune"
        }
        .to_owned(),
    );
    let whole = |key: &str| value(entries, key)?.parse::<u32>().ok().filter(|number| *number > 0);
    // An epoch ends with its last step, or with as many as it is allowed.
    if let (Some(each), Some(epochs)) = (whole("max_steps_per_epoch"), whole("epochs")) {
        training.steps = each.checked_mul(epochs).map(Scalar::from);
        training.epochs = None;
    }
    let modules = value(entries, "model.lora_attn_modules").map(|text| text.replace("output_proj", "o_proj"));
    if let Some(mut targets) = modules.as_deref().and_then(model::targets) {
        if value(entries, "model.apply_lora_to_mlp").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            targets.extend(["gate_proj", "up_proj", "down_proj"].map(str::to_owned));
        }
        training.lora.targets = Some(targets);
    }
    // Under adapters the estimate's own format is the one of frozen weights in sixteen bits.
    if training.task.as_deref() != Some("full-fine-tune") && training.precision.as_deref() == Some("pure-bf16") {
        training.precision = Some("bf16".to_owned());
    }
}

/// `llama3_1_8b` is Llama 3.1: of two underscores between digits the first is a point.
fn with_point(name: &str) -> String {
    let between: Vec<usize> = name
        .match_indices('_')
        .map(|(at, _)| at)
        .filter(|at| {
            let is_digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
            is_digit(name[..*at].chars().next_back()) && is_digit(name[at + 1..].chars().next())
        })
        .collect();
    match between.as_slice() {
        [first, _, ..] => format!("{}.{}", &name[..*first], &name[first + 1..]),
        _ => name.to_owned(),
    }
}
