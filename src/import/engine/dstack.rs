//! A run configuration of dstack: `nodes`, `resources` and `commands` (dstack docs, ".dstack.yml").

use serde_json::{Map, Value};

use crate::error::invalid;
use crate::yaml::text;
use crate::{Choice, GpuModels, Gpus, ImportError, JobKind, JobRequest, Names, chips, command};
use gpuplan_units::Hours;

const KINDS: [&str; 3] = ["task", "service", "dev-environment"];
/// Known keys that change neither machines nor price.
const WITHOUT_EFFECT: [&str; 16] = [
    "type",
    "image",
    "python",
    "ide",
    "volumes",
    "ports",
    "port",
    "model",
    "files",
    "repos",
    "working_dir",
    "init",
    "privileged",
    "docker",
    "retry",
    "gateway",
];

pub fn is_run(document: &Value) -> bool {
    document.get("type").and_then(Value::as_str).is_some_and(|kind| KINDS.contains(&kind))
        && ["resources", "commands", "image", "ide"].iter().any(|key| document.get(key).is_some())
}

pub fn read(document: &Value, names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Dstack);
    let mut choice = Choice::default();
    let empty = Map::new();
    let mut nodes = 1;
    for (key, value) in document.as_object().unwrap_or(&empty) {
        match key.as_str() {
            "name" => asked.name = Some(text(value)),
            "nodes" => {
                let count = value.as_u64().and_then(|nodes| u32::try_from(nodes).ok()).filter(|nodes| *nodes > 0);
                nodes = count.ok_or_else(|| invalid(key, format!("`{value}` is not a number of machines")))?;
                asked.understand(key, nodes);
            }
            "spot_policy" => {
                choice.is_spot = value.as_str() == Some("spot");
                asked.understand(key, text(value));
            }
            "max_duration" => {
                asked.hours = duration(&text(value));
                asked.understand(key, text(value));
            }
            "resources" | "commands" | "env" => {}
            // Before resources had a section.
            "gpu" => gpu(value, &mut choice, &mut asked, names),
            known if WITHOUT_EFFECT.contains(&known) => asked.note_without_effect(key, "..."),
            _ => asked.leave_unread(key, text(value)),
        }
    }
    asked.nodes = Some(nodes..=nodes);
    for (key, value) in document.get("resources").and_then(Value::as_object).unwrap_or(&empty) {
        match key.as_str() {
            "gpu" => gpu(value, &mut choice, &mut asked, names),
            "shm_size" | "disk" => asked.note_without_effect(key, text(value)),
            _ => asked.leave_unread(key, text(value)),
        }
    }
    let gpus = choice.gpus;
    if gpus.is_some() {
        asked.choices.push(choice);
    }
    let commands = document.get("commands").and_then(Value::as_array).into_iter().flatten();
    let script: Vec<String> = commands.map(text).collect();
    command::read(&script.join("\n"), &variables(document, nodes, gpus), &mut asked, names);
    asked.take_machines_of_launcher();
    Ok(asked)
}

/// `H100:8`, `80GB:2..4`, `A100:40GB:4`, or a map of `name`, `memory` and `count`.
fn gpu(value: &Value, choice: &mut Choice, asked: &mut JobRequest, names: Names) {
    let parts: Vec<String> = match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| !["name", "memory", "count"].contains(&key.as_str())) {
                asked.leave_unread(&format!("gpu.{key}"), text(value));
            }
            ["name", "memory", "count"].iter().filter_map(|key| map.get(*key)).map(listed).collect()
        }
        other => text(other).split(':').map(str::to_owned).collect(),
    };
    let mut count = 1;
    for part in parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()) {
        // Of a range the least is taken.
        let least = part.split("..").next().unwrap_or(part);
        if let Ok(number) = least.parse::<u32>() {
            count = number;
        } else if let Some(gb) = memory(least) {
            choice.chips = Some(with_memory(part, gb, part.contains(".."), choice.chips.take(), names));
        } else if !["nvidia", "amd"].contains(&part.to_ascii_lowercase().as_str()) {
            let found = part.split(',').find_map(|name| chips::find(name.trim(), names.hardware));
            // One that the catalog does not have keeps its name, so that no other is taken for it.
            if found.is_none() {
                asked.leave_unread("gpu", format!("{part} (no GPU of the catalog is called so)"));
            }
            choice.chips = found.or_else(|| chips::named(part, names.hardware));
        }
    }
    if count > 0 {
        choice.gpus = Some(Gpus::PerMachine(count));
    }
    asked.understand("gpu", parts.join(":"));
}

fn memory(word: &str) -> Option<f64> {
    let digits = word.to_ascii_lowercase();
    digits.strip_suffix("gb")?.trim().parse().ok()
}

/// Cards by their memory alone, or of those that are named.
fn with_memory(word: &str, gb: f64, is_least: bool, cards: Option<GpuModels>, names: Names) -> GpuModels {
    let all = names.hardware.gpus().iter().filter(|gpu| {
        let label = gpu.memory_label_gb;
        (label - gb).abs() < 0.5 || (is_least && label > gb)
    });
    let ids: Vec<_> = all.filter_map(|gpu| names.hardware.find_gpu(&gpu.id)).collect();
    match cards {
        Some(cards) => {
            let ids = cards.ids.into_iter().filter(|id| ids.contains(id)).collect();
            GpuModels { word: format!("{}:{word}", cards.word), ids }
        }
        None => GpuModels { word: word.to_owned(), ids },
    }
}

/// What dstack sets (docs, "System environment variables"), and the run's own variables.
fn variables(document: &Value, nodes: u32, gpus: Option<Gpus>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = match document.get("env") {
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(|one| one.as_str()?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        Some(Value::Object(map)) => map.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        _ => Vec::new(),
    };
    let mut set = |name: &str, value: u32| all.push((name.to_owned(), value.to_string()));
    set("DSTACK_NODES_NUM", nodes);
    if let Some(Gpus::PerMachine(each)) = gpus {
        set("DSTACK_GPUS_PER_NODE", each);
        if let Some(together) = each.checked_mul(nodes) {
            set("DSTACK_GPUS_NUM", together);
        }
    }
    all
}

/// `12h`, `2d`. `None`: no limit, or none that is known.
fn duration(word: &str) -> Option<Hours> {
    let (digits, scale) = [("h", 1.0), ("d", 24.0), ("w", 168.0), ("m", 1.0 / 60.0)]
        .into_iter()
        .find_map(|(unit, hours)| Some((word.strip_suffix(unit)?, hours)))?;
    digits.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0).map(|number| Hours(number * scale))
}

/// A list as dstack writes it in one word.
fn listed(value: &Value) -> String {
    let list = value.as_array().map(|list| list.iter().map(text).collect::<Vec<_>>().join(","));
    list.unwrap_or_else(|| text(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    fn asked(text: &str) -> Result<JobRequest, ImportError> {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        crate::read(text, Names::new(&hardware, &models))
    }

    #[test]
    fn cards_are_named_by_their_memory_too() {
        let one = |gpu: &str| {
            let mut read =
                asked(&format!("type: task\nnodes: 2\ncommands: [python a.py]\nresources: {{gpu: {gpu}}}\n")).unwrap();
            let choice = read.choices.remove(0);
            (choice.gpus, choice.chips.map_or(0, |chips| chips.ids.len()) > 0, read.nodes)
        };
        for gpu in ["'80GB:8'", "H100:8", "'A100:80GB:8'", "{name: [H100, H200], memory: 80GB.., count: 8}"] {
            assert_eq!(one(gpu), (Some(Gpus::PerMachine(8)), true, Some(2..=2)), "{gpu}");
        }
        assert_eq!(one("'24GB:2..'").0, Some(Gpus::PerMachine(2)));
        let old = asked("type: task\ngpu: 2\ncommands: [python a.py]\n").unwrap();
        assert_eq!(old.choices[0].gpus, Some(Gpus::PerMachine(2)));
        let unknown = asked("type: task\ncommands: [a]\nresources: {gpu: 'WARP9:2'}\n").unwrap();
        assert_eq!(unknown.named(None, None), Err(ImportError::UnknownGpu { count: 2, name: "WARP9".to_owned() }));
        assert!(yaml::documents("type: task").unwrap().iter().all(|one| !is_run(one)));
    }

    #[test]
    fn commands_are_read_with_the_variables_of_the_run() {
        let read = asked(
            "type: task\nmax_duration: 12h\nspot_policy: spot\nenv: [HF_TOKEN, MODEL=meta-llama/Llama-3.1-8B]\nresources: {gpu: 'H100:8'}\n\
             commands:\n  - cd trl\n  - accelerate launch --num_processes=$DSTACK_GPUS_NUM trl/scripts/sft.py --model_name $MODEL --per_device_train_batch_size 1 --num_train_epochs 2\n",
        )
        .unwrap();
        assert_eq!(read.workload.model.preset.as_deref(), Some("llama-3.1-8b"));
        assert_eq!((read.hours, read.choices[0].is_spot, read.launch.gpus), (Some(Hours(12.0)), true, Some(8)));
    }
}
