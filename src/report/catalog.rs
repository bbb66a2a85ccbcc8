//! The catalog and its findings as table, JSON and CSV.

mod check;
mod gpus;
mod instances;
mod models;
mod rows;

pub use check::{CatalogCounts, CheckReport};
pub use gpus::{GPU_COLUMNS, GpuList, LocalGpuLine, LocalGpuList, gpus};
pub use instances::{INSTANCE_COLUMNS, InstanceLine, InstanceList, instances};
pub use models::{MODEL_COLUMNS, ModelLine, ModelList, models};
pub(crate) use rows::short_machine_name;
pub use rows::{Listed, csv, json};
