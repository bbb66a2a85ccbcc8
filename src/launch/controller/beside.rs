//! A gang beside the one that runs: asked for where the policy would move, and if there is one, it takes over once the other has saved.

use crate::controller::Controller;
use crate::controller::events::{Action, End, Rentable};
use crate::controller::liveness::Liveness;
use crate::controller::orders::MOST_TRIES;
use crate::controller::phase::{Beside, Gang, Next, Open, Phase, Which};
use crate::ports::launch_error::LaunchError;
use crate::ports::machine::Machine;
use gpuplan_runstore::Lease;
use gpuplan_spot::policy;
use gpuplan_spot::policy::reason::Reason;
use gpuplan_units::Usd;

impl Controller {
    /// Asks the policy whether what runs is still right, and if it is not, for what it wants.
    pub(super) fn reconsider(&mut self, now: f64, actions: &mut Vec<Action>) {
        let Phase::Running { gang, is_working, liveness, leaving: None, .. } = &self.phase else { return };
        let (running, passed) = (gang.which.action(&self.terms), now - gang.since);
        let left = |all: f64| if *is_working { 0.0 } else { (all - passed).max(1e-3) };
        let (pending, is_blind) = ((left(gang.changeover.0), left(gang.changeover.1)), liveness.is_blind());
        // What the gang has saved since the store was read last is not known, so nobody can say that it is behind, or that it is not completed.
        // Whatever its machines cost meanwhile is in their leases.
        if is_blind {
            return;
        }
        let decision = self.decide(now, running, pending);
        if decision.reason == Reason::BudgetReached {
            return self.end_all(now, Next::End(End::OutOfBudget), actions);
        }
        if decision.action == running {
            return;
        }
        let which = match decision.action {
            policy::Action::Idle => None,
            policy::Action::Spot(pool) => Some(Which::Spot(pool)),
            policy::Action::OnDemand(_) => self.free_on_demand(now).map(Which::OnDemand),
        };
        if let Some(which) = which {
            self.order_beside(now, which, decision.reason, actions);
        }
    }

    fn order_beside(&mut self, now: f64, which: Which, reason: Reason, actions: &mut Vec<Action>) {
        let life = self.life(which, self.choice(which), self.terms.nodes);
        if life.is_none_or(|life| life < self.needs(which)) {
            // The money does not go as far while both count. Nothing is saved by what cannot end the work; a deadline is worth the gap.
            if matches!(which, Which::OnDemand(_)) {
                actions.push(Action::Say(format!("moving: {reason}")));
                self.leave(now, Next::Choose, actions);
            }
            return;
        }
        self.epoch += 1;
        let asking =
            format!("asking for {} x {} beside what runs: {reason}", self.terms.nodes, self.choice(which).pool);
        actions.push(Action::Say(asking));
        let gang = self.new_gang(now, which);
        if let Some((gang, open)) = self.order(now, gang, actions) {
            self.beside = Some(Beside { gang, open: Some(open) });
        }
    }

    /// The token of the order whose answer is awaited.
    pub(super) fn awaited(&self) -> Option<String> {
        let open = match (&self.phase, &self.beside) {
            (Phase::Creating { open, .. }, _) => Some(open),
            (_, Some(beside)) => beside.open.as_ref(),
            _ => None,
        };
        open.map(|open| open.order.token.clone())
    }

    /// The answer to the order of a machine beside those that run.
    pub(super) fn answered_beside(
        &mut self,
        now: f64,
        mut gang: Gang,
        open: Open,
        outcome: Result<Machine, LaunchError>,
        actions: &mut Vec<Action>,
    ) {
        let machine = match outcome {
            Ok(machine) => machine.id,
            Err(LaunchError::Unclear { code }) if open.tries < MOST_TRIES => {
                let open = self.try_later(now, open, &code, actions);
                self.beside = Some(Beside { gang, open: Some(open) });
                return;
            }
            Err(error) => {
                self.note_refusal(now, gang.which, &open, &error, actions);
                self.end_beside(&gang, actions);
                // A refusal is an answer, and the policy is asked again at once.
                return self.reconsider(now, actions);
            }
        };
        self.rent(&machine, &open.order.choice, open.sent_at, now);
        gang.machines.push(machine);
        if (gang.machines.len() as u32) < self.terms.nodes {
            match self.order(now, gang.clone(), actions) {
                Some((gang, open)) => self.beside = Some(Beside { gang, open: Some(open) }),
                None => self.end_beside(&gang, actions),
            }
            return;
        }
        self.is_whole(gang.which, actions);
        self.beside = Some(Beside { gang, open: None });
        actions.push(Action::Say("what runs saves and leaves".to_owned()));
        self.leave(now, Next::Take, actions);
    }

    /// Tries again what had no clear answer, and gives up on what takes too long.
    pub(super) fn create_beside(&mut self, now: f64, actions: &mut Vec<Action>) {
        let Some(Beside { gang, open: Some(open) }) = &mut self.beside else { return };
        let limit = gang.since + self.terms.gang_limit;
        if now > limit {
            return self.give_up_beside(now, "not all machines arrived in time", actions);
        }
        match open.again_at {
            Some(at) if now >= at => {
                (open.tries, open.again_at) = (open.tries + 1, None);
                actions.push(Action::Create(Box::new(open.order.clone())));
            }
            Some(at) => wake_before(at, actions),
            None => {}
        }
    }

    /// It comes to nothing: what there is of it is ended, and what runs goes on, if it was not told to leave.
    pub(super) fn give_up_beside(&mut self, now: f64, why: &str, actions: &mut Vec<Action>) {
        let Some(Beside { gang, open }) = self.beside.take() else { return };
        actions.push(Action::Say(format!("{}: {why}", self.choice(gang.which).pool)));
        self.is_refused(now, gang.which, "incomplete gang");
        if open.is_some() {
            self.unclear_until = self.unclear_until.max(now + self.terms.settles);
        }
        self.end_beside(&gang, actions);
        match &mut self.phase {
            Phase::Running { leaving: Some(leaving), .. } if leaving.next == Next::Take => leaving.next = Next::Choose,
            Phase::Ending { next, until, .. } if *next == Next::Take => {
                (*next, *until) = (Next::Choose, self.unclear_until);
            }
            _ => {}
        }
    }

    fn end_beside(&mut self, gang: &Gang, actions: &mut Vec<Action>) {
        self.beside = None;
        actions.extend(gang.machines.iter().cloned().map(Action::Destroy));
    }

    /// What runs goes on, so that nobody waits for a gang that is all there.
    pub(super) fn end_whole_beside(&mut self, actions: &mut Vec<Action>) {
        if let Some(Beside { gang, open: None }) = self.beside.clone() {
            self.end_beside(&gang, actions);
        }
    }

    /// The other gang is gone, and this one runs.
    pub(super) fn take(&mut self, now: f64, actions: &mut Vec<Action>) {
        let Some(Beside { mut gang, open: None }) = self.beside.take() else {
            self.phase = Phase::Choosing { from: now };
            return self.choose(now, actions);
        };
        actions.push(Action::Say(format!("{} takes over", self.choice(gang.which).pool)));
        gang.done_before = Some(self.done);
        self.runs(now, gang, actions);
    }

    /// Watches a gang whose machines are all there.
    pub(super) fn runs(&mut self, now: f64, gang: Gang, actions: &mut Vec<Action>) {
        self.pass(now);
        if let Which::Spot(pool) = gang.which {
            self.last_pool = Some(pool);
        }
        self.phase = Phase::Running {
            gang,
            liveness: Liveness::watched_since(now),
            looked_at: now,
            decided_at: now,
            is_working: false,
            has_spoken: false,
            has_started: false,
            leaving: None,
        };
        actions.push(Action::Wake(now));
    }

    /// How long a gang there has to live to end the work. Seconds.
    pub(super) fn needs(&self, which: Which) -> f64 {
        (self.terms.limits.work * (1.0 - self.done) + self.changeover(which).1).min(self.terms.lifetime)
    }

    /// Seconds that each of so many machines there may live. On-demand machines leave enough for the way back to spot, if they live long
    /// enough all the same.
    pub(super) fn life(&self, which: Which, choice: &Rentable, machines: u32) -> Option<f64> {
        let most = self.affordable(choice, machines, Usd::ZERO)?;
        if matches!(which, Which::Spot(_)) {
            return Some(most);
        }
        let back = (0..self.terms.spot.len()).map(Which::Spot).map(|spot| {
            let choice = self.choice(spot);
            Lease::cost(self.needs(spot), choice.most, choice.minimum_seconds, choice.start)
        });
        let kept = back.min().map_or(Usd::ZERO, |each| each.share(i128::from(self.terms.nodes), 1));
        let life = self.affordable(choice, machines, kept).filter(|life| *life >= self.needs(which));
        Some(life.unwrap_or(most))
    }
}

/// Looks and decisions come anyway; this may come before them.
fn wake_before(at: f64, actions: &mut Vec<Action>) {
    let last = actions.iter().rev().find_map(|action| if let Action::Wake(at) = action { Some(*at) } else { None });
    actions.push(Action::Wake(last.map_or(at, |last| last.min(at))));
}
