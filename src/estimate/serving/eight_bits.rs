//! Products in 8 bits of models that answer in one pass.

use crate::device::DeviceRates;
use gpuplan_hardware::{Gpu, NumberFormat};
use gpuplan_workload::{Model, ModelKind, Serving, StoredFormat};

/// An engine of a model that answers in one pass multiplies in 8 bits where the GPU has units for the format: its inputs are known beforehand, so that
/// their scales are too. Elsewhere weights are unpacked. Attention is multiplied in 8 bits as well, as TensorRT's plugin for it does
/// (NVIDIA/TensorRT, plugin/bertQKVToContextPlugin, `qkvToContextInt8InterleavedPlugin`).
pub fn multiplies_in_eight(model: &Model, serving: &Serving, gpu: &Gpu) -> bool {
    let format = match serving.weights {
        StoredFormat::Fp8 => NumberFormat::Fp8,
        StoredFormat::Int8 => NumberFormat::Int8,
        StoredFormat::Bf16 | StoredFormat::Int4 | StoredFormat::Mxfp4 | StoredFormat::Nvfp4 => return false,
    };
    let answers_at_once = serving.answer_tokens == 0 && !matches!(model.kind, ModelKind::Decoder | ModelKind::Moe);
    answers_at_once && gpu.peak_tflops.get(format).is_some()
}

/// `rates` of 16 bits with products in integers of 8: as large a share of that peak, and as much longer a pipeline to fill.
pub fn integer_rates(model: &Model, serving: &Serving, gpu: &Gpu, rates: DeviceRates) -> DeviceRates {
    let half = gpu.peak_tflops.get(NumberFormat::Bf16).or(gpu.peak_tflops.get(NumberFormat::Fp16));
    match (half, gpu.peak_tflops.get(NumberFormat::Int8)) {
        (Some(half), Some(eight)) if multiplies_in_eight(model, serving, gpu) => {
            let gain = eight / half;
            DeviceRates {
                matmul: rates.matmul * gain,
                peak: rates.peak * gain,
                reduction_length: rates.reduction_length * gain.sqrt(),
                ..rates
            }
        }
        _ => rates,
    }
}
