//! Why one plan lost, and what would change the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::{Plan, plan_id};
use crate::context::World;
use crate::plan_set::PlanSet;
use gpuplan_units::Hours;

/// Why a plan is not the recommended one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum WhyNot {
    /// Cost and hours over those of the recommended plan.
    Ratios {
        cost_ratio: f64,
        hours_ratio: f64,
        recommended: String,
    },
    /// The recommended plan is no worse in both cost and time.
    Dominated,
    GpuHours {
        gpu_hours: f64,
        usd_per_gpu_hour: f64,
        recommended_gpu_hours: f64,
        recommended_usd_per_gpu_hour: f64,
    },
}

/// What would make a plan win over the recommendation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum WouldChange {
    /// Its price or step time, lower by this share.
    Cheaper {
        share: f64,
    },
    /// The recommended plan's, higher by this share.
    RecommendedDearer {
        share: f64,
    },
    BandsOverlap,
    /// It is faster than the recommended plan.
    Deadline {
        deadline_hours: Hours,
    },
    /// It is cheaper and slower: it costs less where an hour of waiting is worth no more than this.
    HourWorth {
        usd_per_hour: f64,
    },
}

/// What would make `other` win over the recommendation.
pub fn what_would_change(set: &PlanSet, other: &Plan) -> Vec<WouldChange> {
    let Some(best) = &set.recommendation else { return Vec::new() };
    let mut changes = Vec::new();
    let ratio = other.cost.expected.dollars() / best.cost.expected.dollars();
    if ratio > 1.0 {
        changes.push(WouldChange::Cheaper { share: 1.0 - 1.0 / ratio });
        changes.push(WouldChange::RecommendedDearer { share: ratio - 1.0 });
    }
    let (low, high) =
        (other.cost.expected.dollars() * other.run.training.low / other.run.training.expected, best.cost.p90.dollars());
    if ratio > 1.0 && low < high {
        changes.push(WouldChange::BandsOverlap);
    }
    if other.run.hours.expected < best.run.hours.expected {
        changes.push(WouldChange::Deadline { deadline_hours: Hours(other.run.hours.p90.ceil()) });
    }
    let (saved, later) = (
        best.cost.expected.dollars() - other.cost.expected.dollars(),
        other.run.hours.expected - best.run.hours.expected,
    );
    if saved > 0.0 && later > 0.0 {
        changes.push(WouldChange::HourWorth { usd_per_hour: saved / later });
    }
    changes
}

/// Why `other` is not the recommended plan.
pub fn why_not(world: World, set: &PlanSet, other: &Plan) -> Vec<WhyNot> {
    let Some(best) = &set.recommendation else { return Vec::new() };
    let mut reasons = vec![WhyNot::Ratios {
        cost_ratio: other.cost.expected.dollars() / best.cost.expected.dollars(),
        hours_ratio: other.run.hours.expected / best.run.hours.expected,
        recommended: plan_id(world, best),
    }];
    if best.dominates(other) {
        reasons.push(WhyNot::Dominated);
    }
    let rate =
        |plan: &Plan| world.market.offer(plan.offer).quote.rate.times(plan.nodes).dollars() / f64::from(plan.gpus());
    reasons.push(WhyNot::GpuHours {
        gpu_hours: other.gpu_hours(),
        usd_per_gpu_hour: rate(other),
        recommended_gpu_hours: best.gpu_hours(),
        recommended_usd_per_gpu_hour: rate(best),
    });
    reasons
}

/// Finds a plan by its id among those shown.
pub fn find<'a>(set: &'a PlanSet, id: &str, name: impl Fn(&Plan) -> String) -> Option<&'a Plan> {
    set.recommendation.iter().chain(&set.frontier).chain(&set.alternatives).find(|plan| name(plan) == id)
}
