//! Legal layouts of a workload on a number of GPUs, as a training team would consider them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_estimate::Machine;
use gpuplan_import::{StatedLayout, VirtualStages};
use gpuplan_workload::{Layout, Model, Recompute, Shard, Stacks, Task, Training};

/// Sequences of so many tokens and more are worth splitting over GPUs.
const CONTEXT_PARALLEL_FROM: u32 = 32_768;

/// How much fuller than the mean the fullest stage of a pipeline may be: 126 layers on 16 stages (Llama 3, arXiv 2407.21783 section 3.3.2) are
/// 1.6 % uneven, 61 layers on 16 (DeepSeek-V3, arXiv 2412.19437 section 3.2) 4.9 %. Above it a smaller degree wastes less.
const MOST_UNEVEN: f64 = 0.06;

/// What Megatron-LM can count as layers of the first and the last stage.
const EMBEDDING_AND_LOSS: u32 = 2;

/// How layers are dealt out to the stages of a pipeline that cannot all have as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum UnevenStages {
    /// The embedding and the loss count as a layer each, so that the first and the last stage have one less.
    EmbeddingAndLossCount,
    /// The last stage has fewer.
    LastHas {
        /// Its layers.
        layers: u32,
    },
}

/// Every layout of `gpus` GPUs that divides the model, the batch and the machine, and has what is stated of it.
pub fn layouts(
    (model, training): (&Model, &Training),
    machine: &Machine,
    gpus: u32,
    global_batch: u64,
    stated: &StatedLayout,
) -> Vec<Layout> {
    let mut found = Vec::new();
    let splits_weights = splits_weights(training);
    // A layout that the stack cannot be told is none.
    let has_zero1 = training.framework.recipe(|stack| &stack.zero1) != Some(false);
    for tensor in tensor_degrees(model, training, machine, gpus, stated.tensor) {
        for pipeline in pipeline_degrees(model, training, gpus / tensor, stated.pipeline) {
            for context in context_degrees(training, gpus / (tensor * pipeline), stated.context) {
                let data = gpus / (tensor * pipeline * context);
                if !global_batch.is_multiple_of(u64::from(data)) {
                    continue;
                }
                let base =
                    Layout { data, tensor, pipeline, context, sequence_parallel: tensor > 1, ..Layout::default() };
                let shards = stated_shards(shards(&base, splits_weights, machine, gpus), stated, &base);
                for expert in expert_degrees(model, machine, data, stated.expert) {
                    for (shard, shard_group) in
                        shards.iter().copied().filter(|(shard, _)| has_zero1 || *shard != Shard::Zero1)
                    {
                        found.push(Layout { expert, shard, shard_group, ..base });
                    }
                }
            }
        }
    }
    found
}

/// Micro batches that divide a rank's share of the batch, largest first.
pub fn micro_batches(global_batch: u64, layout: &Layout, stated: Option<u32>) -> Vec<u32> {
    let rank = global_batch / u64::from(layout.data);
    let candidates = stated.map_or_else(|| (0..12).rev().map(|power| 1 << power).collect(), |micro| vec![micro]);
    let mut found: Vec<u32> = candidates
        .into_iter()
        .filter(|micro| rank.is_multiple_of(u64::from(*micro)) && u64::from(*micro) <= rank)
        .collect();
    // A small odd share is also one micro batch.
    if stated.is_none() && rank <= 4096 && !rank.is_power_of_two() {
        found.insert(0, rank as u32);
    }
    found
}

/// What to try, cheapest in time first.
pub fn recomputes(training: &Training, model: &Model) -> Vec<Recompute> {
    match training.recompute {
        Some(stated) => vec![stated],
        None if !training.task.has_backward() || !model.kind.can_recompute() => vec![Recompute::None],
        None => vec![Recompute::None, Recompute::Full],
    }
}

/// Interleaved stages shrink the bubble and need micro-batches in multiples of the stages.
pub fn interleaves(model: &Model, layout: &Layout, micro_steps: u64, stated: Option<VirtualStages>) -> Vec<u32> {
    if layout.pipeline <= 1 {
        return vec![1];
    }
    // Parts that are stated are the only ones, and none where the layers cannot be cut so.
    let stated = stated.map(|stages| stages.parts(model.layers, layout.pipeline).unwrap_or(0));
    let allowed = |v: &u32| {
        let parts = layout.pipeline * v;
        let divides = model.layers.is_multiple_of(parts) || (model.layers + EMBEDDING_AND_LOSS).is_multiple_of(parts);
        *v == 1 || (divides && micro_steps.is_multiple_of(u64::from(layout.pipeline)))
    };
    candidates(stated, &[1, 2, 4]).into_iter().filter(|v| *v > 0).filter(allowed).collect()
}

/// Stacks that were named decide; where none was, only pre-training teams split layers and matrices by hand.
fn splits_layers(model: &Model, training: &Training) -> bool {
    let stack = Stacks::embedded().splits_layers(&training.framework)
        && (training.task == Task::Pretrain || !training.framework.is_open());
    stack && model.kind.is_transformer() && !training.task.has_adapters()
}

/// Whether weights are split over the data-parallel ranks of a model that is itself split: by stacks made for it, such as torchtitan.
fn splits_weights(training: &Training) -> bool {
    let stack = Stacks::embedded().for_framework(&training.framework);
    stack.and_then(|stack| stack.shard.recipe()) == Some(Shard::Zero3)
}

/// Whether the recipes of a stack that was named split the model so. Megatron-LM's and NeMo's split optimizer states alone; their FSDP gathers in buffers
/// of its own, and peaks by a third above what is expected of it here (docs/accuracy.md, "A twelfth look"), so it is for what fits in no other way.
pub fn is_usual(layout: &Layout, training: &Training) -> bool {
    let splits_states_alone = training.framework.recipe(|stack| &stack.shard) == Some(Shard::Zero1);
    !(splits_states_alone && matches!(layout.shard, Shard::Zero3 | Shard::Hsdp))
}

/// A degree that is stated is the only one.
fn candidates(stated: Option<u32>, usual: &[u32]) -> Vec<u32> {
    stated.map_or_else(|| usual.to_vec(), |degree| vec![degree])
}

/// Inside one link domain only, and only where the stack splits matrices.
fn tensor_degrees(model: &Model, training: &Training, machine: &Machine, gpus: u32, stated: Option<u32>) -> Vec<u32> {
    let splits = splits_layers(model, training) && machine.link.is_fast();
    let most = if splits { machine.link_domain(gpus).min(8) } else { 1 };
    let divides = |t: &u32| {
        *t <= most
            && gpus.is_multiple_of(*t)
            && model.heads.is_multiple_of(*t)
            && (model.kv_heads.is_multiple_of(*t) || t.is_multiple_of(model.kv_heads))
    };
    candidates(stated, &[1, 2, 4, 8]).into_iter().filter(|t| *t == 1 || divides(t)).collect()
}

fn pipeline_degrees(model: &Model, training: &Training, ranks: u32, stated: Option<u32>) -> Vec<u32> {
    let splits = splits_layers(model, training) && model.encoder_layers == 0 && model.text_tower.is_none();
    let is_even_enough = |p: u32| {
        let fullest = model.layers.div_ceil(p);
        let is_even = f64::from(fullest * p) <= f64::from(model.layers) * (1.0 + MOST_UNEVEN);
        is_even && (fullest * p == model.layers || uneven_stages(model.layers, p, 1).is_some())
    };
    let divides = |p: &u32| splits && ranks.is_multiple_of(*p) && *p < model.layers && is_even_enough(*p);
    candidates(stated, &[1, 2, 4, 8, 16, 32]).into_iter().filter(|p| *p == 1 || divides(p)).collect()
}

/// How layers are dealt out where the stages of a pipeline cannot all have as many. `None`: they can, or no way is known.
pub fn uneven_stages(layers: u32, stages: u32, virtual_stages: u32) -> Option<UnevenStages> {
    let (stages, parts) = (stages.max(1), stages.max(1) * virtual_stages.max(1));
    if layers.is_multiple_of(parts) {
        return None;
    }
    if (layers + EMBEDDING_AND_LOSS).is_multiple_of(parts) {
        return Some(UnevenStages::EmbeddingAndLossCount);
    }
    let fullest = layers.div_ceil(stages);
    let last = layers.checked_sub(fullest * (stages - 1)).filter(|last| (1..fullest).contains(last));
    last.filter(|_| virtual_stages <= 1).map(|layers| UnevenStages::LastHas { layers })
}

fn context_degrees(training: &Training, ranks: u32, stated: Option<u32>) -> Vec<u32> {
    let long = stated.is_some() || training.sequence_length >= CONTEXT_PARALLEL_FROM;
    candidates(stated, &[1, 2, 4, 8]).into_iter().filter(|c| *c == 1 || (long && ranks.is_multiple_of(*c))).collect()
}

/// Inside a link domain, and over several machines for models of more experts than it has GPUs.
fn expert_degrees(model: &Model, machine: &Machine, data: u32, stated: Option<u32>) -> Vec<u32> {
    let Some(experts) = model.experts else { return vec![1] };
    let domain = machine.link_domain(data).max(8);
    let is_wide = experts.experts > 8 * domain;
    let divides = |e: &u32| data.is_multiple_of(*e) && experts.experts.is_multiple_of(*e) && (*e <= domain || is_wide);
    candidates(stated, &[1, 8, 16, 32, 64]).into_iter().filter(|e| *e == 1 || divides(e)).collect()
}

/// Data-parallel ranks copy everything, or split states, or split weights too: over all ranks, or in groups of those that
/// share a GPU link.
fn shards(layout: &Layout, splits_weights: bool, machine: &Machine, gpus: u32) -> Vec<(Shard, Option<u32>)> {
    // Ranks that share a sequence hold copies too, and states are split over them.
    if layout.copies() == 1 {
        return vec![(Shard::None, None)];
    }
    let inside = machine.link_domain(gpus) / layout.tensor;
    let group = (inside > 1 && layout.data > inside && layout.data.is_multiple_of(inside) && layout.context == 1)
        .then_some(inside);
    let mut shards = vec![(Shard::Zero1, None)];
    if group.is_some() {
        shards.push((Shard::Zero1, group));
    }
    if layout.model_parallel() > 1 {
        if splits_weights {
            shards.push((Shard::Zero3, None));
        }
        return shards;
    }
    shards.extend([(Shard::None, None), (Shard::Zero3, None)]);
    if group.is_some() {
        shards.push((Shard::Hsdp, group));
    }
    shards
}

/// Of what may be split, what is stated: over all ranks, or in groups under HSDP. One rank has nothing to split with.
fn stated_shards(
    mut found: Vec<(Shard, Option<u32>)>,
    stated: &StatedLayout,
    layout: &Layout,
) -> Vec<(Shard, Option<u32>)> {
    let Some(shard) = stated.shard.filter(|_| layout.copies() > 1) else { return found };
    if shard == Shard::Hsdp {
        let (groups, whole): (Vec<_>, Vec<_>) = found.into_iter().partition(|(found, _)| *found == Shard::Hsdp);
        // On the GPUs of one group HSDP is FSDP.
        let mut kept = if groups.is_empty() { whole } else { groups };
        kept.retain(|(shard, group)| match group {
            Some(_) => *shard == Shard::Hsdp && (stated.shard_group.is_none() || stated.shard_group == *group),
            None => *shard == Shard::Zero3 && stated.shard_group.is_none_or(|ranks| ranks == layout.data),
        });
        return kept;
    }
    // Gradients alone beside the states: nobody chooses that who could split weights too, but DeepSpeed's users do.
    if shard == Shard::Zero2 && layout.model_parallel() == 1 {
        found.push((shard, None));
    }
    found.retain(|(found, group)| *found == shard && group.is_none());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;

    /// Eight ranks that share one long sequence would each hold all states of 8B parameters: 128 GB.
    #[test]
    fn states_are_split_over_ranks_that_share_a_sequence() {
        let hardware = Hardware::embedded().unwrap();
        let node = &hardware.instances().iter().find(|instance| instance.name == "p5.48xlarge").unwrap().node;
        let machine = Machine::new(hardware.gpu(node.gpu), node);
        let long = Layout { context: 8, ..Layout::default() };
        let split = shards(&long, false, &machine, 8);
        assert_eq!(split, [(Shard::Zero1, None), (Shard::None, None), (Shard::Zero3, None)]);
        assert_eq!(shards(&Layout::default(), false, &machine, 1), [(Shard::None, None)]);
    }

    /// Llama 3 405B has 126 layers and DeepSeek-V3 61, and both were trained on 16 stages.
    #[test]
    fn layers_that_do_not_divide_are_dealt_out() {
        use UnevenStages::{EmbeddingAndLossCount, LastHas};
        for (layers, stages, virtual_stages, dealt) in [
            (126, 16, 1, Some(EmbeddingAndLossCount)),
            (126, 16, 4, Some(EmbeddingAndLossCount)),
            (61, 16, 1, Some(LastHas { layers: 1 })),
            (61, 16, 2, None),
            (80, 16, 1, None),
            (63, 32, 1, Some(LastHas { layers: 1 })),
            (33, 32, 1, None),
            (8, 1, 1, None),
        ] {
            assert_eq!(uneven_stages(layers, stages, virtual_stages), dealt, "{layers} layers on {stages} stages");
        }
    }
}
