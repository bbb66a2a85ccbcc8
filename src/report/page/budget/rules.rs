//! What a budget has to keep, with what was found: on the page of the budget and on that of what was spent.

use crate::finance::money::Money;
use crate::finance::rules_text::{asked, found, verdict};
use crate::page::document::{Cell, Column, Figure, Section, Table};
use gpuplan_budget::portfolio::verdict::{RuleResult, Verdict};

/// `None`: there are no rules.
pub fn section(rules: &[RuleResult], shown: Money) -> Option<Section> {
    let row =
        |rule: &RuleResult| vec![Cell::text(asked(rule, shown)), Cell::text(found(rule)), Cell::text(verdict(rule))];
    let table = Table {
        id: "rule",
        caption: "Each rule, what was found, and what comes of it".to_owned(),
        columns: vec![
            Column::text("rule", "Rule"),
            Column::number("found", "Found"),
            Column::text("verdict", "Verdict"),
        ],
        rows: rules.iter().map(row).collect(),
    };
    (!rules.is_empty()).then(|| Section {
        id: "rules",
        heading: "What the budget has to keep",
        figures: vec![Figure { chart: None, table }],
        ..Section::default()
    })
}

/// How many are broken, in words for the summary; `None`: all are kept.
pub fn broken(rules: &[RuleResult]) -> Option<String> {
    let count = rules.iter().filter(|rule| rule.verdict != Verdict::Kept).count();
    (count > 0).then(|| format!("{count} of {} rules {} not kept.", rules.len(), if count == 1 { "is" } else { "are" }))
}
