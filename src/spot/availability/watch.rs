//! What is known about the pools of a job: up or down, for how long, how often lately. Full sight, or the eyes of a controller.

use crate::availability::frailty::Frailty;
use crate::availability::rates::AvailabilityModel;
use crate::policy::PoolView;
use gpuplan_market::own::LastSeen;

/// Half-life of the weights of past availability, and what is assumed before the first probe: up 60 % of the time, with the
/// weight of six hours of probes.
pub const HALF_LIFE_HOURS: f64 = 24.0;
pub const PRIOR_AVAILABILITY: f64 = 0.6;
pub const PRIOR_HOURS: f64 = 6.0;

/// How long a pool that is up has been so when one looks at a random time: the median on the eight AWS pools of October 2022,
/// whose long spells fill most of the time (spells of 2, 4 and 8 h survive with .18, .10 and .05). Seconds.
pub const USUAL_AGE: f64 = 3.0 * 3600.0;
/// What gives machines so long after a refusal has come up since, mostly late, and may have gone and come again: they last as long as those of a pool that has
/// been up for this share of that time. The likeliest of 1 to 1/12 and 0 for machines held by attempts, with rates of other zones: on eight AWS pools a
/// negative log-likelihood of 3,385 (at a half 3,390, at none 3,395), on sixteen H100 in six zones 1,823 (1,861 and 1,832); nearly flat for fewer H100.
const AGE_OF_WAIT: f64 = 0.25;
/// A pool that has refused is asked again after ten minutes, and after twice as long each time it refuses again (EC2's reference of
/// capacity errors advises to wait; the lengths are judgement). Seconds.
pub const FIRST_PAUSE: f64 = 600.0;
pub const LONGEST_PAUSE: f64 = 3600.0;

/// From a refusal that follows so many others of a row to the next attempt. Seconds.
pub fn pause_after(refusals: u32, first: f64) -> f64 {
    (first * f64::from(1_u32 << refusals.min(16))).min(LONGEST_PAUSE.max(first))
}

/// How a job comes to know of pools in which it does not run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Eyes {
    /// Every pool is probed at every tick: nobody pays for that, so it is the upper bound of sight.
    Full,
    /// As a controller: whoever wants a machine asks for it, keeps it if there is one, and knows no more than the answer. The first
    /// pause after a refusal. Seconds.
    Attempts { pause: f64 },
}

/// What attempts have said of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Asked {
    /// Refusals since it last gave a machine.
    refusals: u32,
    /// Seconds since the first of them, and since the last.
    down: f64,
    since: f64,
    /// From the last until it is asked again. Seconds.
    pause: f64,
}

/// What is known of all pools of a job.
#[derive(Clone, Debug)]
pub struct Watch {
    /// How the one pool of a job was when somebody last looked, before the start. Futures go on from there; a controller does not know it.
    last_seen: Option<LastSeen>,
    tick: f64,
    eyes: Eyes,
    decay: f64,
    /// Share of time up of a pool that nobody has asked.
    assumed: f64,
    views: Vec<PoolView>,
    asked: Vec<Asked>,
    /// Of several pools; a job on one has no other to choose.
    frailties: Vec<Frailty>,
    /// Weighted seconds that the pool was up. The weight of all seconds is the same for every pool.
    up: Vec<f64>,
    weight: f64,
    started: bool,
}

impl Watch {
    /// Full sight. `tick` in seconds.
    pub fn full(pools: usize, tick: f64) -> Self {
        let weight = PRIOR_HOURS * 3600.0;
        let view = PoolView { up: false, age: 0.0, availability: PRIOR_AVAILABILITY, frailty: 1.0 };
        Self {
            last_seen: None,
            tick,
            eyes: Eyes::Full,
            decay: 0.5_f64.powf(tick / (HALF_LIFE_HOURS * 3600.0)),
            assumed: PRIOR_AVAILABILITY,
            views: vec![view; pools],
            asked: vec![Asked::default(); pools],
            frailties: if pools > 1 { vec![Frailty::default(); pools] } else { Vec::new() },
            up: vec![PRIOR_AVAILABILITY * weight; pools],
            weight,
            started: false,
        }
    }

    /// The eyes of a controller: a pool is known from running in it and from the last attempt to start there. Nobody has asked yet, so
    /// every pool may have machines. A pool that refused is asked again after `pause` seconds at first.
    pub fn attempts(pools: usize, tick: f64, pause: f64) -> Self {
        let mut watch = Self { eyes: Eyes::Attempts { pause }, ..Self::full(pools, tick) };
        for view in &mut watch.views {
            *view = PoolView { up: true, age: USUAL_AGE, ..*view };
        }
        watch
    }

    /// The same before the first probe, with another share of time than the average pool's.
    #[must_use]
    pub fn assuming(mut self, availability: f64) -> Self {
        self.assumed = availability;
        for (view, up) in self.views.iter_mut().zip(&mut self.up) {
            view.availability = availability;
            *up = availability * self.weight;
        }
        self
    }

    /// The same of one pool that was seen before the start.
    #[must_use]
    pub fn last_seen(self, last_seen: Option<LastSeen>) -> Self {
        Self { last_seen, ..self }
    }

    /// How the pool was before the start, as far as that is known.
    pub fn before(&self) -> Option<LastSeen> {
        self.last_seen
    }

    pub fn views(&self) -> &[PoolView] {
        &self.views
    }

    /// Only attempts tell; the first pause after a refusal, in seconds. `None`: full sight.
    pub fn pause(&self) -> Option<f64> {
        match self.eyes {
            Eyes::Full => None,
            Eyes::Attempts { pause } => Some(pause),
        }
    }

    /// Whether there has been a probe at all.
    pub fn has_probed(&self) -> bool {
        self.started && self.eyes == Eyes::Full
    }

    /// The same knowledge of one pool alone, probed at every tick from now on.
    pub fn seen(&self, pool: usize) -> SeenPool {
        let PoolView { up: is_up, age, .. } = self.views[pool];
        let (age, up, weight) = ((age / self.tick).round() as usize, self.up[pool], self.weight);
        SeenPool { tick: self.tick, decay: self.decay, is_up, age, up, weight, started: self.has_probed() }
    }

    /// A tick begins. `truth` is asked for every pool, or only for the one that has run.
    pub fn advance(&mut self, running: Option<usize>, truth: impl Fn(usize) -> bool) {
        match self.eyes {
            Eyes::Full => self.probe(truth),
            Eyes::Attempts { .. } => {
                if self.started {
                    self.pass(running);
                }
                self.started = true;
                if let Some(pool) = running.filter(|pool| !truth(*pool)) {
                    self.refused(pool);
                }
            }
        }
    }

    /// As `advance` with the one pool of a job, which runs in it and finds it up: once for every tick that `goes_on`.
    pub fn run_on(&mut self, mut goes_on: impl FnMut() -> bool) {
        let [view] = &mut self.views[..] else { return };
        // On their own, so that the compiler keeps them in registers.
        let (tick, decay, mut weight, mut up, mut age) = (self.tick, self.decay, self.weight, self.up[0], view.age);
        let mut ran = false;
        while goes_on() {
            weight = weight * decay + tick;
            up = up * decay + tick;
            age += tick;
            ran = true;
        }
        if ran {
            *view = PoolView { up: true, age, availability: up / weight, ..*view };
            (self.weight, self.up[0], self.asked[0]) = (weight, up, Asked::default());
        }
    }

    fn probe(&mut self, truth: impl Fn(usize) -> bool) {
        self.weight = self.weight * self.decay + self.tick;
        for pool in 0..self.views.len() {
            let (view, up) = (&mut self.views[pool], &mut self.up[pool]);
            let found = truth(pool);
            if let Some(frailty) = self.frailties.get_mut(pool).filter(|_| self.started) {
                frailty.pass(self.decay, view.up.then(|| losses(view, self.tick)));
                if !found {
                    frailty.end();
                }
                view.frailty = frailty.times();
            }
            view.age = if self.started && found == view.up { view.age + self.tick } else { 0.0 };
            view.up = found;
            *up = *up * self.decay + if found { self.tick } else { 0.0 };
            view.availability = *up / self.weight;
        }
        self.started = true;
    }

    /// A tick has passed. What nobody has seen counts as what was assumed before, so that old knowledge fades.
    fn pass(&mut self, running: Option<usize>) {
        self.weight = self.weight * self.decay + self.tick;
        for pool in 0..self.views.len() {
            let (view, asked, up) = (&mut self.views[pool], &mut self.asked[pool], &mut self.up[pool]);
            let share = match running == Some(pool) {
                true => 1.0,
                false if view.up => self.assumed,
                false => 0.0,
            };
            *up = *up * self.decay + share * self.tick;
            view.availability = *up / self.weight;
            if let Some(frailty) = self.frailties.get_mut(pool) {
                frailty.pass(self.decay, (running == Some(pool)).then(|| losses(view, self.tick)));
                view.frailty = frailty.times();
            }
            view.age += self.tick;
            asked.down += self.tick;
            if running == Some(pool) {
                view.up = true;
                *asked = Asked::default();
                continue;
            }
            asked.since += self.tick;
            if asked.refusals == 0 || asked.since < asked.pause - 1e-6 {
                continue;
            }
            // Nobody knows better: an attempt will tell.
            (view.up, view.age) = (true, (asked.since * AGE_OF_WAIT).min(USUAL_AGE));
            if asked.since > asked.pause + LONGEST_PAUSE {
                // Nobody has asked although one could: what comes next is another row.
                asked.refusals = 0;
            }
        }
    }

    /// A pool gave a machine: its next refusal is the first of a row.
    pub fn gave(&mut self, pool: usize) {
        (self.views[pool].up, self.asked[pool]) = (true, Asked::default());
        if let Some(frailty) = self.frailties.get_mut(pool) {
            frailty.begin();
        }
    }

    /// A pool has no machine, or has taken one away. In a row of refusals it has been down since the first.
    pub fn refused(&mut self, pool: usize) {
        let (view, asked) = (&mut self.views[pool], &mut self.asked[pool]);
        if asked.refusals == 0 {
            asked.down = 0.0;
        }
        if let Eyes::Attempts { pause } = self.eyes {
            asked.pause = pause_after(asked.refusals, pause);
            asked.since = 0.0;
            asked.refusals += 1;
        }
        (view.up, view.age) = (false, asked.down);
        if let Some(frailty) = self.frailties.get_mut(pool) {
            frailty.end();
            view.frailty = frailty.times();
        }
    }
}

/// Of machines in a pool that is up, in so many seconds: as pools of its age do.
fn losses(view: &PoolView, seconds: f64) -> f64 {
    AvailabilityModel::PRIOR.rate(view) * seconds / 3600.0
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

    /// Before the first probe: what it will find, and since how many ticks.
    pub fn begin(&mut self, found: bool, age: usize) {
        (self.is_up, self.age, self.started) = (found, age, true);
    }

    /// The same share of time up, of a pool that has been so for so many ticks now.
    #[must_use]
    pub fn now(self, is_up: bool, age: usize) -> Self {
        Self { is_up, age, ..self }
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
        let mut watch = Watch::full(1, 600.0);
        for (up, age) in [(true, 0.0), (true, 600.0), (false, 0.0), (false, 600.0), (true, 0.0)] {
            watch.advance(None, |_| up);
            assert_eq!((watch.views()[0].up, watch.views()[0].age), (up, age));
        }
    }

    #[test]
    fn one_pool_alone_is_seen_as_a_watch_sees_it() {
        let mut watch = Watch::full(2, 600.0).assuming(0.3);
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
    fn whoever_asks_knows_the_answer_alone() {
        let mut watch = Watch::attempts(2, 600.0, FIRST_PAUSE);
        watch.advance(None, |_| panic!("nobody looks"));
        let up = |watch: &Watch| watch.views().iter().map(|view| view.up).collect::<Vec<_>>();
        assert_eq!(up(&watch), [true, true], "nobody has asked yet");
        watch.refused(0);
        watch.gave(1);
        watch.advance(Some(1), |_| true);
        assert_eq!(up(&watch), [true, true], "after ten minutes the first may have one again");
        watch.refused(0);
        assert_eq!(watch.views()[0].age, 600.0, "down since the first refusal of the row");
        let mut asked_at = Vec::new();
        for tick in 1..40 {
            watch.advance(Some(1), |_| true);
            if watch.views()[0].up {
                asked_at.push(tick);
                watch.refused(0);
            }
        }
        assert_eq!(asked_at, [2, 6, 12, 18, 24, 30, 36], "twice as long each time, up to an hour");
        assert!(watch.views()[1].availability > 0.65 && watch.views()[0].availability < 0.5);
        watch.advance(Some(1), |_| false);
        assert_eq!((watch.views()[1].up, watch.views()[1].age), (false, 0.0), "it was taken away");
    }

    #[test]
    fn what_was_seen_long_ago_counts_no_more() {
        let mut watch = Watch::attempts(1, 600.0, FIRST_PAUSE).assuming(0.5);
        for _ in 0..300 {
            watch.advance(Some(0), |_| true);
        }
        let just_left = watch.views()[0].availability;
        for _ in 0..7 * 144 {
            watch.advance(None, |_| panic!("nobody looks"));
        }
        assert!(just_left > 0.8 && (watch.views()[0].availability - 0.5).abs() < 0.01, "{just_left}");
    }

    #[test]
    fn who_loses_machines_is_known_for_it() {
        let frailties = |watch: &Watch| watch.views().iter().map(|view| view.frailty).collect::<Vec<_>>();
        let mut watch = Watch::attempts(2, 600.0, FIRST_PAUSE);
        watch.advance(None, |_| panic!("nobody looks"));
        watch.refused(1);
        assert_eq!(frailties(&watch), [1.0, 1.0], "a refusal is no loss");
        watch.gave(0);
        watch.refused(0);
        assert_eq!(frailties(&watch), [4.0 / 3.0, 1.0], "lost before the tick is over");
        for _ in 0..4 {
            watch.advance(None, |_| panic!("nobody looks"));
            watch.advance(Some(0), |_| false);
        }
        assert!(frailties(&watch)[0] > 1.6, "{:?}", frailties(&watch));
        let mut seen = Watch::full(2, 600.0);
        for tick in 0..60 {
            seen.advance(None, |pool| pool == 1 || tick % 2 == 0);
        }
        let [flaps, lasts] = frailties(&seen)[..] else { panic!() };
        assert!(flaps > 1.5 && lasts < 0.8, "{flaps} {lasts}");
        let mut alone = Watch::attempts(1, 600.0, FIRST_PAUSE);
        alone.gave(0);
        alone.refused(0);
        assert_eq!(frailties(&alone), [1.0], "there is no other pool to choose");
    }
}
