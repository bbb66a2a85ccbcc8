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

    #[test]
    fn a_machine_that_never_fails_only_pays_for_saving() {
        let plan = CheckpointPlan::new(Seconds(10.0), Seconds(990.0), Seconds(1e15), Seconds(60.0));
        assert!((plan.stretch - 1000.0 / 990.0).abs() < 1e-6);
    }
}
