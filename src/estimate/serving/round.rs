//! A served model's round as a `StepEstimate`: time by parts, memory, what bounds it, and how far to trust it.

use crate::band::Regime;
use crate::doubts::Doubts;
use crate::memory::MemoryBreakdown;
use crate::misfit::Infeasible;
use crate::serving::load::{Flow, State};
use crate::serving::{PassTime, Replica, ServingEstimate};
use crate::setting::Setting;
use crate::subject::StepEstimate;
use crate::time::breakdown::{Bound, TimeBreakdown};
use gpuplan_hardware::Architecture;
use gpuplan_workload::{Layout, Recompute, StoredFormat};

/// Host and kernels that begin and end take more of a round than this: it is bound by them, and its band is theirs.
const LAUNCH_SHARE: f64 = 0.4;

/// A round of `served.replicas` copies in `state`.
pub fn step(
    replica: &Replica,
    flow: &Flow,
    state: &State,
    served: ServingEstimate,
) -> Result<StepEstimate, Infeasible> {
    let parts = flow.round(state)?;
    let layout = Layout { data: served.replicas, ..replica.layout };
    let limit = f64::from(served.batch_limit);
    let time = TimeBreakdown {
        matmul: parts.matmul,
        attention: parts.attention,
        elementwise: parts.elementwise,
        head: parts.head,
        launch: parts.launch,
        tensor_parallel: parts.tensor_parallel,
        bubble: parts.pipeline,
        total: parts.total(),
        launch_ratio: parts.launch / parts.total(),
        ..TimeBreakdown::default()
    };
    let held = flow.held;
    let kept = held.sequence * limit / replica.groups();
    let required = held.weights + held.workspace + kept;
    let (cache, activations) = if replica.serving.images.is_some() { (0.0, kept) } else { (kept, 0.0) };
    let memory = MemoryBreakdown {
        weights: held.weights,
        cache,
        activations,
        overhead: held.workspace,
        allocated: required,
        reserved: required,
        device: required,
        required,
        needed: required,
        analytic: held.weights + kept,
        ..MemoryBreakdown::default()
    };
    let over_link = layout.model_parallel() <= replica.machine.link_domain(layout.model_parallel());
    let setting = Setting {
        layout,
        micro_batch: served.batch_limit,
        global_batch: state.batch * f64::from(served.replicas),
        recompute: Recompute::None,
    };
    Ok(StepEstimate {
        setting,
        time,
        memory,
        fits: true,
        bound: bound(&parts),
        regime: regime(replica, &time),
        doubts: doubts(replica),
        certainty: replica.factors.certainty(&time, over_link, |class| replica.factors.for_class(class).overall()),
        feeding: None,
        experience: None,
        served: Some(served),
    })
}

/// What takes most of the time, reading weights and keys apart from arithmetic.
fn bound(parts: &PassTime) -> Bound {
    let kinds = [
        (parts.matmul + parts.head - parts.reading, Bound::Compute),
        (parts.reading + parts.attention + parts.elementwise, Bound::MemoryBandwidth),
        (parts.launch, Bound::Launch),
        (parts.tensor_parallel, Bound::GpuLink),
        (parts.pipeline, Bound::Pipeline),
    ];
    kinds.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(Bound::MemoryBandwidth, |(_, bound)| bound)
}

fn regime(replica: &Replica, time: &TimeBreakdown) -> Regime {
    if !replica.model.kind.is_transformer() {
        Regime::Vision
    } else if time.launch_ratio > LAUNCH_SHARE {
        Regime::Launch
    } else {
        Regime::Compute
    }
}

/// No serving engine is in the fit of the bands; formats of fewer bits have kernels of their own. Where kernels were measured on this
/// GPU, what is left to doubt is how they follow each other: 80 % of published runs whose model and GPU the factors had not seen are
/// within a factor of 1.19 (`benchmarks/serving/README.md`), which is about the width of the regime with the doubt about structure. Runs on pools
/// of their own differ more.
pub(super) fn doubts(replica: &Replica) -> Doubts {
    if replica.stands_on_kernels() {
        let framework = replica.serving.disaggregation.is_some();
        return Doubts { framework, structure: true, shape: replica.model.shape_is_guessed, ..Doubts::default() };
    }
    let architecture = replica.machine.gpu.architecture;
    // Models of several networks whose inference is in no fit, run by programs that differ in what they merge.
    let has_parts = replica.serving.images.is_some() || replica.transcribes();
    Doubts {
        framework: true,
        gpu: matches!(architecture, Architecture::BlackwellRtx | Architecture::Blackwell | Architecture::Turing)
            || replica.machine.gpu.is_assumed(),
        vendor: architecture.is_amd() || replica.machine.gpu.is_assumed(),
        structure: has_parts || replica.serving.weights != StoredFormat::Bf16 || replica.layout.pipeline > 1,
        stack: has_parts,
        experts: replica.model.experts.is_some(),
        shape: replica.model.shape_is_guessed,
        ..Doubts::default()
    }
}
