//! `Amount` of work, the `DataSet` it reads and the `Checkpoint` it writes.

use crate::data::LoaderSettings;
use gpuplan_units::{Bytes, Seconds};

/// How much is to be trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    Tokens(f64),
    /// Sequences or images.
    Samples(f64),
    /// Optimizer steps.
    Steps(f64),
}

impl Amount {
    /// Optimizer steps for a batch of `global_batch` sequences of `sequence_length` tokens, rounded up.
    pub fn steps(self, global_batch: f64, sequence_length: f64) -> f64 {
        match self {
            Self::Tokens(tokens) => (tokens / (global_batch * sequence_length)).ceil(),
            Self::Samples(samples) => (samples / global_batch).ceil(),
            Self::Steps(steps) => steps.ceil(),
        }
    }
}

/// Training data: how big, where, and what a sample costs the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataSet {
    pub size: Bytes,
    /// Where a launch fetches it from, onto a disk of each machine; `None`: the program sees to its data itself.
    pub location: Option<String>,
    /// `cloud/region` (or `cloud`) where the data lies; `None`: beside the machine.
    pub place: Option<String>,
    /// Host CPU time to load, decode and augment one sample.
    pub cpu_per_sample: Option<Seconds>,
    /// Sequences or images in `size`.
    pub samples: Option<f64>,
    pub reading: LoaderSettings,
}

/// What is saved and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// `None`: counted from model and optimizer.
    pub size: Option<Bytes>,
    /// `None`: chosen.
    pub interval: Option<Seconds>,
}
