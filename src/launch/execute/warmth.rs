//! The machine of a completed run that stays for the next one, and what its former run pays when it is taken over.

use jiff::Timestamp;

use crate::clock::Clock;
use crate::controller::events::{Event, Outcome};
use crate::execute::error::LeadError;
use crate::execute::{Leader, TELLING};
use crate::rented;

impl Leader<'_, '_> {
    /// Before the controller hears that the run is completed, and ends its machine.
    pub(super) fn completes(&mut self, event: &Event, now: f64) {
        let (Event::Reported(report), Some(seconds)) = (event, self.spec.keep_warm_seconds) else { return };
        if report.outcome != Some(Outcome::Completed) || Some(report.epoch) != self.controller.gang_epoch() {
            return;
        }
        if let Some(([machine], ends_at)) = self.controller.running() {
            self.stays = Some((machine.clone(), (now + seconds * self.wiring.clock.speed).min(ends_at)));
        }
    }

    /// Its run pays for it until it ends, or another has it.
    pub(super) fn keep_warm(&mut self) -> Result<(), LeadError> {
        let Some((machine, until)) = &self.stays else { return Ok(()) };
        self.wiring.journal.ends_at(&self.spec.run, machine, *until)?;
        let (run, minutes) = (&self.spec.run, (until - self.wiring.clock.now()) / 60.0);
        (self.wiring.say)(&format!(
            "{machine} stays for the next launch for {minutes:.0} min, which {run} pays for; `gpuplan stop {run}` ends it now"
        ));
        Ok(())
    }

    /// Its former run pays for the machine no more. What its store says of that is written anew where it can be.
    pub(super) async fn takes_over(&mut self, event: &Event) -> Result<(), LeadError> {
        let (Some(warm), Event::Answered { outcome: Ok(machine), .. }) = (&self.spec.takes, event) else {
            return Ok(());
        };
        if warm.machine != machine.id {
            return Ok(());
        }
        (self.wiring.say)(&format!("{} of {} is taken over: nothing is rented", machine.id, warm.run));
        let Some(former) = self.wiring.journal.run(&warm.run)? else { return Ok(()) };
        let clock = Clock::new(former.spec.started_at, self.wiring.clock.speed);
        let until = clock.of(machine.created_at.min(Timestamp::now()));
        self.wiring.journal.ends_at(&warm.run, &machine.id, until)?;
        if let (Some(former), Ok(store)) = (self.wiring.journal.run(&warm.run)?, self.wiring.store.beside(&warm.run)) {
            // It is told again with what the run costs at its end otherwise: a little too much.
            let _ = tokio::time::timeout(TELLING, store.write_rented(rented::all(&former, &clock))).await;
        }
        Ok(())
    }
}
