//! How a case of `estimate --cases` is trained, and what is filled in where it says nothing.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::cases::defaults;
use crate::cases::within::{note, within};
use crate::possible::{half, half_precision};
use gpuplan_hardware::Gpu;
use gpuplan_workload::training::LoraTargets;
use gpuplan_workload::{
    AttentionKernel, BaseWeights, FsdpStyle, Kernels, Latents, Lora, LossKernel, LowPrecision, Measure, MemorySavings,
    Model, Offload, Optimizer, Overlap, Precision, Recompute, Scaling, Stacks, Synchronization, Task, Training,
};

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct CaseTraining {
    pub task: Option<Task>,
    pub precision: Option<Precision>,
    /// Attention multiplies in 8 bits too, of fp8, mxfp8 and nvfp4.
    pub fp8_attention: Option<bool>,
    /// Part of the linear layers that such a recipe keeps in 16 bits.
    pub half_precision_share: Option<f64>,
    /// What has one scale in fp8.
    pub fp8_scaling: Option<Scaling>,
    pub base_weights: Option<BaseWeights>,
    pub sequence_length: Option<u32>,
    /// Frames of a video, of a diffusion model that makes them.
    pub frames: Option<u32>,
    /// Whether prompts and pictures of a diffusion transformer are encoded before the training; else in every step.
    pub cache_latents: Option<bool>,
    pub micro_batch: Option<u32>,
    pub global_batch: Option<f64>,
    pub grad_accumulation: Option<u32>,
    pub recompute: Option<Recompute>,
    pub attention: Option<AttentionKernel>,
    pub optimizer: Option<String>,
    pub optimizer_in_backward: Option<bool>,
    pub ema: Option<bool>,
    pub loss: Option<LossKernel>,
    pub lora_rank: Option<u32>,
    pub lora_targets: Option<LoraTargets>,
    pub lora_dropout: Option<bool>,
    pub head_quantized: Option<bool>,
    pub dropout: Option<bool>,
    pub compile: Option<bool>,
    pub chunked_loss: Option<bool>,
    pub offload: Option<Offload>,
    pub fsdp: Option<FsdpStyle>,
    pub overlap: Option<Overlap>,
    pub cuda_graphs: Option<bool>,
    /// The channels of a pixel lie side by side (`torch.channels_last`).
    pub channels_last: Option<bool>,
    pub measure: Option<Measure>,
    pub framework: Option<String>,
    /// Year of the version of the framework that ran; else today's, or the last of a stack that is no longer developed.
    pub framework_year: Option<u32>,
}

impl CaseTraining {
    pub(super) fn resolve(
        &self,
        task: Task,
        gpu: &Gpu,
        model: &Model,
        native_tokens: Option<u32>,
        assumed: &mut Vec<String>,
    ) -> Result<Training, String> {
        let sequence = self.sequence_length.unwrap_or_else(|| {
            if !model.kind.is_transformer() {
                return model.sample_side.max(1);
            }
            let usual = defaults::usual_length(task, model, native_tokens);
            note(assumed, "sequence_length", &usual.to_string(), usual)
        });
        let precision = match self.precision {
            Some(stated) => half_precision(gpu, stated).map(|()| stated)?,
            None => {
                let usual = half(gpu);
                let word = if usual == Precision::Bf16 { "bf16" } else { "fp16" };
                note(assumed, "precision", word, usual)
            }
        };
        let low_precision = self.low_precision(precision, assumed)?;
        if self.base_weights.is_some() && task.has_backward() && !task.has_adapters() {
            return Err("base_weights: only a frozen base can be quantised; the nearest is the task qlora".to_owned());
        }
        let adapters = task.has_adapters();
        let rank = within("lora_rank", self.lora_rank.unwrap_or(16), 1 << 16)?;
        let lora = adapters.then(|| Lora {
            rank,
            targets: self.lora_targets.unwrap_or(LoraTargets::ALL_LINEAR),
            dropout: self.lora_dropout.unwrap_or(false),
        });
        let chunked = self.chunked_loss == Some(true);
        let attention = self.attention_on(gpu, precision, assumed);
        Ok(Training {
            base_weights: self.base_weights.or((task == Task::Qlora).then_some(BaseWeights::Nf4)),
            sequence_length: within("sequence_length", sequence, 1 << 24)?,
            precision,
            micro_batch: self.micro_batch,
            grad_accumulation: self.grad_accumulation,
            recompute: self.recompute,
            optimizer: self.optimizer.as_deref().map(optimizer).transpose()?,
            ema: self.ema.unwrap_or(false),
            lora,
            dropout: self.dropout.unwrap_or(false),
            framework: Stacks::embedded()
                .framework(self.framework.as_deref().unwrap_or_default())
                .map_err(|error| error.to_string())?,
            kernels: Kernels {
                attention,
                loss: self.loss.or(chunked.then_some(LossKernel::Chunked)),
                compile: self.compile.unwrap_or(false),
                cuda_graphs: self.cuda_graphs.unwrap_or(false),
                channels_last: self.channels_last.unwrap_or(false),
                low_precision,
            },
            memory: MemorySavings {
                offload: self.offload,
                fsdp: self.fsdp,
                optimizer_in_backward: self.optimizer_in_backward.unwrap_or(false),
                head_quantized: self.head_quantized.unwrap_or(false),
            },
            synchronization: Synchronization { overlap: self.overlap, ..Synchronization::default() },
            framework_year: self.framework_year.map(framework_year).transpose()?,
            latents: self.latents()?,
            ..Training::new(task, sequence)
        })
    }

    fn latents(&self) -> Result<Latents, String> {
        let frames = self.frames.map(|frames| within("frames", frames, 1 << 16)).transpose()?;
        Ok(Latents { frames, encoded_in_steps: self.cache_latents == Some(false) })
    }

    /// As stated; eager where the stack is older than fused attention on the chip; `None`: as the framework does.
    fn attention_on(&self, gpu: &Gpu, precision: Precision, assumed: &mut Vec<String>) -> Option<AttentionKernel> {
        let is_older = self.framework_year.is_some_and(|year| year < gpu.architecture.fused_attention_since());
        match self.attention {
            None if is_older && precision.activation_bytes() < 4.0 => {
                Some(note(assumed, "attention", "eager", AttentionKernel::Eager))
            }
            stated => stated,
        }
    }

    /// What a recipe of few bits does beside its format; what is not stated is Transformer Engine's default.
    fn low_precision(&self, precision: Precision, assumed: &mut Vec<String>) -> Result<LowPrecision, String> {
        let low = LowPrecision::read(precision, self.fp8_attention, self.half_precision_share, self.fp8_scaling)
            .map_err(|(key, why)| format!("{key}: {why}"))?;
        if precision.is_eight_bit_or_less() {
            let open = [
                (self.fp8_attention.is_none(), "fp8_attention=false"),
                (self.half_precision_share.is_none(), "half_precision_share=0"),
                (self.fp8_scaling.is_none() && precision == Precision::Fp8, "fp8_scaling=tensor"),
            ];
            assumed.extend(open.iter().filter(|(is_open, _)| *is_open).map(|(_, what)| (*what).to_owned()));
        }
        Ok(low)
    }
}

/// Tables of published runs write `adamw (mixed, fp32 master)` for plain `adamw`.
fn optimizer(text: &str) -> Result<Optimizer, String> {
    let word = text.split_whitespace().next().unwrap_or_default();
    serde_json::from_value(serde_json::Value::String(word.to_owned()))
        .map_err(|_| format!("unknown optimizer `{text}`"))
}

/// No stack is older than the first GPU with matrix units.
fn framework_year(year: u32) -> Result<u32, String> {
    if (2017..2100).contains(&year) {
        return Ok(year);
    }
    Err(format!("framework_year={year} is not a year from 2017 on; the nearest is {}", year.clamp(2017, 2099)))
}
