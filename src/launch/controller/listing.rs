//! What the clouds list of a run: machines that are gone, that nobody waits for, and that are missed.

use crate::controller::events::Action;
use crate::controller::phase::Phase;
use crate::controller::rental::Rental;
use crate::controller::{Controller, LISTS_ARE_LATE};
use crate::ports::machine::{Machine, MachineId, MachineState};

impl Controller {
    pub(super) fn listed(&mut self, now: f64, asked_at: f64, machines: &[Machine], actions: &mut Vec<Action>) {
        self.learn_leases(machines);
        for machine in machines.iter().filter(|machine| machine.state == MachineState::Gone) {
            // What came and went unheard is written down with the least that it costs.
            self.rent_as_listed(machine, now);
            self.is_gone(&machine.id, now);
        }
        let awaited = self.awaited();
        for machine in machines.iter().filter(|machine| machine.state != MachineState::Gone) {
            if awaited.as_deref() != Some(machine.token.as_str()) && !self.has(&machine.id) {
                self.give_back(now, machine, actions);
            }
        }
        let is_late = asked_at > self.heard_of + self.terms.settles * LISTS_ARE_LATE;
        let is_lost = |id: &MachineId| match machines.iter().find(|machine| machine.id == *id) {
            Some(machine) => machine.state == MachineState::Gone,
            None => is_late,
        };
        if self.beside.as_ref().is_some_and(|beside| beside.gang.machines.iter().any(is_lost)) {
            self.give_up_beside(now, "a machine is gone before it took over", actions);
        }
        if let Phase::Running { gang, looked_at, liveness, .. } = &mut self.phase {
            *looked_at = now;
            // While the store does not answer nobody knows whether they completed the run, and nothing could be restored from it elsewhere.
            if !liveness.is_blind() && gang.machines.iter().any(is_lost) {
                let gang = gang.clone();
                let by_itself = |machine: &&Machine| {
                    gang.machines.contains(&machine.id) && machine.state == MachineState::Gone && !machine.was_taken
                };
                match machines.iter().find(by_itself) {
                    Some(machine) => {
                        let why = machine.reason.as_deref().unwrap_or("it does not say why");
                        self.came_to_nothing(now, &gang, "a machine ended", &format!("{}: {why}", machine.id), actions);
                    }
                    None => self.taken(now, &gang, "a machine is gone", actions),
                }
            }
        }
        if let Phase::Ending { looked_at, .. } = &mut self.phase {
            *looked_at = now;
            // What a list does not name any more is gone, once lists are not late.
            let is_listed = |rental: &&Rental| machines.iter().any(|machine| machine.id == rental.machine);
            let gone: Vec<MachineId> = self
                .rentals
                .open()
                .filter(|rental| is_late && !is_listed(rental))
                .map(|rental| rental.machine.clone())
                .collect();
            for id in gone {
                self.is_gone(&id, now);
            }
        }
        self.settle_unheard(now, asked_at, machines);
    }
}
