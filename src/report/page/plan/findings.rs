//! What a profile of the run found, with what mending each would save of the planned one.

use crate::page::document::{Cell, Column, Figure, Section, Table};
use crate::page::recorded::Finding;

/// `None`: nothing was found, or the plan goes by no profile.
pub fn section(findings: &[Finding]) -> Option<Section> {
    if findings.is_empty() {
        return None;
    }
    let row = |finding: &Finding| {
        vec![
            Cell::new(finding.rule.replace('-', " "), finding.rule.as_str()),
            Cell::text(&*finding.evidence),
            Cell::text(&*finding.advice),
            finding.saves_usd.map_or_else(|| Cell::new("not priced", ""), Cell::usd),
            finding.saves_hours.map_or_else(Cell::none, Cell::hours),
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
    let why = |finding: &Finding| {
        Some(format!("Not priced: {}: {}.", finding.rule.replace('-', " "), finding.why_unpriced.as_ref()?))
    };
    let points = findings.iter().filter_map(why).collect();
    let figures = vec![Figure { chart: None, table }];
    Some(Section { id: "findings", heading: "What the profile found", text, points, figures })
}
