//! Memory, step time and run time of a workload on a machine, in closed form, with a band.

pub mod activations;
pub mod answer;
pub mod band;
pub mod case;
pub mod constants;
pub mod correction;
pub mod curve;
pub mod defaults;
pub mod device;
pub mod gemm;
pub mod input;
pub mod layer;
pub mod load;
pub mod machine;
pub mod measured;
pub mod memory;
pub mod memory_constants;
#[cfg(test)]
mod memory_properties;
mod memory_states;
pub mod parameters;
pub mod round;
pub mod serving;
pub mod setting;
pub mod step;
pub mod subject;
pub mod vision;

pub use band::{Doubts, Regime};
pub use correction::{Correction, MeasuredGpu, WorkClass};
pub use curve::Curve;
pub use device::DeviceRates;
pub use input::{Loader, MeasuredHost};
pub use layer::Products;
pub use load::Flow;
pub use machine::Machine;
pub use memory::MemoryBreakdown;
pub use serving::{Replica, Served};
pub use setting::Setting;
pub use step::{Bound, TimeBreakdown};
pub use subject::{Misfit, StepEstimate, Subject};
