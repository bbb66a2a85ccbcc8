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
use gpuplan_units::{Band, Bytes, Hours, Quantiles, Seconds, UsdPerHour};
use gpuplan_workload::{Layout, Optimizer, Precision, Shard, Workload};

/// From asking for a machine to the first step: boot, image, environment. Measured 11 to 18 minutes for jobs of the
/// "Can't Be Late" paper (NSDI 2024); the middle of the shorter ones.
pub const START: Seconds = Seconds(720.0);
/// Saving more often than this costs what the model does not know: file systems, a busy host. Judged.
const LEAST_INTERVAL: Seconds = Seconds(300.0);
/// While a checkpoint is under way it takes network, disk and processors from training: no more than this share of the time. Judged.
const MOST_UPLOADING: f64 = 1.0 / 3.0;
/// A request that writes, as each part of an upload is one: $0.005 per 1,000 in S3 Standard (Amazon S3 pricing, us-east-1), and about
/// as much at Google and Azure: `catalogs/charges` has what a bill counts with. Dollars.
const WRITE_REQUEST: f64 = 5e-6;
/// Bytes of a part, and parts of a file at most: those of `runstore::store`, which a test holds them to.
pub const PART: f64 = 8_388_608.0;
pub const MOST_PARTS: f64 = 9000.0;
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
    /// That write all checkpoints of all runs to the store, the last one of each included.
    pub requests: f64,
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
    /// Undisturbed training, with what the job is stated to do beside its steps. Hours.
    pub training: Band,
    /// Of it, what is no training step, as stated. Hours.
    pub beside_steps: f64,
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
    /// Of all machines; `None`: it is beyond counting, and what requests cost moves nothing.
    pub hourly_rate: Option<UsdPerHour>,
}

impl RunInput<'_> {
    pub fn time(&self) -> RunTime {
        let setting = &self.step.setting;
        let steps = self.workload.amount.steps(setting.global_batch, f64::from(self.workload.training.sequence_length));
        let rounds = f64::from(self.packing.rounds());
        let beside = self.workload.time_over_steps();
        let training = self.step.step_seconds().map(|seconds| seconds * steps * rounds * beside / 3600.0);
        let bytes = self.workload.checkpoint.size.unwrap_or_else(|| checkpoint_bytes(self.workload));
        let Storing { stall, upload, restore, bytes_per_second, requests, priced } = self.storing(bytes);
        let mean = Seconds::from(self.interruptions.mean_time());
        let whole = Seconds::from(Hours(training.expected / rounds));
        // No longer than the run, which ends with a save.
        let chosen = interval(Seconds(stall.0 + priced.0), upload, mean).0.min(whole.0.max(1.0));
        let interval = self.workload.checkpoint.interval.map_or(chosen, |stated| stated.0.max(1.0));
        let begin = START.0 + self.staging.map_or(0.0, |staging| staging.seconds().0);
        let restart = Seconds(begin + restore.0 + upload.0);
        let stretch = |mean| CheckpointPlan::new(stall, Seconds(interval), mean, restart).stretch;
        let start = Hours::from(Seconds(begin)).0;
        let hours = training.map(|hours| start + hours * stretch(mean));
        let of_all = Bytes(bytes.0 * f64::from(self.packing.side_by_side));
        let notice = self.notice_seconds.map(|seconds| Notice::new(seconds, of_all, stall, bytes_per_second));
        // Without a save at the last moment, half an interval and what was still being uploaded are lost.
        let redone =
            if notice.is_some_and(|notice| notice.saves_all) { 0.0 } else { interval.min(whole.0) / 2.0 + upload.0 };
        let changeover = begin + restore.0 + redone;
        let worst = (WORST_CHANGEOVER_RATIO * changeover).max(begin + restore.0 + interval.min(whole.0) + upload.0);
        let failures = Seconds::from(hardware_failure_rate(self.gpus).mean_time());
        RunTime {
            steps,
            packing: self.packing,
            booked_wait: 0.0,
            gpus: self.gpus,
            training,
            beside_steps: training.expected * (1.0 - 1.0 / beside),
            hours: Quantiles { expected: hours.expected, p50: hours.expected, p90: hours.high },
            lost_hours: training.expected * (stretch(mean) - 1.0),
            staging: self.staging,
            saving: Saving {
                bytes,
                interval_seconds: interval,
                stall_seconds: stall.0,
                upload_seconds: upload.0,
                requests: requests * (training.expected * 3600.0 / interval).ceil().max(rounds),
                notice,
            },
            interruptions: self.interruptions,
            work: training.map(|hours| hours * stretch(failures)),
            changeover: Hours::from(Seconds(changeover)),
            worst_changeover: Hours::from(Seconds(worst)),
        }
    }

    /// Of a checkpoint of one run; runs on the same machine share the way.
    fn storing(&self, bytes: Bytes) -> Storing {
        let (setting, nodes) = (&self.step.setting, f64::from(self.nodes));
        let side_by_side = f64::from(self.packing.side_by_side);
        let gpus = f64::from(setting.gpus().max(1));
        let files = (writers(&setting.layout) as f64).min(gpus);
        let machines = (files * nodes / gpus).ceil().clamp(1.0, nodes);
        let all = Bytes(bytes.0 * side_by_side);
        let written = Bytes(all.0 / machines);
        let up = StorePath::of_checkpoints(self.instance, written).bytes_per_second;
        let down = StorePath::of_checkpoints(self.instance, all).bytes_per_second;
        let requests = side_by_side * requests(bytes, files);
        let usd = requests * WRITE_REQUEST;
        // Machines of one's own cost nothing an hour.
        let paid = self.hourly_rate.map(UsdPerHour::dollars).filter(|rate| *rate > 0.0);
        Storing {
            stall: Seconds(bytes.0 / files / self.machine.host_copy.0),
            upload: Seconds(written.0 / up),
            restore: Seconds(all.0 / down),
            bytes_per_second: up * machines,
            requests,
            priced: Seconds(paid.map_or(0.0, |rate| usd / rate * 3600.0)),
        }
    }
}

/// A checkpoint on its way to the store and back.
struct Storing {
    /// Copying it to the hosts, during which training stands still.
    stall: Seconds,
    upload: Seconds,
    /// On every machine all of it, as any rank may read any shard.
    restore: Seconds,
    /// Of all machines that store a part.
    bytes_per_second: f64,
    /// That write it, of all runs side by side.
    requests: f64,
    /// For which the machines cost as much as the requests; 0 where they cost nothing.
    priced: Seconds,
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

/// GPUs that store a part of a checkpoint each: what several have alike is stored by one of them.
fn writers(layout: &Layout) -> u64 {
    let split = match layout.shard {
        Shard::None => layout.expert,
        Shard::Zero1 | Shard::Zero2 | Shard::Zero3 | Shard::Hsdp => layout.sharded_over().max(layout.expert),
    };
    u64::from(layout.model_parallel()) * u64::from(split.max(1))
}

/// Requests that store a checkpoint of as many files.
fn requests(bytes: Bytes, files: f64) -> f64 {
    files * (bytes.0 / files / PART).ceil().min(MOST_PARTS)
}

/// Between two saves that cost so much time of the machines each (`stop`): what loses least, while uploads leave time for training.
fn interval(stop: Seconds, upload: Seconds, mean: Seconds) -> Seconds {
    Seconds(optimal_interval(stop, mean).0.max(upload.0 / MOST_UPLOADING).max(LEAST_INTERVAL.0))
}

/// Bytes of a full checkpoint: trained parameters with master copy and moments (14 bytes for mixed Adam), adapters alone
/// where the base is frozen; with them their moving average in fp32, if one is kept.
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
    let average = if training.ema { 4.0 } else { 0.0 };
    // FSDP and the Hugging Face trainer keep 32-bit weights and no 16-bit copy with them (PyTorch, "FullyShardedDataParallel").
    let framework = training.framework.id();
    let keeps_one_copy = each > 12.0 && (framework.starts_with("fsdp") || framework == "hf-trainer");
    Bytes(trained * (average + if keeps_one_copy { each - 2.0 } else { each }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// States of 1B, 8B, 70B and 405B with 14 bytes a parameter, on so many GPUs and machines at an hourly rate, lost every two and a half hours.
    #[test]
    fn saving_is_as_often_as_it_pays_and_never_all_that_a_machine_does() {
        let mean = Seconds(2.5 * 3600.0);
        for (parameters, gpus, machines, rate) in
            [(1e9, 1.0, 1.0, 1.5), (8e9, 8.0, 1.0, 12.0), (70e9, 32.0, 4.0, 60.0), (405e9, 256.0, 32.0, 480.0)]
        {
            let bytes = Bytes(14.0 * parameters);
            let upload = Seconds(bytes.0 / machines / 680e6);
            let dollars = requests(bytes, gpus) * WRITE_REQUEST;
            let stop = Seconds(bytes.0 / gpus / 25e9 + dollars / rate * 3600.0);
            let chosen = interval(stop, upload, mean);
            assert!(upload.0 <= chosen.0 * MOST_UPLOADING + 1e-9, "{parameters:e}: {chosen:?}, {upload:?}");
            // Of the hours paid for, what saving and repeating take: no other interval that leaves as much time takes less.
            let stretch = |interval| CheckpointPlan::new(stop, interval, mean, upload).stretch;
            let least = (60..7200).map(|seconds| Seconds(f64::from(seconds)));
            let least = least.filter(|other| other.0 >= (upload.0 / MOST_UPLOADING).max(LEAST_INTERVAL.0));
            let least = least.map(stretch).fold(f64::INFINITY, f64::min);
            assert!(stretch(chosen) <= 1.001 * least, "{parameters:e}: {} {least}", stretch(chosen));
            assert!(dollars / rate * 3600.0 < 0.1 * chosen.0, "{parameters:e}: requests cost {dollars}");
        }
    }

    #[test]
    fn what_several_gpus_have_alike_is_stored_once() {
        let of = |data, tensor, expert, shard| writers(&Layout { data, tensor, expert, shard, ..Layout::default() });
        assert_eq!(of(16, 1, 1, Shard::None), 1);
        assert_eq!(of(4, 8, 1, Shard::None), 8);
        assert_eq!(of(16, 1, 8, Shard::None), 8);
        assert_eq!(of(16, 1, 1, Shard::Zero3), 16);
        assert_eq!(writers(&Layout { data: 16, shard: Shard::Hsdp, shard_group: Some(8), ..Layout::default() }), 8);
        // 8 MiB a request, and no more than a file may have.
        assert_eq!((requests(Bytes(80e6), 1.0), requests(Bytes(1e12), 1.0)), (10.0, MOST_PARTS));
    }

    #[test]
    fn a_short_notice_saves_only_a_part() {
        // 98 GB at 5 Gb/s: 120 s carry 0.6 GB/s x 114 s.
        let notice = |seconds| Notice::new(seconds, Bytes(98e9), Seconds(1.0), 0.625e9);
        assert!(!notice(120.0).saves_all && (notice(120.0).saves.0 - 71.25e9).abs() < 1e6);
        assert!(notice(30.0).saves.0 < 16e9);
        assert!(Notice::new(30.0, Bytes(1e9), Seconds(1.0), 0.625e9).saves_all);
    }
}
