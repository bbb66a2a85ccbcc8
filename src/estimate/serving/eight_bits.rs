//! Rates of a served model by the format of its weights: products in 8 bits.

use crate::constants::Constants;
use crate::device::DeviceRates;
use crate::machine::Machine;
use gpuplan_hardware::{Gpu, NumberFormat};
use gpuplan_workload::{Model, ModelKind, Precision, Serving, StoredFormat, Workload};

/// Rates with the precision of the weights. Recipes of training convert to 8 bits in both directions; a served model has its
/// scales already, so where the ceiling of 8-bit products was measured it counts as that of 16-bit products does.
pub fn rates(workload: &Workload, serving: &Serving, machine: &Machine, constants: &Constants) -> DeviceRates {
    let gpu = machine.gpu;
    let precision = if serving.weights == StoredFormat::Fp8 { Precision::Fp8 } else { Precision::Bf16 };
    let rates = DeviceRates::new(gpu, precision, machine.card_share, constants);
    match gpu.matmul_ceiling_tflops.fp8.filter(|_| precision == Precision::Fp8 && gpu.peak_tflops.fp8.is_some()) {
        Some(ceiling) => {
            let shares = constants.gemm_share * constants.generation(gpu.architecture) * machine.card_share;
            DeviceRates { matmul: ceiling * 1e12 * shares, ..rates }
        }
        None if serving.weights == StoredFormat::Int8 => integer_rates(&workload.model, serving, gpu, rates),
        None => rates,
    }
}

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
fn integer_rates(model: &Model, serving: &Serving, gpu: &Gpu, rates: DeviceRates) -> DeviceRates {
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
