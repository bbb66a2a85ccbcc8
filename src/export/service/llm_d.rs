//! Values of llm-d's chart `llm-d-modelservice` (charts/llm-d-modelservice/values.yaml), without a separate prefill.

use serde_json::json;

use super::{Service, flags, kubernetes};
use crate::target::labels::node_selector;
use crate::{ExportError, Target, yaml};
use gpuplan_workload::ServingEngine;

pub fn render(service: &Service) -> Result<String, ExportError> {
    service.fits(Target::LlmD, &[ServingEngine::Vllm], false)?;
    let name = kubernetes::name(service, Target::LlmD)?;
    let groups = service.attention_groups;
    let tensor = (service.gpus_per_replica() / groups).max(1);
    // The chart says the layout and the port itself.
    let own = ["--tensor-parallel-size", "--data-parallel-size"];
    let mut kept = Vec::new();
    let mut words = flags::flags(service).into_iter();
    while let Some(word) = words.next() {
        if own.contains(&word.as_str()) {
            words.next();
        } else {
            kept.push(word);
        }
    }
    let values = json!({
        "fullnameOverride": name,
        "modelArtifacts": {
            "name": service.model,
            "uri": format!("hf://{}", service.model),
            "size": size(service),
            "authSecretName": "hf-token",
            "labels": { "llm-d.ai/inferenceServing": "true", "llm-d.ai/model": name },
        },
        "accelerator": { "type": if service.gpu.architecture.is_amd() { "amd" } else { "nvidia" } },
        "decode": {
            "create": true,
            "replicas": service.replicas(),
            "nodeSelector": node_selector(service.machines()),
            "parallelism": { "tensor": tensor, "data": groups, "dataLocal": groups, "workers": 1 },
            "containers": [{
                "name": "vllm",
                "image": service.image,
                "modelCommand": "vllmServe",
                "args": kept,
                "mountModelVolume": true,
                "resources": { "limits": kubernetes::limits(service) },
            }],
        },
        "prefill": { "create": false, "replicas": 0 },
    });
    let how = [
        "helm repo add llm-d-modelservice https://llm-d-incubation.github.io/llm-d-modelservice/".to_owned(),
        format!("helm install {name} llm-d-modelservice/llm-d-modelservice -f FILE"),
    ];
    Ok(service.comments(&how) + &yaml::document(&values))
}

/// Room for the files of the model, and as much again: repositories hold some of them twice. Judgement.
fn size(service: &Service) -> String {
    format!("{:.0}Gi", (service.weight_bytes * 2.0 / 1024.0_f64.powi(3)).max(1.0).ceil())
}
