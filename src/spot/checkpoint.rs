//! How often to save, and how much longer a run takes when machines are lost.

use gpuplan_units::Seconds;

/// Interval, cost of one save and what is lost to interruptions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckpointPlan {
    pub interval: Seconds,
    /// Training stands still this long for one save.
    pub stall: Seconds,
    /// Wall-clock time over undisturbed training time; at least 1.
    pub stretch: f64,
}

/// Interval that loses least: Daly 2006 (Future Generation Computer Systems 22, equation 37), for stall `delta` and mean
/// time between interruptions `mean`. Above half of the mean the mean itself.
pub fn optimal_interval(stall: Seconds, mean: Seconds) -> Seconds {
    let ratio = stall.0 / (2.0 * mean.0);
    if ratio >= 1.0 {
        return mean;
    }
    Seconds((2.0 * stall.0 * mean.0).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - stall.0)
}

impl CheckpointPlan {
    /// Expected stretch with exponential interruptions: E[T] = M e^(R/M) (e^((t+d)/M) - 1) W/t (Daly 2006, equation 20).
    pub fn new(stall: Seconds, interval: Seconds, mean: Seconds, restart: Seconds) -> Self {
        let cycle = (interval.0 + stall.0) / mean.0;
        // Without interruptions only the stalls remain: (t + d) / t.
        let stretch = if cycle < 1e-9 {
            (interval.0 + stall.0) / interval.0
        } else {
            mean.0 * (restart.0 / mean.0).exp() * cycle.exp_m1() / interval.0
        };
        Self { interval, stall, stretch: stretch.max(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::Hours;

    #[test]
    fn the_interval_agrees_with_the_published_checks() {
        for (hours, minutes) in [(24.0, 117.0), (6.0, 57.0), (0.25, 9.1)] {
            let interval = optimal_interval(Seconds(300.0), Seconds(hours * 3600.0));
            assert!((interval.0 / 60.0 - minutes).abs() < 0.6, "{hours} h: {} min", interval.0 / 60.0);
        }
    }

    #[test]
    fn the_stretch_agrees_with_the_published_checks() {
        // W = 48 h, stall 1 min, restart 12 min: 61.7, 56.5 and 52.5 h at M = 1.8, 3.3 and 8 h.
        for (hours, total) in [(1.8, 61.7), (3.3, 56.5), (8.0, 52.5)] {
            let mean = Seconds(hours * 3600.0);
            let interval = optimal_interval(Seconds(60.0), mean);
            let stretch = CheckpointPlan::new(Seconds(60.0), interval, mean, Seconds(720.0)).stretch;
            assert!((stretch * 48.0 - total).abs() < 0.4, "{hours} h: {}", stretch * 48.0);
        }
    }

    /// Time lost on spot machines in pools that were up more than .8 of the time lately: with Daly's interval for the mean spell, with the constant one that is
    /// best in hindsight, and with Young's for the rate at the age of the machine.
    #[test]
    fn an_interval_that_grows_with_age_saves_less_than_a_hundredth_of_the_time() {
        use crate::availability::{AGES, AvailabilityModel, REGIMES};
        let model = AvailabilityModel::prior();
        let rates = model.rates[REGIMES.len() - 1][1];
        let mut lasts = 1.0;
        // Hours that a spell spends in each bin of age.
        let spent: [f64; AGES.len()] = std::array::from_fn(|age| {
            let width = AGES.get(age + 1).map_or(f64::INFINITY, |end| end - AGES[age]);
            let begun = lasts;
            lasts *= (-rates[age] * width).exp();
            (begun - lasts) / rates[age]
        });
        let mean: f64 = spent.iter().sum();
        // A save each interval, and half an interval a loss.
        let lost = |stall: f64, interval: f64, rate: f64| stall / interval + rate * interval / 2.0;
        for (stall, by_age_expected, daly_expected) in [(5.0, 2.4, 2.6), (15.0, 4.2, 4.6), (60.0, 8.4, 9.2)] {
            let stall = stall / 3600.0;
            let of_daly = Hours::from(optimal_interval(Seconds(stall * 3600.0), Seconds::from(Hours(mean)))).0;
            let daly = 100.0 * lost(stall, of_daly, 1.0 / mean);
            let best = 100.0 * lost(stall, (2.0 * stall * mean).sqrt(), 1.0 / mean);
            let of_age = |(spent, rate): (&f64, &f64)| spent * lost(stall, (2.0 * stall / rate).sqrt(), *rate);
            let by_age = 100.0 * spent.iter().zip(&rates).map(of_age).sum::<f64>() / mean;
            assert!((daly - daly_expected).abs() < 0.06 && (by_age - by_age_expected).abs() < 0.06, "{daly} {by_age}");
            assert!(best <= daly && daly < 1.01 * best && daly - by_age < 1.0, "{daly} {best} {by_age}");
        }
    }

    #[test]
    fn a_machine_that_never_fails_only_pays_for_saving() {
        let plan = CheckpointPlan::new(Seconds(10.0), Seconds(990.0), Seconds(1e15), Seconds(60.0));
        assert!((plan.stretch - 1000.0 / 990.0).abs() < 1e-6);
    }
}
