//! Properties of the memory model over random plausible models and settings. Tests only.

#![cfg(test)]

use proptest::prelude::*;

use crate::memory::{MemoryBreakdown, MemoryInput};
use crate::setting::Setting;
use gpuplan_workload::Models;
use gpuplan_workload::training::LoraTargets;
use gpuplan_workload::{
    AttentionKernel, BaseWeights, Framework, FsdpStyle, Kernels, Layout, Lora, LossKernel, MemorySavings, MlpKind,
    Model, NormKind, Offload, Optimizer, Precision, Recompute, Shard, Task, Training,
};

const MEASURES: [fn(&MemoryBreakdown) -> f64; 4] = [|m| m.allocated, |m| m.reserved, |m| m.device, |m| m.needed];

prop_compose! {
    fn models()(
        layers in 8_u32..96,
        heads in prop::sample::select(vec![8_u32, 16, 32, 64]),
        shared in prop::sample::select(vec![1_u32, 2, 4, 8]),
        head_dim in prop::sample::select(vec![64_u32, 128]),
        ffn_tenths in 20_u32..60,
        vocab in 8_000_u32..260_000,
        gated: bool,
        rms: bool,
        tied_embeddings: bool,
        parallel_residual: bool,
    ) -> Model {
        let hidden = heads * head_dim;
        let mut model = Model {
            layers, heads, head_dim, hidden, vocab, tied_embeddings, parallel_residual,
            kv_heads: heads / shared,
            ffn_hidden: hidden * ffn_tenths / 10,
            mlp: if gated { MlpKind::Glu } else { MlpKind::Gelu },
            norm: if rms { NormKind::Rms } else { NormKind::Layer },
            ..Models::embedded().unwrap().find("llama-2-7b").unwrap().to_model()
        };
        model.parameters = model.counted_parameters();
        model
    }
}

prop_compose! {
    fn trainings()(
        task in prop::sample::select(vec![Task::Pretrain, Task::FullFineTune, Task::Lora, Task::Qlora]),
        precision in prop::sample::select(vec![Precision::Bf16, Precision::PureBf16, Precision::Tf32]),
        framework in prop::sample::select(vec!["", "fsdp", "litgpt", "torchtune", "megatron", "hf-trainer", "internevo"]),
        optimizer in prop::sample::select(vec![
            None, Some(Optimizer::Adamw), Some(Optimizer::AdamwBf16), Some(Optimizer::Adamw8bit), Some(Optimizer::AdamwPaged),
            Some(Optimizer::AdamwFlatFp32), Some(Optimizer::AdamwFp32Gradients),
        ]),
        loss in prop::sample::select(vec![
            None, Some(LossKernel::Chunked), Some(LossKernel::FusedLinear), Some(LossKernel::Bf16Chunked), Some(LossKernel::Fp32), Some(LossKernel::HfUpcast),
        ]),
        fsdp in prop::sample::select(vec![
            None, Some(FsdpStyle::One), Some(FsdpStyle::OneNoSync), Some(FsdpStyle::OneWeightsStayGathered), Some(FsdpStyle::Two),
        ]),
        attention in prop::sample::select(vec![None, Some(AttentionKernel::Flash), Some(AttentionKernel::Eager)]),
        offload in prop::sample::select(vec![None, None, Some(Offload::Parameters), Some(Offload::Activations)]),
        compile: bool,
        dropout: bool,
        optimizer_in_backward: bool,
        head_quantized: bool,
        rank in 4_u32..128,
    ) -> Training {
        Training {
            precision, optimizer, dropout,
            kernels: Kernels { attention, loss, compile, ..Kernels::default() },
            memory: MemorySavings {
                offload, fsdp, optimizer_in_backward, head_quantized: head_quantized && task == Task::Qlora,
            },
            base_weights: (task == Task::Qlora).then_some(BaseWeights::Nf4),
            lora: task.has_adapters().then_some(Lora { rank, targets: LoraTargets::ALL_LINEAR, dropout }),
            framework: Framework::new(framework),
            ..Training::new(task, 2048)
        }
    }
}

prop_compose! {
    fn layouts()(
        data in prop::sample::select(vec![2_u32, 4, 8, 32]),
        tensor in prop::sample::select(vec![1_u32, 2, 8]),
        pipeline in prop::sample::select(vec![1_u32, 2, 4]),
        shard in prop::sample::select(vec![Shard::Zero1, Shard::Zero2, Shard::Zero3]),
        sequence_parallel: bool,
    ) -> Layout {
        Layout { data, tensor, pipeline, shard, sequence_parallel: sequence_parallel && tensor > 1, ..Layout::default() }
    }
}

fn recomputes() -> impl Strategy<Value = Recompute> {
    prop::sample::select(vec![Recompute::None, Recompute::Selective, Recompute::Full, Recompute::Offload])
}

/// At a fixed number of micro-steps, so that nothing but the named quantity changes.
fn held(
    model: &Model,
    training: &Training,
    layout: Layout,
    micro_batch: u32,
    steps: u32,
    recompute: Recompute,
    sequence: u32,
) -> MemoryBreakdown {
    let global_batch = f64::from(layout.data) * f64::from(micro_batch) * f64::from(steps);
    let setting = Setting { layout, micro_batch, global_batch, recompute };
    MemoryInput { model, training, setting: &setting, sequence: f64::from(sequence) }.breakdown()
}

proptest! {
    #[test]
    fn memory_grows_with_micro_batch_and_sequence(
        model in models(), training in trainings(), layout in layouts(), recompute in recomputes(),
        micro in 1_u32..16, more in 1_u32..16, sequence in 128_u32..8192, longer in 1_u32..8192, steps in 1_u32..16,
    ) {
        let base = held(&model, &training, layout, micro, steps, recompute, sequence);
        let wider = held(&model, &training, layout, micro + more, steps, recompute, sequence);
        let stretched = held(&model, &training, layout, micro, steps, recompute, sequence + longer);
        for measure in MEASURES {
            prop_assert!(measure(&base).is_finite() && measure(&base) > 0.0);
            prop_assert!(measure(&wider) >= measure(&base));
            prop_assert!(measure(&stretched) >= measure(&base));
        }
    }

    #[test]
    fn sharded_memory_does_not_grow_with_data_parallel_ranks(
        model in models(), training in trainings(), layout in layouts(), recompute in recomputes(),
        micro in 1_u32..8, sequence in 128_u32..4096, steps in 1_u32..16, times in 2_u32..5,
    ) {
        let few = held(&model, &training, layout, micro, steps, recompute, sequence);
        let many = held(&model, &training, Layout { data: layout.data * times, ..layout }, micro, steps, recompute, sequence);
        for measure in MEASURES {
            prop_assert!(measure(&many) <= measure(&few) * (1.0 + 1e-12), "{} of {}", measure(&many), measure(&few));
        }
    }

    /// From one rank to two, gathered units and collectives' buffers appear; what is held for the whole run still shrinks.
    #[test]
    fn states_shrink_from_the_first_rank_on(model in models(), training in trainings(), layout in layouts(), steps in 1_u32..16) {
        let one = held(&model, &training, Layout { data: 1, ..layout }, 1, steps, Recompute::Full, 512);
        let two = held(&model, &training, Layout { data: 2, ..layout }, 1, steps, Recompute::Full, 512);
        prop_assert!(two.optimizer <= one.optimizer && two.gradients <= one.gradients);
        if training.memory.fsdp != Some(FsdpStyle::OneWeightsStayGathered) {
            prop_assert!(two.weights <= one.weights);
        }
        if layout.shard != Shard::Zero3 {
            prop_assert!(two.allocated <= one.allocated);
        }
    }
}
