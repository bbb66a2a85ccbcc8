//! gpuplan: which cloud GPUs to rent for a run, what it costs, when it ends.
//!
//! Every stage is a crate of its own in its folder of `src/`, re-exported here under its short name. The picture of how
//! data flows between them stands in `docs/design.md`, and `tests/architecture.rs` proves what the compiler cannot.

pub use gpuplan_accuracy as accuracy;
pub use gpuplan_agent as agent;
pub use gpuplan_budget as budget;
pub use gpuplan_calibration as calibration;
pub use gpuplan_cli as cli;
pub use gpuplan_clouds as clouds;
pub use gpuplan_embedded as embedded;
pub use gpuplan_estimate as estimate;
pub use gpuplan_export as export;
pub use gpuplan_hardware as hardware;
pub use gpuplan_import as import;
pub use gpuplan_launch as launch;
pub use gpuplan_market as market;
pub use gpuplan_plan as plan;
pub use gpuplan_report as report;
pub use gpuplan_runstore as runstore;
pub use gpuplan_spot as spot;
pub use gpuplan_telemetry as telemetry;
pub use gpuplan_units as units;
pub use gpuplan_workload as workload;
