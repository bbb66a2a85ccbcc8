//! `NoticeSource`, the port by which a machine is told that it will be taken away, and how the time left is divided.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// No cloud gives longer than this from the first sight, whatever a clock that is wrong makes of the announced time. AWS
/// announces two minutes (spot-instance-termination-notices), Google and Azure 30 s.
pub const LONGEST: Duration = Duration::from_mins(2);
/// Of the time left, kept for recording the outcome.
const RECORDING: Duration = Duration::from_secs(5);
/// An upload may be this much slower than those before it.
const SLOWER: f64 = 1.5;
/// No checkpoint takes longer to send: a rate by which it would was measured while the store hardly answered. Judgement.
const LONGEST_SENDING: Duration = Duration::from_hours(1);
/// The program has at least this share of the time left, even where sending is known to need more than the rest.
const LEAST_SHARE: f64 = 0.25;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    /// The machine goes: save and end.
    Leave,
    /// The machine is at risk: worth an early checkpoint, no reason to stop.
    Advice,
}

/// An announcement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notice {
    pub urgency: Urgency,
    /// Such as `aws spot terminate` or `SIGTERM`.
    pub from: String,
    /// From now; `None` where nobody says.
    pub left: Option<Duration>,
}

/// Why a look had no answer. The program goes on; three in a row are a warning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoticeError(pub String);

/// A place where a cloud announces that it takes the machine away.
///
/// Contract:
/// - `look` only reads and may be repeated at its pace for days. It ends within a few seconds, whatever the network does.
/// - `None` is "nothing is announced"; anything that is not a clear answer is an error and never a notice.
/// - `left` is worked out between two times that the cloud says, never against this machine's clock.
/// - `acknowledge` tells the cloud that it may go on; called once, after the last checkpoint is safe.
pub trait NoticeSource: Send + Sync {
    fn name(&self) -> &'static str;

    fn pace(&self) -> Duration;

    fn poll(&self) -> BoxFuture<'_, Result<Option<Notice>, NoticeError>>;

    fn acknowledge(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// How long the program may take to save and end, so that what it saved can still be sent: the time left without what sending
/// `bytes` takes at the measured rate.
pub fn grace(left: Duration, bytes: u64, bytes_per_second: Option<f64>) -> Duration {
    let sending = sending(bytes, bytes_per_second).min(left);
    left.saturating_sub(sending + RECORDING).max(left.mul_f64(LEAST_SHARE))
}

/// What sending `bytes` takes at the measured rate, or somewhat slower. Without a rate nothing is known of it.
pub fn sending(bytes: u64, bytes_per_second: Option<f64>) -> Duration {
    match bytes_per_second {
        Some(rate) if rate > 0.0 => {
            Duration::try_from_secs_f64(bytes as f64 / rate * SLOWER).unwrap_or(LONGEST_SENDING).min(LONGEST_SENDING)
        }
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_MINUTES: Duration = Duration::from_mins(2);

    #[test]
    fn sending_is_paid_for_out_of_the_time_left() {
        assert_eq!(grace(TWO_MINUTES, 0, None), Duration::from_secs(115));
        // 10 GB at 500 MB/s take 20 s, held to be 30 s.
        assert_eq!(grace(TWO_MINUTES, 10_000_000_000, Some(5e8)), Duration::from_secs(85));
    }

    #[test]
    fn what_cannot_be_sent_in_time_still_leaves_the_program_a_share() {
        assert_eq!(grace(TWO_MINUTES, 400_000_000_000, Some(1e8)), Duration::from_secs(30));
        assert_eq!(grace(Duration::from_secs(4), 0, Some(0.0)), Duration::from_secs(1));
        assert_eq!(grace(TWO_MINUTES, u64::MAX, Some(f64::MIN_POSITIVE)), Duration::from_secs(30));
    }
}
