//! `[data]` of a workload file: read, checked, and completed with defaults that are listed.

use crate::amount::DataSet;
use crate::assumption::Assumption;
use crate::data::{DataKind, Decoder, LoaderSettings, Storage};
use crate::file::scalar::{bytes, choice, conflict, count, invalid, missing, shown, whole};
use crate::file::{DataSection, WorkloadFileError};
use gpuplan_units::{Bytes, Seconds};

/// No host starts more loaders for a GPU.
const MOST_WORKERS: u32 = 1024;
/// Lines of a frame where nothing is said.
const FRAME_HEIGHT: u32 = 720;

pub(super) fn resolve(
    section: &DataSection,
    sequence: u32,
    assumed: &mut Vec<Assumption>,
) -> Result<Option<DataSet>, WorkloadFileError> {
    // Checked even where nothing needs them.
    let samples = count("data.samples", section.samples.as_ref())?;
    let tokens = count("data.tokens", section.tokens.as_ref())?;
    let cpu_per_sample = count("data.cpu_seconds_per_sample", section.cpu_seconds_per_sample.as_ref())?;
    if let Some(seconds) = cpu_per_sample.filter(|seconds| *seconds > 86_400.0) {
        return Err(invalid("data.cpu_seconds_per_sample", format!("`{seconds}` is more than a day for one sample")));
    }
    let place = match section.place.as_deref().map(str::trim) {
        Some(place) if place.is_empty() || place.matches('/').count() > 1 || place.len() > 200 => {
            return Err(invalid("data.place", format!("`{}` is not a valid place; try aws/us-east-1", shown(place))));
        }
        place => place.map(str::to_owned),
    };
    let location = match section.location.as_deref().map(str::trim) {
        Some(location) if location.is_empty() || location.ends_with("://") => {
            return Err(invalid(
                "data.location",
                format!("`{}` is not a valid location; try s3://bucket/folder", shown(location)),
            ));
        }
        location => location.map(str::to_owned),
    };
    let mut reading = reading(section)?;
    let says_how = cpu_per_sample.is_some() || reading != LoaderSettings::default();
    let size = match (&section.size, &place) {
        (Some(text), _) => bytes("data.size", text)?,
        (None, _) if location.is_some() => {
            return Err(missing("data.size", "it decides the disks, and the time to copy the data to the machines"));
        }
        (None, Some(_)) => {
            return Err(missing(
                "data.size",
                "data that lies elsewhere has to be moved, and its size decides the cost",
            ));
        }
        (None, None) if !says_how => return Ok(None),
        (None, None) => {
            let bytes = Bytes(0.0);
            assumed.push(Assumption::DataSize { bytes });
            bytes
        }
    };
    complete(section, &mut reading, location.is_some(), assumed);
    let samples = samples.or(tokens.map(|tokens| tokens / f64::from(sequence)));
    Ok(Some(DataSet { size, location, place, cpu_per_sample: cpu_per_sample.map(Seconds), samples, reading }))
}

pub(super) fn reading(section: &DataSection) -> Result<LoaderSettings, WorkloadFileError> {
    let disk_bytes_per_second =
        section.disk_throughput.as_deref().map(|text| bytes("data.disk_throughput", text)).transpose()?;
    let reading = LoaderSettings {
        kind: choice("data.kind", section.kind.as_deref())?,
        storage: choice("data.storage", section.storage.as_deref())?.unwrap_or_default(),
        disk: choice("data.disk", section.disk.as_deref())?,
        disk_iops: count("data.disk_iops", section.disk_iops.as_ref())?,
        disk_bytes_per_second: disk_bytes_per_second.map(|bytes| bytes.0),
        files: choice("data.files", section.files.as_deref())?,
        workers: whole("data.workers", section.workers.as_ref(), 1..=MOST_WORKERS)?,
        decoder: choice("data.decode", section.decode.as_deref())?.unwrap_or_default(),
        seconds: count("data.seconds_per_sample", section.seconds_per_sample.as_ref())?,
        frames: count("data.frames_per_sample", section.frames_per_sample.as_ref())?,
        frame_height: count("data.frame_height", section.frame_height.as_ref())?,
        is_pageable: section.pinned == Some(false),
    };
    lengths_of_their_kind(&reading)?;
    if reading.decoder == Decoder::Gpu {
        match reading.kind {
            Some(DataKind::Jpeg) => {}
            Some(_) => return Err(invalid("data.decode", "only JPEG is decoded on a GPU")),
            None => return Err(missing("data.kind", "decode = \"gpu\" is for pictures; state kind = \"jpeg\"")),
        }
        if section.cpu_seconds_per_sample.is_some() {
            return Err(conflict("data.decode", "data.cpu_seconds_per_sample"));
        }
    }
    Ok(reading)
}

/// Seconds are of sound, frames of film.
fn lengths_of_their_kind(reading: &LoaderSettings) -> Result<(), WorkloadFileError> {
    let stray = [
        ("data.seconds_per_sample", "audio", reading.seconds.is_some() && reading.kind != Some(DataKind::Audio)),
        ("data.frames_per_sample", "video", reading.frames.is_some() && reading.kind != Some(DataKind::Video)),
        ("data.frame_height", "video", reading.frame_height.is_some() && reading.frames.is_none()),
    ];
    match stray.into_iter().find(|(_, _, is_stray)| *is_stray) {
        Some((key @ "data.frame_height", ..)) => {
            Err(invalid(key, "it describes video frames; state frames_per_sample"))
        }
        Some((key, kind, _)) => Err(invalid(key, format!("it is for kind = \"{kind}\""))),
        None => Ok(()),
    }
}

/// What the input pipeline rests on and nobody stated.
pub(super) fn complete(
    section: &DataSection,
    reading: &mut LoaderSettings,
    is_staged: bool,
    assumed: &mut Vec<Assumption>,
) {
    if reading.kind.is_none() {
        return;
    }
    if section.storage.is_none() && !is_staged {
        assumed.push(Assumption::DataStorage { storage: Storage::Disk });
    }
    if reading.frames.is_some() && reading.frame_height.is_none() {
        assumed.push(Assumption::DataFrameHeight { lines: FRAME_HEIGHT });
        reading.frame_height = Some(f64::from(FRAME_HEIGHT));
    }
    if reading.files.is_none() {
        assumed.push(Assumption::DataFiles { files: reading.files(), data_kind: reading.kind });
        reading.files = Some(reading.files());
    }
}

#[cfg(test)]
mod tests {
    use crate::data::{DataKind, FileLayout, Storage};
    use crate::file::{Resolved, WorkloadFile, WorkloadFileError};
    use crate::{Assumption, Models};

    fn is_of_the_data(assumption: &Assumption) -> bool {
        matches!(
            assumption,
            Assumption::DataSize { .. } | Assumption::DataStorage { .. } | Assumption::DataFiles { .. }
        )
    }

    fn resolved(data: &str) -> Result<Resolved, WorkloadFileError> {
        let text = format!("model = {{ preset = \"resnet-50\" }}\ntraining = {{ steps = 10 }}\n[data]\n{data}");
        WorkloadFile::parse(&text)?.resolve(&Models::embedded().unwrap(), None)
    }

    #[test]
    fn how_data_is_read_keeps_its_words_and_its_defaults_are_named() {
        let made =
            resolved("kind = \"jpeg\"\nsize = \"150GB\"\nsamples = 1281167\nstorage = \"object_store\"\nworkers = 12")
                .unwrap();
        let reading = made.workload.data.unwrap().reading;
        assert_eq!(
            (reading.kind, reading.storage, reading.workers),
            (Some(DataKind::Jpeg), Storage::ObjectStore, Some(12))
        );
        assert_eq!(reading.files, Some(FileLayout::OneEach));
        assert!(
            made.assumed
                .contains(&Assumption::DataFiles { files: FileLayout::OneEach, data_kind: Some(DataKind::Jpeg) }),
            "{:?}",
            made.assumed
        );
        let tokens = resolved("kind = \"tokens\"\nsize = \"4TB\"").unwrap();
        assert_eq!(tokens.workload.data.unwrap().reading.files(), FileLayout::Shards);
        assert!(tokens.assumed.contains(&Assumption::DataStorage { storage: Storage::Disk }));
        // Nothing is said about a pipeline that nobody described.
        let plain = resolved("size = \"4TB\"").unwrap();
        assert!(plain.assumed.iter().all(|assumption| !is_of_the_data(assumption)), "{:?}", plain.assumed);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (wrong, key) in [
            ("kind = \"jpg\"", "data.kind"),
            ("kind = \"jpeg\"\nworkers = 0", "data.workers"),
            ("kind = \"text\"\ndecode = \"gpu\"", "data.decode"),
            ("decode = \"gpu\"", "data.kind"),
            ("kind = \"jpeg\"\ndecode = \"gpu\"\ncpu_seconds_per_sample = 0.1", "data.decode"),
            ("kind = \"jpeg\"\nseconds_per_sample = 3", "data.seconds_per_sample"),
            ("kind = \"audio\"\nframes_per_sample = 3", "data.frames_per_sample"),
            ("kind = \"video\"\nframe_height = 480", "data.frame_height"),
            ("kind = \"jpeg\"\ndisk_throughput = \"-1GB\"", "data.disk_throughput"),
        ] {
            assert!(resolved(wrong).unwrap_err().to_string().contains(key), "{wrong}");
        }
    }
}
