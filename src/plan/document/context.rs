//! What a plan document says beside the plans: the question, the catalogs that it was answered from, and when.

use jiff::Timestamp;

use crate::context::World;
use crate::document::words::Words;
use gpuplan_workload::file::WorkloadFile;
use gpuplan_workload::{Assumption, Workload};

/// A question and what its answer rests on.
#[derive(Clone)]
pub struct Context<'a> {
    pub world: World<'a>,
    /// Complete, with what was assumed.
    pub workload: &'a Workload,
    /// As it was asked, flags included.
    pub file: &'a WorkloadFile,
    /// What nobody said.
    pub assumed: &'a [Assumption],
    /// The moment of the answer.
    pub now: Timestamp,
    /// Of the catalog of machines and models.
    pub catalog_sha256: String,
    /// Of the prices.
    pub offers_sha256: String,
    /// Of the calibrations and profiles that corrected the estimate.
    pub measured_sha256: Option<String>,
    /// Of every draw.
    pub seed: u64,
    /// The language of its sentences.
    pub words: &'a dyn Words,
}
