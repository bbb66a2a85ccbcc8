//! `Booking`: a span of time for which machines are sold ahead, paid for whether they are used or not; `Span`: what is wished of one.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Machines that can be had from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Booking {
    pub starts_at: Timestamp,
    /// When the machines are ended, which may be before what is paid for ends.
    pub ends_at: Timestamp,
    /// All of them are paid for.
    pub machines: u32,
    /// Hours that each of them is paid for.
    pub paid_hours: u32,
}

impl Booking {
    /// From `now` until the machines are there. Hours.
    pub fn wait(&self, now: Timestamp) -> f64 {
        hours(now, self.starts_at).max(0.0)
    }

    /// Whether so many machines find so many hours in what is left of it.
    pub fn holds(&self, machines: u32, work: f64, now: Timestamp) -> bool {
        machines <= self.machines && work <= hours(now.max(self.starts_at), self.ends_at)
    }
}

/// So many machines for so many hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub machines: u32,
    pub hours: u32,
}

impl Span {
    /// The least that anybody sells: what is asked for where nobody knows yet what is needed.
    pub const DAY: Self = Self { machines: 1, hours: 24 };
}

fn hours(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() / 3600.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_booking_holds_what_ends_before_it_does() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let (starts_at, ends_at) = (at("2026-11-25T11:30:00Z"), at("2026-11-26T11:00:00Z"));
        let booking = Booking { starts_at, ends_at, machines: 2, paid_hours: 24 };
        let before = at("2026-11-25T05:30:00Z");
        assert_eq!(booking.wait(before), 6.0);
        assert!(booking.holds(2, 23.5, before) && !booking.holds(2, 23.6, before) && !booking.holds(3, 1.0, before));
        let within = at("2026-11-26T10:00:00Z");
        assert_eq!(booking.wait(within), 0.0);
        assert!(booking.holds(1, 1.0, within) && !booking.holds(1, 1.1, within), "what has passed is gone");
    }
}
