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
pub mod feeding;
pub mod gemm;
pub mod input;
pub mod input_constants;
pub mod layer;
pub mod machine;
pub mod measured;
pub mod memory;
pub mod memory_constants;
#[cfg(test)]
mod memory_properties;
mod memory_states;
pub mod own_runs;
pub mod parameters;
pub mod scaling;
pub mod setting;
pub mod step;
pub mod storage;
pub mod subject;
pub mod vision;

pub use band::{Doubts, Regime};
pub use correction::{Correction, MeasuredGpu, WorkClass};
pub use curve::Curve;
pub use device::DeviceRates;
pub use feeding::{Demand, Feeder, Feeding, InputLimit};
pub use input::MeasuredHost;
pub use layer::Products;
pub use machine::Machine;
pub use memory::MemoryBreakdown;
pub use own_runs::{Experience, OwnRun, OwnRuns};
pub use setting::Setting;
pub use step::{Bound, TimeBreakdown};
pub use subject::{Misfit, StepEstimate, Subject};
