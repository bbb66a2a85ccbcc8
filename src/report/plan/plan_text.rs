//! A plan for a person: the answer first, then why, what it costs, what else there is, and what was left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::measure::profile_text;
use crate::plan::input;
use crate::plan::serving_text;
use crate::plan::spot_text;
use crate::sentences;
use crate::text::format;
use crate::text::table::{Column, footer, render_folding};
use crate::text::wrap::wrap;
use gpuplan_market::Offer;
use gpuplan_plan::document::{Context, PlanRecord, SweepRecord};
use gpuplan_plan::explanation::evidence::evidence;
use gpuplan_plan::input::feeding::bound_word;
use gpuplan_plan::{Bill, Plan, PlanSet, Rejected, RejectionReason, plan_id};
use gpuplan_units::names::word;
use gpuplan_units::{Bytes, Hours, Usd};
use gpuplan_workload::{Amount, Workload};

/// Reasons shown before the rest is counted.
const REJECTIONS_SHOWN: usize = 6;

/// Width for which wide tables are laid out.
const WIDE: u16 = 110;

pub fn text(set: &PlanSet, context: &Context, headline: Option<&str>, width: u16, most_rows: usize) -> String {
    let mut out = String::new();
    let mut say = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    if let Some(headline) = headline {
        say(headline.to_owned());
        say(String::new());
    }
    say(wrap(&workload_line(context.workload), width, "  "));
    if !context.assumed.is_empty() {
        say(wrap(&format!("Assumed: {}", sentences::assumption::sentences(context.assumed).join("; ")), width, "  "));
    }
    say(String::new());
    if let Some(best) = &set.recommendation {
        say(recommendation(best, context, width));
    }
    if set.terms.len() > 1 {
        say(terms_table(set, context, width));
    }
    let is_served = context.workload.serving.is_some();
    let table = if is_served { serving_text::plans_table } else { plans_table };
    let title =
        if context.workload.is_service() { "Cheapest" } else { "Cheaper or faster (nothing beats these in both)" };
    say(table(title, &set.frontier, set, context, width, most_rows));
    if !set.alternatives.is_empty() {
        say(table("Best of other GPUs and terms", &set.alternatives, set, context, width, most_rows));
    }
    say(rejected(&set.rejected, width));
    if !set.findings.is_empty() {
        say(profile_text::priced(&set.findings, width));
    }
    for warning in &set.warnings {
        say(wrap(&format!("Note: {}", sentences::warning::sentence(warning)), width, "  "));
    }
    say(format!(
        "Looked at {} offers and {} machine shapes; made {} layout estimates.",
        format::thousands(set.counts.offers.into()),
        set.counts.shapes,
        format::thousands(set.counts.layouts_estimated.into())
    ));
    out
}

/// One line that says what is to be run.
pub fn workload_line(workload: &Workload) -> String {
    if let Some(serving) = &workload.serving {
        return serving_text::workload_line(workload, serving);
    }
    let training = &workload.training;
    let batch = training.global_batch.unwrap_or(1);
    let steps = workload.amount.steps(batch as f64, f64::from(training.sequence_length));
    let amount = match workload.amount {
        Amount::Tokens(tokens) => format!("{} tokens in ", format::count(tokens)),
        Amount::Samples(samples) => format!("{} samples in ", format::count(samples)),
        Amount::Steps(_) => String::new(),
    };
    let plural = if steps == 1.0 { "" } else { "s" };
    let unit = if workload.model.kind.counts_samples() { "px" } else { "tokens" };
    format!(
        "{}: {}, {}, {amount}{} step{plural} of {batch} x {} {unit}",
        workload.name,
        format::model(&workload.model),
        word(training.precision),
        format::thousands(steps as i128),
        training.sequence_length,
    )
}

/// The same without its steps.
pub fn short_line(workload: &Workload) -> String {
    let line = workload_line(workload);
    line.split_once(" in ").filter(|_| workload.serving.is_none()).map_or(line.clone(), |(short, _)| short.to_owned())
}

fn rate_words(offer: &Offer, context: &Context) -> String {
    format!(
        "{} an hour a machine, {} price seen {} ago ({}){}",
        format::rate(offer.quote.rate),
        offer.quote.origin.word(),
        format::age(offer.quote.observed_at, context.now),
        offer.source,
        if offer.is_stale(context.now) { ", stale" } else { "" }
    )
}

fn in_full(full: Usd, owned: &str) -> String {
    let full = format::usd(full);
    format!("that is marginal cash; {full} in full, since `{owned}` is paid for already (capacity.toml)")
}

fn sweep_words(sweep: &SweepRecord) -> String {
    let SweepRecord { runs, gpus_per_run, side_by_side, rounds, run_hours } = sweep;
    let card = if gpus_per_run.is_slice() || gpus_per_run.devices() == 1 { "GPU" } else { "GPUs" };
    format!(
        "{runs} runs, {side_by_side} at a time on one machine, {gpus_per_run} {card} each, {rounds} rounds of {run_hours}; one bill"
    )
}

fn recommendation(plan: &Plan, context: &Context, width: u16) -> String {
    let json = PlanRecord::new(plan, context);
    let world = context.world;
    let offer = world.market.offer(plan.offer);
    let instance = world.hardware.instance(plan.instance);
    let gpu = world.hardware.gpu(instance.node.gpu);
    let place = offer.place.zone_id.as_deref().map_or(String::new(), |zone| format!(" ({zone})"));
    let count = if instance.node.gpus.is_slice() { instance.node.gpus.to_string() } else { plan.gpus().to_string() };
    let mut out = format!("Recommended: {count} x {}, {}\n", gpu.name, terms(plan, offer));
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "{}", wrap(&format!("  {name:<9} {value}"), width, "            "));
    };
    row(
        "where",
        format!("{} {}{place}, {} x {}", instance.cloud.label(), offer.place.region, plan.nodes, instance.name),
    );
    row("cost", format!("{} expected, {} at 90 %", format::usd(plan.cost.expected), format::usd(plan.cost.p90)));
    if let (Some(full), Some(owned)) = (plan.full_cost, &offer.owned) {
        row("", in_full(full, &owned.name));
    }
    row("rate", rate_words(offer, context));
    row("age", sentences::evidence::sentence(&evidence(plan, world, context.now)));
    let chance = plan
        .chance_by_deadline
        .map_or(String::new(), |chance| format!("; {:.0} % chance by the deadline", (chance * 100.0).min(99.0)));
    let half = if plan.spot.is_some() { format!("{} at 50 %, ", Hours(plan.run.hours.p50)) } else { String::new() };
    if !context.workload.is_service() {
        row("time", format!("{} expected, {half}{} at 90 %{chance}", plan.hours(), Hours(plan.run.hours.p90)));
    }
    if plan.run.beside_steps > 0.0 {
        row("", format!("{} of it beside training steps (training.overhead)", Hours(plan.run.beside_steps)));
    }
    for (name, value) in spot_text::rows(plan, context) {
        row(name, value);
    }
    let work = if json.serving.is_some() {
        serving_text::rows(plan, context)
    } else {
        training_rows(plan, &json, instance.node.gpu_memory)
    };
    for (name, value) in work {
        row(name, value);
    }
    if let Some(staging) = &plan.run.staging {
        row("data", format::staging(staging));
    }
    let energy = json.energy.iter().map(|energy| ("energy", sentences::energy::line(energy)));
    for (name, value) in input::rows(plan).into_iter().chain(energy) {
        row(name, value);
    }
    for reason in &plan.reasons {
        row("why", sentences::reason::sentence(reason));
    }
    for advice in &plan.advice {
        row("advice", sentences::advice::sentence(advice));
    }
    out.push('\n');
    out.push_str(&bill(plan, width));
    if plan.spot.is_some() {
        out.push('\n');
        out.push_str(&spot_text::tables(plan, context, width));
    }
    out
}

/// How a training run works.
fn training_rows(plan: &Plan, json: &PlanRecord, card: Bytes) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(sweep) = &json.sweep {
        rows.push(("sweep", sweep_words(sweep)));
    }
    rows.push((
        "layout",
        format!(
            "{}, micro batch {}, {} accumulation steps",
            json.layout.label, json.layout.micro_batch, json.layout.grad_accumulation
        ),
    ));
    let speed = json.step.tokens_per_second.map_or_else(
        || format!("{} samples/s", format::count(json.step.samples_per_second.expected)),
        |tokens| format!("{} tokens/s", format::count(tokens.expected)),
    );
    rows.push((
        "step",
        format!(
            "{}, {speed}, {:.0} % MFU",
            format::step_band(json.step.step_seconds),
            json.step.model_flop_utilization * 100.0
        ),
    ));
    rows.push(("memory", format!("{} of {card} a GPU", Bytes(plan.step.memory.required))));
    let saving = plan.run.saving;
    rows.push((
        "save",
        format!(
            "{} every {}, {} to upload",
            saving.bytes,
            Hours(saving.interval_seconds / 3600.0),
            Hours(saving.upload_seconds / 3600.0)
        ),
    ));
    rows
}

/// Terms for people; a commitment says its years.
fn terms(plan: &Plan, offer: &Offer) -> String {
    if plan.spot.is_some() || plan.standby.is_some() {
        plan.terms(offer.purchase).to_owned()
    } else {
        offer.purchase.to_string()
    }
}

/// The bill as lines with quantity, price and basis.
pub fn bill(plan: &Plan, width: u16) -> String {
    bill_table(&plan.bill, plan.cost.expected, width)
}

pub(crate) fn bill_table(bill: &Bill, expected: Usd, width: u16) -> String {
    let columns = [
        Column::left("bill", 0),
        Column::right("quantity", 0),
        Column::left("unit", 0),
        Column::right("price", 0),
        Column::right("cost", 0),
        Column::left("basis", WIDE),
    ];
    let mut rows: Vec<Vec<String>> = bill
        .lines
        .iter()
        // What rounds to nothing is in the JSON.
        .filter(|line| line.cost.dollars() >= 0.005)
        .map(|line| {
            let quantity = if line.quantity < 100.0 {
                format::three_figures(line.quantity)
            } else {
                format::thousands(line.quantity.round() as i128)
            };
            vec![
                line.item.label().to_owned(),
                quantity,
                line.unit.to_owned(),
                format!("${}", line.unit_price),
                format::usd(line.cost),
                sentences::bill::basis(&line.basis),
            ]
        })
        .collect();
    let mut total = vec![String::new(); columns.len()];
    (total[0], total[4]) = ("total".to_owned(), format::usd(expected));
    rows.push(total);
    render_folding(&columns, rows, width)
}

/// The recommended machines on every way to buy them.
fn terms_table(set: &PlanSet, context: &Context, width: u16) -> String {
    let columns = [
        Column::left("the same machines", 0),
        Column::left("where", 90),
        Column::right("hours", 0),
        Column::right("90 %", 0),
        Column::right("cost", 0),
        Column::right("90 %", 0),
        Column::left("but", 0),
    ];
    let rows = set.terms.iter().map(|terms| match &terms.outcome {
        Ok(plan) => {
            let place = &context.world.market.offer(plan.offer).place;
            vec![
                terms.purchase.to_owned(),
                place.zone_id.as_deref().unwrap_or(&place.region).to_owned(),
                plan.hours().to_string(),
                Hours(plan.run.hours.p90).to_string(),
                format::usd(plan.cost.expected),
                format::usd(plan.cost.p90),
                terms.bound_to.map_or(String::new(), |amount| format!("binds to {}", format::usd(amount))),
            ]
        }
        Err(why) => {
            let mut row = vec![String::new(); 7];
            (row[0], row[6]) = (terms.purchase.to_owned(), sentences::rejection::sentence(why));
            row
        }
    });
    render_folding(&columns, rows, width)
}

/// Plans one a row; `*` marks the recommended one.
pub fn plans_table(title: &str, plans: &[Plan], set: &PlanSet, context: &Context, width: u16, most: usize) -> String {
    let columns = [
        Column::left("", 0),
        Column::left("GPUs", 0),
        Column::left("machines", 130),
        Column::left("where", 0),
        Column::left("terms", 0),
        Column::right("$/h", 100),
        Column::right("price seen", 80),
        Column::left("layout", 120),
        Column::right("step", 140),
        Column::left("bound by", 150),
        Column::right("hours", 0),
        Column::right("cost", 0),
        Column::right("90 %", 90),
    ];
    let best = set.recommendation.as_ref().map(|plan| plan_id(context.world, plan));
    let rows = plans.iter().take(most).map(|plan| plan_row(plan, best.as_deref(), context));
    let table = render_folding(&columns, rows, width);
    format!("{title}\n{table}{}", footer(plans.len().min(most), plans.len(), "--max-results shows more"))
}

fn plan_row(plan: &Plan, best: Option<&str>, context: &Context) -> Vec<String> {
    let world = context.world;
    let offer = world.market.offer(plan.offer);
    let instance = world.hardware.instance(plan.instance);
    let gpu = world.hardware.gpu(instance.node.gpu);
    let mark = if best == Some(plan_id(world, plan).as_str()) { "*" } else { "" };
    let count = if instance.node.gpus.is_slice() { instance.node.gpus.to_string() } else { plan.gpus().to_string() };
    let total = offer.quote.rate.times(plan.nodes);
    vec![
        mark.to_owned(),
        format!("{count} x {}", gpu.name),
        format!("{} x {}", plan.nodes, instance.name),
        format!("{} {}", instance.cloud, offer.place.zone_id.as_deref().unwrap_or(&offer.place.region)),
        terms(plan, offer).replace("spot-with-fallback", "spot+fallback"),
        format::usd(total),
        seen(offer, context),
        plan.step.setting.layout.to_string(),
        format::step_seconds(plan.step.time.total),
        bound_word(&plan.step),
        plan.hours().to_string(),
        format::usd(plan.cost.expected),
        format::usd(plan.cost.p90),
    ]
}

/// Origin and age; a star for what is too old to start a machine on.
fn seen(offer: &Offer, context: &Context) -> String {
    let stale = if offer.is_stale(context.now) { "!" } else { "" };
    format!("{}{stale}", format::seen(&offer.quote, context.now))
}

/// How many of what were refused, and the nearest of each kind.
pub(crate) fn rejected(rejections: &[Rejected], width: u16) -> String {
    let mut by_reason: BTreeMap<RejectionReason, (u64, Option<&Rejected>)> = BTreeMap::new();
    let is_told = |rejected: &&Rejected| rejected.why.reason() != RejectionReason::Dominated;
    for rejection in rejections.iter().filter(is_told) {
        let entry = by_reason.entry(rejection.why.reason()).or_insert((0, None));
        entry.0 += rejection.count;
        // The list is sorted nearest first.
        entry.1 = entry.1.or(Some(rejection));
    }
    if by_reason.is_empty() {
        return String::new();
    }
    let columns = [
        Column::left("not chosen", 0),
        Column::right("offers", 0),
        Column::left("nearest", 0),
        Column::left("why", 100),
        Column::left("to allow it", 130),
    ];
    let rows = by_reason.into_iter().rev().take(REJECTIONS_SHOWN).filter_map(|(reason, (count, nearest))| {
        let nearest = nearest?;
        Some(vec![
            reason.word().to_owned(),
            format::thousands(count.into()),
            nearest.what.clone(),
            sentences::rejection::sentence(&nearest.why),
            sentences::rejection::fix(&nearest.why),
        ])
    });
    render_folding(&columns, rows, width)
}
