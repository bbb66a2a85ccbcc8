//! Legal layouts of a workload on a number of GPUs, as a training team would consider them.

use gpuplan_estimate::Machine;
use gpuplan_workload::{Layout, Model, Recompute, Shard, Stacks, Task, Training};

/// Sequences longer than this are worth splitting over GPUs.
const CONTEXT_PARALLEL_FROM: u32 = 32_768;

/// Every layout of `gpus` GPUs that divides the model, the batch and the machine.
pub fn layouts(model: &Model, training: &Training, machine: &Machine, gpus: u32, global_batch: u64) -> Vec<Layout> {
    let mut found = Vec::new();
    for tensor in tensor_degrees(model, training, machine, gpus) {
        for pipeline in pipeline_degrees(model, training, gpus / tensor) {
            for context in context_degrees(training, gpus / (tensor * pipeline)) {
                let data = gpus / (tensor * pipeline * context);
                if !global_batch.is_multiple_of(u64::from(data)) {
                    continue;
                }
                let base =
                    Layout { data, tensor, pipeline, context, sequence_parallel: tensor > 1, ..Layout::default() };
                for expert in expert_degrees(model, machine, data) {
                    for (shard, shard_group) in shards(&base, machine, gpus) {
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
        None if !training.task.has_backward() || !model.kind.is_transformer() => vec![Recompute::None],
        None => vec![Recompute::None, Recompute::Full],
    }
}

/// Interleaved stages shrink the bubble and need micro-batches in multiples of the stages.
pub fn interleaves(model: &Model, layout: &Layout, micro_steps: u64) -> Vec<u32> {
    if layout.pipeline <= 1 {
        return vec![1];
    }
    let allowed = |v: &u32| {
        model.layers.is_multiple_of(layout.pipeline * v)
            && (*v == 1 || micro_steps.is_multiple_of(u64::from(layout.pipeline)))
    };
    [1, 2, 4].into_iter().filter(allowed).collect()
}

/// Stacks that were named decide; where none was, only pre-training teams split layers and matrices by hand.
fn splits_layers(model: &Model, training: &Training) -> bool {
    let stack = Stacks::embedded().splits_layers(&training.framework)
        && (training.task == Task::Pretrain || !training.framework.0.is_empty());
    stack && model.kind.is_transformer() && !training.task.has_adapters()
}

/// Inside one link domain only, and only where the stack splits matrices.
fn tensor_degrees(model: &Model, training: &Training, machine: &Machine, gpus: u32) -> Vec<u32> {
    let splits = splits_layers(model, training) && machine.link.is_fast();
    let most = if splits { machine.link_domain(gpus).min(8) } else { 1 };
    let divides = |t: &u32| {
        *t <= most
            && gpus.is_multiple_of(*t)
            && model.heads.is_multiple_of(*t)
            && (model.kv_heads.is_multiple_of(*t) || t.is_multiple_of(model.kv_heads))
    };
    [1, 2, 4, 8].into_iter().filter(|t| *t == 1 || divides(t)).collect()
}

fn pipeline_degrees(model: &Model, training: &Training, ranks: u32) -> Vec<u32> {
    let splits = splits_layers(model, training) && model.encoder_layers == 0;
    let divides = |p: &u32| splits && ranks.is_multiple_of(*p) && model.layers.is_multiple_of(*p) && *p < model.layers;
    [1, 2, 4, 8, 16, 32].into_iter().filter(|p| *p == 1 || divides(p)).collect()
}

fn context_degrees(training: &Training, ranks: u32) -> Vec<u32> {
    let long = training.sequence_length > CONTEXT_PARALLEL_FROM;
    [1, 2, 4, 8].into_iter().filter(|c| *c == 1 || (long && ranks.is_multiple_of(*c))).collect()
}

fn expert_degrees(model: &Model, machine: &Machine, data: u32) -> Vec<u32> {
    let Some(experts) = model.experts else { return vec![1] };
    let domain = machine.link_domain(data).max(1);
    let divides =
        |e: &u32| *e == 1 || (data.is_multiple_of(*e) && experts.experts.is_multiple_of(*e) && *e <= domain.max(8));
    [1, 8, 64].into_iter().filter(divides).collect()
}

/// Data-parallel ranks copy everything, or split states, or split weights too: over all ranks, or in groups of those that
/// share a GPU link.
fn shards(layout: &Layout, machine: &Machine, gpus: u32) -> Vec<(Shard, Option<u32>)> {
    if layout.data == 1 {
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
        return shards;
    }
    shards.extend([(Shard::None, None), (Shard::Zero3, None)]);
    if group.is_some() {
        shards.push((Shard::Hsdp, group));
    }
    shards
}
