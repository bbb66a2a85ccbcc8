//! From what a run left in its store to charges: what each machine cost, and how much of it bought nothing.

mod side_costs;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::charge::{Allocation, Charge, Costs, Item, Nature, Resource, Waste};
use gpuplan_runstore::{AllRented, Billed, Epoch, Expected, Rented, Stored};

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
    /// Agents (epoch, node) that reported their end.
    pub ended: BTreeSet<(u64, u32)>,
    /// In the words of `status`; `None`: it still runs, or nobody knows.
    pub outcome: Option<String>,
    /// Somebody rents its machines, and tells of them.
    pub is_led: bool,
    /// Root disk of each machine; `None`: unknown.
    pub disk_gib: Option<u32>,
    /// In its store now.
    pub stored: Vec<Stored>,
}

/// A run of which a charge is beyond counting: figures in its store are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the charge `{0}` is more than this program can count")]
pub struct UncountableCharge(pub String);

/// A charge, and whether it can still grow.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCharge {
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

/// How a machine's paid time was used. Nanoseconds.
struct PaidTime {
    idle: i128,
    working: i128,
    redone: i128,
}

impl RunFacts {
    pub fn team(&self) -> Option<String> {
        self.tags.get("team").cloned()
    }

    fn allocation(&self) -> Allocation {
        Allocation { run: Some(self.run.clone()), team: self.team(), tags: self.tags.clone() }
    }

    pub fn is_completed(&self) -> bool {
        self.outcome.as_deref() == Some("completed")
    }

    /// What its machines cost, whose lines add up to what their clouds bill for them to the nano-dollar, and what is paid besides them.
    pub fn charges(&self, now: Timestamp) -> Result<Vec<RunCharge>, UncountableCharge> {
        let seen = self.seen();
        let mut found: Vec<RunCharge> = seen.iter().flat_map(|machine| self.machine_charges(machine, now)).collect();
        found.extend(self.side_costs(&seen, now)?);
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

    fn machine_charges(&self, machine: &Seen, now: Timestamp) -> Vec<RunCharge> {
        let Some(paid) = self.paid(machine) else { return Vec::new() };
        let is_open = self.is_open(machine, now);
        let (total, time) = (paid.cost(), self.paid_time(machine, &paid, is_open));
        let price = machine.rented.and_then(|rented| self.price(&rented.place));
        let list = price.map_or(paid.rate_usd_per_hour, |price| price.list_usd_per_hour);
        let [working, redone, idle] = total.split([time.working, time.redone, time.idle]);
        let lines = [
            ("work", Item::Machines, None, time.working, working),
            ("redone", Item::LostWork, Some(Waste::Redone), time.redone, redone),
            ("idle", Item::Machines, Some(Waste::Idle), time.idle, idle),
        ];
        let lines = lines.into_iter().filter(|(_, _, _, nanos, _)| *nanos > 0);
        lines
            .map(|(what, item, waste, nanos, cost)| {
                let mut charge = self.machine_charge(machine, &paid);
                charge.id = format!("{}/{what}", self.machine_id(machine));
                (charge.item, charge.waste) = (item, waste);
                charge.quantity = nanos as f64 / NANOS_PER_HOUR;
                let listed = cost.share(i128::from(list.nanos()), i128::from(paid.rate_usd_per_hour.nanos()));
                charge.costs = Costs { list: listed, contracted: cost, effective: cost, billed: None };
                RunCharge { charge, is_open }
            })
            .collect()
    }

    /// Of the charges of a machine, the beginning of their ids.
    fn machine_id(&self, machine: &Seen) -> String {
        format!("run/{}@{}/e{}-{}{}", self.run, self.key, machine.epoch, machine.node, machine.suffix())
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
            minimum_seconds: rented.minimum_seconds,
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
    fn paid_time(&self, machine: &Seen, paid: &Billed, is_open: bool) -> PaidTime {
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
        PaidTime { idle: whole - working - redone, working, redone }
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

    /// Without id and amounts.
    fn machine_charge(&self, machine: &Seen, paid: &Billed) -> Charge {
        let (rented, expected) = (machine.rented, self.expected.as_ref());
        let price = rented.and_then(|rented| self.price(&rented.place));
        let real = (paid.paid_nanos() as f64 / self.speed.max(f64::MIN_POSITIVE)) as i64;
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
            allocation: self.allocation(),
            start: paid.from,
            end: paid.from.checked_add(SignedDuration::from_nanos(real)).unwrap_or(Timestamp::MAX),
            resource: Resource {
                cloud: rented
                    .map(|rented| rented.cloud.clone())
                    .or_else(|| self.cloud.clone())
                    .unwrap_or_else(|| "unknown".to_owned()),
                region: rented.map(|rented| rented.region.clone()),
                zone: rented.and_then(|rented| rented.zone.clone()),
                id: rented.map(|rented| rented.machine.clone()),
                instance_type: rented.map(|rented| rented.instance_type.clone()),
                gpu: expected.map(|expected| expected.gpu.clone()),
                gpus: expected.map(|expected| expected.gpus_per_node),
                purchase: rented.map(|rented| rented.purchase.clone()),
            },
            quantity: 0.0,
            unit: "hour".to_owned(),
            unit_price: paid.rate_usd_per_hour.times(1),
            costs: Costs::default(),
            waste: None,
            source: price
                .map_or_else(|| "agreed at launch".to_owned(), |price| format!("{} {}", price.origin, price.source)),
            priced_at: price.map(|price| price.observed_at),
            assumption: format!("{seen_by}, billed by 1 s, {} s at least{safe}", paid.minimum_seconds),
            invoice: None,
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

#[cfg(test)]
mod tests;
