//! A budget as JSON and its lines as CSV.

use crate::finance::money::{EXCHANGE_COLUMNS, exchange_cells};
use crate::text::csv_text::csv_text;
use crate::text::json::pretty;
use gpuplan_budget::Budget;
use gpuplan_budget::portfolio::lines::BudgetLine;

pub fn json(budget: &Budget) -> String {
    pretty(budget)
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

/// One row a line. Where the portfolio is in another currency, with what the line is in it.
pub fn csv(budget: &Budget) -> String {
    let Some(exchange) = &budget.exchange else { return csv_text(&COLUMNS, budget.lines.iter().map(csv_cells)) };
    let columns = [&COLUMNS[..], &["cost_in_currency"], &EXCHANGE_COLUMNS].concat();
    let cells = |line: &BudgetLine| {
        let cost = line.amount.cost_in_currency.map(|cost| cost.to_string()).unwrap_or_default();
        csv_cells(line).into_iter().chain([cost]).chain(exchange_cells(exchange))
    };
    csv_text(&columns, budget.lines.iter().map(cells))
}

fn csv_cells(line: &BudgetLine) -> Vec<String> {
    let BudgetLine { machines, amount, basis, .. } = line;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    vec![
        line.id.clone(),
        text(&line.run),
        text(&line.phase),
        text(&line.team),
        line.month.to_string(),
        line.item.word().to_owned(),
        machines.cloud.clone(),
        text(&machines.region),
        text(&machines.zone_id),
        text(&machines.instance_type),
        text(&machines.gpu),
        machines.gpus_per_node.map(|count| count.to_string()).unwrap_or_default(),
        text(&machines.purchase),
        amount.quantity.to_string(),
        amount.unit.clone(),
        amount.unit_price_usd.to_string(),
        amount.cost_usd.to_string(),
        amount.p50_usd.to_string(),
        amount.p90_usd.to_string(),
        "USD".to_owned(),
        basis.source.clone(),
        basis.priced_at.map(|moment| moment.to_string()).unwrap_or_default(),
        basis.assumption.clone(),
        line.tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(";"),
    ]
}
