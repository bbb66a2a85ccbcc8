//! Commands that start, watch and end runs, and prepare accounts for them.

pub mod access;
pub mod agent;
pub mod copying;
pub mod doctor;
pub mod download;
pub mod engine_jobs;
pub mod idle;
pub mod launch;
pub mod logs;
pub mod notice;
pub mod overdue;
pub mod setup;
pub mod status;
pub mod stop;
pub mod terminate;
pub mod verify;
