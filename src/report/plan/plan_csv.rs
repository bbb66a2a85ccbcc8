//! Plans as CSV: the frontier and the best of the other GPUs, one a row, units in the column names.

use crate::text::csv_text::csv_text;
use gpuplan_plan::document::{Context, PlanRecord};
use gpuplan_plan::{Plan, PlanSet, plan_id};

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
    let best = set.recommendation.as_ref().map(|plan| plan_id(context.world, plan));
    csv_text(&COLUMNS, set.frontier.iter().chain(&set.alternatives).map(|plan| row(plan, best.as_deref(), context)))
}

fn row(plan: &Plan, best: Option<&str>, context: &Context) -> Vec<String> {
    let json = PlanRecord::new(plan, context);
    vec![
        json.id.clone(),
        (best == Some(json.id.as_str())).to_string(),
        json.machines.cloud,
        json.machines.region,
        json.machines.zone_id.unwrap_or_default(),
        json.machines.instance_type,
        json.machines.gpu,
        json.machines.gpus_per_node.to_string(),
        json.machines.nodes.to_string(),
        json.machines.purchase.word().to_owned(),
        json.machines.rate_usd_per_hour.to_string(),
        format!("{:?}", json.price.origin).to_lowercase(),
        json.price.observed_at.to_string(),
        json.layout.label,
        json.layout.micro_batch.to_string(),
        json.step.step_seconds.expected.to_string(),
        json.step.bound_by,
        json.time.run_hours.expected.to_string(),
        json.time.run_hours.p90.to_string(),
        plan.gpu_hours().to_string(),
        json.cost.cost_usd.expected.to_string(),
        json.cost.cost_usd.p90.to_string(),
    ]
}
