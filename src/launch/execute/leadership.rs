//! `Leadership`: one process leads a run, whoever else has the store. It looks again before every call that rents or ends.

use jiff::Timestamp;

use crate::execute::error::LeadError;
use gpuplan_runstore::{Keeps, Lead, Leading, Ledger, OrderedBy, Run, StoreError};

/// The number under which a process leads, and its own object.
#[derive(Clone, Debug)]
pub struct Leadership {
    pub number: u64,
    lead: Lead,
}

/// Whether a lease is granted.
pub enum Granted {
    Now,
    /// The number was taken by a leader that was deposed since: what it has granted.
    Elsewhere(Ledger),
    Deposed,
}

/// Whether a process with this journal may follow without saying that it takes over.
pub fn may_follow(leading: &Leading, journal: &str) -> bool {
    leading.is_over || leading.lead.as_ref().is_some_and(|lead| lead.journal == journal)
}

/// Takes the lead, or says who has it.
pub async fn take(store: &Run, journal: &str, by: &str, take_over: bool) -> Result<Leadership, LeadError> {
    let lead = Lead { journal: journal.to_owned(), by: by.to_owned(), at: Timestamp::now() };
    loop {
        let leading = store.leading().await?;
        if let Some(other) = leading.as_ref().filter(|leading| !take_over && !may_follow(leading, journal)) {
            return Err(led_elsewhere(other));
        }
        let number = store.lead_after(leading.map_or(0, |leading| leading.number))?;
        if store.take_lead(number, &lead).await? {
            return Ok(Leadership { number, lead });
        }
        // Somebody was faster.
    }
}

pub fn led_elsewhere(leading: &Leading) -> LeadError {
    let unknown = || ("somebody".to_owned(), Timestamp::UNIX_EPOCH);
    let (by, at) = leading.lead.as_ref().map_or_else(unknown, |lead| (lead.by.clone(), lead.at));
    LeadError::LedElsewhere { by, at }
}

impl Leadership {
    pub async fn still_holds(&self, store: &Run) -> Result<bool, StoreError> {
        store.is_leading(self.number, &self.lead).await
    }

    /// For a machine of this gang, so that it can see at boot whether it is still wanted.
    pub fn orders(&self, epoch: u64, launched_at: Timestamp) -> OrderedBy {
        OrderedBy { lead: self.number, lead_at: self.lead.at, epoch, launched_at: Some(launched_at) }
    }

    /// Says which gang of earlier leaders goes on: machines of theirs that are still to boot end themselves, unless they are of it.
    pub async fn keeps(&self, store: &Run, epoch: Option<u64>) -> Result<(), StoreError> {
        store.lead_keeps(self.number, Keeps { epoch }).await
    }

    /// Writes the balance with a new lease, and looks whether this process still leads. The same balance again is granted.
    pub async fn grant(&self, store: &Run, ledger: &Ledger) -> Result<Granted, StoreError> {
        let is_written = store.write_ledger(ledger).await?;
        if !self.still_holds(store).await? {
            return Ok(Granted::Deposed);
        }
        if is_written {
            return Ok(Granted::Now);
        }
        // Somebody took the number, so there is one.
        Ok(store.ledger().await?.map_or(Granted::Deposed, Granted::Elsewhere))
    }

    /// Anybody may lead the run from now on.
    pub async fn leaves(&self, store: &Run) -> Result<(), StoreError> {
        store.end_lead(self.number, &self.lead).await
    }

    /// The run has ended: anybody may lead it from now on.
    pub async fn is_over(&self, store: &Run, ledger: &Ledger) -> Result<(), StoreError> {
        // Nothing is open any more: what is left may be granted by whoever resumes it, who knows why it goes on.
        store.write_ledger(&Ledger { number: ledger.number + 1, fruitless: 0, ..ledger.clone() }).await?;
        store.end_lead(self.number, &self.lead).await
    }
}
