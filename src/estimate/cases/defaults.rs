//! What a sensible user would have chosen where nothing was said: a small search, listed under `assumed`.

use crate::misfit::Infeasible;
use crate::setting::Setting;
use crate::subject::{StepEstimate, Subject};
use gpuplan_units::names::word;
use gpuplan_workload::training::SINCE_SEQUENCE_PARALLEL;
use gpuplan_workload::training::usual_batch::pretraining_batch_tokens;
use gpuplan_workload::{AttentionKernel, Layout, Model, ModelKind, Overlap, Recompute, Shard, Stacks, Task, Training};

/// What is fixed; the rest is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Request {
    pub gpus: u32,
    /// Stated degrees; `None`: all open.
    pub layout: Option<Layout>,
    /// The degrees are stated, and nothing is said of what data-parallel ranks split.
    pub is_shard_open: bool,
    pub virtual_pipeline: Option<u32>,
    /// Degree that the experts of a mixture are split by.
    pub expert: Option<u32>,
    pub micro_batch: Option<u32>,
    pub recompute: Option<Recompute>,
    pub global_batch: Option<f64>,
    pub grad_accumulation: Option<u32>,
}

/// The fastest setting that fits, or the one that needs the least memory, with what was chosen. A published run ran: where its copies are
/// whole as far as it says, and do not fit, or only with layers that run again though it says nothing of that, its ranks split what the
/// recipes of its stack have them split.
pub fn complete(subject: &Subject, request: &Request) -> Result<(StepEstimate, Vec<String>), Infeasible> {
    let whole = completed(subject, request)?;
    let stack = Stacks::embedded().for_framework(&subject.training.framework);
    let usual = stack.and_then(|stack| stack.shard.recipe()).filter(|shard| *shard != Shard::None);
    let runs_as_said =
        |made: &StepEstimate| made.fits && (request.recompute.is_some() || made.setting.recompute == Recompute::None);
    let is_open = request.is_shard_open && !runs_as_said(&whole.0);
    let Some((shard, layout)) = usual.zip(request.layout).filter(|_| is_open) else {
        return Ok(whole);
    };
    let (split, mut assumed) = completed(subject, &Request { layout: Some(Layout { shard, ..layout }), ..*request })?;
    if !split.fits || whole.0.fits && !runs_as_said(&split) {
        return Ok(whole);
    }
    assumed.push(format!("shard={}", word(shard)));
    Ok((split, assumed))
}

fn completed(subject: &Subject, request: &Request) -> Result<(StepEstimate, Vec<String>), Infeasible> {
    let stated_batch = request.global_batch;
    let request = &Request { global_batch: stated_batch.or_else(|| usual_batch(subject, request)), ..*request };
    let mut best: Option<(StepEstimate, Option<String>)> = None;
    let mut misfit = None;
    for layout in layouts(subject, request) {
        for micro_batch in micro_batches(request, &layout) {
            for virtual_pipeline in interleaves(subject, request, &layout, micro_batch) {
                let accumulation = f64::from(request.grad_accumulation.unwrap_or(1));
                let global_batch =
                    request.global_batch.unwrap_or(f64::from(micro_batch) * f64::from(layout.data) * accumulation);
                let layout = Layout { virtual_pipeline, ..layout };
                match recomputed(subject, request, layout, micro_batch, global_batch) {
                    Ok((made, layers)) => {
                        if best.as_ref().is_none_or(|(best, _)| is_better(&made, best)) {
                            best = Some((made, layers));
                        }
                    }
                    // One of several ways to split cannot be; why counts where none can.
                    Err(why) => misfit = misfit.or(Some(why)),
                }
            }
        }
    }
    let none = || misfit.unwrap_or(Infeasible::Indivisible { what: "GPUs", by: request.gpus });
    let (mut best, recompute) = best.ok_or_else(none)?;
    let is_split_here = request.layout.is_none() && request.gpus > MOST_UNSPLIT_GPUS;
    best.doubts.setting = is_split_here || recompute.as_deref().is_some_and(|chosen| chosen != "none");
    let mut assumed = assumed(&Request { global_batch: stated_batch, ..*request }, &best.setting);
    assumed.extend(recompute.map(|recompute| format!("recompute={recompute}")));
    assumed.extend(assumed_of_the_stack(subject, &best.setting));
    Ok((best, assumed))
}

/// Fitting beats not fitting; then the faster. If neither fits, the run was another one than the memory of it is thought to be: neither
/// much memory nor much time is likely.
fn is_better(made: &StepEstimate, best: &StepEstimate) -> bool {
    match (made.fits, best.fits) {
        (true, false) => true,
        (false, true) => false,
        (true, true) => made.time.total < best.time.total,
        (false, false) => made.memory.needed * made.time.total < best.memory.needed * best.time.total,
    }
}

/// GPUs that run data parallel unless stated.
const MOST_UNSPLIT_GPUS: u32 = 8;

/// So many run data parallel unless stated; more are split over layers and matrices where the model needs it.
fn layouts(subject: &Subject, request: &Request) -> Vec<Layout> {
    if let Some(layout) = request.layout {
        let groups = groups(subject, request, layout);
        return groups.into_iter().flat_map(|layout| experts(subject, request, layout)).collect();
    }
    let gpus = request.gpus.max(1);
    let plain = Layout { data: gpus, ..Layout::default() };
    if gpus <= MOST_UNSPLIT_GPUS || !subject.model.kind.is_transformer() {
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

/// Hybrid shards lie inside a machine unless a mesh says otherwise (PyTorch's `HYBRID_SHARD`), and on all ranks where that is too much.
fn groups(subject: &Subject, request: &Request, layout: Layout) -> Vec<Layout> {
    if layout.shard != Shard::Hsdp || layout.shard_group.is_some() {
        return vec![layout];
    }
    let machine = subject.machine.link_domain(request.gpus).min(request.gpus);
    vec![Layout { shard_group: Some(machine), ..layout }, layout]
}

/// A stated layout that says nothing of a mixture's experts: whole on every rank, or one part on each of the ranks that reach each
/// other by the link, where the stack can do that.
fn experts(subject: &Subject, request: &Request, layout: Layout) -> Vec<Layout> {
    if !subject.training.framework.splits_experts() {
        return vec![layout];
    }
    let all = subject.model.experts.filter(|_| request.expert.is_none()).map_or(1, |experts| experts.experts);
    let near = (subject.machine.link_domain(request.gpus) / layout.tensor.max(1)).min(layout.copies());
    let parts = (2..=near).rev().find(|parts| all.is_multiple_of(*parts) && layout.copies().is_multiple_of(*parts));
    let split = parts.map(|expert| Layout { expert, ..layout });
    std::iter::once(layout).chain(split).collect()
}

/// Sequences a step of a pre-training that says nothing of its batch: as many tokens as a plan takes for a model of the size. One sequence
/// a GPU, which nobody trains with, would be updates and bubbles. `None`: another task, whose batch has no usual size, or something of the
/// batch is stated.
fn usual_batch(subject: &Subject, request: &Request) -> Option<f64> {
    let says_nothing = request.micro_batch.is_none() && request.grad_accumulation.is_none();
    let is_language = matches!(subject.model.kind, ModelKind::Decoder | ModelKind::Moe);
    if !says_nothing || !is_language || subject.training.task != Task::Pretrain {
        return None;
    }
    let ranks = f64::from(request.gpus.max(1));
    let sequences =
        pretraining_batch_tokens(subject.model.parameters) / f64::from(subject.training.sequence_length.max(1));
    // A power of two for each GPU, so that every usual micro batch divides it.
    Some(ranks * (sequences / ranks).max(1.0).log2().round().exp2())
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

/// One setting with the recompute that was stated. Where it was not: what the stack does for whoever says nothing, if it recomputes
/// then; else none if that fits, else as few layers of a stage as make it fit, which is what people do who find that it does not.
/// The second is what was chosen.
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
    let is_open = subject.training.task.has_backward() && subject.model.kind.can_recompute();
    let stack = Stacks::embedded().for_framework(&subject.training.framework);
    let unasked = stack.and_then(|stack| stack.recompute.parser()).filter(|usual| is_open && *usual != Recompute::None);
    if let Some(usual) = unasked {
        return Ok((estimate(usual)?, Some(word(usual))));
    }
    let none = estimate(Recompute::None)?;
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

/// Interleaving needs micro-batches in multiples of the stages (Narayanan et al. 2021, section 2.2). Where this was not stated the
/// recipes of the stack decide; where those are not known, a user who stated the micro batch runs the plain schedule.
fn interleaves(subject: &Subject, request: &Request, layout: &Layout, micro_batch: u32) -> Vec<u32> {
    if let Some(stated) = request.virtual_pipeline {
        return vec![stated.max(1)];
    }
    let stack = Stacks::embedded().for_framework(&subject.training.framework);
    let usual = stack.and_then(|stack| stack.interleaved.recipe()).unwrap_or(request.micro_batch.is_none());
    if layout.pipeline <= 1 || !usual {
        return vec![1];
    }
    let steps = request.global_batch.map_or(1.0, |batch| batch / (f64::from(layout.data) * f64::from(micro_batch)));
    let layers = subject.model.layers;
    // Embedding and head may count as layers of the first and the last stage (Megatron's `account_for_embedding_in_pipeline_split`
    // and `account_for_loss_in_pipeline_split`): so 126 layers go into 16 stages of 4 parts.
    let divides = |v: &u32| [layers, layers + 2].iter().any(|all| all.is_multiple_of(layout.pipeline * v));
    if (steps / f64::from(layout.pipeline)).fract() != 0.0 {
        return vec![1];
    }
    let mut several: Vec<u32> = (2..=4).filter(divides).collect();
    if several.is_empty() {
        several.extend((5..=layers / layout.pipeline).find(divides));
    }
    several.insert(0, 1);
    several
}

/// Whether tensor-parallel ranks of this stack split the work between products too, as its recipes have it (`catalogs/stacks.toml`). A stack
/// that nobody named is taken for one of those that are in use: Megatron, NeMo, torchtitan and Nanotron all do.
pub fn sequence_parallel(training: &Training, tensor: u32, assumed: &mut Vec<String>) -> bool {
    let stack = Stacks::embedded().for_framework(&training.framework);
    let known = stack.and_then(|stack| stack.sequence_parallel(tensor));
    let usual = known.unwrap_or(training.framework.is_open()) && training.is_since(SINCE_SEQUENCE_PARALLEL);
    let usual = tensor > 1 && usual;
    if tensor > 1 {
        assumed.push(format!("sequence_parallel={usual}"));
    }
    usual
}

/// What a stack does by itself on a GPU that it is made for, where the case says nothing else.
fn assumed_of_the_stack(subject: &Subject, chosen: &Setting) -> Vec<String> {
    let training = subject.training;
    if !training.has_transformer_engine() || subject.rates.flash3.is_none() || !subject.model.kind.is_transformer() {
        return Vec::new();
    }
    let mut list = Vec::new();
    if training.uses_flash() && training.kernels.attention != Some(AttentionKernel::Flash3) {
        list.push("attention=flash3".to_owned());
    }
    let splits_products = chosen.layout.tensor > 1 && chosen.layout.sequence_parallel;
    if training.synchronization.overlap.is_none() && (splits_products || chosen.layout.shard == Shard::Zero1) {
        let usual = training.overlap(true);
        let possible = Overlap { tensor_parallel: usual.tensor_parallel && splits_products, ..usual };
        list.push(format!("overlap={}", Vec::<String>::from(possible).join(",")));
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
    if request.expert.is_none() && chosen.layout.expert > 1 {
        list.push(format!("expert={}", chosen.layout.expert));
    }
    if request.virtual_pipeline.is_none() && chosen.layout.virtual_pipeline > 1 {
        list.push(format!("virtual_pipeline={}", chosen.layout.virtual_pipeline));
    }
    list
}

/// Length of the usual recipe, never beyond the positions of the model: patches of an image; 512 tokens of an encoder (Devlin et al.
/// 2018, arXiv 1810.04805) and of T5 (Raffel et al. 2019, arXiv 1910.10683); the context of GPT-3 of a decoder (arXiv 2005.14165);
/// of a generation script a short prompt and a short answer.
pub fn usual_length(task: Task, model: &Model, native_tokens: Option<u32>) -> u32 {
    let usual = match (task, model.kind) {
        (_, ModelKind::Vit) => native_tokens.unwrap_or(197),
        (Task::Inference, _) => 128,
        (_, ModelKind::Encoder | ModelKind::Encdec | ModelKind::MoeEncdec) => 512,
        _ => 2048,
    };
    if model.max_context == 0 { usual } else { usual.min(model.max_context) }
}
