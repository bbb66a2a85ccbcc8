//! Peak memory of a rank: what stays for the whole run, and the fullest moment of a step.
//!
//! `allocated = static + max(at the loss, at the first layer's backward, at the end of the backward)`: gradients grow
//! while activations die, so a plain sum of everything over-predicts by a tenth.

mod activations;
pub mod band;
pub mod constants;
mod frozen;
mod habits;
mod input;
mod moment;
#[cfg(test)]
mod properties;
mod states;
#[cfg(test)]
mod tests;

use crate::constants::MASKED_HEAD_SHARE;
use crate::doubts::Doubts;
use crate::machine::Machine;
use crate::memory::band::MemoryBand;
use crate::memory::constants::MemoryConstants;
use crate::memory::moment::Held;
use gpuplan_units::{Band, Bytes};
use gpuplan_workload::{LossKernel, Measure, ModelKind, Offload, Recompute, Task};

pub use crate::memory::habits::StackHabits;
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

    /// A figure on a machine: an allocator never holds more than the card has, and gives its cache back before a tensor fails.
    pub fn on(&self, machine: &Machine, measure: Measure, doubts: Doubts) -> Band {
        let (low, high) = MemoryBand::of(measure, doubts).factors();
        let made = Band::around(self.measured_as(measure), low, high);
        let capped = self.fits(machine) && matches!(measure, Measure::Reserved | Measure::Device);
        if capped { made.map(|bytes| bytes.min(machine.memory.0)) } else { made }
    }

    /// Chance that the live tensors fit, with context, communicators and the margin for fragments.
    pub fn chance_to_fit(&self, machine: &Machine, doubts: Doubts) -> f64 {
        let beside = self.needed - self.allocated;
        let room = machine.memory.0 - beside;
        if room <= 0.0 {
            return 0.0;
        }
        MemoryBand::of(Measure::Allocated, doubts).chance_within(self.allocated, room)
    }

    pub fn fits(&self, machine: &Machine) -> bool {
        Bytes(self.needed) <= machine.memory
    }
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
        let static_bytes =
            kept.weights + kept.adapter_weights + kept.optimizer + kept.stay_gathered + kept.dequantised + kept.buckets;
        let moment = if self.training.task.has_backward() {
            let held = Held { activations, rebuilt, logits, logits_kept };
            self.fullest_moment(&held, &shares, &kept, &gathered)
        } else {
            self.inference_state(tokens)
        };
        let allocated = static_bytes + moment + constants.workspace_bytes;
        let several = self.setting.gpus() > 1;
        let communicators = self.communicators();
        let reserved =
            allocated * (1.0 + if several { constants.fragmentation } else { constants.fragmentation_single });
        let context = habits::context_bytes(self.training, constants.context_bytes);
        let least = context + communicators * constants.nccl_least_bytes;
        let device = reserved + context + communicators * constants.nccl_bytes;
        MemoryBreakdown {
            weights: kept.weights + kept.adapter_weights + kept.stay_gathered,
            gradients: kept.gradients + kept.buckets,
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
            needed: (allocated - kept.spare) * (1.0 + constants.fit_margin) + least,
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
        let tensor = f64::from(layout.tensor);
        let hidden = f64::from(self.model.hidden);
        let recompute = self.setting.recompute;
        let layer = activations::Layer {
            model: self.model,
            training: self.training,
            sequence: self.sequence,
            autocast: self.autocasts(),
        };
        let one = activations::bytes_per_token(&layer, recompute, constants);
        let divided = |one: f64| match (layout.tensor > 1, layout.sequence_parallel) {
            (false, _) => one,
            (true, true) => one / tensor,
            // Without sequence parallelism norms and residuals are kept whole (Korthikanti et al. 2022, table 2).
            (true, false) => (one - 10.0 * hidden) / tensor + 10.0 * hidden,
        };
        let one = divided(one);
        let (in_flight, _) = self.in_flight();
        if !(self.setting.recomputes_layers() && self.can_recompute()) {
            return (tokens * one * layers * in_flight, 0.0);
        }
        let on_host = recompute == Recompute::Offload || self.training.memory.offload == Some(Offload::Activations);
        let input = activations::residual_bytes(&layer) * hidden / if layout.sequence_parallel { tensor } else { 1.0 };
        // The layer that is rebuilt keeps what a layer without recompute keeps, scores too.
        let rebuilt = tokens * divided(activations::bytes_per_token(&layer, Recompute::None, constants));
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
        let (at_loss, kept) = habits::loss_bytes(self.training).map_or((at_loss, kept), |own| (own, 0.0));
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
