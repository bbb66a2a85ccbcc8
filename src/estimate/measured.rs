//! From a calibration to what it corrects: measured over expected time by class and size, relative to the recorded reference of
//! the same GPU where there is one, else to what the constants expect of a benchmark on that GPU.

use crate::constants::Constants;
use crate::correction::{MeasuredGpu, TOLD_APART, WorkClass};
use crate::curve::{Curve, Point};
use crate::device::DeviceRates;
use crate::gemm;
use crate::input::MeasuredHost;
use crate::machine::Machine;
use gpuplan_calibration::Calibration;
use gpuplan_calibration::benchmark::Work;
use gpuplan_calibration::recorded;
use gpuplan_calibration::simulated::Roof;
use gpuplan_calibration::suite::{Sampled, layer_format};
use gpuplan_hardware::gpu::RateTable;
use gpuplan_hardware::{Gpu, Hardware, NodeShape, NumberFormat};
use gpuplan_units::{BytesPerSecond, GpuCount};
use gpuplan_workload::{Gemm, Precision};

/// What a simulated card of this model may not exceed: the ceilings that the constants expect of a benchmark.
pub fn roof(gpu: &Gpu) -> Roof {
    let rate = |precision| DeviceRates::of_benchmark(gpu, precision).matmul / 1e12;
    let has = |format| gpu.peak_tflops.get(format).is_some_and(|peak| peak > 0.0);
    let of = |format, precision| has(format).then(|| rate(precision));
    Roof {
        products_tflops: RateTable {
            fp32: of(NumberFormat::Fp32, Precision::Fp32),
            tf32: of(NumberFormat::Tf32, Precision::Tf32),
            fp16: of(NumberFormat::Fp16, Precision::Fp16),
            bf16: of(NumberFormat::Bf16, Precision::Bf16),
            fp8: of(NumberFormat::Fp8, Precision::Fp8),
            ..RateTable::default()
        },
        memory: BytesPerSecond(DeviceRates::of_benchmark(gpu, Precision::Bf16).memory_bandwidth),
    }
}

/// Why a calibration corrects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasuredError {
    #[error("it was measured on `{0}`, which the catalog does not have, so nothing says what to expect of it")]
    UnknownGpu(String),
    #[error("the catalog does not say how its GPUs are linked: {0}")]
    UnknownLink(String),
    #[error("none of its results can be compared with anything")]
    NothingToCompare,
}

/// Streams shorter than this may come from the cache, and all-reduces are as much latency as bandwidth. Bytes.
const LEAST_STREAM: u64 = 256 << 20;
/// Products expected to be over sooner tell of their launch, which takes 2 to 3 us, as much as of the chip. Seconds.
const LEAST_PRODUCT: f64 = 1e-5;
/// Weight of what is measured for comparison alone beside the workload's own operators: it counts where they have no size.
const FOR_COMPARISON: f64 = 1e-9;

/// What `calibration` says of its GPU for a workload in `precision`.
pub fn measured_gpu(
    calibration: &Calibration,
    precision: Precision,
    hardware: &Hardware,
) -> Result<MeasuredGpu, MeasuredError> {
    let id = calibration.gpu.as_deref().and_then(|name| hardware.find_gpu(name));
    let reference = id.and_then(|id| recorded::reference(&hardware.gpu(id).id));
    measured_against(calibration, reference.as_ref(), precision, hardware)
}

/// The same, with the recorded calibration of this GPU model given.
fn measured_against(
    calibration: &Calibration,
    reference: Option<&Calibration>,
    precision: Precision,
    hardware: &Hardware,
) -> Result<MeasuredGpu, MeasuredError> {
    let id = calibration.gpu.as_deref().and_then(|name| hardware.find_gpu(name));
    let id = id.ok_or_else(|| MeasuredError::UnknownGpu(calibration.device.name.clone()))?;
    let gpu = hardware.gpu(id);
    let machine = NodeShape {
        gpu: id,
        gpus: GpuCount::whole(calibration.device.gpus.clamp(1, 16) as u16),
        gpu_memory: gpu.memory(),
        link: hardware.gpu_link(gpu, &gpu.link, calibration.device.gpus).map_err(MeasuredError::UnknownLink)?,
        fabric: None,
    };
    // What the reference itself reaches of what the constants expect, for work that it did not measure.
    let recorded = match reference {
        Some(reference) => measured_against(reference, None, precision, hardware)?.curves,
        None => Vec::new(),
    };
    let comparison =
        Comparison { calibration, reference, recorded, gpu, machine: Machine::new(gpu, &machine), precision };
    let found: Vec<Found> = [comparison.compute(), comparison.memory(), comparison.launch(), comparison.copy()]
        .into_iter()
        .flatten()
        .collect();
    if found.iter().all(|found| found.curve.is_none()) {
        return Err(MeasuredError::NothingToCompare);
    }
    let mut reasons = vec![comparison.headline(&found)];
    reasons
        .extend(calibration.readings.warnings().into_iter().map(|warning| format!("while it was measured, {warning}")));
    Ok(MeasuredGpu {
        id: gpu.id.clone(),
        architecture: gpu.architecture,
        curves: found.into_iter().filter_map(|found| found.curve).collect(),
        host: host(calibration),
        reasons,
    })
}

fn host(calibration: &Calibration) -> Option<MeasuredHost> {
    let host = &calibration.host;
    let decoding = (host.decode_bytes_per_second_one_core, host.decode_bytes_per_second);
    MeasuredHost::new(host.processor.clone(), host.cores, decoding, host.read_bytes_per_second)
}

/// One class: its curve, unless nothing of it can be believed, and what was seen in words.
struct Found {
    curve: Option<Curve>,
    words: String,
}

struct Comparison<'a> {
    calibration: &'a Calibration,
    reference: Option<&'a Calibration>,
    /// Curves of the reference against the constants.
    recorded: Vec<Curve>,
    gpu: &'a Gpu,
    machine: Machine<'a>,
    precision: Precision,
}

impl Comparison<'_> {
    /// Matrix products in the workload's format: its own, and the square ones, which say how the chip does at other sizes.
    fn compute(&self) -> Option<Found> {
        let products: Vec<&Sampled> =
            self.results().filter(|one| matches!(one.benchmark.work, Work::Matmul { .. })).collect();
        let wanted = layer_format(self.precision, self.calibration.device.compute_capability);
        let own = |one: &&&Sampled| one.benchmark.weight > 0.0;
        // Measured for a workload in another precision: the squares in this one tell more, if there are any.
        let of_own = products.iter().filter(own).any(|one| format(one) == Some(wanted));
        let of_format = |one: &&&Sampled| format(one) == Some(wanted) || of_own && one.benchmark.weight > 0.0;
        let mut chosen: Vec<&Sampled> = products.iter().filter(of_format).copied().collect();
        if chosen.is_empty() {
            chosen = products;
        }
        let points: Vec<Point> =
            chosen.iter().filter_map(|one| self.point(WorkClass::Compute, one, product(self.gpu))).collect();
        let weight = |one: &Sampled| one.benchmark.weight.max(FOR_COMPARISON);
        let flops: f64 = chosen.iter().map(|one| one.benchmark.work.flops() * weight(one)).sum();
        let seconds: f64 = chosen.iter().map(|one| one.statistics.median_seconds * weight(one)).sum();
        let peak = chosen.first().and_then(|one| self.gpu.peak_tflops.get(format(one)?))? * 1e12;
        let words = format!("matmuls reach {:.0} % of the peak", flops / seconds / peak * 100.0);
        self.found(WorkClass::Compute, points, words)
    }

    /// Long streams; the training kernels too where a reference says what this program's own kernels reach.
    fn memory(&self) -> Option<Found> {
        let stream = DeviceRates::of_benchmark(self.gpu, Precision::Bf16).memory_bandwidth;
        let expected = |work: &Work| match work {
            Work::Stream { bytes, .. } if *bytes >= LEAST_STREAM => Some(work.bytes() / stream),
            _ => None,
        };
        let is_memory = |one: &&Sampled| matches!(one.benchmark.work, Work::Stream { .. } | Work::Kernel { .. });
        let chosen: Vec<&Sampled> = self.results().filter(is_memory).collect();
        let points: Vec<Point> = chosen.iter().filter_map(|one| self.point(WorkClass::Memory, one, expected)).collect();
        let rates = chosen.iter().filter(|one| expected(&one.benchmark.work).is_some());
        let best = rates.map(|one| one.benchmark.work.bytes() / one.statistics.median_seconds).fold(0.0, f64::max);
        let words = format!("memory streams at {:.0} % of its sheet", best / self.gpu.memory_bandwidth().0 * 100.0);
        self.found(WorkClass::Memory, points, words)
    }

    /// The constants know the launches of a framework's layer, not those of a bare kernel, so only a reference compares.
    fn launch(&self) -> Option<Found> {
        let chosen = self.results().filter(|one| one.benchmark.work == Work::Launch { graph: false });
        let points: Vec<Point> =
            chosen.clone().filter_map(|one| self.point(WorkClass::Launch, one, |_| None)).collect();
        let words =
            chosen.map(|one| format!("a kernel launch takes {:.1} us", one.statistics.median_seconds * 1e6)).next()?;
        self.found(WorkClass::Launch, points, words)
    }

    /// All-reduces: long enough for bandwidth to count, or as the reference has them.
    fn copy(&self) -> Option<Found> {
        let ranks = f64::from(self.calibration.device.gpus);
        let bus = self.machine.link_bus(Constants::embedded());
        let expected = |work: &Work| match work {
            Work::AllReduce { bytes } if *bytes >= LEAST_STREAM && bus.is_finite() => {
                Some(2.0 * (ranks - 1.0) / ranks * *bytes as f64 / bus)
            }
            _ => None,
        };
        let chosen: Vec<&Sampled> =
            self.results().filter(|one| matches!(one.benchmark.work, Work::AllReduce { .. })).collect();
        let points: Vec<Point> = chosen.iter().filter_map(|one| self.point(WorkClass::Copy, one, expected)).collect();
        let rates = chosen
            .iter()
            .map(|one| 2.0 * (ranks - 1.0) / ranks * one.benchmark.work.bytes() / one.statistics.median_seconds);
        let words = format!("all-reduces reach {:.0} GB/s of the link", rates.fold(0.0, f64::max) / 1e9);
        self.found(WorkClass::Copy, points, words)
    }

    fn results(&self) -> impl Iterator<Item = &Sampled> + Clone {
        self.calibration.results.iter()
    }

    /// Against the same work of the reference; else against what the constants expect, as far as the reference reaches that.
    fn point(&self, class: WorkClass, one: &Sampled, expected: impl Fn(&Work) -> Option<f64>) -> Option<Point> {
        let work = one.benchmark.work;
        let size = match class {
            WorkClass::Compute => work.flops(),
            WorkClass::Memory | WorkClass::Copy => work.bytes(),
            // It has none.
            WorkClass::Launch => 1.0,
        };
        let recorded =
            self.reference.and_then(|reference| reference.results.iter().find(|known| known.benchmark.work == work));
        let expected = match (recorded, self.recorded.iter().find(|curve| curve.class == class)) {
            (Some(known), _) => known.statistics.median_seconds,
            (None, Some(curve)) => expected(&work)? * curve.at(size).log_time.exp(),
            (None, None) => expected(&work)?,
        };
        let log_time = (one.statistics.median_seconds / expected).ln();
        Some(Point {
            size,
            log_time,
            spread: one.statistics.spread,
            weight: expected * one.benchmark.weight.max(FOR_COMPARISON),
        })
    }

    fn found(&self, class: WorkClass, points: Vec<Point>, words: String) -> Option<Found> {
        let least = points.iter().map(|point| point.log_time).reduce(f64::min)?;
        let Some(curve) = Curve::new(class, points) else {
            let words = format!("{words}, off by a factor of {:.1}, so they count for nothing", least.exp());
            return Some(Found { curve: None, words });
        };
        let than = if self.reference.is_some() { "the recorded reference" } else { "what the constants expect" };
        let log_time = |size| curve.at(size).log_time;
        let apart = curve.ends().filter(|(small, large)| (log_time(*small) - log_time(*large)).abs() >= TOLD_APART);
        let words = match apart {
            Some((small, large)) => {
                let end = |size| format!("at {} {}", class.size(size), off(log_time(size)));
                format!("{words}, {}, {} {than}", end(small), end(large))
            }
            None => format!("{words}, {} {than}", off(curve.overall().log_time)),
        };
        Some(Found { curve: Some(curve), words })
    }

    fn headline(&self, found: &[Found]) -> String {
        let calibration = self.calibration;
        let how = if calibration.simulated { "SIMULATED, not measured," } else { "measured" };
        let words: Vec<&str> = found.iter().map(|found| found.words.as_str()).collect();
        let shapes = calibration
            .workload
            .as_ref()
            .map_or_else(String::new, |workload| format!(", shapes of {}", workload.model));
        let day = calibration.measured_at.strftime("%Y-%m-%d");
        format!("{how} on {} ({day}{shapes}): {}", self.gpu.name, words.join("; "))
    }
}

fn format(one: &Sampled) -> Option<NumberFormat> {
    match one.benchmark.work {
        Work::Matmul { format, .. } => Some(format),
        _ => None,
    }
}

/// Such as `5 % under`: slower is a lower rate.
fn off(log_time: f64) -> String {
    match ((1.0 - (-log_time).exp()) * 100.0).round() {
        0.0 => "as".to_owned(),
        off if off > 0.0 => format!("{off:.0} % under"),
        off => format!("{:.0} % over", -off),
    }
}

/// What the constants expect of a product; `None` where memory or the launch bounds it.
fn product(gpu: &Gpu) -> impl Fn(&Work) -> Option<f64> {
    move |work| {
        let Work::Matmul { m, n, k, format, .. } = *work else { return None };
        let rates = DeviceRates::of_benchmark(gpu, precision_of(format)?);
        let (arithmetic, traffic) = gemm::bounds(Gemm::new(m as f64, n as f64, k as f64, 1.0), &rates);
        (arithmetic.is_finite() && arithmetic >= traffic.max(LEAST_PRODUCT)).then_some(arithmetic)
    }
}

/// The recipe whose linear layers multiply in this format; `None` for formats that no benchmark has.
fn precision_of(format: NumberFormat) -> Option<Precision> {
    match format {
        NumberFormat::Fp32 => Some(Precision::Fp32),
        NumberFormat::Tf32 => Some(Precision::Tf32),
        NumberFormat::Fp16 => Some(Precision::Fp16),
        NumberFormat::Bf16 => Some(Precision::Bf16),
        NumberFormat::Fp8 => Some(Precision::Fp8),
        NumberFormat::Fp4 | NumberFormat::Int8 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
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
        for gpu in
            ["h100-sxm5-80", "a100-sxm4-80", "l4", "t4", "v100-sxm2-16", "rtx-4090", "p100-pcie-16", "b200-sxm-180"]
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
        let measured =
            measured_gpu(&simulated("h100-sxm5-80", 8, Precision::Bf16), Precision::Bf16, &hardware).unwrap();
        assert!((0.7..1.5).contains(&time(&measured, WorkClass::Copy).unwrap()));
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
        let case: Case = serde_json::from_str(&case).unwrap();
        let prepared = case.prepare(&hardware, &Models::embedded().unwrap()).unwrap();
        let setting =
            Setting { layout: Layout::default(), micro_batch: 8, global_batch: 8.0, recompute: Recompute::None };
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
        assert!(
            measured_gpu(&calibration, Precision::Bf16, &hardware).unwrap_err().to_string().contains("simulated L4")
        );
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
                    let reading = curve.at(m as f64);
                    prop_assert!(Curve::flat(curve.class, reading.log_time.exp(), reading.spread).is_some(), "{reading:?}");
                }
            }
        }
    }

    #[test]
    fn another_precision_is_judged_by_products_in_it() {
        let hardware = Hardware::embedded().unwrap();
        let measured =
            measured_gpu(&simulated("h100-sxm5-80", 1, Precision::Bf16), Precision::Fp32, &hardware).unwrap();
        assert!((1.0..1.25).contains(&time(&measured, WorkClass::Compute).unwrap()));
    }
}
