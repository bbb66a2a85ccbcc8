//! How much is trained, where a job says it by its data: a limit on rows, the name of a public data set, and its trainer's epochs.

use super::entry::Entry;
use super::setting::Dialect;
use super::task::trains;
use crate::JobRequest;
use gpuplan_workload::assumption::JobAssumption;
use gpuplan_workload::file::Scalar;

/// Rows of the training split of public data sets: only those whose count was read in a published source.
///
/// - alpaca: `dataset_info` made of tatsu-lab/stanford_alpaca's alpaca_data.json (bertin-project/alpaca-spanish on the Hub, nllb/train).
/// - dolly: `dataset_info` of its copy Sharathhebbar24/databricks-dolly-15k on the Hub.
/// - gsm8k: Cobbe et al. 2021 (arXiv 2110.14168) section 2, and `dataset_info` of its cards on the Hub.
/// - squad and cnn_dailymail: `dataset_info` of their cards (huggingface/datasets, datasets/squad/README.md and cnn_dailymail/README.md).
/// - imdb: Maas et al. 2011 (ACL) section 4.3; ag_news: Zhang et al. 2015 (arXiv 1509.01626) table 3.
/// - imagenet: Russakovsky et al. 2015 (arXiv 1409.0575) table 2; cifar: Krizhevsky 2009 section 3; mnist: LeCun et al. 1998.
///
/// Sets that are cut into blocks of tokens before they are trained on are left out: their rows are no samples.
const PUBLIC: &[(&str, u64)] = &[
    ("tatsu-lab/alpaca", 52_002),
    ("databricks/databricks-dolly-15k", 15_011),
    ("gsm8k", 7_473),
    ("openai/gsm8k", 7_473),
    ("squad", 87_599),
    ("cnn_dailymail", 287_113),
    ("imdb", 25_000),
    ("ag_news", 120_000),
    ("imagenet-1k", 1_281_167),
    ("imagenet1k", 1_281_167),
    ("imagenet", 1_281_167),
    ("cifar10", 50_000),
    ("cifar100", 50_000),
    ("mnist", 60_000),
];
/// The same of the tasks of GLUE: `dataset_info` of its card (huggingface/datasets at 040102f100, datasets/glue/README.md).
const GLUE: &[(&str, u64)] = &[
    ("cola", 8_551),
    ("sst2", 67_349),
    ("mrpc", 3_668),
    ("stsb", 5_749),
    ("qqp", 363_846),
    ("mnli", 392_702),
    ("qnli", 104_743),
    ("rte", 2_490),
    ("wnli", 635),
];
/// Keys by which programs name their data.
const DATA: [&str; 4] = ["dataset_name", "dataset", "dataset_path", "hf_dataset"];
/// Epochs where a command of transformers' Trainer names none (transformers/training_args.py, `num_train_epochs`).
const EPOCHS_OF_TRAINER: u32 = 3;

/// Completes the amount of work by what the job says of its data. `has_defaults`: what reads the settings is known to be transformers' or TRL's own
/// parser, and no program that only shares its words.
pub fn of_data(dialect: &Dialect, entries: &[Entry], has_defaults: bool, asked: &mut JobRequest) {
    let training = &mut asked.workload.training;
    let is_counted = training.steps.is_some() || training.samples.is_some() || training.tokens.is_some();
    if is_counted || asked.not_planned.is_some() || asked.workload.data.samples.is_some() {
        return;
    }
    // What is stated and not read is no default.
    let is_stated = entries.iter().any(|entry| entry.key == "num_train_epochs");
    if training.epochs.is_none()
        && !is_stated
        && has_defaults
        && ["hf-trainer", "trl"].contains(&dialect.stack)
        && (training.task.is_some() || trains(entries))
    {
        training.epochs = Some(Scalar::from(EPOCHS_OF_TRAINER.to_string()));
        asked.assumed.push(JobAssumption::EpochsOfStack { stack: dialect.stack.to_owned(), epochs: EPOCHS_OF_TRAINER });
    }
    if let Some((rows, assumption)) = rows(entries) {
        asked.workload.data.samples = Some(Scalar::from(rows.to_string()));
        asked.assumed.push(assumption);
    }
}

fn rows(entries: &[Entry]) -> Option<(u64, JobAssumption)> {
    let value = |key: &str| entries.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.as_deref());
    // What is cut into blocks has another number of samples than of rows.
    let packs = |key: &&str| value(key).is_some_and(|packs| packs.eq_ignore_ascii_case("true"));
    if value("block_size").is_some() || ["packing", "neat_packing", "sample_packing"].iter().any(packs) {
        return None;
    }
    // `run_glue.py --task_name mnli` names its set by its task alone.
    let glue = value("task_name").filter(|task| GLUE.iter().any(|(known, _)| known == task)).map(|_| "glue");
    // A split such as `train[:10%]` takes a part.
    if entries
        .iter()
        .any(|entry| entry.key.ends_with("split") && entry.value.as_deref().is_some_and(|text| text.contains('[')))
    {
        return None;
    }
    let listed: Vec<&str> =
        entries.iter().filter(|entry| is_path_of_set(&entry.key)).filter_map(|entry| entry.value.as_deref()).collect();
    let listed = (!listed.is_empty()).then(|| listed.join(","));
    let named = listed
        .as_deref()
        .or(DATA.iter().find_map(|key| value(key)))
        .or(glue.filter(|_| value("train_file").is_none()))?;
    let sets: Vec<&str> = named.split(',').map(str::trim).collect();
    let limit = ["max_train_samples", "max_samples"].iter().find_map(|key| value(key)?.parse::<u64>().ok());
    if let Some(limit) = limit.filter(|limit| *limit > 0) {
        let rows = limit.checked_mul(sets.len() as u64)?;
        return Some((rows, JobAssumption::RowsAtMost { rows }));
    }
    let shown = match value("task_name").filter(|_| glue.is_some()) {
        Some(task) => format!("glue {task}"),
        None => sets.join(", "),
    };
    let mut all = 0_u64;
    for name in &sets {
        all = all.checked_add(of_set(name, value("task_name"))?)?;
    }
    Some((all, JobAssumption::RowsOfDataSet { name: shown, rows: all }))
}

/// Axolotl's `datasets.0.path`.
fn is_path_of_set(key: &str) -> bool {
    key.strip_prefix("datasets.")
        .and_then(|rest| rest.strip_suffix(".path"))
        .is_some_and(|at| at.parse::<u32>().is_ok())
}

/// `swift/self-cognition#1000` takes a thousand of them.
fn of_set(name: &str, task: Option<&str>) -> Option<u64> {
    if let Some((_, rows)) = name.rsplit_once('#') {
        return rows.parse().ok().filter(|rows| *rows > 0);
    }
    let known = |table: &[(&str, u64)], wanted: &str| {
        table.iter().find(|(known, _)| known.eq_ignore_ascii_case(wanted)).map(|(_, rows)| *rows)
    };
    if name.eq_ignore_ascii_case("glue") || name == "nyu-mll/glue" {
        return known(GLUE, task?);
    }
    known(PUBLIC, name)
}
