//! Products of matrices.

use gpuplan_units::Seconds;

use crate::kernels::names::{Engine, KernelPrecision, Part};
use crate::kernels::table::KernelTable;

/// Columns of a weight whose product is over in the time that reading its input takes. Every table has it.
const NARROW: f64 = 128.0;

impl KernelTable {
    /// Of `m` tokens and a weight of `k` inputs and `n` outputs: 2 m n k FLOPs. Small weights were in the cache when they were
    /// measured again and again.
    pub fn gemm_seconds(&self, engine: Engine, precision: KernelPrecision, m: f64, n: f64, k: f64) -> Option<Seconds> {
        let surface = self.packed.surface(Part::Gemm(engine, precision))?;
        Some(self.bounded(surface.seconds(n, k, m), precision, 2.0 * m * n * k))
    }

    /// The same of factors that are in their format already. In 16 bits that is all; engines measured products of fewer bits with the
    /// conversion of their `m k` inputs, which is what a product with a narrow weight takes beyond reading them.
    pub fn product_seconds(
        &self,
        engine: Engine,
        precision: KernelPrecision,
        m: f64,
        n: f64,
        k: f64,
    ) -> Option<Seconds> {
        let surface = self.packed.surface(Part::Gemm(engine, precision))?;
        let whole = surface.seconds(n, k, m);
        let seconds = match precision {
            KernelPrecision::Fp8 | KernelPrecision::Fp8Block | KernelPrecision::Nvfp4 => {
                let of_element = precision.bytes() * self.of_byte;
                let converted = (surface.seconds(NARROW, k, m) - m * k * of_element).max(0.0);
                (whole - converted).max((m * k + k * n) * of_element)
            }
            _ => whole,
        };
        Some(self.bounded(seconds, precision, 2.0 * m * n * k))
    }
}
