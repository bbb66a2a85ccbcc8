//! The report on a plan: the recommendation in words, what could go wrong, what was thrown out, the charts, the assumptions.

mod around;
mod choices;
mod figures;
mod findings;

pub use around::ReportContext;

use serde::Serialize;
use serde_json::json;

use crate::page::document::{Cell, Column, Figure, KeyFigure, Report, Section, Table, day, day_and_time};
use crate::text::format;
use gpuplan_hardware::CloudId;
use gpuplan_market::Origin;
use gpuplan_plan::document::{
    InputsRecord, LatencyRecord, PlanDocument, PlanRecord, PurchaseTerms, RejectionReason, RejectionRecord,
    ServingRecord, WaitRecord,
};
use gpuplan_units::{Hours, Usd};

/// Below this chance, ending late is one of the things that could go wrong.
const LIKELY: f64 = 0.9;
/// A plan that is older was not made for this report.
const JUST_MADE: Hours = Hours(1.0);

pub fn report(document: &PlanDocument, plan: &PlanRecord, around: &ReportContext) -> Report {
    let is_recommended = document.plans.recommendation.as_ref().is_some_and(|best| best.id == plan.id);
    let mut sections: Vec<Section> =
        choices::section(document, around).filter(|_| is_recommended).into_iter().collect();
    sections.extend([recommendation(document, plan, around), risks(document, plan, around)]);
    sections.extend(findings::section(&document.findings));
    sections.push(rejected(document));
    let mut missing = Vec::new();
    for (name, figure) in figures::all(document, plan, around) {
        match figure {
            Ok(section) => sections.push(section),
            Err(why) => missing.push(format!("{name}: {why}")),
        }
    }
    sections.push(assumptions(document, plan, around));
    sections.push(Section {
        id: "not-shown",
        heading: "What is not shown",
        text: vec!["A chart without data is left out, never drawn empty.".to_owned()],
        points: missing,
        figures: Vec::new(),
    });
    let workload = &document.workload;
    let lead = format!(
        "A plan made on {}: {}, {} in {}.",
        day_and_time(document.generated_at),
        workload.model,
        word(workload.task),
        word(workload.precision)
    );
    Report { title: workload.name.clone(), lead, made_at: around.now, key: key(plan), sections }
}

fn key(plan: &PlanRecord) -> Vec<KeyFigure> {
    let mut key = vec![
        KeyFigure {
            name: "Expected cost",
            value: format::usd(plan.cost.cost_usd.expected),
            note: format!("middle case {}", format::usd(plan.cost.cost_usd.p50)),
        },
        KeyFigure {
            name: "Nine of ten cases",
            value: format!("≤ {}", format::usd(plan.cost.cost_usd.p90)),
            note: "cost".to_owned(),
        },
        KeyFigure {
            name: "Expected time",
            value: Hours(plan.time.run_hours.expected).to_string(),
            note: format!("≤ {} in nine of ten cases", Hours(plan.time.run_hours.p90)),
        },
    ];
    if let Some(chance) = plan.chance_by_deadline {
        key.push(KeyFigure {
            name: "By the deadline",
            value: percent(chance),
            note: "chance to have ended".to_owned(),
        });
    }
    key
}

/// Nothing that is predicted is certain.
fn percent(chance: f64) -> String {
    format!("{:.0} %", (chance * 100.0).min(99.0))
}

fn recommendation(document: &PlanDocument, plan: &PlanRecord, around: &ReportContext) -> Section {
    let machines = if plan.machines.nodes == 1 { "machine" } else { "machines" };
    let cloud = CloudId::new(&plan.machines.cloud);
    let mut text = vec![
        format!(
            "Rent {} ({} {machines} of type {}) from {} in {}, {}.",
            around.gpus(plan),
            plan.machines.nodes,
            plan.machines.instance_type,
            cloud.label(),
            plan.machines.place(),
            terms(plan.machines.purchase)
        ),
        cost(document, plan),
        time(document, plan),
        format!(
            "A machine costs {} an hour. That price is {}, seen on {}, {} before this plan was made.",
            format::rate(plan.machines.rate_usd_per_hour),
            origin(plan.price.origin),
            day(plan.price.observed_at),
            format::age(plan.price.observed_at, document.generated_at)
        ),
    ];
    if let Some(full) = plan.cost.full_cost_usd {
        text.push(format!(
            "These machines are paid for already. The cost above is what this run adds; in full it would be {}.",
            format::usd(full)
        ));
    }
    text.extend(plan.serving.as_ref().map(serving));
    text.extend(
        plan.spot.as_ref().and_then(|spot| spot.promise.clone()).map(|promise| format!("The plan promises: {promise}")),
    );
    if !plan.explanation.because.is_empty() {
        text.push("Why this one:".to_owned());
    }
    Section {
        id: "recommendation",
        heading: "Recommendation",
        text,
        points: plan.explanation.because.clone(),
        figures: Vec::new(),
    }
}

fn cost(document: &PlanDocument, plan: &PlanRecord) -> String {
    let dollars = |text: &str| Usd::parse(text).map_or_else(|_| text.to_owned(), format::usd);
    let budget = document.limit("budget").map_or(String::new(), |text| format!(" The budget is {}.", dollars(text)));
    format!(
        "It is expected to cost {}. In nine of ten cases it costs no more than {}.{budget}",
        format::usd(plan.cost.cost_usd.expected),
        format::usd(plan.cost.cost_usd.p90)
    )
}

/// What people who wait for answers see, and what an answer costs.
fn serving(served: &ServingRecord) -> String {
    let copies = if served.replicas == 1 {
        "One copy of the model answers".to_owned()
    } else {
        format!("{} copies of the model answer", served.replicas)
    };
    let LatencyRecord { ttft, per_token, per_token_band } = served.latency_seconds;
    let pace = if per_token.expected > 0.0 {
        let within =
            per_token_band.map_or(String::new(), |band| format!(" ({:.0} to {:.0})", band.low * 1e3, band.high * 1e3));
        format!(", then one every {:.0} ms{within}", per_token.expected * 1e3)
    } else {
        String::new()
    };
    let money = served
        .usd_per_million_tokens
        .map_or(String::new(), |usd| format!(" A million tokens cost {}.", format::usd(usd)));
    format!(
        "{copies}: the first token after {:.0} ms, after {:.0} ms in one of ten cases{pace}.{money}",
        ttft.p50 * 1e3,
        ttft.p90 * 1e3
    )
}

fn time(document: &PlanDocument, plan: &PlanRecord) -> String {
    if plan.serving.is_some() && plan.checkpoint.is_none() {
        return format!("It serves for {}.", Hours(plan.time.run_hours.expected));
    }
    let chance = match (plan.chance_by_deadline, document.limit("deadline")) {
        (Some(chance), Some(deadline)) => {
            format!(" The chance to have ended by the deadline ({deadline}) is {}.", percent(chance))
        }
        (Some(chance), None) => format!(" The chance to have ended by the deadline is {}.", percent(chance)),
        (None, _) => " No deadline was given.".to_owned(),
    };
    let (expected, bad) = (Hours(plan.time.run_hours.expected), Hours(plan.time.run_hours.p90));
    format!("It is expected to end {expected} after the start, and in nine of ten cases within {bad}.{chance}")
}

fn terms(purchase: PurchaseTerms) -> String {
    match purchase {
        PurchaseTerms::Spot => "on spot terms: cheaper machines that the cloud may take back".to_owned(),
        PurchaseTerms::SpotWithFallback => {
            "on spot terms (cheaper machines that the cloud may take back) with on-demand machines to fall back on"
                .to_owned()
        }
        PurchaseTerms::OnDemand => "on demand: at the list price, without a commitment".to_owned(),
        other => format!("on the terms `{}`", other.word()),
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Live => "the cloud's own, asked for this plan",
        Origin::Cached => "the cloud's own, asked earlier",
        Origin::Snapshot => "from the price snapshot of the program",
        Origin::User => "your own",
        Origin::Estimate => "composed from other figures",
    }
}

/// Everything that would make the figures above wrong, the dearest kind first.
fn risks(document: &PlanDocument, plan: &PlanRecord, around: &ReportContext) -> Section {
    let mut points = Vec::new();
    let was_stale = document.valid_until.is_some_and(|until| until < document.generated_at);
    if plan.price.stale || was_stale {
        points.push(
            "The price is stale: the cloud may ask another one today. `gpuplan plan FILE --live` asks it.".to_owned(),
        );
    }
    if !plan.price.suspect.is_empty() {
        let suspicions: Vec<&str> = plan.price.suspect.iter().map(|suspicion| suspicion.word()).collect();
        points.push(format!("The price is doubtful: {}.", suspicions.join(", ")));
    }
    // A price that was stale when the plan was made is no reason to make the plan again from the same one.
    if let Some(until) = document.valid_until.filter(|until| !was_stale && *until < around.now) {
        let until = day_and_time(until);
        points.push(format!(
            "This plan was good until {until}. Prices may have moved since: `gpuplan plan FILE` makes it again."
        ));
    } else if Hours(around.now.duration_since(document.generated_at).as_secs_f64() / 3600.0) > JUST_MADE {
        points.push(format!("This plan is {} old.", format::age(document.generated_at, around.now)));
    }
    if let Some(spot) = plan.spot.as_ref().filter(|_| plan.machines.purchase.is_spot()) {
        let often = spot.forecast.as_ref().map(|forecast| forecast.interruptions);
        let often = often.map_or(String::new(), |count| format!(" about {} times", format::three_figures(count)));
        points.push(format!(
            "The cloud is expected to take machines back{often}; work since the last checkpoint is then done again. This rests on: {}.",
            spot.basis
        ));
    }
    if let Some(chance) = plan.chance_by_deadline.filter(|chance| *chance < LIKELY) {
        points.push(format!("It may end late: the chance to end by the deadline is only {}.", percent(chance)));
    }
    points.push(if document.inputs.is_measured() {
        "The time of a step was corrected by measurements, but the run is still a prediction.".to_owned()
    } else {
        format!(
            "The time of a step is estimated, not measured on these machines: {} (from the 10th to the 90th percentile).",
            format::step_band(plan.step.step_seconds)
        )
    });
    if matches!(plan.time.wait_hours, WaitRecord::Unknown(_)) {
        points
            .push("Nobody publishes how long one waits until the cloud has these machines. The wait is not in the time above.".to_owned());
    }
    points.extend(plan.explanation.advice.iter().chain(&document.notes).cloned());
    Section { id: "risks", heading: "What could go wrong", points, ..Section::default() }
}

/// One row a reason: what was out because of it, the example that came closest, and what would let it in.
fn rejected(document: &PlanDocument) -> Section {
    let mut reasons: Vec<(&RejectionRecord, u64)> = Vec::new();
    for rejected in &document.rejected {
        match reasons.iter_mut().find(|(first, _)| first.reason == rejected.reason) {
            None => reasons.push((rejected, rejected.count)),
            Some((_, count)) => *count = count.saturating_add(rejected.count),
        }
    }
    let counts = &document.counts;
    let text = vec![format!(
        "{} offers and {} kinds of machines were looked at, and {} ways to spread the model over them were estimated.",
        format::thousands(counts.offers.into()),
        format::thousands(counts.shapes.into()),
        format::thousands(counts.layouts_estimated.into())
    )];
    let row = |(first, count): &(&RejectionRecord, u64)| {
        vec![
            Cell::new(reason_words(first.reason), first.reason.word()),
            Cell::new(format::thousands((*count).into()), count.to_string()),
            Cell::text(&*first.detail),
            Cell::text(&*first.nearest_fix),
            Cell::text(&*first.what),
        ]
    };
    let table = Table {
        id: "rejected",
        caption: "Reasons, each with the example that came closest".to_owned(),
        columns: vec![
            Column::text("reason", "Reason"),
            Column::number("count", "How many"),
            Column::text("detail", "Figures"),
            Column::text("nearest_fix", "What would let it in"),
            Column::text("example", "Example"),
        ],
        rows: reasons.iter().map(row).collect(),
    };
    let figures = if table.rows.is_empty() { Vec::new() } else { vec![Figure { chart: None, table }] };
    Section { id: "thrown-out", heading: "What was thrown out, and why", text, points: Vec::new(), figures }
}

fn reason_words(reason: RejectionReason) -> &'static str {
    match reason {
        RejectionReason::Policy => "not asked for, or against a rule",
        RejectionReason::NotOffered => "not sold there",
        RejectionReason::PriceSuspect => "doubtful price",
        RejectionReason::PriceStale => "stale price",
        RejectionReason::NoCapacity => "sold out",
        RejectionReason::NoNetwork => "no fast network",
        RejectionReason::Memory => "too little memory",
        RejectionReason::Layout => "cannot be divided",
        RejectionReason::Unsupported => "not supported",
        RejectionReason::Deadline => "too slow",
        RejectionReason::MaxPrice => "over the price limit",
        RejectionReason::Budget => "over the budget",
        RejectionReason::Dominated => "dearer and no faster",
        RejectionReason::Latency | RejectionReason::Availability | RejectionReason::Other => reason.word(),
    }
}

fn assumptions(document: &PlanDocument, plan: &PlanRecord, around: &ReportContext) -> Section {
    let mut points: Vec<String> =
        document.workload.assumed.iter().map(|assumed| format!("Assumed: {assumed}.")).collect();
    points.push(format!(
        "Price of machines: {}, seen on {}.",
        around.source(&plan.price.source),
        day(plan.price.observed_at)
    ));
    let mut bases: Vec<&str> =
        plan.cost.bill.iter().map(|line| line.basis.as_str()).filter(|basis| !basis.is_empty()).collect();
    bases.sort_unstable();
    bases.dedup();
    points.extend(bases.into_iter().map(|basis| format!("The bill rests on: {basis}.")));
    points.push("Money is in United States dollars, without tax; a cloud's invoice may add it.".to_owned());
    points.extend(inputs(&document.inputs));
    Section { id: "assumptions", heading: "Assumptions and sources", points, ..Section::default() }
}

/// What the plan rests on, shortened for people; nothing of what the document does not say.
fn inputs(inputs: &InputsRecord) -> Vec<String> {
    let short = |text: &str| text.get(..12).unwrap_or(text).to_owned();
    let said = |what: &str, text: &str| (!text.is_empty()).then(|| format!("{what}: {}.", short(text)));
    let runs: Vec<&str> = inputs.own_runs.iter().map(|own| own.run.as_str()).collect();
    let points = [
        said("Catalog (SHA-256 begins)", &inputs.catalog_sha256),
        said("Offers (SHA-256 begins)", &inputs.offers_sha256),
        said("Constants of the estimate", &inputs.constants_version),
        inputs.measured_sha256.as_deref().and_then(|measured| said("Measurements (SHA-256 begins)", measured)),
        Some(format!("Seed of the draws: {}.", inputs.seed)),
        (!runs.is_empty()).then(|| format!("Own finished runs that the times go by: {}.", runs.join(", "))),
    ];
    points.into_iter().flatten().collect()
}

/// An enum in the word that JSON has for it.
fn word(value: impl Serialize) -> String {
    json!(value).as_str().expect("an enum without fields is written as a word").to_owned()
}
