//! `Caps`: how much money and time a run may use, and how much of it is gone.

use std::time::Duration;

use crate::ports::notice::LONGEST;

use gpuplan_runstore::Billing;
use gpuplan_units::{Usd, UsdPerHour};

/// Shares of the budget at which the user is told, percent.
const TOLD_AT: [u32; 3] = [50, 80, 100];

/// What the user allows. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Of all machines and epochs together.
    pub budget: Option<Usd>,
    /// Price of this machine, frozen at launch.
    pub rate: Option<UsdPerHour>,
    /// How the cloud bills it.
    pub billing: Billing,
    /// Of this agent on this machine.
    pub lifetime: Option<Duration>,
    /// From the start of this agent until its machine ends itself, whatever runs on it. `None`: nobody knows when it does.
    pub machine_ends: Option<Duration>,
}

/// Of what the agent has at its start, at most: a machine that lives for minutes is there for its program.
const MOST_NOTICE: u32 = 4;

impl Caps {
    /// Why the run must stop now.
    pub fn reached(&self, spent: Option<Usd>, alive: Duration) -> Option<String> {
        if let Some((budget, spent)) = self.budget.zip(spent)
            && spent >= budget
        {
            return Some(format!("the budget of ${budget} is spent"));
        }
        let lifetime = self.lifetime.filter(|lifetime| alive >= *lifetime);
        lifetime.map(|lifetime| format!("the lifetime of {} s is over", lifetime.as_secs()))
    }

    /// The time that is left until the machine ends itself, once the program has to save and end: as long before as the longest notice of a
    /// cloud, and what sending its checkpoint takes beside.
    pub fn ends(&self, alive: Duration, sending: Duration) -> Option<Duration> {
        let end = self.machine_ends?;
        notice(end, end / MOST_NOTICE, alive, sending)
    }

    /// The same of a term of its lease that ends then. Until half of it is over it may still be renewed, however long the checkpoint takes.
    pub fn term_ends(end: Duration, term: Duration, alive: Duration, sending: Duration) -> Option<Duration> {
        notice(end, end.min(term) / MOST_NOTICE, alive, sending)
    }

    /// The highest share of the budget that is passed, percent.
    pub fn passed(&self, spent: Option<Usd>) -> Option<u32> {
        let (budget, spent) = self.budget.zip(spent)?;
        let passed =
            |share: &u32| spent.nanos().saturating_mul(100) >= budget.nanos().saturating_mul(i128::from(*share));
        TOLD_AT.into_iter().rev().find(passed)
    }
}

fn notice(end: Duration, most: Duration, alive: Duration, sending: Duration) -> Option<Duration> {
    let left = end.saturating_sub(alive);
    (left <= LONGEST.saturating_add(sending).min(most)).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Option<Usd> {
        Usd::parse(text).ok()
    }

    #[test]
    fn a_cap_stops_when_it_is_reached_and_not_before() {
        let caps = Caps { budget: usd("10"), lifetime: Some(Duration::from_mins(1)), ..Caps::default() };
        assert_eq!(caps.reached(usd("9.999999999"), Duration::from_secs(59)), None);
        assert!(caps.reached(usd("10"), Duration::ZERO).unwrap().contains("budget"));
        assert!(caps.reached(None, Duration::from_mins(1)).unwrap().contains("lifetime"));
        assert_eq!(Caps::default().reached(usd("1000000"), Duration::MAX), None);
    }

    #[test]
    fn the_end_of_the_machine_is_a_notice_that_comes_before_it() {
        let (minutes, none) = (Duration::from_mins, Duration::ZERO);
        let caps = Caps { machine_ends: Some(minutes(60)), ..Caps::default() };
        assert_eq!(caps.ends(minutes(57), none), None);
        assert_eq!(caps.ends(minutes(58), none), Some(minutes(2)));
        assert_eq!(caps.ends(minutes(55), minutes(3)), Some(minutes(5)), "a large checkpoint has longer");
        assert_eq!(caps.ends(minutes(44), minutes(600)), None, "most of its life is for the program");
        assert_eq!(caps.ends(minutes(61), none), Some(none), "it should have ended");
        let short = Caps { machine_ends: Some(minutes(4)), ..Caps::default() };
        assert_eq!([2, 3].map(|passed| short.ends(minutes(passed), none)), [None, Some(minutes(1))]);
        assert_eq!(Caps::default().ends(Duration::MAX, none), None, "nobody knows when it ends");
    }

    /// A bad hour of the store made the next checkpoint seem to take five: a program that got further was told to leave, long before its term was over.
    #[test]
    fn a_term_that_may_still_be_renewed_is_no_notice() {
        let (hours, none) = (|hours: u64| Duration::from_mins(60 * hours), Duration::ZERO);
        let of_term = |end, alive, sending| Caps::term_ends(end, hours(6), alive, sending);
        let share = Caps { machine_ends: Some(hours(103)), ..Caps::default() };
        assert_eq!(share.ends(hours(100), hours(5)), Some(hours(3)), "as if it were its last");
        assert_eq!(of_term(hours(103), hours(100), hours(5)), None);
        assert_eq!(of_term(hours(103), hours(102), hours(5)), Some(hours(1)));
        assert_eq!(of_term(hours(103), hours(102), none), None);
        assert_eq!(of_term(hours(4), hours(2), hours(5)), None, "a share that is shorter than a term");
        assert_eq!(of_term(hours(4), hours(3), hours(5)), Some(hours(1)));
    }

    #[test]
    fn shares_of_the_budget_are_told() {
        let caps = Caps { budget: usd("10"), ..Caps::default() };
        for (spent, share) in [("4.99", None), ("5", Some(50)), ("8.5", Some(80)), ("12", Some(100))] {
            assert_eq!(caps.passed(usd(spent)), share, "{spent}");
        }
    }
}
