//! [`KernelTable`]: how long single kernels took on a GPU of this model, as others measured them (`benchmarks/kernels/README.md`),
//! one at a time on an idle card.
//!
//! What nobody measured on this GPU, in this precision or head dimension is `None`. Between measured shapes the answer is
//! interpolated, beyond them it goes on at the rate of the last one, and no product takes less than at the chip's dense peak.

mod attention;
mod collective;
mod experts;
mod gemm;
mod names;
mod packed;
#[cfg(test)]
mod published;
mod sibling;
mod surface;
mod table;
#[cfg(test)]
mod tests;

pub use attention::Attention;
pub use experts::ExpertLayer;
pub use names::{Collective, Engine, KernelPrecision, Library, Routing};
pub use packed::PackedError;
pub use sibling::Lent;
pub use table::KernelTable;
