//! `TimeBreakdown`: where the seconds of a step go, and what it waits for most.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a step waits for most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    Compute,
    MemoryBandwidth,
    Launch,
    GpuLink,
    Network,
    Pipeline,
    Input,
}

/// Seconds of an optimizer step by where they go; the parts add up to `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeBreakdown {
    pub matmul: f64,
    pub attention: f64,
    pub elementwise: f64,
    pub head: f64,
    /// Waiting for the host to launch kernels.
    pub launch: f64,
    pub tensor_parallel: f64,
    pub expert_parallel: f64,
    pub context_parallel: f64,
    pub dequantise: f64,
    pub bubble: f64,
    /// Data-parallel traffic that nothing hides.
    pub data_parallel: f64,
    /// Machines waiting for the slowest one.
    pub jitter: f64,
    pub optimizer: f64,
    /// Waiting for samples that the host has not loaded yet.
    pub input: f64,
    pub total: f64,
    /// Host launch time over GPU time of a layer, which decides the regime of the band.
    pub launch_ratio: f64,
    /// Exposed traffic over compute, likewise.
    pub exposed_ratio: f64,
}

impl TimeBreakdown {
    /// Every part times `share`.
    pub fn scaled(&self, share: f64) -> Self {
        Self {
            matmul: self.matmul * share,
            attention: self.attention * share,
            elementwise: self.elementwise * share,
            head: self.head * share,
            launch: self.launch * share,
            tensor_parallel: self.tensor_parallel * share,
            expert_parallel: self.expert_parallel * share,
            context_parallel: self.context_parallel * share,
            dequantise: self.dequantise * share,
            bubble: self.bubble * share,
            data_parallel: self.data_parallel * share,
            jitter: self.jitter * share,
            optimizer: self.optimizer * share,
            input: self.input * share,
            total: self.total * share,
            ..*self
        }
    }

    /// Part by part, `share` of the way from this to `other`.
    #[must_use]
    pub fn towards(&self, other: &Self, share: f64) -> Self {
        self.scaled(1.0 - share).followed_by(&other.scaled(share), 0.0)
    }

    /// This, then `next`, of which `shared` seconds of waiting for the host are counted in both.
    #[must_use]
    pub fn followed_by(&self, next: &Self, shared: f64) -> Self {
        let weighted = |one: f64, other: f64| (one * self.total + other * next.total) / (self.total + next.total);
        Self {
            matmul: self.matmul + next.matmul,
            attention: self.attention + next.attention,
            elementwise: self.elementwise + next.elementwise,
            head: self.head + next.head,
            launch: self.launch + next.launch - shared,
            tensor_parallel: self.tensor_parallel + next.tensor_parallel,
            expert_parallel: self.expert_parallel + next.expert_parallel,
            context_parallel: self.context_parallel + next.context_parallel,
            dequantise: self.dequantise + next.dequantise,
            bubble: self.bubble + next.bubble,
            data_parallel: self.data_parallel + next.data_parallel,
            jitter: self.jitter + next.jitter,
            optimizer: self.optimizer + next.optimizer,
            input: self.input + next.input,
            total: self.total + next.total - shared,
            launch_ratio: weighted(self.launch_ratio, next.launch_ratio),
            exposed_ratio: weighted(self.exposed_ratio, next.exposed_ratio),
        }
    }

    /// The largest kind of work that is not plain arithmetic, if it outweighs arithmetic; else compute.
    pub fn bound(&self) -> Bound {
        let arithmetic = self.matmul + self.attention + self.head;
        let kinds = [
            (arithmetic, Bound::Compute),
            (self.elementwise + self.optimizer + self.dequantise, Bound::MemoryBandwidth),
            (self.launch, Bound::Launch),
            (self.tensor_parallel, Bound::GpuLink),
            (self.data_parallel + self.jitter + self.expert_parallel + self.context_parallel, Bound::Network),
            (self.bubble, Bound::Pipeline),
        ];
        kinds.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(Bound::Compute, |(_, bound)| bound)
    }
}
