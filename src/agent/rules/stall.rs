//! Whether the program still gets anywhere. Pure: signs of life go in, what to say comes out.

use std::time::Duration;

use gpuplan_runstore::ManifestName;

/// Less than this share of one core is no work: a program that waits for ever still looks at its clock.
const IDLE_SHARE: f64 = 0.05;

/// What becomes of a program that is stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStall {
    /// People are told, and that is all.
    Warn,
    /// It is asked to save and end, as at a cap: the machine costs money for nothing.
    Stop,
    /// It is killed, which counts as a crash.
    Kill,
}

/// What shows that the program works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Reported by the program.
    pub step: Option<u64>,
    pub committed: Option<ManifestName>,
    /// Bytes that it wrote to stdout and stderr.
    pub output_bytes: u64,
    /// Processor time of all its processes. It falls where one of them ends.
    pub processor: Duration,
}

/// Remembers when the program last gave a sign of life.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Without any sign for so long it is stalled. `None`: nobody wants to know.
    after: Option<Duration>,
    alive: Duration,
    /// When there was output last.
    wrote: Duration,
    looked: Duration,
    last: Signs,
    is_told: bool,
}

impl Stall {
    /// `now` counts from any fixed moment.
    pub fn new(after: Option<Duration>, now: Duration) -> Self {
        Self { after, alive: now, wrote: Duration::ZERO, looked: now, last: Signs::default(), is_told: false }
    }

    /// When the last sign was seen.
    pub fn alive(&self) -> Duration {
        self.alive
    }

    /// When the last output was seen; zero before there was any.
    pub fn wrote(&self) -> Duration {
        self.wrote
    }

    /// For how long there was no sign, once for each stall.
    pub fn check(&mut self, now: Duration, signs: Signs) -> Option<Duration> {
        let span = now.saturating_sub(self.looked);
        let worked = signs.processor.checked_sub(self.last.processor);
        // A process that ended takes its time with it: that is a change, and a change is life.
        let is_busy = worked.is_none_or(|worked| worked.as_secs_f64() >= span.as_secs_f64() * IDLE_SHARE);
        let has_moved = Signs { processor: self.last.processor, ..signs } != self.last;
        if signs.output_bytes != self.last.output_bytes {
            self.wrote = now;
        }
        if is_busy && !span.is_zero() || has_moved {
            (self.alive, self.is_told) = (now, false);
        }
        (self.looked, self.last) = (now, signs);
        let silent = now.saturating_sub(self.alive);
        let is_stalled = self.after.is_some_and(|after| silent >= after) && !self.is_told;
        self.is_told |= is_stalled;
        is_stalled.then_some(silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn silence_is_told_once_and_any_sign_ends_it() {
        let mut stall = Stall::new(Some(seconds(60)), Duration::ZERO);
        let quiet = Signs { output_bytes: 5, ..Signs::default() };
        let told: Vec<_> = (1..40).filter_map(|look| stall.check(seconds(look * 5), quiet)).collect();
        assert_eq!(told, [seconds(60)]);
        assert_eq!(stall.check(seconds(200), Signs { step: Some(1), ..quiet }), None);
        assert_eq!(stall.check(seconds(260), Signs { step: Some(1), ..quiet }), Some(seconds(60)));
    }

    #[test]
    fn a_program_that_computes_is_not_stalled() {
        let mut stall = Stall::new(Some(seconds(60)), Duration::ZERO);
        for look in 1..100 {
            let processor = Duration::from_millis(look * 5 * 100);
            assert_eq!(stall.check(seconds(look * 5), Signs { processor, ..Signs::default() }), None);
        }
        // One part in a hundred of a core is waiting.
        let mut stall = Stall::new(Some(seconds(60)), Duration::ZERO);
        let told = (1..100).find_map(|look| {
            let processor = Duration::from_millis(look * 5 * 10);
            stall.check(seconds(look * 5), Signs { processor, ..Signs::default() })
        });
        assert_eq!(told, Some(seconds(60)));
        let mut never = Stall::new(None, Duration::ZERO);
        assert_eq!(never.check(Duration::MAX, Signs::default()), None);
    }
}
