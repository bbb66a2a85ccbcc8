//! How often a pool takes machines away, beside what pools of their age do: it is learned online, and fades.

/// Losses at the usual rate that are added to those of a pool, so that one of them says little. Of factors that are learned online, with a half-life of a
/// day, one with three events foretold spells best (`docs/risk.md`, "How near to the optimum").
const USUAL_LOSSES: f64 = 3.0;

/// What is known of one pool. Weighted as its share of time up is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frailty {
    /// Machines that it took away.
    lost: f64,
    /// Those that pools of their age would have taken away.
    expected: f64,
    /// The part of it that belongs to the tick that has just passed, if there were machines.
    latest: Option<f64>,
}

impl Frailty {
    /// Machines are there from now on.
    pub fn begin(&mut self) {
        self.latest = Some(0.0);
    }

    /// A tick passes, for machines with so many losses to be expected of them.
    pub fn pass(&mut self, decay: f64, expected: Option<f64>) {
        self.lost *= decay;
        self.expected = self.expected * decay + expected.unwrap_or(0.0);
        self.latest = expected;
    }

    /// There are none any more. If there were, they were lost at some time in the tick that has passed: in its middle, on average.
    pub fn end(&mut self) {
        if let Some(latest) = self.latest.take() {
            self.lost += 1.0;
            self.expected -= latest / 2.0;
        }
    }

    /// Losses over those that are usual.
    pub fn times(&self) -> f64 {
        (USUAL_LOSSES + self.lost) / (USUAL_LOSSES + self.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of so many ticks, each of which is lost.
    fn after(runs: usize, ticks: usize, expected: f64) -> f64 {
        let mut pool = Frailty::default();
        for _ in 0..runs {
            pool.begin();
            (0..ticks).for_each(|_| pool.pass(1.0, Some(expected)));
            pool.end();
            pool.pass(1.0, None);
        }
        pool.times()
    }

    #[test]
    fn who_loses_more_than_usual_is_frail() {
        assert_eq!(Frailty::default().times(), 1.0);
        assert!(after(4, 1, 0.4) > 1.5 && after(8, 1, 0.4) > after(4, 1, 0.4));
        assert!(after(1, 60, 0.2) < 0.4, "one loss in ten hours of which twelve were to be expected");
        assert!((after(20, 10, 0.105) - 1.0).abs() < 0.05, "as often as expected");
        assert_eq!(after(1, 0, 0.4), 4.0 / 3.0, "lost before a tick has passed");
    }

    #[test]
    fn a_refusal_is_no_loss_and_old_ones_fade() {
        let mut pool = Frailty::default();
        pool.end();
        assert_eq!(pool.times(), 1.0, "there was nothing to lose");
        pool.begin();
        pool.end();
        pool.end();
        assert_eq!(pool.times(), 4.0 / 3.0, "lost once");
        (0..1000).for_each(|_| pool.pass(0.99, None));
        assert!((pool.times() - 1.0).abs() < 1e-3);
    }
}
