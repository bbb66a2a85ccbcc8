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
                tokio::time::sleep(LOOK).await;
            }
        }
    }
    Err(ClaimError::Deposed { lead: ordered.lead, by: "somebody who said nothing".to_owned() })
}
