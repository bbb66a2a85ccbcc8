//! The three plans that a person chooses between: the cheapest, the recommended and the fastest that is sensible.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::context::Context;
use gpuplan_units::{Hours, Usd};

/// Plans that end this much after the fastest are as fast, since a start alone takes 11 to 18 minutes: of the hours, and at least five minutes.
const AS_FAST_SHARE: f64 = 0.1;
const AS_FAST: f64 = 5.0 / 60.0;

/// What a plan is picked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Least expected cost.
    Cheapest,
    /// What the objective chooses.
    Recommended,
    /// The cheapest of those that end about as soon as any.
    Fastest,
}

impl Role {
    /// As JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cheapest => "cheapest",
            Self::Recommended => "recommended",
            Self::Fastest => "fastest",
        }
    }
}

/// Why somebody would take a plan, against the recommended one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PickReason {
    /// It is the recommended one and the cheapest.
    Cheapest,
    /// It is the recommended one, and dearer than the cheapest.
    SoonerThanCheapest { more_usd: Usd, sooner_hours: Hours },
    /// It is cheaper than the recommended one and ends later.
    Cheaper {
        less_usd: Usd,
        later_hours: Hours,
        /// The recommended one is better where an hour is worth more than this.
        #[serde(skip_serializing_if = "Option::is_none")]
        value_of_time_usd_per_hour: Option<Usd>,
    },
    /// It ends sooner than the recommended one and costs more.
    Sooner {
        more_usd: Usd,
        sooner_hours: Hours,
        /// It is better where an hour is worth more than this.
        #[serde(skip_serializing_if = "Option::is_none")]
        value_of_time_usd_per_hour: Option<Usd>,
    },
}

/// A plan, what it is picked for, and why somebody would take it.
#[derive(Clone, Debug)]
pub struct Pick {
    /// One plan may be several: the recommended one may be the cheapest as well.
    pub roles: Vec<Role>,
    pub plan: Plan,
    pub why: PickReason,
}

/// Cheapest, recommended, fastest: each plan once. `frontier` is by cost and has the recommended plan.
pub fn picks(context: Context, best: &Plan, frontier: &[Plan]) -> Vec<Pick> {
    let is_same = |a: &Plan, b: &Plan| {
        let end = |plan: &Plan| plan.spot.as_ref().and_then(|spot| spot.finish_by).map(|end| end.0.to_bits());
        (a.offer, a.nodes, end(a)) == (b.offer, b.nodes, end(b))
    };
    // The hours of a service are given.
    let is_service = context.workload.is_service();
    let fastest = fastest(frontier, best).filter(|_| !is_service);
    let wanted = [(Role::Cheapest, frontier.first()), (Role::Recommended, Some(best)), (Role::Fastest, fastest)];
    let mut picks: Vec<Pick> = Vec::new();
    for (role, plan) in wanted.into_iter().filter_map(|(role, plan)| Some((role, plan?))) {
        match picks.iter_mut().find(|pick| is_same(&pick.plan, plan)) {
            Some(pick) => pick.roles.push(role),
            None => picks.push(Pick { roles: vec![role], plan: plan.clone(), why: PickReason::Cheapest }),
        }
    }
    let cheapest = frontier.first().unwrap_or(best);
    for pick in &mut picks {
        pick.why = why(&pick.plan, best, cheapest);
    }
    picks
}

fn why(plan: &Plan, best: &Plan, cheapest: &Plan) -> PickReason {
    let more = |plan: &Plan, than: &Plan| plan.cost.expected - than.cost.expected;
    let sooner = |plan: &Plan, than: &Plan| than.run.hours.expected - plan.run.hours.expected;
    let rate = |more: Usd, hours: f64| {
        // Above an hour's worth of everything there is no rate to tell.
        (hours > 0.0).then(|| Usd::from_dollars((more.dollars() / hours * 100.0).ceil() / 100.0)).flatten()
    };
    let (more_usd, sooner_hours) = (more(plan, best), sooner(plan, best));
    if more_usd == Usd::ZERO && sooner_hours == 0.0 {
        let (more_usd, sooner_hours) = (more(plan, cheapest), sooner(plan, cheapest));
        return if more_usd > Usd::ZERO {
            PickReason::SoonerThanCheapest { more_usd, sooner_hours: Hours(sooner_hours) }
        } else {
            PickReason::Cheapest
        };
    }
    if more_usd < Usd::ZERO {
        let less_usd = Usd::ZERO - more_usd;
        PickReason::Cheaper {
            less_usd,
            later_hours: Hours(-sooner_hours),
            value_of_time_usd_per_hour: rate(less_usd, -sooner_hours),
        }
    } else {
        PickReason::Sooner {
            more_usd,
            sooner_hours: Hours(sooner_hours),
            value_of_time_usd_per_hour: rate(more_usd, sooner_hours),
        }
    }
}

/// The cheapest of those that end about as soon as the fastest, and not after the recommended one.
fn fastest<'p>(frontier: &'p [Plan], best: &Plan) -> Option<&'p Plan> {
    let soonest = frontier.iter().map(|plan| plan.run.hours.expected).min_by(f64::total_cmp)?;
    let as_fast = soonest + (AS_FAST_SHARE * soonest).max(AS_FAST);
    let last = as_fast.min(best.run.hours.expected);
    frontier.iter().find(|plan| plan.run.hours.expected <= last)
}
