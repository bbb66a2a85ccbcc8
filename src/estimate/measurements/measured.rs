//! From a calibration to what it corrects: measured over expected time by class and size, relative to the recorded reference of
//! the same GPU where there is one, else to what the constants expect of a benchmark on that GPU.

use crate::collectives::{self, Operation};
use crate::device::DeviceRates;
use crate::loading::input::MeasuredHost;
use crate::machine::Machine;
use crate::measurements::correction::{MeasuredGpu, TOLD_APART};
use crate::measurements::curve::{Curve, Point};
use crate::measurements::work_class::WorkClass;
use crate::time::gemm;
use gpuplan_calibration::Calibration;
use gpuplan_calibration::benchmark::Work;
use gpuplan_calibration::recorded;
use gpuplan_calibration::simulated::Roof;
use gpuplan_calibration::suite::{Sampled, layer_format};
use gpuplan_hardware::gpu::RateTable;
use gpuplan_hardware::{Gpu, Hardware, MeasuredLinks, NodeShape, NumberFormat};
use gpuplan_units::{Bytes, BytesPerSecond, GpuCount};
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
    #[error("it was measured on `{0}`, which is not in the catalog, so there is nothing to compare it with")]
    UnknownGpu(String),
    #[error("the catalog does not say how its GPUs are linked: {0}")]
    UnknownLink(String),
    #[error("none of its results can be compared")]
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
        measured: MeasuredLinks::default(),
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
        let gpus = self.calibration.device.gpus;
        let topology = self.machine.topology(gpus, gpus, gpus);
        let expected = |work: &Work| match work {
            Work::AllReduce { bytes } if *bytes >= LEAST_STREAM && gpus > 1 => {
                Some(collectives::seconds(Operation::AllReduce, Bytes(*bytes as f64), &topology).0)
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
            (None, Some(curve)) => expected(&work)? * curve.interpolate(size).log_time.exp(),
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
        let log_time = |size| curve.interpolate(size).log_time;
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
mod tests;
