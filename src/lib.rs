//! gpuplan: which cloud GPUs to rent for a run, what it costs, when it ends.
//!
//! ```text
//!   what to run          what exists          what it costs
//!   +----------+        +----------+         +----------+
//!   | workload |        | hardware |-------->|  market  |
//!   +----+-----+        +----+-----+         +----+-----+
//!        |                   |                    |
//!        |                   |               +----v-----+
//!        +--------+  +-------+               |   spot   |
//!                 v  v                       +----+-----+
//!            +-------------+                      |
//!            | calibration |                      |
//!            +------+------+                      |
//!                   v                             |
//!            +-------------+                      |
//!            |  estimate   |---------.            |
//!            +------+------+         v            v
//!                   v           +----------------------+
//!            +-------------+    |         plan         |
//!            |  accuracy   |    +----------+-----------+
//!            +------+------+               v
//!                   |           +----------------------+
//!                   '---------->|        report        |
//!                               +----------------------+
//!   units and embedded: under everything.     cli: over everything, the only one that prints or exits.
//!   calibration (between hardware and estimate): what this machine's own GPUs are.
//!   telemetry (under workload): counters and findings of a run, which `plan::what_if` prices.
//!   budget (between plan and report): many runs and money over time, expected and spent; it knows runs from runstore.
//!   import (below hardware) reads a job that exists, of which `plan::from` says the price.
//!   export (below plan) writes a plan as a file for an engine that keeps the run alive instead.
//!   launch (below plan) rents and leads a run; agent keeps it alive on its machine; both know it from runstore.
//!   clouds (at the side, no stage imports it): adapters behind the ports that stages own, such as `market::PriceSource`
//!   and `launch::Launcher`.
//! ```
//! Data flows down the page; a stage imports only stages above it (`tests/architecture.rs` proves it). The middle is
//! pure: no clock, file, network or environment between `units` and `report`. See `docs/design.md`.

pub mod accuracy;
pub mod agent;
pub mod budget;
pub mod calibration;
pub mod cli;
pub mod clouds;
pub mod embedded;
pub mod estimate;
pub mod export;
pub mod hardware;
pub mod import;
pub mod launch;
pub mod market;
pub mod plan;
pub mod report;
pub mod runstore;
pub mod spot;
pub mod telemetry;
pub mod units;
pub mod workload;
