//! Spot alone on one pool, spell by spell: what `replay` finds tick by tick, many times sooner. Long runs without a deadline need it.

use crate::availability::{Spells, watch};
use crate::policy::{Action, Limits};
use crate::simulation::replay::{DONE, Outcome, ReplayError};

/// `Policy::SpotOnly` on a pool that starts as long as expected. It is seen at every tick, or known from attempts alone, the first two
/// of which are `pause` seconds apart.
pub fn spot_only(limits: &Limits, mut spells: impl Spells, pause: Option<f64>) -> Result<Outcome, ReplayError> {
    let (tick, rate) = (limits.tick, limits.rate(Action::Spot(0)));
    let mut outcome = Outcome { last: Action::Spot(0), ..Outcome::default() };
    let (mut left, mut at, mut paid) = (limits.work, 0, 0);
    let mut refusals = 0;
    // The turn that ends the spell of being up that is looked at.
    let mut ends = usize::from(!spells.begins_up());
    while left > DONE {
        let begun = if ends == 0 { Some(0) } else { spells.turn(ends - 1) };
        let begun = begun.filter(|start| *start < spells.ticks()).ok_or(ReplayError::TraceEnds)?;
        let end = spells.turn(ends);
        ends += 2;
        let start = match pause {
            None => begun,
            Some(pause) => next_attempt(at, begun, pause, tick, &mut refusals),
        };
        if end.is_some_and(|end| end <= start) {
            at = start;
            continue;
        }
        if start >= spells.ticks() {
            return Err(ReplayError::TraceEnds);
        }
        if outcome.starts == 0 {
            outcome.wait_hours = start as f64 * tick / 3600.0;
        }
        outcome.starts += 1;
        let need = left + limits.changeover - DONE;
        let lasts = end.map(|end| end - start).filter(|ticks| *ticks as f64 * tick < need);
        let ticks = lasts.unwrap_or_else(|| (need / tick).ceil() as usize);
        at = start + ticks;
        if at > spells.ticks() {
            return Err(ReplayError::TraceEnds);
        }
        paid += ticks;
        left -= (ticks as f64 * tick - limits.changeover).max(0.0);
        outcome.interruptions += u32::from(lasts.is_some());
        refusals = 0;
    }
    let hours = |ticks: usize| ticks as f64 * tick / 3600.0;
    outcome.ticks = at;
    outcome.finish_hours = hours(at);
    outcome.spare_hours = -left.min(0.0) / 3600.0;
    outcome.spot_hours = hours(paid);
    outcome.met_deadline = at as f64 * tick <= limits.deadline + 1e-6;
    outcome.cost = rate.for_hours(1, hours(paid)).ok_or(ReplayError::Uncountable)?;
    Ok(outcome)
}

/// The first attempt from `begun` on. One that is due at `at`, and all that come before `begun`, are refused.
fn next_attempt(at: usize, begun: usize, pause: f64, tick: f64, refusals: &mut u32) -> usize {
    let mut attempt = at;
    while attempt < begun {
        let seconds = watch::pause_after(*refusals, pause);
        attempt += ((seconds - 1e-6) / tick).ceil().max(1.0) as usize;
        *refusals += 1;
    }
    attempt
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::availability::watch::{FIRST_PAUSE, Watch};
    use crate::availability::{AvailabilityModel, Future, KnownSpells};
    use crate::policy::{Policy, PoolTerms};
    use crate::simulation::replay::{World, replay};
    use gpuplan_units::draw::Draws;
    use gpuplan_units::{Usd, UsdPerHour};

    proptest! {
        #[test]
        fn spells_and_ticks_come_to_the_same(
            up in proptest::collection::vec(proptest::bool::weighted(0.7), 1..300),
            work in 0.0..60_000.0_f64,
            changeover in 0.0..3000.0_f64,
            pause in proptest::option::of(100.0..4000.0_f64),
        ) {
            let spot = UsdPerHour::from_nanos(1_234_567_890);
            let pools = vec![PoolTerms { spot, on_demand: None, switch_cost: Usd::ZERO, switch_changeover: changeover }];
            let limits = Limits {
                work, deadline: 50_000.0, tick: 600.0, changeover, worst_changeover: changeover, on_demand: spot, pools, budget: None,
            };
            let watch = pause.map_or_else(|| Watch::full(1, 600.0), |pause| Watch::attempts(1, 600.0, pause));
            let slow = replay(&Policy::SpotOnly, &limits, &World::from_pools(&[&up]), 0, watch, true);
            let turns: Vec<usize> = (1..up.len()).filter(|tick| up[*tick] != up[tick - 1]).collect();
            match (spot_only(&limits, KnownSpells { begins_up: up[0], turns: &turns, ticks: up.len() }, pause), slow) {
                (Ok(fast), Ok(slow)) => {
                    prop_assert!((fast.finish_hours - slow.finish_hours).abs() < 1e-9 && (fast.spare_hours - slow.spare_hours).abs() < 1e-9);
                    let exact = |of: Outcome| Outcome { finish_hours: 0.0, spare_hours: 0.0, decisions: Vec::new(), last: Action::Idle, ..of };
                    prop_assert_eq!(exact(fast), exact(slow));
                }
                (fast, slow) => prop_assert_eq!(fast.map(|_| ()), slow.map(|_| ())),
            }
        }
    }

    #[test]
    fn spells_that_are_drawn_on_demand_come_to_the_same() {
        let spot = UsdPerHour::from_nanos(1_234_567_890);
        let pools = vec![PoolTerms { spot, on_demand: None, switch_cost: Usd::ZERO, switch_changeover: 720.0 }];
        for draw in 0..200 {
            let watch = Watch::attempts(1, 600.0, FIRST_PAUSE).assuming(0.1 + 0.004 * draw as f64);
            let future = || Future::new(AvailabilityModel::PRIOR, &watch, 0, 600.0, Draws::new(3, draw));
            let limits = Limits {
                work: 3600.0 * draw as f64,
                deadline: 7200.0 * draw as f64,
                tick: 600.0,
                changeover: 720.0,
                worst_changeover: 720.0,
                on_demand: spot,
                pools: pools.clone(),
                budget: None,
            };
            let (mut before, mut drawn) = (future(), future());
            let up = before.reach(100_000).to_vec();
            let turns: Vec<usize> = (1..up.len()).filter(|tick| up[*tick] != up[tick - 1]).collect();
            let known = KnownSpells { begins_up: up[0], turns: &turns, ticks: up.len() };
            let found = spot_only(&limits, drawn.spells(up.len()), watch.pause()).unwrap();
            assert_eq!(found, spot_only(&limits, known, watch.pause()).unwrap(), "{draw}");
            assert!(
                drawn.up().len() <= 2 * found.ticks + 2000,
                "{} ticks were drawn for {}",
                drawn.up().len(),
                found.ticks
            );
        }
    }
}
