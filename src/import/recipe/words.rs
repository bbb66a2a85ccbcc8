//! Settings that most programs have, under one name each.

use crate::JobRequest;
use crate::recipe::entry::Entry;
use crate::recipe::setting::Setting::{self, Number};
use crate::recipe::setting::Word;

pub const TASK: Word = |file| &mut file.training.task;
pub const OBJECTIVE: Word = |file| &mut file.training.objective;
pub const RECOMPUTE: Word = |file| &mut file.training.recompute;
pub const PRECISION: Word = |file| &mut file.training.precision;
pub const OPTIMIZER: Word = |file| &mut file.training.optimizer;
pub const MICRO_BATCH: Setting = Number(|file| &mut file.training.micro_batch);
pub const ACCUMULATION: Setting = Number(|file| &mut file.training.grad_accumulation);
pub const GLOBAL_BATCH: Setting = Number(|file| &mut file.training.global_batch);
pub const STEPS: Setting = Number(|file| &mut file.training.steps);
pub const EPOCHS: Setting = Number(|file| &mut file.training.epochs);
pub const LENGTH: Setting = Number(|file| &mut file.training.sequence_length);

pub fn pretrains(asked: &mut JobRequest) {
    asked.workload.training.task.get_or_insert_with(|| "pretrain".to_owned());
}

pub fn value<'a>(entries: &'a [Entry], key: &str) -> Option<&'a str> {
    entries.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.as_deref())
}
