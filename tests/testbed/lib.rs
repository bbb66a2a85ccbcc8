//! Clouds, stores and engines played on this machine: what the tests of the whole program meet instead of the real ones.
//! Nothing here leaves the loopback address.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "what the product may not do is how a test fails"
)]

pub mod answers;
pub mod clients;
pub mod cloud_box;
pub mod conditions;
pub mod executable;
pub mod fake_gce;
pub mod fake_gcs;
pub mod fleets;
pub mod gce_groups;
pub mod gce_machines;
pub mod gcp_project;
pub mod iam;
pub mod machines;
pub mod moto;
pub mod proxy;
pub mod python;
pub mod server;
pub mod smtp;
