//! A job that exists: what it asks for, what that costs, what would be cheaper or faster, and a plan beside it. As text and JSON.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::sentences::assumption::job_sentence;
use crate::text::fit::{ALWAYS, FlexibleColumn, fit};
use crate::text::format::{rate, seen, three_figures, usd};
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, footer, render};
use crate::text::wrap::wrap;
use gpuplan_hardware::Hardware;
use gpuplan_import::{JobKind, JobRequest, KeyValue};
use gpuplan_market::{Market, Origin};
use gpuplan_plan::document::{
    Context, JobComparison, JobRecord, KeyRecord, NodeRange, PlanDifference, PlanRecord, Remark,
};
use gpuplan_plan::job::{Better, Change, JobOffer, Priced};
use gpuplan_plan::{Plan, plan_id};
use gpuplan_units::{Hours, Usd, UsdPerHour};

/// A plan and the market that its offer stands in.
pub type Placed<'a> = (&'a Plan, &'a Context<'a>);

/// Where the names of a job come from.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    pub hardware: &'a Hardware,
    pub market: &'a Market,
    pub now: Timestamp,
}

/// What the job asks for, and what of it was not understood.
pub fn asked_text(asked: &JobRequest, hardware: &Hardware, width: u16) -> String {
    let name = asked.name.as_deref().unwrap_or("without a name");
    let kind = match asked.kind {
        JobKind::Slurm => "Slurm",
        JobKind::Skypilot => "SkyPilot",
        JobKind::Kubernetes => "Kubernetes",
        JobKind::Dstack => "dstack",
        JobKind::Compose => "Docker Compose",
        JobKind::Script => "script",
        JobKind::Recipe => "training configuration",
    };
    let mut lines = vec![format!("Job {name} ({kind})")];
    let mut row = |title: &str, text: String| lines.push(wrap(&format!("  {title:<9} {text}"), width, "            "));
    for (index, line) in asked.lines(hardware).into_iter().enumerate() {
        row(if index == 0 { "asks for" } else { "or" }, line);
    }
    if let Some(hours) = asked.hours {
        row("for", format!("{hours} at most"));
    }
    if !asked.assumed.is_empty() {
        row("assumed", asked.assumed.iter().map(job_sentence).collect::<Vec<_>>().join("; "));
    }
    if !asked.no_effect.is_empty() {
        row("no effect", without_files(&asked.no_effect));
    }
    if !asked.unread.is_empty() {
        row("unread", listed(&asked.unread));
    }
    lines.join("\n") + "\n"
}

/// Keys by their own names: which file they stand in is told by JSON. A whole configuration is more than anybody reads here.
fn without_files(keys: &[KeyValue]) -> String {
    const MOST: usize = 16;
    let mut names: Vec<&str> =
        keys.iter().map(|one| one.key.rsplit_once(": ").map_or(one.key.as_str(), |(_, key)| key)).collect();
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let rest = if more > 0 { format!(" and {more} more (--output json)") } else { String::new() };
    names.join(", ") + &rest
}

fn listed(keys: &[KeyValue]) -> String {
    keys.iter().map(|one| format!("{} {}", one.key, one.value).trim_end().to_owned()).collect::<Vec<_>>().join(", ")
}

/// Two tables: the machines of the job, and what would be better.
pub fn priced_text(asked: &JobRequest, priced: &Priced, named: Named, width: u16, most: usize) -> String {
    let mut text =
        format!("As asked{}\n", asked.hours.map_or_else(String::new, |hours| format!(" (cost: {hours} at most)")));
    let shown = priced.offers.iter().take(most);
    text.push_str(&table(shown.map(|one| (one, String::new(), String::new())), ("", ""), named, width));
    text.push_str(&footer(priced.offers.len().min(most), priced.offers.len(), "--max-results shows more"));
    let Some(base) = priced.offers.first() else { return text };
    if priced.better.is_empty() {
        text.push_str("\nNo such machines are cheaper elsewhere or on other terms.\n");
        return text;
    }
    text.push_str("\nCheaper or faster\n");
    let rows =
        priced.better.iter().map(|better| (&better.offer, change_text(better.change).to_owned(), gain(better, base)));
    text.push_str(&table(rows, ("change", "against the first"), named, width));
    if priced.better.iter().any(|better| better.faster.is_some()) {
        let note = "Speed is by data sheet alone: 16-bit arithmetic or memory bandwidth, whichever gains less. With a workload, the gain is estimated.";
        text.push_str(&wrap(note, width, "  "));
        text.push('\n');
    }
    text
}

fn change_text(change: Change) -> &'static str {
    match change {
        Change::Place => "another place",
        Change::Terms => "other terms",
        Change::PlaceAndTerms => "both",
        Change::Gpu => "another GPU",
        Change::FasterGpu => "a faster GPU",
    }
}

/// Less than this is no gain to speak of: the estimate's own band is wider. Judgement.
const SAME_SPEED: f64 = 1.05;

fn gain(better: &Better, base: &JobOffer) -> String {
    let ratio = better.offer.hourly.dollars() / base.hourly.dollars();
    let money = if ratio <= 1.0 {
        format!("{:.0} % less", (1.0 - ratio) * 100.0)
    } else {
        format!("{:.0} % more", (ratio - 1.0) * 100.0)
    };
    match better.faster {
        Some(faster) if faster.least() < SAME_SPEED => format!("{money}, not slower"),
        Some(faster) => format!("{money}, up to {}x as fast", three_figures(faster.least())),
        None => money,
    }
}

fn table<'a>(
    offers: impl Iterator<Item = (&'a JobOffer, String, String)>,
    titles: (&'static str, &'static str),
    named: Named,
    width: u16,
) -> String {
    let flexible = [
        FlexibleColumn::needed(Column::left(titles.0, 0), 6),
        FlexibleColumn::needed(Column::left("GPUs", 0), 1),
        FlexibleColumn::elastic(Column::left("machines", 0), 12),
        FlexibleColumn::elastic(Column::left("where", 0), 10),
        FlexibleColumn::needed(Column::left("terms", 0), 2),
        FlexibleColumn::needed(Column::right("$/h", 0), ALWAYS),
        FlexibleColumn::needed(Column::right("cost", 0), 4),
        FlexibleColumn::extra(Column::right("seen", 0), 1),
        FlexibleColumn::needed(Column::left(titles.1, 0), 5),
    ];
    let mut rows: Vec<Vec<String>> = offers
        .map(|(one, change, gain)| {
            let offer = named.market.offer(one.offer);
            let instance = named.hardware.instance(offer.instance);
            let place = offer.place.zone_id.as_deref().unwrap_or(&offer.place.region);
            vec![
                change,
                format!("{} {}", instance.node.devices() * one.nodes, named.hardware.gpu(instance.node.gpu).id),
                format!("{} x {}", one.nodes, instance.name),
                if place == "any" { instance.cloud.to_string() } else { format!("{} {place}", instance.cloud) },
                offer.purchase.word().to_owned(),
                usd(one.hourly).trim_start_matches('$').to_owned(),
                one.cost.map_or_else(String::new, usd),
                seen(&offer.quote, named.now),
                gain,
            ]
        })
        .collect();
    let columns = fit(&flexible, &mut rows, width);
    render(&columns, rows, width)
}

/// The job's machines and the recommended ones, doing the same work.
pub fn comparison_text(asked: &JobRequest, baseline: Placed, best: Placed, width: u16) -> String {
    let row = |title: &str, (plan, context): Placed| {
        let offer = context.world.market.offer(plan.offer);
        vec![
            title.to_owned(),
            plan_id(context.world, plan),
            rate(offer.quote.rate),
            plan.hours().to_string(),
            Hours(plan.run.hours.p90).to_string(),
            usd(plan.cost.expected),
            usd(plan.cost.p90),
        ]
    };
    let columns = [
        Column::left("", 0),
        Column::left("plan", 0),
        Column::right("$/h each", 100),
        Column::right("hours", 0),
        Column::right("90 %", 90),
        Column::right("cost", 0),
        Column::right("90 %", 0),
    ];
    let mut text = render(&columns, [row("as asked", baseline), row("recommended", best)], width);
    let rate = baseline.1.world.market.offer(baseline.0.offer).quote.rate;
    let (baseline, best) = (baseline.0, best.0);
    if let Some((limit, most)) = asked.hours.and_then(|limit| Some((limit, rate.for_hours(baseline.nodes, limit.0)?))) {
        let line = format!("The job may take {limit}, which costs {} on its machines", usd(most));
        text.push_str(&wrap(&line, width, "  "));
        text.push('\n');
    }
    text.push_str(&wrap(&format!("Difference: {}", difference_text(baseline, best)), width, "  "));
    text.push('\n');
    if let Some(limit) = asked.hours.filter(|limit| baseline.run.hours.p90 > limit.0) {
        let needed = Hours(baseline.run.hours.p90);
        let note = format!("Note: the job may take {limit}; nine of ten such runs need up to {needed} on its machines");
        text.push_str(&wrap(&note, width, "  "));
        text.push('\n');
    }
    text
}

fn difference_text(baseline: &Plan, best: &Plan) -> String {
    let (cost, than) = (best.cost.expected, baseline.cost.expected);
    let share = (cost.dollars() / than.dollars() - 1.0) * 100.0;
    let money = match cost.cmp(&than) {
        std::cmp::Ordering::Less => format!("{} less ({share:.0} %)", usd(than - cost)),
        std::cmp::Ordering::Equal => "the same cost".to_owned(),
        std::cmp::Ordering::Greater => format!("{} more (+{share:.0} %)", usd(cost - than)),
    };
    let hours = best.run.hours.expected - baseline.run.hours.expected;
    let time = if hours.abs() < 0.05 {
        "as soon".to_owned()
    } else if hours < 0.0 {
        format!("{} sooner", Hours(-hours))
    } else {
        format!("{} later", Hours(hours))
    };
    format!("the recommended plan costs {money} and ends {time}")
}

/// What `plan --from JOB --output json` writes where no workload is known: the job, its prices, and what would be better.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobDocument<'a> {
    pub version: u32,
    pub generated_at: Timestamp,
    pub job: JobRecord,
    /// Machines that the job would run on, cheapest first.
    pub offers: Vec<JobOfferRecord<'a>>,
    /// Offers of it that are not trusted, or that limits refuse.
    pub offers_refused: usize,
    pub better: Vec<BetterRecord<'a>>,
}

/// Machines of one place on one set of terms.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobOfferRecord<'a> {
    pub cloud: &'a str,
    pub region: &'a str,
    pub zone_id: Option<&'a str>,
    pub instance_type: &'a str,
    pub gpu: &'a str,
    pub gpus_per_node: u32,
    pub nodes: u32,
    pub purchase: &'static str,
    /// Of one machine.
    pub rate_usd_per_hour: UsdPerHour,
    /// Of all machines together.
    pub total_usd_per_hour: Usd,
    /// For the longest that the job may take; null: it says no time.
    pub cost_usd: Option<Usd>,
    pub origin: Origin,
    pub observed_at: Timestamp,
    pub source: &'a str,
}

/// Machines that would do, for less money or in less time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BetterRecord<'a> {
    pub change: Change,
    pub offer: JobOfferRecord<'a>,
    /// Dense 16-bit arithmetic over that of the GPU that was asked for, by the data sheets.
    pub peak_ratio: Option<f64>,
    /// Memory bandwidth over that of the GPU that was asked for.
    pub bandwidth_ratio: Option<f64>,
}

/// What the job asks for, as a document has it.
fn job_record(asked: &JobRequest, hardware: &Hardware) -> JobRecord {
    let keys = |keys: &[KeyValue]| -> Vec<KeyRecord> {
        keys.iter().map(|one| KeyRecord { key: one.key.clone(), value: one.value.clone() }).collect()
    };
    JobRecord {
        kind: asked.kind.word().to_owned(),
        name: asked.name.clone(),
        asks_for: asked.lines(hardware),
        nodes: asked.nodes.as_ref().map(|nodes| NodeRange { low: *nodes.start(), high: *nodes.end() }),
        hours: asked.hours.map(|hours| hours.0),
        understood: keys(&asked.understood),
        no_effect: keys(&asked.no_effect),
        not_understood: keys(&asked.unread),
        assumed: asked.assumed.iter().map(job_sentence).collect(),
        assumptions: asked.assumed.iter().map(|one| Remark::new(one, job_sentence(one))).collect(),
    }
}

impl<'a> JobOfferRecord<'a> {
    fn new(one: &JobOffer, named: Named<'a>) -> Self {
        let offer = named.market.offer(one.offer);
        let instance = named.hardware.instance(offer.instance);
        Self {
            cloud: instance.cloud.as_str(),
            region: &offer.place.region,
            zone_id: offer.place.zone_id.as_deref(),
            instance_type: &instance.name,
            gpu: &named.hardware.gpu(instance.node.gpu).id,
            gpus_per_node: instance.node.devices(),
            nodes: one.nodes,
            purchase: offer.purchase.word(),
            rate_usd_per_hour: offer.quote.rate,
            total_usd_per_hour: one.hourly,
            cost_usd: one.cost,
            origin: offer.quote.origin,
            observed_at: offer.quote.observed_at,
            source: &offer.source,
        }
    }
}

/// The job and its prices.
pub fn json(asked: &JobRequest, priced: &Priced, named: Named) -> String {
    let better = priced.better.iter().map(|better| BetterRecord {
        change: better.change,
        offer: JobOfferRecord::new(&better.offer, named),
        peak_ratio: better.faster.map(|faster| faster.compute),
        bandwidth_ratio: better.faster.map(|faster| faster.memory_bandwidth),
    });
    pretty(&JobDocument {
        version: VERSION,
        generated_at: named.now,
        job: job_record(asked, named.hardware),
        offers: priced.offers.iter().map(|one| JobOfferRecord::new(one, named)).collect(),
        offers_refused: priced.refused,
        better: better.collect(),
    })
}

/// The job beside the recommended plan, and its plan on its own machines.
pub fn comparison(
    asked: &JobRequest,
    baseline: Option<Placed>,
    best: Option<&Plan>,
    hardware: &Hardware,
) -> JobComparison {
    let difference = baseline.zip(best).map(|((than, _), best)| PlanDifference {
        cost_usd: best.cost.expected - than.cost.expected,
        hours: best.run.hours.expected - than.run.hours.expected,
    });
    JobComparison {
        job: job_record(asked, hardware),
        baseline: baseline.map(|(plan, context)| Box::new(PlanRecord::new(plan, context))),
        difference,
    }
}
