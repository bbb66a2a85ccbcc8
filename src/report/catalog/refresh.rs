//! What each source answered: one row a source, its notes below.

use schemars::JsonSchema;
use serde::Serialize;

use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;

/// Notes of a source that are printed; the rest are counted. JSON has all.
const NOTES_SHOWN: usize = 5;

/// What came of a question to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceOutcome {
    Answered,
    /// Not asked: the last answer is fresh.
    Recent,
    NoCredentials,
    Failed,
}

/// `gpuplan refresh -o json`.
#[derive(Serialize, JsonSchema)]
pub struct SourceList<'a> {
    version: u32,
    sources: &'a [SourceRow],
}

/// A source of prices or risks, and what came of the question.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SourceRow {
    pub cloud: String,
    pub source: String,
    /// Whether everybody gets the same answer without an account.
    pub is_public: bool,
    pub outcome: SourceOutcome,
    /// Prices, or pools with evidence of risk.
    pub rows: usize,
    /// What the source noted, or why it failed.
    pub details: Vec<String>,
}

impl SourceRow {
    /// What the table says of it.
    fn label(&self) -> &'static str {
        match self.outcome {
            SourceOutcome::Answered => "answered",
            SourceOutcome::Recent => "not asked",
            SourceOutcome::NoCredentials => "no account",
            SourceOutcome::Failed => "failed",
        }
    }
}

pub fn json(rows: &[SourceRow]) -> String {
    pretty(&SourceList { version: VERSION, sources: rows })
}

pub fn csv(rows: &[SourceRow]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["cloud", "source", "is_public", "outcome", "rows", "details"])?;
    for row in rows {
        let (public, count) = (row.is_public.to_string(), row.rows.to_string());
        writer.write_record([&row.cloud, &row.source, &public, row.label(), &count, &row.details.join("; ")])?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub fn table(rows: &[SourceRow], width: u16) -> String {
    let columns = [
        Column::left("cloud", 0),
        Column::left("source", 0),
        Column::left("for", 100),
        Column::left("outcome", 0),
        Column::right("rows", 0),
        Column::left("first note", 110),
    ];
    let cells = rows.iter().map(|row| {
        let first = row.details.first().map(String::as_str).unwrap_or_default();
        vec![
            row.cloud.clone(),
            row.source.clone(),
            if row.is_public { "anybody" } else { "accounts" }.to_owned(),
            row.label().to_owned(),
            if row.rows > 0 { row.rows.to_string() } else { String::new() },
            first.to_owned(),
        ]
    });
    let mut text = render(&columns, cells, width);
    for row in rows.iter().filter(|row| row.details.len() > 1 || width < 110 && row.outcome == SourceOutcome::Failed) {
        text.push_str(&format!("\n{}:\n", row.source));
        for detail in row.details.iter().take(NOTES_SHOWN) {
            text.push_str(&wrap(&format!("- {detail}"), width, "  "));
            text.push('\n');
        }
        if row.details.len() > NOTES_SHOWN {
            text.push_str(&format!("- and {} more (`--output json` has all)\n", row.details.len() - NOTES_SHOWN));
        }
    }
    text
}
