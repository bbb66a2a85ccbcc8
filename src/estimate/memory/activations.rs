//! Activations that one layer keeps for the backward pass, tensor by tensor. Bytes per token, 16-bit unless said.
//!
//! Checks: SwiGLU with flash attention, compiled, full training gives h(12 + 4k/a) + 8f; GPT with dropout and eager
//! attention gives 34h + 5as (Korthikanti et al. 2022, arXiv 2205.05198, section 4).

use crate::memory::constants::MemoryConstants;
use crate::memory::habits::{self, StackHabits};
use gpuplan_workload::{LayerStack, Model, NormKind, Recompute, Training};

/// Bytes that one layer keeps per token, before tensor-parallel division.
pub fn bytes_per_token(layer: &Layer, recompute: Recompute, constants: &MemoryConstants) -> f64 {
    let Layer { model, training, .. } = *layer;
    let element = training.precision.activation_bytes() / 2.0;
    if recompute == Recompute::Selective && training.framework.recomputes_operators() {
        return kept_operators(model) * element;
    }
    let tensors = norms(layer)
        + adapters(model, training, constants)
        + attention(layer, constants)
        + feed_forward(model, training, constants)
        + modulation(layer);
    let scores = if training.uses_flash() || recompute != Recompute::None { 0.0 } else { scores(layer) };
    tensors * element + scores
}

/// The layer's input, what attention gives, and every second product of the layer. Grouped products of routed experts are not in the list of what
/// is kept (pytorch/torchtitan, torchtitan/models/llama4/infra/parallelize.py, `_op_sac_save_list`), and run again.
fn kept_operators(model: &Model) -> f64 {
    let (hidden, query) = (f64::from(model.hidden), model.query_width());
    let width = match model.experts {
        None => f64::from(model.ffn_hidden),
        Some(experts) => f64::from(experts.ffn_hidden) * f64::from(experts.shared_experts),
    };
    let products = query + 2.0 * model.kv_width() + hidden + (model.mlp_matrices() - 1.0) * width + hidden;
    2.0 * hidden + 2.0 * query + 4.0 * f64::from(model.heads) + 2.0 * products / 2.0
}

/// Of a stack of layers, what decides the bytes of one.
#[derive(Clone, Copy)]
pub struct Layer<'a> {
    pub model: &'a Model,
    pub training: &'a Training,
    pub sequence: f64,
    /// Products alone run in 16 bits.
    pub autocast: bool,
}

/// Bytes of a value of the stream that layers add to. Wan's own layers cast what they add to it to fp32 (Wan-Video/Wan2.1, wan/modules/model.py,
/// `WanAttentionBlock.forward`: `with amp.autocast(dtype=torch.float32): x = x + y * e[2]`), and forks multiply by `e`, which is fp32. Under autocast it is
/// what the embedding in fp32 began, where a diffusion transformer begins with a product.
pub fn residual_bytes(layer: &Layer) -> f64 {
    let is_wide = layer.model.deviations.diffusion.map_or(layer.autocast, |layer| layer.residual_in_fp32);
    if is_wide { 4.0 } else { layer.training.precision.activation_bytes() }
}

/// The same over that of what layers multiply.
fn width_of_residual(layer: &Layer) -> f64 {
    residual_bytes(layer) / layer.training.precision.activation_bytes()
}

fn frozen(training: &Training) -> bool {
    training.task.has_adapters()
}

/// bitsandbytes' layers, as against torchao's `NF4Tensor`, which torchtune uses and which keeps the 4-bit weight alone.
fn uses_bitsandbytes(training: &Training) -> bool {
    training.base_weights.is_some() && training.framework.id() != "torchtune"
}

/// A plain frozen matrix does not need its input; bitsandbytes keeps it all the same.
fn keeps_linear_inputs(training: &Training) -> bool {
    !frozen(training) || uses_bitsandbytes(training)
}

/// Norm inputs, and norm outputs where the next matrix keeps its input.
fn norms(layer: &Layer) -> f64 {
    let Layer { model, training, .. } = *layer;
    let hidden = f64::from(model.hidden);
    let upcasts = model.norm == NormKind::Rms && StackHabits::for_training(training).upcasts_norms;
    let one = match (upcasts, frozen(training)) {
        (false, _) => 2.0 * hidden * width_of_residual(layer),
        (true, true) => 4.0 * hidden,
        (true, false) => 8.0 * hidden,
    };
    let count = match (model.parallel_residual && model.norm == NormKind::Layer, model.attention_softcap) {
        (true, _) => 1.0,
        (false, true) => 4.0,
        (false, false) => 2.0,
    };
    let outputs = if keeps_linear_inputs(training) { 2.0 * linear_input_bytes(training) * hidden } else { 0.0 };
    let dropouts = if training.dropout { 2.0 * hidden } else { 0.0 };
    one * count + outputs + dropouts
}

/// Each adapted input group keeps its dropout output and mask, or its plain input.
fn adapters(model: &Model, training: &Training, constants: &MemoryConstants) -> f64 {
    let mut bytes =
        if uses_bitsandbytes(training) { constants.quantised_surplus_bytes * f64::from(model.hidden) } else { 0.0 };
    let Some(lora) = training.lora.as_ref().filter(|_| frozen(training)) else { return bytes };
    let kept = match (lora.dropout, keeps_linear_inputs(training)) {
        (true, _) => 3.0,
        (false, true) => 0.0,
        (false, false) => 2.0,
    };
    let t = lora.targets;
    let gated = model.mlp_matrices() > 2.0;
    // Transformer Engine's attention writes what the projection reads; elsewhere its heads are copied side by side first.
    let same_tensor = training.has_transformer_engine() && !lora.dropout;
    let groups = [
        (t.q || t.k || t.v, f64::from(model.hidden)),
        (t.o && !same_tensor, model.query_width()),
        (t.up, f64::from(model.hidden)),
        // Gate and up read one tensor; only their dropouts make two of it.
        (t.gate && gated && (lora.dropout || !t.up), f64::from(model.hidden)),
        (t.down && !training.is_compiled(), f64::from(model.ffn_hidden)),
    ];
    bytes += groups.iter().filter(|(on, _)| *on).map(|(_, width)| kept * width).sum::<f64>();
    bytes
}

/// Rotated queries and keys, values and output, plus 4 bytes of log-sum-exp a head.
fn attention(layer: &Layer, constants: &MemoryConstants) -> f64 {
    let Layer { model, training, sequence, .. } = *layer;
    let (query, kv) = (model.query_width(), model.kv_width());
    let expands = StackHabits::for_training(training).expands_kv;
    let width = if expands { query } else { kv };
    // Multi-head attention takes v as a view of the fused qkv buffer, which keeps all three.
    let values = if expands && model.kv_heads == model.heads && frozen(training) {
        2.0 * (query + 2.0 * kv)
    } else {
        2.0 * width
    };
    let heads = f64::from(model.heads);
    let mut bytes = 2.0 * query + 2.0 * width + values + 2.0 * query + 4.0 * heads;
    match model.stack {
        // Normed input, queries and output of cross attention.
        Some(LayerStack::Decoder { .. }) => bytes += 4.0 * f64::from(model.hidden) + 4.0 * query + 4.0 * heads,
        // Keys and values of the decoder's layers.
        Some(LayerStack::Encoder { decoder_layers }) => {
            bytes += 4.0 * kv * f64::from(decoder_layers) / f64::from(model.layers.max(1));
        }
        None => {}
    }
    if model.attention_softcap {
        bytes += constants.softcap_score_bytes * heads * sequence;
    }
    bytes
}

/// Scores that attention in operators keeps, those of cross attention too.
fn scores(layer: &Layer) -> f64 {
    let crossed = match layer.model.stack {
        Some(LayerStack::Decoder { encoder_tokens }) => encoder_tokens,
        _ => 0.0,
    };
    f64::from(layer.model.heads) * (layer.sequence + crossed) * habits::score_bytes(layer.training, layer.autocast)
}

/// Queries and keys before their norms; and where weights have gradients, what is scaled and shifted by the time step: both norms, and
/// what attention and the feed-forward block give (Peebles and Xie 2022, arXiv 2212.09748, section 3.2).
fn modulation(layer: &Layer) -> f64 {
    let Layer { model, training, .. } = *layer;
    if model.deviations.diffusion.is_none() {
        return 0.0;
    }
    let norms = if model.query_key_norm.is_some() { 2.0 * (model.query_width() + model.kv_width()) } else { 0.0 };
    let of_norms = 2.0 * 2.0 * width_of_residual(layer);
    let modulated = if frozen(training) { 0.0 } else { (of_norms + 2.0 * 2.0) * f64::from(model.hidden) };
    norms + modulated
}

/// Bytes of an element of a product's input: Transformer Engine saves it as it was quantised (NVIDIA/TransformerEngine,
/// transformer_engine/pytorch/module/linear.py).
fn linear_input_bytes(training: &Training) -> f64 {
    if training.has_transformer_engine() && training.precision.is_eight_bit_or_less() { 1.0 } else { 2.0 }
}

/// A gated block keeps gate, activated gate and up; a plain one its input; and the down projection its own input. Megatron's fused SwiGLU
/// keeps gate and up alone (NVIDIA/Megatron-LM, megatron/core/fusions/fused_bias_swiglu.py), in eight bits in the published LoRA recipes of
/// 8-bit arithmetic (`FP8_ACTIVATION=True`, mlcommons/training_results_v5.0, llama2_70b_lora).
fn feed_forward(model: &Model, training: &Training, constants: &MemoryConstants) -> f64 {
    let width = match model.experts {
        None => f64::from(model.ffn_hidden),
        Some(experts) => f64::from(experts.ffn_hidden) * f64::from(experts.experts_per_token + experts.shared_experts),
    };
    let gated = model.mlp_matrices() > 2.0;
    let engine = training.has_transformer_engine();
    let compiled_frozen = training.is_compiled() && frozen(training);
    let mut bytes = match (gated, compiled_frozen) {
        (true, _) if engine && frozen(training) => 2.0 * linear_input_bytes(training) * width,
        (true, _) if engine => 4.0 * width,
        (true, false) => 6.0 * width,
        (true, true) => 4.0 * width,
        (false, _) => 2.0 * width,
    };
    if keeps_linear_inputs(training) && !compiled_frozen {
        bytes += linear_input_bytes(training) * (width + permuted(model, training));
    }
    if frozen(training) && !training.is_compiled() && !engine {
        bytes += 2.0 * width * constants.frozen_down_share;
    }
    bytes
}

/// Values of a token's copies, one for each of its experts, which these read and keep side by side (NVIDIA/Megatron-LM,
/// megatron/core/transformer/moe/experts.py, `TEGroupedMLP.forward`: `permuted_local_hidden_states`).
fn permuted(model: &Model, training: &Training) -> f64 {
    let experts = model.experts.filter(|_| training.framework.is_megatron());
    experts.map_or(0.0, |experts| f64::from(model.hidden) * f64::from(experts.experts_per_token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_workload::Models;
    use gpuplan_workload::{AttentionKernel, Framework, MlpKind, Task};

    fn layer<'a>(model: &'a Model, training: &'a Training, sequence: f64) -> Layer<'a> {
        Layer { model, training, sequence, autocast: false }
    }

    #[test]
    fn the_compiled_llama_layer_is_twelve_h_plus_eight_f() {
        let model = Models::embedded().unwrap().find("llama-2-7b").unwrap().to_model();
        let mut training = Training::new(Task::Pretrain, 4096);
        training.kernels.compile = true;
        let (h, f) = (4096.0, 11008.0);
        let bytes = bytes_per_token(&layer(&model, &training, 4096.0), Recompute::None, MemoryConstants::embedded());
        assert!((bytes / (h * 16.0 + 8.0 * f + 4.0 * 32.0) - 1.0).abs() < 1e-9, "{bytes}");
    }

    /// Megatron-Core's norms are Transformer Engine's, whoever configures them: they keep no copies in fp32, as norms in PyTorch's operators do.
    #[test]
    fn the_layer_of_nemo_is_megatron_s() {
        let model = Models::embedded().unwrap().find("llama-3.1-8b").unwrap().to_model();
        let of = |framework: &str| {
            let mut training = Training::new(Task::Pretrain, 8192);
            training.framework = Framework::new(framework);
            bytes_per_token(&layer(&model, &training, 8192.0), Recompute::None, MemoryConstants::embedded())
        };
        assert_eq!(of("nemo"), of("megatron"));
        assert!(of("nemo") < of("pytorch-eager") - 8.0 * 4096.0, "{} {}", of("nemo"), of("pytorch-eager"));
    }

    #[test]
    fn the_gpt_layer_with_dropout_is_korthikanti_s() {
        let mut model = Models::embedded().unwrap().find("llama-2-7b").unwrap().to_model();
        (model.mlp, model.norm, model.ffn_hidden) = (MlpKind::Gelu, NormKind::Layer, 4 * 4096);
        let mut training = Training::new(Task::Pretrain, 2048);
        (training.dropout, training.kernels.attention) = (true, Some(AttentionKernel::Eager));
        training.framework = Framework::new("megatron");
        let (h, a, s) = (4096.0, 32.0, 2048.0);
        let bytes = bytes_per_token(&layer(&model, &training, s), Recompute::None, MemoryConstants::embedded());
        assert!((bytes / (34.0 * h + 5.0 * a * s + 4.0 * a) - 1.0).abs() < 1e-9, "{bytes}");
    }
}
