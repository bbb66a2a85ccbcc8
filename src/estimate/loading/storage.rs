//! `StorageRate`: what a disk or a store gives a loader, by kind and size.

use crate::loading::constants as c;
use gpuplan_hardware::Host;
use gpuplan_units::Bytes;
use gpuplan_workload::{DiskKind, FileLayout, LoaderSettings};

/// Bytes and reads of a second, as far as both are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StorageRate {
    pub name: &'static str,
    pub bytes_per_second: f64,
    pub reads_per_second: f64,
    /// Bytes that count as one read.
    read: f64,
    /// Reads that find a file before the first of its bytes.
    opening: f64,
}

/// Reading the samples of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    pub seconds: f64,
    pub from: &'static str,
    /// More reads than it answers, rather than more bytes than it moves.
    pub by_reads: bool,
}

impl StorageRate {
    /// The disks that come with a machine. They are striped.
    pub fn local_nvme(size: Bytes) -> Self {
        Self {
            name: "local NVMe",
            bytes_per_second: (size.0 * c::NVME_BYTES_A_BYTE).min(c::NVME_MOST_BYTES),
            reads_per_second: (size.0 * c::NVME_READS_A_BYTE).min(c::NVME_MOST_READS),
            read: c::DISK_READ,
            opening: 1.0,
        }
    }

    /// A network disk of `size`, or what the machine's link to its disks sustains where that is less. `None`: nobody says what the disks of this cloud reach, or one was named without what was bought.
    pub fn network_disk(host: &Host, reading: &LoaderSettings, size: Bytes) -> Option<Self> {
        let cloud = host.cloud.as_str();
        let kind = reading.disk.filter(|kind| limits(*kind).cloud == cloud).or_else(|| usual_disk(cloud))?;
        let limits = limits(kind);
        let gib = size.gib();
        let grown = |(base, a_gib, most): (f64, f64, f64), bought: Option<f64>| {
            let comes = (base + a_gib * gib).min(most);
            bought.map_or(comes, |bought| bought.min(most).max(comes))
        };
        let reads_per_second = grown(limits.reads, reading.disk_iops);
        let mebibytes = grown(limits.mebibytes, reading.disk_bytes_per_second.map(|bytes| bytes / MEBIBYTE));
        // Of io2 a program gets what its reads carry.
        let bytes_per_second = if kind == DiskKind::Io2 {
            (reads_per_second * c::DISK_READ).min(mebibytes * MEBIBYTE)
        } else {
            mebibytes * MEBIBYTE
        };
        let disk = Self { name: limits.name, bytes_per_second, reads_per_second, read: c::DISK_READ, opening: 1.0 };
        let linked = host.disk_link.map_or(disk, |link| Self {
            name: if link.bytes_per_second < bytes_per_second || link.reads_per_second < reads_per_second {
                LINK
            } else {
                disk.name
            },
            bytes_per_second: bytes_per_second.min(link.bytes_per_second),
            reads_per_second: reads_per_second.min(link.reads_per_second),
            ..disk
        });
        (reads_per_second > 0.0).then_some(linked)
    }

    /// A bucket, read over `connections` at a time, each waiting for its answer. `nodes` machines share its requests.
    pub fn bucket(network_gbit_per_s: Option<f64>, connections: f64, nodes: f64, object: f64) -> Self {
        let network = network_gbit_per_s.unwrap_or(c::UNKNOWN_HOST_GBIT) * 1e9 / 8.0 * c::NETWORK_SHARE;
        let waiting = c::STORE_LATENCY + object / c::STORE_CONNECTION;
        Self {
            name: "object store",
            bytes_per_second: network.min(connections * c::STORE_CONNECTION),
            reads_per_second: (connections / waiting).min(c::STORE_REQUESTS / nodes),
            read: f64::INFINITY,
            opening: 1.0,
        }
    }

    /// What was measured of a folder, whatever lies under it.
    pub fn measured(bytes_per_second: f64) -> Self {
        Self {
            name: "the measured folder",
            bytes_per_second,
            reads_per_second: f64::INFINITY,
            read: c::DISK_READ,
            opening: 0.0,
        }
    }

    /// Seconds for `samples` of `bytes` each. In shuffled order every one is found and read by itself; shards are read through.
    pub fn read(&self, samples: f64, bytes: f64, files: FileLayout) -> Read {
        let reads = match files {
            FileLayout::OneEach => samples * (self.opening + (bytes / self.read).ceil()).max(1.0),
            FileLayout::Shards => samples * bytes / self.read,
        };
        let (moving, finding) = (samples * bytes / self.bytes_per_second, reads / self.reads_per_second);
        Read { seconds: moving.max(finding), from: self.name, by_reads: finding > moving }
    }
}

/// What bounds a disk that the machine cannot keep up with.
const LINK: &str = "the machine's link to its disks";

const MEBIBYTE: f64 = 1_048_576.0;

/// What a kind of network disk reaches: what every disk has, what a GiB adds, and the most of one disk.
struct DiskLimits {
    name: &'static str,
    cloud: &'static str,
    reads: (f64, f64, f64),
    mebibytes: (f64, f64, f64),
}

fn limits(kind: DiskKind) -> DiskLimits {
    let (name, cloud, reads, mebibytes) = match kind {
        // EBS user guide, "General Purpose SSD volumes"; the most as AWS's prescriptive guidance lists it. AWS has raised it since.
        DiskKind::Gp3 => ("gp3 disk", "aws", (3000.0, 0.0, 16_000.0), (125.0, 0.0, 1000.0)),
        // The same, io2 Block Express. Its reads are bought, so it has none by itself.
        DiskKind::Io2 => ("io2 disk", "aws", (0.0, 0.0, 256_000.0), (4000.0, 0.0, 4000.0)),
        // Compute Engine, "About Persistent Disk performance": 6 and 30 reads and 0.28 and 0.48 MiB/s a GiB above what each has.
        DiskKind::PdBalanced => ("pd-balanced disk", "gcp", (3000.0, 6.0, 80_000.0), (140.0, 0.28, 1200.0)),
        DiskKind::PdSsd => ("pd-ssd disk", "gcp", (6000.0, 30.0, 100_000.0), (240.0, 0.48, 1200.0)),
        // Compute Engine, "About Hyperdisk Balanced".
        DiskKind::HyperdiskBalanced => {
            ("hyperdisk-balanced disk", "gcp", (3000.0, 0.0, 160_000.0), (140.0, 0.0, 2400.0))
        }
        // Azure, "Premium SSD v2": 3,000 reads and 125 MB/s free, up to 80,000 and 1,200; MB are taken for MiB.
        DiskKind::PremiumSsdV2 => ("premium-ssd-v2 disk", "azure", (3000.0, 0.0, 80_000.0), (125.0, 0.0, 1200.0)),
    };
    DiskLimits { name, cloud, reads, mebibytes }
}

/// The disk that a bill counts where none is named.
fn usual_disk(cloud: &str) -> Option<DiskKind> {
    match cloud {
        "aws" => Some(DiskKind::Gp3),
        "gcp" => Some(DiskKind::HyperdiskBalanced),
        "azure" => Some(DiskKind::PremiumSsdV2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{Hardware, InstanceType};

    fn instance(hardware: &Hardware, cloud: &str, name: &str) -> InstanceType {
        hardware.instances().iter().find(|one| one.cloud.as_str() == cloud && one.name == name).unwrap().clone()
    }

    #[test]
    fn a_disk_reaches_what_its_kind_size_and_purchase_allow() {
        let hardware = Hardware::embedded().unwrap();
        let (aws, gcp) = (instance(&hardware, "aws", "p4d.24xlarge"), instance(&hardware, "gcp", "a2-highgpu-8g"));
        let rate = |instance: &InstanceType, reading: LoaderSettings, gib: f64| {
            StorageRate::network_disk(&instance.host(), &reading, Bytes(gib * 1_073_741_824.0))
        };
        let plain = rate(&aws, LoaderSettings::default(), 1000.0).unwrap();
        assert_eq!((plain.bytes_per_second, plain.reads_per_second), (125.0 * MEBIBYTE, 3000.0));
        let bought = LoaderSettings {
            disk_iops: Some(1e6),
            disk_bytes_per_second: Some(500.0 * MEBIBYTE),
            ..LoaderSettings::default()
        };
        let bought = rate(&aws, bought, 1000.0).unwrap();
        assert_eq!((bought.bytes_per_second, bought.reads_per_second), (500.0 * MEBIBYTE, 16_000.0));
        let ssd = LoaderSettings { disk: Some(DiskKind::PdSsd), ..LoaderSettings::default() };
        let (small, large) = (rate(&gcp, ssd, 100.0).unwrap(), rate(&gcp, ssd, 1000.0).unwrap());
        assert_eq!(
            (small.reads_per_second, large.reads_per_second, large.bytes_per_second),
            (9000.0, 36_000.0, 720.0 * MEBIBYTE)
        );
        // io2 without its reads says nothing; a disk of another cloud is that cloud's.
        assert_eq!(rate(&aws, LoaderSettings { disk: Some(DiskKind::Io2), ..LoaderSettings::default() }, 1000.0), None);
        assert_eq!(rate(&aws, ssd, 1000.0).unwrap().name, "gp3 disk");
    }

    #[test]
    fn a_small_machine_does_not_get_what_its_disk_reaches() {
        let hardware = Hardware::embedded().unwrap();
        let rate = |name: &str, reading: LoaderSettings| {
            StorageRate::network_disk(&instance(&hardware, "aws", name).host(), &reading, Bytes::from_gib(1000.0))
                .unwrap()
        };
        // 87.5 MB/s sustained of a g5.xlarge, beside 125 MiB/s of the smallest gp3.
        let small = rate("g5.xlarge", LoaderSettings::default());
        assert_eq!((small.bytes_per_second, small.name), (87.5e6, LINK));
        assert_eq!(rate("g5.48xlarge", LoaderSettings::default()).name, "gp3 disk");
        // Bought, and more than the link carries.
        let bought =
            LoaderSettings { disk: Some(DiskKind::Io2), disk_iops: Some(200_000.0), ..LoaderSettings::default() };
        assert_eq!(rate("p4d.24xlarge", bought).reads_per_second, 80_000.0);
        // Where nobody says what the machine sustains, the disk alone counts.
        assert_eq!(instance(&hardware, "gcp", "a2-highgpu-8g").disk_link, None);
    }

    #[test]
    fn small_files_wait_for_reads_and_shards_for_bytes() {
        let hardware = Hardware::embedded().unwrap();
        let machine = instance(&hardware, "aws", "p4d.24xlarge");
        let disk = StorageRate::network_disk(&machine.host(), &LoaderSettings::default(), Bytes(1e12)).unwrap();
        // 3,000 reads a second are 1,500 files; 8 kB each are nothing of 125 MiB/s.
        let small = disk.read(1500.0, 8e3, FileLayout::OneEach);
        assert!(small.by_reads && (small.seconds - 1.0).abs() < 1e-9, "{small:?}");
        let shards = disk.read(1500.0, 8e3, FileLayout::Shards);
        assert!(!shards.by_reads && shards.seconds < 0.1, "{shards:?}");
        // A tenth of a second for each object and connection: 96 of them get 948 small objects a second, and streams fill them.
        let store = StorageRate::bucket(machine.host_network_gbit_per_s, 96.0, 1.0, 1e5);
        let objects = store.read(948.8, 1e5, FileLayout::OneEach);
        assert!(objects.by_reads && (objects.seconds - 1.0).abs() < 0.01, "{objects:?}");
        assert!(store.read(948.8, 1e5, FileLayout::Shards).seconds < 0.1);
        // 64 machines share the requests of the bucket.
        assert!(StorageRate::bucket(machine.host_network_gbit_per_s, 960.0, 64.0, 1e5).reads_per_second < 86.0);
    }
}
