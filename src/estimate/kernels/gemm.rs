//! Products of matrices.

use gpuplan_units::Seconds;

use crate::kernels::names::{Engine, KernelPrecision, Part};
use crate::kernels::table::KernelTable;

impl KernelTable {
    /// Of `m` tokens and a weight of `k` inputs and `n` outputs: 2 m n k FLOPs. Small weights were in the cache when they were
    /// measured again and again.
    pub fn gemm_seconds(&self, engine: Engine, precision: KernelPrecision, m: f64, n: f64, k: f64) -> Option<Seconds> {
        let surface = self.packed.surface(Part::Gemm(engine, precision))?;
        Some(self.bounded(surface.seconds(n, k, m), precision, 2.0 * m * n * k))
    }
}
