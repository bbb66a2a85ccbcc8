//! `Report`: facts in the order in which a reviewer asks for them. HTML, Markdown, CSV and JSON are four ways to write them.

use jiff::Timestamp;

use crate::finance::money::Money;
use crate::page::chart::Chart;
use crate::text::format;
use gpuplan_units::{Hours, Usd, UsdPerHour};

#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What the report is about, such as the name of a workload.
    pub title: String,
    /// One line under the title.
    pub lead: String,
    pub made_at: Timestamp,
    /// The few figures that a reader looks for first.
    pub key: Vec<KeyFigure>,
    pub sections: Vec<Section>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeyFigure {
    pub name: &'static str,
    pub value: String,
    pub note: String,
}

/// One heading with what stands under it: sentences, then points, then figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    pub id: &'static str,
    pub heading: &'static str,
    pub text: Vec<String>,
    pub points: Vec<String>,
    pub figures: Vec<Figure>,
}

/// A chart and the same facts as a table; some facts have no chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub chart: Option<Chart>,
    pub table: Table,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub id: &'static str,
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The columns that people see.
    pub fn seen(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.is_for_programs)
    }

    /// A row of it in these columns.
    pub fn seen_of<'a>(&'a self, row: &'a [Cell]) -> impl Iterator<Item = (&'a Column, &'a Cell)> {
        self.columns.iter().zip(row).filter(|(column, _)| !column.is_for_programs)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// In CSV and JSON, with the unit at its end.
    pub key: &'static str,
    /// For people.
    pub name: &'static str,
    pub is_number: bool,
    /// In CSV and JSON alone: people find it in another column.
    pub is_for_programs: bool,
}

impl Column {
    pub fn text(key: &'static str, name: &'static str) -> Self {
        Self { key, name, is_number: false, is_for_programs: false }
    }

    pub fn number(key: &'static str, name: &'static str) -> Self {
        Self { is_number: true, ..Self::text(key, name) }
    }

    pub fn for_programs(key: &'static str) -> Self {
        Self { is_for_programs: true, ..Self::text(key, "") }
    }
}

/// One fact: as people read it, and as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    pub shown: String,
    pub exact: String,
    /// Another page about it, as a relative address; HTML alone shows it.
    pub link: Option<String>,
}

impl Cell {
    pub fn new(shown: impl Into<String>, exact: impl Into<String>) -> Self {
        Self { shown: shown.into(), exact: exact.into(), link: None }
    }

    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(text.clone(), text)
    }

    pub fn linked(self, page: &str) -> Self {
        Self { link: Some(page.to_owned()), ..self }
    }

    /// Nothing is known, or nothing applies.
    pub fn none() -> Self {
        Self::new("-", "")
    }

    pub fn usd(amount: Usd) -> Self {
        Self::new(format::usd(amount), amount.to_string())
    }

    /// In the currency of a portfolio; what is exact stays in dollars, as its name says.
    pub fn money(amount: Usd, shown: Money) -> Self {
        Self::new(shown.usd(amount), amount.to_string())
    }

    pub fn rate(rate: UsdPerHour) -> Self {
        Self::new(format::rate(rate), rate.to_string())
    }

    pub fn hours(hours: f64) -> Self {
        Self::new(Hours(hours).to_string(), hours.to_string())
    }

    pub fn share(share: f64) -> Self {
        Self::new(format!("{:.0} %", share * 100.0), share.to_string())
    }

    pub fn count(count: f64) -> Self {
        Self::new(format::three_figures(count), count.to_string())
    }

    pub fn time(at: Timestamp) -> Self {
        Self::new(day_and_time(at), at.to_string())
    }
}

/// `2026-08-02 12:00 UTC`.
pub fn day_and_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// `2026-08-02`.
pub fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}
