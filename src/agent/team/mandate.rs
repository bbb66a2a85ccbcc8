//! Whether a machine that has just booted is still wanted: its leader may have been deposed while it was ordered.

use std::time::Duration;

use backon::Retryable;

use crate::ports::logger::Logger;
use crate::retry::growing_pauses;
use crate::team::claim::ClaimError;
use gpuplan_runstore::{Mandate, OrderedBy, Run, StoreError};

/// Between two looks for what a new leader goes on with. It says so within seconds of taking the lead.
const LOOK: Duration = Duration::from_secs(5);
/// Looks after which a leader that has said nothing has died; whoever follows it rents anew.
const LOOKS: u32 = 60;
/// Before a store that does not answer is asked again, and how often it is.
const PAUSE: Duration = Duration::from_secs(1);
const RETRIES: usize = 6;

/// Returns once this machine may begin. Nothing of the run was touched before.
///
/// # Errors
/// `Deposed` where another leads who does not go on with this machine; `Store` where nobody can tell.
pub async fn ensure_wanted(run: &Run, ordered: &OrderedBy, logger: &dyn Logger) -> Result<(), ClaimError> {
    looking_every(LOOK, run, ordered, logger).await
}

async fn looking_every(pause: Duration, run: &Run, ordered: &OrderedBy, logger: &dyn Logger) -> Result<(), ClaimError> {
    for look in 0..LOOKS {
        let asked = || run.mandate(ordered);
        let mandate = asked
            .retry(growing_pauses(PAUSE).with_max_times(RETRIES))
            .when(StoreError::may_pass)
            .notify(|error, pause| {
                let pause = pause.as_secs_f64();
                logger.say(&format!(
                    "warning: whether this machine is still wanted is unknown: {error}; tried again in {pause:.0} s"
                ));
            })
            .await?;
        match mandate {
            Mandate::Holds => return Ok(()),
            Mandate::Ended { by } => return Err(ClaimError::Deposed { lead: ordered.lead, by }),
            Mandate::Undecided { by } => {
                if look == 0 {
                    logger.say(&format!("{by} leads the run by now; waiting to hear whether it keeps this machine"));
                }
                tokio::time::sleep(pause).await;
            }
        }
    }
    Err(ClaimError::Deposed { lead: ordered.lead, by: "somebody who said nothing".to_owned() })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::ports::logger::Stream;
    use gpuplan_runstore::layout::Layout;
    use gpuplan_runstore::lead::Keeps;
    use gpuplan_runstore::{Lead, Store};

    struct Nobody;

    impl Logger for Nobody {
        fn say(&self, _: &str) {}

        fn pass(&self, _: Stream, _: &[u8]) {}
    }

    #[tokio::test]
    async fn a_machine_that_nobody_wants_any_more_ends_before_it_claims_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        let lead = |by: &str| Lead { journal: by.to_owned(), by: by.to_owned(), at: Timestamp::UNIX_EPOCH };
        let ordered = OrderedBy { lead: 1, lead_at: Timestamp::UNIX_EPOCH, epoch: 4, launched_at: None };
        run.take_lead(1, &lead("one")).await.unwrap();
        looking_every(Duration::ZERO, &run, &ordered, &Nobody).await.unwrap();
        run.take_lead(2, &lead("two")).await.unwrap();
        let said = looking_every(Duration::ZERO, &run, &ordered, &Nobody).await.unwrap_err();
        assert!(said.to_string().contains("somebody who said nothing"), "{said}");
        run.lead_keeps(2, Keeps { epoch: None }).await.unwrap();
        let said = looking_every(Duration::ZERO, &run, &ordered, &Nobody).await.unwrap_err();
        assert_eq!(
            said.to_string(),
            "leader 1, which rented this machine, was followed by two, who does not go on with it"
        );
        // Nobody can tell: neither wanted nor not.
        std::fs::write(folder.path().join("runs/a/lead-keeps/2"), "{").unwrap();
        let unknown = looking_every(Duration::ZERO, &run, &ordered, &Nobody).await.unwrap_err();
        assert!(matches!(unknown, ClaimError::Store(StoreError::Unreadable { .. })), "{unknown}");
    }
}
