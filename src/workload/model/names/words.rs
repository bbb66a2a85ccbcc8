//! Words of model names, by what they say of the sizes.

/// Words that name a revision of a model and leave its sizes as they are.
pub(super) const REVISIONS: [&str; 24] = [
    "instruct",
    "it",
    "chat",
    "base",
    "pt",
    "hf",
    "thinking",
    "think",
    "reasoning",
    "preview",
    "latest",
    "sft",
    "dpo",
    "rlvr",
    "exp",
    "deduped",
    "abliterated",
    "original",
    "dynamic",
    "static",
    "channel",
    "block",
    "pertensor",
    "kv",
];

/// Words that say what a model is for where that changes its shape: with one of them it is another model than without.
pub(super) const PURPOSES: [&str; 13] = [
    "embed",
    "embedding",
    "embeddings",
    "reranker",
    "rerank",
    "vl",
    "vision",
    "audio",
    "omni",
    "ocr",
    "asr",
    "tts",
    "image",
];

/// Words that name how a file is packed, and not in how many bits.
pub(super) const PACKAGES: [&str; 11] =
    ["gguf", "ggml", "mlx", "onnx", "bnb", "quantized", "quant", "qat", "unsloth", "autoround", "torchao"];

/// Words of what is no model of its own but a part of one, or of what was cut from one: its sizes are others; `mot` has two sets of
/// weights, `animate` a network beside that follows a figure, and another
/// vocabulary is a third of a small encoder.
pub(super) const PARTS: [&str; 47] = [
    "lora",
    "qlora",
    "dora",
    "adapter",
    "adapters",
    "peft",
    "eagle",
    "draft",
    "drafter",
    "dflash",
    "dspark",
    "spec",
    "speculator",
    "medusa",
    "assistant",
    "controlnet",
    "refiner",
    "vae",
    "tokenizer",
    "projector",
    "aligner",
    "forcedaligner",
    "mmproj",
    "imatrix",
    "reap",
    "pruned",
    "prune",
    "minitron",
    "slim",
    "random",
    "dummy",
    "truncated",
    "layers",
    "patch",
    "upscaled",
    "franken",
    "moe",
    "hybrid",
    "mamba",
    "rwkv",
    "diffusion",
    "hyena",
    "xlstm",
    "bitnet",
    "mot",
    "animate",
    "multilingual",
];

/// Words of language models that were given eyes: more parameters than the model they name.
pub(super) const WITH_TOWERS: [&str; 8] =
    ["llava", "ultravox", "blip", "ovis", "onevision", "vlm", "captioner", "internvl"];

/// Words of detectors and segmenters, whose name tells the network that they are built on: more work than that, at another resolution.
pub(super) const ON_BACKBONES: [&str; 18] = [
    "detr",
    "rcnn",
    "maskrcnn",
    "retinanet",
    "fpn",
    "unet",
    "upernet",
    "deeplab",
    "deeplabv",
    "maskformer",
    "oneformer",
    "former",
    "ssd",
    "seg",
    "pose",
    "obb",
    "cls",
    "worldv",
];

/// Words that tell one size of a family from another where no number does.
pub(super) const VARIANTS: [&str; 24] = [
    "tiny", "mini", "small", "medium", "large", "xlarge", "xsmall", "xl", "xxl", "nano", "micro", "lite", "light",
    "flash", "air", "pro", "max", "ultra", "super", "turbo", "huge", "giant", "big", "realtime",
];

/// Words of models that make pictures, films or sound, whose size says nothing of a language model's shape.
pub(super) const OTHER_KINDS: [&str; 32] = [
    "image",
    "t2i",
    "t2v",
    "i2v",
    "ti2v",
    "tts",
    "vae",
    "unet",
    "diffusion",
    "video",
    "music",
    "audio",
    "clip",
    "vocoder",
    "codec",
    "depth",
    "asr",
    "speech",
    "voice",
    "transcribe",
    "canary",
    "parakeet",
    "kokoro",
    "csm",
    "chatterbox",
    "stt",
    "flf2v",
    "s2v",
    "v2v",
    "vace",
    "timeseries",
    "forecast",
];

/// Words that say of a model that it hears, which leave its sizes as they are where it does.
pub(super) const HEARING: [&str; 5] = ["asr", "stt", "transcribe", "transcription", "speech"];
