//! What people type who know other programs, and what says the same here.

/// Names of flags of other programs that are taken as they are, and the flag of ours that each is.
pub const ALIASES: [(&str, &str); 32] = [
    // vLLM, SGLang and their benchmarks.
    ("input-tokens", "prompt-tokens"),
    ("input-len", "prompt-tokens"),
    ("output-tokens", "answer-tokens"),
    ("output-len", "answer-tokens"),
    ("rps", "requests-per-second"),
    ("qps", "requests-per-second"),
    ("request-rate", "requests-per-second"),
    ("tensor-parallel-size", "tensor-parallel"),
    ("tp", "tensor-parallel"),
    ("pipeline-parallel-size", "pipeline-parallel"),
    ("enable-expert-parallel", "expert-parallel"),
    ("kv-cache-dtype", "kv-cache"),
    // Megatron, Hugging Face, Axolotl, LLaMA-Factory, TRL.
    ("seq-length", "sequence-length"),
    ("seq-len", "sequence-length"),
    ("seqlen", "sequence-length"),
    ("max-seq-length", "sequence-length"),
    ("max-seq-len", "sequence-length"),
    ("max-length", "sequence-length"),
    ("cutoff-len", "sequence-length"),
    ("block-size", "sequence-length"),
    ("context", "sequence-length"),
    ("context-length", "sequence-length"),
    ("global-batch-size", "global-batch"),
    ("micro-batch-size", "micro-batch"),
    ("per-device-train-batch-size", "micro-batch"),
    ("gradient-accumulation-steps", "grad-accumulation"),
    ("num-train-epochs", "epochs"),
    ("max-steps", "steps"),
    ("dtype", "precision"),
    ("lora-r", "lora-rank"),
    ("model-name-or-path", "model"),
    ("base-model", "model"),
];

const BATCHES: &str =
    "--global-batch N: the sequences of a step, over all GPUs; or --micro-batch N: those of one pass of one GPU";
const CHANGES_NOTHING: &str = "leave it out: it changes neither the time nor the cost of a run";
const CHOSEN: &str = "leave it out: a plan chooses how the GPUs share the model, and `gpuplan explain` shows it";
const MACHINE: &str =
    "--gpus H100:8 --cloud aws: a plan chooses the machine; `gpuplan catalog instances` has their names";
const MACHINES: &str = "--max-nodes 2; or --gpus H100:16, which counts the GPUs of all machines";
const ZONE: &str = "--region us-east-1, or the id of a zone, such as use1-az6";
const UNTIL: &str = "--deadline 24h: when it must be done, starts and waiting included";
const ACCOUNT: &str = "leave it out: plans need no account; `gpuplan doctor` says which credentials a launch finds";
const ARRIVALS: &str = "--requests-per-second N: how many arrive, which is users over the seconds between two requests of one; how many run at a time follows";
const VIDEOS: &str = "leave it out: models that make clips are planned for training alone (--task lora --steps 1000); for clips, measure one: its GPU hours times their number, at the rate that `gpuplan prices H100` shows";
const AHEAD: &str = "--purchase capacity-block, calendar or flex-start, with --live: no list has their prices";
const SORTED: &str = "leave it out: the cheapest GPU stands first; --output csv for an order of your own";
const MEMORY: &str = "--gpus 24GB+";

/// Flags that are refused with what says the same, and what it is called here.
const FOREIGN: [(&str, &str); 90] = [
    // Accelerate, DeepSpeed, Megatron, Hugging Face.
    ("batch-size", BATCHES),
    ("bs", BATCHES),
    ("train-batch-size", "--global-batch N: the sequences of a step, over all GPUs"),
    ("dataset", "--samples or --tokens says how much there is, --data-place where it is stored"),
    ("bf16", "--precision bf16"),
    ("fp16", "--precision fp16"),
    ("fp8", "--precision fp8"),
    ("mixed-precision", "--precision bf16"),
    ("gradient-checkpointing", "--recompute full"),
    ("activation-checkpointing", "--recompute full"),
    ("flash-attention", "--attention flash"),
    ("load-in-4bit", "--task qlora"),
    ("lora-dropout", "--set training.lora.dropout=0.05"),
    ("zero-stage", CHOSEN),
    ("tensor-model-parallel-size", CHOSEN),
    ("pipeline-model-parallel-size", CHOSEN),
    ("context-parallel-size", CHOSEN),
    ("data-parallel-size", CHOSEN),
    ("lr", CHANGES_NOTHING),
    ("learning-rate", CHANGES_NOTHING),
    ("warmup-steps", CHANGES_NOTHING),
    ("warmup-ratio", CHANGES_NOTHING),
    ("weight-decay", CHANGES_NOTHING),
    ("lora-alpha", CHANGES_NOTHING),
    ("output-dir", CHANGES_NOTHING),
    // SkyPilot, dstack, Slurm, torchrun; and ours, of commands that take them as a word.
    ("gpus", "name them without a flag, as in `gpuplan catalog instances H100:8`"),
    ("gpu", "--gpus H100:8"),
    ("min-gpus", "--gpus H100:8+: that many or more"),
    ("max-gpus", "--gpus H100:1..8"),
    ("num-gpus", "--gpus H100:8"),
    ("gpu-count", "--gpus H100:8"),
    ("gpu-type", "--gpus H100"),
    ("accelerators", "--gpus H100:8"),
    ("gres", "--gpus H100:8"),
    ("gpus-per-node", "--gpus H100:8"),
    ("gpus-per-task", "--gpus H100:8"),
    ("ntasks-per-node", "--gpus H100:8"),
    ("nproc-per-node", "--gpus H100:8"),
    ("nproc", "--gpus H100:8"),
    ("nodes", MACHINES),
    ("nnodes", MACHINES),
    ("num-machines", MACHINES),
    ("time", UNTIL),
    ("walltime", UNTIL),
    ("max-time", UNTIL),
    ("max-hours", UNTIL),
    ("max-duration", UNTIL),
    ("preemptible", "--spot"),
    ("interruptible", "--spot"),
    ("spot-only", "--spot"),
    ("vram", MEMORY),
    ("min-vram", MEMORY),
    ("gpu-memory", MEMORY),
    ("capacity-block", AHEAD),
    ("capacity-blocks", AHEAD),
    ("calendar", AHEAD),
    ("flex-start", AHEAD),
    ("reserved", "--purchase commitment: for one or three years; or capacity-block or calendar: for days"),
    ("reservation", "--purchase commitment: for one or three years; or capacity-block or calendar: for days"),
    ("sort", SORTED),
    ("sort-by", SORTED),
    ("order-by", SORTED),
    ("infra", "--cloud aws --region us-east-1"),
    ("all", "--max-results 0: every row"),
    ("max", "--max-results 5: rows that are shown; --max-price 20: dollars an hour of a plan"),
    // The clouds' own programs.
    ("provider", "--cloud aws"),
    ("zone", ZONE),
    ("availability-zone", ZONE),
    ("instance-type", MACHINE),
    ("instance-types", MACHINE),
    ("machine-type", MACHINE),
    ("vm-size", MACHINE),
    ("project", ACCOUNT),
    ("subscription", ACCOUNT),
    // Of engines that serve.
    ("quantization", "--weights fp8: of the served model; bf16, fp8, int8, int4, mxfp4 or nvfp4"),
    ("gpu-memory-utilization", "leave it out: a served model is planned with 0.9, the default of vLLM"),
    ("max-model-len", "--sequence-length N of training; --prompt-tokens and --answer-tokens of a served model"),
    ("max-concurrency", ARRIVALS),
    ("concurrency", ARRIVALS),
    ("users", ARRIVALS),
    ("num-users", ARRIVALS),
    ("concurrent-users", ARRIVALS),
    ("concurrent-requests", ARRIVALS),
    ("videos", VIDEOS),
    ("clips", VIDEOS),
    ("num-videos", VIDEOS),
    // Money and output.
    ("max-price", "leave it out: offers are listed from the cheapest GPU on; plans have such a limit"),
    ("max-cost", "--budget 100: dollars for the whole run"),
    ("price", "--max-price 20: dollars an hour for all machines together"),
    ("json", "--output json"),
];

/// What to type in place of a flag of other programs. `None`: nobody's flag that is known.
pub fn instead_of(flag: &str) -> Option<String> {
    let name = flag.trim_start_matches('-').to_ascii_lowercase().replace('_', "-");
    if let Some((_, instead)) = FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
        return Some((*instead).to_owned());
    }
    // Python programs write their flags with underscores.
    let known = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, flag)| *flag);
    known.map(|flag| format!("--{flag}"))
}

/// The one value that says both where the name of a GPU and a count were given apart: `--gpu h100 --gpus 8` is `h100:8`.
pub fn gpus_given_apart(words: &[String]) -> Option<String> {
    let own = words.split(|word| word == "--").next()?;
    let values: Vec<&str> = own
        .iter()
        .enumerate()
        .filter_map(|(index, word)| match word.split_once('=').unwrap_or((word, "")) {
            ("--gpu" | "--gpus" | "-g", "") => own.get(index + 1).map(String::as_str),
            ("--gpu" | "--gpus", value) => Some(value),
            _ => None,
        })
        .collect();
    let is_count = |value: &str| value.parse::<u32>().is_ok();
    match values[..] {
        [name, count] | [count, name] if is_count(count) && !is_count(name) => Some(format!("{name}:{count}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_of_another_program_is_known_once() {
        let names: Vec<&str> = ALIASES.iter().chain(&FOREIGN).map(|(name, _)| *name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn underscores_and_capitals_are_the_same_flag() {
        assert_eq!(instead_of("--num_train_epochs").as_deref(), Some("--epochs"));
        assert_eq!(instead_of("--BF16").as_deref(), Some("--precision bf16"));
        assert_eq!(instead_of("--gpu_memory").as_deref(), Some(MEMORY));
        assert_eq!(instead_of("--nobodys-flag"), None);
    }

    #[test]
    fn a_gpu_and_a_count_given_apart_are_one_value() {
        let value = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            gpus_given_apart(&words)
        };
        for line in ["estimate --gpu h100 --gpus 8", "estimate --gpus=8 -g h100", "estimate --gpu 8 --gpus=h100"] {
            assert_eq!(value(line).as_deref(), Some("h100:8"), "{line}");
        }
        for line in ["estimate --gpu h100 --gpus a100", "estimate --gpus 8", "launch --gpu h100 -- train --gpus 8"] {
            assert_eq!(value(line), None, "{line}");
        }
    }
}
