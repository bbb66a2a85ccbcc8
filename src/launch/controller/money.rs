//! What a run may still spend: each machine is granted a life out of what is left, and what it did not use is free again.

use crate::controller::Controller;
use crate::controller::events::{Action, End, Rentable};
use crate::controller::phase::{Next, Phase};
use crate::ports::machine::{Machine, MachineId};
use gpuplan_runstore::{Lease, Ledger};
use gpuplan_units::Usd;

impl Controller {
    /// As the store should have it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Seconds that each of so many machines may live: the longest life, or as far as the money goes beyond what is kept. `None`: it does not
    /// go far enough for a start.
    pub(super) fn affordable(&self, choice: &Rentable, machines: u32, kept: Usd) -> Option<f64> {
        let Some(bound) = self.terms.bound else { return Some(self.terms.lifetime) };
        let of_each = self.ledger.left(bound - kept).share(1, i128::from(machines.max(1)));
        let life = Lease::seconds(of_each, choice.most, choice.start).min(self.terms.lifetime);
        let starts = self.terms.limits.changeover.min(self.terms.lifetime);
        (life >= starts && lease_cost(choice, life) <= of_each).then_some(life)
    }

    /// Before the machine is asked for.
    pub(super) fn grant(&mut self, now: f64, token: &str, choice: &Rentable, life: f64) {
        let lease = Lease {
            token: token.to_owned(),
            most_usd_per_hour: choice.most,
            minimum_seconds: choice.minimum_seconds,
            start_usd: choice.start,
            usd: lease_cost(choice, life),
            granted_at: now,
            seconds: life,
            machine: None,
            done: Some(self.done),
        };
        self.ledger.grant(lease);
    }

    /// When the first of these machines ends itself, as far as it is known which lease is theirs.
    pub(super) fn lease_of(&self, machines: &[MachineId]) -> Option<f64> {
        self.ledger.ends_at(|id| machines.iter().any(|machine| machine.0 == id))
    }

    /// A list says whose the leases are.
    pub(super) fn learn_leases(&mut self, listed: &[Machine]) {
        for machine in listed {
            self.ledger.is_had_by(&machine.token, &machine.id.0);
        }
        let ledger = &self.ledger;
        let running = if let Phase::Running { gang, .. } = &mut self.phase { Some(gang) } else { None };
        for gang in running.into_iter().chain(self.beside.as_mut().map(|beside| &mut beside.gang)) {
            let theirs = ledger.ends_at(|id| gang.machines.iter().any(|machine| machine.0 == id));
            gang.ends_at = theirs.unwrap_or(gang.ends_at);
            let before = ledger.done_before(|id| gang.machines.iter().any(|machine| machine.0 == id));
            gang.done_before = gang.done_before.or(before);
        }
    }

    pub(super) fn is_out_of_money(&mut self, now: f64, actions: &mut Vec<Action>) {
        self.end_all(now, Next::End(End::OutOfBudget), actions);
    }

    pub(super) fn is_gone(&mut self, machine: &MachineId, now: f64) {
        self.rentals.end(machine, now);
        self.ledger.settle(&machine.0, now);
    }

    /// Once nothing can appear any more: what a list does not name is gone, or never was.
    pub(super) fn settle_unheard(&mut self, now: f64, asked_at: f64, listed: &[Machine]) {
        if asked_at < self.unclear_until {
            return;
        }
        let awaited = self.awaited();
        self.ledger.void_unheard(awaited.as_deref());
        let is_there = |id: &String| {
            listed.iter().any(|machine| machine.id.0 == *id)
                || self.rentals.open().any(|rental| rental.machine.0 == *id)
        };
        // Of a machine whose order is still to be answered, one list may tell and an earlier one, that comes later, may not.
        let is_answered = |lease: &&Lease| Some(lease.token.as_str()) != awaited.as_deref();
        let leases = self.ledger.open.iter().filter(is_answered);
        let gone: Vec<String> = leases.filter_map(|lease| lease.machine.clone()).filter(|id| !is_there(id)).collect();
        for machine in gone {
            self.ledger.settle(&machine, now);
        }
    }

    /// The leader before this one has granted more than this one knew. The order that took the same number was not sent.
    pub(super) fn granted_elsewhere(&mut self, now: f64, theirs: Ledger, actions: &mut Vec<Action>) {
        let theirs = theirs.inherited();
        self.ledger.number = self.ledger.number.max(theirs.number);
        self.ledger.fruitless = self.ledger.fruitless.max(theirs.fruitless);
        for lease in theirs.open {
            if !self.ledger.open.iter().any(|known| known.token == lease.token) {
                self.ledger.open.push(lease);
            }
        }
        self.unclear_until = self.unclear_until.max(now + self.terms.settles);
        let Some(token) = self.awaited() else { return };
        self.ledger.void(&token);
        if self.beside.is_some() {
            self.give_up_beside(now, "another leader had granted its lease", actions);
        } else {
            self.end_all(now, Next::Choose, actions);
        }
    }
}

fn lease_cost(choice: &Rentable, life: f64) -> Usd {
    Lease::cost(life, choice.most, choice.minimum_seconds, choice.start)
}
