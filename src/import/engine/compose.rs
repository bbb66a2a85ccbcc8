//! Docker Compose: services with GPUs, and the program that one starts (Compose file reference, "deploy" and "services").

use serde_json::{Map, Value};

use crate::shell::Script;
use crate::yaml::text;
use crate::{Choice, Gpus, ImportError, JobKind, JobRequest, Names, command};
use gpuplan_workload::assumption::JobAssumption;

pub fn is_project(document: &Value) -> bool {
    let services = document.get("services").and_then(Value::as_object);
    let is_one =
        |service: &Value| service.get("image").or(service.get("build")).is_some() || !devices(service).is_empty();
    services.is_some_and(|all| all.values().any(is_one))
}

pub fn read(document: &Value, names: Names) -> Result<JobRequest, ImportError> {
    let empty = Map::new();
    let services = document.get("services").and_then(Value::as_object).unwrap_or(&empty);
    let is_work = |service: &Value| has_gpus(service) && !watches(service);
    let with_gpus: Vec<(&String, &Value)> = services.iter().filter(|(_, service)| is_work(service)).collect();
    // What has a profile is started only when somebody asks for it ("Using profiles with Compose").
    let (always, on_request): (Vec<_>, Vec<_>) =
        with_gpus.into_iter().partition(|(_, service)| service.get("profiles").is_none());
    let with_gpus = if always.is_empty() { on_request } else { always };
    let (name, service) = match with_gpus.as_slice() {
        [one] => *one,
        [] => return Err(ImportError::NoGpu),
        several => return Err(ImportError::Several(several.iter().map(|(name, _)| (*name).clone()).collect())),
    };
    let mut asked = JobRequest::new(JobKind::Compose);
    asked.name = Some(name.clone());
    let mut choice = Choice::default();
    // Compose fills in variables of whoever starts it, those of the environment too.
    let mut outside = Script::new(names.files);
    for device in devices(service) {
        let ids = device.get("device_ids").and_then(Value::as_array);
        // Some write all of them into one text.
        let listed: usize = ids.into_iter().flatten().map(|id| text(id).split(',').count()).sum();
        let stated = device.get("count").and_then(|count| outside.expanded(&text(count)).parse::<u64>().ok());
        let count = stated.or((listed > 0).then_some(listed as u64));
        // `all` is as many as the machine has: the program may say on how many it runs.
        if let Some(count) = count.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0) {
            choice.gpus = Some(Gpus::PerMachine(count));
            asked.understand("devices", count);
        }
    }
    let own = service.get("devices").and_then(Value::as_array).into_iter().flatten();
    let cards: Vec<&str> = own.filter_map(|device| card(device.as_str()?)).collect();
    if let (Ok(count @ 1..), false) = (u32::try_from(cards.len()), cards.contains(&"all")) {
        choice.gpus = Some(Gpus::PerMachine(count));
        asked.understand("devices", count);
    }
    if choice.gpus.is_some() {
        asked.choices.push(choice);
    }
    let own: Vec<(String, String)> =
        variables(service).into_iter().map(|(name, value)| (name, outside.expanded(&value))).collect();
    command::read(&line(service), &own, &mut asked, names);
    asked.take_machines_of_launcher();
    asked.nodes = Some(1..=1);
    asked.assumed.push(JobAssumption::OneMachine);
    Ok(asked)
}

fn devices(service: &Value) -> &[Value] {
    let all = service.pointer("/deploy/resources/reservations/devices").and_then(Value::as_array);
    all.map(Vec::as_slice).unwrap_or_default()
}

/// A card by the name of the Container Device Interface: `0` of `nvidia.com/gpu=0`.
fn card(device: &str) -> Option<&str> {
    ["nvidia.com/gpu=", "amd.com/gpu="].iter().find_map(|class| device.strip_prefix(class))
}

fn has_gpus(service: &Value) -> bool {
    let runtime = service.get("runtime").and_then(Value::as_str);
    // A count of none takes a card away from a service that shares its file with others.
    let is_some = |device: &Value| device.get("count").is_none_or(|count| text(count) != "0");
    // AMD's cards are handed over as files: `/dev/kfd` is all of them.
    let files = service.get("devices").and_then(Value::as_array);
    let is_card = |file: &Value| file.as_str().is_some_and(|path| path.starts_with("/dev/kfd") || card(path).is_some());
    devices(service).iter().any(is_some)
        || runtime == Some("nvidia")
        || service.get("gpus").is_some()
        || files.is_some_and(|all| all.iter().any(is_card))
}

/// Whether a service only measures the cards that others use: NVIDIA's and others' exporters for Prometheus.
fn watches(service: &Value) -> bool {
    let image = service.get("image").and_then(Value::as_str).unwrap_or_default();
    ["dcgm-exporter", "nvidia_gpu_exporter", "nvidia-gpu-exporter"].iter().any(|name| image.contains(name))
}

/// Image, entry point and command as a line of a shell, since Compose substitutes variables as a shell does.
fn line(service: &Value) -> String {
    let parts = ["image", "entrypoint", "command"].into_iter().filter_map(|key| match service.get(key)? {
        Value::Array(words) => Some(words.iter().map(|word| command::quote(&text(word))).collect::<Vec<_>>().join(" ")),
        Value::Null => None,
        // A folded text may have line ends left.
        other => Some(text(other).replace('\n', " ")),
    });
    parts.collect::<Vec<_>>().join(" ")
}

fn variables(service: &Value) -> Vec<(String, String)> {
    match service.get("environment") {
        Some(Value::Object(map)) => {
            map.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), text(value))).collect()
        }
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(|one| one.as_str()?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        _ => Vec::new(),
    }
}
