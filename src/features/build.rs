//! Does nothing: cargo unites the features of build dependencies only where there is a build script.

fn main() {}
