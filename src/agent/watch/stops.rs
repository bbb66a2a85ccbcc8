//! Looks into the store whether whoever leads the run wants its machines to save and end, and says so as a cloud says it.

use std::time::Duration;

use crate::event::Event;
use crate::life::Life;
use crate::ports::notice::{Notice, Urgency};

/// Looks at every heartbeat until it is so. A store that does not answer says nothing: the program goes on.
pub async fn listen(life: Life) {
    loop {
        if let Ok(Some(stop)) = life.run.stop(life.epoch).await {
            let left = Duration::try_from_secs_f64(stop.seconds).ok();
            let notice = Notice { urgency: Urgency::Leave, from: stop.why, left };
            let _ = life.events.send(Event::Notice { notice, by_cloud: false }).await;
            return;
        }
        tokio::time::sleep(life.heartbeat).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use jiff::Timestamp;
    use tokio::sync::mpsc;

    use super::*;
    use crate::state::State;
    use crate::team::rank::Rank;
    use gpuplan_runstore::layout::Layout;
    use gpuplan_runstore::{Run, Stop, Store};

    #[tokio::test]
    async fn a_stop_of_this_epoch_is_a_notice() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        let (events, mut heard) = mpsc::channel(8);
        let life = Life {
            run: run.clone(),
            epoch: 2,
            ordered_by: None,
            rank: Rank { node: 0, nodes: 1 },
            heartbeat: Duration::from_millis(1),
            begun: Instant::now(),
            begun_at: Timestamp::now(),
            state: Arc::default(),
            events,
        };
        let _: &Arc<std::sync::Mutex<State>> = &life.state;
        let stop = Stop { why: "gpuplan stop".to_owned(), seconds: 90.0, at: Timestamp::now() };
        run.ask_to_stop(1, &stop).await.unwrap();
        let listening = tokio::spawn(listen(life));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(heard.try_recv().is_err(), "that was for an earlier epoch");
        run.ask_to_stop(2, &stop).await.unwrap();
        let Some(Event::Notice { notice, by_cloud: false }) = heard.recv().await else { panic!("no notice") };
        assert_eq!((notice.from.as_str(), notice.left), ("gpuplan stop", Some(Duration::from_secs(90))));
        listening.await.unwrap();
    }
}
