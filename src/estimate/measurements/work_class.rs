//! `WorkClass`: work that the same thing speeds up or slows down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::Bytes;

/// Work that the same thing speeds up or slows down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkClass {
    /// Matrix products and attention: arithmetic units, clock and power.
    Compute,
    /// Element-wise kernels, loss, optimizer: memory of the GPU.
    Memory,
    /// Kernel launches and all else that the host does between kernels.
    Launch,
    /// Traffic over the link between the GPUs of a machine; the network of machines is no part of it.
    Copy,
}

impl WorkClass {
    pub const ALL: [Self; 4] = [Self::Compute, Self::Memory, Self::Launch, Self::Copy];

    pub fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Launch => "launch",
            Self::Copy => "copy",
        }
    }

    /// A size of this class for people.
    pub fn size(self, size: f64) -> String {
        match self {
            Self::Compute if size >= 1e12 => format!("{:.1} TFLOP", size / 1e12),
            Self::Compute if size >= 1e9 => format!("{:.0} GFLOP", size / 1e9),
            Self::Compute => format!("{:.0} MFLOP", size / 1e6),
            Self::Memory | Self::Launch | Self::Copy => Bytes(size).to_string(),
        }
    }
}
