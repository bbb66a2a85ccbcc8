//! What the commands of a job say of its workload: launchers are followed to the training program, its flags, and the configurations
//! that it names.

mod hydra;
mod launcher;
mod processes;
mod several;
mod several_tests;
mod strange_tests;
mod tests;

use crate::engine::{batch, rented};
use crate::recipe::{self, Entry};
use crate::shell::{Command, Script, is_unknown};
use crate::{JobKind, JobRequest, Launch, Names, document};
use gpuplan_workload::file::ServingSection;
use launcher::Start;
use several::Several;

/// Words by which programs of preference and reinforcement learning call themselves; those of `recipe::OBJECTIVES` are planned.
const REINFORCEMENTS: [&str; 17] = [
    "dpo", "ipo", "simpo", "grpo", "ppo", "kto", "orpo", "cpo", "rloo", "rlhf", "reward", "rl", "rm", "dapo", "gspo",
    "rlvr", "prm",
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
/// What a teacher has said before is data.
const SAID: [&str; 6] = ["output", "outputs", "data", "dataset", "responses", "answers"];

/// Flags that only a program that trains has.
const LEARNING: [&str; 6] = ["do_train", "train", "learning_rate", "lr", "train_file", "weight_decay"];

/// Reads every training command of a script into the job. `variables` are those that the engine sets.
pub fn read(script: &str, variables: &[(String, String)], asked: &mut JobRequest, names: Names) {
    let mut reader = Script::new(names.files);
    for (name, value) in variables {
        reader.set(name, value);
    }
    reader.read(script);
    read_commands(&reader, asked, names);
}

/// Reads one command that is given as its words.
pub fn read_words(words: Vec<String>, variables: &[(String, String)], asked: &mut JobRequest, names: Names) {
    let quoted = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    read(&quoted, variables, asked, names);
}

/// What the name of a program and the place of a model say: `grpo-distributed`, `hf://Qwen/Qwen2.5-0.5B-Instruct`.
pub fn read_names(program: Option<&str>, model: Option<&str>, asked: &mut JobRequest, names: Names) {
    if let Some(program) = program {
        name_of_program(program, asked);
    }
    if let Some(model) = model {
        let entry = Entry {
            key: "model".to_owned(),
            value: model.strip_prefix("hf://").map(str::to_owned),
            shown: "model".to_owned(),
        };
        recipe::apply(recipe::of_command("", &[]), &[entry], asked, names);
    }
}

/// A word as a shell would need it; variables in it stay variables.
pub fn quote(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('`', "\\`"))
}

fn read_commands(script: &Script, asked: &mut JobRequest, names: Names) {
    let several = Several::of(script.commands());
    for (Command { words, environment, is_cut, .. }, start) in script.commands().iter().zip(&several.starts) {
        if words.first().is_some_and(|name| launcher::base(name) == "sbatch") {
            // Of a plain script it is the job (`slurm::submitted`).
            if asked.kind != JobKind::Script {
                asked.leave_unread("sbatch", "a further job");
            }
            continue;
        }
        if words.first().is_some_and(|name| name == "eval") {
            asked.leave_unread("eval", format!("{} (only a run tells which command that is)", words[1..].join(" ")));
            continue;
        }
        rent(words, asked, names);
        let Some(start) = start else {
            processes::of_unknown_step(words, asked, names);
            continue;
        };
        if *is_cut {
            asked.leave_unread(start.name(), "a quote behind it is never closed");
        }
        if !several.is_work(start) {
            asked.leave_unread(start.name(), "a step beside the work, whose flags are none of its own");
            continue;
        }
        // A job has the cards of the largest of its commands.
        let before = std::mem::take(&mut asked.launch);
        read_start(start, environment, (script, &several), asked, names);
        asked.launch = several::larger(before, asked.launch);
    }
    several.count_side_by_side(&mut asked.launch);
    // What is served behind a training without a name is what was trained.
    if asked.trains && asked.model_name.is_none() {
        asked.workload.serving = ServingSection::default();
    }
}

/// Machines that a line rents, in a script that asks for none before.
fn rent(words: &[String], asked: &mut JobRequest, names: Names) {
    if asked.kind != JobKind::Script || !asked.choices.is_empty() {
        return;
    }
    batch::submitted(words, asked, names.hardware);
    let Some(machines) = rented::of_command(words, &launcher::flags(words)) else { return };
    if let Err(error) = rented::ask(&machines, asked, names) {
        asked.leave_unread(&words[0], error);
    }
}

fn read_start(
    start: &Start,
    environment: &[(&str, String)],
    (script, several): (&Script, &Several),
    asked: &mut JobRequest,
    names: Names,
) {
    let launch = launcher::flags(&start.before);
    let mut entries = launcher::flags(&start.after);
    without_stage(&mut entries);
    let dialect = recipe::of_command(&start.program, &entries);
    several.blur(&mut entries);
    // `accelerate launch --mixed_precision bf16`: what the program says itself comes later.
    let precision: Vec<Entry> = launch.iter().filter(|entry| entry.key == "mixed_precision").cloned().collect();
    recipe::apply(recipe::of_command("", &[]), &precision, asked, names);
    asked.trains |= entries.iter().any(|entry| LEARNING.contains(&entry.key.as_str()) && entry.switch() != Some(false));
    processes::of_launcher(&start.before, &launch, asked);
    processes::of_mpi(start, asked);
    let told = asked.launch;
    processes::of_container(&start.before, &launch, asked);
    processes::of_step(&start.before, asked, names);
    processes::of_environment(start, &launch, &entries, environment, asked);
    // Files come first: a flag behind them wins.
    let mut has_configuration = false;
    let is_of_hydra = hydra::named(&entries).is_some();
    for path in start.configurations(&launch, &entries) {
        has_configuration |= read_configuration(&path, &start.program, script, asked, names);
    }
    name_of_program(start.name(), asked);
    name_of_folder(&start.program, asked);
    recipe_of_torchtune(start, asked);
    if let Some(model) = start.named_model(&entries, environment) {
        entries.push(Entry { key: "model".to_owned(), value: Some(model), shown: "model".to_owned() });
    }
    let names_file = |key: &str| launcher::CONFIGURATIONS.contains(&key) || (is_of_hydra && hydra::is_flag(key));
    entries.retain(|entry| !names_file(&entry.key));
    recipe::apply(dialect, &entries, asked, names);
    kind_of_work(&entries, asked);
    teacher_of_program(start.name(), asked);
    let training = &asked.workload.training;
    if several.is_no_training(start) && (training.task.is_some() || training.base_weights.is_some()) {
        let why = format!("`{}` says by its name that it trains nothing", start.name());
        asked.not_planned.get_or_insert(why);
    }
    recipe::task_of_program(start.name(), &entries, asked);
    recipe::amount_of_data(dialect, &entries, asked);
    // A launcher of GPUs starts work, whatever else its line leaves open.
    if launch.is_empty() && entries.is_empty() && start.is_distributed() {
        asked.leave_unread(start.name(), "what it trains is not said on its command line");
    }
    if !has_configuration {
        recipe::leave_to_the_parser(dialect, &entries, asked);
    }
    keep_told(told, asked);
}

/// What a launcher is told on its line wins over its configuration and over what its program is told.
fn keep_told(told: Launch, asked: &mut JobRequest) {
    let is_told = told.gpus_per_machine.is_some() || told.gpus.is_some();
    let launch = &mut asked.launch;
    if is_told && launch.processes_per_machine.is_none() {
        (launch.gpus_per_machine, launch.gpus) = (told.gpus_per_machine, told.gpus);
    }
    launch.machines = told.machines.or(launch.machines);
}

/// NeMo's launcher runs stages of which one trains: its settings are those of NeMo behind `training.`.
fn without_stage(entries: &mut [Entry]) {
    for entry in entries {
        let rest = entry.key.strip_prefix("training.");
        if let Some(rest) = rest.filter(|rest| rest.starts_with("model.") || rest.starts_with("trainer.")) {
            entry.key = rest.to_owned();
        }
    }
}

/// Reads a file that a command names. Whether it is there and is known.
fn read_configuration(path: &str, program: &str, script: &Script, asked: &mut JobRequest, names: Names) -> bool {
    let text = if is_unknown(path) { None } else { script.file(path) };
    let Some(text) = text else {
        asked.leave_unread(path, "a configuration that is not there");
        return false;
    };
    let Some(document) = document::of(&text) else {
        asked.leave_unread(path, "neither YAML, TOML nor JSON");
        return false;
    };
    let (document, missing) = hydra::composed(&document, path, &|path| script.file(path));
    for path in missing {
        asked.leave_unread(&path, "a configuration that is not there");
    }
    read_document(&document, Some(path), program, asked, names)
}

/// Reads a configuration into the job. Whether it is one of a training program.
pub fn read_document(
    document: &serde_json::Value,
    file: Option<&str>,
    program: &str,
    asked: &mut JobRequest,
    names: Names,
) -> bool {
    let entries = recipe::entries(document, file);
    let of_program = recipe::of_command(program, &[]);
    let known = recipe::of_document(document, &entries);
    let dialect = known.or_else(|| (!of_program.stack.is_empty()).then_some(of_program));
    let (entries, dialect) = match dialect {
        Some(_) => (entries, dialect),
        None => recipe::without_sections(entries),
    };
    let Some(dialect) = dialect else {
        asked.leave_unread(file.unwrap_or("the file"), "no configuration of a training program");
        return false;
    };
    recipe::apply(dialect, &entries, asked, names);
    if program.is_empty() {
        recipe::task_of_program("", &entries, asked);
    }
    kind_of_work(&entries, asked);
    recipe::amount_of_data(dialect, &entries, asked);
    recipe::leave_to_the_parser(dialect, &entries, asked);
    true
}

/// `tune run full_finetune_single_device`: torchtune's recipes say by their names what they train, and whether on one GPU.
fn recipe_of_torchtune(start: &Start, asked: &mut JobRequest) {
    let is_recipe = |word: &&String| !word.starts_with('-') && (word.contains("finetune") || word.contains("_dpo"));
    let Some(name) = start.after.iter().find(is_recipe).filter(|_| start.program == "tune run") else { return };
    name_of_program(name, asked);
    let task = if name.starts_with("lora") { "lora" } else { "full-fine-tune" };
    asked.workload.training.task.get_or_insert_with(|| task.to_owned());
    if name.ends_with("_single_device") {
        asked.launch.gpus_per_machine.get_or_insert(1);
    }
    asked.understand("tune run", name);
}

/// `src/dpo/trainer.py`: what trains in a folder with the name of an objective has that one, unless its own name says another.
fn name_of_folder(program: &str, asked: &mut JobRequest) {
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
fn kind_of_work(entries: &[Entry], asked: &mut JobRequest) {
    const ENDS: [&str; 8] = ["task", "type", "stage", "mode", "method", "loss", "algorithm", "objective"];
    let unread: Vec<&Entry> =
        entries.iter().filter(|entry| asked.unread.iter().any(|one| one.key == entry.shown)).collect();
    for entry in unread {
        let mut words = entry.key.split(['_', '.']).filter(|word| !word.is_empty());
        let first = words.clone().next();
        // `torchtune.rlhf.loss.DPOLoss` is a class.
        let value = entry.value.as_deref().unwrap_or_default().to_ascii_lowercase();
        let value = value.rsplit('.').next().unwrap_or_default().trim_end_matches("loss").to_owned();
        let is_kind = words.any(|word| ENDS.contains(&word));
        // Weights whose answers are learnt are no pretraining, whatever the program is called.
        if is_kind && value == "sft" && asked.workload.training.task.as_deref() == Some("pretrain") {
            asked.workload.training.task = None;
        }
        let is_zero = entry.value.as_deref().is_some_and(|text| text.parse::<f64>() == Ok(0.0));
        let is_on = entry.switch() != Some(false) && !is_zero;
        let of_key = first.filter(|word| word.len() > 2 && *word != "reward" && is_on);
        let named = [is_kind.then_some(value.as_str()), of_key].into_iter().flatten();
        let is_open = asked.workload.training.objective.is_none() && asked.not_planned.is_none();
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
    } else if is_kind && CONTRASTS.contains(&value) {
        asked.not_planned = Some(format!("the estimate knows no learning by comparison (`{} {value}`)", entry.shown));
    }
}

/// `train_distill.py`: a program that says so learns from a teacher, though no key names it.
fn teacher_of_program(name: &str, asked: &mut JobRequest) {
    let lower = name.to_ascii_lowercase();
    let distils = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| TEACHERS.contains(&word));
    if distils && asked.workload.training.objective.is_none() {
        asked
            .not_planned
            .get_or_insert_with(|| format!("`{name}` learns from a teacher that its command does not name"));
    }
}

/// Some programs say by their name what they do.
fn name_of_program(name: &str, asked: &mut JobRequest) {
    // Of `safe_rlhf.finetune` the package says nothing.
    let own = if name.strip_suffix(".py").is_some() { name } else { name.rsplit('.').next().unwrap_or(name) };
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
    if let Some(word) = words.find_map(|word| Some(numbered(word)).filter(|word| REINFORCEMENTS.contains(&&**word))) {
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
    // `train_text_to_image_lora.py`, `trainLoRA.py`; PEFT is a library of adapters, of which LoRA is the usual one.
    let adapters = [("qlora", "qlora"), ("lora", "lora"), ("peft", "lora")];
    let adapters = adapters.into_iter().find(|(word, _)| lower.contains(word)).map(|(_, task)| task);
    if let (Some(adapters), true) = (adapters, lower.strip_suffix(".py").is_some()) {
        asked.workload.training.task.get_or_insert_with(|| adapters.to_owned());
        asked.understand(name, adapters);
    }
    match name {
        "pretrain_bert.py" => asked.workload.model.kind = Some("encoder".to_owned()),
        "pretrain_t5.py" => asked.workload.model.kind = Some("encdec".to_owned()),
        _ => {}
    }
}
