//! What kind of work a job is: by the keys of its command and by the names that it gives its program, its file, itself and its results.
//! Where none of them says one, none is named.

use crate::ask::ABSENT;
use crate::open::says_training;
use crate::recipe::{self, Entry};
use crate::{JobKind, JobRequest, KeyValue, Names};
use gpuplan_workload::file::{ModelSection, WorkloadFile};
use std::collections::BTreeSet;

/// Words by which programs of preference and reinforcement learning call themselves; those of `recipe::OBJECTIVES` are planned.
const REINFORCEMENTS: [&str; 20] = [
    "dpo", "ipo", "simpo", "grpo", "ppo", "kto", "orpo", "cpo", "rloo", "rlhf", "reward", "rl", "rm", "dapo", "gspo",
    "rlvr", "prm", "mapo", "npo", "rrhf",
];

/// Words of keys and programs that learn from the answers of another model.
const TEACHERS: [&str; 6] = ["teacher", "distill", "distil", "distillation", "kd", "gkd"];
/// Words of keys that only programs have which generate answers as they train.
const GENERATORS: [&str; 5] = ["rollout", "rollouts", "actor", "critic", "grpo"];
/// Ends of keys that say the same.
const REWARDS: [&str; 4] = ["reward_funcs", "reward_func", "reward_fn", "reward_function"];
/// Words for learning from preferences that name no method.
const PREFERENCES: [&str; 3] = ["pref", "preference", "preferences"];
/// Losses by which encoders learn to compare.
const CONTRASTS: [&str; 7] = ["contrastive", "infonce", "simcse", "ntxent", "nt_xent", "triplet", "supcon"];
/// Parts of the words for what a model is trained to do that is no next word: to rank, to embed, to find.
const RANKS: [&str; 4] = ["rerank", "embedding", "retriev", "listwise"];
/// Words of keys that only the training of encoders by comparison has.
const COMPARISONS: [&str; 6] = ["pooling", "passage", "passages", "negatives", "negative", "anchor"];
/// The same by their ends: GradCache (Gao et al. 2021, arXiv 2101.06983), and the groups of Tevatron and FlagEmbedding.
const GROUPS: [&str; 3] = ["grad_cache", "train_group_size", "train_n_passages"];
/// Words of programs that train a part beside a model which they leave as it is (diffusers, examples).
const PARTS: [&str; 5] = ["controlnet", "textual_inversion", "ip_adapter", "t2i_adapter", "t2iadapter"];
/// What a teacher has said before is data.
const SAID: [&str; 6] = ["output", "outputs", "data", "dataset", "responses", "answers"];
/// Words for adapters, and which task they are. PEFT is a library of adapters, of which LoRA is the usual one.
const ADAPTERS: [(&str, &str); 3] = [("qlora", "qlora"), ("lora", "lora"), ("peft", "lora")];
/// Ends of keys that say the kind of work in a word of their own.
const ENDS: [&str; 8] = ["task", "type", "stage", "mode", "method", "loss", "algorithm", "objective"];
/// Keys of names that somebody gives a run and its results.
const RESULTS: [&str; 13] = [
    "experiment",
    "output_dir",
    "output",
    "save_dir",
    "run_name",
    "exp_name",
    "experiment_name",
    "project_name",
    "wandb_project",
    "wandb_name",
    "wandb_run_name",
    "hub_model_id",
    "checkpoint_dir",
];
/// Under this word the kind of work stands among what is unread.
pub const KIND: &str = "kind of work";

/// Where no table and no key says the kind of work, what the program is called and told does: that is what runs. What somebody called the job, its
/// file or its results is asked about and never taken, since nothing that runs reads it.
pub fn settle(asked: &mut JobRequest, names: Names) {
    let has_model = asked.workload.model != ModelSection::default();
    let has_settings = says_training(&asked.workload.training);
    let is_open = asked.not_planned.as_deref() == Some(recipe::PREFERENCE);
    if !is_open && (is_said(asked, &asked.workload) || !(asked.trains || has_settings)) {
        return;
    }
    // A file of how to start, under whatever name, is no work.
    if asked.kind == JobKind::Recipe && !has_model {
        return;
    }
    let (told, given) = (told(asked), given(asked, names));
    // Names say which preferences are learnt where the keys leave it open: `train_dpo.yaml`.
    if is_open {
        if let Some((name, word)) = told.iter().chain(&given).find_map(|name| Some((name, objective_in(name)?))) {
            recipe::objective(&word, recipe::OBJECTIVES, asked);
            asked.understand(KIND, name);
        }
        return;
    }
    if let Some(name) = told.iter().find(|name| is_named(name, asked)) {
        asked.understand(KIND, name);
    } else if has_model {
        asked.leave_unread(KIND, question(&told, &given));
    }
}

fn is_known(one: &KeyValue) -> bool {
    !one.value.contains('$')
}

/// What runs, and what it is told of its work in words of its own.
fn told(asked: &JobRequest) -> Vec<String> {
    let is_kind = |one: &&KeyValue| one.plain_key().split(['_', '.']).any(|word| ENDS.contains(&word));
    let stated = asked.unread.iter().filter(|one| is_known(one)).filter(is_kind).map(|one| one.value.clone());
    // Of `distill.py sft` the second word says which of its works it does.
    let command = asked.program.as_ref().and_then(|program| program.rsplit_once(' ')).map(|(_, word)| word.to_owned());
    stated.chain(command).chain(asked.program.clone()).collect()
}

/// Names that somebody gave: a configuration that is not there, the job, its file, its results.
fn given(asked: &JobRequest, names: Names) -> Vec<String> {
    let results = asked.no_effect.iter().chain(&asked.unread).filter(|one| RESULTS.contains(&one.plain_key().as_str()));
    let absent = asked.unread.iter().filter(|one| one.value == ABSENT).map(|one| one.key.clone());
    let absent = absent.filter(|path| !path.contains('$') && !path.contains("deepspeed"));
    absent
        .chain(asked.name.clone())
        .chain([names.path.to_owned()])
        .chain(results.filter(|one| is_known(one)).map(|one| one.value.clone()))
        .collect()
}

/// What is asked of whoever hands the job in, with what names suggest.
fn question(told: &[String], given: &[String]) -> String {
    let words = |name: &String| name.to_ascii_lowercase();
    let suggested = given.iter().find_map(|name| Some((name, weights_in(name)?)));
    if let Some((name, task)) = suggested {
        return format!("`{name}` suggests `--task {task}`, and nothing that runs is told so");
    }
    if let Some(name) = told.iter().chain(given).find(|name| tunes(&words(name))) {
        return format!(
            "`{name}` says that a model is tuned and not whether by adapters: `--task full-fine-tune`, `lora` or `qlora` does"
        );
    }
    "no word of the job says it: `--task full-fine-tune`, `pretrain`, `lora` or `qlora` does".to_owned()
}

/// Why the work of a job with a model is not planned though nothing speaks against it: no word of it says what kind it is, and `file` does not either.
pub fn unsaid(asked: &JobRequest, file: &WorkloadFile) -> Option<String> {
    if is_said(asked, file) || file.model == ModelSection::default() {
        return None;
    }
    let program = asked.program.as_ref().map_or_else(|| "it".to_owned(), |program| format!("`{program}`"));
    let model = asked.model_name.as_ref().map_or_else(String::new, |model| format!(" with `{model}`"));
    let suggested = asked.unread.iter().find(|one| one.key == KIND && one.value.starts_with('`'));
    let suggested = suggested.map_or_else(String::new, |one| format!(" ({})", one.value));
    Some(format!(
        "nothing that runs says what kind of work {program} does{model}{suggested}; `--task full-fine-tune`, `pretrain`, `lora` or `qlora` plans it as that"
    ))
}

/// The first word of an objective in a name; two letters are anything.
fn objective_in(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.find(|word| word.len() > 2 && REINFORCEMENTS.contains(word)).map(str::to_owned)
}

/// The adapters that a word of a name says.
fn adapters_in(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    // `trainLoRA`, `qlora2`, but no exploration.
    let is_one = |word: &str, known: &str| word.starts_with(known) || word.ends_with(known);
    words.find_map(|word| ADAPTERS.iter().find(|(one, _)| is_one(word, one)).map(|(_, task)| *task))
}

/// Which weights a name says are trained: adapters, all of a model that is tuned (`full_finetune`), or all from the start.
fn weights_in(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    let is_whole = words.contains(&"full") && (words.len() == 1 || tunes(&lower));
    let is_first = words.iter().any(|word| matches!(*word, "pretrain" | "pretraining"));
    adapters_in(name).or(is_whole.then_some("full-fine-tune")).or(is_first.then_some("pretrain"))
}

fn is_said(asked: &JobRequest, file: &WorkloadFile) -> bool {
    let training = &file.training;
    asked.not_planned.is_some() || training.task.is_some() || training.objective.is_some() || !file.serving.is_empty()
}

/// Whether a name says the kind of work: `train_dpo.py`, `lora`, `--mode pretrain`. "Fine-tune" says nothing of which weights, and
/// `method: full`, `full_finetune.py` do.
fn is_named(name: &str, asked: &mut JobRequest) -> bool {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    if let Some(word) = objective_in(name) {
        recipe::objective(&word, recipe::OBJECTIVES, asked);
    } else if words.iter().any(|word| TEACHERS.contains(word)) {
        asked.not_planned = Some(format!("`{name}` says that it learns from a teacher, which it does not name"));
    } else if words.iter().any(|word| CONTRASTS.contains(word)) {
        asked.not_planned = Some(format!("the estimate knows no learning by comparison (`{name}`)"));
    } else if let Some(task) = weights_in(name) {
        asked.workload.training.task = Some(task.to_owned());
    } else {
        return false;
    }
    true
}

/// `sft`, `finetune`, `fine-tuning`, `ft`.
fn tunes(lower: &str) -> bool {
    let words: Vec<&str> = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    let is_one = |word: &&str| matches!(*word, "sft" | "ft") || word.starts_with("finetun");
    words.iter().any(is_one) || words.windows(2).any(|pair| pair[0] == "fine" && pair[1].starts_with("tun"))
}

/// `src/dpo/trainer.py`: what trains in a folder with the name of an objective has that one, unless its own name says another.
pub fn name_of_folder(program: &str, asked: &mut JobRequest) {
    let lower = program.to_ascii_lowercase();
    let mut parts = lower.trim_end_matches(".py").rsplit(['/', '.']);
    let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let trains = name.starts_with("train") && !["sft", "pretrain"].iter().any(|other| name.contains(other));
    let is_open = asked.workload.training.objective.is_none() && asked.not_planned.is_none();
    if trains && is_open && folder.len() > 2 && REINFORCEMENTS.contains(&folder) {
        recipe::objective(folder, recipe::OBJECTIVES, asked);
        asked.understand(program, folder);
    }
}

/// What words of its own say of the kind of work, where no table knows them: `--task DPO`, `--finetune_mode sft`, `--dpo_beta 0.1`.
pub fn kind_of_work(entries: &[Entry], asked: &mut JobRequest) {
    let keys: BTreeSet<&str> = asked.unread.iter().map(|one| one.key.as_str()).collect();
    let unread: Vec<&Entry> = entries.iter().filter(|entry| keys.contains(entry.shown.as_str())).collect();
    for entry in unread {
        let mut words = entry.key.split(['_', '.']).filter(|word| !word.is_empty());
        // `--dpo_beta 0.1`, `--beta_dpo 5000`: Diffusion-DPO has it behind.
        let method = words.clone().find(|word| word.len() > 2 && *word != "reward" && REINFORCEMENTS.contains(word));
        // `torchtune.rlhf.loss.DPOLoss` is a class, `--train_type dpo_loss` a word.
        let value = entry.value.as_deref().unwrap_or_default().to_ascii_lowercase();
        let value = value
            .rsplit('.')
            .next()
            .unwrap_or_default()
            .trim_end_matches("loss")
            .trim_end_matches(['_', '-'])
            .to_owned();
        let is_kind = words.any(|word| ENDS.contains(&word));
        // Weights whose answers are learnt are no pretraining, whatever the program is called.
        if is_kind && value == "sft" && asked.workload.training.task.as_deref() == Some("pretrain") {
            asked.workload.training.task = None;
        }
        // A program of several stages has the words of each.
        if is_kind && value == "sft" && asked.not_planned.as_deref() == Some(recipe::PREFERENCE) {
            asked.not_planned = None;
        }
        let is_zero = entry.value.as_deref().is_some_and(|text| text.parse::<f64>() == Ok(0.0));
        let is_on = entry.switch() != Some(false) && !is_zero;
        let of_key = method.filter(|_| is_on);
        let named = [is_kind.then_some(value.as_str()), of_key].into_iter().flatten();
        // What looked like generation before its method was stated is that method.
        let is_generation =
            is_kind && [Some(recipe::REINFORCEMENT), Some(recipe::PREFERENCE)].contains(&asked.not_planned.as_deref());
        let is_open = asked.workload.training.objective.is_none() && (asked.not_planned.is_none() || is_generation);
        if let (true, Some(word)) = (is_open, named.into_iter().find(|word| REINFORCEMENTS.contains(word))) {
            recipe::objective(word, recipe::OBJECTIVES, asked);
        }
        if is_on {
            other_work(entry, &value, is_kind, asked);
        }
    }
}

/// A key that no table has may say that the work is of another kind than its other keys look like: `--teacher_ckpt a.pt`, `--kd_weight 0.5`,
/// `--rollout_batch_size 8`. What it is then is not known, and no price of a usual training is one of it.
fn other_work(entry: &Entry, value: &str, is_kind: bool, asked: &mut JobRequest) {
    let is_open = asked.workload.training.objective.is_none() && asked.not_planned.is_none();
    let has = |all: &[&str]| entry.key.split(['_', '.']).any(|word| all.contains(&word));
    if !is_open {
        return;
    }
    if (has(&TEACHERS) && !has(&SAID)) || (is_kind && TEACHERS.contains(&value)) {
        asked.not_planned = Some(format!("`{}` speaks of a teacher, and no key that is read says which", entry.shown));
    } else if is_kind && PREFERENCES.contains(&value) {
        asked.not_planned =
            Some(format!("which learning from preferences `{} {value}` means is not said", entry.shown));
    } else if has(&GENERATORS) || REWARDS.iter().any(|key| entry.key.ends_with(key)) {
        recipe::objective("rl", recipe::OBJECTIVES, asked);
    } else if has(&["ctc"]) {
        asked.not_planned = Some(format!("the estimate knows no recognition of speech (`{}`)", entry.shown));
    } else if has(&COMPARISONS) || has(&CONTRASTS) || GROUPS.iter().any(|key| entry.key.ends_with(key)) {
        asked.not_planned = Some(format!("the estimate knows no learning by comparison (`{}`)", entry.shown));
    } else if is_kind && (CONTRASTS.contains(&value) || RANKS.iter().any(|part| value.contains(part))) {
        asked.not_planned = Some(format!("the estimate knows no learning by comparison (`{} {value}`)", entry.shown));
    }
}

/// `train_distill.py`: a program that says so learns from a teacher, though no key names it.
pub fn teacher_of_program(name: &str, asked: &mut JobRequest) {
    let lower = name.to_ascii_lowercase();
    let distils = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| TEACHERS.contains(&word));
    if distils && asked.workload.training.objective.is_none() {
        asked
            .not_planned
            .get_or_insert_with(|| format!("`{name}` learns from a teacher that its command does not name"));
    }
}

/// Some programs say by their name what they do.
pub fn name_of_program(name: &str, asked: &mut JobRequest) {
    // Of `safe_rlhf.finetune` the package says nothing; of `grpo_trainer.cli` the module says nothing.
    let module = ["cli", "main", "__main__"].iter().find_map(|end| name.strip_suffix(end)?.strip_suffix('.'));
    let module = module.unwrap_or(name);
    let own = if name.strip_suffix(".py").is_some() { name } else { module.rsplit('.').next().unwrap_or(module) };
    let lower = own.to_ascii_lowercase();
    let mut parts = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_pretraining = !lower.contains("tun") && parts.any(|word| matches!(word, "pretrain" | "pretraining"));
    if lower.starts_with("pretrain") || is_pretraining {
        asked.workload.training.task.get_or_insert_with(|| "pretrain".to_owned());
        asked.understand(name, "pretrain");
    }
    // `train_dpo.py`, `trl grpo`, `train_simpo2.py`
    let mut words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    let numbered = |word: &str| {
        let plain = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        // RL2 is a package with trainers of every kind.
        if plain.len() > 2 { plain.to_owned() } else { word.to_owned() }
    };
    // `run_prime_rl_sft.py`: supervised training by a package for reinforcement.
    let is_supervised = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| word == "sft");
    let is_method = |word: &String| REINFORCEMENTS.contains(&&**word) && !(is_supervised && word.starts_with("rl"));
    if let Some(word) = words.find_map(|word| Some(numbered(word)).filter(is_method)) {
        recipe::objective(&word, recipe::OBJECTIVES, asked);
        asked.understand(name, word);
    }
    let is = |beginnings: &[&str]| {
        lower
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .any(|word| beginnings.iter().any(|beginning| word.starts_with(beginning)))
    };
    asked.trains |=
        is(&["train", "pretrain", "finetun", "tune", "sft"]) && !is(&["eval", "infer", "predict", "generat", "test"]);
    // `train_text_to_image_lora.py`, `trainLoRA.py`
    let adapters = adapters_in(&lower);
    let is_program = lower.strip_suffix(".py").is_some() || lower.contains("train") || lower.contains("tun");
    if let (Some(adapters), true) = (adapters, is_program) {
        asked.workload.training.task.get_or_insert_with(|| adapters.to_owned());
        asked.understand(name, adapters);
    }
    if let Some(part) = PARTS.iter().find(|part| lower.replace('-', "_").contains(**part)) {
        let why = || format!("the estimate knows no training of a part beside a model (`{part}`)");
        asked.not_planned.get_or_insert_with(why);
        asked.understand(name, part);
    }
    match name {
        "pretrain_bert.py" => asked.workload.model.kind = Some("encoder".to_owned()),
        "pretrain_t5.py" => asked.workload.model.kind = Some("encdec".to_owned()),
        _ => {}
    }
}
