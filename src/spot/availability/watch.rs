//! What is known about the pools from probes: up or down, for how long, how often lately.

use crate::policy::PoolView;

/// Half-life of the weights of past availability, and what is assumed before the first probe: up 60 % of the time, with the
/// weight of six hours of probes.
pub const HALF_LIFE_HOURS: f64 = 24.0;
pub const PRIOR_AVAILABILITY: f64 = 0.6;
pub const PRIOR_HOURS: f64 = 6.0;

/// How long a pool that is up has been so when one looks at a random time: the median on the eight AWS pools of October 2022,
/// whose long spells fill most of the time (spells of 2, 4 and 8 h survive with .18, .10 and .05). Seconds.
const USUAL_AGE: f64 = 3.0 * 3600.0;

/// The probes of all pools of a job.
#[derive(Clone, Debug)]
pub struct Watch {
    tick: f64,
    /// Seconds from one probe to the next; 0: a probe every tick.
    every: f64,
    decay: f64,
    views: Vec<PoolView>,
    /// Weighted seconds that the pool was up. The weight of all seconds is the same for every pool.
    up: Vec<f64>,
    weight: f64,
    started: bool,
}

impl Watch {
    pub fn new(pools: usize, tick: f64, probe_every: f64) -> Self {
        let weight = PRIOR_HOURS * 3600.0;
        let view = PoolView { availability: PRIOR_AVAILABILITY, ..PoolView::default() };
        Self {
            tick,
            every: probe_every,
            decay: 0.5_f64.powf(tick / (HALF_LIFE_HOURS * 3600.0)),
            views: vec![view; pools],
            up: vec![PRIOR_AVAILABILITY * weight; pools],
            weight,
            started: false,
        }
    }

    /// The same before the first probe, with another share of time than the average pool's.
    #[must_use]
    pub fn assuming(mut self, availability: f64) -> Self {
        for (view, up) in self.views.iter_mut().zip(&mut self.up) {
            view.availability = availability;
            *up = availability * self.weight;
        }
        self
    }

    pub fn views(&self) -> &[PoolView] {
        &self.views
    }

    /// Nothing about the pools is ever older than a tick.
    pub fn probes_every_tick(&self) -> bool {
        self.every <= self.tick
    }

    /// Whether there has been a probe at all.
    pub fn has_probed(&self) -> bool {
        self.started
    }

    /// The same knowledge of one pool alone, probed at every tick from now on.
    pub fn seen(&self, pool: usize) -> SeenPool {
        let PoolView { up: is_up, age, .. } = self.views[pool];
        let (age, up, weight) = ((age / self.tick).round() as usize, self.up[pool], self.weight);
        SeenPool { tick: self.tick, decay: self.decay, is_up, age, up, weight, started: self.started }
    }

    /// A tick begins. `truth` is asked only for pools whose probe is due and for the one that runs.
    pub fn advance(&mut self, running: Option<usize>, truth: impl Fn(usize) -> bool) {
        self.weight = self.weight * self.decay + self.tick;
        for pool in 0..self.views.len() {
            let (view, up) = (&mut self.views[pool], &mut self.up[pool]);
            view.probed += self.tick;
            let found = if !self.started || view.probed + 1e-6 >= self.every || running == Some(pool) {
                view.probed = 0.0;
                truth(pool)
            } else {
                view.up
            };
            view.age = if self.started && found == view.up { view.age + self.tick } else { 0.0 };
            view.up = found;
            *up = *up * self.decay + if found { self.tick } else { 0.0 };
            view.availability = *up / self.weight;
        }
        self.started = true;
    }

    /// Nobody knows better: an attempt will tell.
    pub fn may_be_up(&mut self, pool: usize) {
        let view = &mut self.views[pool];
        *view = PoolView { up: true, age: USUAL_AGE, probed: 0.0, ..*view };
    }

    /// An attempt to start in a pool that was thought to be up has failed.
    pub fn failed(&mut self, pool: usize) {
        let view = &mut self.views[pool];
        *view = PoolView { up: false, age: 0.0, probed: 0.0, ..*view };
    }
}

/// One pool that is probed at every tick, as a `Watch` sees it. Forecasts let millions of ticks pass, each of which waits for the
/// one before, so nothing here divides or branches.
#[derive(Clone, Copy, Debug)]
pub struct SeenPool {
    tick: f64,
    decay: f64,
    is_up: bool,
    age: usize,
    up: f64,
    weight: f64,
    started: bool,
}

impl SeenPool {
    pub fn has_probed(&self) -> bool {
        self.started
    }

    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Ticks since the state changed.
    pub fn age(&self) -> usize {
        self.age
    }

    /// Share of time up lately.
    pub fn availability(&self) -> f64 {
        self.up / self.weight
    }

    /// How many of these shares the share of time up lately reaches.
    pub fn reaches<const N: usize>(&self, shares: &[f64; N]) -> usize {
        shares.iter().map(|share| usize::from(self.up >= (share - 1e-9) * self.weight)).sum()
    }

    /// A tick begins, and the probe finds this.
    pub fn advance(&mut self, found: bool) {
        self.weight = self.weight * self.decay + self.tick;
        self.up = self.up * self.decay + if found { self.tick } else { 0.0 };
        self.age = (self.age + 1) * usize::from(self.started && found == self.is_up);
        (self.is_up, self.started) = (found, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_count_from_the_first_tick_of_a_spell() {
        let mut watch = Watch::new(1, 600.0, 0.0);
        for (up, age) in [(true, 0.0), (true, 600.0), (false, 0.0), (false, 600.0), (true, 0.0)] {
            watch.advance(None, |_| up);
            assert_eq!((watch.views()[0].up, watch.views()[0].age), (up, age));
        }
    }

    #[test]
    fn one_pool_alone_is_seen_as_a_watch_sees_it() {
        let mut watch = Watch::new(2, 600.0, 0.0).assuming(0.3);
        let mut seen = watch.seen(1);
        for tick in 0..2000_u64 {
            let found = tick.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61 > 2;
            watch.advance(None, |_| found);
            seen.advance(found);
            let view = watch.views()[1];
            assert_eq!(
                (view.up, view.age, view.availability),
                (seen.is_up(), seen.age() as f64 * 600.0, seen.availability())
            );
            assert_eq!(
                seen.reaches(&[0.0, 0.5, 0.9]),
                1 + usize::from(view.availability >= 0.5) + usize::from(view.availability >= 0.9)
            );
        }
    }

    #[test]
    fn between_probes_only_the_running_pool_is_known() {
        let mut watch = Watch::new(2, 60.0, 600.0);
        watch.advance(None, |_| true);
        watch.advance(Some(1), |_| false);
        assert_eq!(
            watch.views().iter().map(|view| (view.up, view.probed)).collect::<Vec<_>>(),
            [(true, 60.0), (false, 0.0)]
        );
        for _ in 0..9 {
            watch.advance(None, |_| false);
        }
        assert!(!watch.views()[0].up && watch.views()[0].age == 0.0);
    }
}
