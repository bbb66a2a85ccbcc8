//! `InputPipeline`: how long a machine takes to bring the samples of a step to its GPUs, and how long they wait for it.
//!
//! Reading, decoding and copying run beside the step and beside each other, so the slowest of the four counts. Fetching ahead
//! evens out what varies from sample to sample; it does not make the slowest any faster.

use crate::loading::constants as c;
use crate::loading::input::{MeasuredHost, bytes_of_a_sample};
use crate::loading::storage::{Read, StorageRate};
use crate::machine::host_copy;
use crate::time::vision::fed;
use gpuplan_hardware::{Architecture, Gpu, Host, InstanceType};
use gpuplan_units::{Bytes, Seconds};
use gpuplan_workload::assumption::{Assumption, SampleWork};
use gpuplan_workload::{DataKind, DataSet, Decoder, LoaderSettings, Model, Storage, Training, Workload};

/// A machine that loads samples.
#[derive(Clone, Copy, Debug)]
pub struct DataLoader<'a> {
    pub instance: &'a InstanceType,
    pub gpu: &'a Gpu,
    /// The host of such a machine, where it was measured.
    pub measured: Option<&'a MeasuredHost>,
    /// The data has its place on the machine's own disks.
    pub is_local: bool,
    /// The network disk that is rented for a machine.
    pub network_disk: Bytes,
    pub nodes: u32,
}

/// What a machine has to bring.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    pub model: &'a Model,
    pub training: &'a Training,
    pub data: &'a DataSet,
    /// Samples of a step, of this machine.
    pub samples: f64,
    /// Times that the run goes through the data.
    pub passes: f64,
}

/// Where the samples of a step are held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputLimit {
    Decoding,
    Tokenising,
    Reading,
    Copying,
    JpegBlock,
}

impl InputLimit {
    pub fn word(self) -> &'static str {
        match self {
            Self::Decoding => "cpu decode",
            Self::Tokenising => "cpu tokenise",
            Self::Reading => "storage",
            Self::Copying => "host to device",
            Self::JpegBlock => "gpu decode",
        }
    }
}

/// Seconds that a machine takes for the samples of a step, by where they go; what nobody can tell is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputPipeline {
    pub samples: f64,
    pub computing: Option<f64>,
    pub reading: Option<Read>,
    pub copying: f64,
    /// In the decoder block of the GPUs.
    pub jpeg_block: f64,
    /// GPU time that goes into input beside the step.
    pub on_gpu: f64,
    /// Part of the run in which storage is read: the first pass, where memory keeps what was read.
    pub read_share: f64,
    /// Loader threads, and how many cores alone would do as much.
    pub threads: f64,
    pub cores: f64,
    /// The step with every sample at hand.
    pub busy: f64,
    /// What the step waits for input; with `busy` it is the step.
    pub waits: f64,
    is_text: bool,
}

impl InputPipeline {
    /// `None` where nobody said what a sample costs.
    pub fn new(feeder: &DataLoader, demand: &Demand) -> Option<Self> {
        let (threads, cores) = feeder.cores(demand.data);
        let cost = cpu_seconds(demand.model, demand.training, demand.data);
        let computing = cost.filter(|_| cores > 0.0).map(|cost| demand.samples * cost / cores);
        let reading = feeder.reading(demand, threads);
        if computing.is_none() && reading.is_none() {
            return None;
        }
        let (copying, copies_on_gpu) = feeder.copying(demand);
        let (jpeg_block, decodes_on_gpu) = feeder.gpu_decoding(demand);
        let is_kept = demand.data.size.0 > 0.0 && demand.data.size.0 <= feeder.instance.memory.0 * c::CACHE_SHARE;
        let is_file = demand.data.reading.storage != Storage::ObjectStore;
        Some(Self {
            samples: demand.samples,
            computing,
            reading,
            copying,
            jpeg_block,
            on_gpu: copies_on_gpu + decodes_on_gpu,
            read_share: if is_kept && is_file { 1.0 / demand.passes.max(1.0) } else { 1.0 },
            threads,
            cores,
            busy: 0.0,
            waits: 0.0,
            is_text: demand.data.reading.kind == Some(DataKind::Text),
        })
    }

    /// The same beside a step of `busy` seconds.
    #[must_use]
    pub fn alongside_step(self, busy: f64) -> Self {
        let fed = |reads| fed(busy + self.on_gpu, self.loading(reads));
        let step = self.read_share * fed(true) + (1.0 - self.read_share) * fed(false);
        Self { busy, waits: step - busy, ..self }
    }

    /// Seconds of the slowest part, with or without storage in it.
    pub fn loading(&self, reads: bool) -> f64 {
        let reading = self.reading.filter(|_| reads).map_or(0.0, |read| read.seconds);
        [self.computing.unwrap_or(0.0), reading, self.copying, self.jpeg_block].into_iter().fold(0.0, f64::max)
    }

    /// The slowest part, of the passes that wait longest together: the first, or those after it.
    pub fn limit(&self) -> InputLimit {
        let computing = if self.is_text { InputLimit::Tokenising } else { InputLimit::Decoding };
        let waits = |reads| fed(self.busy + self.on_gpu, self.loading(reads)) - self.busy;
        let reads = self.read_share * waits(true) >= (1.0 - self.read_share) * waits(false);
        let parts = [
            (self.computing.unwrap_or(0.0), computing),
            (self.reading.filter(|_| reads).map_or(0.0, |read| read.seconds), InputLimit::Reading),
            (self.copying, InputLimit::Copying),
            (self.jpeg_block, InputLimit::JpegBlock),
        ];
        parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(computing, |(_, limit)| limit)
    }

    /// Part of the step that its GPUs wait for input.
    pub fn waiting_share(&self) -> f64 {
        if self.waits > 0.0 { self.waits / (self.busy + self.waits) } else { 0.0 }
    }

    /// Cores alone that would load as fast as the GPUs train.
    pub fn cores_needed(&self) -> Option<f64> {
        self.computing.filter(|_| self.busy > 0.0).map(|seconds| seconds * self.cores / self.busy)
    }
}

impl DataLoader<'_> {
    /// Loader threads and the cores alone that they are worth. A vCPU is a thread of a core where the cores have two, and each GPU
    /// keeps one busy with its own process.
    fn cores(&self, data: &DataSet) -> (f64, f64) {
        let devices = f64::from(self.instance.node.devices());
        let free = (f64::from(self.instance.vcpus) - devices).max(f64::from(self.instance.vcpus.min(1)));
        let threads = data.reading.workers.map_or(free, |workers| free.min(f64::from(workers) * devices));
        if let Some(scaling) = self.measured.and_then(|host| host.scaling) {
            return (threads, threads * scaling);
        }
        (threads, cores(&self.instance.host(), threads))
    }

    fn reading(&self, demand: &Demand, threads: f64) -> Option<Read> {
        let (data, reading) = (demand.data, &demand.data.reading);
        let bytes = bytes_of_a_sample(data)?.0;
        let on_nvme = self.is_local && reading.storage == Storage::Disk;
        let rate = match (self.measured.and_then(|host| host.read_bytes_per_second), reading.kind, reading.storage) {
            (Some(rate), ..) if !on_nvme => StorageRate::measured(rate),
            (_, None, _) => return None,
            (_, _, Storage::Disk) if on_nvme => StorageRate::local_nvme(self.instance.local_nvme?),
            (_, _, Storage::Disk | Storage::NetworkDisk) => {
                StorageRate::network_disk(&self.instance.host(), reading, self.network_disk)?
            }
            (_, _, Storage::ObjectStore) => StorageRate::bucket(
                self.instance.front_network_gbit_per_s,
                threads.max(1.0),
                f64::from(self.nodes),
                bytes,
            ),
        };
        Some(rate.read(demand.samples, bytes, reading.files()))
    }

    /// Seconds of copies to all GPUs, which have a link each, beside the step or, from pageable memory, in its way.
    fn copying(&self, demand: &Demand) -> (f64, f64) {
        let bytes = bytes_on_gpu(demand) * demand.samples
            / f64::from(self.instance.node.devices())
            / self.instance.node.card_share();
        let seconds = bytes / host_copy(self.gpu, self.instance.node.measured).0;
        if demand.data.reading.is_pageable { (0.0, seconds / c::PAGEABLE_SHARE) } else { (seconds, 0.0) }
    }

    /// Seconds of the decoder blocks beside the step, or of CUDA in its way where a GPU has none.
    fn gpu_decoding(&self, demand: &Demand) -> (f64, f64) {
        let bytes = bytes_of_a_sample(demand.data).filter(|_| demand.data.reading.decoder == Decoder::Gpu);
        let each = bytes.map_or(0.0, |bytes| bytes.0 * demand.samples / f64::from(self.instance.node.devices()));
        let has_block =
            matches!(self.gpu.architecture, Architecture::Ampere | Architecture::Hopper | Architecture::Blackwell);
        if has_block {
            return (each / c::JPEG_BLOCK_BYTES / self.instance.node.card_share(), 0.0);
        }
        let bandwidth = self.gpu.memory_bandwidth().0 * self.instance.node.card_share();
        (0.0, each / (c::JPEG_CUDA_BYTES * bandwidth / c::JPEG_CUDA_BANDWIDTH))
    }
}

/// Cores alone that so many threads of a machine are worth.
pub fn cores(host: &Host, threads: f64) -> f64 {
    let whole = f64::from(host.vcpus) / f64::from(host.threads_per_core);
    threads.min(whole) + (threads - whole).max(0.0) * c::SECOND_THREAD
}

/// Seconds of one core for one sample, as stated or by its kind; `None` where neither tells.
pub fn cpu_seconds(model: &Model, training: &Training, data: &DataSet) -> Option<f64> {
    if let Some(stated) = data.cpu_per_sample {
        return Some(stated.0);
    }
    let is_image = model.kind.counts_samples();
    let area = (f64::from(training.sequence_length) / c::SIDE).powi(2);
    let bytes = bytes_of_a_sample(data).map(|bytes| bytes.0);
    match data.reading.kind? {
        DataKind::Jpeg if data.reading.decoder == Decoder::Gpu => Some(c::HOST_OF_GPU_DECODE),
        DataKind::Jpeg if is_image => Some(bytes? * c::JPEG_SECONDS_A_BYTE + area * c::AUGMENT_SECONDS),
        DataKind::Webp if is_image => Some(bytes? * c::WEBP_SECONDS_A_BYTE + area * c::AUGMENT_SECONDS),
        DataKind::Raw if is_image => Some(area * c::RAW_SECONDS),
        DataKind::Text => {
            let stated_or_usual = bytes.unwrap_or(f64::from(training.sequence_length) * c::TEXT_BYTES_A_TOKEN);
            Some(stated_or_usual * c::TEXT_SECONDS_A_BYTE)
        }
        DataKind::Tokens => Some(f64::from(training.sequence_length) * TOKEN_ON_GPU * c::COPY_SECONDS_A_BYTE),
        DataKind::Raw => Some(bytes? * c::COPY_SECONDS_A_BYTE),
        DataKind::Audio | DataKind::Video => sound_or_film(&data.reading),
        DataKind::Jpeg | DataKind::Webp => None,
    }
}

/// Seconds of one core for the sound or the frames of a sample, where their length is stated.
pub fn sound_or_film(reading: &LoaderSettings) -> Option<f64> {
    match reading.kind? {
        DataKind::Audio => reading.seconds.map(|seconds| seconds * c::SOUND_SECONDS_A_SECOND),
        DataKind::Video => {
            let size = (reading.frame_height.unwrap_or(c::FRAME_HEIGHT) / c::FRAME_HEIGHT).powi(2);
            reading.frames.map(|frames| frames * size * c::FRAME_SECONDS)
        }
        _ => None,
    }
}

/// Ids and targets, 8 bytes each, as PyTorch keeps them.
const TOKEN_ON_GPU: f64 = 16.0;
/// Three colours of a pixel, normalised on the host: 4 bytes each; decoded sets and GPU decoders leave that to the GPU.
const PIXEL_ON_GPU: f64 = 12.0;

fn bytes_on_gpu(demand: &Demand) -> f64 {
    let side = f64::from(demand.training.sequence_length);
    match demand.data.reading.kind {
        _ if !demand.model.kind.counts_samples() => side * TOKEN_ON_GPU,
        // What goes over is the file.
        _ if demand.data.reading.decoder == Decoder::Gpu => bytes_of_a_sample(demand.data).map_or(0.0, |bytes| bytes.0),
        Some(DataKind::Raw) => side * side * PIXEL_ON_GPU / 4.0,
        _ => side * side * PIXEL_ON_GPU,
    }
}

/// What the input of a workload rests on beside what it states.
pub fn assumed(workload: &Workload) -> Vec<Assumption> {
    let Some(data) = &workload.data else { return Vec::new() };
    let mut list = Vec::new();
    if data.reading.storage == Storage::NetworkDisk && data.reading.kind.is_some() {
        list.push(Assumption::DataDiskLink);
    }
    let (model, training) = (&workload.model, &workload.training);
    let Some(cost) = cpu_seconds(model, training, data).filter(|_| data.cpu_per_sample.is_none()) else {
        return list;
    };
    let side_pixels = f64::from(training.sequence_length);
    let work = match data.reading.kind {
        Some(DataKind::Jpeg) if data.reading.decoder == Decoder::Gpu => SampleWork::DecodedByGpu,
        Some(format @ (DataKind::Jpeg | DataKind::Webp)) => {
            SampleWork::CompressedImage { format, bytes: bytes_of_a_sample(data).unwrap_or_default(), side_pixels }
        }
        Some(DataKind::Raw) => SampleWork::DecodedImage { side_pixels },
        Some(DataKind::Text) => SampleWork::Text { bytes: None },
        Some(DataKind::Audio) => SampleWork::Audio,
        Some(DataKind::Video) => SampleWork::Video,
        Some(DataKind::Tokens) | None => SampleWork::Copied,
    };
    list.push(Assumption::DataCpuPerSample { seconds: Seconds(cost), work });
    if data.reading.workers.is_none() {
        list.push(Assumption::DataWorkers);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;
    use gpuplan_workload::file::WorkloadFile;

    const IMAGES: &str = "model = { preset = \"resnet-50\" }\ntraining = { epochs = 90, global_batch = 2048 }\n[data]\nsamples = 1281167\n";

    fn workload(text: &str) -> Workload {
        WorkloadFile::parse(text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload
    }

    /// What feeds 2,048 samples on one machine of that name.
    fn feeding(text: &str, cloud: &str, name: &str, change: impl Fn(&mut InstanceType)) -> Option<InputPipeline> {
        let hardware = Hardware::embedded().unwrap();
        let mut instance =
            hardware.instances().iter().find(|one| one.cloud.as_str() == cloud && one.name == name).unwrap().clone();
        change(&mut instance);
        let workload = workload(text);
        let data = workload.data.as_ref().unwrap();
        let is_local = instance.local_nvme.is_some_and(|disk| disk.0 > data.size.0);
        let gpu = hardware.gpu(instance.node.gpu);
        let feeder = DataLoader {
            instance: &instance,
            gpu,
            measured: None,
            is_local,
            network_disk: Bytes(data.size.0 + 1e11),
            nodes: 1,
        };
        let demand =
            Demand { model: &workload.model, training: &workload.training, data, samples: 2048.0, passes: 90.0 };
        InputPipeline::new(&feeder, &demand).map(|feeding| feeding.alongside_step(0.1))
    }

    #[test]
    fn jpeg_takes_the_cores_that_published_loaders_take() {
        // Ten loader processes with Pillow fed 1,923 pictures a second: 5.2 ms each (pytorch-image-models, issue 1491).
        let imagenet = workload(&format!("{IMAGES}kind = \"jpeg\"\nsize = \"150GB\""));
        let cost = cpu_seconds(&imagenet.model, &imagenet.training, imagenet.data.as_ref().unwrap()).unwrap();
        assert!((cost / 0.0052 - 1.0).abs() < 0.15, "{cost}");
        // 96 vCPUs are 48 cores of two threads; 8 threads belong to the processes of the GPUs: 40 whole and 8 half loaded.
        let fed =
            feeding(&format!("{IMAGES}kind = \"jpeg\"\nsize = \"150GB\""), "aws", "p4d.24xlarge", |_| ()).unwrap();
        assert_eq!((fed.threads, fed.cores), (88.0, 56.0));
        assert!((fed.computing.unwrap() / (2048.0 * cost / 56.0) - 1.0).abs() < 1e-9);
        assert_eq!((fed.limit(), fed.read_share), (InputLimit::Decoding, 1.0 / 90.0));
        assert!(fed.waits > 0.0 && fed.waiting_share() < 1.0 && fed.cores_needed().unwrap() > fed.cores);
        // Fewer loaders than threads, and cores with one thread each.
        let four =
            feeding(&format!("{IMAGES}kind = \"jpeg\"\nsize = \"150GB\"\nworkers = 4"), "aws", "p4d.24xlarge", |_| ())
                .unwrap();
        assert_eq!((four.threads, four.cores), (32.0, 32.0));
        let arm = |instance: &mut InstanceType| "arm64".clone_into(&mut instance.cpu_architecture);
        let whole = feeding(&format!("{IMAGES}kind = \"jpeg\"\nsize = \"150GB\""), "aws", "p4d.24xlarge", arm).unwrap();
        assert_eq!(whole.cores, 88.0);
    }

    #[test]
    fn pixels_and_gpus_that_decode_leave_cores_idle() {
        let jpeg =
            feeding(&format!("{IMAGES}kind = \"jpeg\"\nsize = \"150GB\""), "aws", "p4d.24xlarge", |_| ()).unwrap();
        let raw = feeding(&format!("{IMAGES}kind = \"raw\"\nsize = \"170GB\""), "aws", "p4d.24xlarge", |_| ()).unwrap();
        assert!(raw.computing.unwrap() < jpeg.computing.unwrap() / 10.0 && raw.waiting_share() < 0.001, "{raw:?}");
        let gpu = format!("{IMAGES}kind = \"jpeg\"\nsize = \"150GB\"\ndecode = \"gpu\"");
        // An A100 has a block for it, which works beside training; an A10G gives its time.
        let block = feeding(&gpu, "aws", "p4d.24xlarge", |_| ()).unwrap();
        assert!(
            block.jpeg_block > 0.0 && block.on_gpu == 0.0 && block.computing.unwrap() < jpeg.computing.unwrap() / 10.0
        );
        let cuda = feeding(&gpu, "aws", "g5.48xlarge", |_| ()).unwrap();
        assert!(cuda.jpeg_block == 0.0 && cuda.on_gpu > 0.0, "{cuda:?}");
        // Pageable copies are in the way of the step, locked ones beside it.
        let pageable = feeding(
            &format!("{IMAGES}kind = \"raw\"\nsize = \"170GB\"\npinned = false"),
            "aws",
            "p4d.24xlarge",
            |_| (),
        )
        .unwrap();
        assert!((pageable.on_gpu / raw.copying - 2.0).abs() < 1e-9 && pageable.copying == 0.0);
    }

    #[test]
    fn storage_counts_where_memory_does_not_keep_the_data() {
        let jpeg = format!("{IMAGES}kind = \"jpeg\"\nsize = \"150GB\"\nstorage = ");
        let of = |storage: &str, memory: f64| {
            feeding(&format!("{jpeg}\"{storage}\""), "aws", "p4d.24xlarge", |instance| instance.memory = Bytes(memory))
                .unwrap()
        };
        let (local, disk, store) = (of("disk", 1e11), of("network-disk", 1e11), of("object-store", 1e12));
        assert_eq!(
            [local, disk, store].map(|one| one.reading.unwrap().from),
            ["local NVMe", "gp3 disk", "object store"]
        );
        // 2,048 pictures of 117 kB at 125 MiB/s, at 3,000 reads a second and two each, and with 88 connections at 0.101 s.
        assert!(
            (disk.reading.unwrap().seconds - 1.829).abs() < 0.01
                && (store.reading.unwrap().seconds - 2.359).abs() < 0.01
        );
        assert_eq!((disk.read_share, disk.limit(), store.limit()), (1.0, InputLimit::Reading, InputLimit::Reading));
        assert_eq!(
            (local.limit(), of("network-disk", 1e12).read_share, store.read_share),
            (InputLimit::Decoding, 1.0 / 90.0, 1.0)
        );
        // Where the first pass waits longest, storage is what to mend.
        assert!(of("network-disk", 1e12).waits < disk.waits);
    }

    #[test]
    fn ids_of_tokens_are_nothing_and_text_is_little() {
        let with = |data: &str| {
            let text = format!(
                "model = {{ preset = \"llama-2-7b\" }}\ntraining = {{ task = \"pretrain\", tokens = \"1T\" }}\n[data]\n{data}"
            );
            feeding(&text, "aws", "p4d.24xlarge", |_| ())
        };
        let ids = with("kind = \"tokens\"\nsize = \"4TB\"\ntokens = \"1T\"").unwrap();
        assert!(ids.loading(true) < 0.02, "{ids:?}");
        let text = with("kind = \"text\"\nsize = \"4TB\"\ntokens = \"1T\"").unwrap();
        assert!(text.loading(false) > 10.0 * ids.loading(false) && text.limit() == InputLimit::Tokenising, "{text:?}");
        // A minute of sound takes 23 ms of a core, 30 frames of 720 lines 83 ms; four times as many pixels four times as long.
        let cost = |text: &str| {
            let made = workload(&format!("{IMAGES}size = \"4TB\"\n{text}"));
            cpu_seconds(&made.model, &made.training, made.data.as_ref().unwrap())
        };
        assert!((cost("kind = \"audio\"\nseconds_per_sample = 60").unwrap() - 0.0232).abs() < 1e-9);
        assert!((cost("kind = \"video\"\nframes_per_sample = 30").unwrap() - 0.0828).abs() < 1e-9);
        assert!((cost("kind = \"video\"\nframes_per_sample = 30\nframe_height = 1440").unwrap() - 0.3312).abs() < 1e-9);
        // Nobody knows how long a sample is where nobody says, and nothing is made up.
        let sound = with("kind = \"audio\"\nsize = \"4TB\"\nsamples = 1000000").unwrap();
        assert!(sound.computing.is_none() && sound.reading.is_some());
        assert_eq!(with("size = \"4TB\"\ntokens = \"1T\""), None);
    }

    #[test]
    fn what_was_taken_for_granted_is_named() {
        let list = assumed(&workload(&format!("{IMAGES}kind = \"jpeg\"\nsize = \"150GB\"")));
        let Assumption::DataCpuPerSample { seconds, work: SampleWork::CompressedImage { format, bytes, .. } } = list[0]
        else {
            panic!("{list:?}")
        };
        assert!((seconds.0 - 0.0046).abs() < 0.00005 && (bytes.0 - 117e3).abs() < 500.0, "{list:?}");
        assert_eq!((format, &list[1]), (DataKind::Jpeg, &Assumption::DataWorkers));
        assert_eq!(assumed(&workload(&format!("{IMAGES}size = \"150GB\""))), []);
        let stated = format!("{IMAGES}kind = \"jpeg\"\nsize = \"150GB\"\ncpu_seconds_per_sample = 0.01");
        assert_eq!(assumed(&workload(&stated)), []);
    }
}
