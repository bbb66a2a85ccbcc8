//! What the commands of a job say of its workload: launchers are followed to the training program, its flags, and the configurations
//! that it names.

mod hydra;
mod kind;
mod launcher;
mod processes;
mod several;
mod several_tests;
mod sight_tests;
mod sizes_tests;
mod strange_tests;
mod tests;

use crate::ask::ABSENT;
use crate::engine::python::training;
use crate::engine::{batch, rented};
use crate::open::says_training;
use crate::recipe::{self, Entry};
use crate::shell::{Command, LONGEST_SCRIPT, MOST_COMMANDS, Script, is_unknown};
use crate::{JobKind, JobRequest, Launch, Names, document};
use gpuplan_workload::file::{ModelSection, ServingSection};
use kind::{kind_of_work, name_of_folder, name_of_program, teacher_of_program};
use launcher::Start;
use several::Several;

pub use kind::{KIND, settle, unsaid};

/// Why a server of another kind is not planned.
pub const OTHER_ENGINE: &str = "it serves a model by an engine that the estimate does not know";

/// Flags that only a program that trains has.
const LEARNING: [&str; 6] = ["do_train", "train", "learning_rate", "lr", "train_file", "weight_decay"];

/// Reads every training command of a script into the job, and gives its commands. `variables` are those that the engine sets.
pub fn read<'a>(script: &str, variables: &[(String, String)], asked: &mut JobRequest, names: Names<'a>) -> Script<'a> {
    let mut reader = Script::new(names.files);
    for (name, value) in variables {
        reader.set(name, value);
    }
    reader.read(script);
    read_commands(&reader, asked, names);
    reader
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
    let several = Several::from_commands(script.commands());
    if script.is_cut() {
        let most = format!("what stands behind its first {MOST_COMMANDS} commands or {} MiB", LONGEST_SCRIPT >> 20);
        asked.leave_unread("script", most);
    }
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
            processes::of_script_elsewhere(words, environment, asked);
            processes::of_ray(words, asked);
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
    let mut entries = own_flags(start);
    if start.serves_otherwise() {
        of_other_engine(&mut entries, asked);
    }
    let dialect = recipe::of_command(&start.program, &entries);
    several.blur(&mut entries);
    let mut entries = of_sections(dialect, entries);
    // `accelerate launch --mixed_precision bf16`: what the program says itself comes later.
    let precision: Vec<Entry> = launch.iter().filter(|entry| entry.key == "mixed_precision").cloned().collect();
    recipe::apply(recipe::of_command("", &[]), &precision, asked, names);
    asked.program =
        Some(start.command().map_or(start.program.clone(), |command| format!("{} {command}", start.program)));
    asked.trains |= entries.iter().any(|entry| LEARNING.contains(&entry.key.as_str()) && entry.switch() != Some(false));
    processes::of_launcher(&start.before, &launch, asked);
    processes::of_mpi(start, asked);
    let told = asked.launch;
    processes::of_container(&start.before, &launch, asked);
    processes::of_step(&start.before, asked, names);
    processes::of_environment(start, &launch, &entries, environment, asked);
    // Files come first: a flag behind them wins.
    let is_of_hydra = hydra::named(&entries).is_some();
    let (has_configuration, is_told_elsewhere) = read_configurations(start, (&launch, &entries), script, asked, names);
    read_beside(start, &entries, script, asked, names);
    names_of_program(start, asked);
    let named_task = asked.workload.training.task.clone();
    if let Some(model) = start.named_model(&entries, environment).filter(|_| !several.is_different("model")) {
        entries.push(Entry { key: "model".to_owned(), value: Some(model), shown: "model".to_owned() });
    }
    told_not_to_train(start, &entries, asked);
    let names_file = |key: &str| launcher::CONFIGURATIONS.contains(&key) || (is_of_hydra && hydra::is_flag(key));
    entries.retain(|entry| !names_file(&entry.key));
    recipe::apply(dialect, &entries, asked, names);
    if is_told_elsewhere {
        leave_open(named_task, &entries, asked);
    }
    processes::of_program(&entries, asked);
    kind_of_work(&entries, asked);
    teacher_of_program(start.command().unwrap_or(start.name()), asked);
    let training = &asked.workload.training;
    if several.is_no_training(start) && (training.task.is_some() || training.base_weights.is_some()) {
        let why = format!("`{}` says by its name that it trains nothing", start.name());
        asked.not_planned.get_or_insert(why);
    }
    recipe::task_of_program(start.name(), &entries, asked);
    // A configuration that is not there may say how long it trains.
    if !is_told_elsewhere {
        let has_defaults = recipe::is_example(start.name()) || start.program.starts_with("trl ");
        recipe::amount_of_data(dialect, &entries, has_defaults, asked);
    }
    // A launcher of GPUs starts work, whatever else its line leaves open.
    if launch.is_empty() && entries.is_empty() && start.is_distributed() {
        asked.leave_unread(start.name(), "what it trains is not said on its command line");
    }
    if !has_configuration {
        recipe::leave_to_the_parser(dialect, &entries, asked);
    }
    keep_told(told, asked);
}

/// What a program, its command, its folder and a recipe of torchtune say by their names.
fn names_of_program(start: &Start, asked: &mut JobRequest) {
    name_of_program(start.name(), asked);
    if let Some(command) = start.command() {
        name_of_program(command, asked);
    }
    name_of_folder(&start.program, asked);
    recipe_of_torchtune(start, asked);
}

/// `++trainer.per_device_train_batch_size=5` of a program that nobody knows: the section of its trainer says nothing.
fn of_sections(dialect: &recipe::Dialect, entries: Vec<Entry>) -> Vec<Entry> {
    let is_sectioned = |entry: &Entry| entry.key.ends_with(".per_device_train_batch_size");
    let is_of_trainer = dialect.stack.is_empty() && entries.iter().any(is_sectioned);
    if is_of_trainer { recipe::without_sections(entries).0 } else { entries }
}

fn told_not_to_train(start: &Start, entries: &[Entry], asked: &mut JobRequest) {
    if entries.iter().any(|entry| entry.key == "do_train" && entry.switch() == Some(false)) {
        asked.not_planned.get_or_insert_with(|| format!("`{}` is told not to train (`do_train`)", start.name()));
    }
}

/// What a program does by itself it may do otherwise under a configuration that is not there: without settings of its own its kind of work is what
/// its name says.
fn leave_open(named: Option<String>, flags: &[Entry], asked: &mut JobRequest) {
    let set = asked.workload.training.task.take();
    let has_settings = says_training(&asked.workload.training) || asked.workload.model != ModelSection::default();
    let is_said = has_settings || flags.iter().any(says_task);
    asked.workload.training.task = if is_said { set } else { named };
}

/// Whether a flag says by itself what is trained: `--finetuning_type full`, `--lora_r 8`.
fn says_task(flag: &Entry) -> bool {
    const WORDS: [&str; 6] = ["lora", "adapter", "finetun", "peft", "train_type", "tuner_type"];
    WORDS.iter().any(|word| flag.key.contains(word)) || flag.key == "task" || flag.key == "stage"
}

/// Of an engine that nobody knows the model alone is read: `--batch-size 512` of llama.cpp is none of a training.
fn of_other_engine(entries: &mut Vec<Entry>, asked: &mut JobRequest) {
    asked.not_planned.get_or_insert_with(|| OTHER_ENGINE.to_owned());
    let is_model = |entry: &Entry| entry.key.starts_with("model");
    for other in entries.iter().filter(|entry| !is_model(entry)) {
        asked.leave_unread(&other.shown, other.value.as_deref().unwrap_or_default());
    }
    entries.retain(is_model);
}

/// A Python program that lies beside the job, with the flags that it is given in place of its own defaults.
fn read_beside(start: &Start, entries: &[Entry], script: &Script, asked: &mut JobRequest, names: Names) {
    let text = Some(&start.program)
        .filter(|path| launcher::is_python(path) && !is_unknown(path))
        .and_then(|path| script.file(path));
    let Some(text) = text.filter(|text| training::is_program(text)) else { return };
    let value = |entry: &Entry| entry.value.clone().unwrap_or_else(|| "True".to_owned());
    let flags: Vec<(String, String)> = entries.iter().map(|entry| (entry.key.clone(), value(entry))).collect();
    training::read(&text, &flags, asked, names);
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

/// The flags of a program, under the names that the tables have.
fn own_flags(start: &Start) -> Vec<Entry> {
    let mut entries = launcher::flags(&start.after);
    without_stage(&mut entries);
    without_rollouts(&mut entries);
    entries
}

/// Steps of a rollout are none of the training: `num_steps` is that of each environment where a program counts its steps or episodes together
/// (CleanRL, `ppo.py`: `total_timesteps`).
fn without_rollouts(entries: &mut [Entry]) {
    let is_total = |entry: &Entry| matches!(entry.key.as_str(), "total_timesteps" | "total_episodes");
    if entries.iter().any(is_total) {
        for entry in entries.iter_mut().filter(|entry| entry.key == "num_steps") {
            "steps_of_a_rollout".clone_into(&mut entry.key);
        }
    }
}

/// Reads the files that a command names. Whether one is a training program's, and whether one of its own is not there.
fn read_configurations(
    start: &Start,
    (launch, entries): (&[Entry], &[Entry]),
    script: &Script,
    asked: &mut JobRequest,
    names: Names,
) -> (bool, bool) {
    // Those of a launcher and of DeepSpeed say nothing of the work.
    let is_of = |flags: &[Entry], path: &String, key: &str| {
        flags.iter().any(|flag| flag.key.contains(key) && flag.value.as_ref() == Some(path))
    };
    let is_own = |path: &String| !is_of(launch, path, "config") && !is_of(entries, path, "deepspeed");
    let (mut is_there, mut is_absent) = (false, false);
    for path in start.configurations(launch, entries) {
        let is_read = read_configuration(&path, &start.program, script, asked, names);
        is_there |= is_read;
        is_absent |= !is_read && is_own(&path);
    }
    (is_there, is_absent)
}

/// Reads a file that a command names. Whether it is there and is known.
fn read_configuration(path: &str, program: &str, script: &Script, asked: &mut JobRequest, names: Names) -> bool {
    let text = if is_unknown(path) { None } else { script.file(path) };
    let Some(text) = text else {
        asked.leave_unread(path, ABSENT);
        return false;
    };
    let Some(document) = document::parse(&text) else {
        asked.leave_unread(path, "neither YAML, TOML nor JSON");
        return false;
    };
    let (document, missing) = hydra::composed(&document, path, &|path| script.file(path));
    for path in missing {
        asked.leave_unread(&path, ABSENT);
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
    let before = asked.workload.training.task.clone();
    recipe::apply(dialect, &entries, asked, names);
    if program.is_empty() {
        if is_of_another(&entries, asked) && !entries.iter().any(says_task) {
            asked.workload.training.task = before;
        }
        recipe::task_of_program("", &entries, asked);
    }
    kind_of_work(&entries, asked);
    let has_defaults = recipe::is_example(program) || program.starts_with("trl ");
    recipe::amount_of_data(dialect, &entries, has_defaults, asked);
    recipe::leave_to_the_parser(dialect, &entries, asked);
    true
}

/// Whether most words of a file are none of the program by whose words it was known: it is another program's, which has other defaults.
fn is_of_another(entries: &[Entry], asked: &JobRequest) -> bool {
    let is_unread = |entry: &&Entry| asked.unread.iter().any(|one| one.key == entry.shown);
    2 * entries.iter().filter(is_unread).count() > entries.len()
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
