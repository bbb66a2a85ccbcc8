//! The host beside the GPU: work like a data loader's on its cores, and how fast the folder of the data can be read.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::Bytes;

/// What the host was measured to do; `None` where it could not be, with a line in `waived`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRates {
    /// As `/proc/cpuinfo` names it.
    pub processor: Option<String>,
    pub cores: u32,
    /// Inflating and shuffling on one core, and on all at once: bytes of samples a second.
    pub decode_bytes_per_second_one_core: Option<f64>,
    pub decode_bytes_per_second: Option<f64>,
    /// Reading the files of the data folder, several at a time.
    pub read_bytes_per_second: Option<f64>,
    /// What was read, and whether it came from the memory of an earlier reading cannot be told: the size tells.
    pub read_bytes: Option<f64>,
    pub waived: Vec<String>,
}

impl HostRates {
    pub fn not_measured(reason: &str) -> Self {
        Self { waived: vec![format!("host: {reason}")], ..Self::default() }
    }
}

/// A sample of a training set: the size of a JPEG of ImageNet once decoded at 224 x 224.
const SAMPLE_BYTES: usize = 224 * 224 * 3;
/// Loaders read a few files at once; more than this gains little on one disk. Judged.
const READERS: usize = 8;
/// Buffer of one reader.
const BUFFER: usize = 4 << 20;

/// Measures for about `seconds` each; `folder` is where the data lies.
pub fn measure(folder: Option<&Path>, seconds: f64) -> HostRates {
    let mut rates = HostRates { processor: processor(), ..HostRates::default() };
    let duration = Duration::from_secs_f64(seconds);
    if let Err(error) = loader_work(&mut rates, duration) {
        rates.waived.push(format!("loader work: {error}"));
    }
    match folder.map(|folder| read_rate(folder, duration)) {
        None => rates.waived.push("storage: no folder was named with --data".to_owned()),
        Some(Err(reason)) => rates.waived.push(format!("storage: {reason}")),
        Some(Ok((bytes, rate))) => (rates.read_bytes, rates.read_bytes_per_second) = (Some(bytes), Some(rate)),
    }
    rates
}

fn loader_work(rates: &mut HostRates, duration: Duration) -> Result<(), std::io::Error> {
    let cores = thread::available_parallelism()?.get();
    rates.cores = cores as u32;
    let packed = packed_sample()?;
    rates.decode_bytes_per_second_one_core = Some(decode(&packed, 1, duration)?);
    rates.decode_bytes_per_second = Some(decode(&packed, cores, duration)?);
    Ok(())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// Smooth values with noise, which shrink to about two thirds as photographs in PNG do.
fn packed_sample() -> Result<Vec<u8>, std::io::Error> {
    let mut noise = 1_u32;
    let values: Vec<u8> = (0..SAMPLE_BYTES)
        .map(|at| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((at / 64) as u8).wrapping_add((noise >> 27) as u8)
        })
        .collect();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&values)?;
    encoder.finish()
}

/// Bytes of decoded samples a second over `threads` threads.
fn decode(packed: &[u8], threads: usize, duration: Duration) -> Result<f64, std::io::Error> {
    let begun = Instant::now();
    let bytes: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| decode_until(packed, begun, duration))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(std::io::Error::other("a worker thread panicked"))))
            .sum::<Result<usize, _>>()
    })?;
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}

/// Inflates a sample, turns its rows into planes and shuffles an index, over and over.
fn decode_until(packed: &[u8], begun: Instant, duration: Duration) -> Result<usize, std::io::Error> {
    let (mut values, mut planes) = (Vec::with_capacity(SAMPLE_BYTES), vec![0_u8; SAMPLE_BYTES]);
    let mut order: Vec<u32> = (0..1024).collect();
    let (mut done, mut random) = (0, 12345_u32);
    while begun.elapsed() < duration {
        values.clear();
        ZlibDecoder::new(packed).read_to_end(&mut values)?;
        let plane = SAMPLE_BYTES / 3;
        for (at, pixel) in values.chunks_exact(3).enumerate() {
            (planes[at], planes[plane + at], planes[2 * plane + at]) = (pixel[0], pixel[1], pixel[2]);
        }
        for last in (1..order.len()).rev() {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            order.swap(last, (random >> 8) as usize % (last + 1));
        }
        done += std::hint::black_box(&planes).len();
        std::hint::black_box(&order);
    }
    Ok(done)
}

/// Bytes read and their rate.
fn read_rate(folder: &Path, duration: Duration) -> Result<(f64, f64), String> {
    let files = files(folder)?;
    let next = std::sync::atomic::AtomicUsize::new(0);
    let begun = Instant::now();
    let read = |buffer: &mut [u8]| {
        let mut bytes = 0;
        while begun.elapsed() < duration {
            let Some(path) = files.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) else { break };
            // A file that went away or may not be read is no part of the rate.
            let Ok(mut file) = File::open(path) else { continue };
            while let Ok(count) = file.read(buffer) {
                bytes += count;
                if count == 0 || begun.elapsed() >= duration {
                    break;
                }
            }
        }
        bytes
    };
    let bytes: usize = thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(|| read(&mut vec![0; BUFFER]))).collect();
        readers
            .into_iter()
            .map(|reader| reader.join().map_err(|_| "a reader thread panicked".to_owned()))
            .sum::<Result<usize, String>>()
    })?;
    if bytes < LEAST_READ {
        return Err(format!("{} has {} to read, too little for a rate", folder.display(), Bytes(bytes as f64)));
    }
    Ok((bytes as f64, bytes as f64 / begun.elapsed().as_secs_f64()))
}

/// Less than this is over before a rate is known. Judged.
const LEAST_READ: usize = 16 << 20;
/// Enough to read for longer than any budget.
const MOST_FILES: usize = 100_000;

/// Files under the folder, largest first, links not followed.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut open = vec![folder.to_owned()];
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    while let Some(next) = open.pop() {
        let entries = match fs::read_dir(&next) {
            Ok(entries) => entries,
            Err(error) if next == folder => return Err(format!("{}: {error}", folder.display())),
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    found.push((entry.metadata().map_or(0, |metadata| metadata.len()), entry.path()));
                }
                _ => {}
            }
        }
        if found.len() > MOST_FILES {
            break;
        }
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_decode_and_a_folder_is_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/shard"), vec![7; LEAST_READ]).unwrap();
        let rates = measure(Some(folder.path()), 2.0);
        assert!(rates.cores >= 1 && rates.waived.is_empty(), "{:?}", rates.waived);
        assert!(rates.decode_bytes_per_second_one_core.unwrap() > 1e6);
        assert_eq!(rates.read_bytes, Some(LEAST_READ as f64));
        assert!(rates.read_bytes_per_second.unwrap() > 0.0);
    }

    #[test]
    fn damaged_samples_are_no_rate() {
        let packed = packed_sample().unwrap();
        assert!(decode(&packed[..packed.len() / 2], 2, Duration::from_mins(1)).is_err());
    }

    #[test]
    fn an_empty_or_missing_folder_is_waived_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let reason = |path: &Path| measure(Some(path), 0.01).waived.join("; ");
        assert!(reason(folder.path()).contains("too little for a rate"));
        assert!(reason(&folder.path().join("none")).starts_with("storage: "));
        assert!(measure(None, 0.01).waived[0].contains("--data"));
    }
}
