//! The workload on the command line: a file, and single keys of it that are laid over it.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches};

use crate::arguments::foreign::ALIASES;

const HEADING: &str = "Workload (each replaces the file's own value)";

/// A workload as a file, as flags, or as a file with flags laid over it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub struct WorkloadArguments {
    /// Read the workload from this file (TOML), or ask the question of this plan (JSON) again
    pub file: Option<PathBuf>,
    /// Take one `[[phase]]` of the file as a workload of its own
    #[arg(long, value_name = "NAME", requires = "file")]
    pub phase: Option<String>,
    #[command(flatten)]
    pub flags: WorkloadFlags,
    /// Set any key of the workload file, such as training.dropout=0.1 (repeat for several)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl WorkloadArguments {
    /// A file, or at least one key.
    pub fn is_given(&self) -> bool {
        self.file.is_some() || self.assignments().next().is_some()
    }

    /// Keys that were stated here, as `section.key=value`; `--set` wins over a flag.
    pub fn assignments(&self) -> impl Iterator<Item = String> {
        let flags = self.flags.0.iter().map(|(key, value)| format!("{key}={value}"));
        flags.chain(self.set.iter().cloned())
    }
}

/// Values of the flags below, by the key of the workload file that each sets.
#[derive(Clone, Debug, Default)]
pub struct WorkloadFlags(Vec<(&'static str, String)>);

impl WorkloadFlags {
    /// What a flag says of this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(stated, _)| *stated == key).map(|(_, value)| value.as_str())
    }
}

/// A flag, the key of the workload file that it sets, the name of its value (empty for a switch), and its help.
type Flag = (&'static str, &'static str, &'static str, &'static str);

/// Keys that people set often. Every other key is reached by `--set`.
const FLAGS: [Flag; 69] = [
    ("model", "model.preset", "MODEL", "Take this named model, such as llama-3.1-8b (see `gpuplan catalog models`)"),
    (
        "config",
        "model.config",
        "FILE",
        "Read the model from this Hugging Face config.json, or a diffusers model_index.json",
    ),
    ("index", "model.index", "FILE", "Read the exact size from a safetensors file, or its index, beside the config"),
    (
        "params",
        "model.parameters",
        "N",
        "State the size alone, such as 7B, of a model that nobody can name: a dense language model with a wide band",
    ),
    (
        "flops-per-sample",
        "model.flops_per_sample",
        "FLOPS",
        "State the operations of a forward pass of one sample, such as 4.1G, of a model that is no transformer (beside --params)",
    ),
    ("task", "training.task", "TASK", "Choose the task: pretrain, full-fine-tune, lora, qlora or train"),
    (
        "tokens",
        "training.tokens",
        "TOKENS",
        "Train on this many tokens, such as 300B; with --epochs, tokens of the data set",
    ),
    (
        "samples",
        "training.samples",
        "SAMPLES",
        "Train on this many samples (sequences, images); with --epochs, samples of the data set",
    ),
    ("epochs", "training.epochs", "EPOCHS", "Pass over the data set this many times"),
    ("steps", "training.steps", "STEPS", "Run this many optimizer steps"),
    ("sequence-length", "training.sequence_length", "N", "Set the tokens of a sequence, or the side of an image"),
    ("global-batch", "training.global_batch", "N", "Set the sequences of an optimizer step"),
    ("global-batch-tokens", "training.global_batch_tokens", "N", "Set the tokens of an optimizer step, such as 4M"),
    ("micro-batch", "training.micro_batch", "N", "Set the sequences that one GPU takes in one pass"),
    (
        "precision",
        "training.precision",
        "PRECISION",
        "Choose the precision: fp32, tf32, fp16, amp-fp16, bf16, pure-bf16, fp8, mxfp8 or nvfp4",
    ),
    (
        "optimizer",
        "training.optimizer",
        "OPTIMIZER",
        "Choose the optimizer: adamw, adamw-bf16, adamw-8bit, adamw-paged, lamb, sgd ...",
    ),
    (
        "framework",
        "training.framework",
        "FRAMEWORK",
        "Choose the framework: fsdp, megatron, hf-trainer, litgpt, torchtune, pytorch-eager ...",
    ),
    ("recompute", "training.recompute", "RECOMPUTE", "Recompute activations: none, selective, full or offload"),
    ("attention", "training.attention", "ATTENTION", "Choose the attention kernels: flash or eager"),
    ("compile", "training.compile", "", "Compile the model"),
    ("grad-accumulation", "training.grad_accumulation", "N", "Accumulate gradients over this many passes a step"),
    ("base-weights", "training.base_weights", "FORMAT", "Store a frozen base as nf4, nf4-dq, int8 or int4"),
    (
        "loss",
        "training.loss",
        "LOSS",
        "Choose the loss: fp32, bf16-chunked, chunked, fused-linear, compiled or hf-upcast",
    ),
    ("offload", "training.offload", "OFFLOAD", "Keep parameters or activations on the host"),
    ("lora-rank", "training.lora.rank", "N", "Set the rank of the adapters"),
    ("lora-targets", "training.lora.targets", "LIST", "Choose the matrices with adapters: q,v or all-linear"),
    ("data-size", "data.size", "SIZE", "State the size of the data set, such as 1.2TB"),
    ("data-place", "data.place", "PLACE", "State where the data is stored: cloud/region"),
    ("data-samples", "data.samples", "N", "State the number of samples in the data set"),
    ("data-kind", "data.kind", "KIND", "State what samples are: jpeg, webp, raw, text, tokens, audio or video"),
    (
        "cpu-seconds-per-sample",
        "data.cpu_seconds_per_sample",
        "SECONDS",
        "State the host CPU time to load and decode one sample",
    ),
    ("checkpoint-size", "checkpoint.size", "SIZE", "State the size of a checkpoint, such as 110GB"),
    ("checkpoint-interval", "checkpoint.interval", "TIME", "Save a checkpoint this often, such as 30m, or choose"),
    ("requests-per-second", "serving.requests_per_second", "N", "Serve requests that arrive at this rate"),
    ("tokens-per-day", "serving.tokens_per_day", "TOKENS", "Serve this many tokens a day, of prompts and answers"),
    ("images-per-second", "serving.images_per_second", "N", "Serve images that arrive at this rate"),
    ("audio-hours-per-day", "serving.audio_hours_per_day", "HOURS", "Write down this much sound a day"),
    ("requests", "serving.requests", "N", "Get this many requests done"),
    ("serving-tokens", "serving.tokens", "TOKENS", "Get this many tokens done, of prompts and answers"),
    ("images", "serving.images", "N", "Get this many images done"),
    ("audio-hours", "serving.audio_hours", "HOURS", "Get this much sound written down"),
    ("audio-seconds", "serving.audio_seconds", "SECONDS", "State the sound that a request is about"),
    ("beams", "serving.beams", "N", "Follow this many transcripts at once (beam search)"),
    ("image-steps", "serving.steps", "N", "Make an image in this many steps of the sampler"),
    (
        "guidance",
        "serving.guidance",
        "BOOL",
        "Run a diffusion model with and without the prompt in every step: true or false",
    ),
    ("resolution", "serving.resolution", "PIXELS", "Make images of this side"),
    (
        "images-at-once",
        "serving.batch",
        "N",
        "Make this many images, or write this many windows of sound, together at most",
    ),
    ("prompt-tokens", "serving.prompt_tokens", "N", "State the tokens of a prompt"),
    ("answer-tokens", "serving.answer_tokens", "N", "State the tokens of an answer; 0: only the prompt is read"),
    ("time-to-first-token", "serving.time_to_first_token", "TIME", "Show nine of ten the first token within this time"),
    ("time-per-token", "serving.time_per_token", "TIME", "Keep this mean time between two tokens, such as 50ms"),
    ("hours", "serving.hours", "HOURS", "Run the service for these hours of a month"),
    ("duration", "serving.duration", "TIME", "Run the service once, for this long, such as 3d"),
    ("weights", "serving.weights", "FORMAT", "Serve weights in bf16, fp8, int8, int4, mxfp4 or nvfp4"),
    ("kv-cache", "serving.kv_cache", "FORMAT", "Keep keys and values in bf16, fp8 or int8"),
    ("availability", "serving.availability", "SHARE", "Have enough replicas for this share of time, such as 0.99"),
    (
        "engine",
        "serving.engine",
        "ENGINE",
        "Serve with vllm, sglang or tensorrt-llm; images with tensorrt or pytorch, speech with faster-whisper",
    ),
    ("tensor-parallel", "serving.tensor_parallel", "N", "Share each matrix of a served copy over this many GPUs"),
    ("pipeline-parallel", "serving.pipeline_parallel", "N", "Split a served copy into this many stages of layers"),
    (
        "attention-data-parallel",
        "serving.attention_data_parallel",
        "N",
        "Let this many groups of GPUs of a served copy attend to sequences of their own",
    ),
    ("expert-parallel", "serving.expert_parallel", "", "Deal experts out whole over the GPUs of a served copy"),
    ("disaggregated", "serving.disaggregated", "", "Read prompts on GPUs of their own, which hand the cache over"),
    ("prefill-workers", "serving.prefill_workers", "N", "Let this many copies read prompts for the decode workers"),
    ("decode-workers", "serving.decode_workers", "N", "Let this many copies write answers for the prefill workers"),
    (
        "prefill-tensor-parallel",
        "serving.prefill_tensor_parallel",
        "N",
        "Share each matrix of a copy that reads prompts over this many GPUs",
    ),
    (
        "prefill-attention-data-parallel",
        "serving.prefill_attention_data_parallel",
        "N",
        "Let this many groups of GPUs of a copy read prompts of their own",
    ),
    (
        "prefill-expert-parallel",
        "serving.prefill_expert_parallel",
        "",
        "Deal experts out whole over the GPUs of a copy that reads prompts",
    ),
    (
        "draft-tokens",
        "serving.draft_tokens",
        "N",
        "Draft this many tokens a pass (speculation, multi-token prediction)",
    ),
    ("accepted-tokens", "serving.accepted_tokens", "N", "State how many drafted tokens are accepted, on average"),
];

/// The flag of this name, and the key of the workload file that it sets.
pub fn flag_named(name: &str) -> Option<(&'static str, &'static str)> {
    FLAGS.iter().find(|(flag, ..)| *flag == name).map(|(flag, key, ..)| (*flag, *key))
}

/// The flag that states a key of the workload file, limits included. `None`: only `--set` reaches it.
pub fn flag_of(key: &str) -> Option<&str> {
    let of_limit = |limit: &str| {
        Some(match limit {
            "deadline" => "deadline",
            "budget" => "budget",
            "confidence" => "confidence",
            "max_price" => "max-price",
            "value_of_time" => "value-of-time",
            "clouds" => "cloud",
            "regions" => "region",
            "gpus" => "gpus",
            "objective" => "objective",
            "purchase" => "purchase",
            "max_nodes" => "max-nodes",
            _ => return None,
        })
    };
    let of_workload = FLAGS.iter().find(|(_, stated, ..)| *stated == key).map(|(flag, ..)| *flag);
    of_workload.or_else(|| of_limit(key.strip_prefix("limits.")?))
}

/// Flags that say the same thing in different ways. Tokens or samples beside epochs are those of the data set.
const ALTERNATIVES: [(&str, &[&str]); 4] = [
    ("named model or configuration", &["model", "config"]),
    ("amount of training", &["tokens", "samples", "steps"]),
    ("passes or steps", &["epochs", "steps"]),
    ("size of a step", &["global-batch", "global-batch-tokens"]),
];
/// What a flag states of the data set where it stands beside `--epochs`.
const WITH_EPOCHS: [(&str, &str); 2] = [("training.tokens", "data.tokens"), ("training.samples", "data.samples")];

fn argument((name, _, value, help): &Flag) -> Arg {
    let aliases = ALIASES.iter().filter(|(_, flag)| flag == name).map(|(alias, _)| *alias);
    let argument = Arg::new(*name).long(*name).aliases(aliases).help(*help).help_heading(HEADING);
    match *value {
        "" => argument.action(ArgAction::SetTrue),
        "LIST" => argument.value_name("LIST").action(ArgAction::Append),
        "MODEL" => argument.value_name("MODEL").short('m'),
        value => argument.value_name(value),
    }
}

impl Args for WorkloadFlags {
    fn augment_args(command: Command) -> Command {
        let groups = ALTERNATIVES.iter().map(|(name, flags)| ArgGroup::new(*name).args(*flags));
        command.args(FLAGS.iter().map(argument)).groups(groups)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WorkloadFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value = |(name, _, value, _): &Flag| match *value {
            "" => matches.get_flag(name).then(|| "true".to_owned()),
            _ => Some(matches.get_many::<String>(name)?.cloned().collect::<Vec<_>>().join(",")),
        };
        let has_epochs = matches.contains_id("epochs");
        let key = |flag: &Flag| match WITH_EPOCHS.iter().find(|(alone, _)| *alone == flag.1) {
            Some((_, of_data)) if has_epochs => *of_data,
            _ => flag.1,
        };
        Ok(Self(FLAGS.iter().filter_map(|flag| Some((key(flag), value(flag)?))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        workload: WorkloadArguments,
    }

    fn stated(line: &str) -> Result<Vec<String>, clap::Error> {
        let program = Program::try_parse_from(format!("program {line}").trim().split(' '))?;
        Ok(program.workload.assignments().collect())
    }

    #[test]
    fn a_flag_and_set_state_keys_of_the_workload_file() {
        let line = "-m gpt-2 --tokens 10M --compile --lora-targets q,v --lora-targets o --set training.dropout=0.1";
        let expected = [
            "model.preset=gpt-2",
            "training.tokens=10M",
            "training.compile=true",
            "training.lora.targets=q,v,o",
            "training.dropout=0.1",
        ];
        assert_eq!(stated(line).unwrap(), expected);
        assert_eq!(stated("").unwrap(), [""; 0]);
    }

    #[test]
    fn samples_beside_epochs_are_those_of_the_data_set() {
        assert_eq!(stated("--samples 1.28M --epochs 90").unwrap(), ["data.samples=1.28M", "training.epochs=90"]);
        assert_eq!(stated("--tokens 1B --epochs 2").unwrap(), ["data.tokens=1B", "training.epochs=2"]);
        assert_eq!(stated("--samples 1.28M").unwrap(), ["training.samples=1.28M"]);
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        for line in [
            "--tokens 1B --steps 10",
            "--epochs 3 --steps 10",
            "--samples 10 --tokens 1B",
            "--model gpt-2 --config config.json",
            "--set",
        ] {
            assert!(stated(line).is_err(), "{line}");
        }
    }
}
