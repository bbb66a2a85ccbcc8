//! How long a launch takes to bring the data to each machine, and what that rests on.

use crate::input::disks::fits_on_local_disks;
use crate::input::store_path::{STAGING, StoreLimit, StorePath};
use gpuplan_hardware::InstanceType;
use gpuplan_units::{Bytes, Seconds};
use gpuplan_workload::{DataSet, Storage};

/// Before the first step, on every machine that a run gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staging {
    pub bytes: Bytes,
    pub bytes_per_second: f64,
    /// What holds it up.
    pub limit: StoreLimit,
    pub is_on_local_disk: bool,
}

impl Staging {
    /// `None`: nothing is brought, or it is mounted and read where it lies.
    pub fn new(instance: &InstanceType, data: Option<&DataSet>) -> Option<Self> {
        let data = data.filter(|data| data.location.is_some() && data.reading.storage != Storage::ObjectStore)?;
        let path = StorePath::new(instance, fits_on_local_disks(instance, data), STAGING);
        let StorePath { bytes_per_second, limit, is_on_local_disk } = path;
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
        assert_eq!((large.limit, large.seconds().0, large.is_on_local_disk), (StoreLimit::Program, 800.0, true));
        // 600 GB of local disk; 250 GB, and a link to network disks that sustains less than gp3 gives.
        let middling = staging("aws", "g5.4xlarge", Some(&data)).unwrap();
        assert_eq!((middling.limit, middling.is_on_local_disk), (StoreLimit::Gp3Disk, false));
        assert!((middling.seconds().0 - 1e12 / 131_072_000.0).abs() < 1.0);
        let small = staging("aws", "g5.xlarge", Some(&data)).unwrap();
        assert_eq!((small.limit, small.seconds().0), (StoreLimit::DiskLink, 1e12 / 87.5e6));
        let fits = staging("aws", "g5.xlarge", Some(&DataSet { size: Bytes(1e11), ..data.clone() })).unwrap();
        assert_eq!((fits.limit, fits.is_on_local_disk), (StoreLimit::LocalDisk, true));
        assert_eq!(staging("aws", "p5.48xlarge", Some(&DataSet { location: None, ..data.clone() })), None);
        assert_eq!(staging("aws", "p5.48xlarge", None), None);
        let reading = LoaderSettings { storage: Storage::ObjectStore, ..LoaderSettings::default() };
        assert_eq!(staging("aws", "p5.48xlarge", Some(&DataSet { reading, ..data })), None);
    }
}
