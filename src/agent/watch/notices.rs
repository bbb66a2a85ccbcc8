//! Asks a source of notices until it says that the machine goes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::event::Event;
use crate::ports::notice::{NoticeSource, Urgency};

/// An answer of a metadata service that takes longer is none.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Failures in a row that are worth a warning.
const FAILURES_BEFORE_WARNING: u32 = 3;

/// Looks at one source of notices until it says that the machine goes.
pub async fn listen(source: Arc<dyn NoticeSource>, events: mpsc::Sender<Event>) {
    let (mut failures, mut advised) = (0, false);
    loop {
        let answer = tokio::time::timeout(ANSWERS_WITHIN, source.poll()).await;
        let event = match answer {
            Ok(Ok(None)) => {
                failures = 0;
                None
            }
            Ok(Ok(Some(notice))) => {
                failures = 0;
                let leaves = notice.urgency == Urgency::Leave;
                let is_news = leaves || !advised;
                advised |= !leaves;
                if leaves {
                    let _ = events.send(Event::Notice { notice, by_cloud: true }).await;
                    return;
                }
                is_news.then_some(Event::Notice { notice, by_cloud: true })
            }
            Ok(Err(_)) | Err(_) => {
                failures += 1;
                (failures == FAILURES_BEFORE_WARNING)
                    .then(|| Event::Warning(format!("{} does not answer; SIGTERM is still heard", source.name())))
            }
        };
        if let Some(event) = event {
            let _ = events.send(event).await;
        }
        tokio::time::sleep(source.pace()).await;
    }
}
