//! [F3], [F4] Time of one matrix product: roofline with tile and wave quantisation and short-reduction loss.

use crate::device::DeviceRates;
use crate::measurements::correction::Factors;
use gpuplan_workload::Gemm;

/// Output tile of a kernel and its rate relative to the largest one.
/// NVIDIA Deep Learning Performance guide, matrix multiplication chapter.
const TILES: [(f64, f64, f64); 4] =
    [(256.0, 128.0, 1.0), (128.0, 128.0, 0.95), (128.0, 64.0, 0.80), (64.0, 64.0, 0.62)];

/// Seconds of a product on one device: the longer of what arithmetic and what memory takes, each as it was measured at its size.
pub fn seconds(gemm: Gemm, rates: &DeviceRates, factors: &Factors) -> f64 {
    if gemm.flops() <= 0.0 {
        return 0.0;
    }
    let (arithmetic, traffic) = bounds(gemm, rates);
    let one = Gemm { count: 1.0, ..gemm };
    let traffic_factor = factors.memory.at_size(one.elements() * rates.element_bytes).time;
    (arithmetic * factors.compute.at_size(one.flops()).time).max(traffic * traffic_factor)
}

/// Seconds that arithmetic and that memory takes, by the constants alone.
pub fn bounds(gemm: Gemm, rates: &DeviceRates) -> (f64, f64) {
    let quantised = quantisation(gemm.m, gemm.n, rates.multiprocessors).powf(rates.wave_exponent);
    let arithmetic = gemm.flops() / rates.matmul * quantised * (1.0 + rates.reduction_length / gemm.k);
    (arithmetic, gemm.elements() * rates.element_bytes / rates.memory_bandwidth)
}

/// Tile area computed over useful area, for the best tile: whole tiles, and whole waves of tiles over the multiprocessors.
pub fn quantisation(m: f64, n: f64, multiprocessors: f64) -> f64 {
    let mut best = f64::INFINITY;
    for (rows, columns, rate) in TILES {
        let tiles = ceil(m / rows) * ceil(n / columns);
        let waves = ceil(tiles / multiprocessors);
        best = best.min(waves * multiprocessors * rows * columns / (m * n * rate));
    }
    best
}

/// Of a number that is not negative and below 2^63. `f64::ceil` is a call into the C library on a processor of which no more than
/// the first 64-bit generation's instructions are assumed, and this is asked millions of times a plan.
fn ceil(value: f64) -> f64 {
    let whole = value as i64 as f64;
    if whole < value { whole + 1.0 } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceil_is_that_of_the_standard_library() {
        for value in [0.0, 0.2, 1.0, 1.000_000_1, 63.999, 64.0, 1e9 + 0.5, 9.007_199_254_740_993e15] {
            assert_eq!(ceil(value), value.ceil());
        }
    }

    #[test]
    fn a_product_that_fills_every_wave_loses_nothing() {
        // 108 tiles of 256 x 128 on 108 multiprocessors.
        assert!((quantisation(256.0 * 12.0, 128.0 * 9.0, 108.0) - 1.0).abs() < 1e-12);
        // One tile more opens a second wave.
        assert!(quantisation(256.0 * 12.0, 128.0 * 9.0 + 1.0, 108.0) > 1.1);
    }
}
