//! Pauses between two tries: doubled each time, with jitter, so that the machines of a team do not ask in step.

use std::time::Duration;

use backon::ExponentialBuilder;

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Pauses that begin with `first`. How many tries there are, the caller says.
pub fn growing_pauses(first: Duration) -> ExponentialBuilder {
    ExponentialBuilder::default().with_min_delay(first).with_max_delay(LONGEST_PAUSE).with_jitter()
}
