//! What exists: GPUs, links, machines, instance types, and the embedded catalog of them. Physics, never price.

pub mod catalog;
pub mod cloud;
mod disk_link;
mod error;
pub mod gpu;
pub mod host;
pub mod instance;
pub mod link;
pub mod node;
pub mod selector;
pub mod sheet;
pub mod slice;

pub use catalog::{Hardware, rules};
pub use cloud::CloudId;
pub use disk_link::DiskLink;
pub use error::HardwareError;
pub use gpu::{Architecture, Gpu, GpuId, NumberFormat};
pub use gpuplan_units::names;
pub use host::{Host, HostId, HostType};
pub use instance::{InstanceId, InstanceType, SoldAs};
pub use link::Link;
pub use node::{Fabric, GpuLink, MeasuredLinks, NodeShape};
pub use selector::GpuSelector;
pub use sheet::MachineSheet;
