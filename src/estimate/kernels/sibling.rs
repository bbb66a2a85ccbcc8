//! Products of a card that nobody measured: those of the measured card of its generation, by what the sheets of the two allow.
//!
//! A generation's cards have the same matrix units and run the same kernels, so as large a share of what bounds a product is reached on
//! each: its time goes from one to the other as that bound does. `sibling_of_each_measured_card` is how well this holds.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use rustc_hash::FxHasher;

use gpuplan_embedded::KERNELS;
use gpuplan_hardware::{Gpu, Hardware};
use gpuplan_workload::Gemm;

use crate::constants::Constants;
use crate::device;
use crate::kernels::names::KernelPrecision;
use crate::kernels::table::KernelTable;

/// Bytes of an element of a result, whatever the factors were.
const RESULT_BYTES: f64 = 2.0;

/// What bounds products in one format on a card.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    /// FLOP/s, as far as the power limit and the clock go.
    arithmetic: f64,
    /// Bytes/s of memory.
    memory: f64,
}

impl Bounds {
    /// `None` for a card without units for the format.
    fn new(gpu: &Gpu, precision: KernelPrecision, constants: &Constants) -> Option<Self> {
        let peak = precision.peak(gpu)? * 1e12;
        let bounds =
            Self { arithmetic: peak * device::power_and_clock(gpu, constants), memory: gpu.memory_bandwidth().0 };
        (bounds.arithmetic > 0.0 && bounds.memory > 0.0).then_some(bounds)
    }

    fn seconds(self, precision: KernelPrecision, Gemm { m, n, k, .. }: Gemm) -> f64 {
        let bytes = (m * k + k * n) * precision.bytes() + m * n * RESULT_BYTES;
        (2.0 * m * n * k / self.arithmetic).max(bytes / self.memory)
    }

    /// How differently two cards divide their products between arithmetic and memory.
    fn unlike(self, other: Self) -> f64 {
        ((self.arithmetic / self.memory) / (other.arithmetic / other.memory)).ln().abs()
    }
}

/// The table of a card of the same generation, and how its times become those of the card that has none.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    pub table: KernelTable,
    precision: KernelPrecision,
    lender: Bounds,
    own: Bounds,
    /// Seconds of a FLOP at the dense peak, which no product passes.
    fastest: f64,
    identity: u64,
}

impl Lent {
    /// `None` where no card of the generation was measured in this format.
    pub fn to(gpu: &Gpu, precision: KernelPrecision, constants: &Constants) -> Option<Self> {
        Self::among(
            measured().iter().filter(|lender| lender.architecture == gpu.architecture),
            gpu,
            precision,
            constants,
        )
    }

    /// By the one of these that divides its products most alike between arithmetic and memory.
    fn among<'a>(
        lenders: impl Iterator<Item = &'a Gpu>,
        gpu: &Gpu,
        precision: KernelPrecision,
        constants: &Constants,
    ) -> Option<Self> {
        let own = Bounds::new(gpu, precision, constants)?;
        let known = lenders.filter(|lender| lender.id != gpu.id).filter_map(|lender| {
            let table = KernelTable::embedded(lender).filter(|table| table.has_products(precision))?;
            Some((table, Bounds::new(lender, precision, constants)?))
        });
        let (table, lender) = known.min_by(|a, b| own.unlike(a.1).total_cmp(&own.unlike(b.1)))?;
        let mut hasher = FxHasher::default();
        [table.identity(), own.arithmetic.to_bits(), own.memory.to_bits()].hash(&mut hasher);
        let fastest = 1e-12 / precision.peak(gpu)?;
        Some(Self { table, precision, lender, own, fastest, identity: hasher.finish() })
    }

    /// Tells what is lent to different cards apart while the program runs.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// What a product takes that took so many seconds on the card it was measured on.
    pub fn seconds(&self, gemm: Gemm, measured: f64) -> f64 {
        let scaled = measured * self.own.seconds(self.precision, gemm) / self.lender.seconds(self.precision, gemm);
        scaled.max(2.0 * gemm.m * gemm.n * gemm.k * self.fastest)
    }
}

/// The cards that have a table, as the catalog inside the program describes them: a table is of those, whatever a user's own catalog says.
fn measured() -> &'static [Gpu] {
    static MEASURED: OnceLock<Vec<Gpu>> = OnceLock::new();
    MEASURED.get_or_init(|| {
        let Ok(hardware) = Hardware::embedded() else { return Vec::new() };
        let sheet = |id: &str| hardware.gpus().iter().find(|gpu| gpu.id == id).cloned();
        KERNELS.iter().filter_map(|(id, _)| sheet(id)).collect()
    })
}

#[cfg(test)]
mod tests;
