//! Orders of a gang: one machine after the other, repeated until the answer is clear, and given back where nobody waits for it.

use crate::controller::events::{Action, Order, Rentable};
use crate::controller::liveness::Liveness;
use crate::controller::phase::{Gang, Next, Open, Phase, Which};
use crate::controller::rental::Rental;
use crate::controller::{Controller, FIRST_PAUSE};
use crate::names;
use crate::ports::launch_error::LaunchError;
use crate::ports::machine::{Machine, MachineId};
use gpuplan_spot::policy::reason::Reason;

const LONGEST_PAUSE: f64 = 60.0;
/// Calls without a clear answer before the next place is tried.
const MOST_TRIES: u32 = 6;

impl Controller {
    pub(super) fn order_gang(&mut self, now: f64, which: Which, reason: Reason, actions: &mut Vec<Action>) {
        if self.affordable(self.choice(which), self.terms.nodes).is_none() {
            return self.is_out_of_money(now, actions);
        }
        self.epoch += 1;
        actions.push(Action::Say(format!("asking for {} x {}: {reason}", self.terms.nodes, self.choice(which).pool)));
        let gang = Gang { epoch: self.epoch, which, since: now, ends_at: f64::INFINITY, machines: Vec::new() };
        self.order(now, gang, actions);
    }

    pub(super) fn choice(&self, which: Which) -> &Rentable {
        match which {
            Which::Spot(pool) => &self.terms.spot[pool],
            Which::OnDemand(choice) => &self.terms.on_demand[choice],
        }
    }

    /// The next machine of a gang.
    fn order(&mut self, now: f64, mut gang: Gang, actions: &mut Vec<Action>) {
        let (node, choice) = (gang.machines.len() as u32, self.choice(gang.which).clone());
        let Some(lifetime) = self.affordable(&choice, self.terms.nodes - node) else {
            self.phase = Phase::Choosing { from: now };
            return self.is_out_of_money(now, actions);
        };
        self.orders += 1;
        let token = names::token(&self.terms.launch, gang.epoch, node, self.orders);
        self.grant(now, &token, &choice, lifetime);
        gang.ends_at = gang.ends_at.min(now + lifetime);
        let order = Order {
            epoch: gang.epoch,
            node,
            token,
            name: names::machine(&self.terms.launch.run, gang.epoch, node),
            lifetime,
            ledger: self.ledger.clone(),
            choice,
        };
        actions.push(Action::Create(order.clone()));
        self.phase = Phase::Creating { gang, open: Open { order, sent_at: now, tries: 1, again_at: None } };
    }

    pub(super) fn create(&mut self, now: f64, gang: Gang, mut open: Open, actions: &mut Vec<Action>) {
        if now > gang.since + self.terms.gang_limit {
            actions.push(Action::Say(format!(
                "not all {} machines arrived in time; those that did are released",
                self.terms.nodes
            )));
            if let Which::Spot(pool) = gang.which {
                self.watch.failed(pool);
            }
            let refusal = LaunchError::Capacity { code: "incomplete gang".to_owned() };
            self.refusals.refused(&self.choice(gang.which).pool.clone(), &refusal, now);
            self.unclear_until = self.unclear_until.max(now + self.terms.settles);
            self.end_all(now, Next::Choose, actions);
            return;
        }
        match open.again_at {
            Some(at) if now >= at => {
                (open.tries, open.again_at) = (open.tries + 1, None);
                actions.push(Action::Create(open.order.clone()));
            }
            Some(at) => actions.push(Action::Wake(at)),
            None => actions.push(Action::Wake(gang.since + self.terms.gang_limit + 1.0)),
        }
        self.phase = Phase::Creating { gang, open };
    }

    pub(super) fn answered(
        &mut self,
        now: f64,
        token: &str,
        outcome: Result<Machine, LaunchError>,
        actions: &mut Vec<Action>,
    ) {
        if let Ok(machine) = &outcome {
            self.ledger.is_had_by(&machine.token, &machine.id.0);
        }
        let Phase::Creating { gang, open } = self.phase.clone() else { return self.not_wanted(now, outcome, actions) };
        if open.order.token != token {
            return self.not_wanted(now, outcome, actions);
        }
        match outcome {
            Ok(machine) => self.joined(now, gang, &open, &machine.id, actions),
            Err(LaunchError::Unclear { code }) if open.tries < MOST_TRIES => {
                let pause = (FIRST_PAUSE * 2_f64.powi(open.tries as i32 - 1)).min(LONGEST_PAUSE);
                actions.push(Action::Say(format!(
                    "{}: no clear answer ({code}), retrying in {pause:.0} s",
                    open.order.choice.pool
                )));
                self.unclear_until = now + self.terms.settles;
                self.phase = Phase::Creating { gang, open: Open { again_at: Some(now + pause), ..open } };
            }
            Err(error) => self.was_refused(now, &gang, &open, &error, actions),
        }
    }

    fn joined(&mut self, now: f64, mut gang: Gang, open: &Open, machine: &MachineId, actions: &mut Vec<Action>) {
        self.rent(machine, &open.order.choice, open.sent_at, now);
        gang.machines.push(machine.clone());
        if (gang.machines.len() as u32) < self.terms.nodes {
            return self.order(now, gang, actions);
        }
        let choice = self.choice(gang.which).clone();
        self.refusals.gave(&choice.pool);
        if let Which::Spot(pool) = gang.which {
            self.last_pool = Some(pool);
        }
        actions.push(Action::Say(format!(
            "rented {} x {} at ${} an hour a machine",
            self.terms.nodes, choice.pool, choice.rate
        )));
        self.phase = Phase::Running {
            gang,
            liveness: Liveness::watched_since(now),
            looked_at: now,
            decided_at: now,
            is_working: false,
            has_spoken: false,
            leaving: None,
        };
    }

    fn was_refused(&mut self, now: f64, gang: &Gang, open: &Open, error: &LaunchError, actions: &mut Vec<Action>) {
        let pool = &open.order.choice.pool;
        self.last_refusal = Some((pool.clone(), error.clone()));
        actions.push(Action::Say(format!("{pool}: {error}")));
        if let LaunchError::Unclear { .. } = error {
            self.unclear_until = now + self.terms.settles;
        } else if open.tries == 1 {
            // Nothing came of the only call.
            self.ledger.void(&open.order.token);
        }
        if let LaunchError::Request { .. } = error {
            return self.end_all(now, Next::End(self.refused()), actions);
        }
        // Six calls without a clear answer say as much as none to be had.
        let unclear = LaunchError::Capacity { code: "no clear answer".to_owned() };
        self.refusals.refused(pool, if matches!(error, LaunchError::Unclear { .. }) { &unclear } else { error }, now);
        if let Which::Spot(index) = gang.which {
            self.watch.failed(index);
            for other in 0..self.terms.spot.len() {
                if self.refusals.until(&self.terms.spot[other].pool, now).is_some() {
                    self.watch.failed(other);
                }
            }
        }
        if gang.machines.is_empty() && now >= self.unclear_until {
            // What was asked without an answer has settled meanwhile.
            self.ledger.void_unheard(None);
            self.phase = Phase::Choosing { from: now };
            self.choose(now, actions);
        } else {
            self.end_all(now, Next::Choose, actions);
        }
    }

    /// A machine that nobody waits for any more is ended.
    fn not_wanted(&mut self, now: f64, outcome: Result<Machine, LaunchError>, actions: &mut Vec<Action>) {
        let Ok(machine) = outcome else { return };
        if !self.has(&machine.id) {
            self.give_back(now, &machine, actions);
        }
    }

    pub(super) fn has(&self, machine: &MachineId) -> bool {
        match &self.phase {
            Phase::Creating { gang, .. } | Phase::Running { gang, .. } => gang.machines.contains(machine),
            _ => false,
        }
    }

    pub(super) fn give_back(&mut self, now: f64, machine: &Machine, actions: &mut Vec<Action>) {
        self.rent_as_listed(machine, now);
        actions.push(Action::Destroy(machine.id.clone()));
        if let Phase::Ending { until, .. } = &mut self.phase {
            *until = until.max(now);
        }
    }

    fn rent(&mut self, machine: &MachineId, choice: &Rentable, since: f64, now: f64) {
        if self.rentals.add(Rental {
            machine: machine.clone(),
            rate: choice.rate,
            minimum_seconds: choice.minimum_seconds,
            since,
            until: None,
        }) {
            self.heard_of = now;
        }
    }

    pub(super) fn rent_as_listed(&mut self, machine: &Machine, now: f64) {
        let mut all = self.terms.spot.iter().chain(&self.terms.on_demand);
        if let Some(choice) = all.find(|choice| choice.pool == machine.pool).cloned() {
            self.rent(&machine.id, &choice, now, now);
        }
    }
}
