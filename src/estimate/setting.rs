//! `Setting`: one complete way to run a workload, with nothing left open.

use gpuplan_workload::{Layout, Recompute};

/// Layout, micro batch and recompute: what a search varies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub layout: Layout,
    /// Sequences of one rank in one forward pass.
    pub micro_batch: u32,
    /// Sequences of all ranks in one optimizer step.
    pub global_batch: f64,
    pub recompute: Recompute,
}

impl Setting {
    /// Micro-steps of an optimizer step, rounded up.
    pub fn micro_steps(&self) -> f64 {
        (self.rank_batches() - 1e-9).ceil().max(1.0)
    }

    /// Micro-steps as a ratio; below the rounded number where the batch does not divide.
    pub fn rank_batches(&self) -> f64 {
        (self.global_batch / (f64::from(self.layout.data) * f64::from(self.micro_batch))).max(1.0)
    }

    pub fn gpus(&self) -> u32 {
        u32::try_from(self.layout.gpus()).unwrap_or(u32::MAX)
    }

    /// A layer's forward pass runs once more in the backward pass.
    pub fn recomputes_layers(&self) -> bool {
        matches!(self.recompute, Recompute::Full | Recompute::Offload)
    }
}
