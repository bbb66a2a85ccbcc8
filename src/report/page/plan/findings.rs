//! What a profile of the run found, with what mending each would save of the planned one.

use crate::page::document::{Cell, Column, Figure, Section, Table};
use gpuplan_plan::document::FindingRecord;

/// `None`: nothing was found, or the plan goes by no profile.
pub fn section(findings: &[FindingRecord]) -> Option<Section> {
    if findings.is_empty() {
        return None;
    }
    let row = |record: &FindingRecord| {
        vec![
            Cell::new(name(record), record.finding.rule.word()),
            Cell::text(&*record.finding.evidence),
            Cell::text(&*record.finding.advice),
            record.saves_usd.map_or_else(|| Cell::new("not priced", ""), Cell::usd),
            record.saves_hours.map_or_else(Cell::none, |hours| Cell::hours(hours.0)),
        ]
    };
    let table = Table {
        id: "findings",
        caption: "What costs time, and what mending it would save".to_owned(),
        columns: vec![
            Column::text("rule", "Finding"),
            Column::text("evidence", "Evidence"),
            Column::text("advice", "What to do"),
            Column::number("saves_usd", "Saves"),
            Column::number("saves_hours", "Time"),
        ],
        rows: findings.iter().map(row).collect(),
    };
    let text = vec![
        "Each is priced by itself, at best, on the recommended machines; savings of several do not add up.".to_owned(),
    ];
    let why =
        |record: &FindingRecord| Some(format!("Not priced: {}: {}.", name(record), record.why_unpriced.as_ref()?));
    let points = findings.iter().filter_map(why).collect();
    let figures = vec![Figure { chart: None, table }];
    Some(Section { id: "findings", heading: "What the profile found", text, points, figures })
}

/// The rule that was broken, in words.
fn name(record: &FindingRecord) -> String {
    record.finding.rule.word().replace('-', " ")
}
