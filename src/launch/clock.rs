//! `Clock`: the time of a run, which a stand-in for a cloud makes pass faster. It goes on whatever becomes of this machine's own clock.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// However fast the time of a run passes. Real seconds.
const SHORTEST_PAUSE: f64 = 0.1;
/// A store says whole seconds, and its answer is under way: less is no difference between two clocks.
const SAME: SignedDuration = SignedDuration::from_mins(1);
/// A machine that slept for less did not sleep. Seconds.
const AWAKE: f64 = 1.0;

/// The time of a run. A stand-in for a cloud makes it pass faster.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub started_at: Timestamp,
    pub speed: f64,
    anchor: Option<Anchor>,
}

/// A moment that is known, from which time is counted without asking what the time is.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    at: Timestamp,
    since: Instant,
    /// Seconds since this machine was started, asleep or awake.
    uptime: Option<f64>,
}

impl Clock {
    /// By this machine's clock, at every moment anew.
    pub fn new(started_at: Timestamp, speed: f64) -> Self {
        Self { started_at, speed, anchor: None }
    }

    /// Counted from now on, by the clock of `elsewhere` (the run's store) where this machine's is another. Whether it is.
    pub fn anchored(self, elsewhere: Option<Timestamp>) -> (Self, bool) {
        let here = Timestamp::now();
        let another = elsewhere.filter(|there| there.duration_since(here).abs() > SAME);
        let anchor = Anchor { at: another.unwrap_or(here), since: Instant::now(), uptime: uptime() };
        (Self { anchor: Some(anchor), ..self }, another.is_some())
    }

    /// The time of a run never goes back: it goes on from here, if it has not come so far. Seconds of the run.
    pub fn not_before(self, seconds: f64) -> Self {
        if self.now() >= seconds {
            return self;
        }
        let anchor = Anchor { at: self.at(seconds), since: Instant::now(), uptime: uptime() };
        Self { anchor: Some(anchor), ..self }
    }

    pub fn now(&self) -> f64 {
        match &self.anchor {
            Some(anchor) => self.of(anchor.at) + anchor.elapsed() * self.speed,
            None => self.of(Timestamp::now()),
        }
    }

    /// Seconds of the run.
    pub fn of(&self, time: Timestamp) -> f64 {
        time.duration_since(self.started_at).as_secs_f64() * self.speed
    }

    pub fn pause(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64((seconds / self.speed).clamp(SHORTEST_PAUSE, 3600.0))
    }

    pub fn at(&self, seconds: f64) -> Timestamp {
        let real = SignedDuration::from_secs_f64((seconds / self.speed).clamp(0.0, 1e9));
        self.started_at.checked_add(real).unwrap_or(Timestamp::MAX)
    }
}

impl Anchor {
    /// Machines cost money while this one sleeps, and `Instant` stands still then.
    fn elapsed(&self) -> f64 {
        let awake = self.since.elapsed().as_secs_f64();
        let all = self.uptime.zip(uptime()).map_or(awake, |(before, now)| now - before);
        if all - awake > AWAKE { all } else { awake }
    }
}

/// `None` where the system does not say it in this file.
fn uptime() -> Option<f64> {
    std::fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_a_day_wrong_falsifies_no_time() {
        let started_at = Timestamp::now() - SignedDuration::from_hours(1);
        let clock = Clock::new(started_at, 1.0);
        for day in [SignedDuration::from_hours(24), SignedDuration::from_hours(-24)] {
            // The store says what the time is; this machine's clock differs by a day.
            let (anchored, is_another) = clock.anchored(Some(Timestamp::now() + day));
            let expected = 3600.0 + day.as_secs_f64();
            assert!(is_another && (anchored.now() - expected).abs() < 5.0, "{}", anchored.now());
        }
        let (anchored, is_another) = clock.anchored(Some(Timestamp::now() - SignedDuration::from_secs(1)));
        assert!(!is_another && (anchored.now() - 3600.0).abs() < 0.9, "a store says whole seconds");
    }

    #[test]
    fn the_time_of_a_run_never_goes_back() {
        let clock = Clock::new(Timestamp::now(), 600.0).anchored(None).0;
        let (on, same) = (clock.not_before(7200.0), clock.not_before(-5.0));
        assert!(on.now() >= 7200.0 - 1e-3 && on.now() < 7200.0 + 600.0 * 60.0, "{}", on.now());
        assert!(same.now() < 7200.0);
    }
}
