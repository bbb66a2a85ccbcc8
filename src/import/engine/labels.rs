//! Labels by which pods choose nodes: what the managed Kubernetes of clouds and the vendors' plugins call machines, places and cards.

use crate::{Choice, JobRequest, Names, chips};
use gpuplan_hardware::CloudId;

/// Narrows a choice by one label. Labels of Kubernetes: "Well-Known Labels"; the clouds' as in export/target/labels.rs; cards by GPU Feature
/// Discovery (`nvidia.com/gpu.product`), GKE (`cloud.google.com/gke-accelerator`) and Karpenter (`karpenter.k8s.aws/instance-gpu-name`).
pub fn narrow(key: &str, value: &str, choice: &mut Choice, asked: &mut JobRequest, names: Names) {
    match key {
        "node.kubernetes.io/instance-type" | "beta.kubernetes.io/instance-type" => {
            // SageMaker HyperPod's nodes have its own names.
            choice.instance_type = Some(value.strip_prefix("ml.").unwrap_or(value).to_owned());
        }
        "topology.kubernetes.io/region" | "failure-domain.beta.kubernetes.io/region" => {
            choice.region = Some(value.to_owned());
        }
        "topology.kubernetes.io/zone" | "failure-domain.beta.kubernetes.io/zone" => {
            choice.zone = Some(value.to_owned());
        }
        "karpenter.sh/capacity-type" | "eks.amazonaws.com/capacityType" => {
            choice.is_spot = value.eq_ignore_ascii_case("spot");
            choice.cloud = known("aws", names);
        }
        "cloud.google.com/gke-spot" | "cloud.google.com/gke-preemptible" => {
            choice.is_spot = value == "true";
            choice.cloud = known("gcp", names);
        }
        "kubernetes.azure.com/scalesetpriority" => {
            choice.is_spot = value == "spot";
            choice.cloud = known("azure", names);
        }
        "cloud.google.com/gke-accelerator"
        | "nvidia.com/gpu.product"
        | "karpenter.k8s.aws/instance-gpu-name"
        | "k8s.amazonaws.com/accelerator" => {
            if key.starts_with("cloud.google.com") {
                choice.cloud = known("gcp", names);
            }
            // GKE's oldest label of an A100 means the smaller card ("GPU machine types").
            let word = if value == "nvidia-tesla-a100" { "a100-40gb" } else { value };
            match chips::find(word, names.hardware) {
                Some(found) => choice.chips = Some(found),
                None => {
                    choice.chips = chips::named(word, names.hardware);
                    return asked.leave_unread(key, format!("{value} (no GPU of the catalog is called so)"));
                }
            }
        }
        // Pools of machines are often named by the only one that they have.
        "cloud.google.com/gke-nodepool" | "eks.amazonaws.com/nodegroup"
            if names.hardware.instances().iter().any(|one| one.name == value) =>
        {
            choice.instance_type = Some(value.to_owned());
        }
        // Labels that clusters and smaller clouds made up (`accelerator`, `gpu-type`, `gpu.nvidia.com/class`), where they name a card.
        _ => {
            // `node: nvidia-v100` says it by the vendor.
            let is_of_cards = ["gpu", "accelerator"].iter().any(|word| key.contains(word))
                || value.to_ascii_lowercase().starts_with("nvidia-");
            match chips::find(value, names.hardware).filter(|_| is_of_cards) {
                Some(found) => choice.chips = Some(found),
                None if is_of_cards && chips::is_older(value) => {
                    choice.chips = chips::named(value, names.hardware);
                    return asked.leave_unread(key, format!("{value} (no GPU of the catalog is called so)"));
                }
                None => return asked.leave_unread(key, value),
            }
        }
    }
    asked.understand(key, value);
}

fn known(cloud: &str, names: Names) -> Option<CloudId> {
    names.hardware.clouds().into_iter().find(|one| one.as_str() == cloud)
}
