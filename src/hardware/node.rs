//! `NodeShape`: the hardware of one machine as the estimate sees it. Many instance types share one shape.

use crate::gpu::GpuId;
use gpuplan_units::{Bytes, BytesPerSecond, GpuCount};

/// GPU-to-GPU link inside a machine. Bandwidths are per GPU, one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GpuLink {
    /// One GPU: there is nothing to link.
    Single,
    /// NVLink or Infinity Fabric. `domain` is how many GPUs reach each other so, across machines where a rack is one domain.
    Fast { bandwidth: BytesPerSecond, domain: u32 },
    /// Through the host; bridged pairs also count here once more than two cards take part.
    Pcie { bandwidth: BytesPerSecond },
}

impl GpuLink {
    pub fn bandwidth(self) -> Option<BytesPerSecond> {
        match self {
            Self::Single => None,
            Self::Fast { bandwidth, .. } | Self::Pcie { bandwidth } => Some(bandwidth),
        }
    }

    pub fn is_fast(self) -> bool {
        matches!(self, Self::Fast { .. })
    }
}

/// Network between machines that GPUs can use; bandwidth per machine, one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fabric {
    pub bandwidth: BytesPerSecond,
    /// False too where the catalog does not say.
    pub rdma: bool,
}

/// Copies between memories as measured on this very machine type (`nvbandwidth`, copy engines, locked memory); one direction.
/// `None`: nobody measured them, and what the sheets say of the link is all that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredLinks {
    /// To one GPU while the others are idle.
    pub host_to_gpu: Option<BytesPerSecond>,
    /// To each GPU while all of the machine are copied to, which share what joins them to the host.
    pub host_to_each_gpu: Option<BytesPerSecond>,
    /// From one GPU to another.
    pub gpu_to_gpu: Option<BytesPerSecond>,
}

/// Hardware of one machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeShape {
    pub gpu: GpuId,
    pub gpus: GpuCount,
    /// Memory of one device as software sees it (a slice's own share).
    pub gpu_memory: Bytes,
    /// As its sheet has it.
    pub link: GpuLink,
    pub measured: MeasuredLinks,
    /// Missing where the catalog knows no network that GPUs can use.
    pub fabric: Option<Fabric>,
}

impl NodeShape {
    /// Devices that a training process sees.
    pub fn devices(&self) -> u32 {
        self.gpus.devices()
    }

    /// Share of a card's rates that a device of this machine has: 1 unless it is a slice.
    pub fn card_share(&self) -> f64 {
        if self.gpus.is_slice() { self.gpus.as_f64() } else { 1.0 }
    }

    /// Equal shapes have equal physics, so they are estimated once.
    pub fn key(&self) -> (GpuId, GpuCount, u64, u64, bool, [u64; 3], u64) {
        let rate = |rate: Option<BytesPerSecond>| rate.map_or(0, |rate| rate.0.to_bits());
        let MeasuredLinks { host_to_gpu, host_to_each_gpu, gpu_to_gpu } = self.measured;
        let fabric = self.fabric.map_or(0, |fabric| fabric.bandwidth.0.to_bits() | u64::from(fabric.rdma));
        (
            self.gpu,
            self.gpus,
            self.gpu_memory.0.to_bits(),
            rate(self.link.bandwidth()),
            self.link.is_fast(),
            [rate(host_to_gpu), rate(host_to_each_gpu), rate(gpu_to_gpu)],
            fabric,
        )
    }
}
