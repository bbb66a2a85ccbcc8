//! NVIDIA Dynamo: a `DynamoGraphDeployment` (nvidia.com/v1alpha1) of a front end and workers that read prompts and write answers.

use serde_json::json;

use super::{Service, engine, flags, kubernetes};
use crate::target::labels::node_selector;
use crate::{ExportError, Target, yaml};
use gpuplan_workload::ServingEngine;

pub fn render(service: &Service) -> Result<String, ExportError> {
    service.fits(Target::Dynamo, &[ServingEngine::Vllm, ServingEngine::Sglang], false)?;
    let name = kubernetes::name(service, Target::Dynamo)?;
    let is_sglang = service.engine == ServingEngine::Sglang;
    let (module, runtime, worker, model) = if is_sglang {
        ("dynamo.sglang", "sglang-runtime", "SGLangDecodeWorker", "--model-path")
    } else {
        ("dynamo.vllm", "vllm-runtime", "VllmDecodeWorker", "--model")
    };
    // Dynamo's own images have its components beside the engine.
    let image = if service.image == engine::image(service.engine, &service.gpu) {
        format!("nvcr.io/nvidia/ai-dynamo/{runtime}:TAG")
    } else {
        service.image.clone()
    };
    let mut arguments = vec![model.to_owned(), service.model.clone()];
    arguments.extend(flags::flags(service));
    let object = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": { "name": name },
        "spec": { "services": {
            "Frontend": {
                "dynamoNamespace": name, "componentType": "frontend", "replicas": 1,
                "extraPodSpec": { "mainContainer": { "image": image } },
            },
            worker: {
                "envFromSecret": "hf-token-secret",
                "dynamoNamespace": name, "componentType": "worker", "replicas": service.replicas(),
                "resources": { "limits": { "gpu": kubernetes::gpus_per_pod(service).to_string() } },
                "extraPodSpec": {
                    "nodeSelector": node_selector(service.machines()),
                    "mainContainer": { "image": image, "command": ["python3", "-m", module], "args": arguments },
                },
            },
        } },
    });
    let mut how = Vec::new();
    if image.ends_with(":TAG") {
        how.push("EDIT TAG (--image: the release of Dynamo on your cluster)".to_owned());
    }
    how.push("kubectl apply -f FILE".to_owned());
    Ok(service.comments(&how) + &yaml::document(&object))
}
