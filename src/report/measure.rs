//! What was measured and how good the estimate is: calibrations, profiles, errors, replays of spot policies.

pub mod accuracy;
pub mod accuracy_cases;
pub mod accuracy_json;
pub mod bench_text;
pub mod estimate;
pub mod nearest;
pub mod profile_text;
pub mod simulate;
