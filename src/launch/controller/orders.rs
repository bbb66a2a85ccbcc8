//! Orders of a gang: one machine after the other, repeated until the answer is clear, and given back where nobody waits for it.

use crate::controller::events::{Action, Order, Rentable};
use crate::controller::phase::{Beside, Gang, Next, Open, Phase, Which};
use crate::controller::rental::Rental;
use crate::controller::{Controller, FIRST_PAUSE};
use crate::names;
use crate::ports::launch_error::LaunchError;
use crate::ports::machine::{Machine, MachineId};
use gpuplan_spot::history::Saw;
use gpuplan_spot::policy::reason::Reason;

const LONGEST_PAUSE: f64 = 60.0;
/// Calls without a clear answer before the next place is tried.
pub const MOST_TRIES: u32 = 6;

impl Controller {
    pub(super) fn order_gang(&mut self, now: f64, which: Which, reason: Reason, actions: &mut Vec<Action>) {
        if self.life(which, self.choice(which), self.terms.nodes).is_none() {
            return self.is_out_of_money(now, actions);
        }
        self.epoch += 1;
        actions.push(Action::Say(format!("asking for {} x {}: {reason}", self.terms.nodes, self.choice(which).pool)));
        let gang = self.new_gang(now, which);
        self.order_next(now, gang, actions);
    }

    /// The place of the first order; any later one stays where the policy wants it.
    pub(super) fn first_place(&self, which: Which) -> Which {
        let Some(first) = self.terms.first.as_ref().filter(|_| self.orders == 0) else { return which };
        let place = |places: &[Rentable]| places.iter().position(|choice| choice.pool == *first);
        let found = match which {
            Which::Spot(_) => place(&self.terms.spot).map(Which::Spot),
            Which::OnDemand(_) => place(&self.terms.on_demand).map(Which::OnDemand),
        };
        found.unwrap_or(which)
    }

    pub(super) fn new_gang(&self, now: f64, which: Which) -> Gang {
        let changeover = self.changeover(which);
        Gang {
            epoch: self.epoch,
            which,
            since: now,
            changeover,
            ends_at: f64::INFINITY,
            done_before: Some(self.done),
            machines: Vec::new(),
        }
    }

    fn order_next(&mut self, now: f64, gang: Gang, actions: &mut Vec<Action>) {
        match self.order(now, gang, actions) {
            Some((gang, open)) => self.phase = Phase::Creating { gang, open },
            None => {
                self.phase = Phase::Choosing { from: now };
                self.is_out_of_money(now, actions);
            }
        }
    }

    pub(super) fn choice(&self, which: Which) -> &Rentable {
        match which {
            Which::Spot(pool) => &self.terms.spot[pool],
            Which::OnDemand(choice) => &self.terms.on_demand[choice],
        }
    }

    /// The next machine of a gang; `None`: the money does not go far enough.
    pub(super) fn order(&mut self, now: f64, mut gang: Gang, actions: &mut Vec<Action>) -> Option<(Gang, Open)> {
        let (node, choice) = (gang.machines.len() as u32, self.choice(gang.which).clone());
        let lifetime = self.life(gang.which, &choice, self.terms.nodes - node)?;
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
        actions.push(Action::Create(Box::new(order.clone())));
        Some((gang, Open { order, sent_at: now, tries: 1, again_at: None }))
    }

    pub(super) fn create(&mut self, now: f64, actions: &mut Vec<Action>) {
        let Phase::Creating { gang, open } = &mut self.phase else { return };
        let limit = gang.since + self.terms.gang_limit;
        if now > limit {
            let which = gang.which;
            actions.push(Action::Say(format!(
                "not all {} machines arrived in time; those that did are released",
                self.terms.nodes
            )));
            self.is_refused(now, which, "incomplete gang");
            self.unclear_until = self.unclear_until.max(now + self.terms.settles);
            self.end_all(now, Next::Choose, actions);
            return;
        }
        match open.again_at {
            Some(at) if now >= at => {
                (open.tries, open.again_at) = (open.tries + 1, None);
                actions.push(Action::Create(Box::new(open.order.clone())));
            }
            Some(at) => actions.push(Action::Wake(at)),
            None => actions.push(Action::Wake(limit + 1.0)),
        }
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
        if let Some(Beside { gang, open: Some(open) }) =
            self.beside.clone().filter(|_| self.awaited().as_deref() == Some(token))
        {
            return self.answered_beside(now, gang, open, outcome, actions);
        }
        let Phase::Creating { gang, open } = self.phase.clone() else { return self.not_wanted(now, outcome, actions) };
        if open.order.token != token {
            return self.not_wanted(now, outcome, actions);
        }
        match outcome {
            Ok(machine) => self.joined(now, gang, &open, &machine.id, actions),
            Err(LaunchError::Unclear { code }) if open.tries < MOST_TRIES => {
                let open = self.try_later(now, open, &code, actions);
                self.phase = Phase::Creating { gang, open };
            }
            Err(error) => self.was_refused(now, &gang, &open, &error, actions),
        }
    }

    /// An order without a clear answer is repeated after a while.
    pub(super) fn try_later(&mut self, now: f64, open: Open, code: &str, actions: &mut Vec<Action>) -> Open {
        let pause = (FIRST_PAUSE * 2_f64.powi(open.tries as i32 - 1)).min(LONGEST_PAUSE);
        let pool = &open.order.choice.pool;
        actions.push(Action::Say(format!("{pool}: no clear answer ({code}), retrying in {pause:.0} s")));
        self.unclear_until = now + self.terms.settles;
        Open { again_at: Some(now + pause), ..open }
    }

    fn joined(&mut self, now: f64, mut gang: Gang, open: &Open, machine: &MachineId, actions: &mut Vec<Action>) {
        self.rent(machine, &open.order.choice, open.sent_at, now);
        gang.machines.push(machine.clone());
        if (gang.machines.len() as u32) < self.terms.nodes {
            return self.order_next(now, gang, actions);
        }
        self.is_whole(gang.which, actions);
        self.runs(now, gang, actions);
    }

    /// All machines of a gang are there.
    pub(super) fn is_whole(&mut self, which: Which, actions: &mut Vec<Action>) {
        let choice = self.choice(which).clone();
        self.refusals.gave(&choice.pool);
        if let Which::Spot(pool) = which {
            self.watch.gave(pool);
            self.sees(which, Saw::Gave);
        }
        let (nodes, pool, rate) = (self.terms.nodes, &choice.pool, choice.rate);
        actions.push(Action::Say(format!("rented {nodes} x {pool} at ${rate} an hour a machine")));
    }

    /// No capacity there, for now.
    pub(super) fn is_refused(&mut self, now: f64, which: Which, code: &str) {
        match which {
            Which::Spot(pool) => {
                self.pass(now);
                self.watch.refused(pool);
            }
            Which::OnDemand(choice) => {
                let refusal = LaunchError::Capacity { code: code.to_owned() };
                self.refusals.refused(&self.terms.on_demand[choice].pool.clone(), &refusal, now);
            }
        }
    }

    /// What a refusal says of its place.
    pub(super) fn note_refusal(
        &mut self,
        now: f64,
        which: Which,
        open: &Open,
        error: &LaunchError,
        actions: &mut Vec<Action>,
    ) {
        let pool = &open.order.choice.pool;
        self.last_refusal = Some((pool.clone(), error.clone()));
        actions.push(Action::Say(format!("{pool}: {error}")));
        if let LaunchError::Unclear { .. } = error {
            self.unclear_until = now + self.terms.settles;
        } else if open.tries == 1 {
            // Nothing came of the only call.
            self.ledger.void(&open.order.token);
        }
        if let LaunchError::Capacity { .. } = error {
            self.sees(which, Saw::Refused);
        }
        match error {
            // Six calls without a clear answer say as much as none to be had.
            LaunchError::Capacity { .. } | LaunchError::Unclear { .. } | LaunchError::Request { .. } => {
                self.is_refused(now, which, "no clear answer");
            }
            _ => self.refusals.refused(pool, error, now),
        }
    }

    fn was_refused(&mut self, now: f64, gang: &Gang, open: &Open, error: &LaunchError, actions: &mut Vec<Action>) {
        self.note_refusal(now, gang.which, open, error, actions);
        if let LaunchError::Request { .. } = error {
            return self.end_all(now, Next::End(self.refused()), actions);
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
        let is_of_gang = match &self.phase {
            Phase::Creating { gang, .. } | Phase::Running { gang, .. } => gang.machines.contains(machine),
            _ => false,
        };
        is_of_gang || self.beside.as_ref().is_some_and(|beside| beside.gang.machines.contains(machine))
    }

    pub(super) fn give_back(&mut self, now: f64, machine: &Machine, actions: &mut Vec<Action>) {
        self.rent_as_listed(machine, now);
        actions.push(Action::Destroy(machine.id.clone()));
        if let Phase::Ending { until, .. } = &mut self.phase {
            *until = until.max(now);
        }
    }

    pub(super) fn rent(&mut self, machine: &MachineId, choice: &Rentable, since: f64, now: f64) {
        if self.rentals.add(Rental {
            machine: machine.clone(),
            rate: choice.rate,
            minimum_seconds: choice.minimum_seconds,
            since,
            until: None,
            moved: None,
        }) {
            self.heard_of = now;
        }
    }

    pub(super) fn rent_as_listed(&mut self, machine: &Machine, now: f64) {
        if self.rentals.knows(&machine.id) {
            return;
        }
        let mut all = self.terms.spot.iter().chain(&self.terms.on_demand);
        if let Some(choice) = all.find(|choice| choice.pool == machine.pool).cloned() {
            self.rent(&machine.id, &choice, now, now);
        }
    }
}
