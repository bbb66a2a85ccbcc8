//! [F4] to [F9] Time of one transformer layer and of the LM head for one micro-batch on one rank.

use crate::collectives::{self, Operation};
use crate::constants as c;
use crate::device::DeviceRates;
use crate::kernels::Attention;
use crate::measurements::correction::Corrected;
use crate::memory::adapted_matrices;
use crate::setting::Setting;
use crate::time::gemm;
use crate::time::input::StepInput;
use crate::time::kernels::RecipeKernels;
use gpuplan_units::Bytes;
use gpuplan_workload::operators::{Product, head_product, layer_products};
use gpuplan_workload::stack::SelectiveRecompute;
use gpuplan_workload::{Gemm, ModelKind, Recompute, Shard, Task, Training};

/// A message of this size takes its latency alone. Bytes.
const SMALL_MESSAGE: f64 = 8.0;
/// What a matrix unit loads at once.
const MATRIX_UNIT_BYTES: f64 = 16.0;

/// Passes over a layer in one micro-step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passes {
    /// 1 if the forward pass runs again in the backward pass.
    pub recomputed: f64,
    /// 1 if the attention core alone runs again.
    pub selective: f64,
    /// 1 if every second product runs again, and all that is no product.
    pub operators: f64,
    /// 1 if there is a backward pass.
    pub backward: f64,
    /// 1 if weights get gradients.
    pub weights: f64,
}

impl Passes {
    pub fn new(training: &Training, setting: &Setting) -> Self {
        let flag = |on: bool| if on { 1.0 } else { 0.0 };
        let backward = training.task.has_backward();
        let selective = backward && setting.recompute == Recompute::Selective;
        let whole = training.framework.selective_recompute();
        let selects = |what| selective && whole == what;
        Self {
            // Which layers is not said: every second one.
            recomputed: if selects(SelectiveRecompute::Layers) {
                0.5
            } else {
                flag(backward && setting.recomputes_layers())
            },
            selective: flag(selects(SelectiveRecompute::AttentionCore)),
            operators: flag(selects(SelectiveRecompute::Operators)),
            backward: flag(backward),
            weights: flag(backward && !training.task.has_adapters()),
        }
    }

    /// Forward, recomputed and backward passes, each with its own launches.
    fn launches(&self) -> f64 {
        1.0 + self.recomputed + self.operators + self.backward
    }
}

/// Seconds of one layer for one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerTime {
    pub linear: f64,
    pub attention: f64,
    pub elementwise: f64,
    pub tensor_parallel: f64,
    pub expert_exchange: f64,
    pub context_exchange: f64,
    pub dequantise: f64,
    /// Host time to launch the layer's kernels and collectives.
    pub launch: f64,
}

impl LayerTime {
    /// Arithmetic and memory traffic of the model itself.
    pub fn gpu(&self) -> f64 {
        self.linear + self.attention + self.elementwise
    }

    /// All that keeps the GPU busy, links included.
    pub fn busy(&self) -> f64 {
        self.gpu() + self.tensor_parallel + self.expert_exchange + self.context_exchange
    }
}

/// One micro-batch of a model on one rank.
pub struct LayerInput<'a> {
    pub step: &'a StepInput<'a>,
    pub passes: Passes,
    /// Tokens of a rank in one micro-step.
    pub tokens: f64,
    /// What the framework makes of the GPU's work, over what is modelled.
    pub work: f64,
    /// The same of kernel launches on the host.
    pub launch_factor: f64,
}

impl LayerInput<'_> {
    pub(super) fn tensor(&self) -> f64 {
        f64::from(self.step.setting.layout.tensor)
    }

    pub(super) fn fused(&self) -> f64 {
        if self.step.training.is_compiled() || self.step.training.framework.fuses_kernels() {
            self.step.constants.fused_share
        } else {
            1.0
        }
    }

    /// All three products of training for one forward product: as they were measured on this GPU, or else by the closed form.
    fn product(
        &self,
        product: Gemm,
        recomputed: f64,
        rates: &DeviceRates,
        measured: impl Fn(&RecipeKernels, Gemm) -> Option<[f64; 3]>,
    ) -> f64 {
        let (p, factors) = (self.passes, self.step.factors);
        let together =
            |[forward, input, weight]: [f64; 3]| forward * (1.0 + recomputed) + input * p.backward + weight * p.weights;
        match self.step.kernels.and_then(|kernels| measured(kernels, product)) {
            Some(alone) => {
                let one = Gemm { count: 1.0, ..product };
                together(alone) / rates.sustained * factors.compute.at_size(one.flops()).time
            }
            None => {
                let gradient =
                    |wanted: f64, of: Gemm| if wanted > 0.0 { gemm::seconds(of, rates, factors) } else { 0.0 };
                let forward = gemm::seconds(product, rates, factors);
                let input = gradient(p.backward, product.input_gradient());
                together([forward, input, gradient(p.weights, product.weight_gradient())])
            }
        }
    }

    /// Inputs and gradients of outputs in a format of fewer bits, once as they are and once transposed: a byte each beside the two read.
    fn converted(&self, product: Gemm, recomputed: f64) -> f64 {
        if self.step.kernels.is_none() || !self.step.training.precision.is_eight_bit_or_less() {
            return 0.0;
        }
        let p = self.passes;
        let elements = product.m * product.k * (1.0 + recomputed) + product.m * product.n * p.backward;
        let bytes = 4.0 * product.count * elements;
        self.streamed(bytes, bytes)
    }

    pub fn layer(&self) -> LayerTime {
        let linear = self.linear() * self.packed_share() * self.work;
        let attention = self.attention() * self.work;
        let weights = self.layer_weights();
        let moved = self.summed_gradients(weights) + self.copied_shards(weights);
        let elementwise = (self.elementwise() + self.permutation() + self.adapters() + moved) * self.work;
        let (transfer, latency) = self.tensor_parallel();
        let tensor_parallel = if self.overlaps_tensor_parallel() { self.exposed(transfer, linear) } else { transfer };
        let expert_exchange = self.expert_exchange();
        let context_exchange = self.context_exchange(attention);
        let launch = self.launch();
        let dequantise = self.dequantise();
        LayerTime {
            linear,
            attention,
            elementwise,
            tensor_parallel: tensor_parallel + latency,
            expert_exchange,
            context_exchange,
            dequantise,
            launch: launch + latency,
        }
    }

    /// [F4] The matrix products of a layer, split over tensor-parallel ranks.
    fn linear(&self) -> f64 {
        let layout = &self.step.setting.layout;
        let recomputed = self.passes.recomputed + 0.5 * self.passes.operators;
        // Selective recompute keeps every second plain product, and no grouped one (pytorch/torchtitan, `_op_sac_save_list`: `mm` and attention).
        let grouped = self.passes.recomputed + self.passes.operators;
        let work_out = || -> f64 {
            let products = layer_products(self.step.model, layout, self.tokens);
            let again = |product: &Product| if product.is_grouped() { grouped } else { recomputed };
            products.map(|product| self.linear_product(product.gemm, again(&product))).sum()
        };
        let Some(products) = self.step.products else { return work_out() };
        let shape = (layout.tensor, layout.expert, self.tokens.to_bits(), recomputed.to_bits());
        *products.0.borrow_mut().entry(shape).or_insert_with(work_out)
    }

    /// Recipes of few bits keep a part of the layers in 16.
    fn linear_product(&self, gemm: Gemm, recomputed: f64) -> f64 {
        let few_bits =
            self.product(gemm, recomputed, self.step.rates, RecipeKernels::product) + self.converted(gemm, recomputed);
        let half = self.step.training.kernels.low_precision.half_share;
        if half == 0.0 {
            return few_bits;
        }
        let rates = DeviceRates { matmul: self.step.rates.head, ..*self.step.rates };
        (1.0 - half) * few_bits + half * self.product(gemm, recomputed, &rates, RecipeKernels::half)
    }

    /// Decoding is bound by reading weights, and multiplies packed ones directly.
    fn packed_share(&self) -> f64 {
        match self.step.training.base_weights {
            Some(base) if self.step.training.task == Task::Inference => {
                base.bytes_per_weight() / self.step.rates.element_bytes
            }
            _ => 1.0,
        }
    }

    /// [F5] Scores and mixing. Flash: causal halves the work and the backward pass costs 2.5 forwards (Dao 2022, arXiv 2205.14135).
    fn attention(&self) -> f64 {
        let (m, p, t) = (self.step.model, self.passes, self.tensor());
        let scores = 4.0 * self.step.sequence * m.query_width() / t * self.tokens;
        if self.step.training.uses_flash() {
            let is_causal = !matches!(m.kind, ModelKind::Encoder | ModelKind::Vit);
            let shorter =
                if self.step.training.kernels.low_precision.attention { c::ATTENTION_IN_EIGHT_BITS } else { 1.0 };
            let flash2 = self.step.rates.flash2.filter(|_| is_causal && self.step.training.uses_flash2());
            if let Some(forward) = self.measured_attention(is_causal) {
                let backward = flash2.map_or(c::ATTENTION_BACKWARD, |_| 2.5 * c::FLASH2_FORWARD / c::FLASH2_BACKWARD);
                return shorter * forward * (1.0 + p.recomputed + backward * p.backward);
            }
            let (work, half_rate) =
                if is_causal { (0.5, c::FLASH_CAUSAL_SEQUENCE) } else { (1.0, c::FLASH_FULL_SEQUENCE) };
            let endless =
                self.step.rates.flash3.filter(|_| self.step.training.uses_flash3()).unwrap_or(self.step.rates.flash);
            let (forward, backward) =
                flash2.map_or((endless, endless), |peak| (peak * c::FLASH2_FORWARD, peak * c::FLASH2_BACKWARD));
            let at_length = self.step.sequence / (self.step.sequence + half_rate);
            let passes = (1.0 + p.recomputed) / forward + 2.5 * p.backward / backward;
            return shorter * scores * work * passes / at_length
                * self.step.factors.compute.at_size(scores * work).time;
        }
        let passes = 1.0 + p.recomputed + p.selective + 2.0 * p.backward;
        let score_count = self.tokens * f64::from(m.heads) / t * self.step.sequence;
        let traffic = self.step.constants.eager_score_bytes * self.fused() * self.step.rates.element_bytes / 2.0
            * score_count
            * passes
            / 3.0;
        scores * passes / self.scores_rate() * self.step.factors.compute.at_size(scores).time
            + self.streamed(traffic, score_count * self.step.rates.element_bytes)
    }

    /// FLOP/s of the products of unfused attention. Matrix units load 16 bytes at a time, so heads whose rows are no multiple of that are
    /// left to the vector units (NVIDIA, Matrix Multiplication Background, section 2.2).
    fn scores_rate(&self) -> f64 {
        let rates = self.step.rates;
        let row = f64::from(self.step.model.head_dim) * rates.element_bytes;
        if row % MATRIX_UNIT_BYTES == 0.0 { rates.matmul } else { rates.vector.min(rates.matmul) }
    }

    /// The forward kernel of a layer as it was measured on this GPU: of engines of 2025, so it stands for the kernels that were written
    /// for Hopper and Blackwell, and on chips before them for FlashAttention 2 of causal text, and not for those that training ran before.
    fn measured_attention(&self, is_causal: bool) -> Option<f64> {
        let (m, layout) = (self.step.model, &self.step.setting.layout);
        let newest = match self.step.rates.flash3 {
            Some(_) => self.step.training.uses_flash3(),
            None => is_causal && self.step.rates.flash2.is_some() && self.step.training.uses_flash2(),
        };
        if !newest {
            return None;
        }
        // Ranks of a ring share the scores of a sequence evenly.
        let sequences = self.tokens / self.step.sequence * f64::from(layout.context);
        let heads = sequences * f64::from(m.heads) / self.tensor();
        let length = self.step.sequence;
        // Engines measured attention together with writing keys and values to their cache, which training has not: hardly anything
        // where all heads share them.
        let attention = Attention { batch: 1.0, heads, kv_heads: 1.0, head_dim: m.head_dim, length, window: None };
        let alone = self.step.kernels?.attention(&attention, is_causal)? / f64::from(layout.context);
        let scores = 4.0 * self.step.sequence * m.query_width() / self.tensor() * self.tokens;
        Some(alone * self.step.factors.compute.at_size(scores * if is_causal { 0.5 } else { 1.0 }).time)
    }

    /// Bus bandwidth among GPUs that share the link, for a message of `bytes`.
    fn link_bus(&self, bytes: f64) -> f64 {
        self.step.machine.link_bus(self.step.constants) / self.step.factors.copy.at_size(bytes).time
    }

    /// Activations that tensor-parallel ranks reduce.
    pub fn message_bytes(&self) -> f64 {
        self.tokens * f64::from(self.step.model.hidden) * self.step.rates.element_bytes
    }

    /// What measurements say of arithmetic: the mean over the products of a layer and the head, at their sizes.
    pub fn corrected_compute(&self) -> Corrected {
        let layers = f64::from(self.step.model.layers.max(1));
        let products =
            layer_products(self.step.model, &self.step.setting.layout, self.tokens).map(|product| (product.gemm, 1.0));
        let head = head_product(self.step.model, &self.step.setting.layout, self.tokens)
            .map(|product| (product.gemm, 1.0 / layers));
        let sized = products.chain(head).map(|(gemm, part)| {
            let one = Gemm { count: 1.0, ..gemm };
            (self.step.factors.compute.at_size(one.flops()), part * gemm.flops())
        });
        Corrected::mean(sized).unwrap_or_else(|| self.step.factors.compute.overall())
    }

    /// [F8] All-reduces of the activations: two a pass. Returns transfer and latency.
    fn tensor_parallel(&self) -> (f64, f64) {
        let t = self.tensor();
        if t <= 1.0 {
            return (0.0, 0.0);
        }
        let bytes = self.message_bytes();
        let gpus = self.step.setting.gpus();
        let ranks = self.step.setting.layout.tensor;
        let inside = ranks.min(self.step.machine.link_domain(gpus));
        let topology = self.step.machine.topology(ranks, inside, gpus);
        // Split by tokens between the products, an all-reduce is the two halves that it is made of, which take the same time.
        let (operation, halves) = if self.step.setting.layout.sequence_parallel {
            (Operation::AllGather, 2.0)
        } else {
            (Operation::AllReduce, 1.0)
        };
        let once = |bytes: f64| halves * collectives::seconds(operation, Bytes(bytes), &topology).0;
        let latency = once(SMALL_MESSAGE);
        let transfer = (once(bytes) - latency).max(0.0);
        let measured = if inside < ranks { 1.0 } else { self.step.factors.copy.at_size(bytes).time };
        (self.reduces() * transfer * measured, self.reduces() * latency)
    }

    /// Pieces of an all-gather or a reduce-scatter run beside the product that needs them; an all-reduce waits for all of its product
    /// (Megatron-LM, `megatron/training/arguments.py`: `--tp-comm-overlap` "can happen only when sequence parallelism is enabled").
    fn overlaps_tensor_parallel(&self) -> bool {
        self.step.setting.layout.sequence_parallel
            && self.step.training.overlap(self.step.rates.flash3.is_some()).tensor_parallel
    }

    /// What is left of a transfer that runs beside arithmetic: all that outlasts it, and of the rest as large a share as of
    /// other overlapped traffic.
    fn exposed(&self, transfer: f64, arithmetic: f64) -> f64 {
        (transfer - arithmetic).max(0.0) + transfer.min(arithmetic) * self.step.constants.exposed_reduce
    }

    /// Ring attention passes keys and values around while scores are computed (Liu et al. 2023, arXiv 2310.01889).
    fn context_exchange(&self, attention: f64) -> f64 {
        let ranks = f64::from(self.step.setting.layout.context);
        if ranks <= 1.0 {
            return 0.0;
        }
        let p = self.passes;
        let bytes = 2.0 * self.step.model.kv_width() / self.tensor()
            * self.tokens
            * self.step.rates.element_bytes
            * (ranks - 1.0);
        let link = self.link_bus(bytes / (ranks - 1.0));
        let group = self.step.setting.layout.context * self.step.setting.layout.tensor;
        let inside = group <= self.step.machine.link_domain(self.step.setting.gpus());
        let bus = if inside {
            link
        } else {
            link.min(self.step.machine.network_bus(self.step.constants) / f64::from(self.step.machine.gpus_per_node))
        };
        let transfer = bytes * (1.0 + p.recomputed + 2.0 * p.backward) / bus;
        // A chunk travels while the scores of the one before are computed, so the first has nothing to hide behind.
        (transfer - attention).max(transfer / ranks)
    }

    /// [F7] Host time to launch every pass of the layer. A replayed graph takes a few microseconds however many kernels it
    /// holds (NVIDIA technical blog, "Constant Time Launch for Straight-Line CUDA Graphs", 2024), which is nothing here.
    fn launch(&self) -> f64 {
        if self.step.training.kernels.cuda_graphs {
            return 0.0;
        }
        let mut seconds = self.step.constants.launch_seconds * self.launch_factor;
        if self.step.training.is_compiled() {
            seconds *= self.step.constants.launch_compiled;
        }
        seconds *= self.launched_operators();
        if self.step.setting.layout.shard == Shard::Zero3 && self.step.setting.layout.copies() > 1 {
            seconds += self.step.constants.launch_gather_seconds * self.gathers();
        }
        (seconds * self.passes.launches() + self.reduces() * self.step.constants.launch_collective_seconds)
            * self.step.rates.host_time
    }

    /// Gathers of sharded weights in a layer's pass.
    fn gathers(&self) -> f64 {
        let by_matrix = self.step.training.framework.gathers_matrices();
        if by_matrix { c::ATTENTION_MATRICES + self.step.model.mlp_matrices() } else { 1.0 }
    }

    /// Operators of a layer's pass over those of a decoder's layer whose weights are all trained in 16 bits.
    fn launched_operators(&self) -> f64 {
        let training = self.step.training;
        let counted = self.step.model.deviations.diffusion.filter(|layer| layer.operators > 0.0);
        let adapters = if training.task.has_adapters() { self.step.constants.launch_adapters } else { 1.0 };
        let quantised = if training.base_weights.is_some() { self.step.constants.launch_quantised } else { 1.0 };
        let Some(layer) = counted else { return adapters * quantised };
        let adapted = training.lora.as_ref().map_or(0, |lora| adapted_matrices(self.step.model, lora.targets).count());
        layer.operators / c::DECODER_LAYER_OPERATORS
            + (adapters - 1.0) * adapted as f64 / c::DECODER_MATRICES
            + (quantised - 1.0) * c::DIFFUSION_MATRICES / c::DECODER_MATRICES
    }

    /// Host time to launch embedding, head and loss: as many kernels as a layer, without gathers.
    pub fn head_launch(&self) -> f64 {
        if self.step.training.kernels.cuda_graphs {
            return 0.0;
        }
        self.step.constants.launch_seconds * self.launch_factor * self.passes.launches() * self.step.rates.host_time
    }

    /// All-reduces of the activations in a micro-step: two a pass.
    fn reduces(&self) -> f64 {
        let p = self.passes;
        if self.step.setting.layout.tensor > 1 { 2.0 * (1.0 + p.recomputed) + 2.0 * p.backward } else { 0.0 }
    }

    /// Unpacking 4-bit base weights costs the same for every micro-step, however few its tokens.
    fn dequantise(&self) -> f64 {
        if self.step.training.base_weights.is_none() || self.step.training.task == Task::Inference {
            return 0.0;
        }
        let weights = self.step.model.layer_parameters() / self.tensor();
        let bytes = weights * self.step.constants.dequantise_bytes;
        self.streamed(bytes * self.passes.launches(), bytes)
    }

    /// [F9] LM head with its loss, on the last pipeline stage.
    pub fn head(&self) -> f64 {
        let m = self.step.model;
        let share = match (m.kind, self.step.training.task) {
            (ModelKind::Vit, _) => 0.0,
            (ModelKind::Encoder, Task::Pretrain) => c::MASKED_HEAD_SHARE,
            (ModelKind::Encoder, _) => 0.0,
            _ => 1.0,
        };
        let Some(product) = head_product(m, &self.step.setting.layout, self.tokens).filter(|_| share > 0.0) else {
            return 0.0;
        };
        let rates = DeviceRates { matmul: self.step.rates.head, ..*self.step.rates };
        let mut seconds = self.product(product.gemm, 0.0, &rates, RecipeKernels::half);
        let logits = self.tokens * product.gemm.n;
        seconds += self.streamed(logits * self.logit_bytes(), logits * self.step.rates.element_bytes);
        let weights = product.gemm.n * product.gemm.k;
        seconds += self.summed_gradients(weights) + self.copied_shards(weights);
        seconds * share * self.work
    }
}
