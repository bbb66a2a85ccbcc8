//! Rates of leaving up and down, by recent availability and the age of the spell.

use crate::policy::PoolView;
use gpuplan_units::Hours;

/// Starts of the bins of age, in hours. Rates fall with age by more than ten times, so the bins widen.
pub const AGES: [f64; 7] = [0.0, 0.08, 0.25, 0.75, 2.0, 6.0, 16.0];
/// Starts of the bins of recent availability.
pub const REGIMES: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];

/// Rates an hour by age.
pub type ByAge = [f64; AGES.len()];

/// Rates an hour of leaving a state.
#[derive(Clone, Debug, PartialEq)]
pub struct AvailabilityModel {
    /// By recent availability, then down (0) or up (1), then age.
    pub rates: [[ByAge; 2]; REGIMES.len()],
}

/// Bin of a value among ascending starts.
pub fn bin(value: f64, starts: &[f64]) -> usize {
    // Counting has no branch to guess wrong, and forecasts ask for millions of bins.
    starts.iter().map(|start| usize::from(value + 1e-9 >= *start)).sum::<usize>().saturating_sub(1)
}

/// Bins of what is known of a pool: regime, state, age.
pub fn bins(view: &PoolView) -> (usize, usize, usize) {
    (bin(view.availability, &REGIMES), usize::from(view.up), bin(view.age / 3600.0, &AGES))
}

impl AvailabilityModel {
    /// Rates of probes on eight AWS pools (V100 and K80 in us-west-2a and us-west-2b), every ten minutes for 27 days from
    /// 26 October 2022: skypilot-org/spot-traces, published with "Can't Be Late" (NSDI'24). Made by `fit`.
    pub const fn prior() -> Self {
        Self { rates: AWS_OCTOBER_2022 }
    }

    /// The same, to be looked up.
    pub const PRIOR: &'static Self = &Self::prior();

    /// The same where machines are taken away so many times as often.
    #[must_use]
    pub fn frail(mut self, times: f64) -> Self {
        self.rates.iter_mut().flat_map(|regime| &mut regime[1]).for_each(|rate| *rate *= times);
        self
    }

    /// Rate an hour at which the pool leaves its state.
    pub fn rate(&self, view: &PoolView) -> f64 {
        let (regime, state, age) = bins(view);
        self.rates[regime][state][age]
    }

    /// Mean length of a spell that begins now, if recent availability stays as it is: the chance to last, added up over time.
    pub fn mean_spell(&self, availability: f64, up: bool) -> Hours {
        let rates = &self.rates[bin(availability, &REGIMES)][usize::from(up)];
        let (mut lasts, mut mean) = (1.0, 0.0);
        for (age, rate) in rates.iter().enumerate() {
            let width = AGES.get(age + 1).map_or(f64::INFINITY, |end| end - AGES[age]);
            let passes = (-rate * width).exp();
            mean += lasts * (1.0 - passes) / rate;
            lasts *= passes;
        }
        Hours(mean)
    }

    /// How old a spell is when one looks at a random time, which finds long spells more often than short ones: the age at which so
    /// much (`share`, from 0 to 1) of the time that such spells last has passed.
    pub fn age_at_a_glance(&self, availability: f64, up: bool, share: f64) -> Hours {
        let rates = &self.rates[bin(availability, &REGIMES)][usize::from(up)];
        let mut left = share * self.mean_spell(availability, up).0;
        let mut lasts = 1.0;
        for (age, rate) in rates.iter().enumerate() {
            let width = AGES.get(age + 1).map_or(f64::INFINITY, |end| end - AGES[age]);
            let passes = (-rate * width).exp();
            let time = lasts * (1.0 - passes) / rate;
            if left < time {
                return Hours(AGES[age] - (1.0 - left * rate / lasts).max(f64::MIN_POSITIVE).ln() / rate);
            }
            left -= time;
            lasts *= passes;
        }
        Hours(AGES[AGES.len() - 1])
    }

    /// How long a spell of this age goes on, on average.
    pub fn residual_life(&self, view: &PoolView) -> Hours {
        let (regime, state, first) = bins(view);
        let (mut at, mut lasts, mut mean) = (view.age / 3600.0, 1.0, 0.0);
        for (age, rate) in self.rates[regime][state].iter().enumerate().skip(first) {
            let end = AGES.get(age + 1).copied().unwrap_or(f64::INFINITY);
            let passes = (-rate * (end - at).max(0.0)).exp();
            mean += lasts * (1.0 - passes) / rate;
            (lasts, at) = (lasts * passes, end);
        }
        Hours(mean)
    }
}

const AWS_OCTOBER_2022: [[ByAge; 2]; REGIMES.len()] = [
    [[2.902, 1.069, 0.852, 0.272, 0.195, 0.080, 0.021], [3.152, 1.720, 1.807, 0.573, 0.786, 0.153, 0.070]],
    [[3.292, 1.373, 0.834, 0.573, 0.341, 0.177, 0.053], [2.822, 1.888, 1.267, 0.769, 0.548, 0.229, 0.070]],
    [[3.530, 1.405, 1.232, 0.494, 0.287, 0.165, 0.073], [2.980, 1.743, 1.025, 0.664, 0.483, 0.104, 0.039]],
    [[4.552, 1.468, 1.243, 0.577, 0.301, 0.161, 0.026], [1.902, 1.100, 0.768, 0.457, 0.224, 0.182, 0.056]],
    [[4.867, 2.165, 1.030, 0.699, 0.544, 0.136, 0.026], [1.470, 1.103, 0.554, 0.346, 0.141, 0.143, 0.073]],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_spells_last_longer_in_every_regime() {
        for state in AvailabilityModel::prior().rates.iter().flatten() {
            assert!(state[6] < 0.2 * state[0], "{state:?}");
        }
    }

    #[test]
    fn a_mean_spell_is_the_mean_of_spells_that_are_drawn() {
        // Every rate the same: the mean of an exponential distribution.
        let even = AvailabilityModel { rates: [[[0.5; AGES.len()]; 2]; REGIMES.len()] };
        assert!((even.mean_spell(0.5, true).0 - 2.0).abs() < 1e-9);
    }

    #[test]
    fn long_spells_are_found_more_often_and_go_on_for_longer() {
        let even = AvailabilityModel { rates: [[[0.5; AGES.len()]; 2]; REGIMES.len()] };
        let view = |hours: f64| PoolView { up: true, age: hours * 3600.0, availability: 0.5, frailty: 1.0 };
        assert!((even.residual_life(&view(3.0)).0 - 2.0).abs() < 1e-9, "without ageing it lasts as long again");
        assert!((even.age_at_a_glance(0.5, true, 0.5).0 - 2.0 * std::f64::consts::LN_2).abs() < 1e-9);
        let model = AvailabilityModel::prior();
        assert!(model.residual_life(&view(0.0)) < model.residual_life(&view(1.0)));
        assert!(model.residual_life(&view(1.0)) < model.residual_life(&view(8.0)));
        let ages = [0.0, 0.2, 0.5, 0.9, 0.99].map(|share| model.age_at_a_glance(0.5, true, share).0);
        assert!(ages[0] == 0.0 && ages.is_sorted() && ages[2] > model.mean_spell(0.5, true).0, "{ages:?}");
    }
}
