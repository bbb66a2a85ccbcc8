//! `Hardware`: every known GPU, link and instance type, from the embedded archive or from text a user gave.

pub(crate) mod cells;
pub mod rules;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::catalog::cells::{newer, optional};
use crate::cloud::CloudId;
use crate::disk_link::DiskLink;
pub use crate::error::HardwareError;
use crate::gpu::{Gpu, GpuId};
use crate::host::{self, HostId, HostType};
use crate::instance::{InstanceId, InstanceType, SoldAs};
use crate::link::{Link, LinkKind, Topology};
use crate::node::{Fabric, GpuLink, MeasuredLinks, NodeShape};
use gpuplan_embedded::{Archive, EmbeddedError, Table};
use gpuplan_units::names::plain;
use gpuplan_units::{Bytes, BytesPerSecond, GpuCount};

/// Drivers, Kubernetes and other programs write the vendor before a name, or leave it out.
const VENDORS: [&str; 2] = ["nvidia", "amd"];

/// A plain name of a chip without its vendor.
pub(crate) fn without_vendor(plain: &str) -> &str {
    VENDORS.iter().find_map(|vendor| plain.strip_prefix(vendor)).unwrap_or(plain)
}

#[derive(Clone, Debug, Default)]
pub struct Hardware {
    gpus: Vec<Gpu>,
    links: Vec<Link>,
    instances: Vec<InstanceType>,
    /// Machines without GPU.
    hosts: Vec<HostType>,
    by_name: HashMap<String, GpuId>,
    by_instance: HashMap<(CloudId, String), InstanceId>,
}

#[derive(serde::Deserialize)]
struct GpuDocument {
    gpu: Vec<Gpu>,
}

#[derive(serde::Deserialize)]
struct LinkDocument {
    link: Vec<Link>,
}

impl Hardware {
    /// The packed catalog, for a hash of what an answer rests on.
    pub fn embedded_bytes() -> &'static [u8] {
        gpuplan_embedded::HARDWARE
    }

    /// The catalog inside this binary.
    pub fn embedded() -> Result<Self, HardwareError> {
        Self::from_archive(&Archive::unpack(gpuplan_embedded::HARDWARE)?)
    }

    pub fn from_archive(archive: &Archive) -> Result<Self, HardwareError> {
        let read = |file: &'static str, stem: &str| {
            archive.documents.get(stem).ok_or_else(|| HardwareError::Document { file, detail: "is missing".to_owned() })
        };
        let broken = |file: &'static str| {
            move |error: serde_json::Error| HardwareError::Document { file, detail: error.to_string() }
        };
        let gpus: GpuDocument = serde_json::from_str(read("gpus.toml", "gpus")?).map_err(broken("gpus.toml"))?;
        let links: LinkDocument = serde_json::from_str(read("links.toml", "links")?).map_err(broken("links.toml"))?;
        let mut hardware = Self { gpus: gpus.gpu, links: links.link, ..Self::default() };
        for (index, gpu) in hardware.gpus.iter().enumerate() {
            let id = GpuId(index as u16);
            for name in std::iter::once(&gpu.id).chain(&gpu.aliases).chain([&gpu.name]) {
                hardware.by_name.insert(plain(name), id);
            }
        }
        for (name, table) in &archive.tables {
            if let Some(cloud) = name.strip_prefix("instances/") {
                hardware.read_instances(&CloudId::new(cloud), name, table)?;
            } else if let Some(cloud) = name.strip_prefix("hosts/") {
                hardware.hosts.extend(host::read(&CloudId::new(cloud), name, table)?);
            }
        }
        Ok(hardware)
    }

    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    pub fn links(&self) -> &[Link] {
        &self.links
    }

    pub fn instances(&self) -> &[InstanceType] {
        &self.instances
    }

    /// Machines without GPU.
    pub fn hosts(&self) -> &[HostType] {
        &self.hosts
    }

    pub fn host(&self, id: HostId) -> &HostType {
        &self.hosts[id.0 as usize]
    }

    pub fn find_host(&self, cloud: &CloudId, name: &str) -> Option<HostId> {
        let position = self.hosts.iter().position(|host| host.cloud == *cloud && host.name == name)?;
        Some(HostId(position as u32))
    }

    pub fn gpu(&self, id: GpuId) -> &Gpu {
        &self.gpus[usize::from(id.0)]
    }

    pub fn instance(&self, id: InstanceId) -> &InstanceType {
        &self.instances[id.0 as usize]
    }

    pub fn instance_ids(&self) -> impl Iterator<Item = InstanceId> + use<> {
        (0..self.instances.len() as u32).map(InstanceId)
    }

    /// One chip by exact id, alias or full name, whatever the separators; a family (`h200`) is no chip, though a driver calls one
    /// of its members so with the vendor before it.
    pub fn find_gpu(&self, name: &str) -> Option<GpuId> {
        let name = plain(name);
        let is_family = || self.gpus.iter().any(|gpu| plain(&gpu.family) == name);
        let with_vendor = || VENDORS.iter().find_map(|vendor| self.by_name.get(&format!("{vendor}{name}")));
        self.by_name
            .get(&name)
            .or_else(|| self.by_name.get(without_vendor(&name)))
            .or_else(|| with_vendor().filter(|_| !is_family()))
            .copied()
    }

    pub fn find_instance(&self, cloud: &CloudId, name: &str) -> Option<InstanceId> {
        self.by_instance.get(&(cloud.clone(), name.to_owned())).copied()
    }

    pub fn find_link(&self, id: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.id == id)
    }

    /// A chip that no catalog file has, or the one of that id.
    pub(crate) fn add_gpu(&mut self, gpu: Gpu) -> GpuId {
        if let Some(known) = self.find_gpu(&gpu.id) {
            return known;
        }
        let id = GpuId(self.gpus.len() as u16);
        for name in [&gpu.id, &gpu.name] {
            self.by_name.entry(plain(name)).or_insert(id);
        }
        self.gpus.push(gpu);
        id
    }

    /// A machine that no catalog file has. `None` if its cloud has one of that name.
    pub fn add_instance(&mut self, instance: InstanceType) -> Option<InstanceId> {
        let id = InstanceId(self.instances.len() as u32);
        match self.by_instance.entry((instance.cloud.clone(), instance.name.clone())) {
            Entry::Occupied(_) => None,
            Entry::Vacant(free) => {
                free.insert(id);
                self.instances.push(instance);
                Some(id)
            }
        }
    }

    /// Every cloud with machines, in alphabetical order.
    pub fn clouds(&self) -> Vec<CloudId> {
        let mut clouds: Vec<CloudId> = self.instances.iter().map(|instance| instance.cloud.clone()).collect();
        clouds.sort();
        clouds.dedup();
        clouds
    }

    /// Every word that means a GPU, for suggestions.
    pub fn gpu_names(&self) -> impl Iterator<Item = &str> {
        self.gpus.iter().flat_map(|gpu| {
            [gpu.family.as_str(), gpu.id.as_str()].into_iter().chain(gpu.aliases.iter().map(String::as_str))
        })
    }

    /// Bandwidth of a GPU link id between `gpus` cards, with bridges falling to PCIe beyond their reach; without a link of their own
    /// cards have PCIe.
    pub fn gpu_link(&self, gpu: &Gpu, id: &str, devices: u32) -> Result<GpuLink, String> {
        if devices <= 1 {
            return Ok(GpuLink::Single);
        }
        let link = self.find_link(id).ok_or_else(|| format!("`{id}` is not a link of links.toml"))?;
        let pcie = GpuLink::Pcie { bandwidth: gpu.pcie_bandwidth() };
        Ok(match (link.kind, link.bandwidth()) {
            (LinkKind::Network, _) => return Err(format!("`{id}` joins machines and not the GPUs of one")),
            (LinkKind::Pcie, Some(bandwidth)) => GpuLink::Pcie { bandwidth },
            (LinkKind::Gpu, Some(bandwidth)) => match (link.topology, link.reaches) {
                (Some(Topology::Pairs), reaches) if devices > reaches.unwrap_or(2) => pcie,
                (_, reaches) => GpuLink::Fast { bandwidth, domain: reaches.unwrap_or(devices).max(devices) },
            },
            (LinkKind::Gpu | LinkKind::Pcie, None) => pcie,
        })
    }

    /// The network that joins the GPUs of machines, and what reaches the rest of the world of a machine's network figure. Gb/s.
    fn networks(
        &self,
        id: &str,
        rate: Option<f64>,
        machine: Option<f64>,
    ) -> Result<(Option<Fabric>, Option<f64>), String> {
        let Some(rate) = rate.filter(|_| !id.is_empty()) else { return Ok((None, machine)) };
        let link = self.find_link(id).ok_or_else(|| format!("fabric: `{id}` is not in links.toml"))?;
        let fabric = Fabric { bandwidth: BytesPerSecond::from_gbit(rate), rdma: link.rdma == Some(true) };
        Ok((Some(fabric), machine.map(|machine| link.front_gbit_per_s(machine, rate))))
    }

    fn read_instances(&mut self, cloud: &CloudId, file: &str, table: &Table) -> Result<(), HardwareError> {
        let text = |name: &str| -> Result<Vec<&str>, EmbeddedError> { Ok(table.column(name)?.collect()) };
        let (names, gpus, counts) = (text("instance_type")?, text("gpu")?, text("gpu_count")?);
        let (gpu_memory, vcpus, memory, nvme) =
            (text("gpu_memory_mib_each")?, text("vcpus")?, text("memory_mib")?, text("local_nvme_gb")?);
        let (links, host, fabrics, fabric_rates) =
            (text("gpu_link")?, text("host_network_gbit_per_s")?, text("fabric")?, text("fabric_gbit_per_s")?);
        let (processors, sold, notes) = (text("cpu_architecture")?, text("sold_as")?, text("notes")?);
        let (sources, dates) = (text("source")?, text("as_of")?);
        let (disk_rates, disk_reads) = (newer(table, "disk_mb_per_s")?, newer(table, "disk_reads_per_s")?);
        let measured = measured_links(file, table)?;
        for row in 0..table.rows() {
            let broken = |detail: String| HardwareError::Row { file: file.to_owned(), row: row + 1, detail };
            let number = |name: &str, cell: &str| {
                optional(cell).map_err(|()| broken(format!("{name}: `{cell}` is not a number")))
            };
            let gpu_id =
                self.find_gpu(gpus[row]).ok_or_else(|| broken(format!("gpu: `{}` is not in gpus.toml", gpus[row])))?;
            let gpu = &self.gpus[usize::from(gpu_id.0)];
            let count = GpuCount::parse(counts[row]).map_err(|error| broken(format!("gpu_count: {error}")))?;
            let whole_card = gpu.memory().0 * if count.is_slice() { count.as_f64() } else { 1.0 };
            let host_network = number("host_network_gbit_per_s", host[row])?;
            let fabric_rate = number("fabric_gbit_per_s", fabric_rates[row])?;
            let (fabric, front_network) = self.networks(fabrics[row], fabric_rate, host_network).map_err(broken)?;
            let node = NodeShape {
                gpu: gpu_id,
                gpus: count,
                gpu_memory: number("gpu_memory_mib_each", gpu_memory[row])?.map_or(Bytes(whole_card), Bytes::from_mib),
                link: self
                    .gpu_link(gpu, if links[row].is_empty() { &gpu.link } else { links[row] }, count.devices())
                    .map_err(broken)?,
                measured: measured[row],
                fabric,
            };
            let instance = InstanceType {
                cloud: cloud.clone(),
                name: names[row].to_owned(),
                node,
                link_id: links[row].to_owned(),
                fabric_id: fabrics[row].to_owned(),
                vcpus: number("vcpus", vcpus[row])?.unwrap_or(0.0) as u32,
                memory: number("memory_mib", memory[row])?.map_or(Bytes(0.0), Bytes::from_mib),
                local_nvme: number("local_nvme_gb", nvme[row])?.map(Bytes::from_gb),
                host_network_gbit_per_s: host_network,
                front_network_gbit_per_s: front_network,
                disk_link: DiskLink::new(
                    number("disk_mb_per_s", disk_rates[row])?,
                    number("disk_reads_per_s", disk_reads[row])?,
                ),
                cpu_architecture: processors[row].to_owned(),
                sold_as: SoldAs::parse(sold[row]).map_err(broken)?,
                notes: notes[row].to_owned(),
                source: sources[row].to_owned(),
                as_of: dates[row].to_owned(),
            };
            let id = InstanceId(self.instances.len() as u32);
            if self.by_instance.insert((cloud.clone(), instance.name.clone()), id).is_some() {
                return Err(broken(format!("`{}` stands twice", instance.name)));
            }
            self.instances.push(instance);
        }
        Ok(())
    }
}

/// The copies that were measured on the machines of a table, row by row.
fn measured_links(file: &str, table: &Table) -> Result<Vec<MeasuredLinks>, HardwareError> {
    let column = |name: &str| -> Result<Vec<Option<BytesPerSecond>>, HardwareError> {
        let cells = newer(table, name)?.into_iter().enumerate();
        let rates = cells.map(|(row, cell)| match optional(cell) {
            Ok(Some(0.0)) | Err(()) => {
                let detail = format!("{name}: `{cell}` is not a rate");
                Err(HardwareError::Row { file: file.to_owned(), row: row + 1, detail })
            }
            Ok(rate) => Ok(rate.map(BytesPerSecond::from_gb)),
        });
        rates.collect()
    };
    let (one, each) = (column("host_to_gpu_gb_per_s")?, column("host_to_each_gpu_gb_per_s")?);
    let pairs = column("gpu_to_gpu_gb_per_s")?;
    let rows = one.into_iter().zip(each).zip(pairs);
    let links = rows.map(|((host_to_gpu, host_to_each_gpu), gpu_to_gpu)| MeasuredLinks {
        host_to_gpu,
        host_to_each_gpu,
        gpu_to_gpu,
    });
    Ok(links.collect())
}
