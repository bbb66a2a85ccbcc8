//! Launchers: where in a line the training program stands, and which files it is told to read.

use super::hydra;
use crate::recipe::Entry;
use crate::shell::is_unknown;

/// Programs that start the training program: what stands before it is theirs.
const LAUNCHERS: [&str; 18] = [
    "torchrun",
    "accelerate",
    "deepspeed",
    "python",
    "python3",
    "srun",
    "mpirun",
    "mpiexec",
    "gpuplan",
    "ray",
    "uv",
    "torch.distributed.run",
    "composer",
    "colossalai",
    "horovodrun",
    "torchx",
    "lightning",
    "fabric",
];
/// Modules that start another program.
const LAUNCHING_MODULES: [&str; 6] = [
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
    "deepspeed.comm.launch",
];
/// Programs that train or serve by themselves, with the word that says so.
const PROGRAMS: [(&str, &[&str]); 21] = [
    ("llamafactory-cli", &["train"]),
    ("axolotl", &["train"]),
    ("oumi", &["train"]),
    ("tune", &["run"]),
    ("trl", &["sft", "dpo", "grpo", "kto", "reward", "rloo", "vllm-serve"]),
    ("vllm", &["serve"]),
    ("sglang", &["serve"]),
    ("swift", &["sft", "pt", "rlhf", "dpo", "orpo", "simpo"]),
    ("megatron", &["sft", "pt", "rlhf"]),
    ("xtuner", &["train"]),
    ("litgpt", &["finetune", "finetune_lora", "finetune_full", "pretrain"]),
    ("lerobot-train", &[]),
    ("text-generation-launcher", &[]),
    ("unsloth-cli", &[]),
    ("fairseq-train", &[]),
    ("fairseq-hydra-train", &[]),
    ("transformers-cli", &["serve"]),
    ("transformers", &["serve"]),
    ("lmdeploy", &["serve"]),
    ("llama-server", &[]),
    ("tritonserver", &[]),
];
/// Those of them that serve by an engine which the estimate does not know.
const OTHER_ENGINES: [&str; 5] =
    ["transformers-cli serve", "transformers serve", "lmdeploy serve", "llama-server", "tritonserver"];
/// Images of containers that start a program by themselves: what stands behind them are its flags.
const IMAGES: [(&str, &str); 3] = [
    ("vllm-openai", "vllm serve"),
    ("vllm-openai-rocm", "vllm serve"),
    ("text-generation-inference", "text-generation-launcher"),
];
/// Flags that only vLLM's server has.
const OF_VLLM: [&str; 2] = ["--max-model-len", "--gpu-memory-utilization"];
/// Flags that name a configuration of the training program.
pub const CONFIGURATIONS: [&str; 6] =
    ["config", "config_path", "job.config_file", "deepspeed", "deepspeed_config", "yaml"];

/// Words behind a program of one's own that say which of its works it does.
const COMMANDS: [&str; 9] = ["sft", "dpo", "grpo", "ppo", "kto", "pretrain", "finetune", "distill", "serve"];

/// A training program that a line starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Words of the launchers.
    pub before: Vec<String>,
    /// A file, a module, or a program with its first word: `vllm serve`.
    pub program: String,
    /// Words of the program.
    pub after: Vec<String>,
}

impl Start {
    pub fn name(&self) -> &str {
        self.program.rsplit('/').next().unwrap_or(&self.program)
    }

    /// The first word behind a program, where it is one by which programs say what they do: `distill.py sft`, `-m reler.cli grpo`.
    pub fn command(&self) -> Option<&str> {
        let is_module = self.before.last().is_some_and(|word| word == "-m" || word == "--module");
        let word = self.after.first().filter(|_| is_module || is_python(&self.program))?;
        COMMANDS.contains(&word.as_str()).then_some(word)
    }

    /// Whether it serves a model by an engine that the estimate does not know.
    pub fn serves_otherwise(&self) -> bool {
        OTHER_ENGINES.contains(&self.program.as_str()) || self.command() == Some("serve")
    }

    /// Whether a launcher starts a process for each GPU.
    pub fn is_distributed(&self) -> bool {
        let is_launcher = |word: &String| ["torchrun", "accelerate", "deepspeed"].contains(&base(word));
        self.before.iter().any(|word| is_launcher(word) || LAUNCHING_MODULES.contains(&word.as_str()))
    }

    /// Files of settings, in the order in which they count.
    pub fn configurations(&self, launch: &[Entry], flags: &[Entry]) -> Vec<String> {
        let of_launcher = launch.iter().filter(|entry| entry.key == "config_file");
        let composed = hydra::named(flags);
        let named = flags.iter().filter(|entry| CONFIGURATIONS.contains(&entry.key.as_str()));
        let named = named.filter(|entry| composed.is_none() || !hydra::is_flag(&entry.key));
        let mut all: Vec<String> = of_launcher
            .chain(named)
            .filter_map(|entry| entry.value.clone())
            .filter(|path| !matches!(path.to_ascii_lowercase().as_str(), "true" | "false" | ""))
            .collect();
        let is_file = |word: &&String| {
            !word.starts_with('-')
                && !word.contains('=')
                && [".yaml", ".yml", ".toml", ".json"].iter().any(|end| word.ends_with(end))
        };
        // `oumi train -c train.yaml`
        let short = self.after.windows(2).filter(|pair| pair[0] == "-c").map(|pair| &pair[1]);
        all.extend(short.filter(is_file).cloned());
        all.extend(composed);
        // The first word of a program may be its configuration.
        let position = self.after.iter().take_while(|word| !word.starts_with('-')).find(is_file);
        all.extend(position.filter(|path| !all.contains(path)).cloned().into_iter().collect::<Vec<_>>());
        all
    }

    /// `vllm serve MODEL`, `litgpt finetune_lora MODEL`, and the variable by which text-generation-inference learns its model.
    pub fn named_model(&self, flags: &[Entry], environment: &[(&str, String)]) -> Option<String> {
        if self.program == "text-generation-launcher" && !flags.iter().any(|entry| entry.key == "model_id") {
            return environment.iter().find(|(name, _)| *name == "MODEL_ID").map(|(_, value)| value.clone());
        }
        let takes_one = self.program == "vllm serve" || self.program.starts_with("litgpt ");
        self.after.first().filter(|word| takes_one && !word.starts_with('-')).cloned()
    }
}

/// The training program of a line. `None`: it starts none.
pub fn start(words: &[String]) -> Option<Start> {
    // `"$ACCELERATE" launch --num_processes 2 train.py`: no other launcher has this word.
    if let [first, second, ..] = words
        && is_unknown(first)
        && second == "launch"
        && words[2..].iter().any(|word| is_python(word))
    {
        return start(&[&["accelerate".to_owned()], &words[1..]].concat());
    }
    // `SRUN` behind a variable is known by what it holds.
    if let Some(start) = program(words) {
        return Some(start);
    }
    let is_launched = words.iter().any(|word| LAUNCHERS.contains(&base(word)));
    // `env_path=envs/orz.py` is an argument.
    let file = words.iter().position(|word| is_python(word) && !word.starts_with('-') && !word.contains('='));
    let Some(at) = file.into_iter().chain(module(words)).min() else {
        return image(words).or_else(|| strange(words)).or_else(|| unknown(words));
    };
    let is_first = words.first().is_some_and(|word| is_python(word));
    // `$LAUNCHER train.py --lr 1`, `bash launch.sh train.py --lr 1`: what starts it only a run or that script would tell.
    let is_handed = match words {
        [launcher, _, ..] if at == 1 => is_unknown(launcher),
        [launcher, flag, module, ..] if at == 2 && flag == "-m" => is_unknown(launcher) && !is_unknown(module),
        [shell, script, _, ..] if at == 2 => {
            matches!(base(shell), "bash" | "sh") && script.strip_suffix(".sh").is_some()
        }
        _ => false,
    };
    // Not `pip install -m` or a copied file.
    if !is_launched && !is_first && !is_handed {
        return image(words);
    }
    Some(Start { before: words[..at].to_vec(), program: words[at].clone(), after: words[at + 1..].to_vec() })
}

fn program(words: &[String]) -> Option<Start> {
    let (at, name, command) = words.iter().enumerate().find_map(|(at, word)| {
        let (name, commands) = PROGRAMS.iter().find(|(name, _)| *name == base(word))?;
        // `oumi distributed torchrun -m oumi train`: the name alone may stand before its launcher.
        let command = words.get(at + 1).filter(|word| commands.contains(&word.as_str()));
        (commands.is_empty() || command.is_some()).then_some((at, name, command))
    })?;
    let Some(command) = command else {
        let after = words[at + 1..].to_vec();
        return Some(Start { before: words[..at].to_vec(), program: (*name).to_owned(), after });
    };
    let after = words[at + 2..].to_vec();
    // Flags before the recipe of `tune run` are torchrun's.
    let before = if *name == "tune" { words[at + 2..].to_vec() } else { words[..at].to_vec() };
    Some(Start { before, program: format!("{name} {command}"), after })
}

/// `nvcr.io/nvidia/vllm:25.11-py3`: a word that also names a package or a folder is an image's where a registry and a version stand by it.
fn is_image(word: &str) -> bool {
    !word.contains("://") && word.rsplit_once('/').is_some_and(|(_, name)| name.contains([':', '@']))
}

/// `docker run ... IMAGE FLAGS`, and the container of a pod that has no command of its own.
fn image(words: &[String]) -> Option<Start> {
    let found = words.iter().enumerate().find_map(|(at, word)| {
        // Apptainer keeps an image as a file.
        let name = base(word).split([':', '@']).next()?.trim_end_matches(".sif");
        let of_vllm = || (name == "vllm" && is_image(word)).then_some((at, "vllm serve"));
        let known = IMAGES.iter().find(|(image, _)| *image == name).map(|(_, program)| (at, *program));
        known.or_else(of_vllm)
    });
    // An image under a name of one's own, which is told what only vLLM is told: `${VLLM_IMAGE} --model M --max-model-len 8192`.
    let is_told = |word: &String| OF_VLLM.iter().any(|flag| word.split('=').next() == Some(*flag));
    let is_alone = matches!(words, [name, next, ..] if !name.starts_with('-') && next.starts_with("--"));
    let (at, program) = found.or_else(|| (is_alone && words.iter().any(is_told)).then_some((0, "vllm serve")))?;
    // `--entrypoint vllm IMAGE serve MODEL`: the word of the program is no flag of it.
    let word = program.split(' ').nth(1);
    let own = usize::from(word.is_some() && words.get(at + 1).map(String::as_str) == word);
    let after = words[at + 1 + own..].to_vec();
    Some(Start { before: words[..at].to_vec(), program: program.to_owned(), after })
}

/// Flags that name a model, and flags that only what trains it has, of Hugging Face's Trainer and PEFT.
const OF_MODEL: [&str; 3] = ["model_name_or_path", "base_model", "pretrained_model_name_or_path"];
const OF_TRAINING: [&str; 4] =
    ["per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "micro_batch_size"];
/// The same of the image of a container, which is told nothing but its flags: `--model_name=Qwen/Qwen3-0.6B --epochs=3`.
const OF_MODEL_OF_IMAGE: [&str; 3] = ["model_name", "model_id", "model"];
const OF_TRAINING_OF_IMAGE: [&str; 4] = ["epochs", "num_epochs", "learning_rate", "lr"];

/// A program that nobody knows, which is told a model and how to train it: `petrogpt-train --stage dpo --model_name_or_path ...`. Its first
/// word is a part of its name.
fn strange(words: &[String]) -> Option<Start> {
    let all = flags(words);
    let has = |keys: &[&str]| all.iter().any(|entry| keys.contains(&entry.key.as_str()));
    // What a script is given is its own to read.
    let is_other = |name: &str| LAUNCHERS.contains(&name) || ["bash", "sh", "sbatch"].contains(&name);
    let name = words.first().filter(|name| !name.starts_with('-') && !is_other(base(name)))?;
    // `multipa-train --num_train_epochs 2`
    let says = base(name).split(['-', '_', '.']).any(|word| matches!(word, "train" | "pretrain" | "finetune"));
    let is_image = words.get(1).is_some_and(|next| next.starts_with("--")) && (is_unknown(name) || is_image(name));
    let of_image = is_image && has(&OF_MODEL_OF_IMAGE) && has(&OF_TRAINING_OF_IMAGE);
    if !of_image && (!(has(&OF_MODEL) || says) || !has(&OF_TRAINING)) {
        return None;
    }
    let is_command = |word: &&String| word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let command = words.get(1).filter(is_command);
    let program = command.map_or_else(|| name.clone(), |command| format!("{name} {command}"));
    Some(Start { before: Vec::new(), program, after: words[1 + usize::from(command.is_some())..].to_vec() })
}

/// What torchrun and its like start, where only a run would tell which program that is: `torchrun --nproc_per_node 2 "$SCRIPT" --epochs 3`.
fn unknown(words: &[String]) -> Option<Start> {
    let is_launcher = |word: &String| base(word) == "torchrun" || LAUNCHING_MODULES.contains(&word.as_str());
    let at = words.iter().position(is_launcher)? + 1;
    let is_program = |index: &usize| {
        let (before, word) = (&words[index - 1], &words[*index]);
        let is_value = before.starts_with("--") && !before.contains('=');
        is_unknown(word) && !word.starts_with('-') && !is_further_words(word) && !is_value
    };
    let at = (at..words.len()).find(is_program)?;
    let has_flags = words.get(at + 1).is_some_and(|next| next.starts_with("--"));
    has_flags.then(|| Start {
        before: words[..at].to_vec(),
        program: words[at].clone(),
        after: words[at + 1..].to_vec(),
    })
}

/// What follows the last `-m` that starts no other launcher.
fn module(words: &[String]) -> Option<usize> {
    let mut all =
        words.iter().enumerate().filter(|(_, word)| *word == "-m" || *word == "--module").map(|(at, _)| at + 1);
    let at = all.rfind(|at| words.get(*at).is_some_and(|word| !LAUNCHING_MODULES.contains(&word.as_str())))?;
    // Of torchrun `-m` says that a module follows its options: `torchrun -m --nnodes 1 verl.trainer.sft`.
    let is_module = |word: &String| {
        word.contains('.')
            && word.split('.').all(|part| {
                part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                    && part.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            })
    };
    if !words[at].starts_with('-') {
        return Some(at);
    }
    words[at..].iter().position(is_module).map(|further| at + further)
}

pub fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// What stands before the last `/` may be a command that is not known.
pub fn is_python(word: &str) -> bool {
    base(word).strip_suffix(".py").is_some_and(|stem| !stem.is_empty() && !stem.contains(char::is_whitespace))
}

/// `--key value`, `--key=value`, `--key` alone, and `key=value` of Hydra's programs; `-` and `_` are one.
pub fn flags(words: &[String]) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| of_one_dash(word)).filter(|flag| !flag.is_empty()) else {
            let hydra = word.trim_start_matches('+').split_once('=').filter(|(key, _)| is_key(key));
            all.extend(hydra.map(|(key, value)| Entry {
                key: key.to_owned(),
                value: Some(value.to_owned()),
                shown: key.to_owned(),
            }));
            continue;
        };
        let (key, value) = match flag.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => {
                let is_value =
                    |next: &&String| (!next.starts_with('-') || next.parse::<f64>().is_ok()) && !is_further_words(next);
                let value = rest.next_if(is_value).cloned();
                // Further words of a list: `--lora_target_modules q_proj v_proj`.
                let is_list = flag.ends_with("modules");
                let more = std::iter::from_fn(|| if is_list { rest.next_if(is_value) } else { None });
                (flag, value.map(|value| more.fold(value, |all, one| format!("{all},{one}"))))
            }
        };
        all.push(Entry::flag(key, value));
    }
    all
}

/// vLLM's degrees in short (vllm/engine/arg_utils.py): `-tp 2`.
fn of_one_dash(word: &str) -> Option<&str> {
    let flag = word.strip_prefix('-')?;
    ["tp", "pp", "dp"].contains(&flag.split('=').next()?).then_some(flag)
}

/// `$DATA_ARGS`, `${EXTRA_OPTS}`: a variable that nobody sets, whose name says that it holds flags and no value of the flag before it.
fn is_further_words(word: &str) -> bool {
    let name = word.trim_start_matches('$').trim_matches(['{', '}']);
    let ends = ["ARGS", "ARGUMENTS", "OPTS", "OPTIONS", "FLAGS"];
    word.starts_with('$') && ends.iter().any(|end| name.to_ascii_uppercase().ends_with(end))
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.'))
}
