//! What cannot run whatever it costs: a recipe that a GPU has no units for, a layout that does not divide the model. Nothing is
//! quietly exchanged: the answer is why, and the nearest that works.

use crate::misfit::Infeasible;
use crate::setting::Setting;
use gpuplan_hardware::{Architecture, Gpu};
use gpuplan_workload::{Model, Precision, Training};

/// Whether the GPU can run the training in this setting.
pub fn check(gpu: &Gpu, model: &Model, training: &Training, setting: &Setting) -> Result<(), Infeasible> {
    let why = kernels(gpu, training).err().or_else(|| layout(model, training, setting).err());
    why.map_or(Ok(()), |detail| Err(Infeasible::Unsupported { detail }))
}

/// Whether there are kernels for the recipe of a training.
pub fn kernels(gpu: &Gpu, training: &Training) -> Result<(), String> {
    recipe(gpu, training.precision)?;
    if training.kernels.low_precision.attention && !gpu.architecture.has_asynchronous_products() {
        let needs = "kernels for Hopper and data-centre Blackwell (cuDNN); the nearest is fp8_attention=false";
        return Err(format!("fp8_attention=true on {}: training in it is published with {needs}", gpu.name));
    }
    Ok(())
}

/// Formats of fewer than 16 bits need units of their own. tf32 on chips without them is plain fp32, as PyTorch runs it.
fn recipe(gpu: &Gpu, precision: Precision) -> Result<(), String> {
    let (has, needs) = match precision {
        Precision::Fp8 => (has_fp8(gpu), "8-bit floating-point units (Ada, Hopper, CDNA3 or newer)"),
        Precision::Mxfp8 => (scales_blocks(gpu), "units that scale blocks of 8-bit numbers (Blackwell, CDNA4)"),
        Precision::Nvfp4 => (gpu.peak_tflops.fp4.is_some(), "4-bit floating-point units (Blackwell, CDNA4)"),
        _ => return Ok(()),
    };
    if has {
        return Ok(());
    }
    let (asked, nearest) = (word(precision), nearest_recipe(gpu, precision));
    Err(format!("precision={asked} needs {needs}, which {} does not have; the nearest is {}", gpu.name, word(nearest)))
}

/// The same for bf16, which libraries imitate on older chips at a rate that nobody publishes.
pub fn half_precision(gpu: &Gpu, precision: Precision) -> Result<(), String> {
    if !matches!(precision, Precision::Bf16 | Precision::PureBf16) || gpu.peak_tflops.bf16.is_some() {
        return Ok(());
    }
    let (asked, nearest) = (word(precision), word(half(gpu)));
    Err(format!("precision={asked} needs bf16 units, which {} does not have; the nearest is {nearest}", gpu.name))
}

/// The 16-bit recipe that a chip has units for; fp32 where it has none.
pub fn half(gpu: &Gpu) -> Precision {
    match (gpu.peak_tflops.bf16, gpu.peak_tflops.fp16) {
        (Some(_), _) => Precision::Bf16,
        (None, Some(_)) => Precision::Fp16,
        (None, None) => Precision::Fp32,
    }
}

fn has_fp8(gpu: &Gpu) -> bool {
    gpu.peak_tflops.fp8.is_some()
}

fn scales_blocks(gpu: &Gpu) -> bool {
    has_fp8(gpu)
        && matches!(gpu.architecture, Architecture::Blackwell | Architecture::BlackwellRtx | Architecture::Cdna4)
}

fn nearest_recipe(gpu: &Gpu, asked: Precision) -> Precision {
    match asked {
        Precision::Nvfp4 if scales_blocks(gpu) => Precision::Mxfp8,
        _ if has_fp8(gpu) => Precision::Fp8,
        _ => half(gpu),
    }
}

fn word(precision: Precision) -> String {
    serde_json::json!(precision).as_str().unwrap_or_default().to_owned()
}

/// Degrees that leave a rank without a head, a layer, an expert, a token or a sequence.
fn layout(model: &Model, training: &Training, setting: &Setting) -> Result<(), String> {
    let layout = &setting.layout;
    let sequences = f64::from(layout.data) * f64::from(setting.micro_batch);
    if setting.global_batch < sequences {
        let batch = setting.global_batch;
        return Err(format!(
            "global_batch={batch} gives not every one of {} data-parallel ranks its micro_batch={}; the nearest is {sequences}",
            layout.data, setting.micro_batch
        ));
    }
    let group = layout.shard_group.unwrap_or(1);
    if group > layout.data {
        return Err(format!("shard_group={group} is more than data={0}; the nearest is {0}", layout.data));
    }
    if !model.kind.is_transformer() {
        let degrees = [("tensor", layout.tensor), ("pipeline", layout.pipeline), ("context", layout.context)];
        let split = degrees.into_iter().find(|(_, degree)| *degree > 1);
        return split.map_or(Ok(()), |(name, degree)| {
            let model = &model.name;
            Err(format!("{name}={degree}: `{model}` has no transformer layers to split; the nearest is {name}=1"))
        });
    }
    divides("tensor", layout.tensor, "attention heads", model.heads, &model.name)?;
    let layers = model.layers + model.encoder_layers;
    at_most("pipeline", layout.pipeline, "layers", layers, &model.name)?;
    // Stages may be uneven: Megatron counts embedding and head as layers of the first and the last.
    let most = layers.div_ceil(layout.pipeline.max(1));
    at_most("virtual_pipeline", layout.virtual_pipeline, "layers of a stage", most, &model.name)?;
    at_most("context", layout.context, "tokens of a sequence", training.sequence_length, &model.name)?;
    divides("expert", layout.expert, "experts", model.experts.map_or(1, |experts| experts.experts), &model.name)
}

fn at_most(name: &str, degree: u32, what: &str, most: u32, model: &str) -> Result<(), String> {
    if degree <= most.max(1) {
        return Ok(());
    }
    Err(format!("{name}={degree} is more than the {most} {what} of `{model}`; the nearest is {}", most.max(1)))
}

fn divides(name: &str, degree: u32, what: &str, whole: u32, model: &str) -> Result<(), String> {
    if degree == 0 || whole == 0 || whole.is_multiple_of(degree) {
        return Ok(());
    }
    let nearest = nearest_divisor(whole, degree);
    Err(format!("{name}={degree} does not divide the {whole} {what} of `{model}`; the nearest is {nearest}"))
}

/// The divisor of `whole` that is nearest to `wanted`; of two, the smaller.
pub fn nearest_divisor(whole: u32, wanted: u32) -> u32 {
    let below = (1..=wanted.min(whole)).rev().find(|one| whole.is_multiple_of(*one)).unwrap_or(1);
    let above = (wanted..=whole.min(wanted.saturating_mul(2))).find(|one| whole.is_multiple_of(*one));
    above.filter(|above| above - wanted < wanted - below).unwrap_or(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::{Layout, Models, Recompute, Task};

    fn refused(gpu: &str, precision: Precision) -> Option<String> {
        let hardware = Hardware::embedded().unwrap();
        recipe(hardware.gpu(hardware.find_gpu(gpu).unwrap()), precision).err()
    }

    #[test]
    fn a_recipe_without_units_is_refused_with_the_nearest() {
        for (gpu, precision, nearest) in [
            ("v100-sxm2-32", Precision::Fp8, "fp16"),
            ("a100-sxm4-80", Precision::Fp8, "bf16"),
            ("h100-sxm5-80", Precision::Mxfp8, "fp8"),
            ("h100-sxm5-80", Precision::Nvfp4, "fp8"),
            ("p100-sxm2-16", Precision::Nvfp4, "fp16"),
        ] {
            let why = refused(gpu, precision).unwrap();
            assert!(why.ends_with(&format!("the nearest is {nearest}")), "{gpu} {precision:?}: {why}");
        }
        for (gpu, precision) in [
            ("h100-sxm5-80", Precision::Fp8),
            ("b200-sxm-180", Precision::Mxfp8),
            ("b200-sxm-180", Precision::Nvfp4),
            ("v100-sxm2-32", Precision::Tf32),
            ("v100-sxm2-32", Precision::Fp16),
        ] {
            assert_eq!(refused(gpu, precision), None, "{gpu} {precision:?}");
        }
    }

    #[test]
    fn a_layout_that_does_not_divide_the_model_is_refused_with_the_nearest() {
        let model = Models::embedded().unwrap().find("llama-2-7b").unwrap().to_model();
        let training = Training::new(Task::Pretrain, 2048);
        let asked = |change: &dyn Fn(&mut Setting)| {
            let spread = Layout { data: 8, ..Layout::default() };
            let mut setting =
                Setting { layout: spread, micro_batch: 1, global_batch: 64.0, recompute: Recompute::None };
            change(&mut setting);
            layout(&model, &training, &setting)
        };
        let refused = |change: &dyn Fn(&mut Setting)| asked(change).unwrap_err();
        assert_eq!(asked(&|_| {}), Ok(()));
        let heads = refused(&|setting| setting.layout.tensor = 3);
        assert_eq!(heads, "tensor=3 does not divide the 32 attention heads of `llama-2-7b`; the nearest is 2");
        assert!(refused(&|setting| setting.layout.tensor = 64).ends_with("the nearest is 32"));
        assert!(refused(&|setting| setting.layout.pipeline = 33).ends_with("the nearest is 32"));
        assert!(refused(&|setting| setting.layout.expert = 8).ends_with("the nearest is 1"));
        assert!(refused(&|setting| setting.layout.context = 4096).ends_with("the nearest is 2048"));
        assert!(refused(&|setting| setting.global_batch = 4.0).ends_with("the nearest is 8"));
        assert!(refused(&|setting| setting.layout.shard_group = Some(16)).ends_with("the nearest is 8"));
    }

    #[test]
    fn the_nearest_divisor_is_near() {
        let nearest = [(32, 3, 2), (32, 7, 8), (12, 8, 6), (12, 5, 4), (40, 64, 40), (1, 8, 1)];
        for (whole, wanted, expected) in nearest {
            assert_eq!(nearest_divisor(whole, wanted), expected, "{whole} {wanted}");
        }
    }
}
