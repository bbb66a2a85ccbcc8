//! Plans as CSV: the frontier and the best of the other GPUs, one a row, units in the column names.

use crate::csv_text::csv_text;
use crate::plan_json::{Context, plan_json};
use gpuplan_plan::{Plan, PlanSet};

pub const COLUMNS: [&str; 22] = [
    "id",
    "recommended",
    "cloud",
    "region",
    "zone_id",
    "instance_type",
    "gpu",
    "gpus_per_node",
    "nodes",
    "purchase",
    "rate_usd_per_hour",
    "price_origin",
    "price_observed_at",
    "layout",
    "micro_batch",
    "step_seconds",
    "bound_by",
    "run_hours_expected",
    "run_hours_p90",
    "gpu_hours",
    "cost_usd_expected",
    "cost_usd_p90",
];

pub fn text(set: &PlanSet, context: &Context) -> String {
    let best = set.recommendation.as_ref().map(|plan| plan_json(plan, context).id);
    csv_text(&COLUMNS, set.frontier.iter().chain(&set.alternatives).map(|plan| row(plan, best.as_deref(), context)))
}

fn row(plan: &Plan, best: Option<&str>, context: &Context) -> Vec<String> {
    let json = plan_json(plan, context);
    vec![
        json.id.clone(),
        (best == Some(json.id.as_str())).to_string(),
        json.cloud,
        json.region,
        json.zone_id.unwrap_or_default(),
        json.instance_type,
        json.gpu,
        json.gpus_per_node.to_string(),
        json.nodes.to_string(),
        json.purchase.to_owned(),
        json.rate_usd_per_hour.to_string(),
        format!("{:?}", json.price.origin).to_lowercase(),
        json.price.observed_at.to_string(),
        json.layout.label,
        json.layout.micro_batch.to_string(),
        json.step_seconds.expected.to_string(),
        json.bound_by,
        json.run_hours.expected.to_string(),
        json.run_hours.p90.to_string(),
        json.gpu_hours.to_string(),
        json.cost_usd.expected.to_string(),
        json.cost_usd.p90.to_string(),
    ]
}
