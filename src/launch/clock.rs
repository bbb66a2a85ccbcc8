//! `Clock`: the time of a run, which a stand-in for a cloud makes pass faster.

use std::time::Duration;

use jiff::Timestamp;

/// However fast the time of a run passes. Real seconds.
const SHORTEST_PAUSE: f64 = 0.1;

/// The time of a run. A stand-in for a cloud makes it pass faster.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub started_at: Timestamp,
    pub speed: f64,
}

impl Clock {
    pub fn now(&self) -> f64 {
        self.of(Timestamp::now())
    }

    /// Seconds of the run.
    pub fn of(&self, time: Timestamp) -> f64 {
        time.duration_since(self.started_at).as_secs_f64() * self.speed
    }

    pub fn pause(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64((seconds / self.speed).clamp(SHORTEST_PAUSE, 3600.0))
    }

    pub fn at(&self, seconds: f64) -> Timestamp {
        let real = jiff::SignedDuration::from_secs_f64((seconds / self.speed).clamp(0.0, 1e9));
        self.started_at.checked_add(real).unwrap_or(Timestamp::MAX)
    }
}
