//! What a sensible user would have chosen where nothing was said: a small search, listed under `assumed`.

use crate::misfit::Infeasible;
use crate::setting::Setting;
use crate::subject::{StepEstimate, Subject};
use gpuplan_workload::{AttentionKernel, Framework, Layout, Recompute, Shard, Stacks};

/// What is fixed; the rest is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Request {
    pub gpus: u32,
    /// Stated degrees; `None`: all open.
    pub layout: Option<Layout>,
    pub virtual_pipeline: Option<u32>,
    pub micro_batch: Option<u32>,
    pub recompute: Option<Recompute>,
    pub global_batch: Option<f64>,
    pub grad_accumulation: Option<u32>,
}

/// The fastest setting that fits, or the one that needs the least memory, with what was chosen.
pub fn complete(subject: &Subject, request: &Request) -> Result<(StepEstimate, Vec<String>), Infeasible> {
    let mut best: Option<(StepEstimate, Option<String>)> = None;
    for layout in layouts(subject, request) {
        for micro_batch in micro_batches(request, &layout) {
            for virtual_pipeline in interleaves(subject, request, &layout, micro_batch) {
                let accumulation = f64::from(request.grad_accumulation.unwrap_or(1));
                let global_batch =
                    request.global_batch.unwrap_or(f64::from(micro_batch) * f64::from(layout.data) * accumulation);
                let layout = Layout { virtual_pipeline, ..layout };
                let (made, layers) = recomputed(subject, request, layout, micro_batch, global_batch)?;
                if best.as_ref().is_none_or(|(best, _)| is_better(&made, best)) {
                    best = Some((made, layers));
                }
            }
        }
    }
    let (best, recompute) = best.ok_or(Infeasible::Indivisible { what: "GPUs", by: request.gpus })?;
    let mut assumed = assumed(request, &best.setting);
    assumed.extend(recompute.map(|recompute| format!("recompute={recompute}")));
    assumed.extend(assumed_of_the_stack(subject, &best.setting));
    Ok((best, assumed))
}

/// Fitting beats not fitting; then the faster, or the smaller if neither fits.
fn is_better(made: &StepEstimate, best: &StepEstimate) -> bool {
    match (made.fits, best.fits) {
        (true, false) => true,
        (false, true) => false,
        (true, true) => made.time.total < best.time.total,
        (false, false) => made.memory.needed < best.memory.needed,
    }
}

/// Up to eight GPUs run data parallel unless stated; more are split over layers and matrices where the model needs it.
fn layouts(subject: &Subject, request: &Request) -> Vec<Layout> {
    if let Some(layout) = request.layout {
        return vec![layout];
    }
    let gpus = request.gpus.max(1);
    let plain = Layout { data: gpus, ..Layout::default() };
    if gpus <= 8 || !subject.model.kind.is_transformer() {
        return vec![plain, Layout { shard: Shard::Zero3, ..plain }];
    }
    let mut layouts = Vec::new();
    for tensor in [1, 2, 4, 8] {
        for pipeline in [1, 2, 4, 8, 16] {
            if gpus.is_multiple_of(tensor * pipeline)
                && subject.model.layers.is_multiple_of(pipeline)
                && subject.model.heads.is_multiple_of(tensor)
            {
                layouts.push(Layout {
                    data: gpus / (tensor * pipeline),
                    tensor,
                    pipeline,
                    sequence_parallel: tensor > 1,
                    shard: Shard::Zero1,
                    ..plain
                });
            }
        }
    }
    layouts.push(Layout { shard: Shard::Zero3, ..plain });
    layouts
}

fn micro_batches(request: &Request, layout: &Layout) -> Vec<u32> {
    let ranks = f64::from(layout.data);
    match (request.micro_batch, request.global_batch, request.grad_accumulation) {
        (Some(stated), _, _) => vec![stated.max(1)],
        (None, None, _) => vec![1],
        (None, Some(batch), Some(steps)) => vec![((batch / (ranks * f64::from(steps))) as u32).max(1)],
        (None, Some(batch), None) => {
            let divides = |micro: &u32| (batch / (ranks * f64::from(*micro))).fract() == 0.0;
            let found: Vec<u32> = [1, 2, 4, 8, 16, 32, 64].into_iter().filter(divides).collect();
            if found.is_empty() { vec![1] } else { found }
        }
    }
}

/// One setting with the recompute that was stated. Where it was not: none if that fits, else as few layers of a stage as make it
/// fit, which is what people do who find that it does not. The second is what was chosen.
fn recomputed(
    subject: &Subject,
    request: &Request,
    layout: Layout,
    micro_batch: u32,
    global_batch: f64,
) -> Result<(StepEstimate, Option<String>), Infeasible> {
    let estimate = |recompute| subject.estimate(&Setting { layout, micro_batch, global_batch, recompute });
    if let Some(stated) = request.recompute {
        return Ok((estimate(stated)?, None));
    }
    let none = estimate(Recompute::None)?;
    let is_open = subject.training.task.has_backward() && subject.model.kind.is_transformer();
    if none.fits || !is_open {
        return Ok((none, Some("none".to_owned())));
    }
    let full = estimate(Recompute::Full)?;
    let all = (subject.model.layers + subject.model.encoder_layers).div_ceil(layout.pipeline);
    let partial = (1..all)
        .map(|layers| (full.recomputing(layers, all, &none, &subject.machine), layers))
        .find(|(made, _)| made.fits);
    Ok(match partial {
        Some((made, layers)) => (made, Some(format!("{layers} of {all} layers"))),
        None => (full, Some("full".to_owned())),
    })
}

/// Interleaving needs micro-batches in multiples of the stages (Narayanan et al. 2021, section 2.2). Where the micro batch
/// was stated and this was not, the user runs the plain schedule.
fn interleaves(subject: &Subject, request: &Request, layout: &Layout, micro_batch: u32) -> Vec<u32> {
    if let Some(stated) = request.virtual_pipeline {
        return vec![stated.max(1)];
    }
    if layout.pipeline <= 1 || request.micro_batch.is_some() {
        return vec![1];
    }
    let steps = request.global_batch.map_or(1.0, |batch| batch / (f64::from(layout.data) * f64::from(micro_batch)));
    let allowed = |v: &u32| {
        *v == 1
            || (subject.model.layers.is_multiple_of(layout.pipeline * v)
                && (steps / f64::from(layout.pipeline)).fract() == 0.0)
    };
    (1..=4).filter(allowed).collect()
}

/// Whether tensor-parallel ranks of this stack split the work between products too, as its recipes have it (`catalogs/stacks.toml`).
pub fn sequence_parallel(framework: &Framework, tensor: u32, assumed: &mut Vec<String>) -> bool {
    let stack = Stacks::embedded().of(framework);
    let usual = tensor > 1 && stack.and_then(|stack| stack.sequence_parallel(tensor)).unwrap_or(false);
    if tensor > 1 {
        assumed.push(format!("sequence_parallel={usual}"));
    }
    usual
}

/// What a stack does by itself on a GPU that it is made for, where the case says nothing else.
fn assumed_of_the_stack(subject: &Subject, chosen: &Setting) -> Vec<String> {
    let training = subject.training;
    if !training.framework.is_transformer_engine()
        || subject.rates.flash3.is_none()
        || !subject.model.kind.is_transformer()
    {
        return Vec::new();
    }
    let mut list = Vec::new();
    if training.uses_flash() && training.kernels.attention != Some(AttentionKernel::Flash3) {
        list.push("attention=flash3".to_owned());
    }
    if training.synchronization.overlap.is_none() && (chosen.layout.tensor > 1 || chosen.layout.shard == Shard::Zero1) {
        list.push(format!("overlap={}", Vec::<String>::from(training.overlap(true)).join(",")));
    }
    list
}

fn assumed(request: &Request, chosen: &Setting) -> Vec<String> {
    let mut list = Vec::new();
    if request.layout.is_none() && request.gpus > 1 {
        list.push(format!("layout={}", chosen.layout));
    }
    if request.micro_batch.is_none() {
        list.push(format!("micro_batch={}", chosen.micro_batch));
    }
    if request.global_batch.is_none() {
        list.push(format!("global_batch={}", chosen.global_batch));
    }
    if request.virtual_pipeline.is_none() && chosen.layout.virtual_pipeline > 1 {
        list.push(format!("virtual_pipeline={}", chosen.layout.virtual_pipeline));
    }
    list
}
