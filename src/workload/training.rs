//! `Training`: task, batch, kernels, optimizer and framework. What the user left out is `None` and is chosen visibly later.

pub mod framework;
pub mod layout;
pub mod objective;
pub mod precision;
pub mod sweep;
pub mod usual_batch;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Model;
pub use crate::training::framework::Framework;
use crate::training::objective::Objective;
use crate::training::precision::{BaseWeights, LowPrecision, Precision, Scaling};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    Pretrain,
    #[serde(alias = "full_ft", alias = "full-ft")]
    FullFineTune,
    Lora,
    Qlora,
    /// Training of families that know no pre-training (vision, speech).
    Train,
    /// Forward and backward without an optimizer step.
    #[serde(alias = "train_fwd_bwd")]
    TrainFwdBwd,
    Inference,
    #[serde(alias = "inference_prefill")]
    InferencePrefill,
}

impl Task {
    #[inline]
    pub fn has_backward(self) -> bool {
        !matches!(self, Self::Inference | Self::InferencePrefill)
    }

    #[inline]
    pub fn has_optimizer(self) -> bool {
        self.has_backward() && self != Self::TrainFwdBwd
    }

    #[inline]
    pub fn has_adapters(self) -> bool {
        matches!(self, Self::Lora | Self::Qlora)
    }
}

/// Which activations are computed again in the backward pass instead of kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    None,
    /// The attention core only (Korthikanti et al. 2022, arXiv 2205.05198, section 5).
    Selective,
    /// Every layer from its input.
    Full,
    /// Every layer from its input, which is kept on the host.
    Offload,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttentionKernel {
    /// FlashAttention 2 and kernels like it, which run on every GPU with tensor cores.
    Flash,
    /// Kernels written for Hopper and Blackwell: FlashAttention 3 and 4, cuDNN. Elsewhere the same as `Flash`.
    Flash3,
    Eager,
}

/// How the loss over the vocabulary is computed, which decides its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossKernel {
    Fp32,
    Bf16Chunked,
    Chunked,
    // The product with the head and the cross entropy chunk by chunk: whole logits are never held (Liger, arXiv 2410.10989).
    FusedLinear,
    Compiled,
    HfUpcast,
}

/// Optimizer by what it keeps in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// Adam with fp32 master weights and moments beside 16-bit weights.
    Adamw,
    AdamwBf16,
    #[serde(rename = "adamw-8bit")]
    Adamw8bit,
    /// States on the host.
    AdamwPaged,
    /// One flat fp32 copy with unfused temporaries (InternEvo).
    AdamwFlatFp32,
    /// As `Adamw`, with gradients kept in fp32 (Megatron's default).
    AdamwFp32Gradients,
    Lamb,
    Lars,
    Sgd,
    Adafactor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Offload {
    Parameters,
    Activations,
}

/// Traffic that recent Megatron stacks hide behind matrix products, beside the gradients that every stack hides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Overlap {
    /// Tensor-parallel gathers and reductions, cut into pieces beside the products that need them (`--tp-comm-overlap`).
    pub tensor_parallel: bool,
    /// Updated weights of a ZeRO-1 step, gathered while the next forward pass runs (`--overlap-param-gather`).
    pub weight_gather: bool,
}

impl Overlap {
    pub const ALL: Self = Self { tensor_parallel: true, weight_gather: true };
}

impl TryFrom<Vec<String>> for Overlap {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let mut overlap = Self::default();
        for name in names {
            match name.as_str() {
                "tensor-parallel" => overlap.tensor_parallel = true,
                "weight-gather" => overlap.weight_gather = true,
                _ => {
                    return Err(format!(
                        "`{name}` is not traffic that can be overlapped; choose tensor-parallel or weight-gather"
                    ));
                }
            }
        }
        Ok(overlap)
    }
}

impl From<Overlap> for Vec<String> {
    fn from(overlap: Overlap) -> Self {
        let all = [(overlap.tensor_parallel, "tensor-parallel"), (overlap.weight_gather, "weight-gather")];
        all.into_iter().filter(|(on, _)| *on).map(|(_, name)| name.to_owned()).collect()
    }
}

/// Which FSDP, since they differ in what stays gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FsdpStyle {
    #[serde(rename = "1")]
    One,
    /// Accumulation inside `no_sync()`: gradients stay whole.
    #[serde(rename = "1-no-sync")]
    OneNoSync,
    /// And on torch <= 2.1 the gathered weights are not freed either.
    #[serde(rename = "1-weights-stay-gathered")]
    OneWeightsStayGathered,
    #[serde(rename = "2")]
    Two,
}

/// Which memory figure is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Peak of the allocator's live tensors.
    Allocated,
    /// Peak of what the allocator holds.
    Reserved,
    /// What nvidia-smi shows.
    #[default]
    Device,
    /// Tensors alone, as papers count them.
    Analytic,
}

/// Low-rank adapters (Hu et al. 2021, arXiv 2106.09685).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lora {
    pub rank: u32,
    pub targets: LoraTargets,
    pub dropout: bool,
}

/// Which matrices have adapters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct LoraTargets {
    pub q: bool,
    pub k: bool,
    pub v: bool,
    pub o: bool,
    pub up: bool,
    pub gate: bool,
    pub down: bool,
    pub head: bool,
}

impl LoraTargets {
    pub const ALL_LINEAR: Self =
        Self { q: true, k: true, v: true, o: true, up: true, gate: true, down: true, head: false };

    fn slots(&mut self) -> [(&'static str, &mut bool); 8] {
        let Self { q, k, v, o, up, gate, down, head } = self;
        [("q", q), ("k", k), ("v", v), ("o", o), ("up", up), ("gate", gate), ("down", down), ("head", head)]
    }
}

impl TryFrom<Vec<String>> for LoraTargets {
    type Error = String;

    /// Accepts `q` and `q_proj` alike; `all-linear` stands for every matrix but the head.
    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let mut targets = Self::default();
        for name in names {
            if name == "all-linear" {
                targets = Self { head: targets.head, ..Self::ALL_LINEAR };
                continue;
            }
            let plain = name.trim_end_matches("_proj");
            let plain = if plain == "lm_head" { "head" } else { plain };
            match targets.slots().into_iter().find(|(slot, _)| *slot == plain) {
                Some((_, slot)) => *slot = true,
                None => {
                    return Err(format!(
                        "`{name}` is not an adapter target; choose from q k v o up gate down head all-linear"
                    ));
                }
            }
        }
        Ok(targets)
    }
}

impl From<LoraTargets> for Vec<String> {
    fn from(mut targets: LoraTargets) -> Self {
        targets.slots().into_iter().filter(|(_, on)| **on).map(|(name, _)| name.to_owned()).collect()
    }
}

/// A model in training: complete but for what is chosen with the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    pub task: Task,
    pub precision: Precision,
    pub base_weights: Option<BaseWeights>,
    /// Tokens of a sequence, or the image side of vision families.
    pub sequence_length: u32,
    /// Sequences of one rank in one forward pass.
    pub micro_batch: Option<u32>,
    /// Sequences of all ranks in one optimizer step.
    pub global_batch: Option<u64>,
    pub grad_accumulation: Option<u32>,
    pub recompute: Option<Recompute>,
    pub optimizer: Option<Optimizer>,
    /// An exponential moving average of the trained weights is kept beside them, in fp32 (diffusers, `EMAModel`; timm, `ModelEmaV3`).
    pub ema: bool,
    pub lora: Option<Lora>,
    pub dropout: bool,
    pub framework: Framework,
    pub kernels: Kernels,
    pub memory: MemorySavings,
    pub synchronization: Synchronization,
    /// Year of the version of the framework, and of the libraries below it. Open: what the stack says of itself, else today's.
    pub framework_year: Option<u32>,
    pub objective: Objective,
    pub latents: Latents,
    /// Whose answers are met, of the objective `distill`.
    pub teacher: Option<Box<Model>>,
}

/// FlashAttention: Dao et al. 2022, arXiv 2205.14135.
const SINCE_FLASH_ATTENTION: u32 = 2022;
/// FlashAttention 2: Dao, July 2023, arXiv 2307.08691; PyTorch's own attention is that kernel since version 2.2 of January 2024.
const SINCE_FLASH_ATTENTION_2: u32 = 2024;
/// Transformer Engine: version 0.2 of November 2022 is the first release for training (NVIDIA/TransformerEngine, releases); stacks of the
/// year after it use it.
const SINCE_TRANSFORMER_ENGINE: u32 = 2023;
/// Megatron-LM's products add to the gradients of earlier micro-batches themselves: version 3.0 (NVIDIA/Megatron-LM, arguments.py,
/// `--no-gradient-accumulation-fusion`).
const SINCE_FUSED_GRADIENT_SUMS: u32 = 2022;
/// Sequence parallelism: Korthikanti et al. 2022, arXiv 2205.05198.
pub const SINCE_SEQUENCE_PARALLEL: u32 = 2022;

/// How the work of a GPU is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kernels {
    pub attention: Option<AttentionKernel>,
    pub loss: Option<LossKernel>,
    pub compile: bool,
    /// Whole passes are captured and replayed as CUDA graphs.
    pub cuda_graphs: bool,
    /// The channels of a pixel lie side by side (`torch.channels_last`), as the kernels of matrix units read them.
    pub channels_last: bool,
    pub low_precision: LowPrecision,
}

/// What keeps less in the memory of a GPU, beside recomputed activations and a quantised base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySavings {
    pub offload: Option<Offload>,
    pub fsdp: Option<FsdpStyle>,
    /// Each weight is updated as soon as its gradient is there.
    pub optimizer_in_backward: bool,
    /// The output projection is quantised with the base.
    pub head_quantized: bool,
}

/// What a diffusion model is trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latents {
    /// Frames of a video. Open: as many as the model was made for.
    pub frames: Option<u32>,
    /// Prompts and pictures are encoded in every step, and not once before the training.
    pub encoded_in_steps: bool,
}

/// What ranks send each other, how often, and what hides it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synchronization {
    /// Traffic that the stack hides behind arithmetic; open: what the stack does by itself on such a GPU.
    pub overlap: Option<Overlap>,
    /// Bytes of gradients over the bytes that are sent; 1 without compression. What it does to convergence is not modelled.
    pub gradient_compression: f64,
    /// Optimizer steps between synchronisations of whole copies (local SGD); 1 synchronises every step.
    pub local_steps: u32,
}

impl Default for Synchronization {
    fn default() -> Self {
        Self { overlap: None, gradient_compression: 1.0, local_steps: 1 }
    }
}

impl Training {
    /// A bf16 run of `task` with everything else left open.
    pub fn new(task: Task, sequence_length: u32) -> Self {
        Self {
            task,
            precision: Precision::Bf16,
            base_weights: None,
            sequence_length,
            micro_batch: None,
            global_batch: None,
            grad_accumulation: None,
            recompute: None,
            optimizer: None,
            ema: false,
            lora: None,
            dropout: false,
            framework: Framework::default(),
            kernels: Kernels::default(),
            memory: MemorySavings::default(),
            synchronization: Synchronization::default(),
            framework_year: None,
            objective: Objective::default(),
            latents: Latents::default(),
            teacher: None,
        }
    }

    /// The same network reading without gradients, as a reference or a teacher does.
    #[must_use]
    pub fn frozen(&self) -> Self {
        let base_weights = self.base_weights.filter(|_| self.teacher.is_none());
        Self { task: Task::InferencePrefill, lora: None, base_weights, ..self.clone() }
    }

    /// The precision whose products take as long as those of the linear layers: fp8 with a scale for every block is timed as mxfp8.
    #[inline]
    pub fn timed_as(&self) -> Precision {
        match (self.precision, self.kernels.low_precision.scaling) {
            (Precision::Fp8, Scaling::Block) => Precision::Mxfp8,
            (precision, _) => precision,
        }
    }

    /// DeepSpeed's optimizer for bf16 keeps sums in fp32 beside the 16-bit gradients, and shards neither (deepspeedai/DeepSpeed,
    /// deepspeed/runtime/bf16_optimizer.py, `fp32_groups_gradients_flat`; "4 bytes x params and it's not sharded", bigscience-workshop/bigscience,
    /// train/tr11-176B-ml/chronicles-prequel.md).
    pub fn sums_beside_gradients(&self) -> bool {
        self.framework.id() == "megatron-deepspeed" && self.precision == Precision::Bf16
    }

    /// The product of a weight's gradient adds to the sum of earlier micro-batches, beside its arithmetic. So do the stacks on Transformer Engine.
    pub fn sums_gradients_in_products(&self) -> bool {
        self.framework.is_transformer_engine() && self.is_since(SINCE_FUSED_GRADIENT_SUMS)
    }

    /// Whether the software that runs is of this year or later.
    #[inline]
    pub fn is_since(&self, year: u32) -> bool {
        self.framework.year(self.framework_year).is_none_or(|own| own >= year)
    }

    pub fn is_compiled(&self) -> bool {
        self.kernels.compile || self.framework.is_compiled()
    }

    /// The stack runs NVIDIA's Transformer Engine, and is young enough to.
    #[inline]
    pub fn has_transformer_engine(&self) -> bool {
        self.framework.is_transformer_engine() && self.is_since(SINCE_TRANSFORMER_ENGINE)
    }

    /// Kernels written for Hopper and Blackwell: named, or those of Transformer Engine, or in 8 bits, which no others are.
    #[inline]
    pub fn uses_flash3(&self) -> bool {
        let engine = self.has_transformer_engine() || self.kernels.low_precision.attention;
        self.kernels.attention == Some(AttentionKernel::Flash3)
            || engine && self.kernels.attention != Some(AttentionKernel::Eager)
    }

    /// Fused attention that splits a sequence over multiprocessors, as every library of the time has it for causal text in 16 bits. It takes no mask of
    /// one's own, as encoders and diffusion transformers bring (pytorch, `scaled_dot_product_attention`), which get an older kernel.
    #[inline]
    pub fn uses_flash2(&self) -> bool {
        self.in_half_precision() && self.uses_flash() && self.is_since(SINCE_FLASH_ATTENTION_2)
    }

    /// The stated overlap; open: all of it on Transformer Engine, where the GPU is one that it is made for.
    #[inline]
    pub fn overlap(&self, made_for: bool) -> Overlap {
        let usual = if made_for && self.has_transformer_engine() { Overlap::ALL } else { Overlap::default() };
        self.synchronization.overlap.unwrap_or(usual)
    }

    /// The stated kernel; flash where half precision allows it and nothing was said, but for stacks whose recipes write attention in operators.
    #[inline]
    pub fn uses_flash(&self) -> bool {
        match self.kernels.attention {
            Some(kernel) => kernel != AttentionKernel::Eager,
            None => {
                self.in_half_precision() && self.is_since(SINCE_FLASH_ATTENTION) && !self.framework.writes_attention()
            }
        }
    }

    fn in_half_precision(&self) -> bool {
        self.precision.activation_bytes() < 4.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapter_targets_read_both_spellings() {
        let targets = LoraTargets::try_from(vec!["q_proj".to_owned(), "v".to_owned(), "lm_head".to_owned()]).unwrap();
        assert!(targets.q && targets.v && targets.head && !targets.k);
        assert_eq!(LoraTargets::try_from(vec!["all-linear".to_owned()]).unwrap(), LoraTargets::ALL_LINEAR);
        assert!(LoraTargets::try_from(vec!["w".to_owned()]).is_err());
    }
}
