//! The program as people and scripts meet it: examples, limits, bad input, exit codes. One binary, since each links everything.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what the product may not do is how a test fails")]

mod answers;
mod examples;
mod refusals;
mod simulate;
mod spot;
mod support;
