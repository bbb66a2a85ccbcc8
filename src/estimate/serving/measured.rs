//! Passes and prompts of a served model by measured kernels, on the GPUs that have a table of them (`kernels`).
//!
//! A layer is its products, its attention, its collectives and its experts, each looked up as the engine would pick it, times what
//! an engine takes beside kernels that were measured alone. Those few factors are fitted on published runs of three engines, with
//! the model and GPU that is judged left out (`benchmarks/serving/fit.py`, `README.md` beside it).

use crate::collectives::{self, Operation};
use crate::kernels::{Attention, Collective, Engine, ExpertLayer, KernelPrecision, Library, Routing};
use crate::serving::engine::{EngineCosts, Measured};
use crate::serving::{PassTime, Replica};
use gpuplan_hardware::NumberFormat;
use gpuplan_units::{Bytes, Seconds};
use gpuplan_workload::model::QueryKeyNorm;
use gpuplan_workload::{MlpKind, StoredFormat};

/// Elements of a layer that norms, sums, rotations and activations read and write, for each token and hidden unit, as engines merge
/// them; and the share of the sheet's bandwidth that they reach. Judged: together they are a few per cent of a pass.
const ELEMENTS: f64 = 10.0;
const BANDWIDTH_SHARE: f64 = 0.8;
/// Share of the peak that the small products between heads and latents reach. Judged.
const ABSORBED_SHARE: f64 = 0.5;
/// Widths of the latents that were measured: DeepSeek-V3's, which most that came after share.
const MEASURED_LATENT: (u32, u32) = (512, 64);

/// GPUs of the collectives that were measured at most, in machines of eight and of four.
const MEASURED_GPUS: [u32; 2] = [8, 4];

/// Formats in which kernels multiply.
struct Precisions {
    projections: KernelPrecision,
    dense: KernelPrecision,
    experts: KernelPrecision,
}

impl Replica<'_> {
    /// One pass of one stage over `sequences` of an attention group, each with `context` tokens in the cache. `None`: a kernel of it was
    /// not measured on this GPU.
    pub(super) fn measured_pass(&self, sequences: f64, context: f64) -> Option<PassTime> {
        let measured = self.measured?;
        let tokens = sequences * self.tokens_a_pass();
        let layers = self.stage_layers();
        let layer = self.measured_layer(measured, tokens)?;
        let attention = self.measured_decode(measured, sequences, context)? * measured.costs.attention;
        let (columns, hidden) = (f64::from(self.model.vocab) / self.gpus(), f64::from(self.model.hidden));
        let product = measured.product(KernelPrecision::Bf16, tokens, columns, hidden)? * measured.costs.products;
        let head = product.max(2.0 * columns * hidden / self.machine.gpu.memory_bandwidth().0);
        Some(PassTime { attention: layers * attention, head: head / self.stages(), ..layer.scaled(layers) })
    }

    /// `tokens` of prompts through the layers of one stage.
    pub(super) fn measured_prompt(&self, tokens: f64) -> Option<PassTime> {
        let measured = self.measured?;
        let layers = self.stage_layers();
        let layer = self.measured_layer(measured, tokens)?;
        let attention = self.measured_context(measured)? * tokens / self.prompt * measured.costs.attention;
        let kernels = PassTime { attention: layers * attention, launch: 0.0, ..layer.scaled(layers) };
        let indexed = if self.is_indexed() { layers * measured.costs.index_token * tokens } else { 0.0 };
        let kernels = kernels.scaled(measured.costs.prompt);
        let attention = kernels.attention + indexed;
        Some(PassTime { launch: layers * layer.launch, attention, ..kernels })
    }

    /// One layer but its attention, on average over the layers.
    fn measured_layer(&self, measured: Measured, tokens: f64) -> Option<PassTime> {
        let (m, costs) = (self.model, measured.costs);
        let hidden = f64::from(m.hidden);
        let precisions = self.precisions()?;
        let projections = self.projections(measured, &precisions, tokens)?;
        let dense = |width: f64| {
            let up = if m.mlp == MlpKind::Glu { 2.0 * width } else { width };
            let product = |n, k| measured.product(precisions.dense, tokens, n, k);
            Some(product(up, hidden)? + product(hidden, width)?)
        };
        let (mut products, mut experts) = (projections, 0.0);
        match m.experts {
            None => products += dense(f64::from(m.ffn_hidden) / self.gpus())?,
            Some(mixture) => {
                let share = f64::from(mixture.dense_layers) / f64::from(m.layers.max(1));
                if share > 0.0 {
                    products += share * dense(f64::from(m.ffn_hidden) / self.gpus())?;
                }
                let router = measured.product(KernelPrecision::Bf16, tokens, f64::from(mixture.experts), hidden)?;
                let mut mixed = router + self.measured_experts(measured, precisions.experts, tokens)?;
                if mixture.shared_experts > 0 {
                    let split = if self.groups() > 1.0 { 1.0 } else { self.gpus() };
                    mixed += dense(f64::from(mixture.ffn_hidden * mixture.shared_experts) / split)?;
                }
                experts = (1.0 - share) * mixed;
            }
        }
        // Small weights were in the cache when they were measured again and again.
        let held = m.attention_parameters() / self.head_split()
            + if m.experts.is_none() { m.mlp_parameters() / self.gpus() } else { 0.0 };
        let read = held * self.serving.weights.bytes() / self.machine.gpu.memory_bandwidth().0;
        let matmul = (costs.products * products).max(read) + costs.experts * experts;
        // What waits for weights, in the proportion of the closed form.
        let (all, waits) = self.products(tokens);
        let bandwidth = BANDWIDTH_SHARE * self.machine.gpu.memory_bandwidth().0;
        Some(PassTime {
            matmul,
            reading: matmul * if all > 0.0 { waits / all } else { 0.0 },
            elementwise: 2.0 * ELEMENTS * tokens * hidden / bandwidth,
            launch: self.beside_kernels(costs) * self.launch_factor(),
            tensor_parallel: costs.collectives * self.measured_collectives(measured, tokens)?,
            ..PassTime::default()
        })
    }

    /// What a layer takes beside its kernels.
    fn beside_kernels(&self, costs: EngineCosts) -> f64 {
        let norms = self.model.query_key_norm.map_or(0.0, |_| costs.norms);
        costs.layer + norms + if self.is_indexed() { costs.index } else { 0.0 }
    }

    /// Attention picks its tokens by an index (DeepSeek-V3.2, arXiv 2512.02556).
    fn is_indexed(&self) -> bool {
        self.model.latent.is_some() && self.model.deviations.window.is_some()
    }

    /// Products of queries, keys, values and output.
    fn projections(&self, measured: Measured, precisions: &Precisions, tokens: f64) -> Option<f64> {
        let m = self.model;
        let hidden = f64::from(m.hidden);
        let heads = f64::from(m.heads) / self.head_split();
        let product = |n, k| measured.product(precisions.projections, tokens, n, k);
        let Some(latent) = m.latent else {
            let head = f64::from(m.head_dim);
            let keys = (f64::from(m.kv_heads) / self.head_split()).max(1.0);
            return Some(product((heads + 2.0 * keys) * head, hidden)? + product(hidden, heads * head)?);
        };
        let [rank, query, rotated, plain, value] =
            [latent.kv_rank, latent.q_rank, latent.rope_head, latent.nope_head, latent.value_head].map(f64::from);
        let queries = if query > 0.0 {
            product(query + rank + rotated, hidden)? + product(heads * (plain + rotated), query)?
        } else {
            product(rank + rotated, hidden)? + product(heads * (plain + rotated), hidden)?
        };
        // Queries into the latent space and values out of it, a small product for each head.
        let weights = heads * rank * (plain + value);
        let peak = self.machine.gpu.peak_tflops.get(NumberFormat::Bf16)? * 1e12;
        let bandwidth = BANDWIDTH_SHARE * self.machine.gpu.memory_bandwidth().0;
        let absorbed = 2.0 * weights / bandwidth + 2.0 * tokens * weights / (ABSORBED_SHARE * peak);
        Some(queries + product(hidden, heads * value)? + absorbed)
    }

    fn measured_experts(&self, measured: Measured, precision: KernelPrecision, tokens: f64) -> Option<f64> {
        let mixture = self.model.experts?;
        let dealt_out = self.serving.layout.expert_parallel;
        let layer = ExpertLayer {
            tokens: tokens * self.groups(),
            hidden: f64::from(self.model.hidden),
            width: f64::from(mixture.ffn_hidden) / if dealt_out { 1.0 } else { self.gpus() },
            top_k: f64::from(mixture.experts_per_token),
            experts: f64::from(mixture.experts),
            expert_parallel: if dealt_out { self.gpus() } else { 1.0 },
        };
        // Text lies between tokens dealt out evenly and those of a power law.
        let ask = |engine| {
            let routed = |routing| measured.table.moe_layer_seconds(engine, precision, routing, &layer);
            match (routed(Routing::Balanced), routed(Routing::Skewed)) {
                (Some(even), Some(skewed)) => Some(Seconds((even.0 * skewed.0).sqrt())),
                (one, other) => one.or(other),
            }
        };
        // TensorRT-LLM has the others' kernels for experts too, and picks among them.
        if measured.engine == Engine::TensorRtLlm { Measured::fastest(ask) } else { measured.own(ask) }
    }

    /// Two all-reduces of a layer; with attention groups their tokens are gathered before the feed-forward block, and scattered again.
    fn measured_collectives(&self, measured: Measured, tokens: f64) -> Option<f64> {
        let gpus = self.layout.tensor;
        if gpus <= 1 {
            return Some(0.0);
        }
        let bytes = 2.0 * tokens * f64::from(self.model.hidden);
        if self.groups() <= 1.0 {
            let reduced = |bytes| self.collective(Operation::AllReduce, bytes, |gpus| measured.all_reduce(gpus, bytes));
            let norms = match self.model.query_key_norm {
                // One of queries and one of keys, whose heads lie on all GPUs: a float32 a token each.
                Some(QueryKeyNorm::Layer) => reduced(4.0 * tokens),
                _ => 0.0,
            };
            return Some(2.0 * (reduced(bytes) + norms));
        }
        let all = bytes * self.groups();
        let moved = |operation, kernel| {
            let ask = |gpus| measured.table.collective_seconds(Library::Nccl, kernel, gpus, Bytes(all));
            self.collective(operation, all, |gpus| ask(gpus).map(|seconds| seconds.0))
        };
        let gathered = moved(Operation::AllGather, Collective::AllGather)
            + moved(Operation::ReduceScatter, Collective::ReduceScatter);
        Some(if self.serving.layout.expert_parallel { gathered.min(self.exchanged(tokens)?) } else { gathered })
    }

    /// As it was measured, of as many GPUs as were where more hang on one switch, which their number hardly matters to; between machines by the
    /// closed form.
    fn collective(&self, operation: Operation, bytes: f64, measured: impl Fn(u32) -> Option<f64>) -> f64 {
        let gpus = self.layout.tensor;
        let inside = self.machine.link_domain(gpus);
        let fewer = MEASURED_GPUS.into_iter().filter(|most| *most < gpus);
        let found = if gpus <= inside { std::iter::once(gpus).chain(fewer).find_map(measured) } else { None };
        found.unwrap_or_else(|| {
            collectives::seconds(operation, Bytes(bytes), &self.machine.topology(gpus, inside, gpus)).0
        })
    }

    /// Tokens go to their experts alone, once a GPU, in 8 bits, and come back in 16: what engines do where experts are dealt out
    /// (DeepEP; NVIDIA, "Scaling Expert Parallelism in TensorRT-LLM").
    fn exchanged(&self, tokens: f64) -> Option<f64> {
        let mixture = self.model.experts?;
        let gpus = self.gpus();
        let reached = f64::from(mixture.experts_per_token).min(gpus) * (1.0 - 1.0 / gpus);
        let share = 1.0 - f64::from(mixture.dense_layers) / f64::from(self.model.layers.max(1));
        let bytes = tokens * f64::from(self.model.hidden) * reached * 3.0;
        let inside = self.layout.tensor <= self.machine.link_domain(self.layout.tensor);
        let bus = if inside {
            self.machine.link_bus(self.constants)
        } else {
            self.machine.network_bus(self.constants) / f64::from(self.machine.gpus_per_node)
        };
        Some(share * (bytes / bus + 2.0 * self.constants.hop_seconds))
    }

    /// Attention of a layer with a new token for each of `sequences`, on average over layers with and without a window.
    fn measured_decode(&self, measured: Measured, sequences: f64, context: f64) -> Option<f64> {
        let (m, cache) = (self.model, self.cache_precision()?);
        let heads = f64::from(m.heads) / self.head_split();
        let window = m.deviations.window;
        if self.is_latent_measured()? {
            let length = window.map_or(context, |window| context.min(f64::from(window.tokens)));
            let ask = |cache| {
                measured.own(|engine| measured.table.latent_decode_seconds(engine, cache, heads, sequences, length))
            };
            return ask(cache).or_else(|| ask(KernelPrecision::Bf16));
        }
        let attention = |window| Attention {
            batch: sequences,
            heads,
            kv_heads: (f64::from(m.kv_heads) / self.head_split()).max(1.0),
            head_dim: m.head_dim,
            length: context,
            window,
        };
        let seconds =
            |attention: Attention| measured.own(|engine| measured.table.decode_seconds(engine, cache, &attention));
        let full = seconds(attention(None))?;
        Some(self.with_windows(full, context, |tokens| seconds(attention(Some(tokens)))))
    }

    /// Attention of a layer over one prompt.
    fn measured_context(&self, measured: Measured) -> Option<f64> {
        let (m, cache) = (self.model, self.cache_precision()?);
        let heads = f64::from(m.heads) / self.head_split();
        if self.is_latent_measured()? {
            let ask = |cache| {
                measured.own(|engine| measured.table.latent_context_seconds(engine, cache, heads, 1.0, self.prompt))
            };
            return ask(cache).or_else(|| ask(KernelPrecision::Bf16));
        }
        let attention = |window| Attention {
            batch: 1.0,
            heads,
            kv_heads: (f64::from(m.kv_heads) / self.head_split()).max(1.0),
            head_dim: m.head_dim,
            length: self.prompt,
            window,
        };
        // TensorRT-LLM multiplies in the format of its cache.
        let arithmetic = if measured.engine == Engine::TensorRtLlm { cache } else { KernelPrecision::Bf16 };
        let seconds = |attention: Attention| {
            let ask = |arithmetic| {
                measured.own(|engine| measured.table.context_seconds(engine, arithmetic, cache, &attention))
            };
            ask(arithmetic).or_else(|| ask(KernelPrecision::Bf16))
        };
        let full = seconds(attention(None))?;
        Some(self.with_windows(full, self.prompt, |tokens| seconds(attention(Some(tokens)))))
    }

    /// On average over layers with and without a window. A window that nobody measured takes its share of the tokens.
    fn with_windows(&self, full: f64, length: f64, windowed: impl Fn(u32) -> Option<f64>) -> f64 {
        let Some(window) = self.model.deviations.window else { return full };
        let share = f64::from(window.layers) / f64::from(self.model.layers.max(1));
        let short = (f64::from(window.tokens) / length).min(1.0) * full;
        share * windowed(window.tokens).unwrap_or(short) + (1.0 - share) * full
    }

    /// Whether attention is latent; `None` where its widths are not those that were measured.
    fn is_latent_measured(&self) -> Option<bool> {
        match self.model.latent {
            Some(latent) if (latent.kv_rank, latent.rope_head) == MEASURED_LATENT => Some(true),
            Some(_) => None,
            None => Some(false),
        }
    }

    fn cache_precision(&self) -> Option<KernelPrecision> {
        match self.serving.kv_cache {
            StoredFormat::Bf16 => Some(KernelPrecision::Bf16),
            StoredFormat::Fp8 => Some(KernelPrecision::Fp8),
            _ => None,
        }
    }

    /// `None`: engines have no kernels of this kind in the tables.
    fn precisions(&self) -> Option<Precisions> {
        use KernelPrecision as K;
        let (all, has_fp4) = (|one| Precisions { projections: one, dense: one, experts: one }, self.has_fp4());
        let has_experts = self.model.experts.is_some();
        Some(match self.serving.weights {
            StoredFormat::Bf16 => all(K::Bf16),
            // Mixtures are published with a scale for each block of 128 x 128 weights.
            StoredFormat::Fp8 if has_experts => all(K::Fp8Block),
            StoredFormat::Fp8 => all(K::Fp8),
            StoredFormat::Nvfp4 if self.model.latent.is_some() => Precisions { projections: K::Bf16, ..all(K::Nvfp4) },
            StoredFormat::Nvfp4 => all(K::Nvfp4),
            // Of these the experts alone are in four bits.
            StoredFormat::Int4 if has_experts => Precisions { experts: K::Int4Weights, ..all(K::Bf16) },
            StoredFormat::Mxfp4 if has_experts && has_fp4 => Precisions { experts: K::Mxfp4Mxfp8, ..all(K::Bf16) },
            StoredFormat::Mxfp4 if has_experts => Precisions { experts: K::Mxfp4Weights, ..all(K::Bf16) },
            StoredFormat::Int4 | StoredFormat::Int8 | StoredFormat::Mxfp4 => return None,
        })
    }

    fn has_fp4(&self) -> bool {
        self.machine.gpu.peak_tflops.get(NumberFormat::Fp4).is_some()
    }
}

#[cfg(test)]
mod tests;
