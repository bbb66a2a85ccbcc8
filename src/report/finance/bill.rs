//! A cloud's bill against what was charged here, as table, JSON and CSV.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::finance::costs::signed;
use crate::text::csv_text::csv_text;
use crate::text::format::{thousands, three_figures};
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_budget::bill::ImportedBill;
use gpuplan_budget::bill::compare::{Difference, DifferenceReason};
use gpuplan_units::Usd;

/// What was read, and how it compares.
pub struct BillComparison<'a> {
    pub lines: u64,
    pub ours: u64,
    /// Of no run, and not to be counted.
    pub unread: u64,
    pub bills: &'a [ImportedBill],
    pub differences: &'a [Difference],
    /// Not all of it was imported before.
    pub is_new: bool,
}

fn sum(differences: &[Difference], of: impl Fn(&Difference) -> Usd) -> Usd {
    differences.iter().map(of).sum()
}

pub fn text(read: &BillComparison, width: u16) -> String {
    let columns = [
        Column::left("run", 0),
        Column::right("charged", 0),
        Column::right("billed", 0),
        Column::right("difference", 0),
        Column::left("why", 0),
    ];
    let row = |name: &str, charged: Usd, billed: Usd, why: String| {
        let more = billed - charged;
        let sign = if more > Usd::ZERO { "+" } else { "" };
        vec![name.to_owned(), signed(charged), signed(billed), format!("{sign}{}", signed(more)), why]
    };
    let mut rows: Vec<Vec<String>> =
        read.differences.iter().map(|one| row(&one.run, one.charged_usd, one.billed_usd, why(one))).collect();
    if rows.len() > 1 {
        let all = read.differences;
        rows.push(row("total", sum(all, |one| one.charged_usd), sum(all, |one| one.billed_usd), String::new()));
    }
    let months: BTreeSet<String> = read.bills.iter().map(|bill| format!("{} {}", bill.cloud, bill.month)).collect();
    let (lines, ours) = (thousands(i128::from(read.lines)), thousands(i128::from(read.ours)));
    let kept = if read.is_new { "kept in the ledger" } else { "in the ledger already" };
    let months: Vec<String> = months.into_iter().collect();
    let unread = if read.unread > 0 {
        format!(" Of {} lines of no run the amount is not known.", thousands(i128::from(read.unread)))
    } else {
        String::new()
    };
    let foot = format!("{ours} of {lines} lines have the tag of a run ({}); {kept}.{unread}", months.join(", "));
    format!("{}{}\n", render(&columns, rows, width), wrap(&foot, width, ""))
}

/// The largest reasons first.
fn why(one: &Difference) -> String {
    let mut reasons: Vec<(&DifferenceReason, &Usd)> = one.reasons.iter().collect();
    reasons.sort_by_key(|(_, amount)| std::cmp::Reverse(amount.nanos().abs()));
    let words = reasons.iter().map(|(reason, amount)| {
        let sign = if **amount > Usd::ZERO { "+" } else { "" };
        let hours = match (reason, one.billed_hours) {
            (DifferenceReason::Hours, Some(billed)) => {
                format!(" ({} h billed, {} h seen)", three_figures(billed), three_figures(one.charged_hours))
            }
            _ => String::new(),
        };
        format!("{} {sign}{}{hours}", reason.label(), signed(**amount))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// What `costs import --output json` writes: a cloud's bill against what was charged here.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BillDocument<'a> {
    pub version: u32,
    /// Of every amount: `USD`.
    pub currency: &'static str,
    /// Lines of all files.
    pub lines: u64,
    /// Of them, those with the tag of a run.
    pub lines_of_runs: u64,
    /// Whether any of it was not imported before.
    pub is_new: bool,
    pub bills: Vec<BillRecord<'a>>,
    pub total: BillTotal,
    /// Run by run, why the bill differs.
    pub runs: &'a [Difference],
}

/// One account and billing period, as the ledger keeps it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BillRecord<'a> {
    pub id: &'a str,
    pub cloud: &'a str,
    pub account: &'a str,
    /// The billing period, `2026-10`.
    pub month: &'a str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BillTotal {
    pub charged_usd: Usd,
    pub billed_usd: Usd,
}

pub fn json(read: &BillComparison) -> String {
    pretty(&BillDocument {
        version: VERSION,
        currency: "USD",
        lines: read.lines,
        lines_of_runs: read.ours,
        is_new: read.is_new,
        bills: read.bills.iter().map(BillRecord::from).collect(),
        total: BillTotal {
            charged_usd: sum(read.differences, |one| one.charged_usd),
            billed_usd: sum(read.differences, |one| one.billed_usd),
        },
        runs: read.differences,
    })
}

impl<'a> From<&'a ImportedBill> for BillRecord<'a> {
    fn from(bill: &'a ImportedBill) -> Self {
        Self { id: &bill.id, cloud: &bill.cloud, account: &bill.account, month: &bill.month }
    }
}

/// A row for each run and reason.
pub fn csv(read: &BillComparison) -> String {
    let header = ["run", "charged_usd", "billed_usd", "reason", "difference_usd"];
    let rows = read.differences.iter().flat_map(|one| {
        let row = |reason: &str, amount: String| {
            [one.run.clone(), one.charged_usd.to_string(), one.billed_usd.to_string(), reason.to_owned(), amount]
        };
        let mut rows: Vec<[String; 5]> =
            one.reasons.iter().map(|(reason, amount)| row(reason.label(), amount.to_string())).collect();
        if rows.is_empty() {
            rows.push(row("none", Usd::ZERO.to_string()));
        }
        rows
    });
    csv_text(&header, rows)
}
