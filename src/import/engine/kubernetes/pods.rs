//! The pods of an object, whatever its kind, and how many there are.

use serde_json::{Value, json};

use super::values::{GPU_RESOURCES, count, deadline, word};
use crate::error::invalid;
use crate::{ImportError, JobRequest};
use gpuplan_workload::assumption::JobAssumption;

/// Kinds whose pods are read. Kinds of the training operators have one list of replicas each.
const KINDS: [&str; 24] = [
    "Pod",
    "Job",
    "CronJob",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "JobSet",
    "RayCluster",
    "RayJob",
    "RayService",
    "LeaderWorkerSet",
    "MPIJob",
    "PyTorchJob",
    "TFJob",
    "TfJob",
    "JAXJob",
    "PaddleJob",
    "XGBoostJob",
    "MXJob",
    "TrainJob",
    "ClusterTrainingRuntime",
    "TrainingRuntime",
    "AppWrapper",
    "InferenceService",
];

/// Objects of another kind are read where their pods stand as those of the kinds above.
pub fn is_read(object: &Value) -> bool {
    let spec = object.get("spec").unwrap_or(EMPTY);
    KINDS.contains(&word(object, "kind")) || role_specs(spec).is_some() || has_template(spec) || has_tasks(spec)
}

/// Objects of kinds that are not known, of which one container alone asks for GPUs: as an object that is read, with the replicas that stand beside
/// it or right above. `None`: none does, or several.
pub fn with_one_container(objects: &[&Value]) -> Option<Value> {
    let mut found = Vec::new();
    for object in objects {
        containers(object, &Value::Null, &mut found, DEEPEST);
    }
    let [(container, replicas)] = found.as_slice() else { return None };
    let pod = json!({ "containers": [container], "nodeSelector": container.get("nodeSelector") });
    let metadata = objects.first().and_then(|object| object.get("metadata"));
    let spec = json!({ "replicas": replicas, "template": { "spec": pod } });
    Some(json!({ "apiVersion": "v1", "kind": "Deployment", "metadata": metadata, "spec": spec }))
}

/// vLLM's production stack has the model, the flags of its server and the GPUs in fields of their own (vllm-project/production-stack,
/// operator/api/v1alpha1, `VLLMRuntime`): as the Deployment that its operator makes of it. `None`: there is none, or several.
pub fn of_production_stack(objects: &[&Value]) -> Option<Value> {
    let mut all = objects.iter().filter(|object| word(object, "kind") == "VLLMRuntime");
    let (Some(object), None) = (all.next(), all.next()) else { return None };
    let spec = object.get("spec")?;
    let text = |pointer: &str| spec.pointer(pointer).map(crate::yaml::text);
    let mut command = vec!["vllm".to_owned(), "serve".to_owned(), text("/model/modelURL")?];
    for (key, flag) in [
        ("/model/dtype", "--dtype"),
        ("/model/maxModelLen", "--max-model-len"),
        ("/vllmConfig/tensorParallelSize", "--tensor-parallel-size"),
        ("/vllmConfig/gpuMemoryUtilization", "--gpu-memory-utilization"),
    ] {
        command.extend(text(key).into_iter().flat_map(|value| [flag.to_owned(), value]));
    }
    command.extend(list(spec, "/vllmConfig/extraArgs").iter().map(crate::yaml::text));
    let resources = at(spec, "/deploymentConfig/resources");
    let limits = json!({
        "nvidia.com/gpu": resources.get("gpu")?, "cpu": resources.get("cpu"), "memory": resources.get("memory"),
    });
    let limits: Value = limits.as_object()?.clone().into_iter().filter(|(_, value)| !value.is_null()).collect();
    let pod = json!({ "containers": [{ "command": command, "resources": { "limits": limits } }] });
    let spec = json!({ "replicas": spec.pointer("/deploymentConfig/replicas"), "template": { "spec": pod } });
    Some(json!({ "apiVersion": "v1", "kind": "Deployment", "metadata": object.get("metadata"), "spec": spec }))
}

/// Whether a container of it asks for GPUs.
pub fn asks_for_gpus(object: &Value) -> bool {
    let mut found = Vec::new();
    containers(object, &Value::Null, &mut found, DEEPEST);
    !found.is_empty()
}

/// Deeper objects are no manifest that a person wrote.
const DEEPEST: usize = 12;

fn containers<'a>(value: &'a Value, replicas: &'a Value, found: &mut Vec<(&'a Value, &'a Value)>, depth: usize) {
    let asks = |part: &str| {
        let resources = value.pointer(part).and_then(Value::as_object);
        resources.is_some_and(|all| all.keys().any(|key| GPU_RESOURCES.contains(&key.as_str())))
    };
    if depth == 0 {
        return;
    }
    let replicas = value.get("replicas").filter(|count| count.is_number() || count.is_string()).unwrap_or(replicas);
    if asks("/resources/limits") || asks("/resources/requests") {
        return found.push((value, replicas));
    }
    match value {
        Value::Object(map) => map.values().for_each(|inner| containers(inner, replicas, found, depth - 1)),
        Value::Array(list) => list.iter().for_each(|inner| containers(inner, replicas, found, depth - 1)),
        _ => {}
    }
}

fn has_template(spec: &Value) -> bool {
    spec.pointer("/template/spec/containers").is_some()
}

/// Tasks with replicas of a pod each, as Volcano's Job has them.
fn has_tasks(spec: &Value) -> bool {
    list(spec, "/tasks").iter().any(has_template)
}

/// Pods of one kind.
pub struct Pods<'a> {
    pub count: u32,
    pub spec: &'a Value,
}

const EMPTY: &Value = &Value::Null;

pub fn pods<'a>(object: &'a Value, asked: &mut JobRequest) -> Result<Vec<Pods<'a>>, ImportError> {
    let spec = object.get("spec").unwrap_or(EMPTY);
    match word(object, "kind") {
        // Volcano's Job has the name of Kubernetes' own.
        kind if spec.get("tasks").is_some() && (kind == "Job" || !KINDS.contains(&kind)) => {
            replicas(list(spec, "/tasks"), "replicas", 1, asked)
        }
        "Job" => Ok(vec![job(spec, 1, asked)?]),
        "CronJob" => Ok(vec![job(at(spec, "/jobTemplate/spec"), 1, asked)?]),
        "JobSet" => job_set(spec, asked),
        "ClusterTrainingRuntime" | "TrainingRuntime" => job_set(at(spec, "/template/spec"), asked),
        "Deployment" | "ReplicaSet" | "StatefulSet" => {
            Ok(vec![Pods { count: count(spec, "replicas", asked)?, spec: at(spec, "/template/spec") }])
        }
        "RayCluster" => ray(spec, asked),
        "RayJob" => {
            asked.hours = deadline(spec)?.or(asked.hours);
            ray(at(spec, "/rayClusterSpec"), asked)
        }
        "RayService" => {
            let inner = if spec.get("rayClusterConfig").is_some() { "/rayClusterConfig" } else { "/rayClusterSpec" };
            ray(at(spec, inner), asked)
        }
        "LeaderWorkerSet" => leaders_and_workers(spec, asked),
        // CodeFlare's wrapper of whole objects.
        "AppWrapper" => {
            let wrapped = list(spec, "/components").iter().map(|one| at(one, "/template"));
            let mut all = Vec::new();
            for object in wrapped.filter(|object| is_read(object) && word(object, "kind") != "AppWrapper") {
                all.extend(pods(object, asked)?);
            }
            Ok(all)
        }
        "InferenceService" => {
            let predictor = at(spec, "/predictor");
            Ok(vec![Pods { count: count(predictor, "minReplicas", asked)?, spec: predictor }])
        }
        "TrainJob" => train_job(spec, asked),
        "Pod" => {
            asked.hours = deadline(spec)?;
            Ok(vec![Pods { count: 1, spec }])
        }
        kind if !KINDS.contains(&kind) && has_template(spec) => {
            Ok(vec![Pods { count: count(spec, "replicas", asked)?, spec: at(spec, "/template/spec") }])
        }
        _ => roles(spec, asked),
    }
}

fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(EMPTY)
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn times(each: u32, times: u32) -> Result<u32, ImportError> {
    times.checked_mul(each).ok_or_else(|| invalid("replicas", format!("{times} x {each} pods")))
}

fn replicas<'a>(
    all: &'a [Value],
    key: &str,
    groups: u32,
    asked: &mut JobRequest,
) -> Result<Vec<Pods<'a>>, ImportError> {
    all.iter()
        .map(|one| Ok(Pods { count: times(count(one, key, asked)?, groups)?, spec: at(one, "/template/spec") }))
        .collect()
}

fn job<'a>(spec: &'a Value, sets: u32, asked: &mut JobRequest) -> Result<Pods<'a>, ImportError> {
    let at_once = count(spec, "parallelism", asked)?;
    let completions = count(spec, "completions", asked)?;
    if completions > at_once {
        asked.assumed.push(JobAssumption::PodsAtATime { parallelism: at_once, completions });
    }
    asked.hours = deadline(spec)?.or(asked.hours);
    Ok(Pods { count: times(at_once, sets)?, spec: at(spec, "/template/spec") })
}

fn job_set<'a>(spec: &'a Value, asked: &mut JobRequest) -> Result<Vec<Pods<'a>>, ImportError> {
    let jobs = list(spec, "/replicatedJobs").iter();
    jobs.map(|one| {
        let sets = count(one, "replicas", asked)?;
        job(at(one, "/template/spec"), sets, asked)
    })
    .collect()
}

/// A head, and groups of workers.
fn ray<'a>(spec: &'a Value, asked: &mut JobRequest) -> Result<Vec<Pods<'a>>, ImportError> {
    let mut all = vec![Pods { count: 1, spec: at(spec, "/headGroupSpec/template/spec") }];
    for group in list(spec, "/workerGroupSpecs") {
        let hosts = count(group, "numOfHosts", asked)?;
        all.extend(replicas(std::slice::from_ref(group), "replicas", hosts, asked)?);
    }
    Ok(all)
}

/// Groups of a leader and workers, which is one of them where it has no template of its own.
fn leaders_and_workers<'a>(spec: &'a Value, asked: &mut JobRequest) -> Result<Vec<Pods<'a>>, ImportError> {
    let groups = count(spec, "replicas", asked)?;
    let template = at(spec, "/leaderWorkerTemplate");
    let size = count(template, "size", asked)?;
    let workers = at(template, "/workerTemplate/spec");
    let leader = template.pointer("/leaderTemplate/spec").unwrap_or(workers);
    let mut all = vec![Pods { count: groups, spec: leader }];
    if size > 1 {
        all.push(Pods { count: times(size - 1, groups)?, spec: workers });
    }
    Ok(all)
}

fn role_specs(spec: &Value) -> Option<&Value> {
    let is_roles = |key: &str| key.ends_with("ReplicaSpecs") || key == "replicaSpecs" || key == "replica_specs";
    spec.as_object()?.iter().find(|(key, _)| is_roles(key)).map(|(_, found)| found)
}

/// Replicas by their role: `pytorchReplicaSpecs`, `mpiReplicaSpecs`, `tfReplicaSpecs`; a list in the first version of TFJob.
fn roles<'a>(spec: &'a Value, asked: &mut JobRequest) -> Result<Vec<Pods<'a>>, ImportError> {
    asked.hours = spec.get("runPolicy").map(deadline).transpose()?.flatten();
    let Some(found) = role_specs(spec) else { return all_alike(spec, asked) };
    if let Some(list) = found.as_array() {
        return replicas(list, "replicas", 1, asked);
    }
    let mut all = Vec::new();
    for one in found.as_object().into_iter().flat_map(|roles| roles.values()) {
        all.extend(replicas(std::slice::from_ref(one), "replicas", 1, asked)?);
    }
    Ok(all)
}

/// The first version of MPIJob (mpi-operator, v1alpha1): one template, `replicas` of it or as many as have `gpus` together.
fn all_alike<'a>(spec: &'a Value, asked: &mut JobRequest) -> Result<Vec<Pods<'a>>, ImportError> {
    if !has_template(spec) {
        return Ok(Vec::new());
    }
    let pod = at(spec, "/template/spec");
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok()).filter(|number| *number > 0);
    let limits = list(pod, "/containers").iter().filter_map(|one| one.pointer("/resources/limits")?.as_object());
    let each: u64 = limits
        .flatten()
        .filter(|(key, _)| GPU_RESOURCES.contains(&key.as_str()))
        .filter_map(|(_, value)| number(value))
        .sum();
    let together = spec.get("gpus").and_then(number).filter(|all| each > 0 && all.is_multiple_of(each));
    let count = match together.and_then(|all| u32::try_from(all / each).ok()) {
        Some(count) => count,
        None => count(spec, "replicas", asked)?,
    };
    Ok(vec![Pods { count, spec: pod }])
}

/// Kubeflow's TrainJob says machines and resources itself; its runtime has the rest.
fn train_job<'a>(spec: &'a Value, asked: &mut JobRequest) -> Result<Vec<Pods<'a>>, ImportError> {
    let trainer = at(spec, "/trainer");
    asked.launch.machines = Some(count(trainer, "numNodes", asked)?);
    Ok(vec![Pods { count: count(trainer, "numNodes", asked)?, spec: trainer }])
}
