//! What no policy undercuts on one pool: the job on a future that is known, falling back as often as it likes.

use crate::availability::Spells;
use crate::policy::{Action, Limits};

/// Hours of work that a sum of floating-point hours may miss.
const ROUNDED: f64 = 1e-9;

/// Of machines alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Least {
    pub dollars: f64,
    pub hours: f64,
}

/// Whether on-demand machines stand by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// It waits for spot.
    None,
    /// Those of `Limits`, so that the deadline is kept.
    OnDemand,
}

/// The least of dollars + `value_of_hour` x hours, over every way to run the job on these machines until its deadline. Below what can be had:
/// every start on spot costs its changeover, and none on demand does. `spells` reach to the deadline.
///
/// A spell of spot that is used saves what its work would cost on demand, less what it costs itself. So the job costs what it would on
/// demand, less what the spells until its end save, and waiting pays only until the end of one of them.
pub fn least(limits: &Limits, fallback: Fallback, spells: impl Spells, value_of_hour: f64) -> Least {
    let hours = |seconds: f64| seconds / 3600.0;
    let spot = limits.rate(Action::Spot(0)).dollars();
    let on_demand = match fallback {
        Fallback::OnDemand => limits.rate(limits.cheapest_on_demand()).dollars(),
        // What is needed at any price is used in every spell.
        Fallback::None => f64::MAX.sqrt(),
    };
    let (work, changeover) = (hours(limits.work), hours(limits.changeover));
    let soonest = work + changeover;
    let latest = hours(limits.deadline).max(soonest);
    // Without spot, and then with the spells up to each.
    let mut least = match fallback {
        Fallback::OnDemand => Least { dollars: on_demand.max(spot) * work, hours: soonest },
        Fallback::None => Least { dollars: spot * soonest, hours: latest },
    };
    let mut consider = |used: Used, until: f64| {
        let spare = used.done - work;
        let other = match fallback {
            // On spot alone, perhaps in few of the spells.
            _ if spare >= -ROUNDED => Least { dollars: spot * soonest, hours: (until - spare).max(soonest) },
            Fallback::OnDemand => {
                let dollars = used.paid + (work - used.done) * on_demand;
                Least { dollars: dollars.max(spot * soonest), hours: until.max(soonest) }
            }
            Fallback::None => return,
        };
        let score = |of: &Least| of.dollars + value_of_hour * of.hours;
        if score(&other) < score(&least) {
            least = other;
        }
    };
    let mut used = Used::default();
    for (begins, ends) in up(spells) {
        let (begins, ends) = (hours(begins as f64 * limits.tick), hours(ends as f64 * limits.tick));
        if begins >= latest {
            break;
        }
        let with = |until: f64| {
            let (lasts, works) = (until - begins, until - begins - changeover);
            let saves = works * on_demand - lasts * spot;
            if saves > 0.0 { Used { paid: used.paid + lasts * spot, done: used.done + works } } else { used }
        };
        // Whoever is in a hurry ends within the spell.
        if begins < soonest && soonest < ends {
            consider(with(soonest), soonest);
        }
        let until = ends.min(latest);
        let next = with(until);
        consider(next, until);
        used = next;
        if used.done >= work {
            break;
        }
    }
    least
}

/// Spells of spot that pay, up to some time: dollars, and hours of work.
#[derive(Clone, Copy, Default)]
struct Used {
    paid: f64,
    done: f64,
}

/// First tick and the one after the last of every spell of being up.
fn up(mut spells: impl Spells) -> impl Iterator<Item = (usize, usize)> {
    let mut ends = usize::from(!spells.begins_up());
    std::iter::from_fn(move || {
        let first = if ends == 0 { 0 } else { spells.turn(ends - 1)? };
        let end = spells.turn(ends).unwrap_or(spells.ticks());
        ends += 2;
        Some((first, end))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::availability::watch::Watch;
    use crate::availability::{AvailabilityModel, KnownSpells};
    use crate::policy::semi_markov::Tables;
    use crate::policy::{Policy, PoolTerms};
    use crate::simulation::omniscient::least_cost;
    use crate::simulation::replay::{World, replay};
    use gpuplan_units::{Usd, UsdPerHour};

    /// On one pool, all in seconds; `ratio`: of the price on demand to that of spot.
    pub(crate) fn limits(work: f64, deadline: f64, changeover: f64, ratio: f64) -> Limits {
        let spot = UsdPerHour::from_nanos((3e9 / ratio) as i64);
        Limits {
            work,
            deadline,
            tick: 600.0,
            changeover,
            worst_changeover: 3.0 * changeover,
            on_demand: UsdPerHour::from_nanos(3_000_000_000),
            pools: vec![PoolTerms { spot, on_demand: None, switch_cost: Usd::ZERO, switch_changeover: changeover }],
            budget: None,
        }
    }

    /// Down from the last of the spells on.
    fn trace(spells_of: &[usize], begins_up: bool, ticks: usize) -> Vec<bool> {
        let states = spells_of.iter().enumerate().map(|(index, ticks)| ((index % 2 == 0) == begins_up, *ticks));
        let mut up: Vec<bool> = states.flat_map(|(is_up, ticks)| std::iter::repeat_n(is_up, ticks)).collect();
        up.resize(ticks.max(up.len()), false);
        up
    }

    fn spells(up: &[bool], turns: &mut Vec<usize>) -> bool {
        turns.extend((1..up.len()).filter(|tick| up[*tick] != up[tick - 1]));
        up[0]
    }

    proptest! {
        /// The exact programme, which pays whole ticks.
        #[test]
        fn the_cheapest_way_costs_no_less(
            spells_of in prop::collection::vec(1..40_usize, 1..12),
            begins_up in any::<bool>(),
            work in 2..60_u32,
            slack in 1..120_u32,
            changeover in 0..3_u32,
            ratio in 1.1..6.0_f64,
        ) {
            let (work, slack, changeover) = (f64::from(work) * 600.0, f64::from(slack) * 600.0, f64::from(changeover) * 300.0);
            let limits = limits(work, work + changeover + slack, changeover, ratio);
            let trace = trace(&spells_of, begins_up, (limits.deadline / 600.0).ceil() as usize + 1);
            let mut turns = Vec::new();
            let begins_up = spells(&trace, &mut turns);
            let known = KnownSpells { begins_up, turns: &turns, ticks: trace.len() };
            if let Some(cheapest) = least_cost(&limits, &World::from_pools(&[&trace]), 0) {
                let bound = least(&limits, Fallback::OnDemand, known, 0.0);
                prop_assert!(bound.dollars <= cheapest.dollars() + 1e-6, "{bound:?} {cheapest:?}");
            }
        }
    }

    proptest! {
        /// Rules that see each tick as it comes, at any value of an hour.
        #[test]
        fn no_policy_is_better(
            spells_of in prop::collection::vec(1..60_usize, 1..12),
            begins_up in any::<bool>(),
            work in 2..60_u32,
            slack in 1..120_u32,
            changeover in 0..3_u32,
            ratio in 1.1..6.0_f64,
            value_of_hour in 0.0..3.0_f64,
        ) {
            let trace = trace(&spells_of, begins_up, 1000);
            let (work, slack, changeover) = (f64::from(work) * 600.0, f64::from(slack) * 600.0, f64::from(changeover) * 300.0);
            let limits = limits(work, work + 3.0 * changeover + slack, changeover, ratio);
            let mut turns = Vec::new();
            let begins_up = spells(&trace, &mut turns);
            let known = KnownSpells { begins_up, turns: &turns, ticks: trace.len() };
            let score = |dollars: f64, hours: f64| dollars + value_of_hour * hours;
            let table = Policy::SemiMarkov(Arc::new(Tables::new(&AvailabilityModel::prior(), &limits)));
            for (policy, fallback) in [
                (table, Fallback::OnDemand),
                (Policy::Greedy, Fallback::OnDemand),
                (Policy::SlackReserve, Fallback::OnDemand),
                (Policy::SpotOnly, Fallback::None),
            ] {
                let Ok(outcome) = replay(&policy, &limits, &World::from_pools(&[&trace]), 0, Watch::full(1, 600.0), false) else { continue };
                if fallback == Fallback::OnDemand && !outcome.met_deadline {
                    continue;
                }
                let found = score(outcome.cost.dollars(), outcome.finish_hours);
                let bound = least(&limits, fallback, known, value_of_hour);
                prop_assert!(score(bound.dollars, bound.hours) <= found + 1e-6, "{policy:?} {bound:?} {outcome:?}");
            }
        }
    }

    #[test]
    fn a_pool_that_is_up_is_used_and_one_that_is_down_is_waited_for_if_that_pays() {
        let limits = limits(4.0 * 3600.0, 24.0 * 3600.0, 0.0, 3.0);
        let up = KnownSpells { begins_up: true, turns: &[], ticks: 144 };
        assert_eq!(least(&limits, Fallback::OnDemand, up, 1.0), Least { dollars: 4.0, hours: 4.0 });
        // Two hours of waiting save eight dollars.
        let late = KnownSpells { begins_up: false, turns: &[12], ticks: 144 };
        assert_eq!(least(&limits, Fallback::OnDemand, late, 1.0), Least { dollars: 4.0, hours: 6.0 });
        assert_eq!(least(&limits, Fallback::OnDemand, late, 5.0).hours, 4.0);
        assert_eq!(least(&limits, Fallback::None, late, 5.0), Least { dollars: 4.0, hours: 6.0 });
        let never = KnownSpells { begins_up: false, turns: &[], ticks: 144 };
        assert_eq!(least(&limits, Fallback::None, never, 1.0), Least { dollars: 4.0, hours: 24.0 });
    }
}
