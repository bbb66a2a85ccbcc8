//! What a check of the catalog found, as text, JSON and CSV.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::catalog::rows::csv;
use crate::text::json::{VERSION, pretty};
use crate::text::wrap::wrap;
use gpuplan_hardware::Hardware;
use gpuplan_hardware::rules::{Finding, Severity};
use gpuplan_market::Market;
use gpuplan_market::check::suspects;
use gpuplan_workload::Models;

/// Rows named for a rule in the text of a check.
const NAMED_ROWS: usize = 6;

/// `gpuplan catalog check -o json`: what a check of the catalog found.
#[derive(Serialize, JsonSchema)]
pub struct CheckReport<'a> {
    version: u32,
    /// What has to be fixed before the catalog is used.
    errors: Vec<FindingLine<'a>>,
    /// What a reader should know.
    notes: Vec<FindingLine<'a>>,
    counts: CatalogCounts,
}

/// A row of the catalog and what is wrong with it.
#[derive(Serialize, JsonSchema)]
struct FindingLine<'a> {
    /// File and key of the row.
    row: &'a str,
    /// The rule that it breaks.
    rule: &'a str,
    detail: &'a str,
}

/// Rows of the catalog by kind.
#[derive(Serialize, JsonSchema)]
pub struct CatalogCounts {
    gpus: usize,
    links: usize,
    /// Machines with GPUs.
    instances: usize,
    /// Machines without GPU.
    hosts: usize,
    models: usize,
    /// Prices of machines with GPUs.
    prices: usize,
    /// Prices of machines without GPU.
    host_prices: usize,
    /// Prices with at least one doubt.
    suspect_prices: usize,
    /// Charges beside the machine, such as disks and egress.
    charges: usize,
    sources: usize,
    /// Prices by doubt.
    #[schemars(with = "BTreeMap<String, usize>")]
    suspect: Map<String, Value>,
}

impl CatalogCounts {
    pub fn new(hardware: &Hardware, market: &Market, models: &Models) -> Self {
        let suspects = suspects(market, hardware).into_iter();
        Self {
            gpus: hardware.gpus().len(),
            links: hardware.links().len(),
            instances: hardware.instances().len(),
            hosts: hardware.hosts().len(),
            models: models.rows().len(),
            prices: market.offers().len(),
            host_prices: market.host_offers().len(),
            suspect_prices: market.offers().iter().filter(|offer| offer.is_suspect()).count(),
            charges: market.charges.rows().len(),
            sources: market.sources.len(),
            suspect: suspects.map(|count| (count.suspicion.word().to_owned(), count.offers.into())).collect(),
        }
    }

    /// Each count with its name in words.
    fn named(&self) -> [(&'static str, usize); 10] {
        [
            ("gpus", self.gpus),
            ("links", self.links),
            ("instances", self.instances),
            ("hosts", self.hosts),
            ("models", self.models),
            ("prices", self.prices),
            ("host prices", self.host_prices),
            ("suspect prices", self.suspect_prices),
            ("charges", self.charges),
            ("sources", self.sources),
        ]
    }
}

const FINDING_COLUMNS: [(&str, &str); 4] =
    [("severity", "/0"), ("row", "/1/row"), ("rule", "/1/rule"), ("detail", "/1/detail")];

impl<'a> CheckReport<'a> {
    pub fn new(findings: &'a [Finding], counts: CatalogCounts) -> Self {
        let with = |severity: Severity| {
            let found = findings.iter().filter(move |finding| finding.severity == severity);
            found
                .map(|finding| FindingLine { row: &finding.row, rule: finding.rule, detail: &finding.detail })
                .collect()
        };
        Self { version: VERSION, errors: with(Severity::Error), notes: with(Severity::Note), counts }
    }

    pub fn json(&self) -> String {
        pretty(self)
    }

    pub fn csv(&self) -> Result<String, csv::Error> {
        csv(&self.lines(), &FINDING_COLUMNS)
    }

    /// Every error; notes together by their rule.
    pub fn text(&self, width: u16) -> String {
        let error = |FindingLine { row, rule, detail }: &FindingLine| format!("error: {row}: {rule}: {detail}");
        let mut lines: Vec<String> = self.errors.iter().map(error).collect();
        let mut rules: Vec<&str> = self.notes.iter().map(|note| note.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        for rule in rules {
            let of_rule: Vec<&FindingLine> = self.notes.iter().filter(|note| note.rule == rule).collect();
            lines.push(match of_rule.as_slice() {
                [FindingLine { row, detail, .. }] => format!("note: {row}: {rule}: {detail}"),
                several => {
                    let named: Vec<&str> = several.iter().take(NAMED_ROWS).map(|note| note.row).collect();
                    let more = several.len() - named.len();
                    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                    format!("note: {rule}, {} rows: {}{more}", several.len(), named.join(", "))
                }
            });
        }
        let text: String = lines.iter().map(|line| wrap(line, width, "  ") + "\n").collect();
        let counted = self.counts.named().map(|(name, count)| format!("{count} {name}"));
        let notes = format!("{} errors, {} notes (`--output json` lists each)", self.errors.len(), self.notes.len());
        format!("{text}\n{}\n", wrap(&format!("{notes} in {}", counted.join(", ")), width, ""))
    }

    fn lines(&self) -> Vec<(&'static str, &FindingLine<'a>)> {
        let errors = self.errors.iter().map(|line| ("error", line));
        errors.chain(self.notes.iter().map(|line| ("note", line))).collect()
    }
}
