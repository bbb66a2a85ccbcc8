//! What was spent, as table, JSON and CSV.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::csv_text::csv_text;
use crate::format::{three_figures, usd};
use crate::table::{Column, render};
use gpuplan_budget::spent::{Asked, By, Line, Row, Spent, day};
use gpuplan_budget::{Item, Waste};
use gpuplan_units::Usd;

/// What is shown, and what was asked.
pub struct Shown<'a> {
    pub spent: &'a Spent,
    pub by: &'a By,
    pub asked: &'a Asked,
    pub stores: &'a [String],
    pub now: Timestamp,
}

/// Money for people, with its sign.
pub fn signed(amount: Usd) -> String {
    if amount < Usd::ZERO { format!("-{}", usd(Usd::ZERO - amount)) } else { usd(amount) }
}

pub fn text(shown: &Shown, width: u16) -> String {
    let (rows, mut total) = shown.spent.rows(shown.by);
    "total".clone_into(&mut total.name);
    let has_discount = total.list != total.contracted;
    let has_bill = total.billed.is_some();
    let title: &'static str = match shown.by {
        By::Run => "run",
        By::Team => "team",
        By::Day => "day",
        By::Tag(_) => "tag",
    };
    // A column that says the same as its neighbour on every row is left out.
    let never = u16::MAX;
    let has = |item| total.beside.contains_key(&item);
    let columns = [
        Column::left(title, 0),
        Column::right("hours", 0),
        Column::right("list", if has_discount { 0 } else { never }),
        Column::right("contracted", 0),
        Column::right("billed", if has_bill { 0 } else { never }),
        Column::right("effective", if total.effective_on_bill == total.billed { never } else { 0 }),
        Column::right("credits", if total.credits == Usd::ZERO { never } else { 0 }),
        Column::right("disk", if has(Item::Disk) { 130 } else { never }),
        Column::right("storage", if has(Item::CheckpointStorage) { 130 } else { never }),
        Column::right("data out", if has(Item::Egress) { 130 } else { never }),
        Column::right("idle", 100),
        Column::right("redone", 100),
        Column::right("failed", 100),
        Column::right("wasted", 0),
        Column::right("$/Mtok", if total.tokens > 0.0 { 0 } else { never }),
        Column::left("", if total.so_far == Usd::ZERO { never } else { 0 }),
    ];
    let cells = rows.iter().chain((rows.len() > 1).then_some(&total)).map(|row| {
        let beside = |item: Item| row.beside.get(&item).copied().map_or_else(|| "-".to_owned(), usd);
        let wasted = |waste: Waste| row.wasted.get(&waste).copied().map_or_else(|| "-".to_owned(), usd);
        vec![
            row.name.clone(),
            three_figures(row.machine_hours),
            signed(row.list),
            signed(row.contracted),
            row.billed.map_or_else(|| "-".to_owned(), signed),
            row.effective_on_bill.map_or_else(|| "-".to_owned(), signed),
            signed(row.credits),
            beside(Item::Disk),
            beside(Item::CheckpointStorage),
            beside(Item::Egress),
            wasted(Waste::Idle),
            wasted(Waste::Redone),
            wasted(Waste::Failed),
            row.wasted_share().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            row.usd_per_million_tokens().map_or_else(|| "-".to_owned(), |dollars| format!("${dollars:.4}")),
            if row.so_far == Usd::ZERO { String::new() } else { "so far".to_owned() },
        ]
    });
    let table = render(&columns, cells, width);
    format!("{table}{}", foot(shown, &total, width))
}

/// What the figures are, under the table.
fn foot(shown: &Shown, total: &Row, width: u16) -> String {
    let what = if total.beside.is_empty() {
        "Machine time in USD at the prices of launch, without tax; disks, storage and data out are on the clouds' bills.".to_owned()
    } else {
        format!(
            "In USD at the prices of launch, without tax. {} of it is for disks, storage and data that left another cloud; traffic between \
             regions is on the clouds' bills alone.",
            usd(total.all_beside())
        )
    };
    let mut lines = vec![what];
    if total.so_far != Usd::ZERO {
        lines.push(format!(
            "{} of it is so far: machines that run still, or were not seen to end, and what is stored this month.",
            usd(total.so_far)
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
    if total.billed.is_none() {
        lines.push("No bill was imported: `gpuplan costs import FILE`.".to_owned());
    }
    if let By::Tag(name) = shown.by {
        lines.insert(0, format!("Rows by the tag `{name}`."));
    }
    lines.iter().map(|line| crate::plan_text::wrap(line, width, "") + "\n").collect()
}

pub fn json(shown: &Shown) -> String {
    let (rows, total) = shown.spent.rows(shown.by);
    let document = json!({
        "version": 1,
        "currency": "USD",
        "tax": "not included",
        "generated_at": shown.now,
        "stores": shown.stores,
        "since": shown.asked.since,
        "until": shown.asked.until,
        "by": shown.by.title(),
        "total": fields(&total),
        "rows": rows.iter().map(|row| named(&row.name, fields(row))).collect::<Vec<_>>(),
        "lines": shown.spent.lines,
    });
    format!("{document:#}\n")
}

fn named(name: &str, fields: Value) -> Value {
    let mut named = Map::from_iter([("name".to_owned(), json!(name))]);
    if let Value::Object(fields) = fields {
        named.extend(fields);
    }
    Value::Object(named)
}

fn fields(row: &Row) -> Value {
    let wasted = |waste| row.wasted.get(&waste).copied().unwrap_or_default();
    json!({
        "runs": row.runs,
        "machine_hours": row.machine_hours,
        "disk_usd": row.beside.get(&Item::Disk).copied().unwrap_or_default(),
        "storage_usd": row.beside.get(&Item::CheckpointStorage).copied().unwrap_or_default(),
        "data_out_usd": row.beside.get(&Item::Egress).copied().unwrap_or_default(),
        "list_usd": row.list,
        "contracted_usd": row.contracted,
        "effective_usd": row.effective,
        "billed_usd": row.billed,
        "effective_on_bill_usd": row.effective_on_bill,
        "credits_usd": row.credits,
        "so_far_usd": row.so_far,
        "wasted_usd": {"idle": wasted(Waste::Idle), "redone": wasted(Waste::Redone), "failed": wasted(Waste::Failed), "all": row.all_wasted()},
        "wasted_share": row.wasted_share(),
        "tokens": (row.tokens > 0.0).then_some(row.tokens),
        "usd_per_million_tokens": row.usd_per_million_tokens(),
    })
}

/// Every line, for a spreadsheet.
pub fn csv(shown: &Shown) -> String {
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
    csv_text(&header, shown.spent.lines.iter().map(cells))
}

fn cells(line: &Line) -> Vec<String> {
    let charge = &line.charge;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    vec![
        charge.id.clone(),
        day(charge.start),
        charge.start.to_string(),
        charge.end.to_string(),
        text(&charge.run),
        text(&charge.team),
        charge.cloud.clone(),
        text(&charge.region),
        text(&charge.zone),
        text(&charge.resource),
        text(&charge.instance_type),
        text(&charge.gpu),
        charge.gpus.map(|gpus| gpus.to_string()).unwrap_or_default(),
        text(&charge.purchase),
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
