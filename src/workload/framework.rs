//! What a training stack does, from its recipes in the table of stacks.

use crate::stack::{Cell, ExpertDispatch, GatherUnit, SelectiveRecompute, Stack, StackAttention, Stacks};
use crate::training::Framework;

impl Framework {
    /// Layers are Megatron's, as those of NeMo and Megatron Bridge, which configure Megatron-Core (NVIDIA-NeMo/Megatron-Bridge,
    /// src/megatron/bridge/recipes/llama/llama3.py: `cfg.model.transformer_impl = "transformer_engine"`).
    #[inline]
    pub fn is_megatron(&self) -> bool {
        self.id().starts_with("megatron") || self.id() == "nemo"
    }

    /// Kernels fused by the stack itself or by the compiler.
    pub fn fuses_kernels(&self) -> bool {
        self.id().starts_with("megatron") || self.is_compiled()
    }

    /// Kernels that a compiler fuses, as the stack's recipes have it.
    #[inline]
    pub fn is_compiled(&self) -> bool {
        self.recipe(|stack| &stack.compile) == Some(true)
    }

    /// Stacks on NVIDIA's Transformer Engine: cuDNN attention, and overlapped traffic on the GPUs it is made for.
    pub fn is_transformer_engine(&self) -> bool {
        self.recipe(|stack| &stack.attention) == Some(StackAttention::TransformerEngine)
    }

    /// Attention as products and a softmax of their own.
    pub fn writes_attention(&self) -> bool {
        self.recipe(|stack| &stack.attention) == Some(StackAttention::Eager)
    }

    /// What `selective` stands for; attention's core where nobody has found out.
    pub fn selective_recompute(&self) -> SelectiveRecompute {
        self.recipe(|stack| &stack.selective_recompute).unwrap_or(SelectiveRecompute::AttentionCore)
    }

    pub fn recomputes_operators(&self) -> bool {
        self.selective_recompute() == SelectiveRecompute::Operators
    }

    /// Inputs of adapters are cast to fp32 and back, as PEFT does.
    pub fn casts_adapters(&self) -> bool {
        self.recipe(|stack| &stack.adapters_in_fp32) == Some(true)
    }

    /// The schedule runs gathers and reductions beside arithmetic for as long as there is any.
    pub fn hides_sharded_traffic(&self) -> bool {
        self.recipe(|stack| &stack.prefetch) == Some(true)
    }

    /// The matrices of a layer are gathered one by one, each with its hooks, and not all at once.
    pub fn gathers_matrices(&self) -> bool {
        self.recipe(|stack| &stack.gather_unit) == Some(GatherUnit::Matrix)
    }

    /// Gathered weights are copied out into parameters, and gradients into messages, in line with the arithmetic.
    pub fn copies_shards(&self) -> bool {
        self.recipe(|stack| &stack.copied_shards) == Some(true)
    }

    /// Gradients of whole copies are reduced beside the backward pass; so they are where nobody has found out.
    pub fn overlaps_gradients(&self) -> bool {
        self.recipe(|stack| &stack.gradient_overlap) != Some(false)
    }

    /// Each tensor-parallel rank sends its part of the activations to the next stage.
    pub fn scatters_activations(&self) -> bool {
        self.recipe(|stack| &stack.scattered_stages) == Some(true)
    }

    /// No program, but something that people write theirs with.
    pub fn is_library(&self) -> bool {
        Stacks::embedded().for_framework(self).is_some_and(|stack| stack.library)
    }

    /// Experts of a layer can be shared out over ranks. Stacks that split layers do that too; others keep every expert on every rank, whatever
    /// would be faster.
    pub fn splits_experts(&self) -> bool {
        Stacks::embedded().splits_layers(self) || self.recipe(|stack| &stack.expert_dispatch).is_some()
    }

    /// A token goes once to each rank, however many of its experts are there.
    pub fn dispatches_once(&self) -> bool {
        self.recipe(|stack| &stack.expert_dispatch) == Some(ExpertDispatch::EachRank)
    }

    /// The stated year of the software, else that of a stack which is no longer developed; `None` is today's.
    pub fn year(&self, stated: Option<u32>) -> Option<u32> {
        stated.or_else(|| Stacks::embedded().for_framework(self)?.last_year)
    }

    /// What the recipes of the stack do; `None` where none is named, or nobody has found out.
    pub fn recipe<T: Copy + 'static>(&self, cell: impl Fn(&'static Stack) -> &'static Cell<T>) -> Option<T> {
        Stacks::embedded().for_framework(self).and_then(|stack| cell(stack).recipe())
    }
}
