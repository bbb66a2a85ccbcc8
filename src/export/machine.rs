//! Names that engines have for machines and GPUs: node labels of the managed Kubernetes of clouds, SkyPilot's and dstack's words.

use serde_json::{Value, json};

use crate::job::{Job, Terms};

/// Labels that a node has to have, and taints that a pod has to bear, for machines of this plan.
pub struct Nodes {
    /// Alternatives, each a list of requirements: a node fits when all of one list hold.
    pub terms: Vec<Vec<Value>>,
    pub tolerations: Vec<Value>,
    /// Whether a node that fits none is taken too: on-demand machines where the plan falls back to them.
    pub is_wish: bool,
}

/// EKS: labels `eks.amazonaws.com/capacityType` (managed node groups, EKS user guide) or `karpenter.sh/capacity-type`
/// (karpenter.sh, "Scheduling"). GKE: label and taint `cloud.google.com/gke-spot` (GKE, "Run fault-tolerant workloads in Spot
/// Pods"). AKS: label and taint `kubernetes.azure.com/scalesetpriority` (AKS, "Add a spot node pool").
pub fn nodes(job: &Job) -> Nodes {
    let requires = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    let tolerates =
        |key: &str, value: &str| json!({ "key": key, "operator": "Equal", "value": value, "effect": "NoSchedule" });
    let mut tolerations = vec![json!({ "key": gpu_resource(job), "operator": "Exists", "effect": "NoSchedule" })];
    let mut terms = Vec::new();
    if job.terms() != Terms::Kept {
        match job.plan.cloud.as_str() {
            "aws" => {
                terms.push(vec![requires("karpenter.sh/capacity-type", "spot")]);
                terms.push(vec![requires("eks.amazonaws.com/capacityType", "SPOT")]);
            }
            "gcp" => {
                terms.push(vec![requires("cloud.google.com/gke-spot", "true")]);
                tolerations.push(tolerates("cloud.google.com/gke-spot", "true"));
            }
            "azure" => {
                terms.push(vec![requires("kubernetes.azure.com/scalesetpriority", "spot")]);
                tolerations.push(tolerates("kubernetes.azure.com/scalesetpriority", "spot"));
            }
            _ => {}
        }
    }
    Nodes { terms, tolerations, is_wish: job.terms() == Terms::SpotOrOnDemand }
}

/// What every node of the plan is labelled with: the well-known label of the machine type, which GKE, EKS and AKS set.
pub fn selector(job: &Job) -> Value {
    json!({ "node.kubernetes.io/instance-type": job.plan.instance_type })
}

/// Levels of a network, widest first, as its cloud labels nodes (Google Cloud, "Run NCCL on custom GKE clusters"; EC2 user guide,
/// "Instance topology", with the labels of the AWS cloud controller); `None`: the cloud has no such labels.
pub fn topology(cloud: &str) -> Option<&'static [&'static str]> {
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
pub fn gpu_resource(job: &Job) -> &'static str {
    if job.gpu.architecture.is_amd() { "amd.com/gpu" } else { "nvidia.com/gpu" }
}

/// SkyPilot's name of a GPU (`sky show-gpus`): the family, with the memory where a family has several.
pub fn skypilot_gpu(job: &Job) -> String {
    let (family, memory) = (job.gpu.family.as_str(), job.gpu.memory_label_gb);
    match (family, memory as u32) {
        ("A100", 80) => "A100-80GB".to_owned(),
        ("V100", 32) => "V100-32GB".to_owned(),
        _ if job.plan.instance_type == "a3-megagpu-8g" => "H100-MEGA".to_owned(),
        _ => family.to_owned(),
    }
}

/// SkyPilot's word for a cloud (sky/clouds); `None`: it has none.
pub fn skypilot_cloud(cloud: &str) -> Option<&'static str> {
    match cloud {
        "aws" => Some("aws"),
        "gcp" => Some("gcp"),
        "azure" => Some("azure"),
        "oci" => Some("oci"),
        "lambda" => Some("lambda"),
        "nebius" => Some("nebius"),
        "runpod" => Some("runpod"),
        "vast" => Some("vast"),
        "verda" => Some("verda"),
        "digitalocean" => Some("do"),
        _ => None,
    }
}

/// dstack's word for a cloud (`BackendType`); `None`: it has none.
pub fn dstack_backend(cloud: &str) -> Option<&'static str> {
    match cloud {
        "aws" => Some("aws"),
        "gcp" => Some("gcp"),
        "azure" => Some("azure"),
        "oci" => Some("oci"),
        "lambda" => Some("lambda"),
        "nebius" => Some("nebius"),
        "runpod" => Some("runpod"),
        "vast" => Some("vastai"),
        "verda" => Some("verda"),
        "crusoe" => Some("crusoe"),
        "vultr" => Some("vultr"),
        "digitalocean" => Some("digitalocean"),
        "jarvis-labs" => Some("jarvislabs"),
        _ => None,
    }
}
