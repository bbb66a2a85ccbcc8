//! A report as JSON. Charts are left out: their facts are in the tables.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::page::document::{Cell, Report, Section, Table};
use crate::text::json::{VERSION, pretty};

/// `gpuplan report -o json`: a plan, a budget or a run as a page has it.
#[derive(Serialize, JsonSchema)]
pub struct ReportDocument<'a> {
    version: u32,
    /// What the report is about, such as the name of a workload.
    title: &'a str,
    /// One line under the title.
    lead: &'a str,
    made_at: Timestamp,
    /// The few figures that a reader looks for first.
    key: Vec<KeyFigureRecord<'a>>,
    sections: Vec<SectionRecord<'a>>,
}

/// A figure as people read it.
#[derive(Serialize, JsonSchema)]
struct KeyFigureRecord<'a> {
    name: &'static str,
    value: &'a str,
    note: &'a str,
}

/// One heading with what stands under it: sentences, then points, then tables.
#[derive(Serialize, JsonSchema)]
struct SectionRecord<'a> {
    id: &'static str,
    heading: &'static str,
    text: &'a [String],
    points: &'a [String],
    tables: Vec<TableRecord<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct TableRecord<'a> {
    id: &'static str,
    caption: &'a str,
    /// Exact figures as text, each under a name that ends in its unit. What is not known is absent.
    #[schemars(with = "Vec<BTreeMap<String, String>>")]
    rows: Vec<Map<String, Value>>,
}

pub fn json(report: &Report) -> String {
    let key =
        report.key.iter().map(|figure| KeyFigureRecord { name: figure.name, value: &figure.value, note: &figure.note });
    pretty(&ReportDocument {
        version: VERSION,
        title: &report.title,
        lead: &report.lead,
        made_at: report.made_at,
        key: key.collect(),
        sections: report.sections.iter().map(section).collect(),
    })
}

fn section(section: &Section) -> SectionRecord<'_> {
    SectionRecord {
        id: section.id,
        heading: section.heading,
        text: &section.text,
        points: &section.points,
        tables: section.figures.iter().map(|figure| table(&figure.table)).collect(),
    }
}

fn table(table: &Table) -> TableRecord<'_> {
    let row = |cells: &Vec<Cell>| {
        let known = table.columns.iter().zip(cells).filter(|(_, cell)| !cell.exact.is_empty());
        known.map(|(column, cell)| (column.key.to_owned(), cell.exact.clone().into())).collect()
    };
    TableRecord { id: table.id, caption: &table.caption, rows: table.rows.iter().map(row).collect() }
}
