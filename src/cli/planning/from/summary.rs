//! `plan --from FOLDER --summary`: what is read of every job file below a folder, by kind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::arguments::global::OutputFormat;
use crate::planning::from::beside;
use crate::planning::from::work::Work;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_import::{Choice, Gpus, JobRequest, Names, command};
use gpuplan_report::sentences::assumption::job_sentence;
use gpuplan_report::text::json::pretty;
use gpuplan_report::text::table::{Column, render};
use gpuplan_workload::file::Scalar;

/// Ends of names that jobs and configurations have.
const ENDS: [&str; 20] = [
    "sh", "sbatch", "slurm", "pbs", "qsub", "lsf", "bsub", "oar", "sub", "submit", "condor", "job", "yaml", "yml",
    "toml", "json", "bash", "ksh", "py", "ipynb",
];
/// Deeper folders are no collection of jobs.
const DEEPEST: usize = 12;

/// What was read of a file.
#[derive(Debug, Serialize)]
struct FileRecord {
    file: String,
    /// Why it was refused; null: it was read.
    refused: Option<String>,
    kind: Option<&'static str>,
    model: Option<String>,
    /// The catalog's name of the model; null: the catalog has none.
    catalog_model: Option<String>,
    layers: Option<String>,
    hidden: Option<String>,
    task: Option<String>,
    micro_batch: Option<String>,
    grad_accumulation: Option<String>,
    global_batch: Option<String>,
    sequence_length: Option<String>,
    precision: Option<String>,
    amount: Option<String>,
    gpus: Option<u32>,
    gpu: Option<String>,
    nodes: Option<u32>,
    not_planned: Option<String>,
    /// What its work is where it trains on no next token: `serving`, or the objective; `unknown` where a model is named and no word says what
    /// is done with it.
    work: Option<String>,
    /// Whether its work is planned without any further flag; else its machines are priced.
    planned: bool,
    /// What is taken for what it leaves open.
    assumed: Vec<String>,
    unread: Vec<String>,
}

pub fn run(path: &Path, session: &Session) -> Result<Exit, Diagnostic> {
    let (hardware, models) = (session.hardware()?, session.models()?);
    let mut files = Vec::new();
    collect(path, &mut files, DEEPEST).map_err(|error| Diagnostic::file(path, &error))?;
    files.sort();
    let mut records = Vec::new();
    for file in &files {
        let shown = file.strip_prefix(path).unwrap_or(file).display().to_string();
        let open = |name: &str| beside::read(file, name);
        let own = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let names = Names { files: &open, path: own, ..Names::new(&hardware, &models) };
        let read = fs::read_to_string(file)
            .map_err(|error| error.to_string())
            .and_then(|text| gpuplan_import::read(&text, names).map_err(|error| error.to_string()));
        records.push(match read {
            Ok(asked) => record(shown, &asked, names),
            // Most programs of Python and most notebooks train nothing.
            Err(_) if file.extension().is_some_and(|end| end == "py" || end == "ipynb") => continue,
            Err(why) => FileRecord { refused: Some(why), ..empty(shown) },
        });
    }
    if session.output == OutputFormat::Json {
        return session.printer.data(&pretty(&records));
    }
    session.printer.data(&table(&records, session.width))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>, depth: usize) -> std::io::Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?.path();
        let is_job = entry.extension().and_then(|end| end.to_str()).is_some_and(|end| ENDS.contains(&end));
        if entry.is_dir() && !entry.is_symlink() && depth > 0 {
            collect(&entry, files, depth - 1)?;
        } else if entry.is_file() && is_job {
            files.push(entry);
        }
    }
    Ok(())
}

fn empty(file: String) -> FileRecord {
    FileRecord {
        file,
        refused: None,
        kind: None,
        model: None,
        catalog_model: None,
        layers: None,
        hidden: None,
        task: None,
        micro_batch: None,
        grad_accumulation: None,
        global_batch: None,
        sequence_length: None,
        precision: None,
        amount: None,
        gpus: None,
        gpu: None,
        nodes: None,
        not_planned: None,
        work: None,
        planned: false,
        assumed: Vec::new(),
        unread: Vec::new(),
    }
}

fn record(file: String, asked: &JobRequest, names: Names) -> FileRecord {
    let mut job = Work { asked: asked.clone(), file: asked.workload.clone() };
    let planned = job.complete(names.models).is_ok();
    let (model, training) = (&asked.workload.model, &asked.workload.training);
    let text = |number: &Option<Scalar>| number.as_ref().map(ToString::to_string);
    let amounts = [("steps", &training.steps), ("samples", &training.samples), ("epochs", &training.epochs)];
    let choice = asked.choices.first();
    FileRecord {
        kind: Some(asked.kind.word()),
        model: asked.model_name.clone(),
        catalog_model: model.preset.as_deref().and_then(|name| names.models.find(name)).map(|row| row.id.clone()),
        layers: text(&model.layers),
        hidden: text(&model.hidden),
        task: training.task.clone(),
        micro_batch: text(&training.micro_batch),
        grad_accumulation: text(&training.grad_accumulation),
        global_batch: text(&training.global_batch),
        sequence_length: text(&training.sequence_length),
        precision: training.precision.clone(),
        amount: amounts.into_iter().find_map(|(word, number)| Some(format!("{word} {}", number.as_ref()?))),
        gpus: choice.and_then(|choice| choice.gpus).map(|gpus| match gpus {
            Gpus::PerMachine(count) | Gpus::Together(count) => count,
        }),
        gpu: choice.and_then(|choice| card(choice, names)),
        nodes: asked.nodes.as_ref().map(|nodes| *nodes.end()),
        not_planned: asked.why_not_planned(&asked.workload),
        work: work_of(asked),
        planned,
        assumed: job.asked.assumed.iter().map(job_sentence).collect(),
        unread: asked.unread.iter().map(|one| one.key.clone()).collect(),
        ..empty(file)
    }
}

/// The card as the job names it, or that of the machine which it names.
fn card(choice: &Choice, names: Names) -> Option<String> {
    let of_machine = || {
        let machine = names.hardware.instances().iter().find(|one| Some(&one.name) == choice.instance_type.as_ref())?;
        Some(names.hardware.gpu(machine.node.gpu).id.clone())
    };
    choice.chips.as_ref().map(|chips| chips.word.clone()).or_else(of_machine)
}

fn work_of(asked: &JobRequest) -> Option<String> {
    if command::unsaid(asked, &asked.workload).is_some() {
        return Some("unknown".to_owned());
    }
    if asked.workload.serving.is_empty() {
        asked.workload.training.objective.clone()
    } else {
        Some("serving".to_owned())
    }
}

/// Counts by kind, and what most files were refused for.
fn table(records: &[FileRecord], width: u16) -> String {
    let mut kinds: BTreeMap<&str, [usize; 7]> = BTreeMap::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for one in records {
        let counts = kinds.entry(one.kind.unwrap_or("refused")).or_default();
        counts[0] += 1;
        counts[1] += usize::from(one.model.is_some() || one.layers.is_some());
        counts[2] += usize::from(one.catalog_model.is_some() || one.layers.is_some());
        counts[3] += usize::from(one.micro_batch.is_some() || one.global_batch.is_some());
        counts[4] += usize::from(one.sequence_length.is_some());
        counts[5] += usize::from(one.gpus.is_some());
        counts[6] += usize::from(one.planned);
        let reason = one.refused.as_ref().or(one.not_planned.as_ref());
        if let Some(reason) = reason {
            *reasons.entry(reason.lines().next().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    let columns = [
        Column::left("kind", 0),
        Column::right("files", 0),
        Column::right("model", 0),
        Column::right("known", 0),
        Column::right("batch", 0),
        Column::right("length", 0),
        Column::right("GPUs", 0),
        Column::right("planned", 0),
    ];
    let rows = kinds.into_iter().map(|(kind, counts)| {
        std::iter::once(kind.to_owned()).chain(counts.iter().map(ToString::to_string)).collect::<Vec<_>>()
    });
    let mut text = render(&columns, rows, width);
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    for (reason, count) in reasons.into_iter().take(20) {
        text.push_str(&format!("{count:>5}  {reason}\n"));
    }
    text
}
