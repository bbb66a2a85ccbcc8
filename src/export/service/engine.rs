//! The engines of inference: their names, their images, and what they cannot do as they load.

use serde_json::json;

use crate::ExportError;
use gpuplan_hardware::Gpu;
use gpuplan_plan::document::DocumentError;
use gpuplan_workload::{ServingEngine, StoredFormat};

/// vLLM where the workload names none.
pub fn serving_engine(stated: Option<&str>) -> Result<ServingEngine, ExportError> {
    let Some(name) = stated else { return Ok(ServingEngine::default()) };
    serde_json::from_value(json!(name))
        .map_err(|error| DocumentError::Malformed { detail: format!("`workload.file.serving.engine`: {error}") }.into())
}

pub fn word(engine: ServingEngine) -> &'static str {
    match engine {
        ServingEngine::Vllm => "vllm",
        ServingEngine::Sglang => "sglang",
        ServingEngine::TensorRtLlm => "tensorrt-llm",
        ServingEngine::PyTorch => "pytorch",
        ServingEngine::FasterWhisper => "faster-whisper",
    }
}

/// The image that the engine's own project publishes.
pub fn image(engine: ServingEngine, gpu: &Gpu) -> &'static str {
    match (engine, gpu.architecture.is_amd()) {
        (ServingEngine::Sglang, true) => "lmsysorg/sglang:latest-rocm",
        (ServingEngine::Sglang, false) => "lmsysorg/sglang:latest",
        (_, true) => "vllm/vllm-openai-rocm:latest",
        (_, false) => "vllm/vllm-openai:latest",
    }
}

/// A format in which the weights have to lie already; the engines quantise to none of these as they load.
pub fn stored_by_the_weights(format: StoredFormat) -> Option<&'static str> {
    match format {
        StoredFormat::Bf16 | StoredFormat::Fp8 => None,
        other => Some(other.word()),
    }
}
