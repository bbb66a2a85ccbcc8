//! From a step to a run: how many steps, how long with saving and interruptions, with what chance by a deadline.

use serde::Serialize;

use crate::input::staging::Staging;
use crate::input::store_path::StorePath;
use crate::normal::{NORMAL_90, normal_distribution};
use crate::training::packing::Packing;
use gpuplan_estimate::{Machine, StepEstimate, memory::adapter_parameters};
use gpuplan_hardware::InstanceType;
use gpuplan_spot::policy::WORST_CHANGEOVER_RATIO;
use gpuplan_spot::{CheckpointPlan, InterruptionRate, hardware_failure_rate, optimal_interval};
use gpuplan_units::{Band, Bytes, Hours, Quantiles, Seconds};
use gpuplan_workload::{Optimizer, Precision, Workload};

/// From asking for a machine to the first step: boot, image, environment. Measured 11 to 18 minutes for jobs of the
/// "Can't Be Late" paper (NSDI 2024); the middle of the shorter ones.
pub const START: Seconds = Seconds(720.0);
/// Saving more often than this costs what the model does not know: file systems, requests, a busy host. Judged.
const LEAST_INTERVAL: Seconds = Seconds(300.0);
/// A notice is looked for this often, as AWS advises (EC2 user guide, "Spot Instance interruption notices"). Seconds.
const NOTICE_SEEN_AFTER: f64 = 5.0;

/// Saving: how much, how often, how long it takes to be safe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Saving {
    pub bytes: Bytes,
    pub interval_seconds: f64,
    /// Training stands still this long.
    pub stall_seconds: f64,
    /// Until the copy is in the bucket.
    pub upload_seconds: f64,
    /// What a notice before an interruption is good for; `None` where machines are not taken back or give none that is known.
    pub notice: Option<Notice>,
}

/// The time between the announcement of an interruption and the end of the machine. Best effort of every cloud.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Notice {
    pub seconds: f64,
    /// How much of a checkpoint can be safe by then.
    pub saves: Bytes,
    pub saves_all: bool,
}

impl Notice {
    /// Seconds of warning that a cloud documents for spot machines; `None`: it documents none, or we have not looked it up.
    pub fn seconds(cloud: &str) -> Option<f64> {
        match cloud {
            // EC2 user guide, "Spot Instance interruption notices".
            "aws" => Some(120.0),
            // Compute Engine, "Spot VMs": up to 30 s; Azure, "Scheduled Events": at least 30 s for Preempt.
            "gcp" | "azure" => Some(30.0),
            _ => None,
        }
    }

    fn new(seconds: f64, bytes: Bytes, stall: Seconds, bytes_per_second: f64) -> Self {
        let left = (seconds - NOTICE_SEEN_AFTER - stall.0).max(0.0);
        let saves = Bytes((left * bytes_per_second).min(bytes.0));
        Self { seconds, saves, saves_all: saves.0 >= bytes.0 }
    }
}

/// A whole run on given machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunTime {
    /// Of one run; 0: a service, which ends by nothing it does.
    pub steps: f64,
    /// How a machine carries the runs of a sweep.
    pub packing: Packing,
    /// Until machines that are sold ahead are there, in `hours` and in nothing else. Hours.
    pub booked_wait: f64,
    /// At work at the same time.
    pub gpus: u32,
    /// Undisturbed training.
    pub training: Band,
    /// Wall clock from the request to the last save. Hours.
    pub hours: Quantiles<f64>,
    /// Part of `hours.expected` spent on saving, redone work and restarts.
    pub lost_hours: f64,
    pub saving: Saving,
    /// Of the data, on each new machine; `None`: a launch brings none.
    pub staging: Option<Staging>,
    pub interruptions: InterruptionRate,
    /// Training with the stalls of saving and with hardware failures, but without spot interruptions. Hours.
    pub work: Band,
    /// From asking for spot machines until new work is done: start, staging, restoring, and redoing what was not saved.
    pub changeover: Hours,
    /// What the same may take at worst; a notice that comes too late to save is inside it.
    pub worst_changeover: Hours,
}

/// What the time of a run depends on, besides the step.
pub struct RunInput<'a> {
    pub workload: &'a Workload,
    pub step: &'a StepEstimate,
    pub instance: &'a InstanceType,
    pub machine: &'a Machine<'a>,
    pub nodes: u32,
    pub packing: Packing,
    pub gpus: u32,
    pub staging: Option<Staging>,
    pub interruptions: InterruptionRate,
    /// Seconds of warning before the capacity is taken back.
    pub notice_seconds: Option<f64>,
}

impl RunInput<'_> {
    pub fn time(&self) -> RunTime {
        let setting = &self.step.setting;
        let steps = self.workload.amount.steps(setting.global_batch, f64::from(self.workload.training.sequence_length));
        let (rounds, side_by_side) = (f64::from(self.packing.rounds()), f64::from(self.packing.side_by_side));
        let training = self.step.step_seconds().map(|seconds| seconds * steps * rounds / 3600.0);
        let bytes = self.workload.checkpoint.size.unwrap_or_else(|| checkpoint_bytes(self.workload));
        let gpus = f64::from(setting.gpus());
        // Every machine stores its part of it; runs on the same machine share the way.
        let written = Bytes(bytes.0 * side_by_side / f64::from(self.nodes));
        let path = StorePath::of_checkpoints(self.instance, written);
        let stall = Seconds(bytes.0 / gpus / self.machine.host_copy.0);
        let upload = Seconds(written.0 / path.bytes_per_second);
        let mean = Seconds::from(self.interruptions.mean_time());
        let whole = Seconds::from(Hours(training.expected / rounds));
        // No shorter than the upload, or uploads pile up; no longer than the run, which ends with a save.
        let chosen = optimal_interval(stall, mean).0.max(upload.0).max(LEAST_INTERVAL.0).min(whole.0.max(1.0));
        let interval = self.workload.checkpoint.interval.map_or(chosen, |stated| stated.0.max(1.0));
        let begin = START.0 + self.staging.map_or(0.0, |staging| staging.seconds().0);
        let restart = Seconds(begin + 2.0 * upload.0);
        let stretch = |mean| CheckpointPlan::new(stall, Seconds(interval), mean, restart).stretch;
        let start = Hours::from(Seconds(begin)).0;
        let hours = training.map(|hours| start + hours * stretch(mean));
        let every_machine = path.bytes_per_second * f64::from(self.nodes);
        let notice = self
            .notice_seconds
            .map(|seconds| Notice::new(seconds, Bytes(bytes.0 * side_by_side), stall, every_machine));
        // Without a save at the last moment, half an interval and what was still being uploaded are lost.
        let redone =
            if notice.is_some_and(|notice| notice.saves_all) { 0.0 } else { interval.min(whole.0) / 2.0 + upload.0 };
        let changeover = begin + upload.0 + redone;
        let worst = (WORST_CHANGEOVER_RATIO * changeover).max(begin + upload.0 + interval.min(whole.0) + upload.0);
        let failures = Seconds::from(hardware_failure_rate(self.gpus).mean_time());
        RunTime {
            steps,
            packing: self.packing,
            booked_wait: 0.0,
            gpus: self.gpus,
            training,
            hours: Quantiles { expected: hours.expected, p50: hours.expected, p90: hours.high },
            lost_hours: training.expected * (stretch(mean) - 1.0),
            staging: self.staging,
            saving: Saving {
                bytes,
                interval_seconds: interval,
                stall_seconds: stall.0,
                upload_seconds: upload.0,
                notice,
            },
            interruptions: self.interruptions,
            work: training.map(|hours| hours * stretch(failures)),
            changeover: Hours::from(Seconds(changeover)),
            worst_changeover: Hours::from(Seconds(worst)),
        }
    }
}

impl RunTime {
    /// The same run, which begins so many hours from now.
    pub fn begin_after(&mut self, wait: f64) {
        let later = |hours: f64| hours + wait;
        let Quantiles { expected, p50, p90 } = self.hours;
        self.hours = Quantiles { expected: later(expected), p50: later(p50), p90: later(p90) };
        self.booked_wait = wait;
    }

    /// From asking for machines to the first step. Hours.
    pub fn start(&self) -> f64 {
        Hours::from(Seconds(START.0 + self.staging.map_or(0.0, |staging| staging.seconds().0))).0
    }

    /// The hours that the run needs no more than with this certainty, in `deviations`.
    pub fn hours_with(&self, deviations: f64) -> Hours {
        Hours(self.hours.p50 * (self.hours.p90 / self.hours.p50).powf(deviations))
    }

    /// Chance that the run has ended by `deadline`, from the band as a split log-normal; the wait for machines is not in it.
    pub fn chance_by(&self, deadline: Hours) -> f64 {
        let (centre, at_90) = (self.hours.p50, self.hours.p90);
        let upper = (at_90 / centre).ln() / NORMAL_90;
        let lower = (self.training.expected / self.training.low).ln() / NORMAL_90;
        let distance = (deadline.0 / centre).ln();
        let deviation = if distance >= 0.0 { upper } else { lower };
        normal_distribution(distance / deviation.max(1e-6))
    }
}

/// Bytes of a full checkpoint: trained parameters with master copy and moments (14 bytes for mixed Adam), adapters alone
/// where the base is frozen.
pub fn checkpoint_bytes(workload: &Workload) -> Bytes {
    let (model, training) = (&workload.model, &workload.training);
    let trained = match (&training.lora, training.task.has_adapters()) {
        (Some(lora), true) => adapter_parameters(model, lora, f64::from(model.layers), 1.0),
        _ => model.parameters,
    };
    let full = matches!(training.precision, Precision::Fp32 | Precision::Tf32 | Precision::AmpFp16);
    let each = match training.optimizer {
        Some(Optimizer::AdamwBf16) => 6.0,
        Some(Optimizer::Adamw8bit) => 8.0,
        Some(Optimizer::Sgd | Optimizer::Lars) => {
            if full {
                8.0
            } else {
                10.0
            }
        }
        Some(Optimizer::Adafactor) => 6.0,
        None if training.precision == Precision::PureBf16 => 6.0,
        _ => {
            if full {
                12.0
            } else {
                14.0
            }
        }
    };
    // FSDP and the Hugging Face trainer keep 32-bit weights and no 16-bit copy with them (PyTorch, "FullyShardedDataParallel").
    let framework = training.framework.0.as_str();
    let keeps_one_copy = each > 12.0 && (framework.starts_with("fsdp") || framework == "hf-trainer");
    Bytes(trained * if keeps_one_copy { each - 2.0 } else { each })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_notice_saves_only_a_part() {
        // 98 GB at 5 Gb/s: 120 s carry 0.6 GB/s x 114 s.
        let notice = |seconds| Notice::new(seconds, Bytes(98e9), Seconds(1.0), 0.625e9);
        assert!(!notice(120.0).saves_all && (notice(120.0).saves.0 - 71.25e9).abs() < 1e6);
        assert!(notice(30.0).saves.0 < 16e9);
        assert!(Notice::new(30.0, Bytes(1e9), Seconds(1.0), 0.625e9).saves_all);
    }
}
