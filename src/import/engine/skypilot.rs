//! A task of SkyPilot: its `resources`, with `any_of` and `ordered`, and its `run` (SkyPilot docs, "SkyPilot YAML").

use serde_json::{Map, Value};

use crate::error::invalid;
use crate::yaml::text;
use crate::{Choice, Gpus, ImportError, JobKind, JobRequest, Names, Need, chips, command};
use gpuplan_hardware::{CloudId, InstanceType};

/// Known keys of a task that change neither machines nor price.
const WITHOUT_EFFECT: [&str; 10] = [
    "setup",
    "workdir",
    "file_mounts",
    "secrets",
    "config",
    "storage_mounts",
    "volumes",
    "event_callback",
    "inputs",
    "outputs",
];
/// The same of its resources.
const MACHINE_KEYS_WITHOUT_EFFECT: [&str; 12] = [
    "disk_size",
    "disk_tier",
    "network_tier",
    "ports",
    "image_id",
    "labels",
    "job_recovery",
    "spot_recovery",
    "autostop",
    "priority",
    "accelerator_args",
    "any_of",
];

/// Keys of resources of which every task has one. Other programs have a map of this name too.
const MACHINE_KEYS: [&str; 12] = [
    "accelerators",
    "infra",
    "cloud",
    "region",
    "zone",
    "cpus",
    "memory",
    "instance_type",
    "use_spot",
    "any_of",
    "ordered",
    "disk_size",
];

pub fn is_task(document: &Value) -> bool {
    let resources = document.get("resources").filter(|value| !value.is_null());
    let is_own = |map: &Map<String, Value>| map.is_empty() || MACHINE_KEYS.iter().any(|key| map.contains_key(*key));
    match resources.and_then(Value::as_object) {
        Some(map) => is_own(map),
        None => document.get("run").is_some_and(Value::is_string) || document.get("num_nodes").is_some(),
    }
}

pub fn read(documents: &[Value], names: Names) -> Result<JobRequest, ImportError> {
    // The first document of a pipeline has its name and no task.
    let tasks: Vec<&Value> = documents.iter().filter(|document| is_task(document)).collect();
    let [task] = tasks.as_slice() else {
        let name = |task: &&Value| task.get("name").and_then(Value::as_str).unwrap_or("without a name").to_owned();
        return Err(ImportError::Several(tasks.iter().map(name).collect()));
    };
    let mut asked = JobRequest::new(JobKind::Skypilot);
    let empty = Map::new();
    for (key, value) in task.as_object().unwrap_or(&empty) {
        match key.as_str() {
            "name" => {
                asked.name = value.as_str().map(str::to_owned);
                asked.understand(key, text(value));
            }
            "num_nodes" => {
                let nodes = value.as_u64().and_then(|nodes| u32::try_from(nodes).ok()).filter(|nodes| *nodes > 0);
                let nodes = nodes.ok_or_else(|| invalid(key, format!("`{value}` is not a number of machines")))?;
                asked.nodes = Some(nodes..=nodes);
                asked.understand(key, nodes);
            }
            "resources" | "run" | "envs" => {}
            known if WITHOUT_EFFECT.contains(&known) => asked.note_without_effect(key, "..."),
            _ => asked.leave_unread(key, text(value)),
        }
    }
    if asked.nodes.is_none() {
        asked.nodes = Some(1..=1);
    }
    if let Some(resources) = task.get("resources").filter(|value| !value.is_null()) {
        let map = resources.as_object().ok_or_else(|| invalid("resources", "it is not a map"))?;
        read_resources(map, &mut asked, names)?;
    }
    if let Some(run) = task.get("run").and_then(Value::as_str) {
        let variables = variables(task, &asked);
        let files = |name: &str| local(task, name).into_iter().find_map(|path| (names.files)(&path));
        command::read(run, &variables, &mut asked, Names { files: &files, ..names });
    }
    Ok(asked)
}

/// Where a file of the machine lies beside the task: in `workdir`, or in what `file_mounts` copies.
fn local(task: &Value, name: &str) -> Vec<String> {
    let workdir =
        task.get("workdir").and_then(Value::as_str).map(|folder| format!("{}/{name}", folder.trim_end_matches('/')));
    let mounts = task.get("file_mounts").and_then(Value::as_object).into_iter().flatten();
    let mounted = mounts.filter_map(|(mount, source)| {
        let rest = name.strip_prefix(mount.trim_end_matches('/'))?;
        Some(format!("{}{rest}", source.as_str()?.trim_end_matches('/')))
    });
    mounted.chain(workdir).chain([name.to_owned()]).collect()
}

/// The task's own variables, and those that SkyPilot sets (docs, "Environment variables") where they are known.
fn variables(task: &Value, asked: &JobRequest) -> Vec<(String, String)> {
    let own = task.get("envs").and_then(Value::as_object).into_iter().flatten();
    let mut all: Vec<(String, String)> =
        own.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), text(value))).collect();
    let mut set = |name: &str, value: u32| all.push((name.to_owned(), value.to_string()));
    if let Some(nodes) = &asked.nodes {
        set("SKYPILOT_NUM_NODES", *nodes.end());
    }
    let mut counts = asked.choices.iter().map(|choice| choice.gpus);
    if let Some(Some(Gpus::PerMachine(count))) = counts.next()
        && counts.all(|other| other == Some(Gpus::PerMachine(count)))
    {
        set("SKYPILOT_NUM_GPUS_PER_NODE", count);
    }
    all
}

fn read_resources(map: &Map<String, Value>, asked: &mut JobRequest, names: Names) -> Result<(), ImportError> {
    let alternatives = ["any_of", "ordered"].into_iter().find_map(|key| Some((key, map.get(key)?.as_array()?)));
    let Some((key, alternatives)) = alternatives else {
        return candidate(map, true, asked, names);
    };
    let before = asked.choices.len();
    let mut refused = None;
    // The keys next to the list hold for each entry of it.
    let beside: Map<String, Value> =
        map.iter().filter(|(other, _)| *other != key).map(|(key, value)| (key.clone(), value.clone())).collect();
    for alternative in alternatives {
        let inner = alternative.as_object().ok_or_else(|| invalid(key, "it is not a list of maps"))?;
        let mut whole = beside.clone();
        whole.extend(inner.clone());
        // Of several, one that has no price is left out.
        if let Err(error) = candidate(&whole, false, asked, names) {
            asked.leave_unread(key, &error);
            refused = Some(error);
        }
    }
    // Nor is one whose card no catalog has.
    if asked.choices.iter().any(is_known) {
        asked.choices.retain(is_known);
    }
    match refused {
        Some(error) if asked.choices.len() == before => Err(error),
        _ => Ok(()),
    }
}

/// One map of resources: as many choices as it lists accelerators. A cloud without prices is named where it `is_only` one: what it asks for there
/// is priced wherever that is offered.
fn candidate(map: &Map<String, Value>, is_only: bool, asked: &mut JobRequest, names: Names) -> Result<(), ImportError> {
    let mut choice = Choice::default();
    let mut accelerators = Vec::new();
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let word = text(value);
        match key.as_str() {
            "accelerators" => accelerators = self::accelerators(value)?,
            "cpus" => choice.vcpus = Some(need(key, &word)?),
            "memory" => {
                let gib = ["gb", "gib", "gi", "g"]
                    .into_iter()
                    .find_map(|unit| word.to_ascii_lowercase().strip_suffix(unit).map(str::to_owned));
                choice.memory = Some(need(key, gib.as_deref().unwrap_or(&word))?);
            }
            "instance_type" => choice.instance_type = Some(word.clone()),
            "use_spot" => {
                choice.is_spot =
                    value.as_bool().ok_or_else(|| invalid(key, format!("`{word}` is neither true nor false")))?;
            }
            // One's own cluster has no price: what it asks for is priced wherever that is offered.
            "infra" | "cloud" if is_own_cluster(&word) => {
                asked.leave_unread(key, format!("{word} (your own cluster has no price)"));
                continue;
            }
            "infra" | "cloud" => {
                let place =
                    if key == "infra" { infra(&word, &mut choice, names) } else { cloud(key, &word, names).map(Some) };
                match place {
                    Ok(found) => choice.cloud = found.or(choice.cloud),
                    Err(error) if is_only => {
                        asked.leave_unread(key, error);
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            "region" => choice.region = Some(word.clone()),
            "zone" => choice.zone = Some(word.clone()),
            known => {
                let seen = |list: &[crate::KeyValue]| list.iter().any(|one| one.key == known);
                if seen(&asked.no_effect) || seen(&asked.unread) {
                    // Said of an earlier candidate.
                } else if MACHINE_KEYS_WITHOUT_EFFECT.contains(&known) {
                    asked.note_without_effect(known, word);
                } else {
                    asked.leave_unread(known, word);
                }
                continue;
            }
        }
        asked.understand(key, word);
    }
    if accelerators.is_empty() {
        let is_of = |one: &&InstanceType| {
            Some(&one.name) == choice.instance_type.as_ref()
                && choice.cloud.as_ref().is_none_or(|cloud| *cloud == one.cloud)
        };
        let machine = names.hardware.instances().iter().find(is_of);
        choice.gpus = machine.map(|machine| Gpus::PerMachine(machine.node.devices()));
        asked.choices.push(choice);
        return Ok(());
    }
    cards(accelerators, &choice, asked, names);
    Ok(())
}

/// A choice for each accelerator. One that the catalog does not have keeps its name, so that no other is taken for it, and of several those that
/// it has are kept.
fn cards(accelerators: Vec<(String, u32)>, choice: &Choice, asked: &mut JobRequest, names: Names) {
    let mut all = Vec::new();
    for (name, count) in accelerators {
        // SkyPilot's catalog has the smaller cards of these families under the bare name.
        let full = match name.as_str() {
            "A100" => "A100-40GB",
            "V100" => "V100-16GB",
            other => other,
        };
        let chips = chips::named(full, names.hardware);
        if chips.as_ref().is_some_and(|chips| chips.ids.is_empty()) {
            asked.leave_unread("accelerators", format!("{name} (no GPU of the catalog is called so)"));
        }
        all.push(Choice { chips, gpus: Some(Gpus::PerMachine(count)), ..choice.clone() });
    }
    if all.iter().any(is_known) {
        all.retain(is_known);
    }
    asked.choices.extend(all);
}

fn is_known(choice: &Choice) -> bool {
    choice.chips.as_ref().is_none_or(|chips| !chips.ids.is_empty())
}

/// `A100:8`, `{A100: 8, H100: 8}` or a list of the first.
fn accelerators(value: &Value) -> Result<Vec<(String, u32)>, ImportError> {
    let refuse = |what: &str| invalid("accelerators", format!("`{what}` is not a valid accelerator; try H100:8"));
    let one = |word: &str| -> Result<(String, u32), ImportError> {
        let (name, count) = word.split_once(':').unwrap_or((word, "1"));
        let count = count.trim().parse().ok().filter(|count| *count > 0).ok_or_else(|| refuse(word))?;
        Ok((name.trim().to_owned(), count))
    };
    match value {
        Value::String(word) => Ok(vec![one(word)?]),
        Value::Array(words) => {
            some_of(words.iter().map(|word| one(word.as_str().ok_or_else(|| refuse(&word.to_string()))?)).collect())
        }
        Value::Object(map) => {
            let words = map.iter().map(|(name, count)| match count {
                // A set, whose entries YAML reads as keys without a value.
                Value::Null => name.clone(),
                count => format!("{name}:{}", text(count)),
            });
            some_of(words.map(|word| one(&word)).collect())
        }
        other => Err(refuse(&other.to_string())),
    }
}

/// Of several, those that are valid; an error where none is.
fn some_of(all: Vec<Result<(String, u32), ImportError>>) -> Result<Vec<(String, u32)>, ImportError> {
    let (found, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    match refused.into_iter().next() {
        Some(Err(error)) if found.is_empty() => Err(error),
        _ => found.into_iter().collect(),
    }
}

/// `cloud/region/zone`; `*` leaves a part open. Clusters of one's own have no price. The cloud, if it is named.
fn infra(word: &str, choice: &mut Choice, names: Names) -> Result<Option<CloudId>, ImportError> {
    let mut parts = word.split('/').map(|part| Some(part.trim()).filter(|part| !part.is_empty() && *part != "*"));
    let found = parts.next().flatten().map(|name| cloud("infra", name, names)).transpose()?;
    choice.region = parts.next().flatten().map(str::to_owned);
    choice.zone = parts.next().flatten().map(str::to_owned);
    Ok(found)
}

fn is_own_cluster(infra: &str) -> bool {
    let first = infra.split('/').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(first.as_str(), "k8s" | "kubernetes" | "ssh" | "slurm")
}

fn cloud(key: &str, name: &str, names: Names) -> Result<CloudId, ImportError> {
    let lower = name.to_ascii_lowercase();
    let own = match lower.as_str() {
        "do" => "digitalocean",
        other => other,
    };
    let found = names.hardware.clouds().into_iter().find(|cloud| cloud.as_str() == own);
    found.ok_or_else(|| invalid(key, format!("there are no prices of `{name}`")))
}

/// `8` or `8+`.
fn need(key: &str, word: &str) -> Result<Need, ImportError> {
    let (digits, is_least) = word.trim().strip_suffix('+').map_or((word.trim(), false), |digits| (digits, true));
    let amount = digits.parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount > 0.0);
    let amount = amount.ok_or_else(|| invalid(key, format!("`{word}` is not a valid amount; try 8 or 8+")))?;
    Ok(if is_least { Need::AtLeast(amount) } else { Need::Exactly(amount) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    fn asked(text: &str) -> Result<JobRequest, ImportError> {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        read(&yaml::documents(text).unwrap(), Names::new(&hardware, &models))
    }

    #[test]
    fn resources_become_choices() {
        let task = "num_nodes: 2\nresources:\n  accelerators: {A100: 8, H100: 8}\n  cpus: 64+\n  memory: 512GB+\n  any_of:\n    - infra: aws/us-east-1\n      use_spot: true\n    - infra: gcp\n";
        // The suffix stands before the plus in some files.
        assert!(asked(task).is_err());
        let asked = asked(&task.replace("512GB+", "512+")).unwrap();
        assert_eq!((asked.nodes, asked.choices.len()), (Some(2..=2), 4));
        let places: Vec<(bool, Option<&str>)> =
            asked.choices.iter().map(|choice| (choice.is_spot, choice.region.as_deref())).collect();
        assert_eq!(places, [(true, Some("us-east-1")), (true, Some("us-east-1")), (false, None), (false, None)]);
        assert_eq!(asked.choices[0].vcpus, Some(Need::AtLeast(64.0)));
        assert_eq!(asked.choices[0].chips.as_ref().unwrap().word, "A100-40GB");
    }

    #[test]
    fn sets_and_places_without_a_price_are_read() {
        let count = |resources: &str| asked(&format!("resources:\n  {resources}\n")).unwrap().choices.len();
        assert_eq!(count("accelerators: {L4:1, A100:1}"), 2);
        assert_eq!(count("accelerators: {A100-80GB:8, A100-80GB:4, tpu-v6e:8}"), 2);
        assert_eq!(count("accelerators: [H100:8, 'A100:8']"), 2);
        assert_eq!(count("accelerators: H100:8\n  any_of: [{cloud: gcp}, {cloud: paperspace}, {infra: k8s}]"), 2);
        let own = asked("resources:\n  accelerators: H100:8\n  infra: k8s/mine\n").unwrap();
        assert_eq!((own.unread[0].key.as_str(), own.choices[0].cloud.clone()), ("infra", None));
    }

    /// A card or a cloud that the catalog does not have is named, and the machines are asked for all the same.
    #[test]
    fn what_the_catalog_lacks_keeps_its_name() {
        let one = |resources: &str| {
            let asked = asked(&format!("resources:\n  {resources}\n")).unwrap();
            let choice = asked.choices.first().cloned().unwrap_or_default();
            (choice.gpus, choice.chips.map(|chips| (chips.word, chips.ids.len())), asked.unread.len())
        };
        let of = |count, word: &str, ids| (Some(Gpus::PerMachine(count)), Some((word.to_owned(), ids)), 1);
        assert_eq!(one("accelerators: K80:4"), of(4, "K80", 0));
        assert_eq!(one("accelerators: tpu-v6e:8"), of(8, "tpu-v6e", 0));
        assert_eq!(one("accelerators: T4:1\n  cloud: paperspace"), of(1, "T4", 1));
        assert_eq!(one("instance_type: p4d.24xlarge"), (Some(Gpus::PerMachine(8)), None, 0));
        let several = asked("resources:\n  accelerators: {K80: 1, T4: 1}\n").unwrap();
        assert_eq!((several.choices.len(), several.choices[0].chips.as_ref().unwrap().word.as_str()), (1, "T4"));
    }

    /// Variables of the task and of SkyPilot reach the command, and a file lies where the task copies it from.
    #[test]
    fn the_command_is_read_with_its_environment_and_files() {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let files = |name: &str| {
            (name == "./configs/8B.yaml")
                .then(|| "base_model: NousResearch/Llama-3.2-1B\nmicro_batch_size: 2\n".to_owned())
        };
        let names = Names { files: &files, ..Names::new(&hardware, &models) };
        let task = "envs: {SIZE: 8B}\nnum_nodes: 2\nresources: {accelerators: 'H100:4'}\nfile_mounts: {/configs: ./configs}\n\
            run: axolotl train /configs/${SIZE}.yaml --max_steps $((SKYPILOT_NUM_NODES * SKYPILOT_NUM_GPUS_PER_NODE))\n";
        let read = read(&yaml::documents(task).unwrap(), names).unwrap();
        assert_eq!(read.workload.model.preset.as_deref(), Some("llama-3.2-1b"));
        assert_eq!(
            (read.workload.training.micro_batch, read.workload.training.steps),
            (Some("2".into()), Some("8".into()))
        );
    }

    #[test]
    fn what_is_not_understood_is_named_or_refused() {
        let task =
            asked("resources:\n  accelerators: L4\n  max_hourly_cost: 3\n  disk_size: 100\nservice: {}\nsetup: x\n")
                .unwrap();
        let keys = |list: &[crate::KeyValue]| list.iter().map(|one| one.key.clone()).collect::<Vec<_>>();
        assert_eq!(
            (keys(&task.unread), keys(&task.no_effect)),
            (
                vec!["service".to_owned(), "max_hourly_cost".to_owned()],
                vec!["setup".to_owned(), "disk_size".to_owned()]
            )
        );
        assert_eq!(asked("resources:\n  memory: 64GB\n").unwrap().choices[0].memory, Some(Need::Exactly(64.0)));
        for bad in ["memory: 1TB", "accelerators: H100:half", "cpus: many", "use_spot: perhaps"] {
            assert!(matches!(asked(&format!("resources:\n  {bad}\n")), Err(ImportError::Invalid { .. })), "{bad}");
        }
        assert!(
            matches!(asked("name: p\n---\nrun: a\n---\nrun: b\n"), Err(ImportError::Several(names)) if names.len() == 2)
        );
    }
}
