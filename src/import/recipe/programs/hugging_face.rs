//! Programs on Hugging Face's Trainer, and those that are not known: the usual words.

use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Choice, Optimizer, Rank};
use crate::recipe::usual::OPTIMIZERS;
use crate::recipe::words::{EPOCHS, MICRO_BATCH, STEPS, TASK, value};
use crate::{JobRequest, Names};
use gpuplan_workload::assumption::JobAssumption;

/// A program that is not known: the usual words.
pub const ANY: Dialect = Dialect { stack: "", settings: &[], nothing: &[], has_common: true, complete: unknown };

pub const HUGGING_FACE: Dialect = Dialect { stack: "hf-trainer", complete: adapters, ..ANY };

pub const TRL: Dialect = Dialect { stack: "trl", complete: adapters, ..ANY };

pub const UNSLOTH: Dialect = Dialect { stack: "unsloth", settings: &[("r", Rank)], complete: unsloth, ..ANY };

/// diffusers (examples/) and sd-scripts (docs/train_network.md): the batch is that of each process.
pub const DIFFUSERS: Dialect = Dialect {
    settings: &[
        ("train_batch_size", MICRO_BATCH),
        ("rank", Rank),
        ("network_dim", Rank),
        ("network_module", Choice(TASK, &[("networks.lora", "lora")])),
        ("max_train_epochs", EPOCHS),
        ("optimizer_type", Optimizer(OPTIMIZERS)),
    ],
    ..ANY
};

/// The programs for BERT of transformers' first versions and of NVIDIA: the batch is that of each process.
pub const BERT: Dialect = Dialect { settings: &[("train_batch_size", MICRO_BATCH)], ..ANY };

/// LeRobot's policies are none of the catalog's models.
pub const LEROBOT: Dialect = Dialect { settings: &[("steps", STEPS), ("batch_size", MICRO_BATCH)], ..ANY };

/// A program that is not known: what its words mean by themselves.
fn unknown(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    adapters(entries, asked, names);
    let training = &mut asked.workload.training;
    let batch = value(entries, "batch_size").or_else(|| value(entries, "train_batch_size"));
    if let (None, None, Some(batch)) = (&training.micro_batch, &training.global_batch, batch)
        && batch.parse::<u32>().is_ok_and(|batch| batch > 0)
    {
        training.micro_batch = Some(batch.to_owned().into());
        asked.assumed.push(JobAssumption::BatchOfEachGpu { batch: batch.to_owned() });
    }
}

/// Its command line has no other training than that of adapters (unsloth-cli.py).
fn unsloth(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    asked.workload.training.task.get_or_insert_with(|| "lora".to_owned());
    adapters(entries, asked, names);
}

/// Ranks or frozen weights of four bits are adapters.
pub fn adapters(_: &[Entry], asked: &mut JobRequest, _: Names) {
    let training = &mut asked.workload.training;
    if training.lora.rank.is_some() {
        training.task.get_or_insert_with(|| "lora".to_owned());
    }
    let is_quantized = matches!(training.base_weights.as_deref(), Some("nf4"));
    if is_quantized && training.task.as_deref().is_none_or(|task| task == "lora") {
        training.task = Some("qlora".to_owned());
    }
    if training.base_weights.is_some() && !matches!(training.task.as_deref(), Some("lora" | "qlora")) {
        training.base_weights = None;
    }
}
