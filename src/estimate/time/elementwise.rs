//! [F6], [F9] What is no product: norms, positions, gates, residuals, adapters, the loss, and sums of gradients, as bytes over bandwidth.

use crate::constants as c;
use crate::memory::{StackHabits, adapted_matrices};
use crate::time::layer::LayerInput;
use gpuplan_workload::{LossKernel, ModelKind, NormKind, Precision, Shard};

/// Bytes that PyTorch's operators read and write for a value of 16 bits, forward and backward, where they run one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Operators {
    forward: f64,
    backward: f64,
}

/// RMSNorm written in operators (huggingface/transformers, src/transformers/models/llama/modeling_llama.py, `LlamaRMSNorm.forward`). Forward
/// the cast to fp32 (2 + 4), the square (4 + 4), its mean (4), the product with the root (4 + 4), the cast back (4 + 2) and the product with
/// the weight (2 + 2). Backward the gradient through the weight (2 + 2), of the cast (2 + 4), through the product with the root (4 + 4) and
/// of the root (4 + 4 + 4, summed 4), the mean spread out (4), that of the square (4 + 4, 4 + 4 + 4), both added (4 + 4 + 4) and cast back
/// (4 + 2), and the gradient of the weight (2 + 2 + 2, summed 2).
const RMS_NORM: Operators = Operators { forward: 36.0, backward: 84.0 };
/// Rotary positions of queries and keys (the same file, `apply_rotary_pos_emb`). Forward the product with the cosine (2 + 2), half of it
/// negated (1 + 1), both halves joined (2 + 2), the product with the sine (2 + 2) and the sum (4 + 2). Backward both products (4 + 4), a half
/// negated (1 + 1), each half written into zeros of the whole (2 + 1 + 1), and three gradients added (6 + 6).
const ROTARY: Operators = Operators { forward: 20.0, backward: 30.0 };
/// A gate (the same file, `LlamaMLP.forward`): its activation (2 + 2) and the product (4 + 2); backward both gradients of the product
/// (6 + 6) and that of the activation (4 + 2).
const GATE: Operators = Operators { forward: 10.0, backward: 18.0 };
/// What a layer does beside them for each value of the hidden size: two residuals (6 each) and heads copied side by side (4); backward as
/// much, and the gradients of what queries, keys and values, and gate and up, have read are added (three sums of 6).
const LAYER: Operators = Operators { forward: 16.0, backward: 34.0 };
/// Bytes of a logit under PyTorch's cross entropy (torch.nn.functional.cross_entropy on logits that are cast to fp32): the cast (2 + 4), the
/// logarithm of the softmax (4 + 4); backward the zeros that the loss's gradient is written into (4), that of the logarithm (4 + 4 + 4) and
/// of the cast (4 + 2).
const CROSS_ENTROPY: f64 = 36.0;
/// Bytes of a logit in training, and where nothing is trained; `logits_traffic` multiplies them.
const LOGIT: f64 = 16.0;
const LOGIT_FORWARD: f64 = 4.0;

impl LayerInput<'_> {
    /// [F6] Norms, activations, residuals.
    pub(super) fn elementwise(&self) -> f64 {
        let p = self.passes;
        if self.runs_operators() && self.step.model.norm == NormKind::Rms {
            return self.operators();
        }
        if let Some(layer) = self.step.model.deviations.diffusion.filter(|layer| layer.eager_elements > 0.0) {
            let pass = self.tokens * layer.eager_elements * self.repeated_hidden() * self.step.rates.element_bytes;
            let passes = 1.0 + p.recomputed + p.operators + 2.0 * p.backward;
            let casts = if self.step.training.precision == Precision::AmpFp16 { c::AUTOCAST_ELEMENTS } else { 1.0 };
            return self.streamed(pass * casts * self.fused() * passes, self.kernel_bytes());
        }
        let width = 0.5 * self.repeated_hidden() + 0.5 * self.ffn_width() * (1.0 + 0.5 * self.gates()) / 4.0;
        let bytes = self.step.constants.elementwise_bytes * self.fused() * self.step.rates.element_bytes / 2.0
            * self.tokens
            * width;
        self.streamed(bytes * (1.0 + p.recomputed + p.operators + 2.0 * p.backward) / 3.0, self.kernel_bytes())
    }

    /// The same where each operator of PyTorch is a kernel of its own, counted in the source of such layers; nothing is fitted.
    fn operators(&self) -> f64 {
        let (m, p) = (self.step.model, self.passes);
        let hidden = self.repeated_hidden();
        let norms = if m.attention_softcap { 4.0 } else { 2.0 };
        let has_rotary = matches!(m.kind, ModelKind::Decoder | ModelKind::Moe);
        let rotated = if has_rotary { (m.query_width() + m.kv_width()) / self.tensor() } else { 0.0 };
        let gated = if self.gates() > 0.0 { GATE } else { Operators { forward: 4.0, backward: 6.0 } };
        let pass = |of: fn(Operators) -> f64| {
            hidden * (norms * of(RMS_NORM) + of(LAYER)) + rotated * of(ROTARY) + self.ffn_width() * of(gated)
        };
        let forward = pass(|one| one.forward) * (1.0 + p.recomputed + p.operators);
        let bytes = self.tokens * (forward + pass(|one| one.backward) * p.backward);
        self.streamed(bytes, self.kernel_bytes())
    }

    /// All weights are trained in 16 bits by a stack that runs PyTorch's operators one after the other: nothing compiles them, and it has no
    /// kernels of its own. What the layers of a frozen base move is in the constants of adapters, which were fitted on such stacks.
    fn runs_operators(&self) -> bool {
        let training = self.step.training;
        let habits = StackHabits::for_training(training);
        let fused = training.framework.recipe(|stack| &stack.fused_kernels) == Some(true);
        // FlashAttention's cross entropy comes with its norms and rotary positions.
        let own_kernels = fused || habits.loss == LossKernel::Bf16Chunked && training.kernels.loss.is_none();
        self.passes.weights > 0.0
            && !training.framework.is_open()
            && self.step.rates.element_bytes == 2.0
            && !own_kernels
            && habits.upcasts_norms
    }

    /// Hidden values of a token on a rank.
    fn repeated_hidden(&self) -> f64 {
        let split = if self.step.setting.layout.sequence_parallel { self.tensor() } else { 1.0 };
        f64::from(self.step.model.hidden) / split
    }

    /// Feed-forward values of a token on a rank.
    fn ffn_width(&self) -> f64 {
        let m = self.step.model;
        let width = match m.experts {
            None => f64::from(m.ffn_hidden),
            Some(experts) => {
                f64::from(experts.ffn_hidden) * f64::from(experts.experts_per_token + experts.shared_experts)
            }
        };
        width / self.tensor()
    }

    fn gates(&self) -> f64 {
        self.step.model.mlp_matrices() - 2.0
    }

    /// [F9] Bytes that the loss moves for a logit.
    pub(super) fn logit_bytes(&self) -> f64 {
        let training = self.step.training;
        // Logits are cast where the loss runs under autocast, or the stack casts them.
        let casts = match StackHabits::for_training(training).loss {
            LossKernel::HfUpcast => true,
            LossKernel::Fp32 => training.precision != Precision::PureBf16,
            _ => false,
        };
        if casts && self.runs_operators() {
            return CROSS_ENTROPY;
        }
        let fused = if training.is_compiled() { self.step.constants.fused_share } else { 1.0 };
        let bytes = if self.passes.backward > 0.0 { LOGIT } else { LOGIT_FORWARD };
        fused * self.step.constants.logits_traffic * bytes
    }

    /// [F6] What adapters move that a stack keeps in fp32. That of others is in the constants, which were fitted on them, but for layers whose
    /// operators were counted.
    pub(super) fn adapters(&self) -> f64 {
        let training = self.step.training;
        let Some(lora) = training.lora.as_ref().filter(|_| training.task.has_adapters()) else { return 0.0 };
        let is_counted = self.step.model.deviations.diffusion.is_some_and(|layer| layer.eager_elements > 0.0);
        let (forward, backward) = match (training.framework.casts_adapters(), is_counted) {
            (true, _) => (c::PEFT_FORWARD_BYTES, c::PEFT_BACKWARD_BYTES),
            (false, true) => (c::ADAPTER_FORWARD_BYTES, c::ADAPTER_BACKWARD_BYTES),
            (false, false) => return 0.0,
        };
        let p = self.passes;
        let dropout = if lora.dropout { c::PEFT_DROPOUT_BYTES } else { 0.0 };
        let pass = |(input, output): (f64, f64), (k, n): (f64, f64)| (input + dropout) * k + output * n;
        let bytes: f64 = adapted_matrices(self.step.model, lora.targets)
            .map(|widths| pass(forward, widths) * (1.0 + p.recomputed) + pass(backward, widths) * p.backward)
            .sum();
        self.streamed(bytes * self.tokens / self.tensor(), self.kernel_bytes())
    }

    /// Weights of an average layer on a rank, all of its experts included.
    pub(super) fn layer_weights(&self) -> f64 {
        let (m, layout) = (self.step.model, &self.step.setting.layout);
        let experts = if m.experts.is_some() { f64::from(layout.expert) } else { 1.0 };
        (m.attention_parameters() + m.mlp_parameters() / experts) / self.tensor()
    }

    /// [F6] What a micro-step adds to the gradients of those before it. Sharded gradients are reduced in every micro-step, and sums of a shard
    /// take no time to speak of.
    pub(super) fn summed_gradients(&self, weights: f64) -> f64 {
        let whole = matches!(self.step.setting.layout.shard, Shard::None | Shard::Zero1);
        let steps = self.step.setting.micro_steps();
        if !whole || self.passes.weights == 0.0 || steps <= 1.0 || self.step.training.sums_gradients_in_products() {
            return 0.0;
        }
        let beside = self.step.training.sums_beside_gradients();
        let values = if beside { c::SUMMED_VALUES_BESIDE } else { c::SUMMED_VALUES };
        let bytes = values * self.step.weight_bytes() * weights;
        self.streamed(bytes * (steps - 1.0) / steps, bytes)
    }

    /// [F11] Where every parameter is sharded on its own, what was gathered is copied out into whole parameters, and their gradients into the
    /// message that is reduced, by kernels in line with the arithmetic (pytorch/pytorch, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py
    /// at 8fc2039dec, `foreach_all_gather_copy_out` and `foreach_reduce`, both of the current stream). Each reads and writes a value once,
    /// however few the tokens.
    pub(super) fn copied_shards(&self, weights: f64) -> f64 {
        let (step, p) = (self.step, self.passes);
        let layout = &step.setting.layout;
        let gathers = match layout.shard {
            Shard::Zero3 | Shard::Hsdp => 1.0 + p.backward,
            Shard::Zero2 => 1.0 / step.setting.micro_steps(),
            Shard::None | Shard::Zero1 => return 0.0,
        };
        if layout.copies() <= 1 || !step.training.framework.copies_shards() {
            return 0.0;
        }
        let gathered = weights * 2.0 * step.gathered_bytes() * gathers;
        let reduced = weights * (step.rates.element_bytes + step.gradient_bytes()) * p.weights;
        self.streamed(gathered + reduced, weights * 2.0 * step.gathered_bytes())
    }

    /// Seconds to move `bytes` by kernels of which each moves `of_kernel`.
    pub(super) fn streamed(&self, bytes: f64, of_kernel: f64) -> f64 {
        bytes / self.step.rates.memory_bandwidth * self.step.factors.memory.at_size(of_kernel).time
    }

    /// What a norm reads and writes stands for the element-wise kernels of a layer.
    pub fn kernel_bytes(&self) -> f64 {
        2.0 * self.tokens * f64::from(self.step.model.hidden) * self.step.rates.element_bytes
    }
}
