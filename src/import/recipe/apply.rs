//! What an entry says, set in the workload.

use super::entry::Entry;
use super::model;
use super::setting::{Dialect, Number, Outcome, Setting};
use super::usual;
use super::usual::{OTHER_METHODS, PREFERENCE, REINFORCEMENT};
use crate::shell::is_unknown;
use crate::{JobRequest, Names};
use gpuplan_workload::file::{Scalar, WorkloadFile};

/// Sections for the arguments of Hugging Face's Trainer in programs that have further ones.
const TRAINER_SECTIONS: [&str; 5] =
    ["training_arguments.", "training_args.", "train_args.", "trainer_args.", "train_config."];

/// Looks an entry up in the tables of a program, and sets what it says.
pub fn apply(dialect: &Dialect, entry: &Entry, asked: &mut JobRequest, names: Names) -> Outcome {
    let find = |table: &[(&str, Setting)], wanted: &str| {
        table.iter().find(|(key, _)| *key == wanted).map(|(_, setting)| *setting)
    };
    let usual = if dialect.has_common { usual::SETTINGS } else { &[] };
    // A program may keep the arguments of its trainer in a section of their own.
    let own = TRAINER_SECTIONS.iter().find_map(|section| entry.key.strip_prefix(section)).unwrap_or(&entry.key);
    let of_program = find(dialect.settings, &entry.key);
    // Of a program that nobody knows `beta` may be anything: that of an optimizer, of a schedule of noise.
    let is_anything = of_program.is_none() && own == "beta" && dialect.stack.is_empty();
    // `arch=trm`, `model_name=gpt`: a word without a number is a class of a program's own, or a family.
    let is_class = |setting: &Setting| {
        let text = entry.value.as_deref().unwrap_or_default();
        let is_named = text.contains(|letter: char| letter.is_ascii_digit() || letter == '/' || letter == '$')
            || names.models.named(text).is_some();
        dialect.stack.is_empty() && matches!(setting, Setting::Model) && !is_named
    };
    // What a trainer is told of a model is no name of one.
    let is_of_trainer = |setting: &Setting| own != entry.key && matches!(setting, Setting::Model);
    let usually = || find(usual, own).filter(|setting| !is_class(setting) && !is_of_trainer(setting));
    if let Some(setting) = of_program.or_else(usually).filter(|_| !is_anything) {
        return set(setting, entry, asked, names);
    }
    let is_nothing = dialect
        .nothing
        .iter()
        .chain(if dialect.has_common { usual::NOTHING } else { &[] })
        .any(|known| entry.key.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
    if is_nothing { Outcome::WithoutEffect } else { Outcome::Unread }
}

fn set(setting: Setting, entry: &Entry, asked: &mut JobRequest, names: Names) -> Outcome {
    let text = entry.value.as_deref().unwrap_or_default().trim();
    let file = &mut asked.workload;
    match setting {
        Setting::ModelOrKind if asked.model_name.is_some() => return Outcome::WithoutEffect,
        Setting::Model | Setting::ModelOrKind => return model::name(text, asked, names),
        Setting::Teacher => return model::teacher(text, asked, names),
        Setting::Number(slot) => return number(slot, text, asked),
        Setting::Rank => {
            if matches!(number(|file| &mut file.training.lora.rank, text, asked), Outcome::Unread) {
                return Outcome::Unread;
            }
        }
        Setting::Choice(slot, words) => {
            let lower = text.to_ascii_lowercase();
            match words.iter().find(|(word, _)| *word == lower) {
                Some((_, chosen)) => *slot(file) = Some((*chosen).to_owned()),
                // Programs decide by themselves.
                None if lower == "auto" => return Outcome::WithoutEffect,
                None => return Outcome::Unread,
            }
        }
        Setting::Switch(slot, word) => match entry.switch() {
            Some(true) => *slot(file) = Some(word.to_owned()),
            Some(false) => return Outcome::WithoutEffect,
            None => return Outcome::Unread,
        },
        Setting::Either(slot, on, off) => match entry.switch() {
            Some(is_on) => *slot(file) = Some(if is_on { on } else { off }.to_owned()),
            None => return Outcome::Unread,
        },
        Setting::Precision(format) => return precision(format, entry, file),
        Setting::Flag(slot) => match entry.switch() {
            Some(is_on) => *slot(file) = Some(is_on),
            None => return Outcome::Unread,
        },
        Setting::Share(slot) => match text.parse::<f64>() {
            Ok(share) => *slot(file) = Some(share > 0.0),
            Err(_) => return Outcome::Unread,
        },
        Setting::Targets => match model::targets(text) {
            Some(targets) => file.training.lora.targets = Some(targets),
            None => return Outcome::Unread,
        },
        Setting::AllTargets => match entry.switch() {
            Some(true) => file.training.lora.targets = Some(vec!["all-linear".to_owned()]),
            _ => return Outcome::WithoutEffect,
        },
        Setting::Overlap(traffic) => match entry.switch() {
            Some(true) => {
                let all = file.training.overlap.get_or_insert_default();
                if !all.iter().any(|known| known == traffic) {
                    all.push(traffic.to_owned());
                }
            }
            _ => return Outcome::WithoutEffect,
        },
        Setting::GpusPerMachine | Setting::Gpus | Setting::Machines | Setting::Cards | Setting::Devices => {
            return machines(setting, text, asked);
        }
        Setting::Objective(words) => return stated_objective(text, words, asked),
        Setting::Optimizer(words) => return optimizer(text, words, asked),
        Setting::Preference if asked.workload.training.objective.is_some() => return Outcome::WithoutEffect,
        Setting::Preference => return not_planned(PREFERENCE, entry, asked),
        Setting::NotPlanned(work) => return not_planned(work, entry, asked),
        Setting::Completed if entry.switch() != Some(false) => {}
        Setting::Completed | Setting::Nothing => return Outcome::WithoutEffect,
    }
    Outcome::Understood
}

fn number(slot: Number, text: &str, asked: &mut JobRequest) -> Outcome {
    // Python writes `1_000_000`.
    let plain = text.replace('_', "");
    match plain.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => {
            *slot(&mut asked.workload) = Some(Scalar::from(plain.strip_suffix(".0").unwrap_or(&plain).to_owned()));
            Outcome::Understood
        }
        // The programs' own "no limit", and what they decide themselves.
        Ok(number) if number <= 0.0 => Outcome::WithoutEffect,
        _ if text == "auto" || text == "null" => Outcome::WithoutEffect,
        _ => Outcome::Unread,
    }
}

fn not_planned(work: &str, entry: &Entry, asked: &mut JobRequest) -> Outcome {
    if entry.switch() == Some(false) {
        return Outcome::WithoutEffect;
    }
    // What is known of the work says more than that it is open.
    if asked.not_planned.as_deref() == Some(PREFERENCE) {
        asked.not_planned = None;
    }
    asked.not_planned.get_or_insert_with(|| work.to_owned());
    Outcome::Understood
}

/// An objective as a key states it. Which one a variable holds only a run would tell.
fn stated_objective(text: &str, words: &[(&str, &str)], asked: &mut JobRequest) -> Outcome {
    if is_unknown(text) {
        return Outcome::Unread;
    }
    objective(text, words, asked);
    Outcome::Understood
}

/// Sets what a step minimises. What was taken for generation on the way before it was named is none.
pub fn objective(text: &str, words: &[(&str, &str)], asked: &mut JobRequest) {
    let lower = text.to_ascii_lowercase();
    match words.iter().find(|(word, _)| *word == lower) {
        Some((_, "")) => {}
        Some((_, objective)) => {
            asked.workload.training.objective = Some((*objective).to_owned());
            asked.not_planned = asked.not_planned.take().filter(|why| why != REINFORCEMENT && why != PREFERENCE);
        }
        None => {
            asked.not_planned = asked.not_planned.take().filter(|why| why != PREFERENCE);
            let is_other = OTHER_METHODS.contains(&lower.as_str());
            let why = || {
                if is_other { format!("the estimate knows no training by `{lower}`") } else { REINFORCEMENT.to_owned() }
            };
            asked.not_planned.get_or_insert_with(why);
        }
    }
}

/// Sets the optimizer. One that the estimate does not know has other states than those it would be priced with.
fn optimizer(text: &str, words: &[(&str, &str)], asked: &mut JobRequest) -> Outcome {
    if text.is_empty() || is_unknown(text) {
        return Outcome::Unread;
    }
    let lower = text.to_ascii_lowercase();
    // `torch.optim.AdamW`
    let class = lower.rsplit('.').next().unwrap_or_default();
    match words.iter().find(|(word, _)| *word == lower || *word == class) {
        Some((_, optimizer)) => {
            asked.workload.training.optimizer = Some((*optimizer).to_owned());
            asked.unknown_optimizer = None;
        }
        None if matches!(lower.as_str(), "auto" | "none" | "null") => return Outcome::WithoutEffect,
        None => {
            asked.workload.training.optimizer = None;
            asked.unknown_optimizer = Some(text.to_owned());
        }
    }
    Outcome::Understood
}

fn machines(setting: Setting, text: &str, asked: &mut JobRequest) -> Outcome {
    match setting {
        Setting::GpusPerMachine => count(text, &mut asked.launch.gpus_per_machine),
        Setting::Gpus => count(text, &mut asked.launch.gpus),
        Setting::Machines => count(text, &mut asked.launch.machines),
        _ => cards(setting, text, asked),
    }
}

/// `--gpus 4` (Lightning), `--gpus 0,1`, `--gpu 0`: a list names cards, and a number counts them or is one.
fn cards(setting: Setting, text: &str, asked: &mut JobRequest) -> Outcome {
    let plain = text.trim_matches(['[', ']', '(', ')', '"', '\'']);
    let listed = plain.split(',').map(|part| part.trim().parse::<u32>()).collect::<Result<Vec<u32>, _>>();
    let count = match (setting, listed.as_deref()) {
        (Setting::Cards, Ok([number])) if !text.starts_with('[') => *number,
        (_, Ok(list)) => u32::try_from(list.len()).unwrap_or(0),
        _ => 0,
    };
    if count == 0 {
        return Outcome::Unread;
    }
    let launch = &mut asked.launch;
    if launch.gpus_per_machine.is_some() || launch.gpus.is_some() {
        return Outcome::WithoutEffect;
    }
    launch.gpus_per_machine = Some(count);
    Outcome::Understood
}

fn count(text: &str, slot: &mut Option<u32>) -> Outcome {
    match text.parse::<u32>() {
        Ok(count) if count > 0 => {
            *slot = Some(count);
            Outcome::Understood
        }
        _ => Outcome::Unread,
    }
}

/// Eight bits and fewer win over the sixteen that stand beside them.
fn precision(format: &str, entry: &Entry, file: &mut WorkloadFile) -> Outcome {
    // DeepSpeed's `auto` is what the Trainer is told, and Axolotl's is on where the card has the format.
    if entry.key.ends_with(".enabled") && entry.value.as_deref() == Some("auto") {
        return Outcome::WithoutEffect;
    }
    let is_on =
        entry.switch().unwrap_or(matches!(entry.value.as_deref(), Some("auto" | "full" | "hybrid" | "e4m3" | "e2m1")));
    if !is_on {
        return if entry.switch().is_some() { Outcome::WithoutEffect } else { Outcome::Unread };
    }
    let slot = &mut file.training.precision;
    if !matches!(slot.as_deref(), Some("fp8" | "nvfp4")) {
        *slot = Some(format.to_owned());
    }
    Outcome::Understood
}
