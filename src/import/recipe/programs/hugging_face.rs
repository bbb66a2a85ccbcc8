//! Programs on Hugging Face's Trainer, and those that are not known: the usual words.

use crate::recipe::entry::Entry;
use crate::recipe::model;
use crate::recipe::setting::Setting::{self, Completed, Devices, Flag, Nothing, Number, Optimizer, Rank};
use crate::recipe::setting::{Dialect, Outcome};
use crate::recipe::sizes;
use crate::recipe::usual::OPTIMIZERS;
use crate::recipe::words::{EPOCHS, MICRO_BATCH, STEPS, pretrains, value};
use crate::{JobRequest, Names};
use gpuplan_workload::assumption::JobAssumption;

/// A program that is not known: the usual words.
pub const ANY: Dialect = Dialect { stack: "", settings: DEVICES, nothing: &[], has_common: true, complete: unknown };

/// Words by which programs are told on which cards they run.
const DEVICES: &[(&str, Setting)] =
    &[("gpu", Devices), ("gpu_id", Devices), ("gpu_ids", Devices), ("gpu_list", Devices), ("device_ids", Devices)];

pub const HUGGING_FACE: Dialect = Dialect {
    stack: "hf-trainer",
    complete: |entries, asked, names| {
        adapters(entries, asked, names);
        sizes::read(entries, asked, names);
    },
    ..ANY
};

pub const TRL: Dialect = Dialect { stack: "trl", complete: adapters, ..ANY };

pub const UNSLOTH: Dialect = Dialect { stack: "unsloth", settings: &[("r", Rank)], complete: unsloth, ..ANY };

/// diffusers (examples/) and sd-scripts (docs/train_network.md): the batch is that of each process.
pub const DIFFUSERS: Dialect = Dialect {
    settings: &[
        ("train_batch_size", MICRO_BATCH),
        ("rank", Rank),
        ("network_dim", Rank),
        ("network_module", Completed),
        ("max_train_epochs", EPOCHS),
        ("optimizer_type", Optimizer(OPTIMIZERS)),
        ("use_ema", Flag(|file| &mut file.training.ema)),
        ("num_frames", Number(|file| &mut file.training.frames)),
        ("max_num_frames", Number(|file| &mut file.training.frames)),
    ],
    complete: |entries, asked, names| {
        if let Some(side) = value(entries, "resolution").and_then(side) {
            asked.workload.training.sequence_length = Some(side.to_owned().into());
            asked.understand_after_all("resolution");
        }
        // sd-scripts has an implementation of LoRA for each family of models: `networks.lora`, `networks.lora_flux`.
        if value(entries, "network_module").is_some_and(|module| module.starts_with("networks.lora")) {
            asked.workload.training.task.get_or_insert_with(|| "lora".to_owned());
        }
        unknown(entries, asked, names);
    },
    ..ANY
};

/// The side of a square picture: `512`, `512,512` or `512x512`.
fn side(resolution: &str) -> Option<&str> {
    let (width, height) = resolution.split_once([',', 'x']).unwrap_or((resolution, resolution));
    let (width, height) = (width.trim(), height.trim());
    (width == height && width.parse::<u32>().is_ok_and(|side| side > 0)).then_some(width)
}

/// The programs for BERT of transformers' first versions and of NVIDIA: the batch is that of each process.
pub const BERT: Dialect = Dialect { settings: &[("train_batch_size", MICRO_BATCH)], ..ANY };

/// LeRobot's policies are none of the catalog's models.
pub const LEROBOT: Dialect = Dialect { settings: &[("steps", STEPS), ("batch_size", MICRO_BATCH)], ..ANY };

/// A program that is not known: what its words mean by themselves.
fn unknown(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    adapters(entries, asked, names);
    model_of_another_key(entries, asked, names);
    sizes::read(entries, asked, names);
    steps_of_a_training(entries, asked);
    let training = &mut asked.workload.training;
    // `--batch 4 --accum 8`: beside batches that a step gathers it is one of them.
    let keys = if training.grad_accumulation.is_some() {
        ["batch_size", "train_batch_size", "batch"].as_slice()
    } else {
        &["batch_size", "train_batch_size"]
    };
    let found = keys.iter().find_map(|key| Some((*key, value(entries, key)?)));
    let Some((key, batch)) = found.filter(|(_, batch)| batch.parse::<u32>().is_ok_and(|batch| batch > 0)) else {
        return;
    };
    let shown = entries.iter().find(|entry| entry.key == key).map_or(key, |entry| &entry.shown);
    if training.global_batch.is_some() {
        return;
    }
    // alpaca-lora (finetune.py) and its descendants: `batch_size` is that of all, beside the `micro_batch_size` that fits a card, or one of a
    // card under another name.
    let whole = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    let of_card = training.micro_batch.as_ref().map(ToString::to_string);
    let each = value(entries, "micro_batch_size").map(str::to_owned).or(of_card).as_deref().and_then(whole);
    if let (Some(together), Some(each)) = (whole(batch), each) {
        if key == "batch_size" && training.grad_accumulation.is_none() && together.is_multiple_of(each) {
            training.global_batch = Some(batch.to_owned().into());
            asked.understand_after_all(shown);
        }
    } else if training.micro_batch.is_none() {
        training.micro_batch = Some(batch.to_owned().into());
        asked.understand_after_all(shown);
        asked.assumed.push(JobAssumption::BatchOfEachGpu { batch: batch.to_owned() });
    }
}

/// A model under a key that no table has.
fn model_of_another_key(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    // OpenRLHF's word for the model: of others it may be a switch, or a checkpoint of anything.
    let is_model = |text: &str| names.models.named(text).is_some() || names.models.made_of(text).is_some();
    // ColossalAI's says the architecture beside it: `--model bloom --pretrain bigscience/bloom-1b7`.
    let is_whole = |text: &str, name: &str| {
        text.contains('/') && !name.contains('/') && text.to_ascii_lowercase().contains(&name.to_ascii_lowercase())
    };
    let pretrain = value(entries, "pretrain").filter(|text| match &asked.model_name {
        None => is_model(text),
        Some(name) => is_whole(text, name),
    });
    // `--base Qwen/Qwen3-0.6B`, `llm: google/gemma-2-2b`: one name of a model alone, under a word for the one that is trained.
    let says_one = |entry: &&Entry| {
        const WORDS: [&str; 7] = ["model", "base", "pretrained", "llm", "backbone", "checkpoint", "ckpt"];
        const OTHERS: [&str; 11] = [
            "tokenizer",
            "teacher",
            "reward",
            "judge",
            "embed",
            "embedding",
            "draft",
            "ref",
            "reference",
            "eval",
            "vision",
        ];
        let has = |all: &[&str]| entry.key.split(['_', '.']).any(|word| all.contains(&word));
        has(&WORDS) && !has(&OTHERS) && entry.value.as_deref().is_some_and(|text| names.models.named(text).is_some())
    };
    let mut others = entries.iter().filter(says_one);
    let other = match (others.next(), others.next()) {
        (Some(one), None) if asked.model_name.is_none() => Some(one),
        _ => None,
    };
    let found = pretrain.map(|text| ("pretrain", text));
    let found = found.or_else(|| other.and_then(|entry| Some((entry.key.as_str(), entry.value.as_deref()?))));
    if let Some((key, text)) = found
        && matches!(model::name(text, asked, names), Outcome::Understood)
    {
        asked.understand_after_all(key);
    }
}

/// `--steps` may be those of a sampler or of a warm-up: beside a rate of learning and a batch they are those of the training.
fn steps_of_a_training(entries: &[Entry], asked: &mut JobRequest) {
    let has = |end: &str| entries.iter().any(|entry| entry.key == end || entry.key.starts_with(&format!("{end}_")));
    let learns = (has("lr") || has("learning_rate")) && has("batch_size");
    let steps = value(entries, "steps").filter(|text| learns && text.parse::<u64>().is_ok_and(|steps| steps > 0));
    if let Some(steps) = steps.filter(|_| asked.workload.training.steps.is_none()) {
        asked.workload.training.steps = Some(steps.to_owned().into());
        asked.workload.training.epochs = None;
        asked.understand_after_all("steps");
    }
}

/// A language model by its sizes, in a program that is not known and names no weights.
pub const DECODER: Dialect = Dialect {
    settings: &[
        ("num_layers", Number(|file| &mut file.model.layers)),
        ("hidden_size", Number(|file| &mut file.model.hidden)),
        ("num_heads", Number(|file| &mut file.model.heads)),
        ("num_kv_heads", Number(|file| &mut file.model.kv_heads)),
        ("vocab_size", Number(|file| &mut file.model.vocab)),
        ("intermediate_size", Number(|file| &mut file.model.ffn_hidden)),
        ("ffn_hidden_size", Number(|file| &mut file.model.ffn_hidden)),
        // The words of GPT-2's own code, and of nanoGPT.
        ("n_layer", Number(|file| &mut file.model.layers)),
        ("n_embd", Number(|file| &mut file.model.hidden)),
        ("n_head", Number(|file| &mut file.model.heads)),
        ("n_layers", Number(|file| &mut file.model.layers)),
        ("n_embed", Number(|file| &mut file.model.hidden)),
        ("n_heads", Number(|file| &mut file.model.heads)),
        // What is described is none of the models of others: its name is its own.
        ("model_name", Nothing),
        ("n_kv_head", Number(|file| &mut file.model.kv_heads)),
        ("n_kv_heads", Number(|file| &mut file.model.kv_heads)),
    ],
    complete: |entries, asked, names| {
        pretrains(asked);
        unknown(entries, asked, names);
    },
    ..ANY
};

/// Its command line has no other training than that of adapters (unsloth-cli.py).
fn unsloth(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    asked.workload.training.task.get_or_insert_with(|| "lora".to_owned());
    adapters(entries, asked, names);
}

/// Ranks or frozen weights of four bits are adapters, and so is what calls its method so (`--CL_method lora`, `--tuner_type lora`).
pub fn adapters(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    let training = &mut asked.workload.training;
    let has_method = |method: &str| {
        entries.iter().any(|entry| {
            let names_way =
                ["method", "_type", "peft", "tuning", "adapter"].iter().any(|word| entry.key.ends_with(word));
            names_way && entry.value.as_deref().is_some_and(|value| value.eq_ignore_ascii_case(method))
        })
    };
    if has_method("qlora") {
        training.task = Some("qlora".to_owned());
    } else if training.lora.rank.is_some() || has_method("lora") {
        training.task.get_or_insert_with(|| "lora".to_owned());
    }
    // Weights of 32 bits and no arithmetic of 16.
    let is = |key: &str, value: &str| {
        let named = |entry: &&Entry| entry.key == key || entry.key.ends_with(&format!(".{key}"));
        entries.iter().find(named).and_then(|entry| entry.value.as_deref()).is_some_and(|text| text == value)
    };
    let is_single =
        ["float32", "fp32", "torch.float32"].iter().any(|word| is("torch_dtype", word) || is("dtype", word));
    if is_single && is("bf16", "false") && is("fp16", "false") {
        training.precision.get_or_insert_with(|| "fp32".to_owned());
    }
    // Unsloth's copies in four bits have it in their names; bitsandbytes reads it from their own configuration.
    if asked.model_name.as_deref().is_some_and(|name| name.to_ascii_lowercase().contains("bnb-4bit")) {
        training.base_weights.get_or_insert_with(|| "nf4".to_owned());
    }
    let is_quantized = matches!(training.base_weights.as_deref(), Some("nf4"));
    let is_named = asked.model_name.as_deref().is_some_and(|name| name.to_ascii_lowercase().contains("bnb-4bit"));
    if is_quantized && (training.task.as_deref() == Some("lora") || (training.task.is_none() && !is_named)) {
        training.task = Some("qlora".to_owned());
    }
    if training.base_weights.is_some() && !matches!(training.task.as_deref(), Some("lora" | "qlora")) {
        training.base_weights = None;
    }
}
