//! `Ledger`: what a run may still spend. Each machine's life is a lease on what is left, granted before the machine is asked for.
//!
//! Objects `lease/<n>`, create-only, each the whole balance after its grant: what is settled and every lease that is open. Two leaders
//! cannot grant the same money, since one of them finds its number taken.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::layout::numbered;
use crate::run::{Run, after};
use crate::store::StoreError;
use gpuplan_units::{Usd, UsdPerHour, billed_seconds};

/// From the end of its lease until a machine costs nothing any more, and from its creation until its own timer runs: boot, shutdown
/// and a clock that is read once a minute. Judgement. Seconds.
pub const ENDING: f64 = 180.0;
/// What cannot be counted is more than any bound.
const BEYOND_COUNTING: Usd = Usd::from_nanos(10_i128.pow(30));

/// What one machine may cost, from the moment that it was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// Of the order: the machine that bears it lives on this.
    pub token: String,
    /// The most that an hour of it costs, disks included.
    pub most_usd_per_hour: UsdPerHour,
    pub minimum_seconds: u32,
    /// Paid once, as for data that it fetches from another cloud.
    pub start_usd: Usd,
    /// Granted: the machine ends itself before it costs more.
    pub usd: Usd,
    /// Seconds of the run.
    pub granted_at: f64,
    /// That the machine may live before it ends itself.
    pub seconds: f64,
    /// The cloud's name of the machine; `None`: nobody has heard of one.
    pub machine: Option<String>,
    /// Share of the work that was safe when it was granted; `None`: granted before leases said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
}

impl Lease {
    /// Seconds that a machine may live on so much money.
    pub fn seconds(usd: Usd, most: UsdPerHour, start: Usd) -> f64 {
        let hours = (usd.dollars() - start.dollars()) / most.dollars();
        (hours * 3600.0 - ENDING).floor().max(0.0)
    }

    /// What a machine that lives so long costs at most.
    pub fn cost(seconds: f64, most: UsdPerHour, minimum_seconds: u32, start: Usd) -> Usd {
        let paid = billed_seconds((seconds + ENDING).max(0.0), minimum_seconds);
        most.for_hours(1, paid / 3600.0).map_or(BEYOND_COUNTING, |usd| usd + start)
    }

    /// What the machine cost at most if it is gone by now: never more than was granted.
    fn spent(&self, now: f64) -> Usd {
        let paid = billed_seconds((now - self.granted_at).max(0.0), self.minimum_seconds);
        let usd =
            self.most_usd_per_hour.for_hours(1, paid / 3600.0).map_or(BEYOND_COUNTING, |usd| usd + self.start_usd);
        usd.min(self.usd)
    }
}

/// The balance of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// Grants so far.
    pub number: u64,
    /// What machines that are gone cost at most.
    pub settled_usd: Usd,
    pub open: Vec<Lease>,
    /// The launch that agreed to its bound, by the moment of its confirmation; `None`: written before balances named it.
    #[serde(default)]
    pub launched_at: Option<Timestamp>,
    /// Gangs in a row, before those of the open leases, that ended by themselves and left the run no further.
    #[serde(default)]
    pub fruitless: u32,
}

impl Ledger {
    /// Nothing is granted yet.
    pub fn new(launched_at: Timestamp) -> Self {
        Self { launched_at: Some(launched_at), ..Self::default() }
    }

    /// Of a run from before there were leases.
    pub fn settled(spent: Usd, launched_at: Timestamp) -> Self {
        Self { settled_usd: spent, ..Self::new(launched_at) }
    }

    /// As the launch of this moment goes on with it. What an earlier launch of the same name has paid was agreed to with that one;
    /// machines of it that may still live are paid from now on. `speed`: seconds of the run in a second.
    #[must_use]
    pub fn of_launch(mut self, launched_at: Timestamp, speed: f64) -> Self {
        if let Some(before) = self.launched_at.filter(|before| *before != launched_at) {
            (self.settled_usd, self.fruitless) = (Usd::ZERO, 0);
            // Each launch counts its seconds from its own beginning.
            let shift = launched_at.duration_since(before).as_secs_f64() * speed;
            for lease in &mut self.open {
                (lease.granted_at, lease.done) = (lease.granted_at - shift, None);
            }
        }
        self.launched_at = Some(launched_at);
        self
    }

    /// As the leader before left it: whether a machine came of a lease that is open is only seen in a list.
    #[must_use]
    pub fn inherited(mut self) -> Self {
        for lease in &mut self.open {
            lease.machine.get_or_insert_with(|| format!("of order {}", lease.token));
        }
        self
    }

    /// What the run has cost and may still cost by the leases that are open.
    pub fn committed(&self) -> Usd {
        self.open.iter().fold(self.settled_usd, |sum, lease| sum + lease.usd)
    }

    /// What the run has cost at most until now. A lease without a machine that was heard of counts in full.
    pub fn spent(&self, now: f64) -> Usd {
        let of = |lease: &Lease| if lease.machine.is_some() { lease.spent(now) } else { lease.usd };
        self.open.iter().fold(self.settled_usd, |sum, lease| sum + of(lease))
    }

    /// When the first of the machines that `is_one` names ends itself; `None`: nobody knows which lease is theirs. Seconds of the run.
    pub fn ends_at(&self, is_one: impl Fn(&str) -> bool) -> Option<f64> {
        let theirs = self.open.iter().filter(|lease| lease.machine.as_deref().is_some_and(&is_one));
        theirs.map(|lease| lease.granted_at + lease.seconds).reduce(f64::min)
    }

    /// Share of the work that was safe when the machines that `is_one` names were granted their leases; `None`: nobody knows.
    pub fn done_before(&self, is_one: impl Fn(&str) -> bool) -> Option<f64> {
        let theirs = self.open.iter().filter(|lease| lease.machine.as_deref().is_some_and(&is_one));
        theirs.filter_map(|lease| lease.done).reduce(f64::min)
    }

    /// The most that any open lease says was safe.
    pub fn done(&self) -> f64 {
        self.open.iter().filter_map(|lease| lease.done).fold(0.0, f64::max)
    }

    pub fn left(&self, bound: Usd) -> Usd {
        let left = bound.nanos() - self.committed().nanos();
        Usd::from_nanos(left.max(0))
    }

    pub fn grant(&mut self, lease: Lease) {
        self.number += 1;
        self.open.push(lease);
    }

    /// A cloud named the machine of an order.
    pub fn is_had_by(&mut self, token: &str, machine: &str) {
        let lease = self.open.iter_mut().find(|lease| lease.token == token);
        if let Some(lease) = lease.filter(|lease| lease.machine.as_deref() != Some(machine)) {
            lease.machine = Some(machine.to_owned());
        }
    }

    /// The machine is gone. What it did not use is free again.
    pub fn settle(&mut self, machine: &str, now: f64) {
        let is_its = |lease: &Lease| lease.machine.as_deref() == Some(machine);
        for lease in self.open.extract_if(.., |lease| is_its(lease)) {
            self.settled_usd = self.settled_usd + lease.spent(now);
        }
    }

    /// Nothing came of the order, and nothing can any more.
    pub fn void(&mut self, token: &str) {
        self.open.retain(|lease| lease.token != token);
    }

    /// The same of every order but this one of which no machine was heard.
    pub fn void_unheard(&mut self, but: Option<&str>) {
        self.open.retain(|lease| lease.machine.is_some() || Some(lease.token.as_str()) == but);
    }
}

impl Run {
    /// The newest balance; `None`: nothing was ever granted.
    pub async fn ledger(&self) -> Result<Option<Ledger>, StoreError> {
        let listed = self.store.list(&self.layout.leases()).await?;
        let Some(number) = listed.iter().filter_map(|object| numbered(object.file_name())).max() else {
            return Ok(None);
        };
        let (key, other) =
            (self.layout.lease(number), "it is not the balance of its number; put a whole copy in its place");
        match self.read::<Ledger>(&key).await? {
            Some(ledger) if ledger.number != number => Err(StoreError::Unreadable { key, detail: other.to_owned() }),
            ledger => Ok(ledger),
        }
    }

    /// Before the machine is asked for. False if somebody else has granted this number.
    pub async fn write_ledger(&self, ledger: &Ledger) -> Result<bool, StoreError> {
        // One that nobody would find again bounds nothing.
        after(ledger.number.saturating_sub(1), &self.layout.lease(ledger.number))?;
        self.create(&self.layout.lease(ledger.number), ledger).await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::Layout;
    use crate::store::Store;

    fn usd(text: &str) -> Usd {
        Usd::parse(text).unwrap()
    }

    fn lease(token: &str, seconds: f64, granted_at: f64) -> Lease {
        let (most, start) = (UsdPerHour::parse("36").unwrap(), usd("1"));
        Lease {
            token: token.to_owned(),
            most_usd_per_hour: most,
            minimum_seconds: 60,
            start_usd: start,
            usd: Lease::cost(seconds, most, 60, start),
            granted_at,
            seconds,
            machine: None,
            done: None,
        }
    }

    #[test]
    fn what_a_machine_did_not_use_is_free_again_and_an_unheard_one_keeps_its_lease() {
        let mut ledger = Ledger::default();
        // 3,600 s and 180 s to end, at a cent a second, and a dollar for the start.
        ledger.grant(lease("a", 3600.0, 0.0));
        assert_eq!((ledger.number, ledger.committed()), (1, usd("38.80")));
        ledger.grant(lease("b", 100.0, 0.0));
        assert_eq!((ledger.left(usd("50")), ledger.left(usd("40"))), (usd("7.40"), Usd::ZERO));
        ledger.is_had_by("a", "m-1");
        ledger.settle("m-1", 1000.0);
        assert_eq!((ledger.settled_usd, ledger.committed()), (usd("11"), usd("14.80")));
        ledger.settle("m-1", 2000.0);
        ledger.void_unheard(Some("b"));
        assert_eq!(ledger.committed(), usd("14.80"), "it may still come");
        ledger.void_unheard(None);
        assert_eq!(ledger.committed(), usd("11"));
    }

    #[test]
    fn another_launch_of_the_name_has_its_own_bound_and_inherits_only_what_still_lives() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut first = Ledger { settled_usd: usd("30"), number: 7, ..Ledger::new(at(1000)) };
        first.grant(lease("a", 3600.0, 500.0));
        assert_eq!(first.clone().of_launch(at(1000), 1.0), first, "the same launch goes on");
        let second = first.clone().of_launch(at(1400), 1.0);
        assert_eq!((second.number, second.settled_usd, second.committed()), (8, Usd::ZERO, usd("38.80")));
        assert_eq!((second.open[0].granted_at, second.launched_at), (100.0, Some(at(1400))));
        let old = Ledger { launched_at: None, ..first };
        assert_eq!(old.of_launch(at(1400), 1.0).settled_usd, usd("30"), "nobody knows whose it is");
    }

    proptest! {
        #[test]
        fn a_life_costs_no_more_than_the_money_that_it_was_made_of(
            cents in 0_u32..1_000_000, rate in 1_i64..500_000_000_000, used in 0.0_f64..1e7,
        ) {
            let (money, most) = (Usd::from_nanos(i128::from(cents) * 10_000_000), UsdPerHour::from_nanos(rate));
            let seconds = Lease::seconds(money, most, Usd::ZERO);
            let cost = Lease::cost(seconds, most, 0, Usd::ZERO);
            prop_assert!(seconds == 0.0 || cost <= money, "{seconds} s cost {cost} of {money}");
            let lease = Lease { most_usd_per_hour: most, minimum_seconds: 0, start_usd: Usd::ZERO, usd: cost, ..lease("a", 0.0, 0.0) };
            prop_assert!(lease.spent(used) <= cost);
        }
    }

    #[tokio::test]
    async fn a_balance_of_another_number_is_none_and_a_number_that_no_run_gets_to_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        run.store.write(&format!("runs/a/lease/{}", u64::MAX), b"{}".to_vec()).await.unwrap();
        assert_eq!(run.ledger().await.unwrap(), None, "no run gets there");
        let one = Ledger { number: u64::MAX, ..Ledger::default() };
        run.store.write("runs/a/lease/1", crate::run::text(&one)).await.unwrap();
        assert!(matches!(run.ledger().await, Err(StoreError::Unreadable { .. })), "its next number would be 0");
        for number in [1 << 53, u64::MAX] {
            let ledger = Ledger { number, ..Ledger::default() };
            assert!(matches!(run.write_ledger(&ledger).await, Err(StoreError::Unreadable { .. })), "{number}");
        }
    }

    #[tokio::test]
    async fn the_same_money_is_granted_once() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        assert_eq!(run.ledger().await.unwrap(), None);
        let (mut one, mut two) = (Ledger::default(), Ledger::default());
        one.grant(lease("a", 10.0, 0.0));
        two.grant(lease("b", 10.0, 0.0));
        assert!(run.write_ledger(&one).await.unwrap() && !run.write_ledger(&two).await.unwrap());
        assert_eq!(run.ledger().await.unwrap(), Some(one));
    }
}
