//! `Link`: how GPUs reach each other inside a machine, and how machines reach each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::BytesPerSecond;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    Gpu,
    Pcie,
    Network,
}

/// How the ends of a link are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// Every GPU reaches every other at full rate.
    Switch,
    /// Every GPU reaches some others directly.
    Mesh,
    /// Two (or four) cards share a bridge; beyond it traffic takes PCIe.
    Pairs,
    /// Through the host's PCIe root.
    Host,
    /// A network.
    Fabric,
}

/// One row of `catalogs/links.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub id: String,
    pub kind: LinkKind,
    /// Per GPU, one direction. Networks have theirs per instance type.
    #[serde(default)]
    pub gb_per_s_one_way: Option<f64>,
    #[serde(default)]
    pub topology: Option<Topology>,
    /// Most GPUs within one hop.
    #[serde(default)]
    pub reaches: Option<u32>,
    #[serde(default)]
    pub latency_microseconds: Option<f64>,
    #[serde(default)]
    pub rdma: Option<bool>,
    /// One network card, where the cards of a machine carry all of its traffic and it is rented with one interface. Gb/s.
    #[serde(default)]
    pub front_card_gbit_per_s: Option<f64>,
    /// Its cards carry traffic between GPUs and nothing else, although the machine's figure counts them.
    #[serde(default)]
    pub gpus_only: bool,
    #[serde(default)]
    pub notes: String,
    pub source: String,
    pub as_of: String,
}

impl Link {
    pub fn bandwidth(&self) -> Option<BytesPerSecond> {
        self.gb_per_s_one_way.map(BytesPerSecond::from_gb)
    }

    /// What is left of a machine's network figure for stores, disks and the internet, where so much of it joins GPUs. Gb/s.
    pub fn front_gbit_per_s(&self, machine: f64, fabric: f64) -> f64 {
        let left = if self.gpus_only && machine > fabric { machine - fabric } else { machine };
        left.min(self.front_card_gbit_per_s.unwrap_or(f64::INFINITY))
    }
}
