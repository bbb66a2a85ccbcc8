//! What it costs to feed a GPU: seconds of a core, rates of disks, stores and copies, each with its source. None is fitted.
//!
//! Seconds are those of a core that works alone; two threads of a core share it (`SECOND_THREAD`).

/// Decoding JPEG, for every byte of the file: Pillow decodes 537 pictures of ImageNet a second on one thread of an EPYC 9B14
/// (arXiv 2605.08731, README of ternaus/imread_benchmark), of 114,660 bytes each (MLPerf Storage, resnet50).
pub const JPEG_SECONDS_A_BYTE: f64 = 1.0 / (537.0 * 114_660.0);
/// WebP takes as long as JPEG for the same picture in 0.71 of its bytes: 28.6 and 29.1 ms, 126 and 178 kB
/// (fynn.be, "Performance of modern image formats", the slow device).
pub const WEBP_SECONDS_A_BYTE: f64 = JPEG_SECONDS_A_BYTE * (28.57 / 126.2) / (29.15 / 177.6);
/// Random crop, resize to 224 pixels, conversion, normalisation and collation of a decoded picture: 8 loader processes with
/// Pillow 12.2 make 2,961 a second (albumentations.ai, "AlbumentationsX vs PIL/Pillow Benchmark", `RandomResizedCrop`).
/// With decoding it is 4.6 ms for ImageNet; 10 processes that fed 1,923 a second took 5.2 (pytorch-image-models, issue 1491).
pub const AUGMENT_SECONDS: f64 = 8.0 / 2961.0;
/// The same work on pictures that were decoded and resized once: 172,801 a second on all 48 cores of a p3dn.24xlarge (FFCV,
/// "ImageNet Benchmarks", RAW at 256 pixels from RAM).
pub const RAW_SECONDS: f64 = 48.0 * (1.0 + SECOND_THREAD) / 172_801.0;
/// Side of the pictures that the two above are for. Pixels.
pub const SIDE: f64 = 224.0;
/// Bytes that such a picture has when it is kept decoded: 169.79 GB for 1,281,167 (the same page, RAW at 256 pixels).
pub const RAW_BYTES: f64 = 169.79e9 / 1_281_167.0;
/// Splitting text into tokens, for every byte: the Llama 3 tokenizer of Hugging Face `tokenizers` takes 1.59 s for the 6.49 MB
/// of `big.txt` on one thread (hf-internal-testing/tokenizers-bench, baseline, `llama3/encode`).
pub const TEXT_SECONDS_A_BYTE: f64 = 1.591 / 6_488_666.0;
/// Bytes of English text in a token of such a vocabulary, where the size of the data is not stated. Judged; OpenAI's rule of
/// thumb for its own is four characters.
pub const TEXT_BYTES_A_TOKEN: f64 = 4.0;
/// Decoding compressed sound, for every second of it: a minute of MP3 takes TorchCodec 23.2 ms and librosa 21.8 (meta-pytorch/torchcodec,
/// pull request 1494, a laptop); 13 s took 4.49 ms, and torchaudio with ffmpeg 5.01 (pull request 580). Resampling is not in it, and
/// WAV takes a fiftieth of it (1494).
pub const SOUND_SECONDS_A_SECOND: f64 = 0.0232 / 60.0;
/// Decoding a frame of film of 720 lines: TorchCodec decodes all 300 of an H.264 video of 1280 x 720 in 828 ms on one thread
/// (meta-pytorch/torchcodec, pull request 1028). Other sizes by their pixels; frames that are decoded only to reach those of a clip count too.
pub const FRAME_SECONDS: f64 = 0.828 / 300.0;
/// Lines of that frame.
pub const FRAME_HEIGHT: f64 = 720.0;
/// Copying a sample and casting its numbers, for every byte. Judged, at the rate of one core's memory copies in small pieces;
/// it decides nothing.
pub const COPY_SECONDS_A_BYTE: f64 = 1e-9;
/// What is left to the host where the GPU decodes: reading, parsing, launching. Judged.
pub const HOST_OF_GPU_DECODE: f64 = 0.0004;

/// Work that the second thread of a core adds: none was seen by one user of FFCV (tatsu-lab/fast_imagenet_ffcv), up to 30 % on
/// servers (Marr et al. 2002, Intel Technology Journal 6(1)). Judged between them.
pub const SECOND_THREAD: f64 = 0.2;

/// JPEG that the decoder block of an A100 delivers, bytes of a second: 5,000 pictures of ImageNet (NVIDIA, "Loading Data Fast with
/// DALI and the New Hardware JPEG Decoder in NVIDIA A100 GPUs", as quoted in NVIDIA/DALI issue 5362). Newer parts have several
/// such blocks; nobody's figures for them are used here.
pub const JPEG_BLOCK_BYTES: f64 = 5000.0 * 114_660.0;
/// The same by CUDA on all of an A100: 6,000 pictures (the same issue). It takes the GPU away from training.
pub const JPEG_CUDA_BYTES: f64 = 6000.0 * 114_660.0;
/// Memory bandwidth of that A100, by which other GPUs are scaled. Bytes/s.
pub const JPEG_CUDA_BANDWIDTH: f64 = 1.555e12;

/// Copies from pageable memory are copied twice, and the program waits for them (CUDA C++ Best Practices Guide, "Pinned Memory").
pub const PAGEABLE_SHARE: f64 = 0.5;

/// Local NVMe, for every byte of its size: 660 MB/s and 170,000 reads of each disk of 375 GB, at most 9,360 MB/s and 2.4 million
/// (Compute Engine, "Block storage performance"). The catalog has no rates of other clouds; an m5d.4xlarge of AWS reads its
/// 300 GB at 689 to 819 MB/s.
pub const NVME_BYTES_A_BYTE: f64 = 660e6 / 375e9;
pub const NVME_READS_A_BYTE: f64 = 170_000.0 / 375e9;
pub const NVME_MOST_BYTES: f64 = 9_360e6;
pub const NVME_MOST_READS: f64 = 2.4e6;

/// A read of a network disk that counts as one (EBS user guide, "I/O characteristics": 256 KiB on SSD). Bytes.
pub const DISK_READ: f64 = 262_144.0;
/// Share of a machine's memory that keeps files, beside the program, its loaders and what is under way. Judged.
pub const CACHE_SHARE: f64 = 0.5;

/// Share of the host network that one store and one program reach together. A guess until the first staging is measured.
pub const NETWORK_SHARE: f64 = 0.5;
/// Network of a machine whose own is not in the catalog. Gb/s. A guess on the low side, as for checkpoints.
pub const UNKNOWN_HOST_GBIT: f64 = 10.0;
/// Amazon S3's performance design patterns (user guide): 85 to 90 MB/s a connection, small objects after 100 to 200 ms, 5,500
/// GETs a second and prefix. The same is taken of other stores, and one prefix is.
pub const STORE_CONNECTION: f64 = 85e6;
pub const STORE_LATENCY: f64 = 0.1;
pub const STORE_REQUESTS: f64 = 5500.0;
