//! The disks of a machine: what it needs of network disks, and whether the data has its place on those that come with it.

use gpuplan_hardware::InstanceType;
use gpuplan_units::Bytes;
use gpuplan_workload::{DataSet, Storage};

/// Root disk, without the data: image, environment, logs. GiB. A deep learning image needs 45 to 100.
const ROOT_DISK_GIB: f64 = 100.0;
/// Of local disks, what data may take: the rest is for the file system, the work and checkpoints. Judged.
const SHARE_FOR_DATA: f64 = 0.9;

/// The disk that a machine needs: image, environment and logs, and the data where there is no local NVMe that holds it.
pub fn network_disk(instance: &InstanceType, data: Option<&DataSet>) -> Bytes {
    let elsewhere =
        data.filter(|data| data.reading.storage != Storage::ObjectStore && !fits_on_local_disks(instance, data));
    Bytes(ROOT_DISK_GIB * f64::from(1 << 30) + elsewhere.map_or(0.0, |data| data.size.0))
}

/// Whether the data has its place on disks that come with the machine.
pub fn fits_on_local_disks(instance: &InstanceType, data: &DataSet) -> bool {
    data.reading.storage == Storage::Disk && fits(instance, data.size)
}

/// Whether so much has its place on disks that come with the machine.
pub fn fits(instance: &InstanceType, size: Bytes) -> bool {
    instance.local_nvme.is_some_and(|nvme| size.0 <= nvme.0 * SHARE_FOR_DATA)
}
