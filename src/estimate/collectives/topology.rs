//! `Topology`: the GPUs of one collective, the links inside their machines and the network between them.

use gpuplan_units::BytesPerSecond;

/// What the ranks compute together. The size of a message is counted as nccl-tests counts it
/// (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The message is the whole buffer of a rank, which every rank has afterwards, summed.
    AllReduce,
    /// The message is the whole gathered buffer, of which a rank brings its part.
    AllGather,
    /// The message is the whole buffer of a rank, of which it keeps its part, summed.
    ReduceScatter,
    /// The message is all that a rank sends, its own part included.
    AllToAll,
}

/// What joins the GPUs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkKind {
    NvLink2,
    NvLink3,
    NvLink4,
    NvLink5,
    /// All generations of CDNA 3 and 4.
    InfinityFabric,
    /// Through switches or the host.
    Pcie,
}

/// What carries messages between machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// InfiniBand and RoCE.
    Rdma,
    /// AWS Elastic Fabric Adapter.
    Efa,
    /// TCP to GPU memory (Google GPUDirect-TCPX and TCPXO). Plain sockets are no better.
    Tcp,
}

/// One group of ranks. Ranks are spread evenly over machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Topology {
    /// GPUs that take part.
    pub ranks: u32,
    /// Those of them that reach each other by the link. A rack-sized NVLink domain (NVL72) counts as one machine.
    pub ranks_per_machine: u32,
    pub link: LinkKind,
    /// Of one GPU, one direction, from its data sheet.
    pub link_bandwidth: BytesPerSecond,
    /// NVLink switches may sum (NVLS, NVLink SHARP). Without effect where the link cannot.
    pub switch_reduction: bool,
    pub transport: Transport,
    /// Network of the machine over the ranks that it has in the group, one direction, from the data sheet. Without effect
    /// in one machine.
    pub network_bandwidth: BytesPerSecond,
    /// Factor that the switches between machines are short of, 1 where none is known.
    pub oversubscription: f64,
}
