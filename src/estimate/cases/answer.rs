//! The answer to one case: bands, the fit, what bounds the step and what was assumed.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::band::Regime;
use crate::cases::case::{EstimateCase, Prepared};
use crate::cases::defaults;
use crate::cases::likeness::Likeness;
use crate::constants::Constants;
use crate::doubts::Doubts;
use crate::misfit::Infeasible;
use crate::subject::{StepEstimate, Subject};
use crate::time::breakdown::Bound;
use gpuplan_hardware::Hardware;
use gpuplan_units::Band;
use gpuplan_workload::{Measure, Models, Task};

/// The answer to one line of cases: the estimate, or why there is none.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CaseAnswer {
    Estimate(Box<CaseEstimate>),
    Unsupported { id: Value, unsupported: String },
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CaseEstimate {
    pub id: Value,
    pub step_seconds: Band,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second_per_gpu: Option<Band>,
    pub samples_per_second: Band,
    pub model_tflops_per_gpu: Band,
    pub peak_memory_bytes: Band,
    /// What that peak is: of live tensors, of what the allocator has reserved, or of the whole device. The case names it in `training.measure`.
    pub peak_memory_measure: Measure,
    pub fits: bool,
    /// Chance that it does, by the band of the peak: one that fits with 0.6 may as well run out.
    pub fits_chance: f64,
    pub bound_by: Bound,
    pub regime: Regime,
    pub assumed: Vec<String>,
    /// What the band holds beside the regime; the fit of the bands asks.
    #[serde(skip)]
    pub doubts: Doubts,
    /// What the run is; published ones like it are looked up by it.
    #[serde(skip)]
    pub likeness: Likeness,
}

/// One line in, one answer out, whatever the line says.
pub fn answer(line: &str, hardware: &Hardware, models: &Models) -> CaseAnswer {
    let refuse = |id: Value, why: String| CaseAnswer::Unsupported { id, unsupported: why };
    let value: Value = match serde_json::from_str(line) {
        Ok(value) => value,
        Err(error) => return refuse(Value::Null, format!("not JSON: {error}")),
    };
    let id = value.get("id").cloned().unwrap_or(Value::Null);
    let case: EstimateCase = match serde_json::from_value(value) {
        Ok(case) => case,
        Err(error) => return refuse(id, error.to_string()),
    };
    match estimate(id.clone(), &case, hardware, models) {
        Ok(made) => CaseAnswer::Estimate(Box::new(made)),
        Err(why) => refuse(id, why),
    }
}

/// The estimate of one case. The error is the text of `unsupported`.
pub fn estimate(id: Value, case: &EstimateCase, hardware: &Hardware, models: &Models) -> Result<CaseEstimate, String> {
    prepared_estimate(Constants::embedded(), id, &case.prepare(hardware, models)?)
}

/// The estimate of a case that is filled in already, with any constants.
pub fn prepared_estimate(constants: &Constants, id: Value, prepared: &Prepared) -> Result<CaseEstimate, String> {
    let subject = Subject::with(constants, &prepared.model, &prepared.training, prepared.machine());
    let (made, chosen) = defaults::complete(&subject, &prepared.request).map_err(|misfit| match misfit {
        Infeasible::Unsupported { detail } => detail,
        Infeasible::Indivisible { what, by } => format!("no layout divides {what} by {by}"),
        Infeasible::Slow { what, .. } => format!("{what} takes too long"),
        Infeasible::NeedsMemory { need, have } => format!("needs {need} of {have}"),
    })?;
    let mut assumed = prepared.assumed.clone();
    assumed.extend(chosen);
    let machine = &subject.machine;
    if machine.network_assumed && made.setting.gpus() > machine.link_domain(made.setting.gpus()) {
        // Of a small model it decides more than all else.
        assumed.push(format!("node_network_gbit_per_s={:.0}", machine.node_network.0 * 8.0 / 1e9));
    }
    let answer = describe(id, &subject, &made, prepared.measure, assumed);
    if answer.step_seconds.is_finite() && answer.peak_memory_bytes.is_finite() && answer.step_seconds.expected > 0.0 {
        Ok(answer)
    } else {
        Err("the stated sizes give no finite estimate".to_owned())
    }
}

fn describe(id: Value, subject: &Subject, made: &StepEstimate, measure: Measure, assumed: Vec<String>) -> CaseEstimate {
    let step = made.step_seconds();
    let gpus = f64::from(made.setting.gpus());
    let batch = made.setting.global_batch;
    let tokens = subject
        .model
        .kind
        .is_transformer()
        .then(|| if subject.training.task == Task::Inference { batch } else { batch * subject.sequence });
    let flops = subject.model_flops_per_step(&made.setting);
    CaseEstimate {
        id,
        step_seconds: step,
        tokens_per_second_per_gpu: tokens.map(|tokens| step.map_decreasing(|seconds| tokens / seconds / gpus)),
        samples_per_second: step.map_decreasing(|seconds| batch / seconds),
        model_tflops_per_gpu: step.map_decreasing(|seconds| flops / seconds / gpus / 1e12),
        peak_memory_bytes: made.memory.on(&subject.machine, measure, made.doubts),
        peak_memory_measure: measure,
        fits: made.fits,
        fits_chance: made.memory.chance_to_fit(&subject.machine, made.doubts),
        bound_by: made.bound,
        regime: made.regime,
        assumed,
        doubts: made.doubts,
        likeness: Likeness::new(subject.model, subject.training, subject.machine.gpu, &made.setting),
    }
}
