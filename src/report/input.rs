//! How the machines of a plan bring samples to their GPUs, as JSON and as rows for a person.

use serde::Serialize;

use crate::format;
use gpuplan_hardware::InstanceType;
use gpuplan_plan::Plan;
use gpuplan_plan::cures::Cure;
use gpuplan_plan::loading::Waiting;
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
    pub cures: Vec<Cure>,
}

pub fn input_json(plan: &Plan, instance: &InstanceType) -> Option<InputJson> {
    let feeding = plan.step.feeding.as_ref()?;
    let waiting = Waiting::of(plan);
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
        cures: plan.cures.clone(),
    })
}

/// What each cure of waiting GPUs would save.
pub fn rows(plan: &Plan) -> Vec<(&'static str, String)> {
    let row = |cure: &Cure| {
        let saved = if cure.saves_usd >= Usd::ZERO {
            format!("saves {}", format::usd(cure.saves_usd))
        } else {
            format!("costs {} more", format::usd(Usd::ZERO - cure.saves_usd))
        };
        (
            "cure",
            format!(
                "{}: {saved}, the run takes {} and waits {:.0} % of a step",
                cure.what,
                Hours(cure.run_hours),
                cure.waiting_share * 100.0
            ),
        )
    };
    plan.cures.iter().map(row).collect()
}
