//! `SimulatedDevice`: a GPU of the catalog as a roofline with seeded noise, for tests, demonstrations and machines without one.

use std::collections::BTreeMap;

use crate::benchmark::{Kernel, Work, word_of};
use crate::device::{Device, DeviceFacts, Waived};
use crate::readings::Readings;
use gpuplan_hardware::{Gpu, GpuLink, NumberFormat, gpu::RateTable};
use gpuplan_units::BytesPerSecond;
use gpuplan_units::draw::Draws;

/// Share of one-way PCIe that a pinned copy reaches; a pageable one goes through a buffer of the driver. Judged.
const PINNED: f64 = 0.80;
const PAGEABLE: f64 = 0.35;
/// Share of the GPU link that rings reach: 350 of 450 GB/s among four H100 (benchmarks/kernels: an all-reduce of 512 MB takes
/// 2.30 ms).
const RING: f64 = 0.78;
/// An empty kernel among many, and a node of a graph. Seconds; judged.
const LAUNCH: f64 = 2.5e-6;
const GRAPH_LAUNCH: f64 = 1.2e-6;
/// Latency of a copy or of one all-reduce. Seconds; judged.
const START: f64 = 8e-6;
/// Deviation of a sample's logarithm, and how often one is disturbed.
const NOISE: f64 = 0.006;
const DISTURBED: f64 = 0.02;

/// What the made-up card's model sustains: the roof. Large products in TFLOP/s; a missing format has no units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roof {
    pub products_tflops: RateTable,
    pub memory: BytesPerSecond,
}

/// A made-up card: the same seed gives the same card and the same samples.
pub struct SimulatedDevice {
    facts: DeviceFacts,
    gpu: Gpu,
    roof: Roof,
    link: GpuLink,
    /// This card's rates over those of its model: arithmetic, memory, host, links.
    arithmetic: f64,
    memory: f64,
    host: f64,
    links: f64,
    draws: Draws,
    clock: f64,
}

/// Major and minor of `9.0`; zeros for a name such as `gfx942`, of a card that CUDA does not know.
fn capability(text: &str) -> (u32, u32) {
    let parts = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.unwrap_or((0, 0))
}

impl SimulatedDevice {
    /// `link` joins the `gpus` of the made-up machine.
    pub fn new(gpu: &Gpu, roof: Roof, gpus: u32, link: GpuLink, seed: u64) -> Self {
        let mut draws = Draws::new(seed, 0x5EED);
        let facts = DeviceFacts {
            name: format!("simulated {}", gpu.name),
            memory_bytes: gpu.memory().0 as u64,
            compute_capability: capability(&gpu.compute_capability),
            gpus,
            versions: BTreeMap::from([
                ("simulation".to_owned(), "roofline".to_owned()),
                ("seed".to_owned(), seed.to_string()),
            ]),
        };
        // A card worse than its model, as one in a warm rack is, so that something shows.
        let mut worse = |least: f64, most: f64| 1.0 - least - (most - least) * draws.uniform();
        let (arithmetic, memory, host, links) =
            (worse(0.05, 0.15), worse(0.02, 0.08), worse(0.0, 0.3), worse(0.0, 0.2));
        Self { facts, gpu: gpu.clone(), roof, link, arithmetic, memory, host, links, draws, clock: 0.0 }
    }

    /// Seconds of one call without noise.
    fn seconds(&self, work: &Work) -> Result<f64, Waived> {
        let bandwidth = self.roof.memory.0 * self.memory;
        let launch = LAUNCH / self.host;
        Ok(match *work {
            Work::Matmul { m, n, k, format, .. } => {
                // Short sums do not fill the pipelines of a multiplier.
                let filled = k as f64 / (k as f64 + 128.0) * (m.min(n) as f64 / (m.min(n) as f64 + 64.0));
                launch + (work.flops() / (self.rate(format)? * filled)).max(work.bytes() / bandwidth)
            }
            Work::Attention { format, .. } => {
                3.0 * launch + (work.flops() / self.rate(format)?).max(work.bytes() / bandwidth)
            }
            Work::Kernel { kernel, .. } => {
                let share = if kernel == Kernel::CrossEntropy { 0.85 } else { 0.92 };
                launch + work.bytes() / (bandwidth * share)
            }
            Work::Stream { .. } => launch + work.bytes() / bandwidth,
            Work::Launch { graph: false } => LAUNCH / self.host,
            Work::Launch { graph: true } => GRAPH_LAUNCH / self.host,
            Work::HostCopy { pinned, .. } => {
                START
                    + work.bytes() / (self.gpu.pcie_bandwidth().0 * if pinned { PINNED } else { PAGEABLE } * self.links)
            }
            Work::PeerCopy { .. } => START + work.bytes() / self.bus()?,
            Work::AllReduce { bytes } => {
                let ranks = f64::from(self.facts.gpus);
                START * ranks + 2.0 * (ranks - 1.0) / ranks * bytes as f64 / self.bus()?
            }
        })
    }

    fn rate(&self, format: NumberFormat) -> Result<f64, Waived> {
        let roof = self.roof.products_tflops.get(format).filter(|rate| *rate > 0.0);
        let roof = roof.ok_or_else(|| Waived(format!("{} has no {} units", self.gpu.name, word_of(format))))?;
        Ok(roof * 1e12 * self.arithmetic)
    }

    fn bus(&self) -> Result<f64, Waived> {
        match self.link {
            _ if self.facts.gpus < 2 => Err(Waived("one GPU has no other to talk to".to_owned())),
            GpuLink::Single => Err(Waived("one GPU has no other to talk to".to_owned())),
            GpuLink::Fast { bandwidth, .. } | GpuLink::Pcie { bandwidth } => Ok(bandwidth.0 * RING * self.links),
        }
    }
}

impl Device for SimulatedDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn prepare(&mut self, work: &Work) -> Result<(), Waived> {
        // Planning a product or compiling a kernel takes some time on a real one too.
        self.clock += 0.02 + self.seconds(work)?;
        Ok(())
    }

    fn sample(&mut self, work: &Work, least_seconds: f64) -> Result<f64, Waived> {
        let disturbed = if self.draws.uniform() < DISTURBED { 1.1 } else { 1.0 };
        let seconds = self.seconds(work)? * (NOISE * self.draws.normal()).exp() * disturbed;
        self.clock += seconds.max(least_seconds);
        Ok(seconds)
    }

    fn elapsed(&self) -> f64 {
        self.clock
    }

    fn readings(&mut self) -> Readings {
        Readings { power_limit_watts: Some(self.gpu.tdp_watts), ..Readings::default() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;

    /// Four fifths of the peaks and nine tenths of the bandwidth.
    pub(crate) fn simulated(gpu: &str, seed: u64) -> SimulatedDevice {
        let hardware = Hardware::embedded().unwrap();
        let gpu = hardware.gpu(hardware.find_gpu(gpu).unwrap());
        let part = |format| gpu.peak_tflops.get(format).map(|peak| 0.8 * peak);
        let products_tflops = RateTable {
            fp32: part(NumberFormat::Fp32),
            tf32: part(NumberFormat::Tf32),
            fp16: part(NumberFormat::Fp16),
            bf16: part(NumberFormat::Bf16),
            fp8: part(NumberFormat::Fp8),
            ..RateTable::default()
        };
        let roof = Roof { products_tflops, memory: BytesPerSecond(0.9 * gpu.memory_bandwidth().0) };
        SimulatedDevice::new(gpu, roof, 1, GpuLink::Single, seed)
    }

    #[test]
    fn nothing_is_faster_than_its_roof_but_for_the_noise() {
        let mut device = simulated("a100-sxm4-80", 5);
        let product = Work::Matmul {
            m: 8192,
            n: 8192,
            k: 8192,
            format: NumberFormat::Bf16,
            pass: crate::benchmark::Pass::Forward,
        };
        let seconds = device.sample(&product, 0.0).unwrap();
        let rate = product.flops() / seconds;
        assert!(rate < 0.8 * 312e12 * 1.03 && rate > 0.5 * 312e12, "{rate}");
        let fp8 =
            Work::Matmul { m: 16, n: 16, k: 16, format: NumberFormat::Fp8, pass: crate::benchmark::Pass::Forward };
        assert!(device.prepare(&fp8).unwrap_err().0.contains("no fp8 units"));
    }
}
