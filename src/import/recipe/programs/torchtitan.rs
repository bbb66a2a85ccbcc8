//! torchtitan, torchtitan/config.

use crate::recipe::entry::Entry;
use crate::recipe::model;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Choice, Flag, Model, Optimizer};
use crate::recipe::usual::OPTIMIZERS;
use crate::recipe::words::{ACCUMULATION, GLOBAL_BATCH, LENGTH, MICRO_BATCH, PRECISION, RECOMPUTE, STEPS};
use crate::recipe::words::{pretrains, value};
use crate::{JobRequest, Names};

/// torchtitan, torchtitan/config.
pub const TORCHTITAN: Dialect = Dialect {
    stack: "torchtitan",
    settings: &[
        ("training.local_batch_size", MICRO_BATCH),
        ("training.batch_size", MICRO_BATCH),
        ("training.global_batch_size", GLOBAL_BATCH),
        ("training.seq_len", LENGTH),
        ("training.steps", STEPS),
        // flame, which is built on it (fla-org/flame, flame/config_manager.py).
        ("training.gradient_accumulation_steps", ACCUMULATION),
        ("model.config", Model),
        ("training.dtype", Choice(PRECISION, &[("bfloat16", "pure-bf16"), ("float32", "bf16")])),
        ("training.mixed_precision_param", Choice(PRECISION, &[("bfloat16", "bf16"), ("float32", "fp32")])),
        ("training.compile", Flag(|file| &mut file.training.compile)),
        ("compile.enable", Flag(|file| &mut file.training.compile)),
        (
            "activation_checkpoint.mode",
            Choice(RECOMPUTE, &[("none", "none"), ("selective", "selective"), ("full", "full")]),
        ),
        ("optimizer.name", Optimizer(OPTIMIZERS)),
        ("optimizer.early_step_in_backward", Flag(|file| &mut file.training.optimizer_in_backward)),
    ],
    nothing: &[
        "job",
        "profiling",
        "metrics",
        "lr_scheduler",
        "optimizer.lr",
        "optimizer.eps",
        "optimizer.implementation",
        "parallelism",
        "checkpoint",
        "validation",
        "compile.components",
        "training.max_norm",
        "training.dataset",
        "activation_checkpoint",
        "comm",
        "experimental",
        "training.mixed_precision_reduce",
        "float8",
        "model.name",
        "model.converters",
        "model.flavor",
        "model.hf_assets_path",
        "model.tokenizer_path",
    ],
    has_common: false,
    complete: torchtitan,
};

fn torchtitan(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    if let (Some(family), Some(flavor)) = (value(entries, "model.name"), value(entries, "model.flavor")) {
        model::name(&format!("{family}-{flavor}"), asked, names);
    }
    if value(entries, "training.seq_len").is_some() || value(entries, "model.name").is_some() {
        pretrains(asked);
    }
    let converters = value(entries, "model.converters").unwrap_or_default();
    if converters.contains("float8") {
        asked.workload.training.precision = Some("fp8".to_owned());
    }
}
