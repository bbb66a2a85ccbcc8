//! The program as people and scripts meet it: examples, limits, bad input, exit codes. One binary, since each links everything.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what the product may not do is how a test fails"
)]

mod answers;
#[cfg(feature = "aws")]
#[path = "../testbed/answers.rs"]
#[allow(dead_code, reason = "the contract tests use more of it")]
mod answers_of_aws;
mod bench;
mod budget;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod card;
#[path = "../engines/clients.rs"]
#[allow(dead_code, reason = "the contract tests use more of it")]
mod clients;
#[cfg(feature = "aws")]
#[path = "../testbed/cloud_box.rs"]
#[allow(dead_code, reason = "the contract tests use more of it")]
mod cloud_box;
mod costs;
mod diff;
mod examples;
mod export;
#[cfg(feature = "gcp")]
#[path = "../testbed/fake_gce.rs"]
#[allow(dead_code, reason = "the contract tests use more of it")]
mod fake_gce;
#[cfg(feature = "gcp")]
#[path = "../testbed/fake_gcs.rs"]
mod fake_gcs;
#[cfg(feature = "aws")]
#[path = "../testbed/fleets.rs"]
#[allow(dead_code, reason = "the contract tests use more of it")]
mod fleets;
mod from;
#[cfg(feature = "gcp")]
#[path = "../testbed/gce_machines.rs"]
#[allow(dead_code, reason = "the contract tests use more of it")]
mod gce_machines;
#[cfg(feature = "gcp")]
#[path = "../testbed/gcp_project.rs"]
mod gcp_project;
mod house;
mod input;
mod launch;
#[cfg(feature = "aws")]
mod launch_aws;
mod launch_figures;
#[cfg(feature = "gcp")]
mod launch_google;
mod launch_sweep;
#[cfg(feature = "aws")]
mod live;
#[cfg(feature = "gcp")]
mod live_google;
#[cfg(feature = "aws")]
#[path = "../testbed/machines.rs"]
#[allow(dead_code, reason = "the contract tests use more of it")]
mod machines;
mod money_figures;
#[cfg(feature = "aws")]
#[path = "../testbed/moto.rs"]
mod moto;
mod on;
#[cfg(target_os = "linux")]
mod phases;
mod profile;
#[cfg(feature = "aws")]
#[path = "../testbed/proxy.rs"]
#[allow(dead_code, reason = "the contract tests use more of it")]
mod proxy;
mod refusals;
mod report;
#[cfg(any(feature = "aws", feature = "gcp"))]
#[path = "../contracts/server.rs"]
#[allow(dead_code, reason = "the contract tests use more of it")]
mod server;
mod serving;
mod simulate;
mod spot;
mod staging;
mod support;
