//! What a rank holds for the whole run: its share of weights, gradients and optimizer states, and quantised weights.

use crate::memory::constants::MemoryConstants;
use crate::memory::habits;
use crate::memory::input::MemoryInput;
use gpuplan_workload::training::LoraTargets;
use gpuplan_workload::{BaseWeights, FsdpStyle, Lora, Model, Offload, Optimizer, Precision, Shard, Training};

/// Bytes of the moving average of a weight: diffusers and timm keep it in fp32.
const EMA_BYTES: f64 = 4.0;

/// Parameters of one rank after tensor, pipeline and expert division, before data-parallel sharding.
pub(super) struct Shares {
    /// Experts and all others.
    pub(super) linear: f64,
    /// Those of `linear` that are of experts.
    pub(super) experts: f64,
    pub(super) embedding: f64,
    pub(super) other: f64,
    /// Layers of the fullest stage.
    pub(super) layers: f64,
}

/// Bytes that stay for the whole run.
pub(super) struct Static {
    pub(super) weights: f64,
    pub(super) optimizer: f64,
    pub(super) gradients: f64,
    /// Messages of gradients that lie beside them.
    pub(super) buckets: f64,
    pub(super) adapter_weights: f64,
    /// FSDP1 weights that are gathered and never freed.
    pub(super) stay_gathered: f64,
    pub(super) dequantised: f64,
    /// What a flag of the stack would save: sums of gradients in 16 bits.
    pub(super) spare: f64,
}

impl MemoryInput<'_> {
    pub(super) fn trains_whole_model(&self) -> bool {
        self.training.task.has_backward() && !self.training.task.has_adapters()
    }

    /// Embedding matrices this stack holds: one if tied.
    pub(super) fn embedding_copies(&self) -> f64 {
        if self.model.tied_embeddings { 1.0 } else { 2.0 }
    }

    pub(super) fn head_parameters(&self) -> f64 {
        self.model.embedding_parameters() / f64::from(self.setting.layout.tensor)
    }

    pub(super) fn shares(&self) -> Shares {
        let (model, layout) = (self.model, &self.setting.layout);
        let (tensor, pipeline) = (f64::from(layout.tensor), f64::from(layout.pipeline));
        let all_layers = f64::from(model.layers + model.encoder_layers);
        let has_experts = model.experts.is_some();
        let mlp = model.mlp_parameters() / if has_experts { f64::from(layout.expert) } else { 1.0 };
        let layer = model.attention_parameters() + mlp + model.idle_parameters();
        let (layers, units) = self.fullest_stage(layer / model.embedding_parameters().max(1.0));
        let cross = model.cross_attention_parameters();
        let counted =
            all_layers * model.layer_parameters() + cross + self.embedding_copies() * model.embedding_parameters();
        let alone = layout.model_parallel() == 1 && layout.expert == 1;
        Shares {
            linear: (layers * layer + cross / pipeline) / tensor,
            experts: if has_experts { layers * mlp / tensor } else { 0.0 },
            embedding: units * model.embedding_parameters() / tensor,
            // Norms, biases, positions: what the source counts beyond matrices.
            other: if alone { (model.parameters - counted).max(0.0) } else { 0.0 },
            layers,
        }
    }

    /// Layers and embedding matrices of the fullest stage, for a layer of so many embeddings. Where the layers do not divide over the stages
    /// and would with two more, the embedding and the head count as one layer each: DeepSpeed's `type:transformer|embedding`, with which
    /// BLOOM's 70 layers went over 12 stages (bigscience, train/tr11-176B-ml/chronicles-prequel.md, "Rebalancing layers"), and Llama 3's
    /// 126 over 16 (arXiv 2407.21783, section 3.3.2).
    fn fullest_stage(&self, layer_over_embedding: f64) -> (f64, f64) {
        let stages = self.setting.layout.pipeline;
        let all = self.model.layers + self.model.encoder_layers;
        if stages == 1 {
            return (f64::from(all), self.embedding_copies());
        }
        if all.is_multiple_of(stages) || !(all + 2).is_multiple_of(stages) {
            return (f64::from(all.div_ceil(stages)), 1.0);
        }
        let even = f64::from((all + 2) / stages);
        if stages > 2 && layer_over_embedding > 1.0 { (even, 0.0) } else { (even - 1.0, 1.0) }
    }

    /// Bytes of a plain weight.
    fn weight_bytes(&self) -> f64 {
        match self.training.precision {
            Precision::Fp32 | Precision::Tf32 | Precision::AmpFp16 => 4.0,
            _ if self.autocasts() => 4.0,
            _ => 2.0,
        }
    }

    pub(super) fn autocasts(&self) -> bool {
        habits::autocasts(self.training, self.setting.layout.shard)
    }

    /// Gradient and optimizer bytes of a trained parameter beside its weight.
    fn state_bytes(&self, constants: &MemoryConstants) -> (f64, f64) {
        let full = self.weight_bytes() > 2.0;
        let gradient = if full || self.sums_in_fp32() { 4.0 } else { 2.0 };
        // Weights that are fp32 already need no master copy.
        let mixed = if full { 8.0 } else { 12.0 };
        match self.training.optimizer {
            _ if !self.training.task.has_optimizer() => (gradient, 0.0),
            None | Some(Optimizer::Adamw | Optimizer::Lamb) if self.training.sums_beside_gradients() => {
                (gradient + 4.0, mixed)
            }
            Some(Optimizer::AdamwBf16) => (gradient, 4.0),
            Some(Optimizer::Adamw8bit) => (gradient, 2.1),
            Some(Optimizer::AdamwPaged) => (gradient, 0.0),
            // ZeRO-1 averages a flattened 16-bit copy of the gradients; FSDP's are flat already.
            Some(Optimizer::AdamwFlatFp32) if self.setting.layout.shard == Shard::Zero1 => {
                (gradient, constants.flat_fp32_bytes + 2.0)
            }
            Some(Optimizer::AdamwFlatFp32) => (gradient, constants.flat_fp32_bytes),
            Some(Optimizer::AdamwFp32Gradients) => (4.0, mixed),
            // One moment instead of two; Adafactor keeps only row and column sums (Shazeer and Stern 2018, arXiv 1804.04235).
            Some(Optimizer::Sgd | Optimizer::Lars) => (gradient, mixed - 4.0),
            Some(Optimizer::Adafactor) => (gradient, mixed - 8.0),
            Some(Optimizer::Adamw | Optimizer::Lamb) => (gradient, mixed),
            None if self.training.precision == Precision::PureBf16 || self.training.task.has_adapters() => {
                (gradient, 4.0)
            }
            None => (gradient, mixed),
        }
    }

    pub(super) fn sums_in_fp32(&self) -> bool {
        habits::sums_in_fp32(self.training, self.setting.layout.shard)
    }

    /// A pipeline of FSDP2 stages gathers its weights once a step and sums whole gradients in fp32 until the last micro-batch (pytorch/torchtitan,
    /// torchtitan/models/llama3/infra/parallelize.py, `reshard_after_forward_policy`; torch/distributed/pipelining/stage.py, `backward_maybe_with_nosync`).
    fn keeps_stage_whole(&self) -> bool {
        let layout = &self.setting.layout;
        self.training.framework.id() == "torchtitan"
            && self.trains_whole_model()
            && matches!(layout.shard, Shard::Zero3 | Shard::Hsdp)
            && layout.pipeline > 1
            && self.setting.micro_steps() > 1.0
    }

    /// Bytes of the weights of a rank, and those of them that are of experts: frozen ones that are multiplied in eight bits and fewer are stored in eight bits on Transformer Engine
    /// (mlcommons/training_results_v5.1, llama2_70b_lora: 70 billion weights and an 8,192-token pass on one MI300X or B200).
    fn plain_weights(&self, shares: &Shares) -> (f64, f64) {
        let rest = self.weight_bytes() * (shares.embedding + shares.other);
        let stored =
            if self.training.task.has_adapters() && self.stores_eight_bits() { 1.0 } else { self.weight_bytes() };
        (stored * shares.linear + rest, stored * shares.experts)
    }

    /// Transformer Engine keeps what it has quantised for a product, and not the 16-bit original.
    pub(super) fn stores_eight_bits(&self) -> bool {
        self.training.has_transformer_engine() && self.training.precision.is_eight_bit_or_less()
    }

    /// What is left on a rank of so much where data-parallel ranks split it. An expert is on every e-th rank alone, where e ranks share the
    /// experts of a layer out, so that `experts` of it are split over e times fewer ranks.
    fn split(&self, whole: f64, experts: f64) -> f64 {
        let layout = &self.setting.layout;
        let ranks = f64::from(layout.sharded_over());
        let of_an_expert = (ranks / f64::from(layout.expert)).max(1.0);
        (whole - experts) / ranks + experts / of_an_expert
    }

    /// Adapter parameters of one rank.
    pub(super) fn adapter_parameters(&self, layers: f64) -> f64 {
        let Some(lora) = self.training.lora.as_ref().filter(|_| self.training.task.has_adapters()) else { return 0.0 };
        adapter_parameters(self.model, lora, layers, f64::from(self.setting.layout.tensor))
    }

    pub(super) fn held_throughout(&self, shares: &Shares, constants: &MemoryConstants) -> Static {
        let layout = &self.setting.layout;
        let style = self.training.memory.fsdp;
        let splits_weights = matches!(layout.shard, Shard::Zero3 | Shard::Hsdp);
        let no_sync = matches!(style, Some(FsdpStyle::OneNoSync | FsdpStyle::OneWeightsStayGathered))
            && self.setting.micro_steps() > 1.0;
        let splits_gradients = matches!(layout.shard, Shard::Zero2 | Shard::Zero3 | Shard::Hsdp) && !no_sync;
        let plain = shares.linear + shares.embedding + shares.other;
        let over = |splits: bool, whole: f64, experts: f64| if splits { self.split(whole, experts) } else { whole };
        let (weights, on_every_rank) = match self.training.base_weights {
            None => {
                let (all, experts) = self.plain_weights(shares);
                (over(splits_weights, all, experts), 0.0)
            }
            Some(base) => self.quantised_weights(shares, base, splits_weights),
        };
        let adapters = self.adapter_parameters(shares.layers);
        let (trained, experts) = if self.trains_whole_model() { (plain, shares.experts) } else { (adapters, 0.0) };
        let (gradient_bytes, optimizer_bytes) = self.state_bytes(constants);
        let (gradient_bytes, splits_gradients) =
            if self.keeps_stage_whole() { (4.0, false) } else { (gradient_bytes, splits_gradients) };
        let on_host = self.training.memory.offload == Some(Offload::Parameters);
        let stays = style == Some(FsdpStyle::OneWeightsStayGathered) && layout.shard == Shard::Zero3
            || self.keeps_stage_whole();
        let stays = stays && layout.copies() > 1;
        let present = |bytes: f64| if on_host { 0.0 } else { bytes };
        let backward = self.training.task.has_backward();
        // Averaged where the weights are: split where they are split, whole where they are whole.
        let average = if self.training.ema { EMA_BYTES * over(splits_weights, trained, experts) } else { 0.0 };
        let gradients = if backward { gradient_bytes * over(splits_gradients, trained, experts) } else { 0.0 };
        let gradients = present(gradients);
        Static {
            weights: present(weights) + on_every_rank,
            optimizer: present(if backward {
                optimizer_bytes * over(layout.shard != Shard::None, trained, experts) + average
            } else {
                0.0
            }),
            gradients,
            spare: if self.sums_in_fp32() { gradients / 2.0 } else { 0.0 },
            buckets: if backward && habits::copies_gradients_to_buckets(self.training, layout.shard, layout.copies()) {
                gradient_bytes * trained
            } else if backward {
                2.0 * habits::bucket_elements(self.training, layout.shard).min(trained)
            } else {
                0.0
            },
            adapter_weights: present(2.0 * over(splits_weights, adapters, 0.0)),
            stay_gathered: if stays { 2.0 * (shares.linear + shares.embedding) } else { 0.0 },
            dequantised: self.dequantised(),
        }
    }

    /// Bytes that are sharded and may be offloaded, and bytes that every rank keeps on its GPU: FSDP1 manages the packed
    /// digits alone and does not know of the block constants; FSDP2 shards both.
    fn quantised_weights(&self, shares: &Shares, base: BaseWeights, splits: bool) -> (f64, f64) {
        let head = if self.training.memory.head_quantized { self.head_parameters() } else { 0.0 };
        let quantised = shares.linear + head;
        let plain = (shares.embedding + shares.other - head).max(0.0);
        let base = stored(base, self.training);
        let constants = quantised * (base.bytes_per_weight() - base.packed_bytes());
        let over = |whole: f64, experts: f64| if splits { self.split(whole, experts) } else { whole };
        let sharded = base.packed_bytes() * over(quantised, shares.experts) + 2.0 * over(plain, 0.0);
        if self.training.memory.fsdp == Some(FsdpStyle::Two) {
            (sharded + over(constants, constants * shares.experts / quantised.max(1.0)), 0.0)
        } else {
            (sharded, constants)
        }
    }

    /// Two 16-bit copies of the largest quantised matrix.
    fn dequantised(&self) -> f64 {
        if self.training.base_weights.is_none() {
            return 0.0;
        }
        let m = self.model;
        let hidden = f64::from(m.hidden);
        let largest = [
            hidden * (m.query_width() + 2.0 * m.kv_width()),
            m.query_width() * hidden,
            hidden * f64::from(m.ffn_hidden),
        ];
        let largest = largest.into_iter().fold(0.0, f64::max);
        let head = if self.training.memory.head_quantized { m.embedding_parameters() } else { 0.0 };
        2.0 * 2.0 * largest.max(head)
    }
}

/// How a stack writes plain NF4: torchao's `NF4Tensor` (torchtune) and bitsandbytes' `Linear4bit` used directly (FSDP-QLoRA,
/// whose `compress_statistics` is on by default) quantise the block constants again; LitGPT and transformers when asked.
fn stored(base: BaseWeights, training: &Training) -> BaseWeights {
    match (base, training.framework.id()) {
        (BaseWeights::Nf4, "torchtune" | "fsdp") => BaseWeights::Nf4Dq,
        _ => base,
    }
}

/// Parameters of adapters beside the attention of a diffusion model, for each rank and parameter: Stable Diffusion XL has 1.45 million
/// a rank in 70 layers (queries, keys, values and outputs, as diffusers' `train_text_to_image_lora_sdxl.py` adapts them) of 2.57
/// billion. Of other such models this is the order of magnitude, and adapters are a hundredth of what is held.
const DIFFUSION_ADAPTERS: f64 = 1.4515e6 / 2.5675e9;

/// Parameters of the adapters of `layers` layers, whose matrices are split over `tensor` ranks.
pub fn adapter_parameters(model: &Model, lora: &Lora, layers: f64, tensor: f64) -> f64 {
    if !model.kind.is_transformer() {
        return f64::from(lora.rank) * DIFFUSION_ADAPTERS * model.parameters;
    }
    let layer: f64 = adapted_matrices(model, lora.targets).map(|(input, output)| input + output).sum();
    let head = if lora.targets.head { f64::from(model.hidden) + f64::from(model.vocab) } else { 0.0 };
    f64::from(lora.rank) * (layer * layers / tensor + head)
}

/// Widths of input and output of each matrix of a layer that has an adapter.
pub fn adapted_matrices(model: &Model, targets: LoraTargets) -> impl Iterator<Item = (f64, f64)> {
    let (hidden, ffn, query, kv) =
        (f64::from(model.hidden), f64::from(model.ffn_hidden), model.query_width(), model.kv_width());
    let gated = model.mlp_matrices() > 2.0;
    [
        (targets.q, hidden, query),
        (targets.k, hidden, kv),
        (targets.v, hidden, kv),
        (targets.o, query, hidden),
        (targets.up, hidden, ffn),
        (targets.gate && gated, hidden, ffn),
        (targets.down, ffn, hidden),
    ]
    .into_iter()
    .filter_map(|(on, input, output)| on.then_some((input, output)))
}
