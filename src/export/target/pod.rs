//! The pod that Job, JobSet and Kueue's Job run on each machine, and the rules by which its end is judged.

use serde_json::{Map, Value, json};

use crate::ExportError;
use crate::job::{Job, MARGIN};
use crate::network::efa_adapters;
use crate::script::{PORT, Position, script};
use crate::swept::INDEX;
use crate::target::labels::{NodeRequirements, gpu_resource, node_requirements, node_selector};
use gpuplan_hardware::Gpu;
use gpuplan_plan::document::MachinesRecord;

pub const CONTAINER: &str = "train";
/// The agent's exit codes (docs/agent.md).
pub const INTERRUPTED: u8 = 75;
pub const CAPPED: u8 = 77;
/// Pods that may fail by themselves. When one does, the agents of the others end as interrupted and are not counted.
const TRIES: u32 = 3;

/// Spec of an Indexed Job. `first` is the address of pod 0, `rules` judge a pod's end.
pub fn job_spec(
    job: &Job,
    first: &str,
    subdomain: Option<&str>,
    rules: Value,
    tries: bool,
) -> Result<Value, ExportError> {
    let machines = job.machines();
    let nodes_word = machines.nodes.to_string();
    let position = Position { node: "\"$JOB_COMPLETION_INDEX\"", nodes: &nodes_word, first };
    let body = script(job, position)?;
    if let Some(sweep) = &job.sweep {
        // Each run is tried by itself, and what becomes of one says nothing of the others (Kubernetes 1.33 and later).
        return Ok(json!({
            "completionMode": "Indexed",
            "completions": sweep.runs,
            "parallelism": sweep.at_a_time,
            "backoffLimitPerIndex": TRIES,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": { "rules": [on_exit_codes("FailIndex", &[CAPPED]), on_exit_codes("Ignore", &[INTERRUPTED]), on_disruption("Ignore")] },
            "template": { "spec": pod_spec(job, &format!("{INDEX}=\"$JOB_COMPLETION_INDEX\"\n{body}"), None) },
        }));
    }
    Ok(json!({
        "completionMode": "Indexed",
        "completions": machines.nodes,
        "parallelism": machines.nodes,
        "backoffLimit": if tries { TRIES } else { 0 },
        // Two pods with one number at the same time would be two owners.
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": { "rules": rules },
        "template": { "spec": pod_spec(job, &body, subdomain) },
    }))
}

/// A pod whose exit code is one of these.
pub fn on_exit_codes(action: &str, codes: &[u8]) -> Value {
    json!({ "action": action, "onExitCodes": { "containerName": CONTAINER, "operator": "In", "values": codes } })
}

/// A pod that was preempted, evicted, or lost its node.
pub fn on_disruption(action: &str) -> Value {
    json!({ "action": action, "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] })
}

fn pod_spec(job: &Job, script: &str, subdomain: Option<&str>) -> Value {
    let mut spec = json!({
        "restartPolicy": "Never",
        // As long as the agent gives the program, and the way of the signal.
        "terminationGracePeriodSeconds": job.grace_seconds() + MARGIN,
    });
    if let Some(subdomain) = subdomain {
        spec["subdomain"] = json!(subdomain);
    }
    place(&mut spec, job.machines(), &job.gpu);
    spec["containers"] = json!([container(job, script)]);
    // Loaders of PyTorch share batches there; a container's own 64 MiB are not enough.
    spec["volumes"] = json!([{ "name": "shm", "emptyDir": { "medium": "Memory" } }]);
    spec
}

/// The nodes that a pod runs on: machines of the plan's type, on its terms.
pub fn place(spec: &mut Value, machines: &MachinesRecord, gpu: &Gpu) {
    spec["nodeSelector"] = node_selector(machines);
    let NodeRequirements { alternatives, tolerations, is_preference } = node_requirements(machines, gpu);
    if !alternatives.is_empty() {
        let terms: Vec<Value> = alternatives.into_iter().map(|list| json!({ "matchExpressions": list })).collect();
        spec["affinity"] = if is_preference {
            let preferences: Vec<Value> =
                terms.into_iter().map(|term| json!({ "weight": 100, "preference": term })).collect();
            json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferences } })
        } else {
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } })
        };
    }
    spec["tolerations"] = json!(tolerations);
}

fn container(job: &Job, script: &str) -> Value {
    let mut limits = Map::new();
    limits.insert(gpu_resource(&job.gpu).to_owned(), json!(job.machines().gpus_per_node));
    let adapters = if job.machines().nodes > 1 && job.machines().cloud == "aws" {
        efa_adapters(&job.machines().instance_type)
    } else {
        0
    };
    if adapters > 0 {
        limits.insert("vpc.amazonaws.com/efa".to_owned(), json!(adapters));
    }
    let mut container = json!({ "name": CONTAINER, "image": job.image, "command": ["bash", "-c", script] });
    if job.machines().nodes > 1 {
        container["ports"] = json!([{ "containerPort": PORT }]);
    }
    container["resources"] = json!({ "limits": limits });
    container["volumeMounts"] = json!([{ "name": "shm", "mountPath": "/dev/shm" }]);
    if adapters > 0 {
        // RDMA pins memory.
        container["securityContext"] = json!({ "capabilities": { "add": ["IPC_LOCK"] } });
    }
    container
}

/// A service without an address, so that pods find pod 0 by its name before they are ready.
pub fn headless_service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name },
        "spec": { "clusterIP": "None", "publishNotReadyAddresses": true, "selector": { "batch.kubernetes.io/job-name": name } },
    })
}

/// What to edit in a file for a cluster.
pub fn what_to_edit(job: &Job) -> Vec<String> {
    let mut lines = Vec::new();
    if job.image == "IMAGE" {
        lines.push("EDIT IMAGE (--image: has your program, its framework and gpuplan)".to_owned());
    }
    if matches!(job.instance.fabric_id.as_str(), "tcpx" | "tcpxo") && job.machines().nodes > 1 {
        lines.push(
            "EDIT add the daemon of GPUDirect as a second container, and the networks of the node pool (see the source below)".to_owned(),
        );
    }
    lines
}
