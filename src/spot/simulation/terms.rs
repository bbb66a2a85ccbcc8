//! What the least expected cost is solved for, and in which steps of time.

/// Steps of time; longer ones are taken for longer jobs.
const MOST_STEPS: f64 = 1500.0;
/// Seconds of a step where a job is no longer than that. The rates of the youngest ages are those of ten minutes, in which most spells end that are
/// short: a step of half an hour would let them hold for all of it.
const LONGEST_STEP: f64 = 600.0;
/// Steps of a changeover to spot, each of which may be the last one of the machine; longer steps are taken for longer changeovers.
const MOST_STAGES: f64 = 12.0;
/// Slack beyond this, in work and in seconds, changes nothing.
const MOST_SLACK_OF_WORK: f64 = 2.0;
const MOST_SLACK: f64 = 240.0 * 3600.0;
/// Whoever waits wants the work done, too: an hour of it counts as this share of an hour on on-demand machines. Judged, so that nobody
/// waits for a day to save cents.
pub const WAITING: f64 = 0.01;

/// What the programme is solved for. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Time to the deadline at most. Of a job that has less a longer table with the same step says the same.
    pub horizon: f64,
    pub tick: f64,
    pub changeover: f64,
    pub worst_changeover: f64,
    /// On-demand rate over spot rate.
    pub price_ratio: f64,
}

impl Terms {
    /// Time to the deadline that matters to this job. Seconds.
    pub fn horizon_of(work: f64, deadline: f64, tick: f64) -> f64 {
        let most = (work * MOST_SLACK_OF_WORK).max(MOST_SLACK);
        work + (deadline - work).min(most).max(tick)
    }

    /// Seconds between two decisions of the programme: a tick, or half a changeover and ten minutes at most where ticks are shorter; longer for long
    /// horizons and changeovers.
    pub fn step(&self) -> f64 {
        let fine = ((self.changeover / 2.0).min(LONGEST_STEP) / self.tick).floor().max(1.0);
        let coarse = (self.horizon / MOST_STEPS).max(self.changeover / MOST_STAGES);
        self.tick * fine.max((coarse / self.tick).ceil())
    }

    /// Whether a table for these terms answers for the others, too: it does so exactly.
    pub fn cover(&self, other: &Self) -> bool {
        self.horizon >= other.horizon
            && self.step() == other.step()
            && *self == Self { horizon: self.horizon, ..*other }
    }
}
