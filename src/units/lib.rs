//! Quantities as types, and reading them from text. Imports nothing; everything imports it.

pub mod band;
pub mod billing;
pub mod count;
pub mod data;
pub mod draw;
pub mod money;
pub mod names;
pub mod nearest;
pub mod quantity;
pub mod separators;
pub mod time;

pub use band::{Band, Quantiles};
pub use billing::{MINIMUM_BILLED_SECONDS, billed_seconds};
pub use count::GpuCount;
pub use data::{Bytes, BytesPerSecond};
pub use money::{FineUsd, Usd, UsdPerHour};
pub use time::{Hours, Seconds};
