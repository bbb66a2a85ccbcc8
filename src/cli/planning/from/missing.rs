//! What a job leaves open of its work, and the flags that complete it.

use std::path::Path;

use gpuplan_import::JobRequest;
use gpuplan_workload::file::{ModelSection, WorkloadFile};

/// Keys by which programs name their data.
const DATA: [&str; 7] =
    ["dataset_name", "dataset", "datasets.0.path", "train_file", "data_path", "train_data_dir", "dataset_path"];

/// A part of a workload that no line of the job says.
struct Missing {
    what: String,
    flag: &'static str,
}

fn all(asked: &JobRequest, file: &WorkloadFile) -> Vec<Missing> {
    let training = &file.training;
    let mut all = Vec::new();
    let mut add = |what: &str, flag| all.push(Missing { what: what.to_owned(), flag });
    if file.model == ModelSection::default() {
        add("which model", "--model llama-3.1-8b");
    }
    if training.task.is_none() {
        add("whether every weight is trained or adapters", "--task full-fine-tune");
    }
    let has_amount = training.steps.is_some() || training.samples.is_some() || training.tokens.is_some();
    match (has_amount, &training.epochs) {
        (true, _) => {}
        (false, Some(_)) if file.data.samples.is_some() || file.data.tokens.is_some() => {}
        (false, Some(_)) => {
            let data = data(asked).map_or_else(|| "its data set".to_owned(), |name| format!("`{name}`"));
            all.push(Missing { what: format!("how many rows {data} has"), flag: "--set data.samples=52000" });
        }
        (false, None) => add("how long it trains", "--set training.steps=1000"),
    }
    all
}

/// The data set by the name that the job gives it.
fn data(asked: &JobRequest) -> Option<&str> {
    let named = asked.no_effect.iter().find(|one| {
        let key = one.key.rsplit(": ").next().unwrap_or(&one.key).trim_start_matches("--");
        DATA.contains(&key.replace('-', "_").as_str())
    })?;
    Some(named.value.as_str()).filter(|value| !value.is_empty() && value.len() < 80 && !value.contains('$'))
}

/// What is missing in a sentence, and the command that adds it. `None`: nothing that a flag would add.
pub fn completion(path: &Path, asked: &JobRequest, file: &WorkloadFile) -> Option<(String, String)> {
    let all = all(asked, file);
    let (last, before) = all.split_last()?;
    let what = match before {
        [] => last.what.clone(),
        _ => format!("{} and {}", before.iter().map(|one| one.what.as_str()).collect::<Vec<_>>().join(", "), last.what),
    };
    let flags: Vec<&str> = all.iter().map(|one| one.flag).collect();
    Some((what, format!("gpuplan plan --from {} {}", path.display(), flags.join(" "))))
}
