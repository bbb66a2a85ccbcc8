//! `Stacks`: what each training stack does where a run says nothing, read from `catalogs/stacks.toml`.

use std::fmt;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::training::layout::Shard;
use crate::training::{AttentionKernel, Framework, LoraTargets, Recompute};
use gpuplan_embedded::{Archive, EmbeddedError};
use gpuplan_units::names::{did_you_mean, plain};

/// Who decided where the run says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The stack's published recipes: what its users run, and what an estimate assumes.
    Recipe,
    /// The stack's own parser or constructor: what a command that leaves the flag out gets.
    Parser,
}

/// A value with the line that says so.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact<T> {
    pub value: T,
    /// Address of the repository or page, then the file in it.
    pub source: String,
    /// Version or commit in which it stands.
    pub version: String,
    /// A few words of it, literally.
    pub quote: String,
}

/// What recipes and parser do about one thing. Absent: nobody has found out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell<T> {
    recipe: Option<Fact<T>>,
    parser: Option<Fact<T>>,
}

impl<T> Default for Cell<T> {
    fn default() -> Self {
        Self { recipe: None, parser: None }
    }
}

impl<T> Cell<T> {
    /// `None`: not known. A recipe that says nothing runs what the parser does; a recipe says nothing of the parser.
    pub fn fact(&self, column: Column) -> Option<&Fact<T>> {
        match column {
            Column::Recipe => self.recipe.as_ref().or(self.parser.as_ref()),
            Column::Parser => self.parser.as_ref(),
        }
    }
}

impl<T: Copy> Cell<T> {
    /// `None`: not known.
    pub fn value(&self, column: Column) -> Option<T> {
        self.fact(column).map(|fact| fact.value)
    }

    /// What the stack's recipes do: the default of an estimate. `None`: not known.
    pub fn recipe(&self) -> Option<T> {
        self.value(Column::Recipe)
    }

    /// What a command gets that says nothing. `None`: not known.
    pub fn parser(&self) -> Option<T> {
        self.value(Column::Parser)
    }
}

/// Whose attention kernel runs, in half precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StackAttention {
    /// FlashAttention 2 (Dao 2023, arXiv 2307.08691).
    Flash2,
    /// FlashAttention 3 (Shah et al. 2024, arXiv 2407.08608).
    Flash3,
    /// NVIDIA's Transformer Engine, which takes cuDNN's kernel on Hopper and Blackwell.
    TransformerEngine,
    /// `torch.nn.functional.scaled_dot_product_attention`, which takes the first kernel that can: FlashAttention 2 for causal text.
    Sdpa,
    /// PyTorch's FlexAttention, compiled to a kernel like FlashAttention 2.
    Flex,
    /// Matrix products and a softmax of their own.
    Eager,
}

impl StackAttention {
    /// The same as the estimate tells kernels apart.
    pub fn kernel(self) -> AttentionKernel {
        match self {
            Self::Flash2 | Self::Sdpa | Self::Flex => AttentionKernel::Flash,
            Self::Flash3 | Self::TransformerEngine => AttentionKernel::Flash3,
            Self::Eager => AttentionKernel::Eager,
        }
    }
}

/// What runs again where a run says `selective`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelectiveRecompute {
    /// Scores and mixing of attention alone (Korthikanti et al. 2022, arXiv 2205.05198, section 5).
    AttentionCore,
    /// Every second product and all that is no product; attention and what was communicated are kept.
    Operators,
    /// Some layers whole, such as every second one.
    Layers,
}

/// How tokens go to the experts that they chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpertDispatch {
    /// A copy to each expert.
    EachExpert,
    /// Once to each rank, and once over the network to each machine (DeepEP).
    EachRank,
}

/// What sharded ranks gather at once, with a hook of the host before it and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatherUnit {
    Layer,
    /// Every module that has weights of its own.
    Matrix,
}

/// The format in which gradients are summed: over micro-batches, and over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GradientFormat {
    Fp32,
    /// That of the weights: two bytes.
    Bf16,
}

impl GradientFormat {
    /// Bytes of a gradient.
    pub fn bytes(self) -> f64 {
        match self {
            Self::Fp32 => 4.0,
            Self::Bf16 => 2.0,
        }
    }
}

/// How much of the gradients is sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum GradientBucket {
    /// Each layer on its own, as sharded stacks wrap them.
    Layer,
    /// Gradients by their number: `least`, or `per_rank` for each data-parallel rank where that is more.
    Elements { least: f64, per_rank: f64 },
    /// MiB.
    Mebibytes(f64),
}

impl GradientBucket {
    /// Of PyTorch's `DistributedDataParallel`, which most stacks leave as it is (pytorch/pytorch,
    /// torch/csrc/distributed/c10d/reducer.hpp, `kDefaultBucketBytesCap`).
    pub const PYTORCH: Self = Self::Mebibytes(25.0);

    /// Gradients of a bucket, of which each has `bytes`; `layer` are those of one layer, `ranks` are data parallel.
    pub fn elements(self, ranks: u32, layer: f64, bytes: f64) -> f64 {
        match self {
            Self::Layer => layer,
            Self::Elements { least, per_rank } => least.max(per_rank * f64::from(ranks)),
            Self::Mebibytes(size) => size * 1024.0 * 1024.0 / bytes,
        }
    }
}

/// Where a value of a stack comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence<'a> {
    pub key: &'static str,
    pub column: Column,
    pub source: &'a str,
    pub version: &'a str,
    pub quote: &'a str,
}

/// One training stack: a row of `catalogs/stacks.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    pub id: String,
    pub name: String,
    /// Other names that people use.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The version that the row describes, and its year.
    pub version: String,
    /// Year of the software, of a stack that is no longer developed: what runs where a run states no year.
    #[serde(default)]
    pub last_year: Option<u32>,
    /// A library that people write their own programs with, and no program: how its runs go depends on who wrote them.
    #[serde(default)]
    pub library: bool,
    /// Whether it can split layers and matrices over GPUs (tensor or pipeline parallel).
    #[serde(default)]
    pub splits_layers: Cell<bool>,
    /// Sequence parallelism where tensor parallelism is used (Korthikanti et al. 2022, arXiv 2205.05198).
    #[serde(default)]
    sequence_parallel: Cell<bool>,
    #[serde(default)]
    pub attention: Cell<StackAttention>,
    /// What data-parallel ranks shard.
    #[serde(default)]
    pub shard: Cell<Shard>,
    #[serde(default)]
    pub gradient_format: Cell<GradientFormat>,
    /// Optimizer states can be sharded beside whole weights (ZeRO-1); `false`: who shards, shards weights.
    #[serde(default)]
    pub zero1: Cell<bool>,
    #[serde(default)]
    pub recompute: Cell<Recompute>,
    #[serde(default)]
    pub cuda_graphs: Cell<bool>,
    /// Kernels that the stack fuses itself: norms, activations, the loss.
    #[serde(default)]
    pub fused_kernels: Cell<bool>,
    /// Kernels that a compiler fuses.
    #[serde(default)]
    pub compile: Cell<bool>,
    #[serde(default)]
    pub lora_targets: Cell<LoraTargets>,
    /// Adapters are kept and fed in fp32 beside products in 16 bits.
    #[serde(default)]
    pub adapters_in_fp32: Cell<bool>,
    /// Weights and gradients of sharded ranks travel while others are computed with.
    #[serde(default)]
    pub overlap: Cell<bool>,
    /// The schedule finds arithmetic to run beside that traffic for as long as there is any: gathers are issued ahead, and the host does
    /// not wait for them.
    #[serde(default)]
    pub prefetch: Cell<bool>,
    #[serde(default)]
    pub gather_unit: Cell<GatherUnit>,
    /// Every parameter is sharded on its own, so that gathered weights are copied out into parameters, and gradients into the message that
    /// is reduced. `false`: parameters are views of what is gathered.
    #[serde(default)]
    pub copied_shards: Cell<bool>,
    /// Gradients of whole copies are reduced while the backward pass still computes others. An engine that schedules a pipeline itself may
    /// reduce them after it instead.
    #[serde(default)]
    pub gradient_overlap: Cell<bool>,
    #[serde(default)]
    pub gradient_bucket: Cell<GradientBucket>,
    #[serde(default)]
    pub selective_recompute: Cell<SelectiveRecompute>,
    #[serde(default)]
    pub expert_dispatch: Cell<ExpertDispatch>,
    /// Each tensor-parallel rank sends its part of the activations to the next stage, and not every rank all of them (Narayanan et al.
    /// 2021, arXiv 2104.04473, section 4.1).
    #[serde(default)]
    pub scattered_stages: Cell<bool>,
    /// Several short stages of a pipeline on each GPU (Narayanan et al. 2021, arXiv 2104.04473).
    #[serde(default)]
    pub interleaved: Cell<bool>,
}

impl Stack {
    /// Whether recipes split the activations between layers over `tensor` ranks. `None`: not known.
    pub fn sequence_parallel(&self, tensor: u32) -> Option<bool> {
        self.sequence_parallel_by(Column::Recipe, tensor)
    }

    /// The same of recipes or of the parser. Without tensor parallelism there is none.
    pub fn sequence_parallel_by(&self, column: Column, tensor: u32) -> Option<bool> {
        if tensor <= 1 { Some(false) } else { self.sequence_parallel.value(column) }
    }

    /// Where every value of the row comes from.
    pub fn evidence(&self) -> Vec<Evidence<'_>> {
        fn of<'a, T>(key: &'static str, cell: &'a Cell<T>, all: &mut Vec<Evidence<'a>>) {
            for (column, fact) in [(Column::Recipe, &cell.recipe), (Column::Parser, &cell.parser)] {
                let evidence =
                    |Fact { source, version, quote, .. }: &'a Fact<T>| Evidence { key, column, source, version, quote };
                all.extend(fact.iter().map(evidence));
            }
        }
        let mut all = Vec::new();
        of("splits_layers", &self.splits_layers, &mut all);
        of("sequence_parallel", &self.sequence_parallel, &mut all);
        of("attention", &self.attention, &mut all);
        of("shard", &self.shard, &mut all);
        of("gradient_format", &self.gradient_format, &mut all);
        of("zero1", &self.zero1, &mut all);
        of("recompute", &self.recompute, &mut all);
        of("cuda_graphs", &self.cuda_graphs, &mut all);
        of("fused_kernels", &self.fused_kernels, &mut all);
        of("compile", &self.compile, &mut all);
        of("lora_targets", &self.lora_targets, &mut all);
        of("adapters_in_fp32", &self.adapters_in_fp32, &mut all);
        of("overlap", &self.overlap, &mut all);
        of("prefetch", &self.prefetch, &mut all);
        of("gather_unit", &self.gather_unit, &mut all);
        of("copied_shards", &self.copied_shards, &mut all);
        of("gradient_overlap", &self.gradient_overlap, &mut all);
        of("gradient_bucket", &self.gradient_bucket, &mut all);
        of("selective_recompute", &self.selective_recompute, &mut all);
        of("expert_dispatch", &self.expert_dispatch, &mut all);
        of("scattered_stages", &self.scattered_stages, &mut all);
        of("interleaved", &self.interleaved, &mut all);
        all
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.id.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

/// A name that is no stack's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownStack {
    pub name: String,
    /// The stack that was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for UnknownStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown framework `{}`", self.name)?;
        match &self.suggestion {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => Ok(()),
        }
    }
}

/// Every known training stack, by id.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacks {
    /// Sorted by id.
    rows: Vec<Stack>,
    /// Of each id its row: asked many times for each layout of a search.
    by_id: FxHashMap<String, usize>,
}

#[derive(Deserialize)]
struct StacksDocument {
    stack: Vec<Stack>,
}

/// Says of a run that nothing is to be taken from a stack: exports then leave the command as it is.
const NONE: &str = "none";

impl Stacks {
    /// The packed catalog, for a hash of what an answer rests on.
    pub fn embedded_bytes() -> &'static [u8] {
        gpuplan_embedded::STACKS
    }

    /// The stacks inside this binary.
    pub fn embedded() -> &'static Self {
        static READ: OnceLock<Stacks> = OnceLock::new();
        READ.get_or_init(|| {
            let archive = Archive::unpack(gpuplan_embedded::STACKS).expect("a test unpacks the stacks of the binary");
            Self::from_archive(&archive).expect("a test reads the stacks of the binary")
        })
    }

    pub fn from_archive(archive: &Archive) -> Result<Self, EmbeddedError> {
        let text = archive
            .documents
            .get("stacks")
            .ok_or_else(|| EmbeddedError::Damaged("stacks.toml is missing".to_owned()))?;
        let document: StacksDocument =
            serde_json::from_str(text).map_err(|error| EmbeddedError::Damaged(format!("stacks.toml: {error}")))?;
        let mut rows = document.stack;
        rows.sort_by(|one, other| one.id.cmp(&other.id));
        let by_id = rows.iter().enumerate().map(|(at, row)| (row.id.clone(), at)).collect();
        Ok(Self { rows, by_id })
    }

    pub fn rows(&self) -> &[Stack] {
        &self.rows
    }

    pub fn ids(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.id.as_str()).collect()
    }

    /// By id or alias, without regard to case and separators.
    pub fn find(&self, name: &str) -> Option<&Stack> {
        let wanted = plain(name);
        self.rows.iter().find(|row| row.names().any(|known| plain(known) == wanted))
    }

    /// The stack of a run. `None`: the run names none.
    pub fn for_framework(&self, framework: &Framework) -> Option<&Stack> {
        let stack = framework.row(|id| self.by_id.get(id).copied()).and_then(|at| self.rows.get(at));
        debug_assert!(stack.is_none_or(|stack| stack.id == framework.id()), "{framework:?}");
        stack
    }

    /// The framework by its id, whatever name of it was written; empty text and `none` are no framework.
    pub fn framework(&self, name: &str) -> Result<Framework, UnknownStack> {
        let name = name.trim();
        if name.is_empty() || name == NONE {
            return Ok(Framework::new(name));
        }
        self.find(name).map(|stack| Framework::new(stack.id.as_str())).ok_or_else(|| {
            let near = did_you_mean(name, self.rows.iter().flat_map(Stack::names));
            let suggestion = near.and_then(|near| self.find(near)).map(|stack| stack.id.clone());
            UnknownStack { name: name.to_owned(), suggestion }
        })
    }

    /// Whether a run of this framework may split layers and matrices over GPUs. A run that names none may do anything.
    pub fn splits_layers(&self, framework: &Framework) -> bool {
        framework.is_open()
            || self.for_framework(framework).and_then(|stack| stack.splits_layers.recipe()) == Some(true)
    }
}

#[cfg(test)]
mod tests;
