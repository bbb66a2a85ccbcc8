//! One candidate in full for a person: time, memory, bill, why it lost and what would change that.

use crate::estimate::breakdown;
use crate::format;
use crate::input;
use crate::plan_json::{Context, plan_json};
use crate::plan_text::{bill, wrap};
use crate::serving_text;
use crate::spot_text;
use gpuplan_estimate::scaling;
use gpuplan_plan::Plan;

pub fn text(plan: &Plan, lost: &[String], changes: &[String], context: &Context, width: u16) -> String {
    let json = plan_json(plan, context);
    let instance = context.world.hardware.instance(plan.instance);
    let gpu = context.world.hardware.gpu(instance.node.gpu);
    let mut out = format!("{}\n", json.id);
    let mut row = |name: &str, value: String| {
        out.push_str(&wrap(&format!("  {name:<12}{value}"), width, "              "));
        out.push('\n');
    };
    row("GPUs", format!("{} x {} on {} x {}", plan.gpus(), gpu.name, plan.nodes, instance.name));
    let vcpus = if instance.vcpus > 0 { format!("{} vCPUs, ", instance.vcpus) } else { String::new() };
    row("machine", format!("{vcpus}link {}, network {}", shown(&instance.link_id), shown(&instance.fabric_id)));
    row(
        "terms",
        format!(
            "{} at {} an hour a machine, {} old, from {}",
            json.purchase,
            format::rate(json.rate_usd_per_hour),
            format::age(json.price.observed_at, context.now),
            json.price.source
        ),
    );
    if let Some(source) = context.world.market.source(&json.price.source) {
        row("", format!("{} ({})", source.title, source.url));
    }
    let served = serving_text::rows(plan, context);
    if served.is_empty() {
        row(
            "layout",
            format!(
                "{}, micro batch {}, {} accumulation steps",
                json.layout.label, json.layout.micro_batch, json.layout.grad_accumulation
            ),
        );
    }
    for (name, value) in served {
        row(name, value);
    }
    row(if json.serving.is_some() { "round" } else { "step" }, format::step_band(json.step_seconds));
    row("run", format!("{} expected, {} at 90 %", plan.hours(), gpuplan_units::Hours(plan.run.hours.p90)));
    for (name, value) in spot_text::rows(plan, context) {
        row(name, value);
    }
    row("GPU-hours", format::thousands(plan.gpu_hours().round() as i128));
    row("cost", format!("{} expected, {} at 90 %", format::usd(plan.cost.expected), format::usd(plan.cost.p90)));
    row(
        "interrupted",
        format!("every {} on average: {}", plan.run.interruptions.mean_time(), plan.run.interruptions.basis),
    );
    row(
        "GPU busy",
        format!(
            "{:.0} % of a step, {:.0} % MFU",
            json.gpu_utilization.expected * 100.0,
            json.model_flop_utilization * 100.0
        ),
    );
    if let Some(staging) = &plan.run.staging {
        row("data", format::staging(staging));
    }
    for (name, value) in input::rows(plan) {
        row(name, value);
    }
    row("scaling", scaling::text(&plan.step));
    for reason in lost {
        row("why not", reason.clone());
    }
    for change in changes {
        row("changes", change.clone());
    }
    for reason in &plan.because {
        row("why", reason.clone());
    }
    for advice in &plan.advice {
        row("advice", advice.clone());
    }
    out.push('\n');
    out.push_str(&breakdown(&plan.step, instance.node.gpu_memory, width));
    out.push('\n');
    out.push_str(&bill(plan, width));
    out
}

fn shown(id: &str) -> &str {
    if id.is_empty() { "unknown" } else { id }
}
