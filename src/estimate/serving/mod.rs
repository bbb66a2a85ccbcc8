//! One replica of a served model: what fits, what a prompt and a pass over all running sequences take, what a load makes of it.
//!
//! A pass adds one token to every running sequence (continuous batching: Yu et al., "Orca", OSDI'22) and reads prompts beside
//! it, some tokens a pass (Agrawal et al., "Sarathi-Serve", OSDI'24, arXiv 2403.02310). A pass is a roofline over the products
//! of [F4] with stored weights, plus reading keys and values. In a steady state `b` sequences run where requests come at
//! `b / (A D(b) + b P)` a second: each takes `P` of the GPUs for its prompt and a `b`th of `A` passes `D(b)` for its answer.

pub mod disaggregated;
mod eight_bits;
mod engine;
mod images;
pub mod load;
mod measured;
mod one_pass;
pub mod prefill;
pub mod round;
mod speech;

use crate::constants::{self as c, Constants};
use crate::device::DeviceRates;
use crate::machine::Machine;
use crate::measurements::correction::{Correction, Factors};
use crate::serving::eight_bits::{multiplies_in_eight, rates};
use crate::serving::engine::{EngineCosts, Measured};
use crate::serving::prefill::PrefillEstimate;
use crate::time::gemm;
use gpuplan_units::Quantiles;
use gpuplan_workload::operators::{head_product, layer_products};
use gpuplan_workload::{Gemm, Layout, Model, ModelKind, Serving, Training, Workload};

/// Share of a GPU's memory that an engine takes: the default of vLLM (`gpu_memory_utilization`) and, of what weights leave, of
/// TensorRT-LLM (`free_gpu_memory_fraction`).
const MEMORY_SHARE: f64 = 0.9;
/// Context, collectives and captured graphs. Bytes; judged, beside the 1 to 2 GB that training runs show.
pub(super) const ENGINE_BYTES: f64 = 1.5e9;
/// Tokens of a block of keys and values, of which a sequence wastes half of one (Kwon et al. 2023, arXiv 2309.06180, section 4.3).
const BLOCK_TOKENS: f64 = 16.0;
/// Prompt tokens read in one pass while answers are waited for, and where nobody waits: the defaults of vLLM's chunked prefill
/// (`max_num_batched_tokens`, 2048) and of TensorRT-LLM (`max_num_tokens`, 8192).
const PASS_TOKENS_SERVICE: f64 = 2048.0;
const PASS_TOKENS_JOB: f64 = 8192.0;
/// Sequences that run at once on one replica: the default of TensorRT-LLM (`max_batch_size`).
pub const MOST_SEQUENCES: u32 = 2048;
/// Scheduling, sampling and copying of a pass that the GPU waits for, an engine between one that overlaps all of it and one
/// that overlaps little. Seconds; judged.
const HOST_SECONDS: f64 = 1e-3;
/// Kernels of a layer in a captured graph, and what each takes to begin and end. Seconds; judged.
pub(super) const LAYER_KERNELS: f64 = 10.0;
pub(super) const KERNEL_SECONDS: f64 = 2e-6;
/// One all-reduce of a few kilobytes: every rank reads from all others at once, there and back.
const REDUCE_HOPS: f64 = 2.0;

/// Seconds of a pass by where they go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassTime {
    pub matmul: f64,
    /// Of `matmul`, what waits for weights to be read.
    pub reading: f64,
    pub attention: f64,
    pub elementwise: f64,
    pub head: f64,
    /// Host, and kernels that begin and end.
    pub launch: f64,
    pub tensor_parallel: f64,
    pub pipeline: f64,
}

impl PassTime {
    pub fn total(&self) -> f64 {
        self.matmul + self.attention + self.elementwise + self.head + self.launch + self.tensor_parallel + self.pipeline
    }

    /// `self` and `times` of `other`.
    #[must_use]
    pub fn plus(self, other: Self, times: f64) -> Self {
        Self {
            matmul: self.matmul + times * other.matmul,
            reading: self.reading + times * other.reading,
            attention: self.attention + times * other.attention,
            elementwise: self.elementwise + times * other.elementwise,
            head: self.head + times * other.head,
            launch: self.launch + times * other.launch,
            tensor_parallel: self.tensor_parallel + times * other.tensor_parallel,
            pipeline: self.pipeline + times * other.pipeline,
        }
    }
}

/// Memory of one GPU of a replica. Bytes, and the sequences that fit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplicaMemory {
    pub weights: f64,
    pub workspace: f64,
    /// Of keys and values, for one token.
    pub token: f64,
    /// For one sequence, as much as the engine keeps for it on average.
    pub sequence: f64,
    /// For keys and values of all sequences.
    pub cache: f64,
    /// Sequences that fit; 0: not one at its full length.
    pub sequences: u32,
    /// What the card must have for one sequence.
    pub least: f64,
}

/// What one kind of replica does under a load, in the units of people who wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServingEstimate {
    /// Running at once, spare ones not counted.
    pub replicas: u32,
    /// Sequences that may run at once on one replica: what the engine is told.
    pub batch_limit: u32,
    /// Sequences that do so on average, under this load.
    pub batch: f64,
    /// Of all replicas, under this load and at most.
    pub requests_per_second: f64,
    pub most_requests_per_second: f64,
    pub first_token: Quantiles<f64>,
    /// Between two tokens of an answer; zero where there is none.
    pub per_token: f64,
    /// One prompt alone, and one pass over all running sequences.
    pub prompt_seconds: f64,
    pub pass_seconds: f64,
    /// Of one GPU.
    pub cache_bytes_per_token: f64,
    /// Machines of one replica, and replicas of one machine: one of the two is 1.
    pub nodes_each: u32,
    pub on_a_node: u32,
    /// Copies that read prompts for these; `None`: the same GPUs do both.
    pub prefill: Option<PrefillEstimate>,
}

/// A model on the GPUs of one replica, asked for many loads.
pub struct Replica<'a> {
    pub(super) constants: &'a Constants,
    pub(super) model: &'a Model,
    pub(super) training: &'a Training,
    pub(super) serving: &'a Serving,
    pub(super) machine: Machine<'a>,
    pub(super) factors: Factors<'a>,
    pub(super) rates: DeviceRates,
    /// Bytes of an element between two layers.
    pub(super) activation_bytes: f64,
    pub(super) layout: Layout,
    /// Tokens of a request as the layers see them: patches of an image.
    pub(super) prompt: f64,
    /// Prompt tokens of a pass.
    pass_tokens: f64,
    /// Kernels of this GPU; `None`: the closed form answers.
    measured: Option<Measured>,
}

impl<'a> Replica<'a> {
    /// `layout` splits one copy of the model. The workload is one that serves.
    pub fn new(
        workload: &'a Workload,
        serving: &'a Serving,
        machine: Machine<'a>,
        correction: &'a Correction,
        layout: Layout,
    ) -> Self {
        let constants = Constants::embedded();
        let (model, training) = (&workload.model, &workload.training);
        let pass_tokens = if serving.is_job() { PASS_TOKENS_JOB } else { PASS_TOKENS_SERVICE };
        let factors = correction.for_gpu(machine.gpu);
        let prompt = if model.kind.counts_samples() { training.sequence_length } else { serving.prompt_tokens };
        // What the user measured corrects the closed form.
        let measured = if correction.is_empty() { Measured::new(model, serving, &machine) } else { None };
        Self {
            constants,
            model,
            training,
            serving,
            machine: factors.measured_from(machine),
            factors,
            rates: rates(workload, serving, &machine, constants),
            activation_bytes: if multiplies_in_eight(model, serving, machine.gpu) { 1.0 } else { 2.0 },
            layout,
            prompt: f64::from(prompt),
            pass_tokens,
            measured,
        }
    }

    /// Prompts alone: no answers wait while they are read.
    #[must_use]
    pub fn reading(self) -> Self {
        Self { pass_tokens: PASS_TOKENS_JOB, ..self }
    }

    pub fn serving(&self) -> &Serving {
        self.serving
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Tokens that a sequence has in the cache on average over its answer, and at its end.
    fn mean_context(&self) -> f64 {
        f64::from(self.serving.prompt_tokens) + f64::from(self.serving.answer_tokens) / 2.0
    }

    /// Kernels of this GPU answer, and not the closed form.
    pub(super) fn stands_on_kernels(&self) -> bool {
        self.measured_pass(1.0, 1.0).is_some()
    }

    /// GPUs that share a layer.
    fn gpus(&self) -> f64 {
        f64::from(self.layout.tensor)
    }

    /// Groups of them that attend to sequences of their own, and the GPUs that share the heads of one.
    pub(super) fn groups(&self) -> f64 {
        f64::from(self.serving.layout.groups().min(self.layout.tensor))
    }

    pub(super) fn head_split(&self) -> f64 {
        self.gpus() / self.groups()
    }

    /// Tokens that a pass computes of each sequence: the next one, and those that were drafted.
    fn tokens_a_pass(&self) -> f64 {
        1.0 + self.serving.speculation.map_or(0.0, |speculation| f64::from(speculation.drafted))
    }

    /// Tokens that a pass adds to each sequence.
    pub(super) fn tokens_gained(&self) -> f64 {
        1.0 + self.serving.speculation.map_or(0.0, |speculation| speculation.accepted)
    }

    fn engine_costs(&self) -> EngineCosts {
        EngineCosts::for_engine(self.serving.engine)
    }

    pub(super) fn stages(&self) -> f64 {
        f64::from(self.layout.pipeline)
    }

    /// Layers of the fullest stage.
    pub(super) fn stage_layers(&self) -> f64 {
        (f64::from(self.model.layers) / self.stages()).ceil()
    }

    /// Bytes of keys and values of a token in one layer of one rank. Heads are split, down to one a rank; a latent vector is
    /// whole on every rank (DeepSeek-V2, arXiv 2405.04434, section 2.1.3).
    pub(super) fn cache_bytes(&self) -> f64 {
        let elements = match self.model.latent {
            Some(latent) => f64::from(latent.kv_rank + latent.rope_head),
            None => {
                let heads = (f64::from(self.model.kv_heads) / self.head_split()).max(1.0);
                2.0 * heads * f64::from(self.model.head_dim)
            }
        };
        elements * self.serving.kv_cache.bytes()
    }

    /// Of a model that writes answers.
    pub(super) fn held(&self) -> ReplicaMemory {
        if self.transcribes() {
            return self.held_for_speech();
        }
        let m = self.model;
        let tensor = self.gpus();
        // Every attention group has all weights of attention.
        let layer = m.attention_parameters() * self.groups() + m.mlp_parameters();
        let matrices = self.stage_layers() * layer * self.serving.weights.bytes();
        // Embedding and head stay in 16 bits; a pipeline has them on its first and its last stage.
        let copies = if m.tied_embeddings || self.layout.pipeline > 1 { 1.0 } else { 2.0 };
        let weights = (matrices + 2.0 * copies * m.embedding_parameters()) / tensor;
        let widest = 4.0 * f64::from(m.hidden) + m.mlp_matrices() * f64::from(m.ffn_hidden) / tensor;
        let workspace = ENGINE_BYTES + self.pass_tokens * widest * 2.0 + f64::from(m.vocab) / tensor * 4.0 * 256.0;
        let token = self.stage_layers() * self.cache_bytes();
        let whole = (self.serving.tokens() + BLOCK_TOKENS / 2.0) * token;
        let held = self.holding(weights, workspace, token, whole, MOST_SEQUENCES);
        if held.sequences == 0 {
            return held;
        }
        let unwritten = f64::from(self.serving.answer_tokens) * (1.0 - self.engine_costs().reserved);
        let held = ReplicaMemory {
            least: held.least,
            ..self.holding(weights, workspace, token, whole - unwritten * token, MOST_SEQUENCES)
        };
        let all = f64::from(held.sequences) * self.groups();
        ReplicaMemory { sequences: all.min(f64::from(MOST_SEQUENCES) * self.groups()) as u32, ..held }
    }

    pub(super) fn holding(&self, weights: f64, workspace: f64, token: f64, sequence: f64, most: u32) -> ReplicaMemory {
        let cache = MEMORY_SHARE * self.machine.memory.0 - weights - workspace;
        let sequences = if cache < sequence { 0.0 } else { (cache / sequence).min(f64::from(most)) };
        let least = (weights + workspace + sequence) / MEMORY_SHARE;
        ReplicaMemory { weights, workspace, token, sequence, cache: cache.max(0.0), sequences: sequences as u32, least }
    }

    /// One pass that adds a token to `batch` sequences. In a pipeline, as many groups of them follow each other through the stages.
    pub fn pass(&self, batch: f64) -> PassTime {
        let running = (batch / self.stages() / self.groups()).max(1.0);
        let context = self.mean_context();
        let stage = if self.transcribes() {
            self.written(running)
        } else {
            self.measured_pass(running, context).unwrap_or_else(|| self.closed_pass(running, context))
        };
        let pipeline = if self.layout.pipeline > 1 { self.handed_on(running * self.groups()) } else { 0.0 };
        let seconds = self.measured.map_or(HOST_SECONDS, |_| self.engine_costs().host);
        let host = PassTime { launch: seconds * self.launch_factor(), ..PassTime::default() };
        host.plus(self.with_drafts(PassTime { pipeline, ..stage }), self.stages())
    }

    /// Drafting runs one layer and the head for each token (DeepSeek-V3, arXiv 2412.19437, section 2.2).
    fn with_drafts(&self, stage: PassTime) -> PassTime {
        let drafted = self.tokens_a_pass() - 1.0;
        let layer = PassTime { head: 0.0, pipeline: 0.0, ..stage }.scaled(1.0 / f64::from(self.model.layers.max(1)));
        stage.plus(PassTime { head: stage.head, ..layer }, drafted)
    }

    /// The same of one stage in closed form, over `running` sequences of each attention group.
    fn closed_pass(&self, running: f64, context: f64) -> PassTime {
        let layers = self.stage_layers();
        let group = running * self.groups() * self.tokens_a_pass();
        let (matmul, reading) = self.products(group);
        let cached = running * context * self.cache_bytes();
        let read = cached / self.rates.memory_bandwidth * self.factors.memory.at_size(cached).time;
        let attention = read.max(self.scores(group, context, self.cached_width()) / self.rates.flash);
        let (head, head_read) = self.head(group);
        PassTime {
            matmul: layers * matmul,
            reading: layers * reading + head_read / self.stages(),
            attention: layers * attention,
            elementwise: layers * self.elementwise(group),
            head: head / self.stages(),
            launch: layers * LAYER_KERNELS * KERNEL_SECONDS * self.launch_factor(),
            tensor_parallel: layers * self.reduced(group),
            pipeline: 0.0,
        }
    }

    /// What a prompt takes of the busiest GPU where many are read together, `pass_tokens` a pass.
    pub fn prompt(&self) -> PassTime {
        if self.transcribes() {
            let windows = self.prompts_a_pass().max(1.0);
            return self.encoded_windows(windows).scaled(1.0 / windows);
        }
        self.stage_prompt(self.pass_tokens).scaled(self.prompt / self.pass_tokens / self.groups())
    }

    /// A prompt alone on an idle replica, from its first layer to its last, with the passes that it needs.
    pub fn prompt_alone(&self) -> f64 {
        if self.transcribes() {
            return self.encoded_windows(1.0).plus(self.pass(1.0), 1.0).total();
        }
        let passes = self.prompt_passes();
        let tokens = self.prompt.min(self.pass_tokens);
        let read = self.stage_prompt(tokens).total() * self.prompt / tokens * (1.0 + (self.stages() - 1.0) / passes);
        read + passes * HOST_SECONDS * self.launch_factor() + self.head(1.0).0
    }

    /// Passes that one prompt is spread over.
    pub fn prompt_passes(&self) -> f64 {
        (self.prompt / self.pass_tokens).ceil()
    }

    /// All of a pass's tokens that may be of prompts, in prompts.
    pub fn prompts_a_pass(&self) -> f64 {
        self.pass_tokens / self.prompt * self.groups()
    }

    /// `tokens` of prompts through the layers of one stage.
    pub(super) fn stage_prompt(&self, tokens: f64) -> PassTime {
        self.measured_prompt(tokens).unwrap_or_else(|| self.closed_prompt(tokens))
    }

    /// The same in closed form.
    fn closed_prompt(&self, tokens: f64) -> PassTime {
        let layers = self.stage_layers();
        let (matmul, reading) = self.products(tokens);
        // A decoder masks half of the scores. Kernels reach their rate on long sequences only.
        let is_causal = matches!(self.model.kind, ModelKind::Decoder | ModelKind::Moe);
        let (masked, half_rate) =
            if is_causal { (0.5, c::FLASH_CAUSAL_SEQUENCE) } else { (1.0, c::FLASH_FULL_SEQUENCE) };
        let rate = self.rates.flash3.unwrap_or(self.rates.flash) * self.prompt / (self.prompt + half_rate);
        let scores = masked * self.scores(tokens, self.prompt, self.model.query_width());
        let transfer = self.reduced(tokens);
        PassTime {
            matmul: layers * matmul,
            reading: layers * reading,
            attention: layers * scores / rate * self.factors.compute.at_size(scores).time,
            elementwise: layers * self.elementwise(tokens),
            tensor_parallel: layers * transfer,
            launch: layers * LAYER_KERNELS * KERNEL_SECONDS * self.launch_factor(),
            ..PassTime::default()
        }
    }

    /// The matrix products of one layer of one rank, and what of them waits for weights.
    fn products(&self, tokens: f64) -> (f64, f64) {
        let products = layer_products(self.model, &self.layout, tokens);
        products.fold((0.0, 0.0), |(all, read), product| {
            let met = if product.what.starts_with("expert") { self.met(product.gemm, tokens) } else { product.gemm };
            let (seconds, waits) = self.product(met, &self.rates, self.serving.weights.bytes());
            (all + seconds, read + if waits { seconds } else { 0.0 })
        })
    }

    /// Few tokens meet few experts: of `e`, each token choosing `k`, `e (1 - (1 - k/e)^tokens)` are read.
    fn met(&self, gemm: Gemm, tokens: f64) -> Gemm {
        let Some(experts) = self.model.experts else { return gemm };
        let (all, chosen) = (f64::from(experts.experts), f64::from(experts.experts_per_token));
        let share = 1.0 - (1.0 - chosen / all).powf(tokens);
        Gemm { m: (tokens * chosen / all / share).max(1.0), count: gemm.count * share, ..gemm }
    }

    /// The longer of arithmetic and memory, and whether it is memory.
    fn product(&self, gemm: Gemm, rates: &DeviceRates, weight_bytes: f64) -> (f64, bool) {
        if gemm.flops() <= 0.0 {
            return (0.0, false);
        }
        let one = Gemm { count: 1.0, ..gemm };
        let (arithmetic, _) = gemm::bounds(gemm, rates);
        let bytes =
            gemm.count * (gemm.k * gemm.n * weight_bytes + (gemm.m * gemm.k + gemm.m * gemm.n) * self.activation_bytes);
        let arithmetic = arithmetic * self.factors.compute.at_size(one.flops()).time;
        let memory = bytes / rates.memory_bandwidth * self.factors.memory.at_size(bytes / gemm.count).time;
        (arithmetic.max(memory), memory > arithmetic)
    }

    /// FLOPs of scores and mixing of `tokens` with `context` others in one layer of one rank.
    fn scores(&self, tokens: f64, context: f64, width: f64) -> f64 {
        4.0 * tokens * context * width / f64::from(self.layout.tensor)
    }

    /// Width of all heads against the cache: latent attention works in the latent space, on every head.
    fn cached_width(&self) -> f64 {
        let m = self.model;
        m.latent.map_or(m.query_width(), |latent| {
            f64::from(m.heads) * f64::from(2 * latent.kv_rank + latent.rope_head) / 2.0
        })
    }

    /// [F6] for a forward pass alone, fused as engines do it.
    fn elementwise(&self, tokens: f64) -> f64 {
        let m = self.model;
        let t = f64::from(self.layout.tensor);
        let ffn = m.experts.map_or(f64::from(m.ffn_hidden), |experts| {
            f64::from(experts.ffn_hidden) * f64::from(experts.experts_per_token + experts.shared_experts)
        });
        let width = 0.5 * f64::from(m.hidden) + 0.5 * ffn * (1.0 + 0.5 * (m.mlp_matrices() - 2.0)) / (4.0 * t);
        let bytes = self.constants.elementwise_bytes * self.constants.fused_share * tokens * width / 3.0;
        bytes / self.rates.memory_bandwidth * self.factors.memory.at_size(bytes).time
    }

    /// The vocabulary in 16 bits for one token of each sequence, and reading the logits twice to choose among them.
    fn head(&self, sequences: f64) -> (f64, f64) {
        let Some(product) = head_product(self.model, &self.layout, sequences) else { return (0.0, 0.0) };
        let rates = DeviceRates { matmul: self.rates.head, ..self.rates };
        let (seconds, waits) = self.product(product.gemm, &rates, 2.0);
        let logits = 2.0 * 4.0 * sequences * product.gemm.n / self.rates.memory_bandwidth;
        (seconds + logits, if waits { seconds + logits } else { logits })
    }

    /// Two all-reduces of the activations of a layer among the ranks of a split.
    fn reduced(&self, tokens: f64) -> f64 {
        let t = f64::from(self.layout.tensor);
        if t <= 1.0 {
            return 0.0;
        }
        let bytes = 2.0 * tokens * f64::from(self.model.hidden);
        let bus = self.machine.link_bus(self.constants) / self.factors.copy.at_size(bytes).time;
        2.0 * (2.0 * (t - 1.0) / t * bytes / bus + REDUCE_HOPS * self.constants.hop_seconds)
    }

    /// Activations from one stage to the next: over the link inside a machine, else over the network.
    fn handed_on(&self, tokens: f64) -> f64 {
        let bytes = 2.0 * tokens * f64::from(self.model.hidden) / f64::from(self.layout.tensor);
        let inside = self.layout.model_parallel() <= self.machine.link_domain(self.layout.model_parallel());
        let bus = if inside {
            self.machine.link_bus(self.constants)
        } else {
            self.machine.network_bus(self.constants) / f64::from(self.machine.gpus_per_node)
        };
        bytes / bus + self.constants.hop_seconds
    }

    pub(super) fn launch_factor(&self) -> f64 {
        self.factors.launch.overall().time
    }
}

impl PassTime {
    pub(super) fn scaled(self, times: f64) -> Self {
        Self::default().plus(self, times)
    }
}
