//! Peak memory of a rank: what stays for the whole run, and the fullest moment of a step.
//!
//! `allocated = static + max(at the loss, at the first layer's backward, at the end of the backward)`: gradients grow
//! while activations die, so a plain sum of everything over-predicts by a tenth.

mod activations;
pub mod constants;
mod frozen;
mod input;
#[cfg(test)]
mod properties;
mod states;
#[cfg(test)]
mod tests;

use crate::constants::MASKED_HEAD_SHARE;
use crate::machine::Machine;
use crate::memory::constants::MemoryConstants;
use crate::memory::states::{Shares, Static};
use gpuplan_units::{Band, Bytes};
use gpuplan_workload::{FsdpStyle, LossKernel, Measure, ModelKind, Offload, Recompute, Shard, Task};

pub use crate::memory::activations::StackHabits;
pub use crate::memory::input::MemoryInput;
pub use crate::memory::states::{adapted_matrices, adapter_parameters};

/// Bytes of one rank by what holds them, at the fullest moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryBreakdown {
    pub weights: f64,
    pub gradients: f64,
    pub optimizer: f64,
    pub activations: f64,
    pub logits: f64,
    /// Layers gathered from other ranks, dequantised copies, rebuilt layers.
    pub workspace: f64,
    /// Keys and values of a served model.
    pub cache: f64,
    /// Context, collectives' buffers and fragmentation.
    pub overhead: f64,
    pub allocated: f64,
    pub reserved: f64,
    /// What nvidia-smi shows.
    pub device: f64,
    /// Live tensors, context and collectives: what the card must hold once the allocator has given its cache back.
    pub required: f64,
    /// `required` with the margin of the fit decision.
    pub needed: f64,
    /// Weights, gradients, optimizer states and activations alone, as papers count.
    pub analytic: f64,
}

impl MemoryBreakdown {
    pub fn measured_as(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Allocated => self.allocated,
            Measure::Reserved => self.reserved,
            Measure::Device => self.device,
            Measure::Analytic => self.analytic,
        }
    }

    /// Part by part, `share` of the way from this to `other`.
    #[must_use]
    pub fn towards(&self, other: &Self, share: f64) -> Self {
        let between = |from: f64, to: f64| from + (to - from) * share;
        Self {
            weights: between(self.weights, other.weights),
            gradients: between(self.gradients, other.gradients),
            optimizer: between(self.optimizer, other.optimizer),
            activations: between(self.activations, other.activations),
            logits: between(self.logits, other.logits),
            workspace: between(self.workspace, other.workspace),
            cache: between(self.cache, other.cache),
            overhead: between(self.overhead, other.overhead),
            allocated: between(self.allocated, other.allocated),
            reserved: between(self.reserved, other.reserved),
            device: between(self.device, other.device),
            required: between(self.required, other.required),
            needed: between(self.needed, other.needed),
            analytic: between(self.analytic, other.analytic),
        }
    }

    /// Band of a figure: published peaks over prediction, 10th and 90th percentile.
    pub fn band(measure: Measure) -> (f64, f64) {
        match measure {
            Measure::Allocated | Measure::Analytic => (0.92, 1.12),
            Measure::Reserved | Measure::Device => (0.92, 1.20),
        }
    }

    /// A figure on a machine: an allocator never holds more than the card has, and gives its cache back before a tensor fails.
    pub fn on(&self, machine: &Machine, measure: Measure) -> Band {
        let (low, high) = Self::band(measure);
        let made = Band::around(self.measured_as(measure), low, high);
        let capped = self.fits(machine) && matches!(measure, Measure::Reserved | Measure::Device);
        if capped { made.map(|bytes| bytes.min(machine.memory.0)) } else { made }
    }

    pub fn fits(&self, machine: &Machine) -> bool {
        Bytes(self.needed) <= machine.memory
    }
}

/// Units gathered from other ranks, and their gradients.
#[derive(Default)]
struct Gathered {
    layers: f64,
    layer_gradients: f64,
    root: f64,
    root_gradients: f64,
    root_stays: bool,
}

impl MemoryInput<'_> {
    /// With the constants of the last fit.
    pub fn breakdown(&self) -> MemoryBreakdown {
        self.breakdown_with(MemoryConstants::embedded())
    }

    pub fn breakdown_with(&self, constants: &MemoryConstants) -> MemoryBreakdown {
        let shares = self.shares();
        let kept = self.held_throughout(&shares, constants);
        let gathered = self.gathered(&shares, &kept, constants);
        let tokens = f64::from(self.setting.micro_batch) * self.sequence / f64::from(self.setting.layout.context);
        let (activations, rebuilt) = self.activations(shares.layers, constants);
        let (logits, logits_kept) = self.logits(tokens, constants);
        let backward = self.training.task.has_backward();
        let whole = self.trains_whole_model();
        let gradients = if self.training.memory.optimizer_in_backward { 0.0 } else { kept.gradients };
        let carried = match (whole, self.setting.micro_steps() > 1.0) {
            (true, true) => gradients,
            (true, false) => 0.0,
            (false, _) => kept.gradients,
        };
        let head_gradient = if whole { self.head_gradient() } else { 0.0 };
        let carried = carried.max(head_gradient);
        let static_bytes = kept.weights + kept.adapter_weights + kept.optimizer + kept.stay_gathered + kept.dequantised;
        let moment = if backward {
            let at_loss = activations + logits + gathered.root + carried + gathered.layers / 2.0;
            let root = if gathered.root_stays { gathered.root } else { 0.0 };
            let first_layer = activations
                + logits_kept
                + rebuilt
                + gathered.layers
                + gathered.layer_gradients
                + root
                + gathered.root_gradients
                + carried;
            let tied_copy = if whole && self.model.tied_embeddings { 2.0 * self.head_parameters() } else { 0.0 };
            let at_end = if whole {
                gradients + tied_copy + gathered.root + gathered.root_gradients + gathered.layers
            } else {
                0.0
            };
            at_loss.max(first_layer).max(at_end)
        } else {
            self.inference_state(tokens)
        };
        let allocated = static_bytes + moment + constants.workspace_bytes;
        let several = self.setting.gpus() > 1;
        let communicators = self.communicators();
        let reserved =
            allocated * (1.0 + if several { constants.fragmentation } else { constants.fragmentation_single });
        let least = constants.context_bytes + communicators * constants.nccl_least_bytes;
        let device = reserved + constants.context_bytes + communicators * constants.nccl_bytes;
        MemoryBreakdown {
            weights: kept.weights + kept.adapter_weights + kept.stay_gathered,
            gradients: kept.gradients,
            optimizer: kept.optimizer,
            activations,
            logits,
            workspace: gathered.layers
                + gathered.root
                + gathered.layer_gradients
                + gathered.root_gradients
                + kept.dequantised
                + rebuilt,
            cache: 0.0,
            overhead: device - allocated + constants.workspace_bytes,
            allocated,
            reserved,
            device,
            required: allocated + least,
            needed: allocated * (1.0 + constants.fit_margin) + least,
            analytic: kept.weights + kept.gradients + kept.optimizer + activations,
        }
    }

    /// Communicators of NCCL in units of the one that every parallel run has. Each kind of parallelism has its own with its own buffers; those
    /// beside the first span fewer ranks or hold point-to-point channels only, and count half (judged).
    fn communicators(&self) -> f64 {
        let layout = &self.setting.layout;
        let kinds = [layout.data, layout.tensor, layout.pipeline, layout.context];
        let kinds = kinds.iter().filter(|degree| **degree > 1).count();
        if kinds == 0 { 0.0 } else { 0.5 + 0.5 * kinds as f64 }
    }

    fn gathered(&self, shares: &Shares, kept: &Static, constants: &MemoryConstants) -> Gathered {
        let layout = &self.setting.layout;
        if !matches!(layout.shard, Shard::Zero3 | Shard::Hsdp) || layout.copies() <= 1 {
            return Gathered::default();
        }
        let two = self.training.memory.fsdp == Some(FsdpStyle::Two) || self.training.memory.fsdp.is_none();
        let weight = if self.training.base_weights.is_some() { 0.5 } else { 2.0 };
        let layer = weight * shares.linear / shares.layers.max(1.0);
        let head = 2.0 * self.head_parameters();
        let mut gathered = Gathered {
            // The current layer and the prefetched one.
            layers: 2.0 * layer,
            layer_gradients: 0.0,
            root: if two { head } else { head * self.embedding_copies() },
            root_gradients: 0.0,
            root_stays: !two,
        };
        if kept.stay_gathered > 0.0 {
            (gathered.layers, gathered.root) = (0.0, 0.0);
        }
        if self.trains_whole_model() {
            // Where weights stay gathered, gradients of a layer are added to the whole ones.
            gathered.layer_gradients = if kept.stay_gathered > 0.0 && two { 0.0 } else { 2.0 * layer };
            gathered.root_gradients = gathered.root * if two { 1.0 } else { constants.root_gradient_copies };
        } else {
            gathered.layers += 2.0 * 2.0 * self.adapter_parameters(shares.layers) / shares.layers.max(1.0);
            if self.training.task.has_backward() && self.training.memory.fsdp == Some(FsdpStyle::OneWeightsStayGathered)
            {
                // Whole blocks are one flat parameter, so a gradient of its adapters is a gradient of the block.
                gathered.layer_gradients = constants.flat_gradient_copies * layer;
            }
        }
        if self.training.memory.offload == Some(Offload::Parameters) {
            // The rank's own piece visits the GPU before the gather.
            gathered.layers *= 1.0 + 1.0 / f64::from(layout.sharded_over());
        }
        gathered
    }

    /// Gradient of the LM head, the first one to be born.
    fn head_gradient(&self) -> f64 {
        let layout = &self.setting.layout;
        let split = matches!(layout.shard, Shard::Zero2 | Shard::Zero3 | Shard::Hsdp);
        2.0 * self.head_parameters() / if split { f64::from(layout.sharded_over()) } else { 1.0 }
    }

    /// Activations kept by all layers of the stage, and the one layer rebuilt under full recompute.
    fn activations(&self, layers: f64, constants: &MemoryConstants) -> (f64, f64) {
        if !self.training.task.has_backward() {
            return (0.0, 0.0);
        }
        let Some(stacks) = self.model.stacks(self.sequence) else {
            return self.activations_of_stack(layers, constants);
        };
        // Both stacks keep theirs until the backward pass; one layer at a time is rebuilt.
        let beside = self.model.text_tower.map_or(self.model.encoder_layers, |_| 0);
        let all_layers = f64::from(self.model.layers + beside);
        stacks.iter().fold((0.0, 0.0), |(kept, rebuilt), (model, sequence)| {
            let stack = MemoryInput { model, sequence: *sequence, ..*self };
            let (more, other) = stack.activations_of_stack(layers * f64::from(model.layers) / all_layers, constants);
            (kept + more, f64::max(rebuilt, other))
        })
    }

    fn activations_of_stack(&self, layers: f64, constants: &MemoryConstants) -> (f64, f64) {
        let layout = &self.setting.layout;
        let tokens = f64::from(self.setting.micro_batch) * self.sequence / f64::from(layout.context);
        let (tensor, pipeline) = (f64::from(layout.tensor), f64::from(layout.pipeline));
        let hidden = f64::from(self.model.hidden);
        let recompute = self.setting.recompute;
        let one = activations::bytes_per_token(self.model, self.training, recompute, self.sequence, constants);
        let divided = |one: f64| match (layout.tensor > 1, layout.sequence_parallel) {
            (false, _) => one,
            (true, true) => one / tensor,
            // Without sequence parallelism norms and residuals are kept whole (Korthikanti et al. 2022, table 2).
            (true, false) => (one - 10.0 * hidden) / tensor + 10.0 * hidden,
        };
        let one = divided(one);
        // 1F1B: the first stage holds as many micro-batches as there are stages.
        let mut in_flight = if layout.pipeline > 1 { pipeline.min(self.setting.micro_steps()) } else { 1.0 };
        if layout.virtual_pipeline > 1 {
            in_flight *= 1.0 + (pipeline - 1.0) / (pipeline * f64::from(layout.virtual_pipeline));
        }
        if !(self.setting.recomputes_layers() && self.can_recompute()) {
            return (tokens * one * layers * in_flight, 0.0);
        }
        let on_host = recompute == Recompute::Offload || self.training.memory.offload == Some(Offload::Activations);
        let input = activations::residual_bytes(self.model, self.training) * hidden
            / if layout.sequence_parallel { tensor } else { 1.0 };
        // The layer that is rebuilt keeps what a layer without recompute keeps, scores too.
        let rebuilt = tokens
            * divided(activations::bytes_per_token(
                self.model,
                self.training,
                Recompute::None,
                self.sequence,
                constants,
            ));
        (if on_host { 0.0 } else { tokens * input * layers * in_flight }, rebuilt)
    }

    /// LitGPT passes activation checkpointing to its FSDP strategy only; one GPU has none (litgpt/finetune/full.py, `setup`).
    fn can_recompute(&self) -> bool {
        self.training.framework.id() != "litgpt" || self.setting.gpus() > 1
    }

    /// Logits at the loss, and what of them is still there during the layers' backward pass.
    fn logits(&self, tokens: f64, constants: &MemoryConstants) -> (f64, f64) {
        if !self.training.task.has_backward() || self.model.vocab == 0 || self.model.kind == ModelKind::Vit {
            return (0.0, 0.0);
        }
        // As in the time of the head: a fine-tuned encoder has none, a masked one predicts what is masked.
        let share = match (self.model.kind, self.training.task) {
            (ModelKind::Encoder, Task::Pretrain) => MASKED_HEAD_SHARE,
            (ModelKind::Encoder, _) => 0.0,
            _ => 1.0,
        };
        let entries = share * tokens * f64::from(self.model.vocab) / f64::from(self.setting.layout.tensor);
        let (at_loss, kept) = match StackHabits::for_training(self.training).loss {
            LossKernel::FusedLinear => return (self.fused_linear_loss(share * tokens), 0.0),
            LossKernel::Chunked => (constants.loss_chunked_bytes, 0.0),
            LossKernel::Bf16Chunked => (constants.loss_half_chunked_bytes, 0.0),
            LossKernel::Fp32 => (constants.loss_fp32_bytes, 0.0),
            LossKernel::Compiled => (constants.loss_compiled_bytes, 0.0),
            LossKernel::HfUpcast => (constants.loss_upcast_bytes, constants.loss_upcast_kept_bytes),
        };
        (entries * at_loss, entries * kept)
    }

    /// A chunk of 16-bit logits that is as large as the hidden values, the gradients of those, and that of a trained head, which waits for the
    /// backward pass (linkedin/Liger-Kernel, src/liger_kernel/ops/fused_linear_cross_entropy.py, `fused_linear_cross_entropy_forward`:
    /// `inc_factor = cdiv(V, H)`, `chunk_size = next_power_of_2(cdiv(BT, inc_factor))`, and `ctx.save_for_backward`).
    fn fused_linear_loss(&self, tokens: f64) -> f64 {
        const HALF: f64 = 2.0;
        let hidden = f64::from(self.model.hidden);
        let vocab = f64::from(self.model.vocab) / f64::from(self.setting.layout.tensor);
        let rows = (tokens / (vocab / hidden).ceil()).ceil().log2().ceil().exp2().min(tokens);
        let head = if self.trains_whole_model() { vocab * hidden } else { 0.0 };
        HALF * (rows * vocab + tokens * hidden + head)
    }

    /// KV cache in 16 bit and the widest working tensors of a prompt.
    fn inference_state(&self, tokens: f64) -> f64 {
        let cache = self
            .model
            .latent
            .map_or(4.0 * self.model.kv_width(), |latent| 2.0 * f64::from(latent.kv_rank + latent.rope_head));
        let layers = f64::from(self.model.layers) / f64::from(self.setting.layout.pipeline);
        // Cross attention keeps keys and values of the encoder's tokens.
        let stacks = self.model.stacks(self.sequence).filter(|_| self.model.encoder_layers > 0);
        let encoded = stacks.map_or(0.0, |[(_, tokens), _]| tokens);
        let encoded = encoded * f64::from(self.setting.micro_batch);
        cache * layers * (tokens + encoded) / f64::from(self.setting.layout.tensor)
            + 8.0 * f64::from(self.model.hidden) * tokens.max(encoded)
    }
}
