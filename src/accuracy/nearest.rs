//! `PublishedRuns`: the published runs that are most like a case, and how far off the estimate is on them.

use std::sync::OnceLock;

use serde_json::Value;

use crate::prediction::Prediction;
use crate::published::{Published, Run};
use gpuplan_estimate::answer::prepared_estimate;
use gpuplan_estimate::case::Prepared;
use gpuplan_estimate::constants::Constants;
use gpuplan_estimate::likeness::Likeness;
use gpuplan_hardware::{Architecture, Hardware};
use gpuplan_workload::{Models, Precision, Task};

/// Runs that are named for one answer.
const NAMED: usize = 6;
/// A run further off says nothing of this one: another framework on another generation, or three powers of four in size.
pub const NEAR: f64 = 2.0;

/// Every published run whose time is scored, ready to be compared.
#[derive(Debug)]
pub struct PublishedRuns<'a> {
    runs: Vec<Known<'a>>,
}

#[derive(Debug)]
struct Known<'a> {
    run: &'a Run,
    prepared: Prepared,
    likeness: Likeness,
    /// Predicted over measured, less one, in percent; worked out when it is asked for.
    error_percent: OnceLock<Option<f64>>,
}

/// A published run beside a case.
#[derive(Clone, Copy, Debug)]
pub struct NearRun<'a> {
    pub run: &'a Run,
    pub distance: f64,
    pub error_percent: f64,
}

/// The published runs most like a case, the nearest first.
#[derive(Clone, Debug, Default)]
pub struct Nearest<'a> {
    /// At a distance of at most `NEAR`; empty where no run is like it.
    pub near: Vec<NearRun<'a>>,
    /// The nearest of all, near or not.
    pub closest: Option<NearRun<'a>>,
}

impl<'a> PublishedRuns<'a> {
    pub fn new(published: &'a Published, hardware: &Hardware, models: &Models) -> Self {
        let known = |run: &'a Run| {
            let prepared = run.case.prepare(hardware, models).ok()?;
            let likeness = Likeness::of_case(&prepared);
            Some(Known { run, prepared, likeness, error_percent: OnceLock::new() })
        };
        Self { runs: published.runs.iter().filter(|run| run.scores_time()).filter_map(known).collect() }
    }

    pub fn nearest(&self, to: &Likeness) -> Nearest<'a> {
        let mut by_distance: Vec<(f64, &Known)> =
            self.runs.iter().map(|known| (distance(to, &known.likeness), known)).collect();
        by_distance.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.run.id.cmp(&b.1.run.id)));
        let scored = by_distance.into_iter().filter_map(|(distance, known)| {
            Some(NearRun { run: known.run, distance, error_percent: known.error_percent()? })
        });
        let mut nearest: Vec<NearRun> = scored.take(NAMED).collect();
        let closest = nearest.first().copied();
        nearest.retain(|one| one.distance <= NEAR);
        Nearest { near: nearest, closest }
    }
}

impl Known<'_> {
    fn error_percent(&self) -> Option<f64> {
        *self.error_percent.get_or_init(|| {
            let made = prepared_estimate(Constants::embedded(), Value::Null, &self.prepared).ok()?;
            Some(100.0 * (self.run.time_ratio(&Prediction::from(made))?.expected - 1.0))
        })
    }
}

impl Nearest<'_> {
    /// Median of the sizes of their errors. Percent.
    pub fn median_error_percent(&self) -> Option<f64> {
        let mut sizes: Vec<f64> = self.near.iter().map(|one| one.error_percent.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let last = sizes.len().checked_sub(1)?;
        Some(f64::midpoint(sizes[last / 2], sizes[last.div_ceil(2)]))
    }
}

/// How unlike two runs are: a sum of terms, 0 for the same in all of them.
pub fn distance(a: &Likeness, b: &Likeness) -> f64 {
    let gpu = if a.gpu == b.gpu {
        0.0
    } else if a.architecture == b.architecture {
        0.5
    } else if a.architecture.is_amd() == b.architecture.is_amd() && has_tensor_cores(a) == has_tensor_cores(b) {
        1.5
    } else {
        3.0
    };
    let framework = if a.framework == b.framework { 0.0 } else { 1.0 };
    let family = if a.kind == b.kind { 0.0 } else { 3.0 };
    let task = if work(a.task) == work(b.task) { 0.0 } else { 2.0 };
    let precision = match (a.precision == b.precision, width(a.precision) == width(b.precision)) {
        (true, _) => 0.0,
        (false, true) => 0.25,
        (false, false) => 1.0,
    };
    let apart = |a: f64, b: f64, unit: f64| if a > 0.0 && b > 0.0 { (a / b).ln().abs() / unit.ln() } else { 0.0 };
    let (here, there) = (&a.layout, &b.layout);
    let degrees = [
        (here.tensor, there.tensor),
        (here.pipeline, there.pipeline),
        (here.context, there.context),
        (here.expert, there.expert),
    ];
    let degrees: f64 = degrees.iter().map(|(a, b)| apart(f64::from(*a), f64::from(*b), 8.0)).sum();
    gpu + framework
        + family
        + task
        + precision
        + apart(a.parameters, b.parameters, 4.0)
        + apart(here.gpus() as f64, there.gpus() as f64, 8.0)
        + apart(a.sequence, b.sequence, 4.0)
        + degrees
}

fn has_tensor_cores(run: &Likeness) -> bool {
    run.architecture != Architecture::Pascal
}

/// Kinds of work that share no kernels of the backward pass.
fn work(task: Task) -> u8 {
    match task {
        Task::Inference => 0,
        Task::InferencePrefill => 1,
        task if task.has_adapters() => 2,
        _ => 3,
    }
}

/// Bits of the arithmetic, roughly.
fn width(precision: Precision) -> u8 {
    match precision {
        Precision::Fp32 | Precision::Tf32 => 32,
        Precision::Fp8 | Precision::Mxfp8 | Precision::Nvfp4 => 8,
        Precision::Fp16 | Precision::AmpFp16 | Precision::Bf16 | Precision::PureBf16 => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_estimate::case::EstimateCase;

    fn world() -> (Published, Hardware, Models) {
        (Published::embedded().unwrap(), Hardware::embedded().unwrap(), Models::embedded().unwrap())
    }

    fn likeness(case: &str) -> Likeness {
        let (_, hardware, models) = world();
        let case: EstimateCase = serde_json::from_str(case).unwrap();
        Likeness::of_case(&case.prepare(&hardware, &models).unwrap())
    }

    #[test]
    fn a_published_run_is_nearest_to_itself() {
        let (published, hardware, models) = world();
        let runs = PublishedRuns::new(&published, &hardware, &models);
        let known = runs.runs.iter().find(|known| known.run.source == "llm-foundry").unwrap();
        let nearest = runs.nearest(&known.likeness);
        assert_eq!(nearest.near.len(), NAMED);
        assert!(nearest.near[0].distance.abs() < 1e-12);
        assert!(nearest.near.iter().all(|one| one.run.source == "llm-foundry"));
        assert!(nearest.near.is_sorted_by(|a, b| a.distance <= b.distance));
        let median = nearest.median_error_percent().unwrap();
        assert!(median < 20.0, "{median}");
    }

    #[test]
    fn what_nobody_published_has_no_near_run() {
        let (published, hardware, models) = world();
        let runs = PublishedRuns::new(&published, &hardware, &models);
        let case = r#"{"model":{"name":"llama-2-70b"},"hardware":{"gpu":"p100-pcie-16","gpus":4096},
            "training":{"task":"pretrain","precision":"fp16","sequence_length":4096}}"#;
        let nearest = runs.nearest(&likeness(case));
        assert!(nearest.near.is_empty() && nearest.median_error_percent().is_none());
        assert!(nearest.closest.unwrap().distance > NEAR);
    }

    #[test]
    fn distance_is_symmetric_and_grows_with_every_term() {
        let case = |gpu: &str, gpus: u32, precision: &str, framework: &str, length: u32| {
            likeness(&format!(
                r#"{{"model":{{"name":"llama-2-7b"}},"hardware":{{"gpu":"{gpu}","gpus":{gpus}}},
                "training":{{"task":"pretrain","precision":"{precision}","framework":"{framework}","sequence_length":{length}}},
                "layout":{{"data":{gpus}}}}}"#
            ))
        };
        let one = case("h100-sxm5-80", 8, "bf16", "fsdp", 4096);
        for (other, expected) in [
            (case("h100-sxm5-80", 8, "bf16", "fsdp", 4096), 0.0),
            (case("h200-sxm-141", 8, "bf16", "fsdp", 4096), 0.5),
            (case("a100-sxm4-80", 8, "bf16", "fsdp", 4096), 1.5),
            (case("h100-sxm5-80", 64, "bf16", "fsdp", 4096), 1.0),
            (case("h100-sxm5-80", 8, "fp16", "fsdp", 4096), 0.25),
            (case("h100-sxm5-80", 8, "fp8", "fsdp", 4096), 1.0),
            (case("h100-sxm5-80", 8, "bf16", "megatron", 4096), 1.0),
            (case("h100-sxm5-80", 8, "bf16", "fsdp", 16384), 1.0),
        ] {
            let (there, back) = (distance(&one, &other), distance(&other, &one));
            assert!((there - expected).abs() < 1e-9 && (there - back).abs() < 1e-12, "{there} {expected}");
        }
    }
}
