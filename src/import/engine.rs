//! The engines that a job may be written for.

pub mod batch;
pub mod compose;
pub mod condor;
pub mod dstack;
pub mod kubernetes;
pub mod labels;
pub mod notebook;
pub mod python;
pub mod rented;
pub mod service;
pub mod skypilot;
pub mod slurm;
