//! From a calibration to what it corrects: measured over expected time by class, relative to the recorded reference of the
//! same GPU where there is one, else to what the constants expect of a benchmark on that GPU.

use crate::calibration::Calibration;
use crate::calibration::benchmark::Work;
use crate::calibration::recorded;
use crate::calibration::simulated::Roof;
use crate::calibration::suite::Sampled;
use crate::estimate::constants::Constants;
use crate::estimate::correction::{ClassRatio, MeasuredGpu, WorkClass};
use crate::estimate::device::DeviceRates;
use crate::estimate::gemm;
use crate::estimate::machine::Machine;
use crate::hardware::gpu::RateTable;
use crate::hardware::{Gpu, GpuLink, Hardware, NodeShape, NumberFormat};
use crate::units::{BytesPerSecond, GpuCount};
use crate::workload::{Gemm, Precision};

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
    #[error("none of its results can be compared with anything")]
    NothingToCompare,
}

/// Streams shorter than this may come from the cache. Bytes.
const LEAST_STREAM: u64 = 256 << 20;
/// Square products smaller than this tell of tiles more than of the chip.
const LEAST_SQUARE: u64 = 4096;

/// What `calibration` says of its GPU for a workload in `precision`.
pub fn measured_gpu(calibration: &Calibration, precision: Precision, hardware: &Hardware) -> Result<MeasuredGpu, MeasuredError> {
    let id = calibration.gpu.as_deref().and_then(|name| hardware.find_gpu(name));
    let id = id.ok_or_else(|| MeasuredError::UnknownGpu(calibration.device.name.clone()))?;
    let gpu = hardware.gpu(id);
    let reference = recorded::reference(&gpu.id);
    let machine = NodeShape {
        gpu: id,
        gpus: GpuCount::whole(calibration.device.gpus.clamp(1, 16) as u16),
        gpu_memory: gpu.memory(),
        link: hardware.gpu_link(gpu, &gpu.link, calibration.device.gpus).unwrap_or(GpuLink::Single),
        fabric: None,
    };
    let comparison = Comparison { calibration, reference, gpu, machine: Machine::new(gpu, &machine), precision };
    let found: Vec<Found> =
        [comparison.compute(), comparison.memory(), comparison.launch(), comparison.copy()].into_iter().flatten().collect();
    if found.iter().all(|found| found.ratio.is_none()) {
        return Err(MeasuredError::NothingToCompare);
    }
    let mut reasons = vec![comparison.headline(&found)];
    reasons.extend(calibration.readings.warnings().into_iter().map(|warning| format!("while it was measured, {warning}")));
    Ok(MeasuredGpu {
        id: gpu.id.clone(),
        architecture: gpu.architecture,
        ratios: found.into_iter().filter_map(|found| found.ratio).collect(),
        reasons,
    })
}

/// One class: its ratio, unless it cannot be believed, and what was seen in words.
struct Found {
    ratio: Option<ClassRatio>,
    words: String,
}

struct Comparison<'a> {
    calibration: &'a Calibration,
    reference: Option<Calibration>,
    gpu: &'a Gpu,
    machine: Machine<'a>,
    precision: Precision,
}

/// Measured and expected seconds of one piece of work; the weight is its part in the whole.
struct Pair {
    measured: f64,
    expected: f64,
    weight: f64,
    spread: f64,
}

impl Comparison<'_> {
    /// Matrix products: those of the workload, else large square ones in its format.
    fn compute(&self) -> Option<Found> {
        let is_product = |one: &&Sampled| matches!(one.benchmark.work, Work::Matmul { .. });
        let mut chosen: Vec<&Sampled> = self.results().filter(is_product).filter(|one| one.benchmark.weight > 0.0).collect();
        let wanted = format_of(self.precision, self.calibration.device.compute_capability);
        if !chosen.iter().any(|one| format(one) == Some(wanted)) {
            // Measured for a workload in another precision: the comparison sizes in this one tell more.
            let is_large = |one: &&Sampled| matches!(one.benchmark.work, Work::Matmul { m, .. } if m >= LEAST_SQUARE);
            let squares: Vec<&Sampled> = self.results().filter(is_large).filter(|one| format(one) == Some(wanted)).collect();
            chosen = if squares.is_empty() { chosen } else { squares };
        }
        let pairs: Vec<Pair> = chosen.iter().filter_map(|one| self.pair(one, |work| self.product_seconds(work))).collect();
        let flops: f64 = chosen.iter().map(|one| one.benchmark.work.flops() * one.benchmark.weight.max(1e-9)).sum();
        let seconds: f64 = chosen.iter().map(|one| one.statistics.median_seconds * one.benchmark.weight.max(1e-9)).sum();
        let peak = chosen.first().and_then(|one| self.gpu.peak_tflops.get(format(one)?))? * 1e12;
        let words = format!("matmuls reach {:.0} % of the peak", flops / seconds / peak * 100.0);
        self.found(WorkClass::Compute, &pairs, words)
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
        let pairs: Vec<Pair> = chosen.iter().filter_map(|one| self.pair(one, expected)).collect();
        let rates = chosen.iter().filter(|one| expected(&one.benchmark.work).is_some());
        let best = rates.map(|one| one.benchmark.work.bytes() / one.statistics.median_seconds).fold(0.0, f64::max);
        let words = format!("memory streams at {:.0} % of its sheet", best / self.gpu.memory_bandwidth().0 * 100.0);
        self.found(WorkClass::Memory, &pairs, words)
    }

    /// The constants know the launches of a framework's layer, not those of a bare kernel, so only a reference compares.
    fn launch(&self) -> Option<Found> {
        let chosen = self.results().filter(|one| one.benchmark.work == Work::Launch { graph: false });
        let pairs: Vec<Pair> = chosen.clone().filter_map(|one| self.pair(one, |_| None)).collect();
        let words = chosen.map(|one| format!("a kernel launch takes {:.1} us", one.statistics.median_seconds * 1e6)).next()?;
        self.found(WorkClass::Launch, &pairs, words)
    }

    /// All-reduces long enough for bandwidth to count.
    fn copy(&self) -> Option<Found> {
        let ranks = f64::from(self.calibration.device.gpus);
        let bus = self.machine.link_bus(Constants::embedded());
        let expected = |work: &Work| match work {
            Work::AllReduce { bytes } if *bytes >= LEAST_STREAM && bus.is_finite() => {
                Some(2.0 * (ranks - 1.0) / ranks * *bytes as f64 / bus)
            }
            _ => None,
        };
        let chosen: Vec<&Sampled> = self.results().filter(|one| matches!(one.benchmark.work, Work::AllReduce { .. })).collect();
        let pairs: Vec<Pair> = chosen.iter().filter_map(|one| self.pair(one, expected)).collect();
        let rates = chosen.iter().map(|one| 2.0 * (ranks - 1.0) / ranks * one.benchmark.work.bytes() / one.statistics.median_seconds);
        let words = format!("all-reduces reach {:.0} GB/s of the link", rates.fold(0.0, f64::max) / 1e9);
        self.found(WorkClass::Copy, &pairs, words)
    }

    fn results(&self) -> impl Iterator<Item = &Sampled> + Clone {
        self.calibration.results.iter()
    }

    /// The same work of the reference, else what the constants expect.
    fn pair(&self, one: &Sampled, expected: impl Fn(&Work) -> Option<f64>) -> Option<Pair> {
        let work = one.benchmark.work;
        let recorded = self.reference.as_ref().and_then(|reference| reference.results.iter().find(|known| known.benchmark.work == work));
        let expected = recorded.map(|known| known.statistics.median_seconds).or_else(|| expected(&work))?;
        let weight = if one.benchmark.weight > 0.0 { one.benchmark.weight * expected } else { 1.0 };
        Some(Pair { measured: one.statistics.median_seconds, expected, weight, spread: one.statistics.spread })
    }

    fn product_seconds(&self, work: &Work) -> Option<f64> {
        let Work::Matmul { m, n, k, format, .. } = *work else { return None };
        let rates = DeviceRates::of_benchmark(self.gpu, precision_of(format)?);
        let seconds = gemm::seconds(Gemm::new(m as f64, n as f64, k as f64, 1.0), &rates);
        (seconds.is_finite() && seconds > 0.0).then_some(seconds)
    }

    /// Weighted mean of the log ratios; its doubt is how they differ among operators, and how each scattered.
    fn found(&self, class: WorkClass, pairs: &[Pair], words: String) -> Option<Found> {
        let weight: f64 = pairs.iter().map(|pair| pair.weight).sum();
        if pairs.is_empty() || weight <= 0.0 {
            return None;
        }
        let mean_of = |value: &dyn Fn(&Pair) -> f64| pairs.iter().map(|pair| pair.weight * value(pair)).sum::<f64>() / weight;
        let log = |pair: &Pair| (pair.measured / pair.expected).ln();
        let mean = mean_of(&log);
        let between = mean_of(&|pair| (log(pair) - mean).powi(2)) / pairs.len() as f64;
        let within = mean_of(&|pair| pair.spread.powi(2));
        let Some(ratio) = ClassRatio::new(class, mean.exp(), (between + within).sqrt()) else {
            return Some(Found { ratio: None, words: format!("{words}, off by a factor of {:.1}, so they count for nothing", mean.exp()) });
        };
        // Slower is a lower rate.
        let off = (1.0 - 1.0 / ratio.time) * 100.0;
        let than = if self.reference.is_some() { "the recorded reference" } else { "what the constants expect" };
        let off = match off.round() {
            0.0 => "as".to_owned(),
            off if off > 0.0 => format!("{off:.0} % under"),
            off => format!("{:.0} % over", -off),
        };
        Some(Found { ratio: Some(ratio), words: format!("{words}, {off} {than}") })
    }

    fn headline(&self, found: &[Found]) -> String {
        let calibration = self.calibration;
        let how = if calibration.simulated { "SIMULATED, not measured," } else { "measured" };
        let words: Vec<&str> = found.iter().map(|found| found.words.as_str()).collect();
        let shapes = calibration.workload.as_ref().map_or_else(String::new, |workload| format!(", shapes of {}", workload.model));
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

fn format_of(precision: Precision, capability: (u32, u32)) -> NumberFormat {
    crate::calibration::suite::layer_format(precision, capability)
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
    use crate::calibration::SimulatedDevice;
    use crate::calibration::benchmark::Pass;
    use crate::calibration::device::Device;
    use crate::calibration::file::VERSION;
    use crate::calibration::host::HostRates;
    use crate::calibration::suite::{self, Shapes, Suite};
    use crate::workload::{Layout, Models, Task};
    use proptest::prelude::*;

    fn simulated(gpu: &str, gpus: u32, precision: Precision) -> Calibration {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let gpu = hardware.gpu(hardware.find_gpu(gpu).unwrap());
        let link = hardware.gpu_link(gpu, &gpu.link, gpus).unwrap();
        let mut device = SimulatedDevice::new(gpu, roof(gpu), gpus, link, 1);
        let model = models.find("llama-2-7b").unwrap().to_model();
        let shapes = Shapes { model: &model, task: Task::Pretrain, precision, layout: Layout::default(), micro_batch: 2, sequence: 4096 };
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
        measured.ratios.iter().find(|ratio| ratio.class == class).map(|ratio| ratio.time)
    }

    #[test]
    fn a_card_worse_than_its_roof_is_found_to_be_so_on_every_architecture() {
        let hardware = Hardware::embedded().unwrap();
        for gpu in ["h100-sxm5-80", "a100-sxm4-80", "l4", "t4", "v100-sxm2-16", "rtx-4090", "p100-pcie-16", "b200-sxm-180"] {
            let measured = measured_gpu(&simulated(gpu, 1, Precision::Bf16), Precision::Bf16, &hardware).unwrap();
            // The made-up card lacks 5 to 15 % of the arithmetic and 2 to 8 % of the bandwidth; its roofline knows no waves.
            let (compute, memory) = (time(&measured, WorkClass::Compute).unwrap(), time(&measured, WorkClass::Memory).unwrap());
            assert!((0.95..1.25).contains(&compute) && (1.01..1.1).contains(&memory), "{gpu}: {compute} {memory}");
            assert_eq!((time(&measured, WorkClass::Launch), time(&measured, WorkClass::Copy)), (None, None));
            assert!(measured.reasons[0].starts_with("SIMULATED, not measured, on "), "{}", measured.reasons[0]);
        }
    }

    #[test]
    fn several_gpus_tell_of_their_link() {
        let hardware = Hardware::embedded().unwrap();
        let measured = measured_gpu(&simulated("h100-sxm5-80", 8, Precision::Bf16), Precision::Bf16, &hardware).unwrap();
        assert!((0.7..1.5).contains(&time(&measured, WorkClass::Copy).unwrap()));
        assert!(measured.reasons[0].contains("all-reduces reach "));
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
                prop_assert!(measured.ratios.iter().all(|ratio| ClassRatio::new(ratio.class, ratio.time, ratio.spread).is_some()));
            }
        }
    }

    #[test]
    fn another_precision_is_judged_by_products_in_it() {
        let hardware = Hardware::embedded().unwrap();
        let measured = measured_gpu(&simulated("h100-sxm5-80", 1, Precision::Bf16), Precision::Fp32, &hardware).unwrap();
        assert!((1.0..1.25).contains(&time(&measured, WorkClass::Compute).unwrap()));
    }
}
