//! Node labels, taints and resources by which a Kubernetes cluster, managed by a cloud or not, finds the machines of a plan.

use serde_json::{Value, json};

use crate::job::{CapacityType, capacity_type};
use crate::target::attached::{attached, machine_type};
use gpuplan_hardware::Gpu;
use gpuplan_plan::document::MachinesRecord;

/// Labels that a node has to have, and taints that a pod has to bear, for machines of this plan.
pub struct NodeRequirements {
    /// Alternatives, each a list of requirements: a node fits when all of one list hold.
    pub alternatives: Vec<Vec<Value>>,
    pub tolerations: Vec<Value>,
    /// Whether a node that fits none is taken too: on-demand machines where the plan falls back to them.
    pub is_preference: bool,
}

/// EKS: labels `eks.amazonaws.com/capacityType` (managed node groups, EKS user guide) or `karpenter.sh/capacity-type`
/// (karpenter.sh, "Scheduling"). GKE: label and taint `cloud.google.com/gke-spot` (GKE, "Run fault-tolerant workloads in Spot
/// Pods"). AKS: label and taint `kubernetes.azure.com/scalesetpriority` (AKS, "Add a spot node pool").
pub fn node_requirements(machines: &MachinesRecord, gpu: &Gpu) -> NodeRequirements {
    let requires = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    let tolerates =
        |key: &str, value: &str| json!({ "key": key, "operator": "Equal", "value": value, "effect": "NoSchedule" });
    let mut tolerations = vec![json!({ "key": gpu_resource(gpu), "operator": "Exists", "effect": "NoSchedule" })];
    let mut alternatives = Vec::new();
    let capacity = capacity_type(machines);
    if capacity != CapacityType::NonPreemptible {
        match machines.cloud.as_str() {
            "aws" => {
                alternatives.push(vec![requires("karpenter.sh/capacity-type", "spot")]);
                alternatives.push(vec![requires("eks.amazonaws.com/capacityType", "SPOT")]);
            }
            "gcp" => {
                alternatives.push(vec![requires("cloud.google.com/gke-spot", "true")]);
                tolerations.push(tolerates("cloud.google.com/gke-spot", "true"));
            }
            "azure" => {
                alternatives.push(vec![requires("kubernetes.azure.com/scalesetpriority", "spot")]);
                tolerations.push(tolerates("kubernetes.azure.com/scalesetpriority", "spot"));
            }
            _ => {}
        }
    }
    NodeRequirements { alternatives, tolerations, is_preference: capacity == CapacityType::SpotOrOnDemand }
}

/// What every node of the plan is labelled with: the well-known label of the machine type, which GKE, EKS and AKS set, and GKE's of attached
/// cards ("Run GPUs in GKE Standard node pools").
pub fn node_selector(machines: &MachinesRecord) -> Value {
    let mut labels = json!({ "node.kubernetes.io/instance-type": machine_type(machines) });
    if let Some(attached) = attached(machines) {
        labels["cloud.google.com/gke-accelerator"] = json!(attached.accelerator);
    }
    labels
}

/// Levels of a network, widest first, as its cloud labels nodes (Google Cloud, "Run NCCL on custom GKE clusters"; EC2 user guide,
/// "Instance topology", with the labels of the AWS cloud controller); `None`: the cloud has no such labels.
pub fn topology_levels(cloud: &str) -> Option<&'static [&'static str]> {
    match cloud {
        "gcp" => Some(&[
            "cloud.google.com/gce-topology-block",
            "cloud.google.com/gce-topology-subblock",
            "kubernetes.io/hostname",
        ]),
        "aws" => Some(&[
            "topology.k8s.aws/network-node-layer-1",
            "topology.k8s.aws/network-node-layer-2",
            "kubernetes.io/hostname",
        ]),
        _ => None,
    }
}

/// Resource of the vendor's device plugin. A slice of a card that a cloud sells is one device of its machine.
pub fn gpu_resource(gpu: &Gpu) -> &'static str {
    if gpu.architecture.is_amd() { "amd.com/gpu" } else { "nvidia.com/gpu" }
}
