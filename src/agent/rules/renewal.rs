//! `Renewals`: how long the lease of this machine runs, and when it may be renewed. Pure: time and signs of progress go in.
//!
//! Whoever leads the run grants each machine its share of the money before it is asked for. The machine lives on it term by term: a term follows
//! on another only once the program got further in that one, and none goes beyond the share. So no agent can make a machine cost more than was
//! granted, whatever it says, and one whose program hangs ends at its term although nobody leads.
//!
//! Times count from any fixed moment, by a clock that nobody sets.

use std::time::Duration;

use gpuplan_runstore::ManifestName;

/// What the program has shown for its machine's money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// As the program reports it.
    pub step: Option<u64>,
    pub committed: Option<ManifestName>,
    /// When it last wrote to stdout or stderr.
    pub wrote_at: Duration,
    /// When it last wrote or computed, or data was fetched or sent for it.
    pub busy_at: Duration,
}

/// The lease of one machine as its agent knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewals {
    term: Duration,
    /// The end of what was granted: no term goes beyond.
    share_ends: Duration,
    /// Of the present term.
    ends: Duration,
    /// When the present term was asked for.
    since: Duration,
    /// Of the next term, in the store.
    number: u64,
    /// When the next term was first asked for: the answer may be lost, and it begins there.
    asked_at: Option<Duration>,
    last: Shown,
    counted_at: Option<Duration>,
    /// Between two steps or checkpoints, at most; `None`: there were no two yet.
    longest_gap: Option<Duration>,
}

impl Renewals {
    /// `ends`: of the first term, which includes the start of the machine.
    pub fn new(now: Duration, term: Duration, ends: Duration, share_ends: Duration) -> Self {
        Self {
            term,
            share_ends,
            ends: ends.min(share_ends),
            since: now,
            number: 1,
            asked_at: None,
            last: Shown::default(),
            counted_at: None,
            longest_gap: None,
        }
    }

    /// The machine ends then, unless the lease is renewed before.
    pub fn ends(&self) -> Duration {
        self.ends
    }

    /// A look at the program. A checkpoint beyond all before counts, and any other step than the last one: many programs count those of each epoch
    /// anew, and one that was started again does over what it had not saved. The first ones may be those of an earlier machine.
    pub fn see(&mut self, now: Duration, shown: Shown) {
        let is_another = shown.step.is_some() && shown.step != self.last.step;
        let is_further = is_another || shown.committed > self.last.committed;
        if is_further && self.last != Shown::default() {
            if let Some(before) = self.counted_at {
                let gap = now.saturating_sub(before);
                self.longest_gap = Some(self.longest_gap.map_or(gap, |longest| longest.max(gap)));
            }
            self.counted_at = Some(now);
        }
        let (step, committed) = (shown.step.or(self.last.step), shown.committed.max(self.last.committed));
        self.last = Shown { step, committed, ..shown };
    }

    /// A program that has shown steps or checkpoints more often than twice a term has to show another, or to write: the evaluation at its end may
    /// take a day and says so line by line, and a collective that waits for ever is silent. Of one that shows them seldom or never nobody can ask
    /// more than work.
    fn is_proven(&self) -> bool {
        let is_further = self.counted_at.is_some_and(|at| at > self.since);
        let counts = self.longest_gap.is_some_and(|gap| gap <= self.term / 2);
        is_further || self.last.wrote_at > self.since || !counts && self.last.busy_at > self.since
    }

    /// The number of the term to ask the store for, from half of the present one on. Asked again it is the same number, until it is answered or
    /// the present term ends.
    pub fn due(&mut self, now: Duration) -> Option<u64> {
        if now >= self.ends || self.ends >= self.share_ends {
            return None;
        }
        if self.asked_at.is_none() && now.saturating_sub(self.since) >= self.term / 2 && self.is_proven() {
            self.asked_at = Some(now);
        }
        self.asked_at.map(|_| self.number)
    }

    /// The store has the object of the term that was asked for. What has ended meanwhile stays ended; true: the machine lives longer.
    pub fn is_granted(&mut self, now: Duration) -> bool {
        let Some(asked_at) = self.asked_at.filter(|_| now < self.ends) else { return false };
        self.ends = self.ends.max(asked_at.saturating_add(self.term).min(self.share_ends));
        (self.since, self.asked_at, self.number) = (asked_at, None, self.number + 1);
        true
    }

    /// Somebody else has that number, as an agent on this machine before this one.
    pub fn is_taken(&mut self) {
        self.number += 1;
        self.asked_at = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: u64 = 60;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * MINUTE)
    }

    /// Terms of an hour out of a share of ten.
    fn lease() -> Renewals {
        Renewals::new(Duration::ZERO, minutes(60), minutes(60), minutes(600))
    }

    fn at_step(step: u64) -> Shown {
        Shown { step: Some(step), ..Shown::default() }
    }

    #[test]
    fn a_term_follows_on_another_from_its_half_on_once_there_is_progress() {
        let mut lease = lease();
        assert_eq!(lease.due(minutes(40)), None, "nothing was shown");
        lease.see(minutes(1), at_step(7));
        assert_eq!(lease.due(minutes(40)), None, "that may be what was restored");
        lease.see(minutes(10), at_step(8));
        assert_eq!((lease.due(minutes(29)), lease.due(minutes(30))), (None, Some(1)));
        assert!(lease.is_granted(minutes(31)));
        assert_eq!(lease.ends(), minutes(90), "from when it was asked for");
        assert_eq!(lease.due(minutes(70)), None, "no progress since");
        lease.see(minutes(71), at_step(9));
        assert_eq!(lease.due(minutes(71)), Some(2), "late, but before it ends");
    }

    #[test]
    fn an_answer_that_is_lost_or_late_makes_no_term_longer() {
        let mut lease = lease();
        lease.see(minutes(1), at_step(1));
        lease.see(minutes(2), at_step(2));
        assert_eq!([30, 31, 50, 59].map(|now| lease.due(minutes(now))), [Some(1); 4], "the same number again");
        assert!(lease.clone().is_granted(minutes(59)));
        assert_eq!(lease.due(minutes(60)), None, "it has ended");
        let ended = lease.clone();
        assert!(!lease.is_granted(minutes(61)) && lease == ended, "and stays so");
    }

    #[test]
    fn a_number_that_somebody_has_is_passed_over() {
        let mut lease = lease();
        lease.see(minutes(1), at_step(1));
        lease.see(minutes(2), at_step(2));
        assert_eq!(lease.due(minutes(30)), Some(1));
        lease.is_taken();
        assert_eq!((lease.due(minutes(31)), lease.ends()), (Some(2), minutes(60)));
    }

    #[test]
    fn work_is_progress_only_of_programs_that_show_none_often() {
        let spins = |lease: &mut Renewals, now, step| {
            lease.see(minutes(now), Shown { busy_at: minutes(now), ..at_step(step) });
            lease.due(minutes(now))
        };
        // Two steps within half a term, and then a collective that waits for ever.
        let mut hangs = lease();
        let asked: Vec<_> = (0..60).filter_map(|now| spins(&mut hangs, now, now.min(3))).collect();
        assert_eq!((asked.first(), hangs.is_granted(minutes(59))), (Some(&1), true));
        assert_eq!((60..90).find_map(|now| spins(&mut hangs, now, 3)), None, "it shows no other step");
        // One checkpoint every 50 minutes.
        let mut seldom = lease();
        for now in 0..400 {
            if spins(&mut seldom, now, now / 50).is_some() {
                assert!(seldom.is_granted(minutes(now)));
            }
            assert!(seldom.ends() > minutes(now));
        }
        // Its evaluation counts no steps, and writes a line every 25 minutes.
        let mut evaluates = lease();
        for now in 0..400_u64 {
            let wrote_at = minutes(now / 25 * 25);
            evaluates.see(minutes(now), Shown { wrote_at, busy_at: minutes(now), ..at_step(now.min(3)) });
            if evaluates.due(minutes(now)).is_some() {
                assert!(evaluates.is_granted(minutes(now)));
            }
            assert!(evaluates.ends() > minutes(now));
        }
        let mut idle = lease();
        assert_eq!(
            (0..60).find_map(|now| {
                idle.see(minutes(now), Shown::default());
                idle.due(minutes(now))
            }),
            None
        );
    }

    #[test]
    fn steps_that_are_counted_anew_are_progress_until_they_stand_still() {
        let mut lease = lease();
        let mut goes = |now: u64, step: u64| {
            lease.see(minutes(now), at_step(step));
            if lease.due(minutes(now)).is_some() {
                assert!(lease.is_granted(minutes(now)));
            }
            lease.ends() > minutes(now)
        };
        // Epochs of 40 minutes; then it was started again from the first step, and then it hangs.
        assert!((0..200).all(|now| goes(now, now % 40)));
        assert!((200..300).all(|now| goes(now, now - 200)));
        assert!((300..420).any(|now| !goes(now, 99)));
    }

    proptest! {
        /// Whatever is shown and answered: no term goes beyond the share, or beyond what the store was asked for.
        #[test]
        fn no_word_of_an_agent_makes_its_share_larger(
            steps in proptest::collection::vec((0_u64..40, 0_u64..3, any::<bool>(), 0_u8..4), 1..200),
            share in 1_u64..600,
        ) {
            let mut lease = Renewals::new(Duration::ZERO, minutes(60), minutes(60), minutes(share));
            let (mut now, mut step, mut asked) = (0, 0, 0);
            for (passes, further, is_busy, answer) in steps {
                (now, step) = (now + passes, step + further);
                let busy_at = if is_busy { minutes(now) } else { Duration::ZERO };
                lease.see(minutes(now), Shown { busy_at, ..at_step(step) });
                let before = lease.ends();
                if lease.due(minutes(now)).is_some() {
                    asked = now;
                    match answer {
                        0 => { lease.is_granted(minutes(now)); }
                        1 => lease.is_taken(),
                        2 => { lease.is_granted(before); }
                        _ => {}
                    }
                }
                prop_assert!(lease.ends() <= minutes(share) && lease.ends() <= minutes(asked + 60));
                prop_assert!(lease.ends() >= before && (minutes(now) < before || lease.ends() == before));
            }
        }
    }
}
