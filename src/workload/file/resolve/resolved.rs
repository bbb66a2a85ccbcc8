//! `Resolved`: a complete workload, and the defaults that were taken for it.

use crate::{Assumption, Workload};

/// A workload that is complete, and what nobody stated in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    pub workload: Workload,
    pub assumed: Vec<Assumption>,
}
