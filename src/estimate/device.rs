//! `DeviceRates`: what one GPU sustains for one precision, from its spec sheet, measured ceilings and fitted constants.

use crate::constants::{self as c, Constants};
use gpuplan_hardware::{Architecture, Gpu, NumberFormat};
use gpuplan_workload::Precision;

/// Sustained rates. FLOP/s and bytes/s of one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceRates {
    /// Linear layers.
    pub matmul: f64,
    /// Plain fp32 products on vector units, whatever the precision.
    pub vector: f64,
    /// The same in 16 bits, which low-precision recipes keep for the LM head.
    pub head: f64,
    /// Fused attention over sequences without end.
    pub flash: f64,
    /// The same with kernels written for Hopper and Blackwell, on those alone.
    pub flash3: Option<f64>,
    /// 16-bit FLOP/s that FlashAttention 2 has its shares of, on the chips it was written for.
    pub flash2: Option<f64>,
    /// Share of what a kernel reaches alone that training sustains. The power limit is in what was measured alone.
    pub sustained: f64,
    pub memory_bandwidth: f64,
    /// Exponent on tile and wave quantisation.
    pub wave_exponent: f64,
    pub multiprocessors: f64,
    /// Reduction length at which a GEMM loses half of its rate.
    pub reduction_length: f64,
    /// Bytes of an activation element.
    pub element_bytes: f64,
    /// Dense peak of the linear layers' format: the denominator of a utilisation figure.
    pub peak: f64,
    /// Plain fp32 on vector units (or tf32 on tensor cores): a regime of its own.
    pub is_single_precision: bool,
    /// Vector units multiply, not tensor cores.
    pub on_vector_units: bool,
    /// Host time of launches over that of the fit: 1 unless it was measured.
    pub host_time: f64,
}

/// Read bandwidth of a stream benchmark: measured, else what parts of the same memory reach (te42kyfo/gpu-benches: L40 and
/// A40 0.98 of their sheets with GDDR6, A100-80 and H100-PCIe 0.87 and 0.95 with HBM).
fn stream_bandwidth(gpu: &Gpu) -> f64 {
    let share = if gpu.memory_type.starts_with("GDDR") { 0.975 } else { 0.91 };
    gpu.stream_gb_per_s.map_or(gpu.memory_bandwidth().0 * share, |stream| stream * 1e9)
}

/// Which unit multiplies, after the rules of the generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Vector32,
    Tensor32,
    Half,
    Eight,
    /// Eight bits with a scale for every 32 values.
    EightInBlocks,
    Four,
}

impl DeviceRates {
    /// What the constants expect of a benchmark that runs alone on a whole card: the ceilings, without the shares of them
    /// that training reaches.
    pub fn of_benchmark(gpu: &Gpu, precision: Precision) -> Self {
        Self::of_part(gpu, precision, 1.0)
    }

    /// The same on a part of a card.
    pub(crate) fn of_part(gpu: &Gpu, precision: Precision, share: f64) -> Self {
        let alone = Constants {
            gemm_share: 1.0,
            generation_volta: 1.0,
            generation_turing: 1.0,
            generation_ga10x: 1.0,
            generation_ada: 1.0,
            generation_hopper: 1.0,
            generation_blackwell: 1.0,
            generation_cdna: 1.0,
            fp32_share: 1.0,
            fp8_share: 1.0,
            bandwidth_share: 1.0,
            ..Constants::embedded().clone()
        };
        Self::new(gpu, precision, share, &alone)
    }

    /// `share` is the part of a card that a slice has; 1 for whole cards.
    pub fn new(gpu: &Gpu, precision: Precision, share: f64, constants: &Constants) -> Self {
        let unit = unit(gpu, precision);
        let tera = |format: NumberFormat| gpu.peak_tflops.get(format).unwrap_or(0.0) * 1e12;
        let half = half_peak(gpu);
        let attention_peak = match unit {
            Unit::Vector32 => tera(NumberFormat::Fp32),
            Unit::Tensor32 => tera(NumberFormat::Tf32),
            _ => half,
        };
        let peak = match unit {
            Unit::Eight => tera(NumberFormat::Fp8),
            Unit::EightInBlocks => gpu.peak_tflops.block_scaled().unwrap_or(0.0) * 1e12,
            Unit::Four => tera(NumberFormat::Fp4),
            _ => attention_peak,
        };
        let measured = gpu.matmul_ceiling_tflops.bf16.filter(|_| unit != Unit::Vector32);
        let ceiling = match (unit, measured) {
            (Unit::Vector32, _) => c::VECTOR_CEILING,
            (_, Some(tflops)) => (tflops * 1e12 / half).min(1.0),
            (_, None) => sibling_ceiling(gpu),
        };
        let generation =
            if unit == Unit::Vector32 { constants.fp32_share } else { constants.generation(gpu.architecture) };
        let least = if gpu.architecture.is_amd() { c::CDNA_FP8_SHARE } else { 0.0 };
        let fp8_share = constants.fp8_share.max(least);
        let low = match unit {
            Unit::Eight => fp8_share,
            Unit::EightInBlocks | Unit::Four => fp8_share / c::BLOCK_SCALING_COST,
            _ => 1.0,
        };
        let power = power_share(gpu, unit, half).powf(constants.power_exponent) * clock(gpu, constants);
        let plain = ceiling * constants.gemm_share * generation * power;
        let matmul = peak * plain * low;
        let vector_power =
            power_share(gpu, Unit::Vector32, half).powf(constants.power_exponent) * clock(gpu, constants);
        let vector =
            tera(NumberFormat::Fp32) * c::VECTOR_CEILING * constants.gemm_share * constants.fp32_share * vector_power;
        let multiprocessors = (f64::from(gpu.streaming_multiprocessors) * share).max(1.0);
        Self {
            matmul: matmul * share,
            vector: vector * share,
            head: attention_peak * plain * share,
            flash3: flash3_share(gpu, half).map(|of_peak| half * of_peak * power * share),
            flash2: gpu.architecture.has_flash2().then_some(half * power * share),
            flash: attention_peak * flash_share(gpu, unit, half, ceiling, constants) * power * share,
            sustained: constants.sustained(gpu.architecture),
            memory_bandwidth: stream_bandwidth(gpu) * constants.bandwidth_share * share,
            wave_exponent: constants.wave_exponent,
            multiprocessors,
            reduction_length: constants.gemm_reduction_length
                * ((peak * share / multiprocessors) / (312e12 / 108.0)).sqrt(),
            element_bytes: precision.activation_bytes(),
            peak: peak * share,
            on_vector_units: unit == Unit::Vector32 || !gpu.architecture.has_tensor_cores(),
            is_single_precision: matches!(unit, Unit::Vector32 | Unit::Tensor32),
            host_time: 1.0,
        }
    }
}

impl DeviceRates {
    /// [F2] With so much of the power that the ceiling was measured at.
    pub fn at(self, power: f64, constants: &Constants) -> Self {
        let share = power.powf(constants.power_exponent);
        Self {
            matmul: self.matmul * share,
            vector: self.vector * share,
            head: self.head * share,
            flash: self.flash * share,
            flash3: self.flash3.map(|rate| rate * share),
            flash2: self.flash2.map(|rate| rate * share),
            sustained: self.sustained * share,
            ..self
        }
    }
}

/// What is left of the peak of matrix units under the power limit of the card, times its clock over the one that the peak is stated for.
pub fn power_and_clock(gpu: &Gpu, constants: &Constants) -> f64 {
    power_share(gpu, Unit::Half, half_peak(gpu)).powf(constants.power_exponent) * clock(gpu, constants)
}

/// GeForce boards run above the boost clock that their peaks are stated for.
fn clock(gpu: &Gpu, constants: &Constants) -> f64 {
    if gpu.name.starts_with("GeForce") { constants.geforce_clock } else { 1.0 }
}

/// FLOP/s in 16 bits, or what a card without matrix units has in 32.
fn half_peak(gpu: &Gpu) -> f64 {
    let tera = |format| gpu.peak_tflops.get(format).unwrap_or(0.0) * 1e12;
    tera(NumberFormat::Bf16).max(tera(NumberFormat::Fp16)).max(tera(NumberFormat::Fp32))
}

/// A share of Hopper's 16-bit peak that attention reaches on an H100, on any of the generation: what bounds it there beside products (exponentials,
/// loads, copies) goes with the vector units, and of a chip whose matrix units alone were cut it leaves more of their peak, up to `most`.
fn of_cut_units(gpu: &Gpu, half: f64, of_h100: f64, most: f64) -> f64 {
    let left = gpu.peak_tflops.fp32.unwrap_or(0.0) * 1e12 / half / c::HOPPER_VECTOR_SHARE;
    // Sheets of chips that were not cut differ by a few percent.
    if left > 2.0 { (of_h100 * left).min(most) } else { of_h100 }
}

/// What fused attention reaches of the peak on sequences without end.
fn flash_share(gpu: &Gpu, unit: Unit, half: f64, ceiling: f64, constants: &Constants) -> f64 {
    let newer = ceiling * constants.flash_share * constants.flash_share_newer;
    match gpu.architecture {
        Architecture::Cdna3 | Architecture::Cdna4 if unit != Unit::Vector32 => c::CDNA_FLASH_SHARE,
        Architecture::Hopper if unit != Unit::Vector32 => of_cut_units(gpu, half, newer, c::CUT_FLASH2_SHARE),
        Architecture::Blackwell if !matches!(unit, Unit::Vector32 | Unit::Tensor32) => c::BLACKWELL_FLASH2 / half,
        Architecture::Hopper | Architecture::Blackwell => newer,
        _ => ceiling * constants.flash_share,
    }
}

/// The same of kernels that were written for Hopper and Blackwell, on those alone.
fn flash3_share(gpu: &Gpu, half: f64) -> Option<f64> {
    match gpu.architecture {
        Architecture::Hopper => Some(of_cut_units(gpu, half, c::FLASH3_SHARE, c::CUT_FLASH3_SHARE)),
        other => other.has_asynchronous_products().then_some(c::FLASH3_SHARE),
    }
}

/// tf32 needs compute capability 8 and is plain fp32 before it. Vector units have no 16-bit products that are summed in 32, as training
/// sums them: a P100 multiplies in fp16 no faster than in fp32 (`benchmarks/kernels/published.csv`). fp8 and fp4 need a chip that lists a rate for them: no other is
/// estimated (`possible`), and a benchmark of it counts as one in the next wider format.
fn unit(gpu: &Gpu, precision: Precision) -> Unit {
    match precision {
        Precision::Fp32 => Unit::Vector32,
        Precision::Tf32 if gpu.peak_tflops.tf32.is_some() => Unit::Tensor32,
        Precision::Tf32 => Unit::Vector32,
        Precision::Nvfp4 if gpu.peak_tflops.fp4.is_some() => Unit::Four,
        Precision::Mxfp8 | Precision::Nvfp4 if gpu.peak_tflops.fp8.is_some() => Unit::EightInBlocks,
        Precision::Fp8 if gpu.peak_tflops.fp8.is_some() => Unit::Eight,
        _ if !gpu.architecture.has_tensor_cores() => Unit::Vector32,
        _ => Unit::Half,
    }
}

/// Ceiling of a chip that nobody has measured: that of its own generation's measured part where the silicon is the same.
fn sibling_ceiling(gpu: &Gpu) -> f64 {
    match (gpu.architecture, gpu.form_factor.as_str()) {
        // A100-SXM4-80: 271.2 of 312 (the same GA100 part with another memory).
        (Architecture::Ampere, "sxm") => 271.2 / 312.0,
        (Architecture::Ampere, "pcie") if gpu.family == "A100" => 252.9 / 312.0,
        _ => c::UNMEASURED_CEILING,
    }
}

/// [F2] Share of the power that full-rate arithmetic would want; 1 where the ceiling is measured, since that holds it already.
fn power_share(gpu: &Gpu, unit: Unit, half: f64) -> f64 {
    let work = c::work_per_watt(gpu.architecture);
    // Ada's matrix units doubled their rate on the power of its vector units' gain alone: 6000 Ada sustains little more than
    // a 4090 although its sheet lists 2.2 times the rate.
    let tensor = if gpu.architecture == Architecture::Ada { 0.73 } else { 1.0 };
    let fp32 = gpu.peak_tflops.fp32.unwrap_or(f64::INFINITY);
    let sibling = gpu.architecture == Architecture::Ampere && gpu.family == "A100"
        || gpu.family == "H200" && gpu.form_factor == "sxm";
    match unit {
        Unit::Vector32 => (gpu.tdp_watts / fp32 * work / 18.0).min(1.0),
        _ if gpu.matmul_ceiling_tflops.bf16.is_some() || sibling => 1.0,
        _ => (gpu.tdp_watts / (half / 1e12) * work * tensor / 2.5).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;

    #[test]
    fn attention_of_a_chip_whose_matrix_units_were_cut_is_bound_by_them() {
        let hardware = Hardware::embedded().unwrap();
        let of = |id: &str| {
            let gpu = hardware.gpu(hardware.find_gpu(id).unwrap());
            let rates = DeviceRates::new(gpu, Precision::Bf16, 1.0, Constants::embedded());
            (rates.flash / rates.peak, rates.flash3.unwrap() / rates.peak)
        };
        // 83.7 and 126.2 of 148 TFLOP/s over 2,048 tokens without a mask, and 65.9 and 107.8 with one (Dao-AILab/flash-attention issue 1310).
        for (endless, forward, newer) in [(100.0, 83.7, 126.2), (350.0, 65.9, 107.8)] {
            let (flash2, flash3) = of("h20-sxm-96");
            let at_length = 148.0 * 2048.0 / (2048.0 + endless);
            assert!(
                (flash2 * at_length / forward - 1.0).abs() < 0.1 && (flash3 * at_length / newer - 1.0).abs() < 0.05
            );
        }
        assert_eq!((of("h100-sxm5-80").1, of("h200-sxm-141").1), (c::FLASH3_SHARE, c::FLASH3_SHARE));
    }

    /// 352, 354 and 362 TFLOP/s forward over 2,048 to 8,192 tokens without a mask (meta-pytorch/tritonbench pull request 171), a tenth less backward.
    #[test]
    fn flash_attention_2_does_not_know_the_matrix_units_of_blackwell() {
        let hardware = Hardware::embedded().unwrap();
        for id in ["b200-sxm-180", "b300-sxm-288", "gb200-186", "gb300-279"] {
            let gpu = hardware.gpu(hardware.find_gpu(id).unwrap());
            let rates = DeviceRates::new(gpu, Precision::Bf16, 1.0, Constants::embedded());
            assert!((rates.flash / 354e12 - 1.0).abs() < 0.05, "{id} {}", rates.flash);
            assert!(rates.flash3.unwrap() > 3.0 * rates.flash, "{id} {:?}", rates.flash3);
        }
    }

    #[test]
    fn a_superchip_that_shares_its_power_with_the_host_is_slower() {
        let hardware = Hardware::embedded().unwrap();
        let gpu = hardware.gpu(hardware.find_gpu("gh200-96").unwrap());
        let alone = DeviceRates::new(gpu, Precision::Bf16, 1.0, Constants::embedded());
        let shared = alone.at(570.0 / 700.0, Constants::embedded());
        // An H100 of 600 W loses 10 to 15 % of a step (factryze.ai, Power Capping), one of 570 some more.
        assert!((0.84..0.90).contains(&(shared.matmul / alone.matmul)), "{}", shared.matmul / alone.matmul);
        assert_eq!((shared.memory_bandwidth, alone.at(1.0, Constants::embedded())), (alone.memory_bandwidth, alone));
    }

    #[test]
    fn amd_reaches_more_of_its_peak_in_8_bits() {
        let hardware = Hardware::embedded().unwrap();
        let gpu = hardware.gpu(hardware.find_gpu("mi300x").unwrap());
        let rate = |precision| DeviceRates::new(gpu, precision, 1.0, Constants::embedded()).matmul;
        // 1,273 and 708 TFLOP/s, as AMD measured them.
        assert!((rate(Precision::Fp8) / rate(Precision::Bf16) / (1273.0 / 708.0) - 1.0).abs() < 0.01);
    }
}
