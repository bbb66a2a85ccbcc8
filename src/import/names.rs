//! `Names`: the machines, places and models that a job may name.

use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;

/// The names that a job may use.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub hardware: &'a Hardware,
    pub models: &'a Models,
}
