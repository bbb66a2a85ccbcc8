//! `MachineSheet`: a machine type as its own cloud describes it, and how one that no catalog has becomes a row of the catalog.

use serde::{Deserialize, Serialize};

use crate::catalog::Hardware;
use crate::cloud::CloudId;
use crate::gpu::{Gpu, GpuId, RateTable};
use crate::instance::{InstanceId, InstanceType, SoldAs};
use crate::node::{Fabric, MeasuredLinks, NodeShape};
use gpuplan_units::names::plain;
use gpuplan_units::{Bytes, BytesPerSecond, GpuCount};

/// What stands in `source` of a row that a cloud described itself.
pub const DESCRIBED: &str = "described by its cloud";
/// Key in `unverified` of a GPU of which only name, vendor and memory are known.
pub const ASSUMED_SPEED: &str = "peak_tflops";
/// Network of machines of which only a rate is known, an id of `links.toml`.
const ETHERNET: &str = "ethernet";
/// Labels, interfaces and drivers differ by less than this share on the memory of one GPU; another size is another GPU.
const MEMORY_TOLERANCE: f64 = 0.12;
/// A GPU that is assumed to be as fast as another has at least this share of its memory: with less it is of another kind, or of another
/// decade.
const LEAST_MEMORY: f64 = 0.6;
/// Data centre GPUs without matrix units that clouds still list: none of the recent ones is as slow.
const TOO_OLD: [&str; 7] = ["k80", "k520", "m10", "m40", "m60", "p4", "p40"];
/// Words in clouds' names of a GPU that say nothing of which it is.
const FILLERS: [&str; 6] = ["nvidia", "amd", "tesla", "server", "gpu", "instinct"];

/// A machine type as its cloud describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineSheet {
    pub name: String,
    /// As the cloud calls it, such as `RTX PRO Server 6000` or `nvidia-h100-80gb`.
    pub gpu: String,
    /// As the cloud spells it; empty where it does not say.
    pub vendor: String,
    /// `8`, or a share of one such as `1/8` or `0.125`.
    pub gpus: String,
    /// Of each GPU, or of the share; `None`: the cloud does not say.
    pub gpu_memory_mib: Option<f64>,
    pub vcpus: u32,
    pub memory_mib: f64,
    /// `None`: the cloud does not say.
    pub local_nvme_gb: Option<f64>,
    pub network_gbit_per_s: Option<f64>,
    /// `x86_64` or `arm64`.
    pub cpu_architecture: String,
    /// Words of the catalog, such as `on-demand spot`.
    pub sold_as: String,
    /// Day on which the cloud said so, such as `2026-11-24`.
    pub as_of: String,
}

impl Gpu {
    /// Whether its speed is only assumed, as that of a GPU which no catalog has.
    pub fn is_assumed(&self) -> bool {
        self.is_unverified(ASSUMED_SPEED)
    }
}

impl Hardware {
    /// Adds a machine type that the catalog lacks, and its GPU where that is unknown too. The error says what the sheet lacks.
    pub fn learn(&mut self, cloud: &CloudId, sheet: &MachineSheet) -> Result<InstanceId, String> {
        if let Some(known) = self.find_instance(cloud, &sheet.name) {
            return Ok(known);
        }
        let count = GpuCount::parse(&sheet.gpus).map_err(|error| error.to_string())?;
        let memory = sheet.gpu_memory_mib.filter(|mib| mib.is_finite() && *mib > 0.0);
        let whole = memory.map(|mib| if count.is_slice() { mib / count.as_f64() } else { mib });
        let gpu_id = match self.gpu_of_sheet(cloud, &sheet.gpu, whole) {
            Some(known) => known,
            None => self.assume_gpu(sheet, whole)?,
        };
        let gpu = self.gpu(gpu_id);
        let share = if count.is_slice() { count.as_f64() } else { 1.0 };
        // Interfaces report a label where the driver has less.
        let own = memory.map_or(f64::INFINITY, |mib| Bytes::from_mib(mib).0);
        let node = NodeShape {
            gpu: gpu_id,
            gpus: count,
            gpu_memory: Bytes(own.min(gpu.memory().0 * share)),
            link: self.gpu_link(gpu, &gpu.link, count.devices())?,
            measured: MeasuredLinks::default(),
            fabric: sheet
                .network_gbit_per_s
                .map(|rate| Fabric { bandwidth: BytesPerSecond::from_gbit(rate), rdma: false }),
        };
        let remark = if gpu.is_assumed() { format!("; {}", gpu.notes) } else { String::new() };
        let instance = InstanceType {
            cloud: cloud.clone(),
            name: sheet.name.clone(),
            node,
            link_id: if count.devices() > 1 { gpu.link.clone() } else { "single".to_owned() },
            fabric_id: sheet.network_gbit_per_s.map(|_| ETHERNET.to_owned()).unwrap_or_default(),
            vcpus: sheet.vcpus,
            memory: Bytes::from_mib(sheet.memory_mib.max(0.0)),
            local_nvme: sheet.local_nvme_gb.map(Bytes::from_gb),
            host_network_gbit_per_s: sheet.network_gbit_per_s,
            front_network_gbit_per_s: sheet.network_gbit_per_s,
            disk_link: None,
            cpu_architecture: sheet.cpu_architecture.clone(),
            sold_as: SoldAs::parse(&sheet.sold_as)?,
            notes: format!("no catalog has it; count and memory as {cloud} describes them{remark}"),
            source: DESCRIBED.to_owned(),
            as_of: sheet.as_of.clone(),
        };
        self.add_instance(instance).ok_or_else(|| format!("`{}` stands twice", sheet.name))
    }

    /// The GPU that a cloud means. Of several of one family with the same memory it is the one that this cloud is known to have,
    /// else the slowest: nobody is to be promised too much.
    fn gpu_of_sheet(&self, cloud: &CloudId, name: &str, memory_mib: Option<f64>) -> Option<GpuId> {
        let words = words(name);
        let fits =
            |gpu: &Gpu| memory_mib.is_none_or(|mib| (mib / gpu.memory_visible_mib - 1.0).abs() <= MEMORY_TOLERANCE);
        if let Some(exact) = self.find_gpu(name).filter(|id| fits(self.gpu(*id))) {
            return Some(exact);
        }
        let is_here = |id: GpuId| self.instances().iter().any(|it| it.cloud == *cloud && it.node.gpu == id);
        let family = |gpu: &Gpu| {
            let family = plain(&gpu.family);
            // `h100 80gb` and `rtx pro 6000` begin with their family; whatever follows may be a size and nothing else.
            let (joined, sized) = (words.concat(), words.iter().rev().skip_while(|word| is_size(word)));
            let without_size: String = sized.collect::<Vec<_>>().into_iter().rev().map(String::as_str).collect();
            family == joined || family == without_size
        };
        let rate = |gpu: &Gpu| gpu.peak_tflops.bf16.or(gpu.peak_tflops.fp16).unwrap_or(0.0);
        let candidates = self.gpus().iter().enumerate().map(|(index, gpu)| (GpuId(index as u16), gpu));
        candidates
            .filter(|(_, gpu)| family(gpu) && fits(gpu))
            .min_by(|(one, a), (other, b)| {
                let slower =
                    rate(a).total_cmp(&rate(b)).then(a.memory_bandwidth().0.total_cmp(&b.memory_bandwidth().0));
                (!is_here(*one)).cmp(&!is_here(*other)).then(slower).then(one.0.cmp(&other.0))
            })
            .map(|(id, _)| id)
    }

    /// A GPU that nobody has a row for. Its memory is known; its speed is taken to be that of the slowest recent GPU of its vendor
    /// with as much memory, which is below what a newer one will have, and `unverified` says so.
    fn assume_gpu(&mut self, sheet: &MachineSheet, memory_mib: Option<f64>) -> Result<GpuId, String> {
        let memory = memory_mib.ok_or_else(|| format!("nobody says how much memory a {} has", sheet.gpu))?;
        let vendor = plain(&sheet.vendor);
        let is_recent = |gpu: &Gpu| gpu.peak_tflops.bf16.is_some() && plain(&gpu.vendor) == vendor && !gpu.is_assumed();
        let model = self
            .gpus()
            .iter()
            .filter(|gpu| is_recent(gpu) && memory >= LEAST_MEMORY * gpu.memory_visible_mib)
            .min_by(|a, b| {
                let short = |gpu: &Gpu| (memory - gpu.memory_visible_mib * (1.0 + MEMORY_TOLERANCE)).max(0.0);
                short(a)
                    .total_cmp(&short(b))
                    .then(a.peak_tflops.bf16.unwrap_or(0.0).total_cmp(&b.peak_tflops.bf16.unwrap_or(0.0)))
            })
            .filter(|_| !words(&sheet.gpu).iter().any(|word| TOO_OLD.contains(&word.as_str())))
            .ok_or_else(|| format!("nothing like a {} by {} is known", sheet.gpu, sheet.vendor))?
            .clone();
        let label = (memory / 1024.0).round();
        let id = format!("{}-{label:.0}", words(&sheet.gpu).join("-"));
        let gpu = Gpu {
            name: sheet.gpu.clone(),
            family: sheet.gpu.clone(),
            aliases: Vec::new(),
            memory_label_gb: label,
            memory_visible_mib: memory,
            matmul_ceiling_tflops: RateTable::default(),
            stream_gb_per_s: None,
            // What it has beside PCIe is unknown.
            link: format!("pcie{}", model.pcie_generation),
            link_gb_per_s_one_way: None,
            announced: String::new(),
            evidence: vec![DESCRIBED.to_owned()],
            unverified: vec![ASSUMED_SPEED.to_owned(), "memory_bandwidth_gb_per_s".to_owned()],
            as_of: sheet.as_of.clone(),
            notes: format!("its speed is not known and taken to be that of a {}", model.name),
            id,
            ..model
        };
        if self.find_link(&gpu.link).is_none() {
            return Err(format!("`{}` is not a link of links.toml", gpu.link));
        }
        Ok(self.add_gpu(gpu))
    }
}

/// Words of a GPU's name without those that every cloud puts around it.
fn words(name: &str) -> Vec<String> {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.filter(|word| !FILLERS.contains(word)).map(str::to_owned).collect()
}

/// `80gb`
fn is_size(word: &str) -> bool {
    word.strip_suffix("gb").is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(name: &str, gpu: &str, gpus: &str, mib: Option<f64>) -> MachineSheet {
        MachineSheet {
            name: name.to_owned(),
            gpu: gpu.to_owned(),
            vendor: "NVIDIA".to_owned(),
            gpus: gpus.to_owned(),
            gpu_memory_mib: mib,
            vcpus: 8,
            memory_mib: 65_536.0,
            local_nvme_gb: Some(440.0),
            network_gbit_per_s: Some(60.0),
            cpu_architecture: "x86_64".to_owned(),
            sold_as: "on-demand spot".to_owned(),
            as_of: "2026-11-24".to_owned(),
        }
    }

    fn learnt(cloud: &str, sheet: &MachineSheet) -> (Hardware, InstanceId) {
        let mut hardware = Hardware::embedded().unwrap();
        let id = hardware.learn(&CloudId::new(cloud), sheet).unwrap();
        (hardware, id)
    }

    #[test]
    fn clouds_call_the_same_gpu_by_different_names() {
        for (cloud, name, mib, expected) in [
            ("aws", "H100", Some(81_920.0), "h100-sxm5-80"),
            ("aws", "A100", Some(40_960.0), "a100-sxm4-40"),
            ("aws", "L4", Some(22_888.0), "l4"),
            ("aws", "T4", Some(16_384.0), "t4"),
            ("aws", "B300", Some(275_040.0), "b300-sxm-288"),
            ("aws", "RTX PRO Server 6000", Some(98_304.0), "rtx-pro-6000-blackwell-se"),
            ("gcp", "nvidia-h100-80gb", None, "h100-sxm5-80"),
            ("gcp", "nvidia-tesla-t4", None, "t4"),
            ("gcp", "nvidia-h200-141gb", None, "h200-sxm-141"),
            ("gcp", "nvidia-b200", None, "b200-sxm-180"),
            ("gcp", "nvidia-l4", None, "l4"),
            ("gcp", "nvidia-rtx-pro-6000", None, "rtx-pro-6000-blackwell-se"),
        ] {
            let (hardware, id) = learnt(cloud, &sheet("new.1x", name, "1", mib));
            assert_eq!(hardware.gpu(hardware.instance(id).node.gpu).id, expected, "{name}");
        }
    }

    #[test]
    fn a_gpu_that_nobody_knows_has_its_memory_and_a_speed_that_is_marked() {
        let (hardware, id) = learnt("aws", &sheet("g9.48xlarge", "Vera Q7", "8", Some(196_608.0)));
        let instance = hardware.instance(id);
        let gpu = hardware.gpu(instance.node.gpu);
        assert_eq!((gpu.id.as_str(), gpu.is_assumed(), gpu.memory_visible_mib), ("vera-q7-192", true, 196_608.0));
        assert!(hardware.find_gpu("Vera Q7").is_some() && !instance.node.link.is_fast());
        assert_eq!((instance.vcpus, instance.node.devices(), instance.source.as_str()), (8, 8, DESCRIBED));
        assert!(instance.notes.contains("speed is not known"), "{}", instance.notes);
        let slowest = hardware.gpus().iter().filter(|it| it.vendor == gpu.vendor && it.memory_visible_mib >= 180_000.0);
        let slowest = slowest.filter_map(|it| it.peak_tflops.bf16).fold(f64::INFINITY, f64::min);
        assert_eq!(gpu.peak_tflops.bf16, Some(slowest));
        let (again, _) = learnt("aws", &sheet("g9.xlarge", "Vera Q7", "1", Some(196_608.0)));
        assert_eq!(again.gpus().len(), hardware.gpus().len());
    }

    #[test]
    fn a_share_of_a_card_has_its_own_memory() {
        let (hardware, id) = learnt("aws", &sheet("g6f.huge", "L4", "0.25", Some(5722.0)));
        let node = hardware.instance(id).node;
        assert_eq!((node.gpus.to_string().as_str(), node.devices()), ("1/4", 1));
        assert_eq!(node.gpu_memory, Bytes::from_mib(5722.0));
        assert_eq!(hardware.gpu(node.gpu).id, "l4");
    }

    #[test]
    fn what_a_sheet_lacks_is_said() {
        let mut hardware = Hardware::embedded().unwrap();
        let mut learn = |sheet: &MachineSheet| hardware.learn(&CloudId::new("gcp"), sheet).unwrap_err();
        assert_eq!(learn(&sheet("x", "nvidia-vera", "8", None)), "nobody says how much memory a nvidia-vera has");
        assert!(learn(&sheet("x", "L4", "0", None)).contains("number of GPUs"));
        let other = MachineSheet { vendor: "Qualcomm".to_owned(), ..sheet("x", "AI100", "8", Some(16_000.0)) };
        assert_eq!(learn(&other), "nothing like a AI100 by Qualcomm is known");
        let radeon = MachineSheet { vendor: "AMD".to_owned(), ..sheet("x", "Radeon Pro V520", "1", Some(8192.0)) };
        for other in [radeon, sheet("x", "M60", "1", Some(8192.0)), sheet("x", "K80", "1", Some(12_288.0))] {
            assert!(learn(&other).starts_with("nothing like a "), "no slower than it is: {}", other.gpu);
        }
        let odd = MachineSheet { sold_as: "as a gift".to_owned(), ..sheet("x", "L4", "1", None) };
        assert!(learn(&odd).contains("purchase"));
    }
}
