//! The whole run of a plan: how long it takes, how it saves, how its data gets there, how a sweep shares a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::document::words::Words;
use crate::input::staging::Staging;
use crate::training::run::{Notice, Saving};
use gpuplan_units::{Bytes, GpuCount, Hours, Quantiles, Seconds};
use gpuplan_workload::Sweep;

/// How long the whole run takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeRecord {
    /// Hours until the first machine runs.
    #[serde(default)]
    pub wait_hours: WaitRecord,
    /// Hours from the request to the last save.
    pub run_hours: Quantiles<f64>,
    /// Of undisturbed training.
    #[serde(default)]
    pub gpu_hours: Option<f64>,
    /// Hours of the job beside its training steps, where the workload states `training.overhead`; `run_hours` holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_steps_hours: Option<f64>,
}

/// How long until the first machine runs. Nobody publishes it for capacity that is not spot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WaitRecord {
    /// The word `unknown`.
    Unknown(Unknown),
    /// From the forecast of a plan on spot machines. Hours.
    Known {
        /// Median.
        p50: f64,
        /// 90th percentile.
        p90: f64,
        /// Where it comes from.
        basis: String,
    },
}

impl Default for WaitRecord {
    fn default() -> Self {
        Self::Unknown(Unknown::Unknown)
    }
}

/// The word for what nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// Nobody knows.
    Unknown,
}

/// Saving: how much, how often, and how long it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointRecord {
    /// Of one checkpoint.
    pub bytes: Bytes,
    /// Between two checkpoints.
    pub interval_seconds: Seconds,
    /// Until the copy is in the bucket.
    pub upload_seconds: Seconds,
    /// That training stands still.
    pub stall_seconds: Seconds,
    /// For spot machines whose cloud warns before it takes them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<NoticeRecord>,
}

/// What a warning before an interruption is good for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoticeRecord {
    /// Between the warning and the end of the machine.
    pub seconds: Seconds,
    /// Of a checkpoint that can be safe by then.
    pub saves_bytes: Bytes,
    /// That is all of it.
    pub saves_all: bool,
}

/// Bringing the data to each new machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StagingRecord {
    /// Of the data.
    pub bytes: Bytes,
    /// Until it is there.
    pub seconds: Seconds,
    /// Of one machine.
    pub bytes_per_second: f64,
    /// What holds it up, in words.
    pub limit: String,
}

/// How a machine carries the runs of a sweep. Figures of a step are those of one run; time and money are of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepRecord {
    /// Runs in all.
    pub runs: u32,
    /// GPUs of one run; below 1 it shares a card.
    pub gpus_per_run: GpuCount,
    /// Runs at the same time.
    pub side_by_side: u32,
    /// Times that the machine is filled.
    pub rounds: u32,
    /// Undisturbed training of one run.
    pub run_hours: Hours,
}

impl TimeRecord {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            wait_hours: WaitRecord::new(plan),
            run_hours: plan.run.hours,
            gpu_hours: Some(plan.gpu_hours()),
            beside_steps_hours: Some(plan.run.beside_steps).filter(|hours| *hours > 0.0),
        }
    }
}

impl WaitRecord {
    fn new(plan: &Plan) -> Self {
        let known = plan.spot.as_ref().and_then(|spot| Some((spot.forecast.as_ref()?.wait_hours, spot.basis)));
        known.map_or_else(Self::default, |(wait, basis)| Self::Known {
            p50: wait.p50,
            p90: wait.p90,
            basis: basis.to_owned(),
        })
    }
}

impl CheckpointRecord {
    pub(super) fn new(saving: &Saving) -> Self {
        let notice = |notice: Notice| NoticeRecord {
            seconds: Seconds(notice.seconds),
            saves_bytes: notice.saves,
            saves_all: notice.saves_all,
        };
        Self {
            bytes: saving.bytes,
            interval_seconds: Seconds(saving.interval_seconds),
            upload_seconds: Seconds(saving.upload_seconds),
            stall_seconds: Seconds(saving.stall_seconds),
            notice: saving.notice.map(notice),
        }
    }
}

impl StagingRecord {
    pub(super) fn new(staging: Staging, words: &dyn Words) -> Self {
        Self {
            bytes: staging.bytes,
            seconds: staging.seconds(),
            bytes_per_second: staging.bytes_per_second,
            limit: words.staging_limit(staging.limit),
        }
    }
}

impl SweepRecord {
    pub(super) fn new(sweep: &Sweep, plan: &Plan) -> Self {
        let packing = plan.run.packing;
        Self {
            runs: sweep.runs,
            gpus_per_run: sweep.gpus_per_run,
            side_by_side: packing.side_by_side,
            rounds: packing.rounds(),
            run_hours: Hours(plan.run.training.expected / f64::from(packing.rounds())),
        }
    }
}
