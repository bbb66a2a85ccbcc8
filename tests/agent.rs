//! The agent with real processes: nothing that was committed is lost, nothing incomplete is ever restored.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what the product may not do is how a test fails"
)]

#[path = "agent/azure.rs"]
mod azure;
#[path = "agent/bench.rs"]
mod bench;
#[path = "agent/bucket.rs"]
mod bucket;
#[path = "agent/faults.rs"]
mod faults;
#[path = "agent/frameworks.rs"]
mod frameworks;
#[path = "agent/lives.rs"]
mod lives;
#[path = "agent/notices.rs"]
mod notices;
#[path = "agent/owners.rs"]
mod owners;
#[path = "agent/s3.rs"]
mod s3;
#[path = "agent/samples.rs"]
mod samples;
#[path = "agent/speed.rs"]
mod speed;
#[path = "agent/staging.rs"]
mod staging;
#[path = "agent/stores.rs"]
mod stores;
#[path = "agent/team.rs"]
mod team;
#[path = "agent/watch.rs"]
mod watch;
