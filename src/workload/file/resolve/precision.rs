//! The number format of a training run: as it is stated, by the names of PyTorch and Lightning too, or assumed.

use crate::assumption::Assumption;
use crate::file::scalar::{choice, invalid};
use crate::file::{TrainingSection, WorkloadFileError};
use crate::training::Task;
use crate::training::precision::{LowPrecision, Precision};

/// What is stated, or what the task is usually trained in.
pub fn precision(
    section: &TrainingSection,
    task: Task,
    assumed: &mut Vec<Assumption>,
) -> Result<Precision, WorkloadFileError> {
    let stated = section.precision.as_deref().map(|stated| other_name(stated).unwrap_or(stated));
    if let Some(precision) = choice("training.precision", stated)? {
        return Ok(precision);
    }
    // QLoRA computes in bf16 over a frozen base (Dettmers et al. 2023, arXiv 2305.14314).
    let precision = if task == Task::Qlora { Precision::PureBf16 } else { Precision::Bf16 };
    assumed.push(Assumption::Precision { precision });
    Ok(precision)
}

/// The precision that PyTorch and Lightning call otherwise.
fn other_name(stated: &str) -> Option<&'static str> {
    Some(match stated.trim().to_ascii_lowercase().as_str() {
        "float32" | "fp32-true" | "32-true" | "32" => "fp32",
        "float16" | "half" => "fp16",
        "fp16-mixed" | "16-mixed" => "amp-fp16",
        "bfloat16" | "bf16-mixed" => "bf16",
        "bf16-true" => "pure-bf16",
        _ => return None,
    })
}

/// What a recipe of few bits does beside its format. Transformer Engine's own defaults where nothing is said: attention and no layer in 16
/// bits, a scale a tensor.
pub fn low_precision(
    section: &TrainingSection,
    precision: Precision,
    assumed: &mut Vec<Assumption>,
) -> Result<LowPrecision, WorkloadFileError> {
    let scaling = choice("training.fp8_scaling", section.fp8_scaling.as_deref())?;
    let low = LowPrecision::read(precision, section.fp8_attention, section.half_precision_share, scaling)
        .map_err(|(key, why)| invalid(&format!("training.{key}"), why))?;
    if precision.is_eight_bit_or_less() {
        let open = [
            (section.fp8_attention.is_none(), Assumption::Fp8Attention { attention: low.attention }),
            (section.half_precision_share.is_none(), Assumption::HalfPrecisionShare { share: low.half_share }),
            (scaling.is_none() && precision == Precision::Fp8, Assumption::Fp8Scaling { scaling: low.scaling }),
        ];
        assumed.extend(open.into_iter().filter_map(|(is_open, assumption)| is_open.then_some(assumption)));
    }
    Ok(low)
}
