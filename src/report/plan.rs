//! A plan in full: text, JSON, CSV, one candidate explained, phases, and the job that it replaces.

pub mod brief;
pub mod explain;
pub mod input;
pub mod job;
pub mod phases;
pub mod plan_csv;
pub mod plan_text;
pub mod processing;
pub(crate) mod serving_text;
pub mod spot_text;
