//! Why one candidate lost, and what would change the answer.

use crate::candidate::Plan;
use crate::choose::{COST_TOLERANCE, PlanSet, World};

/// What would make `other` win over the recommendation.
pub fn what_would_change(set: &PlanSet, other: &Plan) -> Vec<String> {
    let Some(best) = &set.recommendation else { return Vec::new() };
    let mut changes = Vec::new();
    let ratio = other.cost.expected.dollars() / best.cost.expected.dollars();
    if ratio > 1.0 {
        changes
            .push(format!("its price, or its step time, would have to be {:.0} % lower", (1.0 - 1.0 / ratio) * 100.0));
        changes.push(format!("or the recommended one's {:.0} % higher", (ratio - 1.0) * 100.0));
    }
    let (low, high) =
        (other.cost.expected.dollars() * other.run.training.low / other.run.training.expected, best.cost.p90.dollars());
    if ratio > 1.0 && low < high {
        changes.push("the bands overlap: a measured step of either could turn the answer".to_owned());
    }
    if other.run.hours.expected < best.run.hours.expected {
        changes.push(format!("--deadline {:.0}h asks for the faster one", other.run.hours.p90.ceil()));
    }
    if (1.0..=1.0 + COST_TOLERANCE).contains(&ratio) {
        changes.push("its cost is within 5 % of the best: it is as good a choice".to_owned());
    }
    changes
}

/// Why `other` is not the recommended plan.
pub fn why_not(world: World, set: &PlanSet, other: &Plan) -> Vec<String> {
    let Some(best) = &set.recommendation else { return Vec::new() };
    let name = plan_id(world, best);
    let (dearer, slower) = (
        other.cost.expected.dollars() / best.cost.expected.dollars(),
        other.run.hours.expected / best.run.hours.expected,
    );
    let compare = |ratio: f64, more: &str, less: &str| match ratio {
        ratio if ratio >= 1.0 => format!("{:.0} % {more}", (ratio - 1.0) * 100.0),
        ratio => format!("{:.0} % {less}", (1.0 - ratio) * 100.0),
    };
    let mut reasons = vec![format!(
        "{} and {} than {name}",
        compare(dearer, "dearer", "cheaper"),
        compare(slower, "slower", "faster")
    )];
    if best.dominates(other) {
        reasons.push("the recommended plan is no worse in both cost and time".to_owned());
    }
    let (here, there) = (other.gpu_hours(), best.gpu_hours());
    let offer =
        |plan: &Plan| world.market.offer(plan.offer).quote.rate.times(plan.nodes).dollars() / f64::from(plan.gpus());
    reasons.push(format!("{here:.0} GPU-hours at ${:.2} against {there:.0} at ${:.2}", offer(other), offer(best)));
    reasons
}

/// Finds a plan by its id among those shown.
pub fn find<'a>(set: &'a PlanSet, id: &str, name: impl Fn(&Plan) -> String) -> Option<&'a Plan> {
    set.recommendation.iter().chain(&set.frontier).chain(&set.alternatives).find(|plan| name(plan) == id)
}

/// Identity of a plan, stable between runs: place, machine, count, terms.
pub fn plan_id(world: World, plan: &Plan) -> String {
    let offer = world.market.offer(plan.offer);
    let instance = world.hardware.instance(plan.instance);
    let place = offer.place.zone_id.as_deref().unwrap_or(&offer.place.region);
    format!("{}/{}/{}x{}/{}", instance.cloud, place, instance.name, plan.nodes, plan.terms(offer.purchase))
}
