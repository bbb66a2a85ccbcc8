//! What was spent, as table, JSON and CSV.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::finance::money::Money;
use crate::text::csv_text::csv_text;
use crate::text::format::{three_figures, usd};
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_budget::charge::utc_day;
use gpuplan_budget::exchange::Exchange;
use gpuplan_budget::spent::{CostFilter, CostGrouping, CostLine, CostSum, Coverage, Spent};
use gpuplan_budget::{Item, Waste};
use gpuplan_units::Usd;

/// What is shown, and what was asked.
pub struct CostsReport<'a> {
    pub spent: &'a Spent,
    pub by: &'a CostGrouping,
    pub asked: &'a CostFilter,
    pub stores: &'a [String],
    pub now: Timestamp,
    /// In which the table is, where it is not the dollar.
    pub exchange: Option<&'a Exchange>,
}

/// Money for people, with its sign.
pub fn signed(amount: Usd) -> String {
    if amount < Usd::ZERO { format!("-{}", usd(Usd::ZERO - amount)) } else { usd(amount) }
}

pub fn text(shown: &CostsReport, width: u16) -> String {
    let (rows, mut total) = shown.spent.sums(shown.by);
    "total".clone_into(&mut total.name);
    let money = Money::in_currency(shown.exchange);
    let for_tokens = if shown.exchange.is_some() { "per Mtok" } else { "$/Mtok" };
    let has_discount = total.list != total.contracted;
    let has_bill = total.billed.is_some();
    let title = shown.by.word();
    // A column that says the same as its neighbour on every row is left out.
    let never = u16::MAX;
    // Where only bills know of runs, what runs record is unknown and not nothing.
    let by_bills = is_of_bills(&total);
    let own = |width| if by_bills { never } else { width };
    let has = |item| total.side_costs.contains_key(&item);
    let columns = [
        Column::left(title, 0),
        Column::right("hours", 0),
        Column::right("list", if has_discount { 0 } else { never }),
        Column::right("contracted", own(0)),
        Column::right("saved", if has_discount { own(100) } else { never }),
        Column::right("billed", if has_bill { 0 } else { never }),
        Column::right("effective", if total.effective_on_bill == total.billed { never } else { 0 }),
        Column::right("credits", if total.credits == Usd::ZERO { never } else { 0 }),
        Column::right("disk", if has(Item::Disk) { 130 } else { never }),
        Column::right("storage", if has(Item::CheckpointStorage) { 130 } else { never }),
        Column::right("data out", if has(Item::Egress) { 130 } else { never }),
        Column::right("idle", own(100)),
        Column::right("redone", own(100)),
        Column::right("failed", own(100)),
        Column::right("wasted", own(0)),
        Column::right(for_tokens, if total.tokens > 0.0 { 0 } else { never }),
        Column::left("", if total.so_far == Usd::ZERO { never } else { 0 }),
    ];
    let cells = rows.iter().chain((rows.len() > 1).then_some(&total)).map(|row| {
        let side_cost =
            |item: Item| row.side_costs.get(&item).copied().map_or_else(|| "-".to_owned(), |amount| money.usd(amount));
        let wasted =
            |waste: Waste| row.wasted.get(&waste).copied().map_or_else(|| "-".to_owned(), |amount| money.usd(amount));
        vec![
            row.name.clone(),
            three_figures(if by_bills { row.billed_hours } else { row.machine_hours }),
            money.usd(row.list),
            money.usd(row.contracted),
            row.saved_share().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            row.billed.map_or_else(|| "-".to_owned(), |amount| money.usd(amount)),
            row.effective_on_bill.map_or_else(|| "-".to_owned(), |amount| money.usd(amount)),
            money.usd(row.credits),
            side_cost(Item::Disk),
            side_cost(Item::CheckpointStorage),
            side_cost(Item::Egress),
            wasted(Waste::Idle),
            wasted(Waste::Redone),
            wasted(Waste::Failed),
            row.wasted_share().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            row.usd_per_million_tokens().map_or_else(|| "-".to_owned(), |dollars| for_a_million(dollars, money)),
            if row.so_far == Usd::ZERO { String::new() } else { "so far".to_owned() },
        ]
    });
    let table = render(&columns, cells, width);
    format!("{table}{}", foot(shown, &total, width))
}

/// Dollars, with more digits than an amount has.
fn for_a_million(dollars: f64, money: Money) -> String {
    let units = Usd::from_dollars(dollars).map_or(dollars, |dollars| money.value(dollars));
    money.signed(&format!("${units:.4}"))
}

/// Only bills know of these runs.
fn is_of_bills(total: &CostSum) -> bool {
    total.billed.is_some() && total.contracted == Usd::ZERO && total.machine_hours == 0.0
}

/// What the figures are, under the table.
fn foot(shown: &CostsReport, total: &CostSum, width: u16) -> String {
    let money = Money::in_currency(shown.exchange);
    let currency = shown.exchange.map_or_else(|| "USD".to_owned(), Exchange::words);
    let what = if is_of_bills(total) {
        format!(
            "In {currency} as the clouds' bills have it; nothing is known here of what these runs recorded themselves."
        )
    } else if total.side_costs.is_empty() {
        format!(
            "Machine time in {currency} at the prices of launch, without tax; disks, storage and data out are on the clouds' bills."
        )
    } else {
        format!(
            "In {currency} at the prices of launch, without tax. {} of it is for disks, storage and data that left another cloud or region; what \
             checkpoints cost between regions is on the clouds' bills alone.",
            money.usd(total.all_side_costs())
        )
    };
    let mut lines = vec![what];
    if total.so_far != Usd::ZERO {
        lines.push(format!(
            "{} of it is so far: machines that run still, or were not seen to end, and what is stored this month.",
            money.usd(total.so_far)
        ));
    }
    if total.all_wasted() != Usd::ZERO {
        lines.push(
            "Wasted is time in which nothing ran (idle), work that was lost (redone), and runs that did not end well (failed).".to_owned(),
        );
    }
    if total.effective_on_bill != total.billed {
        lines.push("Effective is as the bill has it: commitments that were paid before, spread over the hours that they cover.".to_owned());
    }
    if let Some(share) = shown.spent.coverage.share().filter(|share| *share < 1.0) {
        let Coverage { of_runs, all } = shown.spent.coverage;
        let rest = if shown.asked.others { "" } else { "; --all shows the rest" };
        lines.push(format!(
            "Of {} that bills have for machines with GPUs, {} ({:.0} %) is of runs{rest}.",
            money.usd(all),
            money.usd(of_runs),
            share * 100.0
        ));
    }
    if total.billed.is_none() {
        lines.push("No bill was imported: `gpuplan costs import FILE`.".to_owned());
    }
    if let CostGrouping::Tag(name) = shown.by {
        lines.insert(0, format!("Rows by the tag `{name}`."));
    }
    lines.iter().map(|line| wrap(line, width, "") + "\n").collect()
}

/// What `costs --output json` writes: every charge, and their sums.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CostsDocument<'a> {
    pub version: u32,
    /// Of every amount: `USD`; `exchange` has the currency of the portfolio.
    pub currency: &'static str,
    /// The currency of the portfolio that was named, where it is not the dollar, and its rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<&'a Exchange>,
    pub tax: &'static str,
    pub generated_at: Timestamp,
    /// Stores that were named; none: the runs that were launched from here, and all that the ledger has.
    pub stores: &'a [String],
    /// Only money spent from then on.
    pub since: Option<Timestamp>,
    /// Only money spent before then.
    pub until: Option<Timestamp>,
    /// What the rows add up by: `run`, `team`, `day` or the name of a tag.
    pub by: String,
    pub total: CostsRecord<'a>,
    pub rows: Vec<NamedCosts<'a>>,
    /// Of what bills have for machines with GPUs, what is of runs.
    pub gpu_coverage: CoverageRecord,
    /// Every charge, in the order of time.
    pub lines: &'a [CostLine],
}

/// Machines with GPUs on imported bills, at effective cost.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CoverageRecord {
    pub of_runs_usd: Usd,
    /// With what bears no mark of a run.
    pub all_usd: Usd,
    /// Null: no bill has any.
    pub share: Option<f64>,
}

/// The sum of the charges of one run, team, day or tag.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NamedCosts<'a> {
    pub name: &'a str,
    #[serde(flatten)]
    pub costs: CostsRecord<'a>,
}

/// A sum of charges. Amounts of runs and of the clouds' bills stand side by side and are never added to each other.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CostsRecord<'a> {
    pub runs: &'a BTreeSet<String>,
    pub machine_hours: f64,
    #[serde(flatten)]
    pub side: SideCosts,
    #[serde(flatten)]
    pub charged: ChargedAmounts,
    /// What of `contracted_usd` can still grow.
    pub so_far_usd: Usd,
    pub wasted_usd: WastedAmounts,
    /// Of what was spent; null where nothing was.
    pub wasted_share: Option<f64>,
    /// Of `list_usd`, what spot, discounts and prepaid machines spared; negative where they cost more; null: no other price than what was
    /// paid is known.
    pub saved_share: Option<f64>,
    /// That completed runs trained on; null: nobody said, or none has completed.
    pub tokens: Option<f64>,
    pub usd_per_million_tokens: Option<f64>,
}

/// Of `effective_usd`, what is not machine time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SideCosts {
    pub disk_usd: Usd,
    pub storage_usd: Usd,
    /// Data that left another cloud.
    pub data_out_usd: Usd,
}

/// The same purchases at the prices that the FOCUS specification tells apart.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChargedAmounts {
    /// At published prices.
    pub list_usd: Usd,
    /// At negotiated prices.
    pub contracted_usd: Usd,
    /// With commitments that were paid before spread over the hours that they cover.
    pub effective_usd: Usd,
    /// On the clouds' bills, credits included; null: none was imported.
    pub billed_usd: Option<Usd>,
    /// `effective_usd` as the bills have it.
    pub effective_on_bill_usd: Option<Usd>,
    /// Money that came back; negative.
    pub credits_usd: Usd,
}

/// Of `effective_usd`, what bought no progress, by why.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WastedAmounts {
    /// Nothing ran: booting, waiting, after the end.
    pub idle: Usd,
    /// Work that was lost and done again.
    pub redone: Usd,
    /// Work of runs that did not end well.
    pub failed: Usd,
    pub all: Usd,
}

impl<'a> From<&'a CostSum> for CostsRecord<'a> {
    fn from(sum: &'a CostSum) -> Self {
        let side_cost = |item| sum.side_costs.get(&item).copied().unwrap_or_default();
        let wasted = |waste| sum.wasted.get(&waste).copied().unwrap_or_default();
        Self {
            runs: &sum.runs,
            machine_hours: sum.machine_hours,
            side: SideCosts {
                disk_usd: side_cost(Item::Disk),
                storage_usd: side_cost(Item::CheckpointStorage),
                data_out_usd: side_cost(Item::Egress),
            },
            charged: ChargedAmounts {
                list_usd: sum.list,
                contracted_usd: sum.contracted,
                effective_usd: sum.effective,
                billed_usd: sum.billed,
                effective_on_bill_usd: sum.effective_on_bill,
                credits_usd: sum.credits,
            },
            so_far_usd: sum.so_far,
            wasted_usd: WastedAmounts {
                idle: wasted(Waste::Idle),
                redone: wasted(Waste::Redone),
                failed: wasted(Waste::Failed),
                all: sum.all_wasted(),
            },
            wasted_share: sum.wasted_share(),
            saved_share: sum.saved_share(),
            tokens: (sum.tokens > 0.0).then_some(sum.tokens),
            usd_per_million_tokens: sum.usd_per_million_tokens(),
        }
    }
}

pub fn json(shown: &CostsReport) -> String {
    let (rows, total) = shown.spent.sums(shown.by);
    let document = CostsDocument {
        version: VERSION,
        currency: "USD",
        exchange: shown.exchange,
        tax: "not included",
        generated_at: shown.now,
        stores: shown.stores,
        since: shown.asked.since,
        until: shown.asked.until,
        by: shown.by.title(),
        total: CostsRecord::from(&total),
        rows: rows.iter().map(|row| NamedCosts { name: &row.name, costs: row.into() }).collect(),
        gpu_coverage: CoverageRecord {
            of_runs_usd: shown.spent.coverage.of_runs,
            all_usd: shown.spent.coverage.all,
            share: shown.spent.coverage.share(),
        },
        lines: &shown.spent.lines,
    };
    pretty(&document)
}

/// Every line, for a spreadsheet.
pub fn csv(shown: &CostsReport) -> String {
    let header = [
        "id",
        "day",
        "start",
        "end",
        "run",
        "team",
        "cloud",
        "region",
        "zone",
        "resource",
        "instance_type",
        "gpu",
        "gpus",
        "purchase",
        "item",
        "waste",
        "quantity",
        "unit",
        "unit_price_usd",
        "list_usd",
        "contracted_usd",
        "effective_usd",
        "billed_usd",
        "so_far",
        "of_bill",
        "source",
        "priced_at",
        "assumption",
    ];
    csv_text(&header, shown.spent.lines.iter().map(csv_cells))
}

fn csv_cells(line: &CostLine) -> Vec<String> {
    let charge = &line.charge;
    let (allocation, resource) = (&charge.allocation, &charge.resource);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    vec![
        charge.id.clone(),
        utc_day(charge.start),
        charge.start.to_string(),
        charge.end.to_string(),
        text(&allocation.run),
        text(&allocation.team),
        resource.cloud.clone(),
        text(&resource.region),
        text(&resource.zone),
        text(&resource.id),
        text(&resource.instance_type),
        text(&resource.gpu),
        resource.gpus.map(|gpus| gpus.to_string()).unwrap_or_default(),
        text(&resource.purchase),
        charge.item.word().to_owned(),
        charge.waste.map_or("", Waste::word).to_owned(),
        charge.quantity.to_string(),
        charge.unit.clone(),
        charge.unit_price.to_string(),
        charge.costs.list.to_string(),
        charge.costs.contracted.to_string(),
        charge.costs.effective.to_string(),
        charge.costs.billed.map(|billed| billed.to_string()).unwrap_or_default(),
        line.so_far.to_string(),
        line.of_bill.to_string(),
        charge.source.clone(),
        charge.priced_at.map(|at| at.to_string()).unwrap_or_default(),
        charge.assumption.clone(),
    ]
}
