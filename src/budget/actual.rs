//! From what a run left in its store to charges: what each machine cost, and how much of it bought nothing.

mod beside;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::charge::{Charge, Costs, Item, Nature, Waste};
use gpuplan_runstore::{AllRented, Billed, Epoch, Expected, Rented, Stored};
use gpuplan_units::{Usd, UsdPerHour};

const NANOS_PER_HOUR: f64 = 3.6e12;
/// An agent whose successor began so long ago writes no bill any more: it looks for a successor at every heartbeat.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);
/// So far may the clocks of a machine and of who leads the run lie apart while it runs. Judgement.
const CLOCKS: SignedDuration = SignedDuration::from_mins(1);

/// Everything that one run says about its money.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    pub run: String,
    /// The same wherever the store is seen from, and no other run's: a hash of what the run was begun with.
    pub key: String,
    /// Of runs that a launch has not begun; else the machines name it.
    pub cloud: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub expected: Option<Expected>,
    /// Of one machine, as planned: without waiting, interruptions and what they cost.
    pub work_hours: Option<f64>,
    /// How much faster than the clock the time of the run passes: 1, but for stand-ins of clouds.
    pub speed: f64,
    pub epochs: BTreeMap<u64, Epoch>,
    pub billed: Vec<Billed>,
    pub rented: Option<AllRented>,
    /// Agents (epoch, node) that said that they have ended.
    pub ended: BTreeSet<(u64, u32)>,
    /// In the words of `status`; `None`: it goes on, or nobody said.
    pub outcome: Option<String>,
    /// Somebody rents its machines, and tells of them.
    pub is_led: bool,
    /// Root disk of each machine; `None`: nobody said.
    pub disk_gib: Option<u32>,
    /// In its store now.
    pub stored: Vec<Stored>,
}

/// A run of which a charge is beyond counting: figures in its store are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the charge `{0}` is more than this program can count")]
pub struct Uncountable(pub String);

/// A charge, and whether it can still grow.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub charge: Charge,
    pub is_open: bool,
}

/// One machine as the one who led the run and the agents on it saw it; at least one of them did. An agent numbers its epochs in
/// the store, a leader numbers its orders: the two are brought together by their time.
#[derive(Clone)]
struct Seen<'a> {
    epoch: u64,
    node: u32,
    rented: Option<&'a Rented>,
    /// Earliest first: a machine may have had one agent after the other.
    billed: Vec<&'a Billed>,
}

/// Nanoseconds of a machine's paid time.
struct Parts {
    idle: i128,
    working: i128,
    redone: i128,
}

impl RunFacts {
    pub fn team(&self) -> Option<String> {
        self.tags.get("team").cloned()
    }

    pub fn is_completed(&self) -> bool {
        self.outcome.as_deref() == Some("completed")
    }

    /// What its machines cost, whose lines add up to what their clouds bill for them to the nano-dollar, and what is paid beside them.
    pub fn charges(&self, now: Timestamp) -> Result<Vec<Found>, Uncountable> {
        let seen = self.seen();
        let mut found: Vec<Found> = seen.iter().flat_map(|machine| self.charges_of(machine, now)).collect();
        found.extend(self.charges_beside(&seen, now)?);
        Ok(found)
    }

    fn seen(&self) -> Vec<Seen<'_>> {
        let rented = self.rented.iter().flat_map(|all| &all.machines);
        let mut seen: Vec<Seen> = rented
            .map(|machine| Seen { epoch: machine.epoch, node: machine.node, rented: Some(machine), billed: Vec::new() })
            .collect();
        let mut billed: Vec<&Billed> = self.billed.iter().collect();
        billed.sort_by_key(|billed| (billed.from, billed.epoch, billed.node));
        for billed in billed {
            match self.machine_of(billed, &seen) {
                Some(at) => seen[at].billed.push(billed),
                None => seen.push(Seen { epoch: billed.epoch, node: billed.node, rented: None, billed: vec![billed] }),
            }
        }
        seen.sort_by_key(|one| (one.epoch, one.node, one.suffix()));
        seen
    }

    /// The rented machine on which an agent ran: of its node, at its time. `None`: one that nobody told of yet.
    fn machine_of(&self, billed: &Billed, seen: &[Seen]) -> Option<usize> {
        // Where the run has ended, every machine is told, and clocks may be as wrong as they like.
        let is_whole = self.rented.as_ref().is_some_and(|all| all.end.is_some());
        let slack = if is_whole { i128::MAX } else { (CLOCKS.as_nanos() as f64 / self.speed.max(1.0)) as i128 };
        let near = seen.iter().enumerate().filter_map(|(at, machine)| {
            let rented = machine.rented.filter(|rented| rented.node == billed.node)?;
            let before = rented.from.duration_since(billed.from).as_nanos();
            let after = rented.to.map_or(0, |to| billed.from.duration_since(to).as_nanos());
            Some((before.max(after).max(0), at))
        });
        near.filter(|(distance, _)| *distance <= slack)
            .min_by_key(|(distance, at)| (*distance, Reverse(*at)))
            .map(|(_, at)| at)
    }

    fn charges_of(&self, machine: &Seen, now: Timestamp) -> Vec<Found> {
        let Some(paid) = self.paid(machine) else { return Vec::new() };
        let is_open = self.is_open(machine, now);
        let (total, parts) = (paid.cost(), self.parts(machine, &paid, is_open));
        let price = machine.rented.and_then(|rented| self.price(&rented.place));
        let list = price.map_or(paid.rate_usd_per_hour, |price| price.list_usd_per_hour);
        let [working, redone, idle] = total.split([parts.working, parts.redone, parts.idle]);
        let lines = [
            ("work", Item::Machines, None, parts.working, working),
            ("redone", Item::LostWork, Some(Waste::Redone), parts.redone, redone),
            ("idle", Item::Machines, Some(Waste::Idle), parts.idle, idle),
        ];
        let lines = lines.into_iter().filter(|(_, _, _, nanos, _)| *nanos > 0);
        lines
            .map(|(what, item, waste, nanos, cost)| {
                let mut charge = self.blank(machine, &paid);
                charge.id = format!(
                    "run/{}@{}/e{}-{}{}/{what}",
                    self.run,
                    self.key,
                    machine.epoch,
                    machine.node,
                    machine.suffix()
                );
                (charge.item, charge.waste) = (item, waste);
                charge.quantity = nanos as f64 / NANOS_PER_HOUR;
                let listed = cost.share(i128::from(list.nanos()), i128::from(paid.rate_usd_per_hour.nanos()));
                charge.costs = Costs { list: listed, contracted: cost, effective: cost, billed: None };
                Found { charge, is_open }
            })
            .collect()
    }

    fn price(&self, place: &str) -> Option<&gpuplan_runstore::ExpectedPrice> {
        self.expected.as_ref()?.prices.iter().find(|price| price.place == place)
    }

    /// The interval that is paid: as the leader saw it, else as the agent did.
    fn paid(&self, machine: &Seen) -> Option<Billed> {
        let Some(rented) = machine.rented else {
            let billed = *machine.billed.first()?;
            return Some(Billed { elapsed_nanos: self.paced(billed.elapsed_nanos) as u64, ..billed.clone() });
        };
        Some(Billed {
            epoch: rented.epoch,
            node: rented.node,
            rate_usd_per_hour: rented.rate_usd_per_hour,
            rule: rented.rule,
            from: rented.from,
            elapsed_nanos: (rented.seconds * 1e9).round() as u64,
            free_if_interrupted_within_seconds: machine
                .billed
                .iter()
                .map(|one| one.free_if_interrupted_within_seconds)
                .max()
                .unwrap_or(0),
            is_interrupted: machine.billed.iter().any(|one| one.is_interrupted),
            started_after_nanos: None,
            saved: None,
        })
    }

    /// Real nanoseconds as nanoseconds of the run.
    fn paced(&self, nanos: u64) -> i128 {
        if self.speed == 1.0 { i128::from(nanos) } else { (nanos as f64 * self.speed) as i128 }
    }

    fn since(&self, from: Timestamp, to: Timestamp) -> i128 {
        let nanos = to.duration_since(from).as_nanos().max(0);
        if self.speed == 1.0 { nanos } else { (nanos as f64 * self.speed) as i128 }
    }

    /// How the paid time divides: before a program started and after it ended nothing was done; what was done after the last
    /// checkpoint that counts was done again, or for nothing.
    fn parts(&self, machine: &Seen, paid: &Billed, is_open: bool) -> Parts {
        let whole = paid.paid_nanos();
        let (mut working, mut redone, mut passed) = (0, 0, 0);
        for billed in &machine.billed {
            let within = |nanos: i128| nanos.clamp(passed, whole);
            let before = if machine.rented.is_some() { self.since(paid.from, billed.from) } else { 0 };
            let started = within(before + billed.started_after_nanos.map_or(0, |nanos| self.paced(nanos)));
            let ended = within(before + self.paced(billed.elapsed_nanos)).max(started);
            let kept = match self.kept_until(billed.epoch, is_open) {
                Kept::All => ended,
                Kept::Nothing => started,
                Kept::Until(at) => within(self.since(paid.from, at)).clamp(started, ended),
            };
            (working, redone, passed) = (working + kept - started, redone + ended - kept, ended);
        }
        Parts { idle: whole - working - redone, working, redone }
    }

    /// Until when the work of an epoch counts. The next epoch says what it started from; the first machine when it was saved.
    /// What goes on still has lost nothing yet.
    fn kept_until(&self, epoch: u64, is_open: bool) -> Kept {
        let newest = self.epochs.keys().chain(self.billed.iter().map(|billed| &billed.epoch)).max();
        if (self.is_completed() || is_open) && newest == Some(&epoch) {
            return Kept::All;
        }
        let first = self.billed.iter().find(|billed| (billed.epoch, billed.node) == (epoch, 0));
        let Some(first) = first else { return Kept::Nothing };
        let after = |nanos: u64| {
            let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
            first.from.checked_add(SignedDuration::from_nanos(nanos)).unwrap_or(Timestamp::MAX)
        };
        let next = self.epochs.range(epoch + 1..).next().map(|(_, next)| next.restored_from);
        match (first.saved, next) {
            // An agent that says neither is older than these words: nothing is claimed of its work.
            (None, _) if first.started_after_nanos.is_none() => Kept::All,
            (None, _) => Kept::Nothing,
            (Some(saved), None) => Kept::Until(after(saved.after_nanos)),
            (Some(saved), Some(Some(origin))) if origin.epoch == epoch => {
                // Of work that was saved and not gone on from, the part by steps.
                let begun = self.epochs.get(&epoch).and_then(|own| own.restored_from).map_or(0, |origin| origin.step);
                let (made, used) =
                    (saved.step.saturating_sub(begun), origin.step.min(saved.step).saturating_sub(begun));
                let from = first.started_after_nanos.unwrap_or(0).min(saved.after_nanos);
                let part = if made == 0 { 1.0 } else { used as f64 / made as f64 };
                Kept::Until(after(from + ((saved.after_nanos - from) as f64 * part) as u64))
            }
            (Some(_), Some(_)) => Kept::Nothing,
        }
    }

    /// Whether it can still grow, or another part of it be lost.
    fn is_open(&self, machine: &Seen, now: Timestamp) -> bool {
        if let Some(rented) = machine.rented {
            return rented.to.is_none();
        }
        // Who leads the run will tell of it, with the time before and after the agent.
        if self.is_led && self.rented.as_ref().is_none_or(|all| all.end.is_none()) {
            return true;
        }
        let next = self.epochs.range(machine.epoch + 1..).next();
        let is_followed = next.is_some_and(|(_, next)| now.duration_since(next.started_at) > SETTLED);
        !is_followed && !self.ended.contains(&(machine.epoch, machine.node))
    }

    fn blank(&self, machine: &Seen, paid: &Billed) -> Charge {
        let (rented, expected) = (machine.rented, self.expected.as_ref());
        let price = rented.and_then(|rented| self.price(&rented.place));
        let real = (paid.paid_nanos() as f64 / self.speed.max(f64::MIN_POSITIVE)) as i64;
        let rule = paid.rule;
        let seen_by = if rented.is_some() {
            "from the order to its end"
        } else {
            "while its agent ran, which is less than the cloud bills"
        };
        let safe = if machine.billed.is_empty() { "; its agent said nothing" } else { "" };
        Charge {
            id: String::new(),
            nature: Nature::Actual,
            item: Item::Machines,
            run: Some(self.run.clone()),
            team: self.team(),
            tags: self.tags.clone(),
            start: paid.from,
            end: paid.from.checked_add(SignedDuration::from_nanos(real)).unwrap_or(Timestamp::MAX),
            cloud: rented
                .map(|rented| rented.cloud.clone())
                .or_else(|| self.cloud.clone())
                .unwrap_or_else(|| "unknown".to_owned()),
            region: rented.map(|rented| rented.region.clone()),
            zone: rented.and_then(|rented| rented.zone.clone()),
            resource: rented.map(|rented| rented.machine.clone()),
            instance_type: rented.map(|rented| rented.instance_type.clone()),
            gpu: expected.map(|expected| expected.gpu.clone()),
            gpus: expected.map(|expected| expected.gpus_per_node),
            purchase: rented.map(|rented| rented.purchase.clone()),
            quantity: 0.0,
            unit: "hour".to_owned(),
            unit_price: rate(paid.rate_usd_per_hour),
            costs: Costs::default(),
            waste: None,
            source: price
                .map_or_else(|| "agreed at launch".to_owned(), |price| format!("{} {}", price.origin, price.source)),
            priced_at: price.map(|price| price.observed_at),
            assumption: format!(
                "{seen_by}, billed by {} s, {} s at least{safe}",
                rule.step_seconds.max(1),
                rule.minimum_seconds
            ),
        }
    }
}

enum Kept {
    All,
    Nothing,
    Until(Timestamp),
}

impl Seen<'_> {
    /// A cloud may have given two machines for one order.
    fn suffix(&self) -> String {
        self.rented.map_or_else(String::new, |rented| format!("-{}", rented.machine))
    }
}

fn rate(rate: UsdPerHour) -> Usd {
    rate.times(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use gpuplan_runstore::ManifestName;
    use gpuplan_runstore::billed::Saved;
    use gpuplan_runstore::epoch::Owner;
    use gpuplan_units::BillingRule;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    fn epoch(started: i64, restored_from: Option<ManifestName>) -> Epoch {
        let owner =
            Owner { machine: "m".to_owned(), host: "h".to_owned(), pid: 1, start_ticks: 1, control_group: None };
        Epoch { owner, started_at: at(started), heartbeat_seconds: 1.0, restored_from, nodes: 1 }
    }

    /// By a dollar an hour, so that hours are dollars.
    fn billed(epoch: u64, from: i64, seconds: u64, started: u64, saved: Option<(u64, u64)>) -> Billed {
        Billed {
            epoch,
            node: 0,
            rate_usd_per_hour: UsdPerHour::parse("1").unwrap(),
            rule: BillingRule { step_seconds: 1, minimum_seconds: 0 },
            from: at(from),
            elapsed_nanos: seconds * 1_000_000_000,
            free_if_interrupted_within_seconds: 0,
            is_interrupted: false,
            started_after_nanos: Some(started * 1_000_000_000),
            saved: saved.map(|(step, after)| Saved { step, after_nanos: after * 1_000_000_000 }),
        }
    }

    fn facts() -> RunFacts {
        RunFacts { run: "a".to_owned(), key: "k".to_owned(), speed: 1.0, ..RunFacts::default() }
    }

    fn hours(found: &[Found], what: &str) -> f64 {
        found.iter().filter(|one| one.charge.id.ends_with(what)).map(|one| one.charge.quantity).sum()
    }

    #[test]
    fn work_after_the_last_checkpoint_was_done_again_and_waiting_is_idle() {
        let mut facts = facts();
        facts.epochs =
            BTreeMap::from([(1, epoch(0, None)), (2, epoch(7200, Some(ManifestName { step: 50, epoch: 1 })))]);
        // An hour of staging, saved an hour later, taken two hours after that; then three hours to the end.
        facts.billed = vec![
            billed(1, 0, 4 * 3600, 3600, Some((50, 2 * 3600))),
            billed(2, 5 * 3600, 3 * 3600, 0, Some((100, 3 * 3600 - 60))),
        ];
        facts.outcome = Some("completed".to_owned());
        let found = facts.charges(at(1_000_000)).unwrap();
        let of = |what| hours(&found, what);
        assert_eq!((of("e1-0/idle"), of("e1-0/work"), of("e1-0/redone")), (1.0, 1.0, 2.0));
        assert_eq!(
            (of("e2-0/work"), of("e2-0/redone"), of("e2-0/idle")),
            (3.0, 0.0, 0.0),
            "the end of a completed run is safe"
        );
        assert!(found.iter().filter(|one| one.charge.id.contains("e1")).all(|one| !one.is_open));
        assert!(found.iter().any(|one| one.is_open), "its agent has not said that it ended");
        facts.ended.insert((2, 0));
        assert!(facts.charges(at(1_000_000)).unwrap().iter().all(|one| !one.is_open));
        let lost: Vec<_> = found.iter().filter(|one| one.charge.waste == Some(Waste::Redone)).collect();
        assert_eq!(
            (lost.len(), lost[0].charge.item, lost[0].charge.costs.contracted.to_string().as_str()),
            (1, Item::LostWork, "2.00")
        );
    }

    #[test]
    fn what_was_not_gone_on_from_is_lost_though_it_was_saved() {
        let mut facts = facts();
        facts.billed = vec![billed(1, 0, 4 * 3600, 0, Some((100, 4 * 3600)))];
        let lost = |origin: Option<ManifestName>, facts: &mut RunFacts| {
            facts.epochs = BTreeMap::from([(1, epoch(0, None)), (2, epoch(5 * 3600, origin))]);
            hours(&facts.charges(at(1_000_000)).unwrap(), "e1-0/redone")
        };
        assert_eq!(lost(None, &mut facts), 4.0, "begun again from nothing");
        assert_eq!(lost(Some(ManifestName { step: 100, epoch: 1 }), &mut facts), 0.0);
        assert_eq!(lost(Some(ManifestName { step: 75, epoch: 1 }), &mut facts), 1.0, "a quarter of the steps");
    }

    fn rented(seconds: f64, to: Option<i64>) -> Rented {
        Rented {
            machine: "i-1".to_owned(),
            epoch: 1,
            node: 0,
            cloud: "aws".to_owned(),
            region: "us-east-1".to_owned(),
            zone: None,
            instance_type: "g5.xlarge".to_owned(),
            purchase: "spot".to_owned(),
            place: "aws/us-east-1/g5.xlarge spot".to_owned(),
            rate_usd_per_hour: UsdPerHour::parse("1").unwrap(),
            rule: BillingRule { step_seconds: 1, minimum_seconds: 60 },
            from: at(0),
            to: to.map(at),
            seconds,
        }
    }

    #[test]
    fn who_leads_a_run_knows_of_booting_and_ending_and_of_machines_that_never_spoke() {
        let mut facts = facts();
        facts.rented = Some(AllRented { machines: vec![rented(7200.0, Some(7200))], ..AllRented::default() });
        let found = facts.charges(at(0)).unwrap();
        assert_eq!((hours(&found, "/idle"), found.len(), found[0].is_open), (2.0, 1, false));
        facts.billed = vec![billed(1, 1800, 3600, 0, Some((9, 3600)))];
        let found = facts.charges(at(0)).unwrap();
        assert_eq!((hours(&found, "/idle"), hours(&found, "/work")), (1.0, 1.0));
        assert_eq!(found[0].charge.resource.as_deref(), Some("i-1"));
        facts.rented = Some(AllRented { machines: vec![rented(7200.0, None)], ..AllRented::default() });
        assert!(facts.charges(at(0)).unwrap().iter().all(|one| one.is_open));
    }

    #[test]
    fn an_agent_belongs_to_the_machine_of_its_time_whatever_the_numbers() {
        let mut facts = RunFacts { is_led: true, ..facts() };
        // The third order was the first to be answered; two agents ran on it, one after the other.
        let first = Rented { epoch: 3, ..rented(7200.0, Some(7200)) };
        let second = Rented {
            epoch: 4,
            machine: "i-2".to_owned(),
            from: at(10_000),
            to: Some(at(13_600)),
            ..rented(3600.0, None)
        };
        facts.rented = Some(AllRented { machines: vec![first, second.clone()], ..AllRented::default() });
        let agents = [
            billed(1, 0, 1800, 0, Some((1, 1800))),
            billed(2, 3600, 3600, 0, Some((2, 3600))),
            billed(3, 10_000, 3600, 0, Some((3, 3600))),
        ];
        facts.billed = agents.to_vec();
        let found = facts.charges(at(1_000_000)).unwrap();
        assert_eq!(
            (hours(&found, "e3-0-i-1/work"), hours(&found, "e3-0-i-1/idle"), hours(&found, "e4-0-i-2/work")),
            (1.5, 0.5, 1.0)
        );
        // One that nobody told of yet grows, and is entered once it is told.
        facts.rented =
            Some(AllRented { machines: facts.rented.unwrap().machines[..1].to_vec(), ..AllRented::default() });
        let found = facts.charges(at(1_000_000)).unwrap();
        let open: Vec<&str> = found.iter().filter(|one| one.is_open).map(|one| one.charge.id.as_str()).collect();
        assert_eq!(open, ["run/a@k/e3-0/work"]);
        assert_eq!(found.iter().map(|one| one.charge.quantity).sum::<f64>(), 3.0);
    }

    #[test]
    fn a_stand_in_passes_its_time_faster() {
        let mut facts = RunFacts { speed: 600.0, is_led: true, ..facts() };
        facts.rented = Some(AllRented { machines: vec![rented(7200.0, Some(12))], ..AllRented::default() });
        facts.billed = vec![billed(1, 3, 6, 0, Some((9, 6)))];
        let found = facts.charges(at(0)).unwrap();
        assert_eq!((hours(&found, "/idle"), hours(&found, "/work")), (1.0, 1.0));
        assert_eq!((found[0].charge.start, found[0].charge.end), (at(0), at(12)));
    }

    proptest! {
        #[test]
        fn the_lines_of_a_machine_are_its_bill(
            rate in 1_i64..100_000_000_000, seconds in 0_u64..1_000_000, started in 0_u64..1_000_000, saved in 0_u64..1_000_000,
            step in 1_u32..4000, minimum in 0_u32..4000,
        ) {
            let mut one = billed(1, 0, seconds, started, Some((5, saved)));
            one.rate_usd_per_hour = UsdPerHour::from_nanos(rate);
            one.rule = BillingRule { step_seconds: step, minimum_seconds: minimum };
            let mut facts = facts();
            facts.billed = vec![one.clone()];
            let found = facts.charges(at(0)).unwrap();
            let total: Usd = found.iter().map(|line| line.charge.costs.contracted).sum();
            prop_assert_eq!(total, one.cost());
            prop_assert!(found.iter().all(|line| line.charge.costs.contracted >= Usd::ZERO && line.charge.quantity >= 0.0));
            let hours: f64 = found.iter().map(|line| line.charge.quantity).sum();
            prop_assert!((hours - one.paid_nanos() as f64 / NANOS_PER_HOUR).abs() < 1e-9);
        }
    }
}
