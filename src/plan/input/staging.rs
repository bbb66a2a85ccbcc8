//! How long a launch takes to bring the data to each machine, and what that rests on.

use crate::input::disks::fits_on_local_disks;
use gpuplan_estimate::input_constants::{NETWORK_SHARE, UNKNOWN_HOST_GBIT};
use gpuplan_hardware::InstanceType;
use gpuplan_units::{Bytes, Seconds};
use gpuplan_workload::{DataSet, Storage};

/// What one program is taken to reach, whatever the network: 10 Gb/s, for which Amazon S3's performance design patterns (user guide)
/// advise 15 requests at once. The agent has twice as many under way and two threads to decrypt them; not measured yet. Bytes/s.
const PROGRAM: f64 = 1.25e9;
/// gp3 without more throughput than it comes with: 125 MiB/s (EBS user guide, "General Purpose SSD volumes"). Bytes/s.
const GP3: f64 = 125.0 * 1_048_576.0;
/// Hyperdisk Balanced without more throughput than it comes with: 140 MiB/s (Compute Engine, "About Hyperdisk Balanced"), and the
/// same for balanced persistent disks, which grow faster as they grow larger. Bytes/s.
const GOOGLE_DISK: f64 = 140.0 * 1_048_576.0;

/// Before the first step, on every machine that a run gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staging {
    pub bytes: Bytes,
    pub bytes_per_second: f64,
    /// What holds it up.
    pub limit: StagingLimit,
    pub is_on_local_disk: bool,
}

/// What holds up bringing the data to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagingLimit {
    /// The share of the machine's network that fetching gets.
    Network,
    /// The same, where the machine's network is unknown.
    AssumedNetwork,
    /// What one program fetches, whatever the network.
    Program,
    /// An EBS gp3 disk without more throughput than it comes with.
    Gp3Disk,
    NetworkDisk,
    /// The machine's link to its network disks.
    DiskLink,
}

impl Staging {
    /// `None`: nothing is brought, or it is mounted and read where it lies.
    pub fn new(instance: &InstanceType, data: Option<&DataSet>) -> Option<Self> {
        let data = data.filter(|data| data.location.is_some() && data.reading.storage != Storage::ObjectStore)?;
        let network = match instance.host_network_gbit_per_s {
            Some(gbit) => (gbit * 1e9 / 8.0 * NETWORK_SHARE, StagingLimit::Network),
            None => (UNKNOWN_HOST_GBIT * 1e9 / 8.0 * NETWORK_SHARE, StagingLimit::AssumedNetwork),
        };
        let is_on_local_disk = fits_on_local_disks(instance, data);
        let disk = match instance.cloud.as_str() {
            _ if is_on_local_disk => None,
            "aws" => Some((GP3, StagingLimit::Gp3Disk)),
            "gcp" => Some((GOOGLE_DISK, StagingLimit::NetworkDisk)),
            _ => None,
        };
        let link = instance
            .disk_link
            .filter(|_| !is_on_local_disk)
            .map(|link| (link.bytes_per_second, StagingLimit::DiskLink));
        let limits = [Some(network), Some((PROGRAM, StagingLimit::Program)), disk, link];
        let (bytes_per_second, limit) = limits.into_iter().flatten().min_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(Self { bytes: data.size, bytes_per_second, limit, is_on_local_disk })
    }

    pub fn seconds(self) -> Seconds {
        Seconds(self.bytes.0 / self.bytes_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::LoaderSettings;

    #[test]
    fn the_slowest_of_network_program_and_disk_decides() {
        let hardware = Hardware::embedded().unwrap();
        let staging = |cloud: &str, name: &str, data: Option<&DataSet>| {
            let instance =
                hardware.instances().iter().find(|one| one.cloud.as_str() == cloud && one.name == name).unwrap();
            Staging::new(instance, data)
        };
        let data = DataSet { size: Bytes(1e12), location: Some("s3://b".to_owned()), ..DataSet::default() };
        // 3,200 Gb/s and 30 TB of local disks.
        let large = staging("aws", "p5.48xlarge", Some(&data)).unwrap();
        assert_eq!((large.limit, large.seconds().0, large.is_on_local_disk), (StagingLimit::Program, 800.0, true));
        // 600 GB of local disk; 250 GB, and a link to network disks that sustains less than gp3 gives.
        let middling = staging("aws", "g5.4xlarge", Some(&data)).unwrap();
        assert_eq!((middling.limit, middling.is_on_local_disk), (StagingLimit::Gp3Disk, false));
        assert!((middling.seconds().0 - 1e12 / 131_072_000.0).abs() < 1.0);
        let small = staging("aws", "g5.xlarge", Some(&data)).unwrap();
        assert_eq!((small.limit, small.seconds().0), (StagingLimit::DiskLink, 1e12 / 87.5e6));
        let fits = staging("aws", "g5.xlarge", Some(&DataSet { size: Bytes(1e11), ..data.clone() })).unwrap();
        assert_eq!((fits.limit, fits.is_on_local_disk), (StagingLimit::Network, true));
        assert_eq!(staging("aws", "p5.48xlarge", Some(&DataSet { location: None, ..data.clone() })), None);
        assert_eq!(staging("aws", "p5.48xlarge", None), None);
        let reading = LoaderSettings { storage: Storage::ObjectStore, ..LoaderSettings::default() };
        assert_eq!(staging("aws", "p5.48xlarge", Some(&DataSet { reading, ..data })), None);
    }
}
