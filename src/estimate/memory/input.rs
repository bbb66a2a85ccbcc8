//! `MemoryInput`: what the memory of a rank follows from.

use crate::setting::Setting;
use gpuplan_workload::{Model, Training};

/// Everything about a rank's memory that follows from model, training and setting.
#[derive(Clone, Copy)]
pub struct MemoryInput<'a> {
    pub model: &'a Model,
    pub training: &'a Training,
    pub setting: &'a Setting,
    pub sequence: f64,
}
