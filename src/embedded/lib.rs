//! Reviewed catalog text inside the program: how it is packed, and the archives themselves, one a stage that reads it.

mod archive;
mod grid;
mod kernels;

pub use archive::{ARCHIVES, Archive, Contents, EmbeddedError, MAY_BE_ABSENT, Table, text};
pub use grid::KernelText;
pub use kernels::{KERNELS, kernel_text};

/// GPUs, links, instance types and hosts: `catalogs/`.
pub static HARDWARE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hardware.bin"));
/// Sizes of known models: `catalogs/models.toml`.
pub static MODELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/models.bin"));
/// What training stacks do by themselves: `catalogs/stacks.toml`.
pub static STACKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stacks.bin"));
/// The dated snapshot of prices, interruption rates and side charges: `catalogs/`.
pub static MARKET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/market.bin"));
/// Published runs that the estimate is fitted to: `benchmarks/published/`.
pub static PUBLISHED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/published.bin"));
