//! Training: layouts, the fastest setting, runs of a sweep, how long a run takes, and what a profile of one changes.

pub mod advice;
pub mod layouts;
pub mod packing;
pub mod profile;
pub mod run;
pub mod search;
pub mod what_if;
pub mod whole_run;
