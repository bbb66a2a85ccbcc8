//! The agent with real processes: nothing that was committed is lost, nothing incomplete is ever restored.

mod azure;
mod bench;
mod bucket;
mod faults;
mod frameworks;
mod lives;
mod mail;
mod notices;
mod owners;
mod s3;
mod samples;
mod shapes;
mod speed;
mod staging;
mod stores;
mod team;
mod watch;
