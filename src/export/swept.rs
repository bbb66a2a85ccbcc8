//! `Swept`: a sweep as the queue of an engine takes it, a job for each run.

use crate::ExportError;
use gpuplan_plan::document::{PlanRecord, SweepRecord};
use gpuplan_units::Hours;

/// The number of a run, from 0, as its program reads it (docs/agent.md).
pub const INDEX: &str = "GPUPLAN_SWEEP_INDEX";

/// Fewest digits of a run's number (src/runstore/sweep.rs).
const DIGITS: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    pub runs: u32,
    /// Most runs at the same time: those that the plan has room for.
    pub at_a_time: u32,
    gpus_per_run: u32,
    /// Of one run, and of nine of ten. Millionths, so that it can be compared.
    micro_hours: (u64, u64),
}

impl Swept {
    pub fn new(sweep: &SweepRecord, plan: &PlanRecord) -> Result<Self, ExportError> {
        let gpus = sweep.gpus_per_run.as_f64();
        if gpus < 1.0 || gpus.fract() != 0.0 {
            return Err(ExportError::SharedCard { runs: sweep.runs });
        }
        let hours = &plan.time.run_hours;
        let ratio = if hours.expected > 0.0 { hours.p90 / hours.expected } else { 1.0 };
        let micro = |hours: f64| (hours * 1e6).round().max(0.0) as u64;
        Ok(Self {
            runs: sweep.runs,
            at_a_time: sweep.side_by_side.saturating_mul(plan.machines.nodes).min(sweep.runs).max(1),
            gpus_per_run: gpus as u32,
            micro_hours: (micro(sweep.run_hours.0), micro(sweep.run_hours.0 * ratio)),
        })
    }

    /// The plan of one run: its cards, and its time.
    pub fn of_one_run(&self, plan: &PlanRecord) -> PlanRecord {
        let mut one = plan.clone();
        (one.machines.nodes, one.machines.gpus_per_node) = (1, self.gpus_per_run);
        let hours = |micro: u64| Hours(micro as f64 / 1e6).0;
        one.time.run_hours.expected = hours(self.micro_hours.0);
        one.time.run_hours.p50 = hours(self.micro_hours.0);
        one.time.run_hours.p90 = hours(self.micro_hours.1);
        one
    }

    /// `NAME-007` of the shell, as `gpuplan launch` names runs of a sweep.
    pub fn name_in_shell(&self, run: &str) -> String {
        let digits = self.runs.saturating_sub(1).to_string().len().max(DIGITS);
        format!("\"{run}-$(printf %0{digits}d \"${INDEX}\")\"")
    }

    pub fn summary(&self) -> String {
        format!("{} runs, {} at a time; each finds its number as {INDEX}", self.runs, self.at_a_time)
    }
}
