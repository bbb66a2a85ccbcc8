//! Programs on Hugging Face's Trainer, and those that are not known: the usual words.

use super::words::{MICRO_BATCH, STEPS};
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::Rank;
use crate::{JobRequest, Names};

/// A program that is not known: the usual words.
pub const ANY: Dialect = Dialect { stack: "", settings: &[], nothing: &[], has_common: true, complete: adapters };

pub const HUGGING_FACE: Dialect = Dialect { stack: "hf-trainer", ..ANY };

pub const TRL: Dialect = Dialect { stack: "trl", ..ANY };

pub const UNSLOTH: Dialect = Dialect { stack: "unsloth", settings: &[("r", Rank)], ..ANY };

/// LeRobot's policies are none of the catalog's models.
pub const LEROBOT: Dialect = Dialect { settings: &[("steps", STEPS), ("batch_size", MICRO_BATCH)], ..ANY };

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
