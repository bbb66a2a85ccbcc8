//! How availability goes on: the rate of leaving up or down by the age of the spell and by recent availability.

use crate::spot::policy::PoolView;
use crate::spot::watch::Watch;

/// Starts of the bins of age, in hours.
pub const AGES: [f64; 7] = [0.0, 0.08, 0.25, 0.75, 2.0, 6.0, 16.0];
/// Starts of the bins of recent availability.
pub const REGIMES: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];

/// Rates an hour of leaving a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Availability {
    /// By recent availability, down (0) or up (1), age.
    pub rates: [[[f64; AGES.len()]; 2]; REGIMES.len()],
}

/// Bin of a value in ascending starts.
pub fn bin(value: f64, starts: &[f64]) -> usize {
    starts.iter().rposition(|start| value + 1e-9 >= *start).unwrap_or(0)
}

impl Availability {
    /// Rate an hour at which the pool leaves its state.
    pub fn rate(&self, view: &PoolView) -> f64 {
        self.rates[bin(view.availability, &REGIMES)][usize::from(view.up)][bin(view.age / 3600.0, &AGES)]
    }

    /// Fits the rates to probes at every tick, a trace each.
    pub fn fit(traces: &[(&[bool], f64)], weight: f64) -> Self {
        let mut events = [[[0.0; AGES.len()]; 2]; REGIMES.len()];
        let mut hours = events;
        for (up, gap) in traces {
            let mut watch = Watch::new(1, *gap, 0.0);
            for pair in up.windows(2) {
                watch.advance(None, |_| pair[0]);
                let view = watch.views()[0];
                let cell = (bin(view.availability, &REGIMES), usize::from(pair[0]), bin(view.age / 3600.0, &AGES));
                hours[cell.0][cell.1][cell.2] += gap / 3600.0;
                events[cell.0][cell.1][cell.2] += f64::from(u8::from(pair[0] != pair[1]));
            }
        }
        let mut rates = events;
        for state in 0..2 {
            for age in 0..AGES.len() {
                let sum = |table: &[[[f64; AGES.len()]; 2]; REGIMES.len()]| table.iter().map(|regime| regime[state][age]).sum::<f64>();
                let pooled = (sum(&events) + 0.5) / (sum(&hours) + 1.0);
                let gap = traces[0].1 / 3600.0;
                for regime in 0..REGIMES.len() {
                    let share = (events[regime][state][age] + weight * pooled) / (hours[regime][state][age] + weight);
                    // events an hour of exposure to rate: at most one event a tick is seen.
                    rates[regime][state][age] = -(1.0 - (share * gap).min(0.95)).ln() / gap;
                }
            }
        }
        Self { rates }
    }
}
