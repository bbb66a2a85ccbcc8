//! `Machine`: one kind of machine as the estimate needs it, from a catalog shape or from what a case states.

use crate::constants::Constants;
use gpuplan_hardware::{Architecture, Gpu, GpuLink, NodeShape};
use gpuplan_units::{Bytes, BytesPerSecond};

/// A GPU with the links around it.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    pub gpu: &'a Gpu,
    /// Memory of a device as software sees it.
    pub memory: Bytes,
    pub gpus_per_node: u32,
    /// Part of a card that a device is: 1 unless it is a slice.
    pub card_share: f64,
    pub link: GpuLink,
    /// Of a whole machine, one direction.
    pub node_network: BytesPerSecond,
    /// The network was not stated and is that of the GPU's usual machine.
    pub network_assumed: bool,
    /// No network that GPUs can use is known: planning several machines needs the user's word.
    pub has_fabric: bool,
}

impl<'a> Machine<'a> {
    pub fn new(gpu: &'a Gpu, node: &NodeShape) -> Self {
        Self {
            gpu,
            memory: node.gpu_memory,
            gpus_per_node: node.devices(),
            card_share: node.card_share(),
            link: node.link,
            node_network: node.fabric.map_or_else(|| usual_network(gpu), |fabric| fabric.bandwidth),
            network_assumed: node.fabric.is_none(),
            has_fabric: node.fabric.is_some(),
        }
    }

    /// Bus bandwidth of collectives among GPUs that share the fast link (or PCIe).
    pub fn link_bus(&self, constants: &Constants) -> f64 {
        match self.link {
            GpuLink::Single => f64::INFINITY,
            GpuLink::Fast { bandwidth, .. } => bandwidth.0 * constants.nvlink_share,
            GpuLink::Pcie { bandwidth } => {
                let peer = if self.gpu.name.starts_with("GeForce") { constants.no_peer_share } else { 1.0 };
                bandwidth.0 * constants.pcie_share * peer
            }
        }
    }

    pub fn network_bus(&self, constants: &Constants) -> f64 {
        self.node_network.0 * constants.network_share
    }

    /// GPUs that reach each other by the link: those of a machine, or of a rack-sized domain.
    pub fn link_domain(&self, gpus: u32) -> u32 {
        match self.link {
            GpuLink::Fast { domain, .. } => domain.max(self.gpus_per_node).min(gpus.max(1)),
            _ => self.gpus_per_node.min(gpus.max(1)),
        }
    }
}

/// Network of a machine where nothing is stated: 8 x 400 Gb/s around Hopper and Blackwell, 8 x 100 around GA100
/// (the usual cluster designs of these parts), 100 Gb/s elsewhere.
pub fn usual_network(gpu: &Gpu) -> BytesPerSecond {
    let gbit = match (gpu.architecture, gpu.form_factor.as_str()) {
        (Architecture::Hopper | Architecture::Blackwell, "sxm" | "nvl72" | "superchip")
        | (Architecture::Cdna3 | Architecture::Cdna4, _) => 3200.0,
        (Architecture::Hopper | Architecture::Blackwell, _) => 3200.0,
        (Architecture::Ampere, _) => 800.0,
        _ => 100.0,
    };
    BytesPerSecond::from_gbit(gbit)
}
