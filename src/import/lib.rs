//! Reads what an existing job asks of its engine: machines, places, terms, time, and what its command says of the workload.

pub mod ask;
pub mod chips;
pub mod command;
pub mod degrees;
mod document;
mod engine;
mod error;
mod names;
pub mod open;
mod recipe;
pub mod shell;
mod yaml;

use gpuplan_workload::assumption::JobAssumption;

pub use ask::{Choice, GpuModels, Gpus, JobKind, JobRequest, KeyValue, Launch, Need};
pub use degrees::{StatedLayout, VirtualStages};
pub use engine::{compose, dstack, kubernetes, skypilot, slurm};
pub use error::ImportError;
pub use names::{Files, Names};

/// Reads a job of any kind: the content says which it is.
pub fn read(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = of_kind(text, names)?;
    asked.name_conflicts();
    command::settle(&mut asked, names);
    degrees::name_degrees(&mut asked);
    asked.forget_repeated();
    Ok(asked)
}

fn of_kind(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    if slurm::is_script(text) && !slurm::is_generator(text) {
        return slurm::read(text, names);
    }
    // A program of Python may have a first line that says so; one that a manifest holds is part of the manifest.
    if !is_manifest(text) && engine::python::is_program(text) {
        return engine::python::read(text, names);
    }
    if text.starts_with("#!") || slurm::is_generator(text) {
        return script(text, names);
    }
    if engine::condor::is_description(text) {
        return engine::condor::read(text, names);
    }
    let documents = match yaml::documents(text) {
        Ok(documents) => documents,
        Err(error) => return not_yaml(text, error, names),
    };
    if documents.iter().any(kubernetes::is_object) {
        kubernetes::read(&documents, names)
    } else if let Some(run) = documents.iter().find(|document| dstack::is_run(document)) {
        dstack::read(run, names)
    } else if let Some(project) = documents.iter().find(|document| compose::is_project(document)) {
        compose::read(project, names)
    } else if let Some(job) = documents.iter().find_map(engine::service::service) {
        job.read(names)
    } else if let Some(notebook) = documents.iter().find(|document| engine::notebook::is_notebook(document)) {
        engine::notebook::read(notebook, names)
    } else if documents.iter().any(skypilot::is_task) {
        skypilot::read(&documents, names)
    } else if documents.iter().any(serde_json::Value::is_object) {
        documents.iter().find_map(|document| configuration(document, names)).ok_or(ImportError::UnknownKind)
    } else {
        not_yaml(text, ImportError::UnknownKind, names)
    }
}

/// Whether a text has the two lines that each object of Kubernetes begins with.
fn is_manifest(text: &str) -> bool {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    has("apiVersion:") && has("kind:")
}

/// What is no YAML may be TOML, a template, or a script without its first line.
fn not_yaml(text: &str, error: ImportError, names: Names) -> Result<JobRequest, ImportError> {
    if let Some(table) = document::of_toml(text) {
        // A launcher's own file has the command that it starts.
        let command = table.get("command").and_then(serde_json::Value::as_str);
        return configuration(&table, names).or_else(|| script(command?, names).ok()).ok_or(ImportError::UnknownKind);
    }
    if text.contains("{{") && text.contains("}}") {
        return Err(ImportError::HelmTemplate);
    }
    // A manifest with a mistake in it is no script.
    if is_manifest(text) {
        return Err(error);
    }
    script(text, names).map_err(|_| error)
}

/// A script without an engine's directives: what its commands start.
fn script(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Script);
    engine::batch::read(text, &mut asked, names.hardware);
    let reader = command::read(text, &[], &mut asked, names);
    for one in reader.commands() {
        if one.words.first().is_some_and(|name| name.rsplit('/').next() == Some("sbatch")) {
            slurm::submitted(one, &reader, &mut asked, names);
        }
    }
    // What it writes somebody else hands over.
    if asked.kind == JobKind::Script
        && let Some(job) = reader.written_job()
    {
        slurm::written(&job, &reader, &mut asked, names);
    }
    // Processes of a launcher are machines, whatever the program is told.
    asked.take_machines_of_launcher();
    if asked.understood.is_empty() && asked.unread.is_empty() {
        return Err(ImportError::UnknownKind);
    }
    Ok(asked)
}

/// The configuration of a training program. `None`: it is none.
fn configuration(document: &serde_json::Value, names: Names) -> Option<JobRequest> {
    let mut asked = JobRequest::new(JobKind::Recipe);
    if !command::read_document(document, None, "", &mut asked, names) {
        return None;
    }
    asked.take_machines_of_launcher();
    take_card(&mut asked, names);
    Some(asked)
}

/// `gpu: H100`, `gpu_type: a100:2`: what starts the program reads which card it starts on from the same file.
fn take_card(asked: &mut JobRequest, names: Names) {
    let is_card = |one: &KeyValue| matches!(one.plain_key().as_str(), "gpu" | "gpu_type" | "gpu_name" | "accelerator");
    let card = |one: &KeyValue| {
        let (word, count) = match one.value.split_once(':') {
            Some((word, count)) => (word, Some(count.parse::<u32>().ok().filter(|count| *count > 0)?)),
            None => (one.value.as_str(), None),
        };
        let is_name = word.contains(|letter: char| letter.is_ascii_alphabetic());
        Some((chips::find(word, names.hardware).filter(|_| is_name)?, count))
    };
    let found = asked.unread.iter().position(|one| is_card(one) && card(one).is_some());
    let Some(position) = found else { return };
    let one = asked.unread.remove(position);
    let Some((chips, count)) = card(&one) else { return };
    if asked.choices.is_empty() {
        if count.is_none() {
            asked.assumed.push(JobAssumption::OneGpu);
        }
        asked.choices.push(Choice { gpus: Some(Gpus::PerMachine(count.unwrap_or(1))), ..Choice::default() });
    }
    for choice in asked.choices.iter_mut().filter(|choice| choice.chips.is_none()) {
        choice.chips = Some(chips.clone());
    }
    asked.understood.push(one);
}
