//! The `[processing]` section of a workload file: read, checked, and completed with defaults that are listed.

use crate::assumption::Assumption;
use crate::data::{DataKind, Decoder, LoaderSettings, Storage};
use crate::file::resolve::data::{complete, reading};
use crate::file::scalar::{bytes, conflict, count, invalid, invalid_near, missing, shown, whole};
use crate::file::{
    CheckpointSection, DataSection, ModelSection, ProcessingSection, ServingSection, SweepSection, TrainingSection,
    WorkloadFile, WorkloadFileError,
};
use crate::processing::Processing;
use gpuplan_units::nearest::durations;
use gpuplan_units::{Bytes, Hours, Seconds};

/// Side of pictures where nothing is said: what classifiers are trained on.
const PIXELS: u32 = 224;
/// Work that is stored together where nothing is said. Judged: long beside starting a program, short beside an interruption.
const SHARD: Seconds = Seconds(600.0);
/// Longest work on one sample. Seconds.
const LONGEST: f64 = 86_400.0;
/// Longest work that is stored together.
const LONGEST_SHARD: Hours = Hours(24.0);

/// Work that is complete, and what nobody stated in it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedProcessing {
    pub processing: Processing,
    pub assumed: Vec<Assumption>,
}

impl WorkloadFile {
    /// For a file with `[processing]`, which trains and serves nothing.
    pub fn resolve_processing(&self) -> Result<ResolvedProcessing, WorkloadFileError> {
        contradictions(self)?;
        let (section, data) = (self.processing.clone().unwrap_or_default(), &self.data);
        let mut assumed = Vec::new();
        let samples = match count("processing.samples", section.samples.as_ref())? {
            Some(samples) => samples,
            None => count("data.samples", data.samples.as_ref())?.ok_or_else(|| {
                missing("processing.samples", "state how many files, pictures or texts are processed")
            })?,
        };
        let cpu_per_sample = seconds(&section, data)?;
        let reads = match (&section.reads, &data.size) {
            (Some(text), _) => bytes("processing.reads", text)?,
            (None, Some(text)) => bytes("data.size", text)?,
            (None, None) => {
                let bytes = Bytes(0.0);
                assumed.push(Assumption::ProcessingReads { bytes });
                bytes
            }
        };
        let writes = match &section.writes {
            Some(text) => bytes("processing.writes", text)?,
            None => {
                let bytes = Bytes(0.0);
                assumed.push(Assumption::ProcessingWrites { bytes });
                bytes
            }
        };
        let mut reading = reading(data)?;
        if reading.decoder == Decoder::Gpu {
            let why = "machines without a GPU decode on their CPUs; leave `decode` out";
            return Err(invalid("data.decode", why));
        }
        if data.storage.is_none() {
            reading.storage = Storage::ObjectStore;
            assumed.push(Assumption::DataStorage { storage: reading.storage });
        } else if reading.storage == Storage::Disk {
            let why = "each sample is read once, so nothing is copied first; choose object-store or network-disk";
            return Err(invalid("data.storage", why));
        }
        complete(data, &mut reading, true, &mut assumed);
        if reading.files.is_none() && reads.0 > 0.0 {
            assumed.push(Assumption::DataFiles { files: reading.files(), data_kind: None });
        }
        let pixels = whole("processing.pixels", section.pixels.as_ref(), 1..=16_384_u32)?;
        if cpu_per_sample.is_none() {
            known_kind(&reading, reads)?;
            if pixels.is_none() && reading.kind.is_some_and(DataKind::is_compressed_image) {
                assumed.push(Assumption::ProcessingPixels { side: PIXELS });
            }
        }
        if section.shard.is_none() {
            assumed.push(Assumption::ProcessingShard { seconds: SHARD });
        }
        let shard = section.shard.as_deref().map_or(Ok(SHARD), shard)?;
        Ok(ResolvedProcessing {
            processing: Processing {
                name: self.name_or(|| "processing".to_owned())?,
                samples,
                cpu_per_sample,
                pixels: f64::from(pixels.unwrap_or(PIXELS)),
                reads,
                writes,
                reading,
                place: place(data.place.as_deref())?,
                shard,
            },
            assumed,
        })
    }
}

/// Sections that are for machines with GPUs.
fn contradictions(file: &WorkloadFile) -> Result<(), WorkloadFileError> {
    let others = [
        ("[model]", file.model != ModelSection::default()),
        ("[training]", file.training != TrainingSection::default()),
        ("[serving]", file.serving != ServingSection::default()),
        ("[sweep]", file.sweep != SweepSection::default()),
        ("[checkpoint]", file.checkpoint != CheckpointSection::default()),
    ];
    match others.into_iter().find(|(_, is_given)| *is_given) {
        Some((section, _)) => Err(conflict("[processing]", section)),
        None => Ok(()),
    }
}

fn seconds(section: &ProcessingSection, data: &DataSection) -> Result<Option<Seconds>, WorkloadFileError> {
    let own = ("processing.cpu_seconds_per_sample", &section.cpu_seconds_per_sample);
    let (key, stated) =
        if own.1.is_some() { own } else { ("data.cpu_seconds_per_sample", &data.cpu_seconds_per_sample) };
    match count(key, stated.as_ref())? {
        Some(seconds) if seconds > LONGEST => {
            Err(invalid(key, format!("`{seconds}` is more than a day for one sample")))
        }
        seconds => Ok(seconds.map(Seconds)),
    }
}

/// Kinds of data whose work is published, for every byte of it.
fn known_kind(reading: &LoaderSettings, reads: Bytes) -> Result<(), WorkloadFileError> {
    let key = "processing.cpu_seconds_per_sample";
    match reading.kind {
        Some(DataKind::Audio) if reading.seconds.is_some() => Ok(()),
        Some(DataKind::Video) if reading.frames.is_some() => Ok(()),
        None => Err(missing(
            key,
            "state the seconds of one core for a sample, or data.kind and data.size where a rate is published",
        )),
        Some(DataKind::Audio) => Err(missing(
            key,
            "state it, or data.seconds_per_sample (the length of the audio), for which a rate is published",
        )),
        Some(DataKind::Video) => Err(missing(
            key,
            "state it, or data.frames_per_sample (with data.frame_height), for which a rate is published",
        )),
        Some(kind) if reads.0 <= 0.0 => {
            Err(missing("data.size", format!("the published rate for {} is per byte; or state {key}", kind.word())))
        }
        Some(_) => Ok(()),
    }
}

fn shard(text: &str) -> Result<Seconds, WorkloadFileError> {
    let hours = Hours::parse(text).ok().filter(|hours| hours.0 > 0.0 && *hours <= LONGEST_SHARD);
    hours.map(Seconds::from).ok_or_else(|| {
        let detail = format!("`{}` is not a valid duration of up to a day; try 10m", shown(text));
        invalid_near("processing.shard", detail, durations(text))
    })
}

fn place(text: Option<&str>) -> Result<Option<String>, WorkloadFileError> {
    match text.map(str::trim) {
        Some(place) if place.is_empty() || place.matches('/').count() > 1 || place.len() > 200 => {
            Err(invalid("data.place", format!("`{}` is not a valid place; try aws/us-east-1", shown(place))))
        }
        place => Ok(place.map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::FileLayout;

    const JPEG: &str = "[data]\nkind = \"jpeg\"\nsize = \"150GB\"\nsamples = 1281167\nplace = \"gcp/us-central1\"\n[processing]\nwrites = \"170GB\"\n";

    fn resolved(text: &str) -> Result<ResolvedProcessing, WorkloadFileError> {
        WorkloadFile::parse(text)?.resolve_processing()
    }

    #[test]
    fn what_is_not_said_is_listed() {
        let made = resolved(JPEG).unwrap();
        let work = &made.processing;
        assert_eq!(
            (work.samples, work.reads, work.writes, work.cpu_per_sample),
            (1_281_167.0, Bytes(150e9), Bytes(170e9), None)
        );
        assert_eq!((work.pixels, work.shard, work.reading.storage), (224.0, Seconds(600.0), Storage::ObjectStore));
        assert_eq!(
            made.assumed,
            [
                Assumption::DataStorage { storage: Storage::ObjectStore },
                Assumption::DataFiles { files: FileLayout::OneEach, data_kind: Some(DataKind::Jpeg) },
                Assumption::ProcessingPixels { side: 224 },
                Assumption::ProcessingShard { seconds: Seconds(600.0) },
            ]
        );
        let stated =
            resolved(&JPEG.replace("writes", "cpu_seconds_per_sample = 0.02\nshard = \"1h\"\nwrites")).unwrap();
        assert_eq!((stated.processing.cpu_per_sample, stated.processing.shard), (Some(Seconds(0.02)), Seconds(3600.0)));
        assert_eq!(stated.assumed, made.assumed[..2]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_key() {
        for (from, to, key) in [
            ("samples = 1281167", "", "processing.samples"),
            ("kind = \"jpeg\"", "", "processing.cpu_seconds_per_sample"),
            ("\"jpeg\"", "\"video\"", "processing.cpu_seconds_per_sample"),
            ("size = \"150GB\"", "", "data.size"),
            ("[data]", "[data]\ndecode = \"gpu\"", "data.decode"),
            ("[data]", "[data]\nstorage = \"disk\"", "data.storage"),
            ("writes = \"170GB\"", "writes = \"lots\"", "processing.writes"),
            ("writes", "shard = \"2d\"\nwrites", "processing.shard"),
            ("writes", "pixels = 0\nwrites", "processing.pixels"),
            ("writes", "cpu_seconds_per_sample = 1e9\nwrites", "processing.cpu_seconds_per_sample"),
            ("[data]", "[model]\npreset = \"gpt-2\"\n[data]", "[model]"),
            ("[data]", "[training]\nsteps = 3\n[data]", "[training]"),
            ("gcp/us-central1", "a/b/c", "data.place"),
        ] {
            let error = resolved(&JPEG.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(key), "{to}: {error}");
        }
    }
}
