//! A budget as JSON (contract section 6) and its lines as CSV.

use serde_json::{Value, json};

use crate::csv_text::csv_text;
use gpuplan_budget::Budget;
use gpuplan_budget::portfolio::lines::Line;

/// The whole document. Its lines add up to `total.cost_usd.expected` to the nano-dollar.
pub fn document(budget: &Budget) -> Value {
    json!({
        "version": 1,
        "generated_at": budget.generated_at,
        "name": budget.name,
        "currency": "USD",
        "tax": budget.tax,
        "start": budget.start,
        "months": budget.months,
        "inputs": budget.inputs,
        "total": {
            "cost_usd": budget.total.cost_usd,
            "budget_usd": budget.total.budget_usd,
            "chance_within_budget": budget.total.chance_within_budget,
            "mean_of_draws_usd": budget.mean_of_draws,
        },
        "by_month": budget.by_month,
        "by_team": budget.by_team,
        "by_cloud": budget.by_cloud,
        "by_gpu": budget.by_gpu,
        "phases": budget.phases,
        "commitments": budget.commitments,
        "promises": budget.promises,
        "elsewhere": budget.elsewhere,
        "sensitivity": budget.sensitivity,
        "lines": budget.lines,
        "assumptions": budget.assumptions,
    })
}

const COLUMNS: [&str; 24] = [
    "id",
    "run",
    "phase",
    "team",
    "month",
    "item",
    "cloud",
    "region",
    "zone_id",
    "instance_type",
    "gpu",
    "gpus_per_node",
    "purchase",
    "quantity",
    "unit",
    "unit_price_usd",
    "cost_usd",
    "p50_usd",
    "p90_usd",
    "currency",
    "source",
    "priced_at",
    "assumption",
    "tags",
];

/// One row a line.
pub fn csv(budget: &Budget) -> String {
    csv_text(&COLUMNS, budget.lines.iter().map(row))
}

fn row(line: &Line) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    vec![
        line.id.clone(),
        text(&line.run),
        text(&line.phase),
        text(&line.team),
        line.month.to_string(),
        line.item.word().to_owned(),
        line.cloud.clone(),
        text(&line.region),
        text(&line.zone_id),
        text(&line.instance_type),
        text(&line.gpu),
        line.gpus_per_node.map(|count| count.to_string()).unwrap_or_default(),
        text(&line.purchase),
        line.quantity.to_string(),
        line.unit.clone(),
        line.unit_price_usd.to_string(),
        line.cost_usd.to_string(),
        line.p50_usd.to_string(),
        line.p90_usd.to_string(),
        "USD".to_owned(),
        line.source.clone(),
        line.priced_at.map(|moment| moment.to_string()).unwrap_or_default(),
        line.assumption.clone(),
        line.tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(";"),
    ]
}
