//! How the machines of a plan bring samples to their GPUs, as JSON and as rows for a person.

use serde::Serialize;

use crate::format;
use crate::sentences;
use gpuplan_hardware::InstanceType;
use gpuplan_plan::Plan;
use gpuplan_plan::input::fix::InputFix;
use gpuplan_plan::input::waiting::Waiting;
use gpuplan_units::{Hours, Usd};

/// Seconds are those of a machine for the samples of one step.
#[derive(Clone, Debug, Serialize)]
pub struct InputJson {
    /// The slowest part, whether or not the step waits for it.
    pub limit: &'static str,
    pub samples_per_step: f64,
    pub compute_seconds: Option<f64>,
    pub read_seconds: Option<f64>,
    /// What is read, where that was counted.
    pub storage: Option<&'static str>,
    /// Part of the run in which storage is read: memory keeps what was read once.
    pub read_share: f64,
    pub copy_seconds: f64,
    pub gpu_decode_seconds: f64,
    pub loader_threads: f64,
    pub vcpus_per_gpu: f64,
    /// That would load as fast as the GPUs train, with the same loader.
    pub vcpus_needed_per_gpu: Option<f64>,
    pub wait_seconds: f64,
    pub wait_share: f64,
    pub waiting_gpu_hours: f64,
    pub waiting_cost_usd: Usd,
    /// Of the recommended plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cures: Vec<FixJson>,
}

/// One fix by itself; savings of several do not add up.
#[derive(Clone, Debug, Serialize)]
pub struct FixJson {
    /// `format`, `gpu-decode`, `stage`, `more-vcpus` or `fewer-gpus`.
    pub cure: &'static str,
    pub what: String,
    /// Of a step, with the fix.
    pub waiting_share: f64,
    /// Of the whole run with the fix, as a first guess.
    pub run_hours: f64,
    /// Against the plan as it is, both as first guesses; below zero it costs more.
    pub saves_usd: Usd,
}

fn fix_json(fix: &InputFix) -> FixJson {
    let InputFix { change, waiting_share, run_hours, saves_usd } = fix;
    FixJson {
        cure: change.word(),
        what: sentences::input::change(change),
        waiting_share: *waiting_share,
        run_hours: *run_hours,
        saves_usd: *saves_usd,
    }
}

pub fn input_json(plan: &Plan, instance: &InstanceType) -> Option<InputJson> {
    let feeding = plan.step.feeding.as_ref()?;
    let waiting = Waiting::new(plan);
    let each = f64::from(instance.vcpus) / f64::from(instance.node.devices());
    let needed = feeding.cores_needed().filter(|_| feeding.cores > 0.0);
    Some(InputJson {
        limit: feeding.limit().word(),
        samples_per_step: feeding.samples,
        compute_seconds: feeding.computing,
        read_seconds: feeding.reading.map(|read| read.seconds),
        storage: feeding.reading.map(|read| read.from),
        read_share: feeding.read_share,
        copy_seconds: feeding.copying,
        gpu_decode_seconds: feeding.jpeg_block,
        loader_threads: feeding.threads,
        vcpus_per_gpu: each,
        vcpus_needed_per_gpu: needed.map(|needed| each * needed / feeding.cores),
        wait_seconds: feeding.waits,
        wait_share: feeding.waiting_share(),
        waiting_gpu_hours: waiting.map_or(0.0, |waiting| waiting.gpu_hours),
        waiting_cost_usd: waiting.map_or(Usd::ZERO, |waiting| waiting.cost),
        cures: plan.input_fixes.iter().map(fix_json).collect(),
    })
}

/// What each fix of waiting GPUs would save.
pub fn rows(plan: &Plan) -> Vec<(&'static str, String)> {
    let row = |fix: &InputFix| {
        let saved = if fix.saves_usd >= Usd::ZERO {
            format!("saves {}", format::usd(fix.saves_usd))
        } else {
            format!("costs {} more", format::usd(Usd::ZERO - fix.saves_usd))
        };
        (
            "cure",
            format!(
                "{}: {saved}, the run takes {} and waits {:.0} % of a step",
                sentences::input::change(&fix.change),
                Hours(fix.run_hours),
                fix.waiting_share * 100.0
            ),
        )
    };
    plan.input_fixes.iter().map(row).collect()
}
