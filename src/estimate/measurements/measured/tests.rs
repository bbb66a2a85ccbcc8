//! Tests of `measured.rs`.

#![cfg(test)]

use super::*;
use crate::cases::case::EstimateCase;
use crate::{Correction, Setting, Subject};
use gpuplan_calibration::SimulatedDevice;
use gpuplan_calibration::benchmark::Pass;
use gpuplan_calibration::device::Device;
use gpuplan_calibration::file::VERSION;
use gpuplan_calibration::host::HostRates;
use gpuplan_calibration::suite::{self, Shapes, Suite};
use gpuplan_workload::{Layout, Models, Recompute, Task};
use proptest::prelude::*;

fn simulated(gpu: &str, gpus: u32, precision: Precision) -> Calibration {
    simulated_for("llama-2-7b", gpu, gpus, precision)
}

fn simulated_for(model: &str, gpu: &str, gpus: u32, precision: Precision) -> Calibration {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let gpu = hardware.gpu(hardware.find_gpu(gpu).unwrap());
    let link = hardware.gpu_link(gpu, &gpu.link, gpus).unwrap();
    let mut device = SimulatedDevice::new(gpu, roof(gpu), gpus, link, 1);
    let model = models.find(model).unwrap().to_model();
    let shapes = Shapes {
        model: &model,
        task: Task::Pretrain,
        precision,
        layout: Layout::default(),
        micro_batch: 2,
        sequence: 4096,
    };
    let suite = Suite::quick().unwrap();
    let benchmarks = suite.benchmarks(Some(&shapes), device.facts());
    let outcome = suite::run(&suite, benchmarks, &mut device, &mut |_, _| {});
    Calibration {
        version: VERSION,
        program: String::new(),
        measured_at: "2026-08-02T12:00:00Z".parse().unwrap(),
        simulated: true,
        gpu: Some(gpu.id.clone()),
        device: device.facts().clone(),
        workload: None,
        suite: "quick".to_owned(),
        seconds: 1.0,
        readings: device.readings(),
        results: outcome.sampled,
        waived: outcome.waived,
        host: HostRates::default(),
    }
}

fn time(measured: &MeasuredGpu, class: WorkClass) -> Option<f64> {
    measured.curves.iter().find(|curve| curve.class == class).map(Curve::time)
}

#[test]
fn a_card_worse_than_its_roof_is_found_to_be_so_on_every_architecture() {
    let hardware = Hardware::embedded().unwrap();
    for gpu in ["h100-sxm5-80", "a100-sxm4-80", "l4", "t4", "v100-sxm2-16", "rtx-4090", "p100-pcie-16", "b200-sxm-180"]
    {
        let measured = measured_gpu(&simulated(gpu, 1, Precision::Bf16), Precision::Bf16, &hardware).unwrap();
        // The made-up card lacks 5 to 15 % of the arithmetic and 2 to 8 % of the bandwidth; its roofline knows no waves.
        let (compute, memory) =
            (time(&measured, WorkClass::Compute).unwrap(), time(&measured, WorkClass::Memory).unwrap());
        assert!((0.95..1.25).contains(&compute) && (1.01..1.1).contains(&memory), "{gpu}: {compute} {memory}");
        assert_eq!((time(&measured, WorkClass::Launch), time(&measured, WorkClass::Copy)), (None, None));
        assert!(measured.reasons[0].starts_with("SIMULATED, not measured, on "), "{}", measured.reasons[0]);
    }
}

#[test]
fn several_gpus_tell_of_their_link() {
    let hardware = Hardware::embedded().unwrap();
    let measured = measured_gpu(&simulated("h100-sxm5-80", 8, Precision::Bf16), Precision::Bf16, &hardware).unwrap();
    // The made-up card has rings alone, at 0.78 of the link; switches that sum, as such machines have them, reach 1.05.
    let copy = time(&measured, WorkClass::Copy).unwrap();
    assert!((1.2..1.8).contains(&copy), "{copy}");
    assert!(measured.reasons[0].contains("all-reduces reach "));
}

/// Products below so many FLOPs take `factor` of their time.
fn slower_below(mut calibration: Calibration, flops: f64, factor: f64) -> Calibration {
    for one in &mut calibration.results {
        let work = one.benchmark.work;
        let is_slower = matches!(work, Work::Matmul { .. }) && work.flops() < flops;
        one.statistics.median_seconds *= if is_slower { factor } else { 1.0 };
    }
    calibration
}

/// Matrix products of a step of this model on a measured GPU.
fn products_of(model: &str, calibration: &Calibration) -> f64 {
    let hardware = Hardware::embedded().unwrap();
    let case = format!(
        r#"{{"model": {{"name": "{model}"}}, "training": {{"task": "pretrain", "sequence_length": 1024, "precision": "bf16"}},
            "hardware": {{"gpu": "h100-sxm5-80", "gpus": 1}}}}"#
    );
    let case: EstimateCase = serde_json::from_str(&case).unwrap();
    let prepared = case.prepare(&hardware, &Models::embedded().unwrap()).unwrap();
    let setting = Setting { layout: Layout::default(), micro_batch: 8, global_batch: 8.0, recompute: Recompute::None };
    let correction = Correction::new(vec![measured_gpu(calibration, Precision::Bf16, &hardware).unwrap()]);
    let subject = Subject::new(&prepared.model, &prepared.training, prepared.machine());
    subject.corrected(&correction).estimate(&setting).unwrap().time.matmul
}

#[test]
fn a_card_that_is_bad_at_small_products_is_bad_for_small_models() {
    let card = simulated("h100-sxm5-80", 1, Precision::Bf16);
    let bad = slower_below(card.clone(), 5e10, 1.6);
    let slower = |model| products_of(model, &bad) / products_of(model, &card);
    // Products of GPT-2 for 8,192 tokens take 10 to 40 GFLOP, those of Llama 2 7B 275 and more.
    let (small, large) = (slower("gpt-2"), slower("llama-2-7b"));
    assert!((1.2..1.6).contains(&small) && (0.999..1.02).contains(&large), "{small} {large}");
    let hardware = Hardware::embedded().unwrap();
    let said = &measured_gpu(&bad, Precision::Bf16, &hardware).unwrap().reasons[0];
    assert!(
        said.contains(", at 17 GFLOP ")
            && said.contains(" % under, at ")
            && said.contains(" what the constants expect"),
        "{said}"
    );
}

#[test]
fn what_the_recorded_card_reaches_is_no_deviation_of_this_one() {
    let hardware = Hardware::embedded().unwrap();
    let slow = |model| slower_below(simulated_for(model, "h100-sxm5-80", 1, Precision::Bf16), f64::INFINITY, 1.3);
    let (own, reference) = (slow("llama-2-7b"), slow("gpt-2"));
    let compute = |reference| {
        let measured = measured_against(&own, reference, Precision::Bf16, &hardware).unwrap();
        (time(&measured, WorkClass::Compute).unwrap(), measured.reasons[0].clone())
    };
    let (against_constants, _) = compute(None);
    let (same, _) = compute(Some(&own));
    let (other_shapes, said) = compute(Some(&reference));
    assert!(against_constants > 1.3 && (same - 1.0).abs() < 1e-9, "{against_constants} {same}");
    assert!((0.9..1.1).contains(&other_shapes), "the reference is as slow: {other_shapes}");
    assert!(said.contains("the recorded reference"), "{said}");
    let launch = measured_against(&own, Some(&reference), Precision::Bf16, &hardware).unwrap();
    assert!(time(&launch, WorkClass::Launch).is_some(), "a reference knows launches");
}

#[test]
fn short_products_tell_of_their_launch_and_are_left_out() {
    let gpu = |name| {
        let hardware = Hardware::embedded().unwrap();
        hardware.gpu(hardware.find_gpu(name).unwrap()).clone()
    };
    let square = |side| Work::Matmul { m: side, n: side, k: side, format: NumberFormat::Bf16, pass: Pass::Forward };
    assert_eq!(product(&gpu("h100-sxm5-80"))(&square(1024)), None);
    assert!(product(&gpu("l4"))(&square(1024)).is_some() && product(&gpu("h100-sxm5-80"))(&square(2048)).is_some());
    // One row: bound by reading the weight.
    let thin = Work::Matmul { m: 1, n: 65536, k: 65536, format: NumberFormat::Bf16, pass: Pass::Forward };
    assert_eq!(product(&gpu("l4"))(&thin), None);
}

#[test]
fn a_strange_card_or_an_empty_file_corrects_nothing_and_says_so() {
    let hardware = Hardware::embedded().unwrap();
    let mut calibration = simulated("l4", 1, Precision::Bf16);
    calibration.results.clear();
    assert_eq!(measured_gpu(&calibration, Precision::Bf16, &hardware), Err(MeasuredError::NothingToCompare));
    calibration.gpu = None;
    assert!(measured_gpu(&calibration, Precision::Bf16, &hardware).unwrap_err().to_string().contains("simulated L4"));
}

#[test]
fn what_is_off_by_a_large_factor_is_told_and_not_believed() {
    let hardware = Hardware::embedded().unwrap();
    let mut calibration = simulated("l4", 1, Precision::Bf16);
    for one in &mut calibration.results {
        one.statistics.median_seconds *= if matches!(one.benchmark.work, Work::Matmul { .. }) { 20.0 } else { 1.0 };
    }
    let measured = measured_gpu(&calibration, Precision::Bf16, &hardware).unwrap();
    assert_eq!(time(&measured, WorkClass::Compute), None);
    assert!(measured.reasons[0].contains("count for nothing"), "{}", measured.reasons[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever sane file somebody wrote: no panic, and no ratio that is not believed.
    #[test]
    fn odd_results_are_compared_or_left_out(
        sizes in prop::collection::vec(1_u64..1 << 41, 3), seconds in 1e-12_f64..1e6, spread in 0.0..1e3_f64, gpus in 1_u32..1025,
        weight in 0.0..1e12_f64,
    ) {
        let hardware = Hardware::embedded().unwrap();
        let mut calibration = simulated("l4", 1, Precision::Bf16);
        calibration.device.gpus = gpus;
        let [m, n, k] = [sizes[0], sizes[1], sizes[2]];
        for (index, one) in calibration.results.iter_mut().enumerate() {
            one.benchmark.weight = weight;
            (one.statistics.median_seconds, one.statistics.spread) = (seconds, spread);
            one.benchmark.work = match index % 4 {
                0 => Work::Matmul { m, n, k, format: NumberFormat::Bf16, pass: Pass::Forward },
                1 => Work::Stream { writes: true, bytes: m },
                2 => Work::AllReduce { bytes: n },
                _ => Work::Launch { graph: false },
            };
        }
        if let Ok(measured) = measured_gpu(&calibration, Precision::Bf16, &hardware) {
            for curve in &measured.curves {
                let reading = curve.interpolate(m as f64);
                prop_assert!(Curve::flat(curve.class, reading.log_time.exp(), reading.spread).is_some(), "{reading:?}");
            }
        }
    }
}

#[test]
fn another_precision_is_judged_by_products_in_it() {
    let hardware = Hardware::embedded().unwrap();
    let measured = measured_gpu(&simulated("h100-sxm5-80", 1, Precision::Bf16), Precision::Fp32, &hardware).unwrap();
    assert!((1.0..1.25).contains(&time(&measured, WorkClass::Compute).unwrap()));
}
