//! `LoaderSettings`: what the samples of a data set are, where they lie, and how the program's loader takes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a sample is before the loader has worked on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataKind {
    Jpeg,
    Webp,
    /// Pixels, decoded and resized once, or anything else that needs no more than copying.
    Raw,
    /// Text that is split into tokens while training.
    Text,
    /// Token ids, written once.
    Tokens,
    Audio,
    Video,
}

impl DataKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Webp => "webp",
            Self::Raw => "raw",
            Self::Text => "text",
            Self::Tokens => "tokens",
            Self::Audio => "audio",
            Self::Video => "video",
        }
    }

    pub fn is_compressed_image(self) -> bool {
        matches!(self, Self::Jpeg | Self::Webp)
    }

    /// Whether samples usually lie in a file each; ids and text are written in large files.
    pub fn has_a_file_each(self) -> bool {
        !matches!(self, Self::Text | Self::Tokens)
    }
}

/// Where samples are read from while training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// A disk of the machine: local NVMe where it holds the data, else a network disk.
    #[default]
    Disk,
    NetworkDisk,
    /// A bucket, in every pass again: nothing is copied before.
    ObjectStore,
}

/// A kind of network disk, which decides what it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    Gp3,
    Io2,
    PdBalanced,
    PdSsd,
    HyperdiskBalanced,
    PremiumSsdV2,
}

/// How samples are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileLayout {
    /// A file or an object each, read in random order.
    OneEach,
    /// Many in a file, which is read from its start; the order is mixed in memory.
    Shards,
}

/// Who decodes pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decoder {
    #[default]
    Cpu,
    /// nvJPEG, as NVIDIA DALI uses it.
    Gpu,
}

/// How a data set is read. Everything that is not stated is `None`, and then nothing rests on it or a default is named.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoaderSettings {
    pub kind: Option<DataKind>,
    pub storage: Storage,
    pub disk: Option<DiskKind>,
    /// Provisioned for the network disk.
    pub disk_iops: Option<f64>,
    pub disk_bytes_per_second: Option<f64>,
    pub files: Option<FileLayout>,
    /// Loader processes a GPU.
    pub workers: Option<u32>,
    pub decoder: Decoder,
    /// Length of the sound of a sample.
    pub seconds: Option<f64>,
    /// Of film, decoded for a sample, and their lines.
    pub frames: Option<f64>,
    pub frame_height: Option<f64>,
    /// Batches leave for the GPU from memory that is not locked.
    pub is_pageable: bool,
}

impl LoaderSettings {
    pub fn files(&self) -> FileLayout {
        let usual =
            if self.kind.is_some_and(DataKind::has_a_file_each) { FileLayout::OneEach } else { FileLayout::Shards };
        self.files.unwrap_or(usual)
    }
}
