//! The availability of a pool as a Markov chain over regime, state and age, in steps of fixed length.

use crate::availability::watch::HALF_LIFE_HOURS;
use crate::availability::{AGES, AvailabilityModel, REGIMES, bins};
use crate::policy::PoolView;

pub const PHASES: usize = REGIMES.len() * 2 * AGES.len();

/// Number of the phase that a pool is in.
pub fn phase(view: &PoolView) -> usize {
    let (regime, state, age) = bins(view);
    index(regime, state, age)
}

/// A pool in the middle of each phase; of the oldest, and of the youngest, at its start.
pub fn views() -> [PoolView; PHASES] {
    std::array::from_fn(|phase| {
        let (regime, up, age) = (phase / AGES.len() / 2, phase / AGES.len() % 2 == 1, phase % AGES.len());
        let end = AGES.get(age + 1).copied().filter(|_| age > 0).unwrap_or(AGES[age]);
        let availability = f64::midpoint(REGIMES[regime], REGIMES.get(regime + 1).copied().unwrap_or(1.0));
        PoolView { up, age: f64::midpoint(AGES[age], end) * 3600.0, availability, frailty: 1.0 }
    })
}

fn index(regime: usize, state: usize, age: usize) -> usize {
    (regime * 2 + state) * AGES.len() + age
}

/// Where a pool goes in one step from a phase.
#[derive(Clone, Debug)]
pub struct Onward {
    pub up: bool,
    /// Chance that it leaves its state.
    pub leaves: f32,
    /// Phases after it left, with their shares; the regime may move on too.
    pub left: [(usize, f32); 2],
    /// The next regime at the same age, and the chance that it is reached.
    pub next: usize,
    pub moves: f32,
    /// The next age in the same regime, and the chance that it is reached.
    pub older: usize,
    pub ages: f32,
}

/// All phases. A bin of age is left after its width on average; recent availability moves to the next regime as fast as its
/// weights decay, up while the pool is up and down while it is down.
pub fn onward(model: &AvailabilityModel, step: f64) -> Vec<Onward> {
    let phases = (0..REGIMES.len())
        .flat_map(|regime| (0..2).flat_map(move |state| (0..AGES.len()).map(move |age| (regime, state, age))));
    let hours = step / 3600.0;
    phases
        .map(|(regime, state, age)| {
            let up = state == 1;
            let leaves = -(-model.rates[regime][state][age] * hours).exp_m1();
            let end = REGIMES.get(regime + 1).copied().unwrap_or(1.0);
            let (middle, width) = (f64::midpoint(REGIMES[regime], end), end - REGIMES[regime]);
            let drift = std::f64::consts::LN_2 / HALF_LIFE_HOURS * if up { 1.0 - middle } else { middle };
            let moves = (drift * hours / width).min(1.0);
            let next = if up { (regime + 1).min(REGIMES.len() - 1) } else { regime.saturating_sub(1) };
            let ages = AGES.get(age + 1).map_or(0.0, |end| (hours / (end - AGES[age])).min(1.0));
            Onward {
                up,
                leaves: leaves as f32,
                left: [(index(regime, 1 - state, 0), (1.0 - moves) as f32), (index(next, 1 - state, 0), moves as f32)],
                next: index(next, state, age),
                moves: moves as f32,
                older: index(regime, state, (age + 1).min(AGES.len() - 1)),
                ages: ages as f32,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_shares() {
        for way in onward(&AvailabilityModel::prior(), 600.0) {
            let left: f32 = way.left.iter().map(|(_, share)| share).sum();
            assert!((left - 1.0).abs() < 1e-6, "{way:?}");
            assert!([way.leaves, way.moves, way.ages].iter().all(|share| (0.0..=1.0).contains(share)), "{way:?}");
        }
    }
}
