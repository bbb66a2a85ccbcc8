//! `Resolved`: a complete workload, and the defaults that were taken for it.

use std::fmt;

use crate::Workload;

/// A workload that is complete, and what nobody stated in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    pub workload: Workload,
    /// `key=value (why)`.
    pub assumed: Vec<String>,
}

/// Defaults as they are taken.
#[derive(Default)]
pub(super) struct Assumed(Vec<String>);

impl Assumed {
    pub fn note(&mut self, key: &str, value: impl fmt::Display, why: impl fmt::Display) {
        self.0.push(format!("{key}={value} ({why})"));
    }

    pub fn list(self) -> Vec<String> {
        self.0
    }
}
