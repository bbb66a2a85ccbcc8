//! Constants of the collectives: microseconds and shares of data-sheet bandwidth.
//!
//! The structure, and every figure whose comment says "NCCL", is that of NCCL's own tuning model, which predicts a latency
//! and a bandwidth for each algorithm and protocol and takes the fastest (NVIDIA/nccl, src/graph/tuning.cc, as of 2.20). The
//! others were chosen on benchmarks/collectives, and its README says on which of its rows.

use crate::collectives::topology::{LinkKind, Transport};

/// Seconds of a microsecond.
pub const MICROSECOND: f64 = 1e-6;

/// Time of a collective before its first hop, by protocol. LL and Simple: NCCL (6.6 to 6.8 and 8.4). LL128: NCCL says 14;
/// H100, B200 and A100 with NCCL 2.27 to 2.29 measure 9 (one_machine.csv and its source).
pub const BASE_LL: f64 = 6.7;
pub const BASE_LL128: f64 = 9.0;
pub const BASE_SIMPLE: f64 = 8.4;

/// A hop inside a machine takes so many times that of LL. NCCL: 3.2 and 5.7; measured in one machine: 1.3 and 5.
pub const HOP_LL128: f64 = 1.3;
pub const HOP_SIMPLE: f64 = 5.0;

/// Hop over the network, of a ring or up a tree, by protocol. Simple: NCCL. LL and LL128: NCCL says 2.7 and 4 for rings and
/// 5 and 8.5 for trees; from 8 KiB on the trees of H100 and A100 clusters measure 8 and 20, and rings agree.
pub const NET_LL: f64 = 8.0;
pub const NET_LL128: f64 = 20.0;
pub const NET_SIMPLE: f64 = 14.0;

/// Least hop of a ring that also leaves the machine: its processor posts every step (NCCL: 1 us on Intel, 2 us on AMD, three
/// times that for Simple).
pub const POST: f64 = 1.5;
pub const POST_SIMPLE: f64 = 4.5;

/// Steps of Simple that fill the pipeline of a tree at each of its levels.
pub const TREE_FILL: f64 = 3.0;

/// Latency of summing in the NVLink switches, for each GPU of the machine: chunks shrink as GPUs become more.
pub const SWITCH_RANK: f64 = 8.5;

/// Point-to-point messages: to start them, and for each peer in another machine as a share of a network step (about seven
/// peers are served at a time; the first takes a whole step).
pub const BASE_PEERS: f64 = 15.0;
pub const PEER: f64 = 0.15;

/// LL moves a flag with every four bytes, and is built for latency: a quarter of the bandwidth (a third for gather and
/// scatter in a machine), at most so many bytes per second in a machine and between machines. NCCL.
pub const LL_SHARE: f64 = 0.25;
pub const LL_SHARE_GATHER: f64 = 1.0 / 3.0;
pub const LL_CEILING: f64 = 87.7e9;
pub const LL_CEILING_NETWORK: f64 = 22e9;

/// LL128 of the bandwidth of Simple. NCCL says 0.92; measured in one machine, 0.4 to 0.65.
pub const LL128_SHARE: f64 = 0.5;

/// Of the network's line rate. NVIDIA/nccl-tests issue 309: 366 to 391 of 400 GB/s.
pub const NETWORK_SHARE: f64 = 0.92;

/// Trees, of what their links carry (NCCL), and of the network where machines have two children.
pub const TREE_SHARE: f64 = 0.92;
pub const TREE_NETWORK_SHARE: f64 = 0.9;

/// A gather, scatter or exchange copies the rank's own part on the GPU, so many times as fast as its link: one_machine.csv,
/// where two GPUs are slower than eight for no other reason.
pub const COPY_SHARE: f64 = 1.5;

impl LinkKind {
    /// Microseconds of an LL hop. NCCL: 0.6 over NVLink and 1.0 over PCIe; the smallest messages of 2, 4 and 8 GPUs in
    /// one_machine.csv's source tell the generations apart. NVLink 2 has the figure of NVLink 3.
    pub fn hop(self) -> f64 {
        match self {
            Self::NvLink2 | Self::NvLink3 => 1.5,
            Self::NvLink4 => 0.55,
            Self::NvLink5 => 1.4,
            Self::InfinityFabric => 0.45,
            Self::Pcie => 0.8,
        }
    }

    /// Bus bandwidth of long rings over the data sheet. NVLink 4: NVIDIA/nccl-tests issue 212 (370 of 450 GB/s).
    pub fn share(self) -> f64 {
        match self {
            Self::NvLink2 => 0.85,
            Self::NvLink3 => 0.75,
            Self::NvLink4 => 0.80,
            Self::NvLink5 => 0.74,
            Self::InfinityFabric => 0.72,
            Self::Pcie => 0.42,
        }
    }

    /// Message over time of a sum in the switches, over the data sheet; `None` where switches cannot sum. NVLink 4:
    /// NVIDIA/nccl-tests issue 212 (275 of 450 GB/s).
    pub fn switch_share(self) -> Option<f64> {
        match self {
            Self::NvLink4 => Some(0.60),
            Self::NvLink5 => Some(0.50),
            _ => None,
        }
    }

    /// LL128 needs stores of 128 bytes that arrive whole, which PCIe does not promise (NCCL).
    pub fn has_ll128(self) -> bool {
        self != Self::Pcie
    }
}

impl Transport {
    /// Microseconds that a hop takes beyond one of RDMA. EFA: 8 bytes between two p5 take 69 us, and between two machines
    /// with InfiniBand 25. TCP: 123 us between two A3 Mega.
    pub fn latency(self) -> f64 {
        match self {
            Self::Rdma => 0.0,
            Self::Efa => 17.0,
            Self::Tcp => 55.0,
        }
    }
}
