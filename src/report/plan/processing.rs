//! A plan for work without GPU, for people.

use jiff::Timestamp;

use crate::plan::brief::assumed;
use crate::plan::plan_text::{bill_table, rejected};
use crate::sentences;
use crate::text::format;
use crate::text::table::{Column, footer, render};
use crate::text::wrap::wrap;
use gpuplan_plan::document::{ProcessingContext as Context, processing_id as id};
use gpuplan_plan::processing::{ProcessingPlan, ProcessingSet};
use gpuplan_units::Hours;

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

/// Lines for what was assumed on the first screen.
const LINES_ASSUMED: usize = 2;

/// `most`: as many rows of each table, with everything else; `None`: the first screen alone.
pub fn text(set: &ProcessingSet, context: &Context, headline: Option<&str>, width: u16, most: Option<usize>) -> String {
    let Some(best) = &set.recommendation else { return String::new() };
    let mut out = headline.map_or_else(String::new, |headline| format!("{headline}\n\n"));
    let mut say = |line: &str, indent: &str| {
        out.push_str(&wrap(line, width, indent));
        out.push('\n');
    };
    let work = context.work;
    let samples = format::count(work.samples);
    say(&format!("{}: {samples} samples, {} read, {} stored, no GPU", work.name, work.reads, work.writes), "  ");
    if !context.assumed.is_empty() && most.is_some() {
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
    // The first says what bounds the work.
    let reasons = set.reasons.iter().take(if most.is_some() { usize::MAX } else { 1 });
    for reason in reasons.map(sentences::reason::sentence) {
        say(&format!("  {:<9} {reason}", "why"), "            ");
    }
    out.push('\n');
    let Some(most) = most else {
        let is_end = |index: usize| index == 0 || index + 1 == set.frontier.len();
        let few = set.frontier.iter().enumerate().filter(|(index, plan)| is_end(*index) || id(plan) == id(best));
        let few: Vec<ProcessingPlan> = few.map(|(_, plan)| plan.clone()).collect();
        out.push_str(&plans("Cheapest, recommended (*), fastest", &few, best, context.now, width, few.len()));
        let said = assumed(context.assumed, width, LINES_ASSUMED);
        out.push_str(&said.map_or_else(String::new, |said| format!("\n{said}\n")));
        out.push_str("More:    --details\n");
        return out;
    };
    out.push_str(&bill_table(&best.bill, best.cost.expected, width));
    out.push('\n');
    let title = "Cheaper or faster (nothing beats these in both)";
    out.push_str(&plans(title, &set.frontier, best, context.now, width, most));
    if !set.alternatives.is_empty() {
        out.push('\n');
        out.push_str(&plans("Best of other machines", &set.alternatives, best, context.now, width, most));
    }
    let rejections = rejected(&set.rejected, width);
    if !rejections.is_empty() {
        out.push_str(&format!("\n{rejections}"));
    }
    out.push('\n');
    for note in set.warnings.iter().map(sentences::warning::sentence) {
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
