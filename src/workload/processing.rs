//! `Processing`: work on samples that needs processors and no GPU, such as decoding, filtering or splitting into tokens.

use crate::data::LoaderSettings;
use gpuplan_units::{Bytes, Seconds};

/// Each sample is worked on by itself, so any number of machines can share them.
#[derive(Clone, Debug, PartialEq)]
pub struct Processing {
    pub name: String,
    pub samples: f64,
    /// Of one core; `None`: what is published for `reading.kind`.
    pub cpu_per_sample: Option<Seconds>,
    /// Side of the pictures that are made of compressed ones.
    pub pixels: f64,
    /// All samples together; zero: they are made, not read.
    pub reads: Bytes,
    /// All results together.
    pub writes: Bytes,
    pub reading: LoaderSettings,
    /// `cloud/region` of the samples.
    pub place: Option<String>,
    /// Work of a machine that is stored together, and lost together where the machine is taken back.
    pub shard: Seconds,
}

impl Processing {
    /// What is read for one sample; `None` where nothing is, or nobody says.
    pub fn bytes_of_a_sample(&self) -> Option<f64> {
        (self.reads.0 > 0.0).then(|| self.reads.0 / self.samples)
    }
}
