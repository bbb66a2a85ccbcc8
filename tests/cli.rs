//! The program as people and scripts meet it: examples, limits, bad input, exit codes. One binary, since each links everything.

mod answers;
mod bad_inputs;
mod bench;
mod bills;
mod bills_refused;
mod budget;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod card;
mod costs;
mod currency;
mod diff;
mod examples;
mod export;
mod export_service;
#[cfg(feature = "gcp")]
mod feed;
mod from;
mod house;
mod input;
mod launch;
#[cfg(feature = "aws")]
mod launch_aws;
mod launch_back;
mod launch_figures;
#[cfg(feature = "gcp")]
mod launch_google;
mod launch_leader;
#[cfg(feature = "aws")]
mod launch_life_aws;
mod launch_prices;
mod launch_sweep;
mod launch_trust;
mod launch_warm;
#[cfg(feature = "aws")]
mod live;
#[cfg(feature = "gcp")]
mod live_google;
mod measured;
mod money_figures;
mod on;
#[cfg(target_os = "linux")]
mod phases;
mod profile;
mod properties;
mod quotas;
mod refusals;
pub mod report;
mod serving;
#[cfg(feature = "aws")]
mod sign_in;
mod simulate;
mod spot;
mod staging;
mod support;
mod usual_questions;
