//! A served plan on Kubernetes: a Deployment with its Service, a LeaderWorkerSet, and KServe's InferenceService.

use serde_json::{Map, Value, json};

use super::flags::{self, Group};
use super::{PORT, Service};
use crate::network::efa_adapters;
use crate::script::quoted;
use crate::target::labels::gpu_resource;
use crate::target::pod::place;
use crate::{ExportError, Target, yaml};
use gpuplan_workload::ServingEngine;

const ENGINES: [ServingEngine; 2] = [ServingEngine::Vllm, ServingEngine::Sglang];

/// `kubectl apply -f FILE`
pub fn deployment(service: &Service) -> Result<String, ExportError> {
    service.fits(Target::Kubernetes, &ENGINES, false)?;
    let name = name(service, Target::Kubernetes)?;
    let labels = json!({ "app": name });
    let mut container = container(service, name.as_str());
    container["command"] = json!(flags::program(service));
    container["args"] = json!(arguments(service));
    container["readinessProbe"] = readiness();
    let objects = [
        service_object(&name, &labels),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "labels": labels },
            "spec": {
                "replicas": service.replicas(),
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": pod(service, container) },
            },
        }),
    ];
    Ok(service.comments(&["kubectl apply -f FILE".to_owned()]) + &yaml::documents(&objects))
}

/// Groups of machines, each one replica (lws.sigs.k8s.io, v1): the variables that it sets tell a pod its place.
pub fn leader_worker_set(service: &Service) -> Result<String, ExportError> {
    service.fits(Target::Leaderworkerset, &ENGINES, true)?;
    let name = name(service, Target::Leaderworkerset)?;
    let group = Group { machines: "\"$LWS_GROUP_SIZE\"", rank: "\"$LWS_WORKER_INDEX\"", first: "$LWS_LEADER_ADDRESS" };
    let words: Vec<String> = flags::program(service).into_iter().chain(arguments(service)).collect();
    let words = words.iter().map(|word| quoted(word).into_owned()).collect::<Vec<_>>().join(" ");
    let line = if service.machines_per_replica() > 1 {
        format!("exec {words} {}", flags::group_flags(service.engine, group))
    } else {
        format!("exec {words}")
    };
    let role = |role: &str, line: String, is_leader: bool| {
        let mut container = container(service, role);
        container["command"] = json!(["bash", "-c", line]);
        if is_leader {
            container["readinessProbe"] = readiness();
        }
        json!({ "metadata": { "labels": { "app": name, "role": role } }, "spec": pod(service, container) })
    };
    let mut template = json!({
        "size": service.machines_per_replica(),
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": role("leader", line.clone(), true),
    });
    let worker = format!("{line}{}", flags::follower_flags(service.engine));
    template["workerTemplate"] = role("worker", worker, false);
    let set = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": { "name": name },
        "spec": { "replicas": service.replicas(), "leaderWorkerTemplate": template },
    });
    let leaders = service_object(&name, &json!({ "app": name, "role": "leader" }));
    let how = ["LeaderWorkerSet 0.5 or later; kubectl apply -f FILE".to_owned()];
    Ok(service.comments(&how) + &yaml::documents(&[leaders, set]))
}

/// A predictor of its own container, without Knative: a GPU is not scaled to zero and back within a request.
pub fn inference_service(service: &Service) -> Result<String, ExportError> {
    service.fits(Target::Kserve, &ENGINES, false)?;
    let name = name(service, Target::Kserve)?;
    let mut container = container(service, "kserve-container");
    container["command"] = json!(flags::program(service));
    container["args"] = json!(arguments(service));
    container["readinessProbe"] = readiness();
    let mut predictor = pod(service, container);
    predictor["minReplicas"] = json!(service.replicas());
    predictor["maxReplicas"] = json!(service.replicas());
    let object = json!({
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
        "metadata": { "name": name, "annotations": { "serving.kserve.io/deploymentMode": "RawDeployment" } },
        "spec": { "predictor": predictor },
    });
    Ok(service.comments(&["KServe 0.13 or later; kubectl apply -f FILE".to_owned()]) + &yaml::document(&object))
}

/// Names of objects and labels.
pub fn name(service: &Service, target: Target) -> Result<String, ExportError> {
    crate::job::dns_name(&service.run, target, crate::target::kubernetes::LONGEST_NAME)
}

/// Flags of the engine, and where it listens.
fn arguments(service: &Service) -> Vec<String> {
    let listens = ["--host", "0.0.0.0", "--port"].map(str::to_owned).into_iter().chain([PORT.to_string()]);
    flags::flags(service).into_iter().chain(listens).collect()
}

/// GPUs of a pod: of a replica, or of a machine where replicas span several.
pub fn gpus_per_pod(service: &Service) -> u32 {
    service.gpus_per_replica().min(service.machines().gpus_per_node)
}

pub fn limits(service: &Service) -> Map<String, Value> {
    let mut limits = Map::new();
    limits.insert(gpu_resource(&service.gpu).to_owned(), json!(gpus_per_pod(service)));
    let spans = service.machines_per_replica() > 1 && service.machines().cloud == "aws";
    let adapters = if spans { efa_adapters(&service.machines().instance_type) } else { 0 };
    if adapters > 0 {
        limits.insert("vpc.amazonaws.com/efa".to_owned(), json!(adapters));
    }
    limits
}

fn container(service: &Service, name: &str) -> Value {
    json!({
        "name": name,
        "image": service.image,
        "env": [{ "name": "HF_TOKEN", "valueFrom": { "secretKeyRef": { "name": "hf-token", "key": "HF_TOKEN", "optional": true } } }],
        "ports": [{ "containerPort": PORT }],
        "resources": { "limits": limits(service) },
        "volumeMounts": [{ "name": "shm", "mountPath": "/dev/shm" }],
    })
}

/// Both engines answer there once their weights are loaded.
fn readiness() -> Value {
    json!({ "httpGet": { "path": "/health", "port": PORT } })
}

fn pod(service: &Service, container: Value) -> Value {
    let mut spec = json!({});
    place(&mut spec, service.machines(), &service.gpu);
    spec["containers"] = json!([container]);
    // Processes of one replica share tensors there.
    spec["volumes"] = json!([{ "name": "shm", "emptyDir": { "medium": "Memory" } }]);
    spec
}

fn service_object(name: &str, selector: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "selector": selector, "ports": [{ "port": PORT, "targetPort": PORT }] },
    })
}
