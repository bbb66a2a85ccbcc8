//! What collectives have to be told about the network between machines of a type, with the source of each word.

use crate::job::Job;

/// Lines of shell for one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    pub about: &'static str,
    pub source: &'static str,
    pub lines: &'static [&'static str],
}

/// libfabric before 1.18 and aws-ofi-nccl before 1.7 need to be told; later ones take no harm. Without huge pages the loaders of
/// PyTorch can fork.
const EFA: Network = Network {
    about: "Elastic Fabric Adapter: the image needs aws-ofi-nccl",
    source: "github.com/aws-samples/awsome-distributed-training, 1.architectures/efa-cheatsheet.md",
    lines: &["export FI_PROVIDER=efa FI_EFA_USE_DEVICE_RDMA=1 FI_EFA_USE_HUGE_PAGE=0"],
};

const TCPX: Network = Network {
    about: "GPUDirect-TCPX: the machine needs the plugin and its daemon, which serves the sockets in /run/tcpx",
    source: "cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx",
    lines: &[
        "export LD_LIBRARY_PATH=\"/usr/local/tcpx/lib64:/usr/local/nvidia/lib64:${LD_LIBRARY_PATH:-}\"",
        "export NCCL_SOCKET_IFNAME=eth0 NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0",
        "export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4",
        "export NCCL_GPUDIRECTTCPX_TX_BINDINGS='eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177'",
        "export NCCL_GPUDIRECTTCPX_RX_BINDINGS='eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;eth4:74-87,178-191'",
        "export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=500000 NCCL_GPUDIRECTTCPX_FORCE_ACK=0",
        "export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=/run/tcpx",
        "export NCCL_CROSS_NIC=0 NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_NET_GDR_LEVEL=PIX NCCL_P2P_PXN_LEVEL=0",
        "export NCCL_NSOCKS_PERTHREAD=4 NCCL_SOCKET_NTHREADS=1 NCCL_MAX_NCHANNELS=8 NCCL_MIN_NCHANNELS=8",
        "export NCCL_DYNAMIC_CHUNK_SIZE=524288 NCCL_P2P_NET_CHUNKSIZE=524288 NCCL_P2P_PCI_CHUNKSIZE=524288",
        "export NCCL_P2P_NVL_CHUNKSIZE=1048576 NCCL_BUFFSIZE=4194304",
    ],
};

/// The plugin brings a profile of its own version: on a machine of Compute Engine, and in a container of GKE.
const TCPXO: Network = Network {
    about: "GPUDirect-TCPXO: the machine needs the plugin, whose profile is read, and its daemon",
    source: "cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx",
    lines: &[
        "for NCCL_LIB_DIR in /var/lib/tcpxo/lib64 /usr/local/nvidia/lib64; do",
        "  if [ -e \"$NCCL_LIB_DIR/nccl-env-profile.sh\" ]; then",
        "    export NCCL_LIB_DIR LD_LIBRARY_PATH=\"$NCCL_LIB_DIR:${LD_LIBRARY_PATH:-}\"",
        "    . \"$NCCL_LIB_DIR/nccl-env-profile.sh\"",
        "    break",
        "  fi",
        "done",
    ],
};

const GIB: Network = Network {
    about: "GPUDirect RDMA over Converged Ethernet: the image needs Google's plugin gIB, whose settings are read",
    source: "docs.cloud.google.com/ai-hypercomputer/docs/nccl/overview",
    lines: &[
        "if [ -e /usr/local/gib/scripts/set_nccl_env.sh ]; then",
        "  export LD_LIBRARY_PATH=\"/usr/local/gib/lib64:${LD_LIBRARY_PATH:-}\"",
        "  . /usr/local/gib/scripts/set_nccl_env.sh",
        "fi",
    ],
};

/// Images for HPC set the topology in /etc/nccl.conf; others have to be told where it lies.
const AZURE: Network = Network {
    about: "InfiniBand of Azure: the topology that the host hides from NCCL",
    source: "learn.microsoft.com, \"Azure HPC VM images\"; jingchaozhang.github.io/Decoding-Azure-NCCL-Topology-Files",
    lines: &[
        "export NCCL_SOCKET_IFNAME=eth0 NCCL_IB_PCI_RELAXED_ORDERING=1 CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "for NCCL_TOPO_FILE in /opt/microsoft/nd*-topo.xml; do",
        "  if [ -e \"$NCCL_TOPO_FILE\" ]; then export NCCL_TOPO_FILE; fi",
        "done",
    ],
};

/// `None`: one machine, or a network that NCCL finds by itself.
pub fn between_machines(job: &Job) -> Option<Network> {
    if job.machines().nodes == 1 {
        return None;
    }
    match job.instance.fabric_id.as_str() {
        fabric if fabric.starts_with("efa-") => Some(EFA),
        "tcpx" => Some(TCPX),
        "tcpxo" => Some(TCPXO),
        "roce-cx7" if job.machines().cloud == "gcp" => Some(GIB),
        fabric if fabric.starts_with("infiniband-") && job.machines().cloud == "azure" => Some(AZURE),
        _ => None,
    }
}

/// Elastic Fabric Adapters of a machine, as its Kubernetes plugin counts them (EC2 user guide, "Maximize network bandwidth on
/// instances with multiple network cards"); 0: none are known.
pub fn efa_adapters(instance_type: &str) -> u32 {
    match instance_type {
        "p3dn.24xlarge" | "p5.4xlarge" => 1,
        "p4d.24xlarge" | "p4de.24xlarge" => 4,
        "p6-b200.48xlarge" => 8,
        "p5en.48xlarge" | "p6-b300.48xlarge" => 16,
        "p5.48xlarge" | "p5e.48xlarge" => 32,
        _ => 0,
    }
}
