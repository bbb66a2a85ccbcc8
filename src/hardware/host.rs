//! `HostType`: a machine without GPU, as one row of `catalogs/hosts/<cloud>.csv`; `Host`: what any machine has beside its GPUs.
//!
//! These machines have a table of their own, so that nothing that is planned on GPUs can meet one.

use crate::catalog::cells::{newer, optional};
use crate::cloud::CloudId;
use crate::disk_link::DiskLink;
use crate::error::HardwareError;
use crate::instance::{InstanceType, SoldAs};
use gpuplan_embedded::Table;
use gpuplan_units::Bytes;

/// Position of a machine without GPU in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub u32);

#[derive(Clone, Debug, PartialEq)]
pub struct HostType {
    pub cloud: CloudId,
    pub name: String,
    pub vcpus: u32,
    /// vCPUs that share a core.
    pub threads_per_core: u32,
    pub memory: Bytes,
    /// `None`: unknown; zero: none.
    pub local_nvme: Option<Bytes>,
    pub host_network_gbit_per_s: Option<f64>,
    /// To network disks; `None`: nobody says.
    pub disk_link: Option<DiskLink>,
    pub processor: String,
    pub cpu_architecture: String,
    pub sold_as: SoldAs,
    pub notes: String,
    pub source: String,
    pub as_of: String,
}

/// What a machine brings to work that needs no GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host<'a> {
    pub cloud: &'a CloudId,
    pub name: &'a str,
    pub vcpus: u32,
    pub threads_per_core: u32,
    /// To stores and the internet.
    pub network_gbit_per_s: Option<f64>,
    /// `None`: nobody says.
    pub disk_link: Option<DiskLink>,
}

impl HostType {
    pub fn host(&self) -> Host<'_> {
        Host {
            cloud: &self.cloud,
            name: &self.name,
            vcpus: self.vcpus,
            threads_per_core: self.threads_per_core,
            network_gbit_per_s: self.host_network_gbit_per_s,
            disk_link: self.disk_link,
        }
    }
}

impl InstanceType {
    /// The machine without its GPUs.
    pub fn host(&self) -> Host<'_> {
        Host {
            cloud: &self.cloud,
            name: &self.name,
            vcpus: self.vcpus,
            threads_per_core: if self.cpu_architecture == "arm64" { 1 } else { 2 },
            network_gbit_per_s: self.front_network_gbit_per_s,
            disk_link: self.disk_link,
        }
    }
}

/// The rows of a file, in its order.
pub fn read(cloud: &CloudId, file: &str, table: &Table) -> Result<Vec<HostType>, HardwareError> {
    let text = |name: &str| -> Result<Vec<&str>, HardwareError> { Ok(table.column(name)?.collect()) };
    let (names, vcpus, threads) = (text("instance_type")?, text("vcpus")?, text("threads_per_core")?);
    let (memory, nvme, network) = (text("memory_mib")?, text("local_nvme_gb")?, text("host_network_gbit_per_s")?);
    let (processors, architectures, sold) = (text("processor")?, text("cpu_architecture")?, text("sold_as")?);
    let (notes, sources, dates) = (text("notes")?, text("source")?, text("as_of")?);
    let (disk_rates, disk_reads) = (newer(table, "disk_mb_per_s")?, newer(table, "disk_reads_per_s")?);
    let mut hosts = Vec::with_capacity(table.rows());
    for row in 0..table.rows() {
        let broken = |detail: String| HardwareError::Row { file: file.to_owned(), row: row + 1, detail };
        let number =
            |name: &str, cell: &str| optional(cell).map_err(|()| broken(format!("{name}: `{cell}` is not a number")));
        let whole = |name: &str, cell: &str, most: u32| {
            let found = cell.parse().ok().filter(|count| (1..=most).contains(count));
            found.ok_or_else(|| broken(format!("{name}: `{cell}` is not a whole number from 1 to {most}")))
        };
        hosts.push(HostType {
            cloud: cloud.clone(),
            name: names[row].to_owned(),
            vcpus: whole("vcpus", vcpus[row], 4096)?,
            threads_per_core: whole("threads_per_core", threads[row], 8)?,
            memory: number("memory_mib", memory[row])?.map_or(Bytes(0.0), Bytes::from_mib),
            local_nvme: number("local_nvme_gb", nvme[row])?.map(Bytes::from_gb),
            host_network_gbit_per_s: number("host_network_gbit_per_s", network[row])?,
            disk_link: DiskLink::new(
                number("disk_mb_per_s", disk_rates[row])?,
                number("disk_reads_per_s", disk_reads[row])?,
            ),
            processor: processors[row].to_owned(),
            cpu_architecture: architectures[row].to_owned(),
            sold_as: SoldAs::parse(sold[row]).map_err(broken)?,
            notes: notes[row].to_owned(),
            source: sources[row].to_owned(),
            as_of: dates[row].to_owned(),
        });
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hardware;

    const HEAD: &str = "instance_type,vcpus,threads_per_core,memory_mib,local_nvme_gb,host_network_gbit_per_s,processor,cpu_architecture,\
        sold_as,notes,source,as_of\n";

    fn rows(text: &str) -> Result<Vec<HostType>, HardwareError> {
        read(&CloudId::new("x"), "hosts/x", &Table::from_csv(&format!("{HEAD}{text}")).unwrap())
    }

    #[test]
    fn a_row_says_what_is_unknown_and_a_wrong_one_where_it_stands() {
        let made = rows("a,16,2,32768,,,,x86_64,spot,,s,2026-01-01\n").unwrap();
        assert_eq!((made[0].vcpus, made[0].local_nvme, made[0].host_network_gbit_per_s), (16, None, None));
        assert!(made[0].sold_as.spot && !made[0].sold_as.on_demand);
        let wrong = rows("a,0,2,32768,,,,x86_64,spot,,s,2026-01-01\n").unwrap_err().to_string();
        assert!(wrong.contains("hosts/x.csv, row 1: vcpus"), "{wrong}");
    }

    #[test]
    fn machines_without_gpu_stand_apart_from_those_with_one() {
        let hardware = Hardware::embedded().unwrap();
        assert!(hardware.hosts().len() >= 8);
        for host in hardware.hosts() {
            assert!(hardware.find_instance(&host.cloud, &host.name).is_none(), "{}", host.name);
            assert!(!host.source.is_empty() && !host.as_of.is_empty() && host.memory.0 > 0.0, "{}", host.name);
        }
    }
}
