//! A plan for work without GPU, for people and as JSON: the keys of contract section 3 that have a meaning for it, and its own.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::format;
use crate::plan_json::{Inputs, bill_line, rejected_json, stated};
use crate::plan_text::{bill_table, rejected, wrap};
use crate::sentences;
use crate::table::{Column, footer, render};
use gpuplan_plan::processing::{ProcessingPlan, ProcessingSet};
use gpuplan_units::Hours;
use gpuplan_workload::file::WorkloadFile;
use gpuplan_workload::{Assumption, Processing};

/// Everything beside the plans.
pub struct Context<'a> {
    pub work: &'a Processing,
    /// As it was asked, flags included.
    pub file: &'a WorkloadFile,
    pub assumed: &'a [Assumption],
    pub notes: &'a [String],
    pub now: Timestamp,
    pub inputs: Inputs,
}

/// As `plan_id` of machines with GPUs.
pub fn id(plan: &ProcessingPlan) -> String {
    let place = plan.on.place.zone_id.as_deref().unwrap_or(&plan.on.place.region);
    format!("{}/{place}/{}x{}/{}", plan.on.host.cloud, plan.on.host.name, plan.nodes, plan.on.purchase.word())
}

pub fn document(set: &ProcessingSet, context: &Context) -> Value {
    let plain = |plan: &ProcessingPlan| plan_json(plan, &[]);
    json!({
        "version": 1,
        "generated_at": context.now,
        "valid_until": set.recommendation.as_ref().map(ProcessingPlan::valid_until),
        "inputs": context.inputs,
        "workload": {
            "name": context.work.name,
            "task": "processing",
            "processing": {
                "samples": context.work.samples,
                "cpu_seconds_per_sample": gpuplan_estimate::processing::cpu_seconds(context.work),
                "reads_bytes": context.work.reads,
                "writes_bytes": context.work.writes,
                "shard_seconds": context.work.shard,
            },
            "assumed": sentences::assumption::sentences(context.assumed),
            "file": stated(context.file),
        },
        "limits": stated(&context.file.limits),
        "recommendation": set.recommendation.as_ref().map(|plan| plan_json(plan, &reasons(set))),
        "frontier": set.frontier.iter().map(plain).collect::<Vec<_>>(),
        "alternatives": set.alternatives.iter().map(plain).collect::<Vec<_>>(),
        "on_gpu_machines": set.on_gpu_machines.as_ref().map(plain),
        "rejected": set.rejected.iter().map(rejected_json).collect::<Vec<_>>(),
        "counts": { "offers": set.offers, "candidates": set.candidates },
        "notes": context.notes,
    })
}

fn reasons(set: &ProcessingSet) -> Vec<String> {
    set.reasons.iter().map(sentences::reason::sentence).collect()
}

fn plan_json(plan: &ProcessingPlan, because: &[String]) -> Value {
    let (on, work) = (&plan.on, &plan.work);
    let samples_take = work.seconds();
    json!({
        "id": id(plan),
        "cloud": on.host.cloud,
        "region": on.place.region,
        "zone_id": on.place.zone_id,
        "instance_type": on.host.name,
        // What stands idle; of machines without GPU nothing.
        "gpu": on.gpu,
        "gpus_per_node": if on.gpu.is_none() { json!(0) } else { Value::Null },
        "vcpus_per_node": on.host.vcpus,
        "nodes": plan.nodes,
        "purchase": on.purchase,
        "rate_usd_per_hour": on.quote.rate,
        "price": {
            "origin": on.quote.origin,
            "observed_at": on.quote.observed_at,
            "source": on.source,
            "stale": on.is_stale,
            "suspect": on.suspicions,
        },
        "bound_by": work.bound,
        "work": {
            "seconds": samples_take,
            "cores_per_node": work.cores,
            "computing_seconds": work.computing,
            "reading_seconds": work.reading,
            "writing_seconds": work.writing,
        },
        "losses": plan.losses.map(|losses| json!({
            "mean_hours_between": losses.up,
            "mean_hours_without": losses.down,
            "hours_each": losses.each,
            "basis": losses.evidence.unwrap_or(sentences::reason::AS_GPU_MACHINES),
        })),
        "layout": null,
        "gpu_utilization": null,
        "checkpoint": null,
        "wait_hours": "unknown",
        "run_hours": plan.hours,
        "cost_usd": plan.cost,
        "bill": plan.bill.lines.iter().map(bill_line).collect::<Vec<_>>(),
        "chance_by_deadline": plan.chance_by_deadline,
        "because": because,
        "advice": [],
    })
}

/// One line for the answer of several phases.
pub fn remark(set: &ProcessingSet) -> Option<String> {
    let best = set.recommendation.as_ref()?;
    let machines = format!("{} x {}, no GPU, bound by {}", best.nodes, best.on.host.name, best.work.bound.word());
    let Some(beside) = &set.on_gpu_machines else { return Some(machines) };
    Some(format!(
        "{machines}; on the CPUs of {} x {} ({}, {}) it would cost {}",
        beside.nodes,
        beside.on.host.name,
        beside.on.region(),
        beside.on.purchase,
        format::usd(beside.cost.expected)
    ))
}

pub fn text(set: &ProcessingSet, context: &Context, headline: Option<&str>, width: u16, most: usize) -> String {
    let Some(best) = &set.recommendation else { return String::new() };
    let mut out = headline.map_or_else(String::new, |headline| format!("{headline}\n\n"));
    let mut say = |line: &str, indent: &str| {
        out.push_str(&wrap(line, width, indent));
        out.push('\n');
    };
    let work = context.work;
    let samples = format::count(work.samples);
    say(&format!("{}: {samples} samples, {} read, {} stored, no GPU", work.name, work.reads, work.writes), "  ");
    if !context.assumed.is_empty() {
        say(&format!("Assumed: {}", sentences::assumption::sentences(context.assumed).join("; ")), "  ");
    }
    say("", "");
    say(
        &format!("Recommended: {} x {} ({} vCPUs), {}", best.nodes, best.on.host.name, vcpus(best), best.on.purchase),
        "  ",
    );
    for (name, value) in facts(best, context.now) {
        say(&format!("  {name:<9} {value}"), "            ");
    }
    for reason in reasons(set) {
        say(&format!("  {:<9} {reason}", "why"), "            ");
    }
    out.push('\n');
    out.push_str(&bill_table(&best.bill, best.cost.expected, width));
    out.push('\n');
    out.push_str(&plans(
        "Cheaper or faster (nothing beats these in both)",
        &set.frontier,
        best,
        context.now,
        width,
        most,
    ));
    if !set.alternatives.is_empty() {
        out.push('\n');
        out.push_str(&plans("Best of other machines", &set.alternatives, best, context.now, width, most));
    }
    let rejections = rejected(&set.rejected, width);
    if !rejections.is_empty() {
        out.push_str(&format!("\n{rejections}"));
    }
    out.push('\n');
    for note in context.notes {
        out.push_str(&wrap(&format!("Note: {note}"), width, "  "));
        out.push('\n');
    }
    let offers = format::thousands(set.offers as i128);
    out.push_str(&format!(
        "Looked at {offers} offers of machines without GPU; {} plans keep every limit.\n",
        set.candidates
    ));
    out
}

fn vcpus(plan: &ProcessingPlan) -> u32 {
    plan.nodes * plan.on.host.vcpus
}

fn facts(best: &ProcessingPlan, now: Timestamp) -> Vec<(&'static str, String)> {
    let zone = best.on.place.zone_id.as_deref().map_or_else(String::new, |zone| format!(" ({zone})"));
    let chance = best
        .chance_by_deadline
        .map_or_else(String::new, |chance| format!("; {:.0} % chance by the deadline", chance * 100.0));
    let stale = if best.on.is_stale { ", stale" } else { "" };
    vec![
        ("where", format!("{} {}{zone}", best.on.host.cloud.label(), best.on.place.region)),
        ("cost", format!("{} expected, {} at 90 %", format::usd(best.cost.expected), format::usd(best.cost.p90))),
        (
            "rate",
            format!(
                "{} an hour a machine, {} price seen {} ago ({}){stale}",
                format::rate(best.on.quote.rate),
                best.on.quote.origin.word(),
                format::age(best.on.quote.observed_at, now),
                best.on.source
            ),
        ),
        ("time", format!("{} expected, {} at 90 %{chance}", Hours(best.hours.expected), Hours(best.hours.p90))),
    ]
}

/// Plans one a row; `*` marks the recommended one.
fn plans(
    title: &str,
    plans: &[ProcessingPlan],
    best: &ProcessingPlan,
    now: Timestamp,
    width: u16,
    most: usize,
) -> String {
    let columns = [
        Column::left("", 0),
        Column::left("machines", 0),
        Column::right("vCPUs", 0),
        Column::left("where", 0),
        Column::left("terms", 0),
        Column::right("$/h", 100),
        Column::right("price seen", 110),
        Column::left("bound by", 90),
        Column::right("hours", 0),
        Column::right("cost", 0),
        Column::right("90 %", 80),
    ];
    let rows = plans.iter().take(most).map(|plan| {
        let stale = if plan.on.is_stale { "!" } else { "" };
        vec![
            if id(plan) == id(best) { "*".to_owned() } else { String::new() },
            format!("{} x {}", plan.nodes, plan.on.host.name),
            vcpus(plan).to_string(),
            format!("{} {}", plan.on.host.cloud, plan.on.place.zone_id.as_deref().unwrap_or(&plan.on.place.region)),
            plan.on.purchase.to_string(),
            format::usd(plan.on.quote.rate.times(plan.nodes)),
            format!("{}{stale}", format::seen(&plan.on.quote, now)),
            plan.work.bound.word().to_owned(),
            Hours(plan.hours.expected).to_string(),
            format::usd(plan.cost.expected),
            format::usd(plan.cost.p90),
        ]
    });
    let table = render(&columns, rows, width);
    format!("{title}\n{table}{}", footer(plans.len().min(most), plans.len(), "--max-results shows more"))
}
