//! The catalog and its findings as table, JSON and CSV.

pub mod changes;
mod check;
mod gpus;
pub mod history;
pub mod hosts;
mod instances;
mod models;
pub mod prices;
pub mod refresh;
mod rows;
pub mod snapshot;

pub use check::{CatalogCounts, CheckReport};
pub use gpus::{GPU_COLUMNS, GpuList, LocalGpuLine, LocalGpuList, gpus};
pub use instances::{INSTANCE_COLUMNS, InstanceLine, InstanceList, instances};
pub use models::{MODEL_COLUMNS, ModelLine, ModelList, models};
pub(crate) use rows::short_machine_name;
pub use rows::{Listed, csv, json};
