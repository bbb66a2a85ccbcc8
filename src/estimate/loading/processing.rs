//! `Work`: how long machines take for samples that need no GPU, and what bounds them: their cores, their network or storage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loading::constants as c;
use crate::loading::feeding::{cores, sound_or_film};
use crate::loading::storage::StorageRate;
use gpuplan_hardware::Host;
use gpuplan_units::{Band, Bytes, Seconds};
use gpuplan_workload::assumption::{Assumption, SampleWork};
use gpuplan_workload::{DataKind, Processing, Storage};

/// 90th percentile of the time over the best guess, and the best guess over the 10th. Judged: cores of two generations differ by
/// as much, and a rate of one is taken for all; what takes longest of reading, working and storing is nearly all of it.
const SPREAD: f64 = 1.4;
/// Root file system beside the samples of a machine, on the same disk. Bytes.
pub const ROOT: f64 = 100e9;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkBound {
    Cpu,
    Network,
    Storage,
}

impl WorkBound {
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Network => "network",
            Self::Storage => "storage",
        }
    }
}

/// Seconds of one machine for its part; working, reading and storing run beside each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Cores alone that the machine is worth.
    pub cores: f64,
    pub computing: f64,
    pub reading: f64,
    pub writing: f64,
    pub bound: WorkBound,
}

impl Work {
    /// On so many machines, which share the samples. `None`: nobody says what a sample costs, or what the disk reaches.
    pub fn on(host: &Host, work: &Processing, machines: u32) -> Option<Self> {
        let threads = f64::from(host.vcpus);
        let (machines, cores) = (f64::from(machines), cores(host, threads));
        let samples = work.samples / machines;
        let computing = samples * cpu_seconds(work)? / cores;
        let network = network_rate(host);
        let store = |object: f64| StorageRate::bucket(host.network_gbit_per_s, threads, machines, object);
        let (mut reading, mut bound_of_reading) = (0.0, WorkBound::Storage);
        if let Some(bytes) = work.bytes_of_a_sample() {
            let rate = match work.reading.storage {
                Storage::ObjectStore => store(bytes),
                Storage::Disk | Storage::NetworkDisk => {
                    StorageRate::network_disk(host, &work.reading, Bytes(work.reads.0 / machines + ROOT))?
                }
            };
            let read = rate.read(samples, bytes, work.reading.files());
            reading = read.seconds;
            if !read.by_reads && rate.bytes_per_second >= network {
                bound_of_reading = WorkBound::Network;
            }
        }
        let rate = store(0.0).bytes_per_second;
        let writing = work.writes.0 / machines / rate;
        let bound_of_writing = if rate >= network { WorkBound::Network } else { WorkBound::Storage };
        let parts = [(computing, WorkBound::Cpu), (reading, bound_of_reading), (writing, bound_of_writing)];
        let bound = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(WorkBound::Cpu, |(_, bound)| bound);
        Some(Self { cores, computing, reading, writing, bound })
    }

    pub fn seconds(&self) -> Band {
        Band::around(self.computing.max(self.reading).max(self.writing), 1.0 / SPREAD, SPREAD)
    }
}

/// What one program gets of the network of a machine. Bytes/s.
fn network_rate(host: &Host) -> f64 {
    host.network_gbit_per_s.unwrap_or(c::UNKNOWN_HOST_GBIT) * 1e9 / 8.0 * c::NETWORK_SHARE
}

/// Seconds of one core for one sample, as stated or by its kind; `None` where neither tells.
pub fn cpu_seconds(work: &Processing) -> Option<f64> {
    if let Some(stated) = work.cpu_per_sample {
        return Some(stated.0);
    }
    let area = (work.pixels / c::SIDE).powi(2);
    if let Some(cost) = sound_or_film(&work.reading) {
        return Some(cost);
    }
    let bytes = work.bytes_of_a_sample()?;
    match work.reading.kind? {
        DataKind::Jpeg => Some(bytes * c::JPEG_SECONDS_A_BYTE + area * c::AUGMENT_SECONDS),
        DataKind::Webp => Some(bytes * c::WEBP_SECONDS_A_BYTE + area * c::AUGMENT_SECONDS),
        DataKind::Text => Some(bytes * c::TEXT_SECONDS_A_BYTE),
        DataKind::Tokens | DataKind::Raw => Some(bytes * c::COPY_SECONDS_A_BYTE),
        DataKind::Audio | DataKind::Video => None,
    }
}

/// What the time rests on beside what was stated.
pub fn assumed(work: &Processing) -> Option<Assumption> {
    let seconds = Seconds(cpu_seconds(work).filter(|_| work.cpu_per_sample.is_none())?);
    let bytes = Bytes(work.bytes_of_a_sample().unwrap_or(0.0));
    let work = match work.reading.kind {
        Some(format @ (DataKind::Jpeg | DataKind::Webp)) => {
            SampleWork::CompressedImage { format, bytes, side_pixels: work.pixels }
        }
        Some(DataKind::Text) => SampleWork::Text { bytes: Some(bytes) },
        Some(DataKind::Audio) => SampleWork::Audio,
        Some(DataKind::Video) => SampleWork::Video,
        Some(DataKind::Tokens | DataKind::Raw) | None => SampleWork::Copied,
    };
    Some(Assumption::ProcessingCpuPerSample { seconds, work })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{CloudId, Hardware};
    use gpuplan_workload::file::WorkloadFile;

    const IMAGES: &str = "[data]\nfiles = \"shards\"\nkind = \"jpeg\"\nsize = \"150GB\"\nsamples = 1281167\n[processing]\nwrites = \"170GB\"\n";

    fn work(text: &str, cloud: &str, name: &str, machines: u32) -> Work {
        let hardware = Hardware::embedded().unwrap();
        let host = hardware.host(hardware.find_host(&CloudId::new(cloud), name).unwrap());
        let processing = WorkloadFile::parse(text).unwrap().resolve_processing().unwrap().processing;
        Work::on(&host.host(), &processing, machines).unwrap()
    }

    #[test]
    fn cores_bound_until_they_are_so_many_that_the_network_does() {
        // 4.6 ms x 1,281,167 on 60 cores of a thread each: 98 s; half of 32 Gb/s stores 170 GB in 85 s.
        let one = work(IMAGES, "gcp", "t2d-standard-60", 1);
        assert_eq!((one.cores, one.bound), (60.0, WorkBound::Cpu));
        assert!((one.computing - 98.0).abs() < 2.0 && (one.writing - 85.0).abs() < 1.0, "{one:?}");
        // Twice as many machines take half as long, and a thread that shares its core adds a fifth of one.
        let two = work(IMAGES, "gcp", "t2d-standard-60", 2);
        assert!((two.computing * 2.0 - one.computing).abs() < 1e-9);
        assert_eq!(work(IMAGES, "gcp", "c2d-highcpu-112", 1).cores, 56.0 + 0.2 * 56.0);
        let fast = IMAGES.replace("writes", "cpu_seconds_per_sample = 0.001\nwrites");
        assert_eq!(work(&fast, "gcp", "t2d-standard-60", 1).bound, WorkBound::Network);
    }

    #[test]
    fn small_files_of_a_bucket_wait_for_its_requests_however_many_machines_ask() {
        let small = "[data]\nfiles = \"one-each\"\nsize = \"10GB\"\nsamples = 10000000\n[processing]\ncpu_seconds_per_sample = 0.0001\n";
        let (few, many) = (work(small, "gcp", "t2d-standard-60", 10), work(small, "gcp", "t2d-standard-60", 60));
        assert_eq!((few.bound, many.bound), (WorkBound::Storage, WorkBound::Storage));
        // 5,500 a second, and no more.
        assert!(
            (many.reading - 1e7 / 5500.0).abs() < 1.0 && (few.reading - many.reading).abs() < 1.0,
            "{few:?} {many:?}"
        );
        let shards = small.replace("one-each", "shards");
        assert!(work(&shards, "gcp", "t2d-standard-60", 10).reading < 1.0);
    }

    #[test]
    fn a_network_disk_has_the_limits_of_its_kind() {
        let disk = IMAGES.replace("[data]", "[data]\nstorage = \"network-disk\"");
        let one = work(&disk, "aws", "c6a.24xlarge", 1);
        // gp3 as it comes: 125 MiB/s.
        assert!(
            (one.reading - 150e9 / (125.0 * 1_048_576.0)).abs() < 1.0 && one.bound == WorkBound::Storage,
            "{one:?}"
        );
    }
}
