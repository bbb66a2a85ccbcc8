//! How availability goes on: the rate of leaving up or down by the age of the spell and by recent availability.

pub mod chain;
pub mod evidence;
mod frailty;
pub mod hazard;
pub mod history;
pub mod rates;
pub mod spells;
pub mod watch;

use crate::availability::rates::ByAge;
pub use crate::availability::rates::{AGES, AvailabilityModel, REGIMES, bin, bins};
use crate::availability::watch::{SeenPool, Watch};
use gpuplan_market::own::LastSeen;
use gpuplan_units::draw::Draws;

/// A cell counts its own events as if these hours at the rate of all regimes were added.
const PRIOR_HOURS: f64 = 6.0;
/// No pool is the average pool: in a forecast each has rates of its own, off by a lognormal factor of this deviation. Chosen
/// among 0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4 and 0.8 by the coverage of the 90th percentile on windows later than those fitted.
const OWN_DEVIATION: f64 = 0.2;
/// Of the states of two pools, those of one type in two zones, on average in October 2022 (0.11, 0.46, 0.51 and 0.56).
pub const CORRELATION: f64 = 0.41;
/// Share of the draws of a pool that it has in common with the other pools of a job, at which their states correlate so.
const SHARED_SHARE: f64 = 0.97;
/// More than this share of ticks with an event says nothing finer about the rate.
const MOST_EVENTS_A_TICK: f64 = 0.95;
/// Spells are drawn in pieces of so many ticks at least.
const TICKS_AT_ONCE: usize = 64;

impl AvailabilityModel {
    /// Fits the rates to traces of probes, each with its seconds between probes.
    pub fn fit(traces: &[(&[bool], f64)]) -> Self {
        let mut counts = Counts::default();
        for (up, gap) in traces {
            counts.add(up, *gap);
        }
        counts.rates()
    }
}

/// Availability as the ticks at which it changes, for whoever asks for them in their order.
pub trait Spells {
    fn begins_up(&mut self) -> bool;
    /// First tick of a spell, from that of the second on; `None`: the spell before it is the last.
    fn turn(&mut self, index: usize) -> Option<usize>;
    /// Known at most; the last spell goes on beyond.
    fn ticks(&self) -> usize;
}

/// Spells of a trace.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownSpells<'a> {
    pub begins_up: bool,
    pub turns: &'a [usize],
    pub ticks: usize,
}

#[cfg(test)]
impl Spells for KnownSpells<'_> {
    fn begins_up(&mut self) -> bool {
        self.begins_up
    }

    fn turn(&mut self, index: usize) -> Option<usize> {
        self.turns.get(index).copied()
    }

    fn ticks(&self) -> usize {
        self.ticks
    }
}

/// Spells of a future, which is drawn as far as they are asked for.
#[derive(Debug)]
pub struct DrawnSpells<'a> {
    future: &'a mut Future,
    most_ticks: usize,
}

impl Spells for DrawnSpells<'_> {
    fn begins_up(&mut self) -> bool {
        self.future.reach(1)[0]
    }

    #[inline]
    fn turn(&mut self, index: usize) -> Option<usize> {
        while index >= self.future.turns.len() && self.future.up.len() < self.most_ticks {
            let more = (self.future.up.len() / 8).max(TICKS_AT_ONCE);
            self.future.reach((self.future.up.len() + more).min(self.most_ticks));
        }
        self.future.turns.get(index).copied()
    }

    fn ticks(&self) -> usize {
        self.most_ticks
    }
}

/// One future of a pool from what is known of it now, drawn as far as it is asked for. Before the first probe it is up as often
/// as is assumed, and for as long as pools are when one looks at a random time.
#[derive(Clone, Debug)]
pub struct Future {
    seen: SeenPool,
    /// How old the first spell is if it is one of being down, and of being up, where no probe says it. Ticks.
    begins: [usize; 2],
    /// Chance that the state is left within a tick, as the rates of the model: by state, age and regime.
    leaves: [[[f64; REGIMES.len()]; AGES.len()]; 2],
    /// Bin of each age in ticks; that of the last one holds for all that follow.
    ages: Box<[u8]>,
    draws: Draws,
    /// What happens to every pool of a job alike.
    common: Option<Draws>,
    up: Vec<bool>,
    /// Ticks at which a spell begins, but for the first spell.
    turns: Vec<usize>,
}

impl Future {
    /// `tick` in seconds. `watch` may know other pools too.
    pub fn new(model: &AvailabilityModel, watch: &Watch, pool: usize, tick: f64, mut draws: Draws) -> Self {
        let own = [(OWN_DEVIATION * draws.normal()).exp(), (OWN_DEVIATION * draws.normal()).exp()];
        let mut leaves = [[[0.0; REGIMES.len()]; AGES.len()]; 2];
        for (state, by_age) in leaves.iter_mut().enumerate() {
            for (age, by_regime) in by_age.iter_mut().enumerate() {
                for (regime, leaves) in by_regime.iter_mut().enumerate() {
                    *leaves = -(-model.rates[regime][state][age] * own[state] * tick / 3600.0).exp_m1();
                }
            }
        }
        let oldest = (AGES[AGES.len() - 1] * 3600.0 / tick).ceil() as usize;
        let ages = (0..=oldest).map(|ticks| bin(ticks as f64 * tick / 3600.0, &AGES) as u8).collect();
        let (seen, share) = (watch.seen(pool), draws.uniform());
        let begins = [false, true]
            .map(|up| (model.age_at_a_glance(seen.availability(), up, share).0 * 3600.0 / tick).round() as usize);
        let mut future = Self { seen, begins, leaves, ages, draws, common: None, up: Vec::new(), turns: Vec::new() };
        if let Some(last) = watch.before() {
            future.go_on_from(last, tick);
        }
        future
    }

    /// From when the pool was last seen to the start, of which nothing is kept but whether it is up then, and since when. How often it is up is what was
    /// assumed, as pools keep their level for longer than the model does.
    fn go_on_from(&mut self, LastSeen { is_up, age_hours, hours_ago }: LastSeen, tick: f64) {
        let ticks = |hours: f64| (hours * 3600.0 / tick).round() as usize;
        self.seen.begin(is_up, ticks(age_hours));
        let assumed = self.seen;
        self.reach(ticks(hours_ago));
        self.seen = assumed.now(self.seen.is_up(), self.seen.age());
        self.up.clear();
        self.turns.clear();
    }

    /// The same as one of several pools of a job, which share the draws of `common`.
    #[must_use]
    pub fn together(self, common: Draws) -> Self {
        Self { common: Some(common), ..self }
    }

    /// Up or down for so many ticks at least. What was drawn stays as it was.
    pub fn reach(&mut self, ticks: usize) -> &[bool] {
        let known = self.up.len();
        if ticks > known {
            self.up.resize(ticks, false);
            // On their own while they change at every tick, so that the compiler keeps them in registers.
            let (mut seen, mut draws, mut common) = (self.seen, self.draws.clone(), self.common.clone());
            if !seen.has_probed() {
                let is_up = draw(&mut draws, common.as_mut(), false) < seen.availability();
                seen.begin(is_up, self.begins[usize::from(is_up)]);
            }
            for tick in known..ticks {
                let is_up = seen.is_up();
                let age = self.ages[seen.age().min(self.ages.len() - 1)];
                let chance =
                    self.leaves[usize::from(is_up)][usize::from(age)][seen.reaches(&REGIMES).saturating_sub(1)];
                let next = is_up != (draw(&mut draws, common.as_mut(), is_up) < chance);
                if tick > 0 && next != is_up {
                    self.turns.push(tick);
                }
                seen.advance(next);
                self.up[tick] = next;
            }
            (self.seen, self.draws, self.common) = (seen, draws, common);
        }
        &self.up
    }

    /// The same, spell by spell, for so many ticks at most.
    pub fn spells(&mut self, most_ticks: usize) -> DrawnSpells<'_> {
        DrawnSpells { future: self, most_ticks }
    }

    /// As far as it is drawn.
    pub fn up(&self) -> &[bool] {
        &self.up
    }
}

/// A number from 0 to 1 that leaves the state where it is small. What pools have in common pushes all of them the same way.
fn draw(draws: &mut Draws, common: Option<&mut Draws>, is_up: bool) -> f64 {
    let own = draws.uniform();
    let Some(common) = common else { return own };
    let shared = common.uniform();
    match (draws.uniform() < SHARED_SHARE, is_up) {
        (false, _) => own,
        (true, true) => shared,
        (true, false) => 1.0 - shared,
    }
}

/// Changes of state, and the hours watched, by regime, state and age.
#[derive(Default)]
struct Counts {
    events: [[ByAge; 2]; REGIMES.len()],
    hours: [[ByAge; 2]; REGIMES.len()],
    ticks: f64,
}

impl Counts {
    fn add(&mut self, up: &[bool], gap: f64) {
        let mut watch = Watch::full(1, gap);
        for pair in up.windows(2) {
            watch.advance(None, |_| pair[0]);
            let (regime, state, age) = bins(&watch.views()[0]);
            self.hours[regime][state][age] += gap / 3600.0;
            self.events[regime][state][age] += if pair[0] == pair[1] { 0.0 } else { 1.0 };
        }
        self.ticks += up.len().saturating_sub(1) as f64;
    }

    fn rates(&self) -> AvailabilityModel {
        let watched: f64 = self.hours.iter().flatten().flatten().sum();
        let gap = watched / self.ticks.max(1.0);
        let mut rates = self.events;
        for state in 0..2 {
            for age in 0..AGES.len() {
                let all =
                    |table: &[[ByAge; 2]; REGIMES.len()]| table.iter().map(|regime| regime[state][age]).sum::<f64>();
                // Half an event in an hour, so that a bin nobody has seen has a rate at all.
                let pooled = (all(&self.events) + 0.5) / (all(&self.hours) + 1.0);
                for (regime, row) in rates.iter_mut().enumerate() {
                    let events = self.events[regime][state][age] + PRIOR_HOURS * pooled;
                    let an_hour = events / (self.hours[regime][state][age] + PRIOR_HOURS);
                    // At most one event a tick is seen: from the chance of an event in a tick to the rate behind it.
                    row[state][age] =
                        if gap > 0.0 { -(-(an_hour * gap).min(MOST_EVENTS_A_TICK)).ln_1p() / gap } else { an_hour };
                }
            }
        }
        AvailabilityModel { rates }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_finds_the_rates_that_made_its_traces() {
        let model = AvailabilityModel::prior();
        let watch = Watch::full(1, 600.0);
        let mut drawn: Vec<Future> =
            (0..60).map(|stream| Future::new(&model, &watch, 0, 600.0, Draws::new(5, stream))).collect();
        let traces: Vec<(&[bool], f64)> = drawn.iter_mut().map(|future| (future.reach(4000), 600.0)).collect();
        let fitted = AvailabilityModel::fit(&traces);
        // Each drawn pool has rates of its own, so the regimes mix a little.
        for regime in [1, 2, 3] {
            for state in 0..2 {
                let (made, found) = (model.rates[regime][state][0], fitted.rates[regime][state][0]);
                assert!((found / made - 1.0).abs() < 0.3, "{regime} {state}: {made} {found}");
            }
        }
    }

    #[test]
    fn a_future_that_is_drawn_on_keeps_its_past() {
        let future = || Future::new(&AvailabilityModel::prior(), &Watch::full(1, 600.0), 0, 600.0, Draws::new(1, 2));
        let (mut at_once, mut in_parts) = (future(), future());
        in_parts.reach(10);
        assert_eq!(at_once.reach(500), in_parts.reach(500));
    }

    #[test]
    fn a_future_goes_on_from_how_the_pool_was_last_seen() {
        // Of 400 pools that somebody saw so, those that are up at the start.
        let up = |is_up: bool, age_hours: f64, hours_ago: f64| {
            let last = LastSeen { is_up, age_hours, hours_ago };
            let watch = Watch::attempts(1, 600.0, 600.0).last_seen(Some(last));
            let begins = |draw: u64| {
                let mut future = Future::new(AvailabilityModel::PRIOR, &watch, 0, 600.0, Draws::new(7, draw));
                assert!(future.up().is_empty());
                let begins = future.reach(3)[0];
                assert!(future.spells(3).turn(0).is_none_or(|turn| turn > 0));
                f64::from(u8::from(begins))
            };
            (0..400).map(begins).sum::<f64>() / 400.0
        };
        assert!(up(true, 20.0, 0.0) > 0.95 && up(false, 20.0, 0.0) < 0.05, "a tick later");
        assert!(up(true, 20.0, 1.0) > up(true, 0.0, 1.0) + 0.1, "who has lasted lasts");
        assert!(up(false, 20.0, 1.0) + 0.1 < up(false, 0.0, 1.0));
        assert!((up(true, 20.0, 400.0) - up(false, 20.0, 400.0)).abs() < 0.1, "it is forgotten");
    }

    #[test]
    fn no_traces_give_no_nonsense() {
        assert!(
            AvailabilityModel::fit(&[]).rates.iter().flatten().flatten().all(|rate| rate.is_finite() && *rate > 0.0)
        );
    }

    #[test]
    fn pools_of_one_job_go_down_together_as_often_as_the_traces_did() {
        let (model, watch) = (AvailabilityModel::prior(), Watch::full(1, 600.0));
        let drawn = |pool: u64, draw: u64| {
            let alone = Future::new(&model, &watch, 0, 600.0, Draws::new(5, 2 * draw + pool));
            alone
                .together(Draws::new(9, draw))
                .reach(3895)
                .iter()
                .map(|up| f64::from(u8::from(*up)))
                .collect::<Vec<f64>>()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let correlation = |draw: u64| {
            let (a, b) = (drawn(0, draw), drawn(1, draw));
            let (of_a, of_b) = (mean(&a), mean(&b));
            let together: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (a - of_a) * (b - of_b)).collect();
            mean(&together) / (of_a * (1.0 - of_a) * of_b * (1.0 - of_b)).sqrt()
        };
        let all: Vec<f64> = (0..60).map(correlation).collect();
        assert!((mean(&all) - CORRELATION).abs() < 0.06, "{}", mean(&all));
    }
}
