//! `Machine`: one kind of machine as the estimate needs it, from a catalog shape or from what a case states.

use crate::collectives::{LinkKind, Topology, Transport};
use crate::constants::{self as c, Constants};
use gpuplan_hardware::{Architecture, Gpu, GpuLink, MeasuredLinks, NodeShape};
use gpuplan_units::{Bytes, BytesPerSecond};

/// Share of the one-way rate on the sheet of PCIe that a copy reaches, from locked memory or from GPU to GPU: 12, 24 and 48 GB/s
/// of 16, 32 and 64 fit the traffic of published runs (docs/estimate.md).
pub const PCIE_COPY_SHARE: f64 = 0.75;

/// The same of NVLink: `nvbandwidth` copies from GPU to GPU at 255 to 267 of 300 GB/s (A100), 370 to 395 of 450 (H100, H200) and
/// 768 of 900 (B200); the median of 18 machine types (Spare Cores inspector data, 804d3c71).
pub const NVLINK_COPY_SHARE: f64 = 0.87;

/// A GPU with the links around it.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    pub gpu: &'a Gpu,
    /// Memory of a device as software sees it.
    pub memory: Bytes,
    pub gpus_per_node: u32,
    /// Part of a card that a device is: 1 unless it is a slice.
    pub card_share: f64,
    /// Between its GPUs, at the rate of a sheet of which the fitted constants are shares. Where copies were measured on this machine
    /// type it is the rate of which they would be the usual share, so that no efficiency counts twice.
    pub link: GpuLink,
    /// The same whatever was measured: what a calibration of this GPU model was compared with.
    pub sheet_link: GpuLink,
    /// What each GPU is copied from locked host memory while all GPUs of the machine are, and as much back.
    pub host_copy: BytesPerSecond,
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
            link: measured_link(node.link, node.measured),
            sheet_link: node.link,
            host_copy: host_copy(gpu, node.measured),
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

    /// Watts of the chip over those that its ceiling was measured at: host and chip of a superchip share what four of them in a machine get.
    pub fn power_share(&self) -> f64 {
        let shares = self.gpu.form_factor == "superchip" && self.gpus_per_node >= 4;
        if shares { (c::SUPERCHIP_WATTS - c::SUPERCHIP_HOST_WATTS) / c::HOPPER_WATTS } else { 1.0 }
    }

    pub fn network_bus(&self, constants: &Constants) -> f64 {
        self.node_network.0 * constants.network_share
    }

    /// A group of `ranks` of which `inside` reach each other by the link, as one of the like groups that all `gpus` form:
    /// every GPU has its part of the machine's network.
    pub fn topology(&self, ranks: u32, inside: u32, gpus: u32) -> Topology {
        let link = match (self.link, self.gpu.architecture) {
            (GpuLink::Single | GpuLink::Pcie { .. }, _) => LinkKind::Pcie,
            (_, Architecture::Pascal | Architecture::Volta | Architecture::Turing) => LinkKind::NvLink2,
            (_, Architecture::Ampere | Architecture::AmpereGa10x | Architecture::Ada) => LinkKind::NvLink3,
            (_, Architecture::Hopper) => LinkKind::NvLink4,
            (_, Architecture::Blackwell | Architecture::BlackwellRtx) => LinkKind::NvLink5,
            (_, Architecture::Cdna2 | Architecture::Cdna3 | Architecture::Cdna4) => LinkKind::InfinityFabric,
        };
        Topology {
            ranks,
            ranks_per_machine: inside,
            link,
            link_bandwidth: self.link.bandwidth().unwrap_or_else(|| self.gpu.pcie_bandwidth()),
            switch_reduction: self.gpus_per_node > 2,
            transport: Transport::Rdma,
            network_bandwidth: BytesPerSecond(self.node_network.0 / f64::from(self.gpus_per_node.min(gpus).max(1))),
            oversubscription: 1.0,
        }
    }

    /// GPUs that reach each other by the link: those of a machine, or of a rack-sized domain.
    pub fn link_domain(&self, gpus: u32) -> u32 {
        match self.link {
            GpuLink::Fast { domain, .. } => domain.max(self.gpus_per_node).min(gpus.max(1)),
            _ => self.gpus_per_node.min(gpus.max(1)),
        }
    }
}

/// What a copy between host and GPU reaches while all GPUs of the machine copy: as measured, else the usual share of the sheet.
pub fn host_copy(gpu: &Gpu, measured: MeasuredLinks) -> BytesPerSecond {
    let usual = BytesPerSecond(gpu.pcie_bandwidth().0 * PCIE_COPY_SHARE);
    measured.host_to_each_gpu.or(measured.host_to_gpu).unwrap_or(usual)
}

/// The link whose usual share the measured copies are. Where GPUs reach each other through the host and nobody measured that,
/// they are no faster than the host reaches them.
fn measured_link(link: GpuLink, measured: MeasuredLinks) -> GpuLink {
    let of_share = |rate: BytesPerSecond, share: f64| BytesPerSecond(rate.0 / share);
    match link {
        GpuLink::Single => link,
        GpuLink::Fast { bandwidth, domain } => {
            let bandwidth = measured.gpu_to_gpu.map_or(bandwidth, |rate| of_share(rate, NVLINK_COPY_SHARE));
            GpuLink::Fast { bandwidth, domain }
        }
        GpuLink::Pcie { bandwidth } => {
            let through_host = measured.host_to_each_gpu.or(measured.host_to_gpu);
            let capped = |rate| BytesPerSecond(bandwidth.0.min(of_share(rate, PCIE_COPY_SHARE).0));
            let direct = measured.gpu_to_gpu.map(|rate| of_share(rate, PCIE_COPY_SHARE));
            GpuLink::Pcie { bandwidth: direct.or(through_host.map(capped)).unwrap_or(bandwidth) }
        }
    }
}

/// Network of a machine where nothing is stated: 8 x 400 Gb/s around Hopper and Blackwell, 8 x 100 around GA100
/// and 4 x 200 around MI250X (LUMI and Frontier; the usual cluster designs of these parts), 100 Gb/s elsewhere.
pub fn usual_network(gpu: &Gpu) -> BytesPerSecond {
    let gbit = match (gpu.architecture, gpu.form_factor.as_str()) {
        (Architecture::Hopper | Architecture::Blackwell, "sxm" | "nvl72" | "superchip")
        | (Architecture::Cdna3 | Architecture::Cdna4, _) => 3200.0,
        (Architecture::Hopper | Architecture::Blackwell, _) => 3200.0,
        (Architecture::Ampere | Architecture::Cdna2, _) => 800.0,
        _ => 100.0,
    };
    BytesPerSecond::from_gbit(gbit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{CloudId, Hardware};

    fn machine<'a>(hardware: &'a Hardware, cloud: &str, name: &str) -> Machine<'a> {
        let instance = hardware.instance(hardware.find_instance(&CloudId::new(cloud), name).unwrap());
        Machine::new(hardware.gpu(instance.node.gpu), &instance.node)
    }

    fn near(rate: BytesPerSecond, gb_per_s: f64) -> bool {
        (rate.0 / 1e9 / gb_per_s - 1.0).abs() < 0.01
    }

    #[test]
    fn copies_are_as_fast_as_they_were_measured() {
        let hardware = Hardware::embedded().unwrap();
        let host = |cloud: &str, name: &str| machine(&hardware, cloud, name).host_copy;
        assert!(near(host("aws", "g5.xlarge"), 13.47) && near(host("aws", "g6e.12xlarge"), 13.47));
        assert!(near(host("aws", "g7e.2xlarge"), 55.56));
        // Pairs of GPUs share what joins them to the host.
        assert!(near(host("aws", "g7e.48xlarge"), 27.83) && near(host("gcp", "a3-highgpu-8g"), 13.87));
        // Nobody measured these: three quarters of the sheet.
        assert!(near(host("aws", "p5.48xlarge"), 48.0) && near(host("aws", "p4d.24xlarge"), 24.0));
    }

    #[test]
    fn four_superchips_in_a_machine_share_its_power_with_their_hosts() {
        let hardware = Hardware::embedded().unwrap();
        let gpu = hardware.gpu(hardware.find_gpu("gh200-96").unwrap());
        let of = |machine: Machine| machine.power_share();
        let one = Machine { gpu, gpus_per_node: 1, ..machine(&hardware, "aws", "p5.48xlarge") };
        assert!((of(Machine { gpus_per_node: 4, ..one }) - 570.0 / 700.0).abs() < 1e-9);
        assert_eq!((of(one), of(machine(&hardware, "aws", "p5.48xlarge"))), (1.0, 1.0));
    }

    #[test]
    fn a_measured_link_counts_once() {
        let hardware = Hardware::embedded().unwrap();
        let link = |cloud: &str, name: &str| machine(&hardware, cloud, name).link.bandwidth().unwrap();
        // Copies reach 9.88 GB/s, which the usual share of 13.17 would be; the sheet says 32.
        assert!(near(link("gcp", "g2-standard-24"), 9.88 / PCIE_COPY_SHARE));
        // Through the host, which reaches a GPU with 13.47.
        assert!(near(link("aws", "g5.12xlarge"), 13.47 / PCIE_COPY_SHARE));
        assert!(near(link("gcp", "a3-highgpu-8g"), 369.74 / NVLINK_COPY_SHARE));
        assert!(near(link("aws", "p5.48xlarge"), 450.0));
        let g5 = machine(&hardware, "aws", "g5.12xlarge");
        assert!(
            near(g5.sheet_link.bandwidth().unwrap(), 32.0)
                && machine(&hardware, "aws", "g5.xlarge").link == GpuLink::Single
        );
    }
}
