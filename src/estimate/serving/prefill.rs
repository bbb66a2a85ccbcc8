//! `PrefillEstimate`: copies that read prompts for the replicas that answer.

/// What the pool of readers does under a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefillEstimate {
    pub workers: u32,
    /// GPUs of one.
    pub gpus_each: u32,
    /// Share of time that they read.
    pub load: f64,
    /// From the end of a prompt until its cache is in the other pool.
    pub handover_seconds: f64,
}
