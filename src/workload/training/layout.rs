//! `Layout`: how a model is spread over GPUs.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What data-parallel ranks split instead of copying (Rajbhandari et al. 2019, arXiv 1910.02054).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shard {
    /// Every rank has everything (DDP).
    #[default]
    None,
    /// Optimizer states.
    Zero1,
    /// And gradients.
    Zero2,
    /// And weights (FSDP full shard).
    Zero3,
    /// Weights inside a group, copies between groups.
    Hsdp,
}

/// Degrees of each kind of parallelism; their product with `data` is the number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    pub data: u32,
    pub tensor: u32,
    pub pipeline: u32,
    pub context: u32,
    pub expert: u32,
    pub virtual_pipeline: u32,
    pub shard: Shard,
    /// Ranks a state is split over where that is not all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_group: Option<u32>,
    pub sequence_parallel: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            data: 1,
            tensor: 1,
            pipeline: 1,
            context: 1,
            expert: 1,
            virtual_pipeline: 1,
            shard: Shard::None,
            shard_group: None,
            sequence_parallel: false,
        }
    }
}

impl Layout {
    #[inline]
    pub fn gpus(&self) -> u64 {
        let degrees = [self.data, self.tensor, self.pipeline, self.context];
        degrees.into_iter().map(u64::from).fold(1, u64::saturating_mul)
    }

    /// GPUs that hold one copy of the model's layers.
    #[inline]
    pub fn model_parallel(&self) -> u32 {
        self.tensor.saturating_mul(self.pipeline)
    }

    /// Ranks that hold the same weights: those of context parallelism work on one sequence, with one copy each, and stacks
    /// shard and reduce over both (Megatron-Core's group "dp-cp", torchtitan's mesh "dp_shard_cp").
    #[inline]
    pub fn copies(&self) -> u32 {
        self.data.saturating_mul(self.context).max(1)
    }

    /// Ranks over which sharded states are split.
    #[inline]
    pub fn sharded_over(&self) -> u32 {
        self.shard_group.unwrap_or(self.copies()).clamp(1, self.copies())
    }
}

impl fmt::Display for Layout {
    /// `FSDP x8`, `DDP x4`, `TP8 PP4 DP16 ZeRO-1`: the words of the field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        for (name, degree) in [("TP", self.tensor), ("PP", self.pipeline), ("CP", self.context), ("EP", self.expert)] {
            if degree > 1 {
                words.push(format!("{name}{degree}"));
            }
        }
        match (self.shard, self.data) {
            (_, 1) if words.is_empty() => words.push("1 GPU".to_owned()),
            (Shard::Zero1, 1) if self.context > 1 => words.push("ZeRO-1 over CP".to_owned()),
            (Shard::Zero3, 1) if self.context > 1 => words.push("FSDP over CP".to_owned()),
            (_, 1) => {}
            (Shard::None, data) => {
                words.push(if words.is_empty() { format!("DDP x{data}") } else { format!("DP{data}") });
            }
            (Shard::Zero3, data) => words.push(format!("FSDP x{data}")),
            (Shard::Hsdp, data) => words.push(format!("HSDP {}x{}", self.sharded_over(), data / self.sharded_over())),
            (Shard::Zero1, data) if self.sharded_over() < data => {
                words.push(format!("DP{data} ZeRO-1 in {}s", self.sharded_over()));
            }
            (Shard::Zero1, data) => words.push(format!("DP{data} ZeRO-1")),
            (Shard::Zero2, data) => words.push(format!("DP{data} ZeRO-2")),
        }
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_reads_as_people_say_it() {
        assert_eq!(Layout::default().to_string(), "1 GPU");
        assert_eq!(Layout { data: 8, shard: Shard::Zero3, ..Layout::default() }.to_string(), "FSDP x8");
        let megatron = Layout { data: 16, tensor: 8, pipeline: 4, shard: Shard::Zero1, ..Layout::default() };
        assert_eq!(megatron.to_string(), "TP8 PP4 DP16 ZeRO-1");
        assert_eq!(Layout { shard_group: Some(8), ..megatron }.to_string(), "TP8 PP4 DP16 ZeRO-1 in 8s");
        assert_eq!(megatron.gpus(), 512);
        let long = Layout { context: 8, shard: Shard::Zero3, ..Layout::default() };
        assert_eq!(long.to_string(), "CP8 FSDP over CP");
        assert_eq!(Layout { shard: Shard::None, ..long }.to_string(), "CP8");
    }
}
