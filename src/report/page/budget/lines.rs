//! Every line of a budget as a table.

use serde::Deserialize;

use crate::finance::money::Money;
use crate::page::document::{Cell, Column, Figure, Section, Table};
use gpuplan_units::Usd;

/// What the page takes from a line.
#[derive(Clone, Debug, Deserialize)]
pub struct BudgetLine {
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    pub team: Option<String>,
    #[serde(default)]
    pub month: Option<String>,
    item: String,
    #[serde(default)]
    cloud: String,
    #[serde(default)]
    purchase: Option<String>,
    quantity: f64,
    unit: String,
    unit_price_usd: String,
    pub cost_usd: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    assumption: String,
}

impl BudgetLine {
    /// The run, with its phase where it has several, as elsewhere on the page.
    fn path(&self) -> Option<String> {
        let run = self.run.clone()?;
        Some(match self.phase.as_deref().filter(|phase| **phase != *run && !phase.is_empty()) {
            Some(phase) => format!("{run}/{phase}"),
            None => run,
        })
    }
}

pub fn section(lines: &[BudgetLine], shown: Money) -> Section {
    let text = |text: &Option<String>| text.as_deref().map_or_else(Cell::none, Cell::text);
    let row = |line: &BudgetLine| {
        let terms = [Some(line.cloud.as_str()), line.purchase.as_deref()];
        let terms: Vec<&str> = terms.into_iter().flatten().filter(|word| !word.is_empty()).collect();
        let rests_on = [line.source.as_str(), line.assumption.as_str()];
        let rests_on: Vec<&str> = rests_on.into_iter().filter(|words| !words.is_empty()).collect();
        vec![
            text(&line.month),
            text(&line.team),
            text(&line.path()),
            Cell::new(format!("{} ({})", line.item, line.unit), &*line.item),
            Cell::count(line.quantity),
            Cell::text(&*line.unit),
            money(&line.unit_price_usd, shown),
            money(&line.cost_usd, shown),
            Cell::new(terms.join(", "), &*line.cloud),
            text(&line.purchase),
            Cell::text(&*line.source),
            Cell::new(rests_on.join(": "), &*line.assumption),
        ]
    };
    let table = Table {
        id: "line",
        caption: "Every line of the budget".to_owned(),
        columns: vec![
            Column::text("month", "Month"),
            Column::for_programs("team"),
            Column::text("run", "Run"),
            Column::text("item", "Item"),
            Column::number("quantity", "Quantity"),
            Column::for_programs("unit"),
            Column::number("unit_price_usd", "Unit price"),
            Column::number("cost_usd", "Cost"),
            Column::text("cloud", "Cloud and terms"),
            Column::for_programs("purchase"),
            Column::for_programs("source"),
            Column::text("assumption", "Rests on"),
        ],
        rows: lines.iter().map(row).collect(),
    };
    Section { id: "lines", heading: "Lines", figures: vec![Figure { chart: None, table }], ..Section::default() }
}

/// An amount that may be negative.
pub fn money(text: &str, shown: Money) -> Cell {
    Usd::parse_signed(text).map_or_else(|_| Cell::text(text), |amount| Cell::new(shown.usd(amount), text))
}
