//! `Pulse`: what the tasks beside the program know of each other.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::worth::Worth;
use gpuplan_runstore::status::{Finding, Staged};
use gpuplan_runstore::{ManifestName, Phase, Spent};
use gpuplan_telemetry::Sample;
use gpuplan_units::Usd;

/// What the tasks know of each other.
#[derive(Clone, Debug, Default)]
pub struct Pulse {
    pub phase: Option<Phase>,
    pub committed: Option<ManifestName>,
    pub progress: Option<u64>,
    pub starts: u32,
    /// When the program was first started.
    pub started_at: Option<Instant>,
    /// The newest checkpoint that this epoch made safe, and when it was seen to be complete.
    pub saved: Option<(ManifestName, Instant)>,
    /// Of the job's data.
    pub staged: Option<Staged>,
    pub backlog_bytes: u64,
    /// Bytes of the newest complete checkpoint: what the last one will have, too.
    pub checkpoint_bytes: u64,
    pub upload_bytes_per_second: Option<f64>,
    /// By all other machines and epochs, as last read; `None` before the store has answered.
    pub spent_besides: Option<Spent>,
    /// Of the whole run, as last worked out from the bills that could be read; `None` without a price.
    pub spent_at_least: Option<Usd>,
    /// The cloud takes this machine away.
    pub is_taken: bool,
    /// All machines take part, so who is silent is missed.
    pub is_assembled: bool,
    /// Once it has ended: whether nothing is left to do.
    pub is_done: Option<bool>,
    /// Bytes that the program wrote to stdout and stderr, and whether some are missing from the log.
    pub output_bytes: u64,
    pub output_lost: bool,
    /// Where the user asked what improvement costs.
    pub worth: Option<Worth>,
    /// GPUs and host at the last look, what costs time by the looks so far, and room on the disk.
    pub sample: Option<Sample>,
    pub findings: Vec<Finding>,
    pub disk_free_bytes: Option<u64>,
    pub warnings: Vec<String>,
}

impl Pulse {
    /// A line of the program's output.
    pub fn read(&mut self, line: &str) {
        if let Some((worth, spent)) = self.worth.as_mut().zip(self.spent_at_least) {
            worth.read(line, spent);
        }
    }
}

pub type Shared = Arc<Mutex<Pulse>>;

/// Reads or changes the pulse. A task that died while it held it left whole values.
pub fn with<T>(shared: &Shared, work: impl FnOnce(&mut Pulse) -> T) -> T {
    work(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}
