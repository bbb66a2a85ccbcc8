//! Commands of one script beside each other: which of them are its work, what they say differently, and which run side by side.

use std::collections::{BTreeMap, BTreeSet};

use super::launcher::{self, Start};
use super::processes;
use crate::Launch;
use crate::recipe::{self, Entry};
use crate::shell::{Command, is_unknown};

/// Beginnings of the words by which a program says that it does something before or behind a training.
const FURTHER: [&str; 29] = [
    "eval", "infer", "predict", "generat", "test", "merge", "convert", "export", "prep", "download", "tokeniz",
    "score", "bench", "plot", "analy", "upload", "push", "sampl", "visual", "inspect", "quantiz", "demo", "chat",
    "build", "extract", "check", "verif", "client", "setup",
];
/// Beginnings of the words by which a program says that it trains.
const TRAINS: [&str; 4] = ["train", "pretrain", "finetun", "tune"];
/// Methods of training, which a program that evaluates or converts what was trained may name too.
const METHODS: [&str; 10] = ["sft", "dpo", "grpo", "ppo", "kto", "orpo", "rlhf", "distill", "lora", "reward"];
/// Flags that only a program that trains has.
const LEARNING: [&str; 6] = [
    "do_train",
    "learning_rate",
    "lr",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_train_epochs",
];
/// What stands for a value in which the commands of a script differ: unknown, as all that has a `$`.
const DIFFERENT: &str = "$different_in_further_commands";

/// What a command is to the others, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It prepares, converts, evaluates.
    Further,
    /// Nothing says what it does.
    Open,
    Serves,
    Trains,
}

/// The commands of a script.
pub struct Several {
    /// What each of them starts.
    pub starts: Vec<Option<Start>>,
    highest: Rank,
    /// Flags that two of them give different values.
    different: BTreeSet<String>,
    /// Cards of a machine that commands side by side have together.
    side_by_side: Option<u32>,
}

impl Several {
    pub fn from_commands(commands: &[Command]) -> Self {
        let is_other = |command: &Command| {
            let name = command.words.first().map(|name| launcher::base(name)).unwrap_or_default();
            ["sbatch", "eval"].contains(&name)
        };
        let start = |command: &Command| launcher::start(&command.words).filter(|_| !is_other(command));
        let starts: Vec<Option<Start>> = commands.iter().map(start).collect();
        let highest = starts.iter().flatten().map(rank).max().unwrap_or(Rank::Further);
        let own = commands.iter().zip(&starts).filter(|(command, _)| !command.is_aside);
        let own: Vec<(&Command, &Start)> = own.filter_map(|(one, start)| Some((one, start.as_ref()?))).collect();
        let work = own.iter().map(|(_, start)| *start).filter(|start| rank(start) == highest);
        let (different, side_by_side) = (different(work), side_by_side(&own));
        Self { starts, highest, different, side_by_side }
    }

    /// Whether a command is the work of the script, and no step before or behind it.
    pub fn is_work(&self, start: &Start) -> bool {
        rank(start) == self.highest
    }

    /// Whether a command says by its name that it trains nothing: `inference.py`, where the script has no other work.
    pub fn is_no_training(&self, start: &Start) -> bool {
        self.highest == Rank::Further && begins(start, &FURTHER).is_some()
    }

    /// Whether the commands of the work give a flag different values.
    pub fn is_different(&self, flag: &str) -> bool {
        self.different.contains(flag)
    }

    /// Makes unknown what another command says otherwise: which of them is meant nobody tells.
    pub fn blur(&self, flags: &mut [Entry]) {
        for flag in flags.iter_mut().filter(|flag| self.different.contains(&flag.key)) {
            flag.value = Some(DIFFERENT.to_owned());
        }
    }

    /// The cards of commands that run at the same time.
    pub fn count_side_by_side(&self, launch: &mut Launch) {
        if let Some(cards) = self.side_by_side.filter(|cards| total(launch).is_none_or(|all| all < *cards)) {
            *launch = Launch { gpus_per_machine: Some(cards), machines: launch.machines, ..Launch::default() };
        }
    }
}

/// Where the first word stands that begins so: `prepare_training_data.py` prepares, `train_and_eval.py` trains.
fn begins(start: &Start, all: &[&str]) -> Option<usize> {
    let lower = start.program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.position(|word| all.iter().any(|beginning| word.starts_with(beginning)))
}

fn rank(start: &Start) -> Rank {
    let begins = |all: &[&str]| begins(start, all);
    let serves = [
        "vllm serve",
        "vllm.entrypoints",
        "sglang.launch",
        "sglang serve",
        "text-generation-launcher",
        "trl vllm-serve",
    ];
    if serves.iter().any(|name| start.program.starts_with(name)) || start.serves_otherwise() {
        return Rank::Serves;
    }
    // What LightningCLI is told to do (lightning/pytorch/cli.py, `subcommands`).
    match start.after.first().map(String::as_str) {
        Some("validate" | "predict" | "test") => return Rank::Further,
        Some("fit") => return Rank::Trains,
        _ => {}
    }
    let flags = launcher::flags(&start.after);
    if recipe::serves_with_vllm(&start.program, &flags) {
        return Rank::Serves;
    }
    let learns = flags.iter().any(|flag| LEARNING.contains(&flag.key.as_str()) && flag.switch() != Some(false));
    let (trains, further) = (begins(&TRAINS), begins(&FURTHER));
    // A tokenizer is trained without cards.
    let is_named =
        trains.is_some_and(|at| further.is_none_or(|other| at < other)) && begins(&["token", "vocab"]).is_none();
    match (is_named || learns, further.is_some(), start.is_distributed() || begins(&METHODS).is_some()) {
        (true, ..) => Rank::Trains,
        (false, true, _) => Rank::Further,
        (false, false, true) => Rank::Trains,
        (false, false, false) if flags.is_empty() => Rank::Further,
        (false, false, false) => Rank::Open,
    }
}

/// Flags to which two commands give different values, or that only one of two of the same program has. A value that is not known is no other.
fn different<'a>(starts: impl Iterator<Item = &'a Start>) -> BTreeSet<String> {
    let (mut known, mut different) = (BTreeMap::<String, String>::new(), BTreeSet::new());
    let mut of_programs: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for start in starts {
        let own: BTreeSet<String> = launcher::flags(&start.after).into_iter().map(|flag| flag.key).collect();
        if let Some(other) = of_programs.get(start.program.as_str()) {
            different.extend(other.symmetric_difference(&own).cloned());
        }
        of_programs.insert(&start.program, own);
        let flags = launcher::flags(&start.after);
        // `vllm serve MODEL` of each case of a script.
        let named = start.named_model(&flags, &[]).map(|model| Entry::flag("model", Some(model)));
        let flags = flags.into_iter().chain(named);
        let last: BTreeMap<String, String> = flags
            .map(|flag| (flag.key, flag.value.unwrap_or_else(|| "true".to_owned()).to_ascii_lowercase()))
            .collect();
        for (key, value) in last.into_iter().filter(|(_, value)| !is_unknown(value)) {
            if known.get(&key).is_some_and(|other| *other != value) {
                different.insert(key.clone());
            }
            known.insert(key, value);
        }
    }
    different
}

/// Cards that commands see which do not wait for each other. `None`: they all see the same, or one of them is not known.
fn side_by_side(commands: &[(&Command, &Start)]) -> Option<u32> {
    let first = commands.iter().position(|(command, _)| command.is_background)?;
    let is_told = |command: &Command| command.environment.iter().any(|(name, _)| name.ends_with("_VISIBLE_DEVICES"));
    let told = commands[first..].iter().map(|(command, _)| *command).filter(|command| is_told(command));
    let seen = told.map(|command| processes::visible(&command.environment)).collect::<Option<Vec<Vec<String>>>>()?;
    let all: BTreeSet<&String> = seen.iter().flatten().collect();
    let is_shared = seen.iter().all(|cards| cards.len() == all.len());
    u32::try_from(all.len()).ok().filter(|_| !is_shared)
}

fn total(launch: &Launch) -> Option<u32> {
    let each = launch.gpus_per_machine.and_then(|each| each.checked_mul(launch.machines.unwrap_or(1)));
    launch.gpus.or(each)
}

/// A job has the cards of the largest of its commands.
pub fn larger(one: Launch, other: Launch) -> Launch {
    match (total(&one), total(&other)) {
        (Some(first), Some(second)) if second < first => one,
        (Some(_), Some(_)) => other,
        (Some(_), None) => Launch { machines: one.machines.or(other.machines), ..one },
        (None, _) => Launch { machines: other.machines.or(one.machines), ..other },
    }
}
