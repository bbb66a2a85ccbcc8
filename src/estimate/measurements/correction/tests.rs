//! Tests of `correction.rs`.

#![cfg(test)]

use super::*;
use crate::cases::case::EstimateCase;
use crate::measurements::curve::Point;
use crate::{Setting, StepEstimate, Subject};
use gpuplan_hardware::Hardware;
use gpuplan_workload::{Layout, Models, Recompute, Shard};
use proptest::prelude::*;

fn slow_hopper(time: f64) -> Correction {
    Correction::new(vec![MeasuredGpu {
        id: "h100-sxm5-80".to_owned(),
        architecture: Architecture::Hopper,
        curves: Curve::flat(WorkClass::Compute, time, 0.01).into_iter().collect(),
        host: None,
        reasons: Vec::new(),
    }])
}

fn factor(correction: &Correction, gpu: &str) -> Corrected {
    let hardware = Hardware::embedded().unwrap();
    correction.for_gpu(hardware.gpu(hardware.find_gpu(gpu).unwrap())).compute.overall()
}

#[test]
fn a_measurement_says_less_of_gpus_that_are_further_away() {
    let correction = slow_hopper(1.2);
    let [same, near, far] = ["h100-sxm5-80", "h200-sxm-141", "a100-sxm4-80"].map(|gpu| factor(&correction, gpu));
    assert!(same.time > near.time && near.time > far.time && far.time > 1.0, "{same:?} {near:?} {far:?}");
    assert!(same.deviation < near.deviation && near.deviation < far.deviation, "{same:?} {near:?} {far:?}");
    assert!(same.deviation < WorkClass::Compute.doubt());
    // Something that unusual on one architecture makes another one more doubtful, not less.
    assert!(far.deviation > WorkClass::Compute.doubt());
}

#[test]
fn what_a_run_deviates_goes_with_the_program_more_than_with_the_gpu() {
    let factor = |curve: &Curve, near| Factor { class: curve.class, found: Some((curve, near)) }.overall();
    let bench = Curve::flat(WorkClass::Compute, 1.4, 0.01).unwrap();
    let run = bench.clone().of_run();
    for near in [Nearness::Other, Nearness::SameArchitecture, Nearness::SameModel] {
        let (of_bench, of_run) = (factor(&bench, near), factor(&run, near));
        assert!(
            of_run.time > of_bench.time && of_run.time < 1.4 && of_run.deviation < of_bench.deviation,
            "{of_bench:?} {of_run:?}"
        );
    }
    assert!(factor(&run, Nearness::Other).time > 1.4_f64.powf(0.7));
}

#[test]
fn nothing_measured_changes_nothing() {
    let hardware = Hardware::embedded().unwrap();
    for gpu in hardware.gpus() {
        assert_eq!(Correction::NONE.for_gpu(gpu), Factors::unmeasured());
        assert_eq!(Correction::NONE.description_of(gpu), None);
    }
    let (time, factors) =
        (TimeBreakdown { matmul: 1.0, total: 2.0, ..TimeBreakdown::default() }, Factors::unmeasured());
    let certainty = factors.certainty(&time, true, |class| factors.for_class(class).overall());
    assert_eq!(certainty.replaced, certainty.left);
}

#[test]
fn a_slower_measured_gpu_makes_a_longer_step_with_a_narrower_band() {
    let case = r#"{"id": "a", "model": {"name": "llama-2-7b"}, "hardware": {"gpu": "h100-sxm5-80", "gpus": 8},
        "training": {"task": "pretrain", "sequence_length": 4096, "framework": "fsdp"}}"#;
    let case: EstimateCase = serde_json::from_str(case).unwrap();
    let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
    let layout = Layout { data: 8, shard: Shard::Zero1, ..Layout::default() };
    let setting = Setting { layout, micro_batch: 1, global_batch: 64.0, recompute: Recompute::None };
    let subject = Subject::new(&prepared.model, &prepared.training, prepared.machine());
    let step = |correction| subject.corrected(correction).estimate(&setting).unwrap();
    let (none, slower) = (Correction::NONE, slow_hopper(1.2));
    let (plain, slow) = (step(&none), step(&slower));
    assert_eq!(plain, subject.estimate(&setting).unwrap());
    let arithmetic = |step: &StepEstimate| step.time.matmul + step.time.attention;
    assert!((arithmetic(&slow) / arithmetic(&plain) / 1.2_f64.powf(0.9) - 1.0).abs() < 1e-9);
    assert!(slow.time.elementwise == plain.time.elementwise && slow.time.total > 1.08 * plain.time.total);
    let width = |step: &StepEstimate| step.step_seconds().high / step.step_seconds().low;
    // Of a run that names no stack most of the band is of that, which measuring a GPU leaves as it is.
    assert!(width(&slow) < 0.97 * width(&plain), "{} {}", width(&slow), width(&plain));
    assert_eq!(slow.memory, plain.memory);
}

#[test]
fn a_measurement_says_less_of_work_of_another_size() {
    let point = Point { size: 1e11, log_time: 1.3_f64.ln(), spread: 0.01, weight: 1.0 };
    let curve = Curve::new(WorkClass::Compute, vec![point]).unwrap();
    let factor = Factor { class: curve.class, found: Some((&curve, Nearness::SameModel)) };
    let [same, near, far] = [1e11, 1e12, 1e15].map(|size| factor.at_size(size));
    assert!(same.time > near.time && near.time > far.time && far.time > 1.0, "{same:?} {near:?} {far:?}");
    assert!(same.deviation < near.deviation && near.deviation < far.deviation, "{same:?} {near:?} {far:?}");
    assert!((same.correlation - 0.9).abs() < 1e-12 && (0.65..0.75).contains(&near.correlation), "{near:?}");
    assert!(
        (factor.at_size(1e8).correlation - factor.at_size(1e14).correlation).abs() < 1e-12,
        "smaller and larger fade alike"
    );
}

#[test]
fn the_nearest_measurement_of_a_class_counts() {
    let mut correction = slow_hopper(1.2);
    let curves = Curve::flat(WorkClass::Compute, 0.9, 0.01).into_iter().collect();
    correction.push(MeasuredGpu {
        id: "a100-sxm4-80".to_owned(),
        architecture: Architecture::Ampere,
        curves,
        host: None,
        reasons: Vec::new(),
    });
    assert!(factor(&correction, "a100-sxm4-80").time < 1.0);
    assert!(factor(&correction, "h200-sxm-141").time > 1.0);
}

proptest! {
    #[test]
    fn no_ratio_makes_time_vanish_or_doubt_fall_below_the_spread(
        time in any::<f64>(), spread in any::<f64>(), measured in 1.0..1e18_f64, size in 1.0..1e18_f64,
    ) {
        let point = Point { size: measured, log_time: time.ln(), spread, weight: 1.0 };
        if let Some(curve) = Curve::new(WorkClass::Memory, vec![point]) {
            for near in [Nearness::SameModel, Nearness::SameArchitecture, Nearness::Other] {
                let factor = Factor { class: curve.class, found: Some((&curve, near)) }.at_size(size);
                prop_assert!(factor.time > 0.1 && factor.time < 10.0);
                prop_assert!(factor.deviation.is_finite() && factor.deviation >= factor.correlation * spread);
            }
        }
    }
}
