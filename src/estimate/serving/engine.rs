//! What a serving engine takes: the kernels of a GPU as it picks them, and what it adds to them.

use crate::kernels::{Collective, Engine, KernelPrecision, KernelTable, Library};
use crate::machine::Machine;
use gpuplan_units::{Bytes, Seconds};
use gpuplan_workload::{Model, ModelKind, Serving, ServingEngine};

/// What an engine takes of and beside its kernels. Fitted by `benchmarks/serving/fit.py` on all rows; rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EngineCosts {
    /// Times what kernels take alone: products, experts, attention, collectives, and all of them in a prompt.
    pub(super) products: f64,
    pub(super) experts: f64,
    pub(super) attention: f64,
    pub(super) collectives: f64,
    pub(super) prompt: f64,
    /// Of a layer beside its kernels, of a pass beside its layers, and of a request beside its passes. Seconds.
    pub(super) layer: f64,
    pub(super) host: f64,
    pub(super) request: f64,
    /// Passes before a new request is read: what is left of the one that runs, and what the scheduler has queued behind it.
    pub(super) passes: f64,
    /// Of a layer that norms queries and keys.
    pub(super) norms: f64,
    /// Of a layer that picks the tokens it attends to by an index: a pass, and each token of a prompt.
    pub(super) index: f64,
    pub(super) index_token: f64,
    /// Others with whom a user stays in step where all requests are equally long: who was read together is done together. An engine
    /// that reads all prompts before it goes on writing keeps everybody in step.
    pub(super) in_step: f64,
    /// Share of an answer that the cache has room for while it is written. TensorRT-LLM reserves all of it (`GUARANTEED_NO_EVICT`, its
    /// default); vLLM and SGLang take blocks as they are needed, half of an answer on average, and put a request back where none is
    /// left, to read it again. Between the two; judged.
    pub(super) reserved: f64,
}

const TENSORRT_LLM: EngineCosts = EngineCosts {
    products: 0.96,
    experts: 1.05,
    attention: 1.05,
    collectives: 1.03,
    prompt: 1.1,
    layer: 4.6e-6,
    norms: 8.1e-6,
    host: 1.0e-3,
    request: 26e-3,
    passes: 1.06,
    index: 0.0,
    index_token: 0.0,
    in_step: 4.5,
    reserved: 1.0,
};
const VLLM: EngineCosts = EngineCosts {
    products: 1.05,
    experts: 0.99,
    attention: 1.06,
    collectives: 1.07,
    prompt: 1.11,
    layer: 6.2e-6,
    norms: 10.3e-6,
    host: 0.9e-3,
    request: 24e-3,
    passes: 1.1,
    index: 0.0,
    index_token: 0.0,
    in_step: 1.2,
    reserved: 0.7,
};
const SGLANG: EngineCosts = EngineCosts {
    products: 1.04,
    experts: 1.1,
    attention: 1.05,
    collectives: 1.08,
    prompt: 1.09,
    layer: 7.3e-6,
    norms: 7.4e-6,
    host: 1.3e-3,
    request: 24e-3,
    passes: 1.11,
    index: 45e-6,
    index_token: 0.32e-6,
    in_step: f64::INFINITY,
    reserved: 0.7,
};

impl EngineCosts {
    pub(super) fn for_engine(engine: ServingEngine) -> Self {
        match engine {
            ServingEngine::TensorRtLlm => TENSORRT_LLM,
            ServingEngine::Vllm => VLLM,
            // The last two serve models that answer in one pass, and speech, which take none of these.
            ServingEngine::Sglang | ServingEngine::PyTorch | ServingEngine::FasterWhisper => SGLANG,
        }
    }
}

/// Rows that kernels of few are made for.
const PADDED_ROWS: [f64; 5] = [8.0, 16.0, 32.0, 64.0, 128.0];

/// Kernels of the GPU, as they were looked up for one replica.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    pub(super) table: KernelTable,
    pub(super) engine: Engine,
    pub(super) costs: EngineCosts,
}

impl Measured {
    /// `None`: nobody measured this GPU, or only a part of it is rented.
    pub(super) fn new(model: &Model, serving: &Serving, machine: &Machine) -> Option<Self> {
        let is_decoder = matches!(model.kind, ModelKind::Decoder | ModelKind::Moe);
        if serving.answer_tokens == 0 || !is_decoder || model.deviations.hybrid.is_some() || machine.card_share < 1.0 {
            return None;
        }
        let engine = match serving.engine {
            ServingEngine::TensorRtLlm => Engine::TensorRtLlm,
            // SGLang's kernels are FlashInfer's and its own, of which vLLM has the same or the like.
            ServingEngine::Vllm | ServingEngine::Sglang | ServingEngine::PyTorch | ServingEngine::FasterWhisper => {
                Engine::Vllm
            }
        };
        let table = KernelTable::embedded(machine.gpu)?;
        Some(Self { table, engine, costs: EngineCosts::for_engine(serving.engine) })
    }

    /// The faster of the engines' kernels, which engines take over from each other.
    pub(super) fn fastest(ask: impl Fn(Engine) -> Option<Seconds>) -> Option<f64> {
        let both = [Engine::TensorRtLlm, Engine::Vllm].into_iter().filter_map(ask);
        both.map(|seconds| seconds.0).min_by(f64::total_cmp)
    }

    /// Those of the engine, or else of the other one.
    pub(super) fn own(self, ask: impl Fn(Engine) -> Option<Seconds>) -> Option<f64> {
        let other = if self.engine == Engine::Vllm { Engine::TensorRtLlm } else { Engine::Vllm };
        ask(self.engine).or_else(|| ask(other)).map(|seconds| seconds.0)
    }

    /// A product of more rows does for one of fewer: engines pick, and pad, among kernels made for powers of two.
    pub(super) fn product(self, precision: KernelPrecision, m: f64, n: f64, k: f64) -> Option<f64> {
        let ask = |rows| Self::fastest(|engine| self.table.gemm_seconds(engine, precision, rows, n, k));
        let padded = PADDED_ROWS.into_iter().filter(|rows| *rows > m).filter_map(ask);
        ask(m).into_iter().chain(padded).min_by(f64::total_cmp)
    }

    /// Engines take over each other's kernels, and pick by size.
    pub(super) fn all_reduce(self, gpus: u32, bytes: f64) -> Option<f64> {
        let ask = |library| self.table.collective_seconds(library, Collective::AllReduce, gpus, Bytes(bytes));
        let all = [Library::Engine(Engine::TensorRtLlm), Library::Engine(Engine::Vllm), Library::Nccl];
        all.into_iter().filter_map(ask).map(|seconds| seconds.0).min_by(f64::total_cmp)
    }
}
