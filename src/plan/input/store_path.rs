//! `StorePath`: how fast a machine exchanges files with a store: by its front network and its disks, never by the network that
//! joins its GPUs.

use gpuplan_estimate::input_constants::{NETWORK_SHARE, STORE_CONNECTION, UNKNOWN_HOST_GBIT};
use gpuplan_estimate::storage::StorageRate;
use gpuplan_hardware::InstanceType;
use gpuplan_units::Bytes;

/// What one program is taken to stage, whatever the network: 10 Gb/s, for which Amazon S3's performance design patterns (user guide)
/// advise 15 requests at once. The agent has twice as many under way and two threads to decrypt them; not measured yet. Bytes/s.
pub const STAGING: f64 = 1.25e9;
/// Parts of checkpoints that the agent has under way at once, to a store and back: `runstore::store::PARTS_AT_ONCE`.
pub const PARTS_AT_ONCE: f64 = 8.0;
/// What they carry together: each waits for its connection. Bytes/s.
pub const SAVING: f64 = PARTS_AT_ONCE * STORE_CONNECTION;
/// gp3 without more throughput than it comes with: 125 MiB/s (EBS user guide, "General Purpose SSD volumes"). Bytes/s.
const GP3: f64 = 125.0 * 1_048_576.0;
/// Hyperdisk Balanced without more throughput than it comes with: 140 MiB/s (Compute Engine, "About Hyperdisk Balanced"), and the
/// same for balanced persistent disks, which grow faster as they grow larger. Bytes/s.
const GOOGLE_DISK: f64 = 140.0 * 1_048_576.0;

/// Files on their way between the disks of one machine and a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StorePath {
    pub bytes_per_second: f64,
    /// What holds them up.
    pub limit: StoreLimit,
    pub is_on_local_disk: bool,
}

/// What holds up files on their way between a machine and a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreLimit {
    /// The share of the machine's front network that one program gets.
    Network,
    /// The same, where the machine's network is unknown.
    AssumedNetwork,
    /// What one program carries, whatever the network.
    Program,
    LocalDisk,
    /// An EBS gp3 disk without more throughput than it comes with.
    Gp3Disk,
    NetworkDisk,
    /// The machine's link to its network disks.
    DiskLink,
}

impl StorePath {
    /// Of a program that carries `program` bytes a second at most, for files on the disks that come with the machine or on a
    /// network disk.
    pub fn new(instance: &InstanceType, is_on_local_disk: bool, program: f64) -> Self {
        let network = match instance.front_network_gbit_per_s {
            Some(gbit) => (gbit * 1e9 / 8.0 * NETWORK_SHARE, StoreLimit::Network),
            None => (UNKNOWN_HOST_GBIT * 1e9 / 8.0 * NETWORK_SHARE, StoreLimit::AssumedNetwork),
        };
        let local = instance.local_nvme.filter(|_| is_on_local_disk);
        let local = local.map(|size| (StorageRate::local_nvme(size).bytes_per_second, StoreLimit::LocalDisk));
        let disk = match instance.cloud.as_str() {
            _ if is_on_local_disk => None,
            "aws" => Some((GP3, StoreLimit::Gp3Disk)),
            "gcp" => Some((GOOGLE_DISK, StoreLimit::NetworkDisk)),
            _ => None,
        };
        let link = instance.disk_link.filter(|_| !is_on_local_disk);
        let link = link.map(|link| (link.bytes_per_second, StoreLimit::DiskLink));
        let others = [Some((program, StoreLimit::Program)), local, disk, link].into_iter().flatten();
        let (bytes_per_second, limit) =
            others.fold(network, |least, other| if other.0 < least.0 { other } else { least });
        Self { bytes_per_second, limit, is_on_local_disk }
    }

    /// Of checkpoints, of which a machine writes so much at a time: onto its own disks where they hold it.
    pub fn of_checkpoints(instance: &InstanceType, written: Bytes) -> Self {
        Self::new(instance, super::disks::fits(instance, written), SAVING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;

    fn path(cloud: &str, name: &str, gigabytes: f64) -> (f64, StoreLimit) {
        let hardware = Hardware::embedded().unwrap();
        let mut all = hardware.instances().iter();
        let instance = all.find(|one| one.cloud.as_str() == cloud && one.name == name).unwrap();
        let path = StorePath::of_checkpoints(instance, Bytes::from_gb(gigabytes));
        (path.bytes_per_second, path.limit)
    }

    #[test]
    fn a_checkpoint_does_not_leave_by_the_network_of_the_gpus() {
        // 3,200 Gb/s and 30 TB of local disks: 8 parts at a time, 85 MB/s each.
        assert_eq!(path("aws", "p5.48xlarge", 1000.0), (680e6, StoreLimit::Program));
        assert_eq!(path("gcp", "a3-ultragpu-8g", 1000.0), (680e6, StoreLimit::Program));
        // Half of 10 Gb/s, where the disk of 250 GB reads 440 MB/s; more than that goes onto a network disk.
        assert_eq!(path("aws", "g5.xlarge", 200.0), (440e6, StoreLimit::LocalDisk));
        assert_eq!(path("aws", "g5.xlarge", 300.0), (87.5e6, StoreLimit::DiskLink));
        assert_eq!(path("aws", "p3.16xlarge", 300.0), (GP3, StoreLimit::Gp3Disk));
    }
}
