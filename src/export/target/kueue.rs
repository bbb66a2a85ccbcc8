//! Kueue (kueue.sigs.k8s.io, v1beta2): the queue, its quota and topology, and a Job that waits in it until all machines are free.

use serde_json::{Value, json};

use crate::job::Job;
use crate::network::efa_adapters;
use crate::target::labels::{NodeRequirements, gpu_resource, node_requirements, node_selector, topology_levels};
use crate::target::{kubernetes, pod};
use crate::{ExportError, Target, yaml};

pub fn render(job: &Job) -> Result<String, ExportError> {
    let (name, mut object) = kubernetes::object(job, Target::Kueue)?;
    object["metadata"]["labels"] = json!({ "kueue.x-k8s.io/queue-name": "gpuplan" });
    // Kueue starts it when all of it fits.
    object["spec"]["suspend"] = json!(true);
    if job.sweep.is_some() {
        // The runs of a sweep need not begin together.
        object["metadata"]["annotations"] = json!({ "kueue.x-k8s.io/job-min-parallelism": "1" });
    }
    let levels = topology_levels(&job.machines().cloud).filter(|_| job.machines().nodes > 1);
    let mut all = Vec::new();
    if let Some(levels @ [closest, ..]) = levels {
        let levels_json: Vec<Value> = levels.iter().map(|label| json!({ "nodeLabel": label })).collect();
        all.push(kind("Topology", "gpuplan", json!({ "levels": levels_json })));
        // As close together as there is room; `required` would wait for it.
        object["spec"]["template"]["metadata"] =
            json!({ "annotations": { "kueue.x-k8s.io/podset-preferred-topology": closest } });
    }
    all.extend([flavor(job, levels.is_some()), queue(job), local_queue()]);
    if job.machines().nodes > 1 {
        all.push(pod::headless_service(&name));
    }
    all.push(object);
    let mut how = pod::what_to_edit(job);
    how.push(
        "kubectl apply -f FILE; where a queue is there already, keep the Job and its Service and name that queue in its label".to_owned(),
    );
    Ok(job.comments(&how) + &yaml::documents(&all))
}

fn kind(kind: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

fn flavor(job: &Job, has_topology: bool) -> Value {
    let mut spec = json!({ "nodeLabels": node_selector(job.machines()) });
    let NodeRequirements { tolerations, .. } = node_requirements(job.machines(), &job.gpu);
    spec["tolerations"] = json!(tolerations);
    if has_topology {
        spec["topologyName"] = json!("gpuplan");
    }
    kind("ResourceFlavor", "gpuplan", spec)
}

/// Room for one such run. A run of a higher priority takes it from a lower one, which saves and waits again.
fn queue(job: &Job) -> Value {
    let at_a_time = job.sweep.as_ref().map_or(1, |sweep| sweep.at_a_time);
    let gpus = job.machines().nodes * job.machines().gpus_per_node * at_a_time;
    let mut resources = vec![gpu_resource(&job.gpu)];
    let mut quotas = vec![json!({ "name": gpu_resource(&job.gpu), "nominalQuota": gpus })];
    let adapters = efa_adapters(&job.machines().instance_type);
    if job.machines().nodes > 1 && job.machines().cloud == "aws" && adapters > 0 {
        resources.push("vpc.amazonaws.com/efa");
        quotas.push(json!({ "name": "vpc.amazonaws.com/efa", "nominalQuota": adapters * job.machines().nodes }));
    }
    kind(
        "ClusterQueue",
        "gpuplan",
        json!({
            "namespaceSelector": {},
            "preemption": { "withinClusterQueue": "LowerPriority" },
            "resourceGroups": [{ "coveredResources": resources, "flavors": [{ "name": "gpuplan", "resources": quotas }] }],
        }),
    )
}

fn local_queue() -> Value {
    let mut object = kind("LocalQueue", "gpuplan", json!({ "clusterQueue": "gpuplan" }));
    object["metadata"]["namespace"] = json!("default");
    object
}
