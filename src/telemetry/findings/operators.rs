//! Rules on the operators of a trace.

use crate::findings::rule_check::{BUSY, FED, Facts, RuleCheck, STRAGGLES, percent};
use gpuplan_workload::Precision;
use gpuplan_workload::profile::{Cause, Finding, Mended, OperatorClass, Operators, Rule};

/// Share of a trace's span from which waiting for input counts. Judged: prefetching hides all of it in a sound run.
const INPUT_WAIT: f64 = 0.05;
/// Share of a span in which the GPU waits for launches. Judged; at ten percent graphs or compilation pay their trouble.
const HOST_BOUND: f64 = 0.10;
/// Share of the GPU's working time in kernels of products in bad sizes. Judged; below it mending them saves next to nothing.
const BAD_SHAPES: f64 = 0.10;
/// Share of the time of products on tensor cores, where they could all be. Judged.
const TENSOR_CORES: f64 = 0.10;
/// Share of the time of products in plain fp32 from which another format is worth it. Judged.
const IN_FP32: f64 = 0.20;
/// Share of a span for pageable copies. Judged.
const PAGEABLE: f64 = 0.01;
/// A pinned copy takes half of a pageable one, which is copied twice (CUDA C++ Best Practices Guide, "Pinned Memory").
const PINNED_SAVES: f64 = 0.5;
/// Waits of the host for the device in a step; one, to read the loss, is usual, and logging adds some. Judged.
const SYNCHRONISATIONS: f64 = 2.0;
/// Share of a span in which only communication runs: the line between the regimes of the estimate (docs/estimate.md, bands).
const EXPOSED: f64 = 0.10;

/// What the operators of a trace tell. `steps`: how many the trace marks.
pub fn findings(operators: &Operators, steps: Option<u64>, facts: &Facts) -> Vec<Finding> {
    let mut found = vec![loader_in_trace(operators), no_loss_scaler(operators)];
    // Without a device there are no kernels, launches, shapes or copies to judge.
    if operators.devices > 0 {
        found.extend([
            idle_in_trace(operators),
            host_bound(operators),
            small_shapes(operators),
            unaligned_shapes(operators),
            no_tensor_cores(operators, facts),
            fp32(operators, facts),
            pageable_copies(operators),
            synchronisation(operators, steps),
            exposed_communication(operators),
            straggler_in_trace(operators),
        ]);
    }
    found.into_iter().flatten().collect()
}

fn idle_in_trace(operators: &Operators) -> Option<Finding> {
    let busy = operators.busy_seconds / operators.span_seconds;
    RuleCheck {
        rule: Rule::Idle,
        measured: busy,
        threshold: BUSY,
        evidence: format!("kernels and copies fill {} of the trace", percent(busy)),
        advice: "look at the gaps in the trace: input, launches, waiting",
        cause: Cause::Program,
        mended: Mended::step(busy / FED),
    }
    .below()
}

fn loader_in_trace(operators: &Operators) -> Option<Finding> {
    // What the loader takes while the GPU is busy costs nothing.
    let waited = if operators.devices > 0 {
        operators.input_wait_seconds.min(operators.gap_seconds)
    } else {
        operators.input_wait_seconds
    };
    let share = waited / operators.span_seconds;
    RuleCheck {
        rule: Rule::Loader,
        measured: share,
        threshold: INPUT_WAIT,
        evidence: format!("the loader is waited for in {} of the trace", percent(share)),
        advice: "more loader workers, prefetching and pinned memory; decode ahead of time",
        cause: Cause::Program,
        mended: Mended::step(1.0 - share),
    }
    .above()
}

fn host_bound(operators: &Operators) -> Option<Finding> {
    let share = operators.host_bound_seconds / operators.span_seconds;
    RuleCheck {
        rule: Rule::HostBound,
        measured: share,
        threshold: HOST_BOUND,
        evidence: format!("in {} of the trace the GPU idles because nothing is launched", percent(share)),
        advice: "compile the model, use CUDA graphs, fuse small kernels or raise the micro batch",
        cause: Cause::Program,
        mended: Mended::step(1.0 - share),
    }
    .above()
}

fn small_shapes(operators: &Operators) -> Option<Finding> {
    let products = &operators.products;
    let share = products.small_seconds / operators.busy_seconds;
    RuleCheck {
        rule: Rule::SmallShapes,
        measured: share,
        threshold: BAD_SHAPES,
        evidence: format!(
            "{} of {} matrix products are smaller than 256 cubed, {} of the GPU's working time",
            products.small,
            products.shaped,
            percent(share)
        ),
        advice: "raise the micro batch or fuse products: these are over before a large GPU has started",
        cause: Cause::Program,
        mended: Mended::MicroBatch,
    }
    .above()
}

fn unaligned_shapes(operators: &Operators) -> Option<Finding> {
    let products = &operators.products;
    let share = products.unaligned_seconds / operators.busy_seconds;
    let example = products.unaligned_example.as_ref().map_or(String::new(), |example| format!(", such as {example}"));
    RuleCheck {
        rule: Rule::UnalignedShapes,
        measured: share,
        threshold: BAD_SHAPES,
        evidence: format!(
            "{} of {} matrix products have a size that is no multiple of 8{example}, {} of the GPU's working time",
            products.unaligned,
            products.shaped,
            percent(share)
        ),
        advice: "pad the vocabulary, hidden sizes and batch to multiples of 8, better 64, so that tensor cores work on whole tiles",
        cause: Cause::Program,
        mended: Mended::Unknown,
    }
    .above()
}

/// Share of the time of products whose kernels name their unit; `None` where too few do, or products are too little of the work to matter.
fn named_share(operators: &Operators, seconds: f64) -> Option<f64> {
    let named = operators.products.tensor_core_seconds + operators.products.fp32_seconds;
    let all = operators.seconds(OperatorClass::Compute);
    let matters = all > BAD_SHAPES * operators.busy_seconds;
    (matters && named > all / 2.0).then(|| seconds / named)
}

fn no_tensor_cores(operators: &Operators, facts: &Facts) -> Option<Finding> {
    let share = named_share(operators, operators.products.tensor_core_seconds)
        .filter(|_| facts.has_tensor_cores != Some(false))?;
    RuleCheck {
        rule: Rule::NoTensorCores,
        measured: share,
        threshold: TENSOR_CORES,
        evidence: format!("{} of the time of matrix products is spent on tensor cores", percent(share)),
        advice: "use bf16, or allow tf32 (`torch.set_float32_matmul_precision(\"high\")`)",
        cause: Cause::Program,
        mended: Mended::Precision { precision: half(facts) },
    }
    .below()
}

fn fp32(operators: &Operators, facts: &Facts) -> Option<Finding> {
    let share =
        named_share(operators, operators.products.fp32_seconds).filter(|_| facts.has_tensor_cores != Some(false))?;
    // Said already where hardly anything runs on tensor cores.
    if 1.0 - share < TENSOR_CORES {
        return None;
    }
    RuleCheck {
        rule: Rule::Fp32,
        measured: share,
        threshold: IN_FP32,
        evidence: format!("{} of the time of matrix products is plain fp32", percent(share)),
        advice: "run these products in bf16 (autocast) or tf32 too",
        cause: Cause::Program,
        mended: Mended::Precision { precision: half(facts) },
    }
    .above()
}

/// The half format that this GPU has.
fn half(facts: &Facts) -> Precision {
    if facts.has_bf16 == Some(false) { Precision::AmpFp16 } else { Precision::Bf16 }
}

fn no_loss_scaler(operators: &Operators) -> Option<Finding> {
    let products = &operators.products;
    if products.has_loss_scaler || !products.has_backward {
        return None;
    }
    RuleCheck {
        rule: Rule::NoLossScaler,
        measured: products.in_fp16 as f64,
        threshold: 0.0,
        evidence: format!("{} matrix products in fp16, and no loss scaler at work", products.in_fp16),
        advice: "small gradients vanish in fp16: scale the loss (`torch.amp.GradScaler`), or use bf16, which needs none",
        cause: Cause::Program,
        mended: Mended::Unknown,
    }
    .above()
}

fn pageable_copies(operators: &Operators) -> Option<Finding> {
    let pageable = || operators.copies.iter().filter(|copy| copy.is_pageable());
    let seconds: f64 = pageable().map(|copy| copy.seconds).sum();
    let share = seconds / operators.span_seconds;
    RuleCheck {
        rule: Rule::PageableCopies,
        measured: share,
        threshold: PAGEABLE,
        evidence: format!(
            "{} copies from or to pageable memory take {:.1} % of the trace",
            pageable().map(|copy| copy.calls).sum::<u64>(),
            share * 100.0
        ),
        advice: "pin the memory (`pin_memory=True`) and copy without waiting (`non_blocking=True`)",
        cause: Cause::Program,
        mended: Mended::step(1.0 - share * PINNED_SAVES),
    }
    .above()
}

fn synchronisation(operators: &Operators, steps: Option<u64>) -> Option<Finding> {
    let each = operators.synchronisations as f64 / steps? as f64;
    RuleCheck {
        rule: Rule::Synchronisation,
        measured: each,
        threshold: SYNCHRONISATIONS,
        evidence: format!("the host waits for the GPU {each:.0} times a step"),
        advice: "take `.item()`, `.cpu()`, prints of tensors and `synchronize()` out of the loop, or do them every hundredth step",
        cause: Cause::Program,
        mended: Mended::step(1.0 - operators.host_bound_seconds / operators.span_seconds),
    }
    .above()
}

fn exposed_communication(operators: &Operators) -> Option<Finding> {
    let share = operators.exposed_communication_seconds / operators.span_seconds;
    RuleCheck {
        rule: Rule::ExposedCommunication,
        measured: share,
        threshold: EXPOSED,
        evidence: format!("in {} of the trace GPUs only communicate", percent(share)),
        advice: "overlap it (bucket sizes, prefetch of the next layer, `--overlap-grad-reduce`), accumulate more steps, or shard over fewer GPUs",
        cause: Cause::Program,
        mended: Mended::step(1.0 - share),
    }
    .above()
}

fn straggler_in_trace(operators: &Operators) -> Option<Finding> {
    let slowest = operators.slowest_device?;
    RuleCheck {
        rule: Rule::Straggler,
        measured: slowest,
        threshold: STRAGGLES,
        evidence: format!(
            "the slowest device works {:.0} % longer than the middle one: all wait for it",
            (slowest - 1.0) * 100.0
        ),
        advice: "balance the stages or batches; if the work is equal, the card is slow: exchange the machine",
        cause: Cause::Machine,
        mended: Mended::step(1.0 / slowest),
    }
    .above()
}
