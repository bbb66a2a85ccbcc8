//! From arguments to a question and its answer: workload, live prices, measurements, plans.

pub mod answer;
pub mod asking;
pub mod booking;
pub mod cases;
pub mod fitting;
pub mod gpus;
pub mod hub_cache;
pub mod live;
pub mod machines;
pub mod measurements;
pub mod plan_file;
pub mod workload;
