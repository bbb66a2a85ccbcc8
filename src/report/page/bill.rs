//! A bill as a section: bars by item, and a table of quantities, prices and costs that ends in the total.

use crate::page::chart::{Bar, BarChart, Chart, ChartKind};
use crate::page::document::{Cell, Column, Figure, Section, Table};
use crate::text::format;
use gpuplan_units::Usd;

/// A line of a bill: of a plan, or of what a run was charged.
#[derive(Clone, Debug, PartialEq)]
pub struct BillRow {
    pub item: String,
    pub quantity: f64,
    pub unit: String,
    /// `None`: more than one price is in the line.
    pub unit_price: Option<Usd>,
    pub cost: Usd,
    /// Source and date of the price.
    pub basis: String,
}

/// Exact, to the nano-dollar.
pub fn total(rows: &[BillRow]) -> Usd {
    rows.iter().map(|row| row.cost).sum()
}

/// The section of a bill. `description` says in words what the chart shows.
pub fn section(rows: &[BillRow], description: String, caption: &str, text: Vec<String>) -> Section {
    let bars =
        rows.iter().map(|row| Bar { name: row.item.clone(), value: row.cost.dollars(), words: format::usd(row.cost) });
    let chart = Chart::new("The bill by item", description, ChartKind::Bars(BarChart { bars: bars.collect() }));
    let price = |price: Usd| Cell::new(format!("${price}"), price.to_string());
    let cells = |row: &BillRow| {
        vec![
            Cell::text(&*row.item),
            Cell::count(row.quantity),
            Cell::text(&*row.unit),
            row.unit_price.map_or_else(Cell::none, price),
            Cell::usd(row.cost),
            Cell::text(&*row.basis),
        ]
    };
    let sum = vec![
        Cell::text("total"),
        Cell::none(),
        Cell::none(),
        Cell::none(),
        Cell::usd(total(rows)),
        Cell::text("the sum of the lines"),
    ];
    let table = Table {
        id: "bill",
        caption: caption.to_owned(),
        columns: vec![
            Column::text("item", "Item"),
            Column::number("quantity", "Quantity"),
            Column::text("unit", "Unit"),
            Column::number("unit_price_usd", "Unit price"),
            Column::number("cost_usd", "Cost"),
            Column::text("basis", "Rests on"),
        ],
        rows: rows.iter().map(cells).chain([sum]).collect(),
    };
    Section {
        id: "bill",
        heading: "The bill",
        text,
        points: Vec::new(),
        figures: vec![Figure { chart: Some(chart), table }],
    }
}
