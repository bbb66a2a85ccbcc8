//! One candidate in full: time, memory, bill, why it lost and what would change that.

use schemars::JsonSchema;
use serde::Serialize;

use crate::measure::estimate::breakdown;
use crate::measure::nearest::{self, NearestReport};
use crate::plan::input;
use crate::plan::plan_text::bill;
use crate::plan::serving_text;
use crate::plan::spot_text;
use crate::sentences;
use crate::text::format;
use crate::text::json::{VERSION, pretty};
use crate::text::wrap::wrap;
use gpuplan_accuracy::nearest::Nearest;
use gpuplan_estimate::scaling::{self, Scaling};
use gpuplan_plan::Plan;
use gpuplan_plan::document::{Context, PlanRecord};
use gpuplan_plan::explanation::comparison::{WhyNot, WouldChange};
use gpuplan_units::Hours;

/// `gpuplan explain -o json`.
#[derive(Serialize, JsonSchema)]
pub struct ExplainReport<'a> {
    version: u32,
    /// The plan that is explained.
    plan: PlanRecord,
    /// Whether it is the plan that the file's own preferences lead to.
    recommended: bool,
    /// Why it was not recommended, one sentence a reason.
    why_not: Vec<String>,
    /// What would make it the recommended one, as sentences.
    what_would_change: Vec<String>,
    /// What several GPUs do together over as many alone; `null` for one GPU.
    scaling: Option<Scaling>,
    /// `why_not` with its figures.
    why_not_reasons: &'a [WhyNot],
    /// `what_would_change` with its figures.
    changes: &'a [WouldChange],
    /// The published runs that are most like the plan's steps; `null` for a model that is served.
    nearest: Option<NearestReport>,
}

/// A plan beside the recommended one. Both lists are empty for the recommended plan itself.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    pub is_recommended: bool,
    pub why_not: Vec<WhyNot>,
    pub would_change: Vec<WouldChange>,
}

impl Comparison {
    fn why_not(&self) -> Vec<String> {
        self.why_not.iter().map(sentences::comparison::why_not).collect()
    }

    fn would_change(&self) -> Vec<String> {
        self.would_change.iter().map(sentences::comparison::would_change).collect()
    }
}

pub fn json(plan: &Plan, comparison: &Comparison, nearest: Option<&Nearest>, context: &Context) -> String {
    pretty(&ExplainReport {
        version: VERSION,
        plan: PlanRecord::new(plan, context),
        recommended: comparison.is_recommended,
        why_not: comparison.why_not(),
        what_would_change: comparison.would_change(),
        scaling: Scaling::from_step(&plan.step),
        why_not_reasons: &comparison.why_not,
        changes: &comparison.would_change,
        nearest: nearest.map(NearestReport::new),
    })
}

pub fn text(plan: &Plan, comparison: &Comparison, nearest: Option<&Nearest>, context: &Context, width: u16) -> String {
    let json = PlanRecord::new(plan, context);
    let memory = context.world.hardware.instance(plan.instance).node.gpu_memory;
    let mut rows = machine_rows(plan, &json, context);
    rows.extend(run_rows(plan, &json, context));
    rows.extend(nearest.map(|nearest| ("published", nearest::sentence(nearest))));
    rows.extend(comparison.why_not().into_iter().map(|reason| ("why not", reason)));
    rows.extend(comparison.would_change().into_iter().map(|change| ("changes", change)));
    rows.extend(plan.reasons.iter().map(|reason| ("why", sentences::reason::sentence(reason))));
    rows.extend(plan.advice.iter().map(|advice| ("advice", sentences::advice::sentence(advice))));
    let mut out = format!("{}\n", json.id);
    for (name, value) in rows {
        out.push_str(&wrap(&format!("  {name:<12}{value}"), width, "              "));
        out.push('\n');
    }
    out.push('\n');
    out.push_str(&breakdown(&plan.step, memory, width));
    out.push('\n');
    out.push_str(&bill(plan, width));
    out
}

/// What is rented, and on what terms.
fn machine_rows(plan: &Plan, json: &PlanRecord, context: &Context) -> Vec<(&'static str, String)> {
    let instance = context.world.hardware.instance(plan.instance);
    let gpu = context.world.hardware.gpu(instance.node.gpu);
    let vcpus = if instance.vcpus > 0 { format!("{} vCPUs, ", instance.vcpus) } else { String::new() };
    let terms = format!(
        "{} at {} an hour a machine, {} old, from {}",
        json.machines.purchase.word(),
        format::rate(json.machines.rate_usd_per_hour),
        format::age(json.price.observed_at, context.now),
        json.price.source
    );
    let mut rows = vec![
        ("GPUs", format!("{} x {} on {} x {}", plan.gpus(), gpu.name, plan.nodes, instance.name)),
        ("machine", format!("{vcpus}link {}, network {}", shown(&instance.link_id), shown(&instance.fabric_id))),
        ("terms", terms),
    ];
    if let Some(source) = context.world.market.source(&json.price.source) {
        rows.push(("", format!("{} ({})", source.title, source.url)));
    }
    rows
}

/// How the work runs on it, how long and for how much.
fn run_rows(plan: &Plan, json: &PlanRecord, context: &Context) -> Vec<(&'static str, String)> {
    let mut rows = serving_text::rows(plan, context);
    if rows.is_empty() {
        let layout = &json.layout;
        let settings = format!(
            "{}, micro batch {}, {} accumulation steps",
            layout.label, layout.micro_batch, layout.grad_accumulation
        );
        rows.push(("layout", settings));
    }
    let step = if json.serving.is_some() { "round" } else { "step" };
    rows.push((step, format::step_band(json.step.step_seconds)));
    rows.push(("run", format!("{} expected, {} at 90 %", plan.hours(), Hours(plan.run.hours.p90))));
    rows.extend(spot_text::rows(plan, context));
    let (cost, interruptions) = (&plan.cost, &plan.run.interruptions);
    let (busy, utilization) = (json.step.gpu_utilization.expected, json.step.model_flop_utilization);
    rows.extend([
        ("GPU-hours", format::thousands(plan.gpu_hours().round() as i128)),
        ("cost", format!("{} expected, {} at 90 %", format::usd(cost.expected), format::usd(cost.p90))),
        ("interrupted", format!("every {} on average: {}", interruptions.mean_time(), interruptions.basis)),
        ("GPU busy", format!("{:.0} % of a step, {:.0} % MFU", busy * 100.0, utilization * 100.0)),
    ]);
    rows.extend(plan.run.staging.as_ref().map(|staging| ("data", format::staging(staging))));
    rows.extend(input::rows(plan));
    rows.push(("scaling", scaling::text(&plan.step)));
    let energy = json.energy.iter().flat_map(sentences::energy::terms);
    rows.extend(["energy", "emissions"].into_iter().zip(energy));
    rows
}

fn shown(id: &str) -> &str {
    if id.is_empty() { "unknown" } else { id }
}
