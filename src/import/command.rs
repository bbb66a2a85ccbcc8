//! What a training command says of its workload: flags of Hugging Face's Trainer, Megatron-LM, TRL, torchtune's and others' usual words.

use crate::{JobRequest, Names, shell};
use gpuplan_units::names::word as spelt;
use gpuplan_workload::assumption::JobAssumption;
use gpuplan_workload::file::{Scalar, WorkloadFile};
use gpuplan_workload::{Stack, Stacks};

/// What became of a flag.
enum Outcome {
    Understood,
    WithoutEffect,
    Unread,
}

/// Programs that start the training program: what stands before it is theirs.
const LAUNCHERS: [&str; 9] =
    ["torchrun", "accelerate", "deepspeed", "python", "python3", "srun", "mpirun", "gpuplan", "ray"];

/// Flags that say where and how to run, save and log: neither the work nor the machines depend on them.
const WITHOUT_EFFECT: [&str; 43] = [
    "nproc_per_node",
    "nnodes",
    "node_rank",
    "rdzv_backend",
    "rdzv_endpoint",
    "rdzv_id",
    "rdzv_conf",
    "master_addr",
    "master_port",
    "standalone",
    "max_restarts",
    "num_processes",
    "num_machines",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "config_file",
    "local_rank",
    "output_dir",
    "logging_dir",
    "logging_steps",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "save",
    "load",
    "save_interval",
    "report_to",
    "run_name",
    "seed",
    "learning_rate",
    "lr",
    "lr_scheduler_type",
    "warmup_ratio",
    "warmup_steps",
    "weight_decay",
    "dataset_name",
    "data_path",
    "train_file",
    "enable_jit_checkpoint",
    "exit_signal_handler",
    "do_train",
    // The estimate hides gradients in every stack.
    "overlap_grad_reduce",
];

/// How a model is split, which a plan chooses anew.
const LAYOUT: [&str; 9] = [
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "num_virtual_stages_per_pipeline_rank",
    "use_distributed_optimizer",
    "num_distributed_optimizer_instances",
    "sequence_parallel",
    "fsdp",
];

/// Reads every training command of a script into the job.
pub fn read(script: &str, asked: &mut JobRequest, names: Names) {
    for line in shell::script_lines(&script.replace("\r\n", "\n")) {
        let mut rest = line.words.as_slice();
        while let Some(at) = program(rest) {
            let (before, behind) = rest.split_at(at + 1);
            let (after, next) =
                behind.split_at(behind.iter().position(|word| ends_a_command(word)).unwrap_or(behind.len()));
            read_one(before, after, asked, names);
            rest = next;
            if line.is_cut {
                asked.leave_unread(&before[at], "(a quote in its command is never closed)");
            }
        }
    }
}

/// Words of a command up to its program, and those behind it.
fn read_one(before: &[String], after: &[String], asked: &mut JobRequest, names: Names) {
    // Of a launcher's flags only those of the tables are looked at: the others are not the workload's.
    for (key, value) in flags(before) {
        if matches!(apply(&key, value.as_deref(), &mut asked.workload, names), Outcome::Understood) {
            asked.understand(&format!("--{key}"), value.as_deref().unwrap_or("(set)"));
        }
    }
    if let Some(program) = before.last() {
        name_of_program(program, asked);
    }
    let given = flags(after);
    let stack = before.last().and_then(|program| stack_of(program, &given));
    let says_recompute = given.iter().any(|(key, _)| RECOMPUTE.contains(&key.as_str()));
    for (key, value) in given {
        let outcome = apply(&key, value.as_deref(), &mut asked.workload, names);
        let (key, value) = (format!("--{key}"), value.unwrap_or_else(|| "(set)".to_owned()));
        match outcome {
            Outcome::Understood => asked.understand(&key, value),
            Outcome::WithoutEffect => asked.note_without_effect(&key, value),
            Outcome::Unread => asked.leave_unread(&key, value),
        }
    }
    if let Some(stack) = stack {
        leave_to_the_parser(stack, says_recompute, asked);
    }
}

/// Flags that say what is recomputed, on or off.
const RECOMPUTE: [&str; 5] = [
    "gradient_checkpointing",
    "activation_checkpointing",
    "recompute_granularity",
    "recompute_activations",
    "checkpoint_activations",
];

/// The training stack of a command: by the name of its program, or by flags that only one parser has.
fn stack_of(program: &str, flags: &[(String, Option<String>)]) -> Option<&'static Stack> {
    let has = |key: &str| flags.iter().any(|(known, _)| known == key);
    let name = program.rsplit('/').next().unwrap_or(program);
    let id = if name.starts_with("pretrain") && has("micro_batch_size") {
        if has("deepspeed") { "megatron-deepspeed" } else { "megatron" }
    } else if program.starts_with("torchtitan") {
        "torchtitan"
    } else if has("per_device_train_batch_size") && has("finetuning_type") {
        "llama-factory"
    } else if has("per_device_train_batch_size") {
        if program.split(['/', '.']).any(|part| part == "trl") { "trl" } else { "hf-trainer" }
    } else {
        return None;
    };
    Stacks::embedded().find(id)
}

/// What the command leaves open is what its stack's own parser does, not what a sensible user would have chosen.
fn leave_to_the_parser(stack: &Stack, says_recompute: bool, asked: &mut JobRequest) {
    let training = &mut asked.workload.training;
    training.framework.get_or_insert_with(|| stack.id.clone());
    let recompute = stack.recompute.parser();
    if training.recompute.is_none() && says_recompute {
        training.recompute = Some("none".to_owned());
    } else if let (None, Some(recompute)) = (&training.recompute, recompute) {
        training.recompute = Some(spelt(recompute));
        asked.assumed.push(JobAssumption::RecomputeOfStack { stack: stack.id.clone(), recompute });
    }
    if (&training.overlap, stack.overlap.parser()) == (&None, Some(false)) {
        training.overlap = Some(Vec::new());
        asked.assumed.push(JobAssumption::OverlapOfStack { stack: stack.id.clone() });
    }
    let has_adapters = training.task.as_deref().is_some_and(|task| matches!(task, "lora" | "qlora"));
    if let (true, None, Some(targets)) = (has_adapters, &training.lora.targets, stack.lora_targets.parser()) {
        training.lora.targets = Some(targets.into());
        asked.assumed.push(JobAssumption::LoraTargetsOfStack { stack: stack.id.clone(), targets });
    }
}

/// Operators and redirections of a shell, such as `&&`, `|` and `2>&1`.
fn ends_a_command(word: &str) -> bool {
    matches!(word, ";" | "|" | "&" | "&&")
        || word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&').starts_with(['<', '>'])
}

/// Position of the training program: a Python file, or what follows `-m`, in a line that starts one.
fn program(words: &[String]) -> Option<usize> {
    let is_launched = words.iter().any(|word| LAUNCHERS.contains(&word.rsplit('/').next().unwrap_or(word)));
    let file = words.iter().position(|word| is_python(word) && !word.starts_with('-'));
    let module = || {
        words
            .iter()
            .rposition(|word| word == "-m" || word == "--module")
            .map(|at| at + 1)
            .filter(|at| *at < words.len())
    };
    let at = file.or_else(module)?;
    let is_first = words.first().is_some_and(|word| is_python(word));
    // Not `pip install -m` or a copied file.
    (is_launched || is_first).then_some(at)
}

fn is_python(word: &str) -> bool {
    word.strip_suffix(".py").is_some_and(|stem| !stem.is_empty() && !stem.contains(char::is_whitespace))
}

/// Some programs say by their name what they do.
fn name_of_program(word: &str, asked: &mut JobRequest) {
    let name = word.rsplit('/').next().unwrap_or(word);
    if name.starts_with("pretrain") {
        asked.workload.training.task.get_or_insert_with(|| "pretrain".to_owned());
        asked.understand(name, "pretrain");
    }
}

/// `--key value`, `--key=value` and `--key` alone; `-` and `_` are one.
fn flags(words: &[String]) -> Vec<(String, Option<String>)> {
    let mut all = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) else { continue };
        let (key, value) = match flag.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (flag, rest.next_if(|next| !next.starts_with('-') || next.parse::<f64>().is_ok()).cloned()),
        };
        all.push((key.replace('-', "_"), value));
    }
    all
}

fn apply(key: &str, value: Option<&str>, file: &mut WorkloadFile, names: Names) -> Outcome {
    let training = &mut file.training;
    let amount = value
        .filter(|text| text.parse::<f64>().is_ok_and(|number| number > 0.0))
        .map(|text| Scalar::from(text.to_owned()));
    let is_on = value.is_none_or(|text| ["true", "1", "yes", "on"].contains(&text.to_ascii_lowercase().as_str()));
    let slot = match key {
        "model_name_or_path" | "pretrained_model_name_or_path" | "model_name" | "model_id" | "base_model" | "model" => {
            return model(value, file, names);
        }
        "per_device_train_batch_size"
        | "micro_batch_size"
        | "train_micro_batch_size_per_gpu"
        | "per_gpu_train_batch_size" => &mut training.micro_batch,
        "gradient_accumulation_steps" => &mut training.grad_accumulation,
        "global_batch_size" => &mut training.global_batch,
        "max_steps" | "train_iters" | "max_train_steps" | "max_iters" => &mut training.steps,
        "train_samples" => &mut training.samples,
        "num_train_epochs" | "epochs" => &mut training.epochs,
        "block_size" | "max_seq_length" | "max_seq_len" | "max_length" | "seq_length" | "seq_len" | "cutoff_len" => {
            &mut training.sequence_length
        }
        "lora_r" | "lora_rank" => &mut training.lora.rank,
        _ => return word(key, value, is_on, file),
    };
    match amount {
        // The Trainer's own "no limit".
        None if value == Some("-1") => Outcome::WithoutEffect,
        None => Outcome::Unread,
        amount => {
            *slot = amount;
            if key.starts_with("lora") {
                training.task.get_or_insert_with(|| "lora".to_owned());
            }
            Outcome::Understood
        }
    }
}

/// Flags whose value is a word or nothing.
fn word(key: &str, value: Option<&str>, is_on: bool, file: &mut WorkloadFile) -> Outcome {
    let training = &mut file.training;
    let (slot, chosen) = match (key, value.unwrap_or_default()) {
        ("bf16", _) if is_on => (&mut training.precision, "bf16"),
        ("fp16", _) if is_on => (&mut training.precision, "amp-fp16"),
        ("mixed_precision", "bf16") | ("precision", "bf16-mixed") => (&mut training.precision, "bf16"),
        ("mixed_precision", "fp16") | ("precision", "16-mixed") => (&mut training.precision, "amp-fp16"),
        ("mixed_precision", "fp8") | ("fp8_format", "hybrid" | "e4m3") => (&mut training.precision, "fp8"),
        ("optim", "adamw_torch" | "adamw_torch_fused" | "adamw_hf") => (&mut training.optimizer, "adamw"),
        ("optim", "adamw_8bit" | "adamw_bnb_8bit") => (&mut training.optimizer, "adamw-8bit"),
        ("optim", "paged_adamw" | "paged_adamw_32bit" | "paged_adamw_8bit") => (&mut training.optimizer, "adamw-paged"),
        ("gradient_checkpointing", _) if is_on => (&mut training.recompute, "full"),
        ("recompute_granularity", "full") => (&mut training.recompute, "full"),
        ("recompute_granularity", "selective") => (&mut training.recompute, "selective"),
        ("recompute_activations", _) if is_on => (&mut training.recompute, "selective"),
        ("use_peft" | "use_lora", _) if is_on => (&mut training.task, "lora"),
        ("load_in_4bit", _) if is_on => (&mut training.task, "qlora"),
        ("overlap_param_gather", _) if is_on => return overlapped("weight-gather", file),
        ("tp_comm_overlap", _) if is_on => return overlapped("tensor-parallel", file),
        ("torch_compile", _) if is_on => {
            training.compile = Some(true);
            return Outcome::Understood;
        }
        // Said to be off, which it is anyway.
        (
            "bf16"
            | "fp16"
            | "gradient_checkpointing"
            | "recompute_activations"
            | "use_peft"
            | "use_lora"
            | "load_in_4bit"
            | "torch_compile",
            _,
        ) => {
            return Outcome::WithoutEffect;
        }
        (key, _) if WITHOUT_EFFECT.contains(&key) || LAYOUT.contains(&key) => return Outcome::WithoutEffect,
        _ => return Outcome::Unread,
    };
    *slot = Some(chosen.to_owned());
    Outcome::Understood
}

/// Traffic that the stack hides, beside what was named before.
fn overlapped(traffic: &str, file: &mut WorkloadFile) -> Outcome {
    file.training.overlap.get_or_insert_default().push(traffic.to_owned());
    Outcome::Understood
}

/// Endings of names on the Hugging Face Hub that change weights and no sizes.
const SAME_SIZES: [&str; 5] = ["-hf", "-Instruct", "-instruct", "-Base", "-chat-hf"];

/// A model of the catalog, by the last part of its name on the Hub.
fn model(value: Option<&str>, file: &mut WorkloadFile, names: Names) -> Outcome {
    let Some(name) = value else { return Outcome::Unread };
    let short = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name);
    let plain = SAME_SIZES.iter().find_map(|end| short.strip_suffix(end)).unwrap_or(short);
    match [name, short, plain].into_iter().find_map(|name| names.models.find(name)) {
        Some(row) => {
            file.model.preset = Some(row.id.clone());
            Outcome::Understood
        }
        None => Outcome::Unread,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobKind;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    fn asked(script: &str) -> JobRequest {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let mut asked = JobRequest::new(JobKind::Slurm);
        read(script, &mut asked, Names { hardware: &hardware, models: &models });
        asked
    }

    fn keys(list: &[crate::KeyValue]) -> Vec<&str> {
        list.iter().map(|one| one.key.as_str()).collect()
    }

    #[test]
    fn the_flags_of_the_trainer_are_a_workload() {
        let asked = asked(
            "pip install --upgrade -r a.py.txt\nsrun torchrun --nproc_per_node=8 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B-Instruct \\\n \
             --per_device_train_batch_size 4 --gradient_accumulation_steps=8 --bf16 --max_steps 500 --block_size 2048 \\\n --mystery 7 --fp16 False",
        );
        let training = &asked.workload.training;
        assert_eq!(asked.workload.model.preset.as_deref(), Some("llama-3.1-8b"));
        assert_eq!(
            (training.precision.as_deref(), training.steps.clone()),
            (Some("bf16"), Some(Scalar::from("500".to_owned())))
        );
        assert_eq!((keys(&asked.unread), keys(&asked.no_effect)), (vec!["--mystery"], vec!["--fp16"]));
        assert_eq!(keys(&asked.understood).len(), 6);
    }

    #[test]
    fn the_flags_of_megatron_are_a_workload() {
        let asked = asked(
            "torchrun pretrain_gpt.py --micro-batch-size 2 --global-batch-size 512 --train-iters 1000 --tensor-model-parallel-size 4",
        );
        let training = &asked.workload.training;
        assert_eq!(
            (training.task.as_deref(), keys(&asked.no_effect)),
            (Some("pretrain"), vec!["--tensor_model_parallel_size"])
        );
        assert_eq!(training.global_batch, Some(Scalar::from("512".to_owned())));
    }

    #[test]
    fn what_a_command_leaves_open_is_what_its_parser_does() {
        let read = |script: &str| {
            let asked = asked(script);
            let training = asked.workload.training;
            (training.framework.unwrap_or_default(), training.recompute.unwrap_or_default(), asked.assumed.len())
        };
        for (script, framework, recompute, assumed) in [
            ("torchrun pretrain_gpt.py --micro-batch-size 2 --bf16", "megatron", "none", 2),
            ("torchrun pretrain_gpt.py --micro-batch-size 2 --recompute-activations", "megatron", "selective", 1),
            ("deepspeed pretrain_gpt.py --micro-batch-size 2 --deepspeed", "megatron-deepspeed", "none", 1),
            ("torchrun -m torchtitan.train --training.steps 9", "torchtitan", "selective", 1),
            ("torchrun run_clm.py --per_device_train_batch_size 4", "hf-trainer", "none", 1),
            ("accelerate launch trl/scripts/sft.py --per_device_train_batch_size 4", "trl", "full", 1),
            (
                "python trl/scripts/sft.py --per_device_train_batch_size 4 --gradient_checkpointing False",
                "trl",
                "none",
                0,
            ),
            ("python src/train.py --finetuning_type full --per_device_train_batch_size 1", "llama-factory", "full", 1),
            ("python train.py --max_steps 5", "", "", 0),
        ] {
            assert_eq!(read(script), (framework.to_owned(), recompute.to_owned(), assumed), "{script}");
        }
        let overlap = |flags: &str| {
            asked(&format!("torchrun pretrain_gpt.py --micro-batch-size 2 {flags}")).workload.training.overlap
        };
        assert_eq!(overlap(""), Some(Vec::new()));
        assert_eq!(overlap("--overlap-param-gather --overlap-grad-reduce"), Some(vec!["weight-gather".to_owned()]));
        let adapters = asked("python run_clm.py --per_device_train_batch_size 4 --use_peft --lora_r 8");
        assert_eq!(adapters.workload.training.lora.targets, Some(vec!["q".to_owned(), "v".to_owned()]));
    }

    #[test]
    fn a_command_ends_where_the_shell_ends_it() {
        for end in ["| tee log", "> log 2>&1", "2>&1 | tee log", "&", "&& echo --fp16 done", "; done", "&>log"] {
            let asked = asked(&format!("python train.py --max_steps 5 --bf16 {end}"));
            assert_eq!(asked.workload.training.precision.as_deref(), Some("bf16"), "{end}");
            assert!(asked.unread.is_empty() && asked.no_effect.is_empty(), "{end}");
        }
        let two = asked("python a.py --seq_len 8 && python b.py --bf16; python c.py --max_steps=3");
        assert_eq!(keys(&two.understood), ["--seq_len", "--bf16", "--max_steps"]);
        let nested = asked("srun torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) train.py --bf16");
        assert_eq!(keys(&nested.understood), ["--bf16"]);
        let script = asked("srun bash -c 'torchrun \\\n --nproc_per_node 8 train.py --bf16'");
        assert_eq!(keys(&script.understood), ["--bf16"]);
        assert_eq!(asked("python train.py --bf16 --run_name \"it").unread[0].key, "train.py");
    }

    #[test]
    fn what_starts_no_program_is_no_command() {
        for script in
            ["cp a.py b.py --force", "echo --bf16", "module load cuda", "# python a.py --bf16", "python", "torchrun -m"]
        {
            let asked = asked(script);
            assert!(asked.understood.is_empty() && asked.unread.is_empty(), "{script}");
        }
        assert_eq!(keys(&asked("python -m train --model nowhere/none --max_steps -1").unread), ["--model"]);
    }
}
