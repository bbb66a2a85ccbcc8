//! What is safe and when to end, also where a folder cannot be read.
#![cfg(test)]

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::*;
use crate::checkpoint::scan::Place;
use crate::rules::framework::Framework;
use crate::state::SharedState;
use crate::team::rank::Rank;
use gpuplan_runstore::history::Keep;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::{Run, Store};

/// Whether all that lies in a checkpoint folder is taken to be safe, at the end of a program that has no time left.
async fn is_synced(make: impl FnOnce(&Path)) -> (bool, Vec<Event>) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("checkpoints");
    std::fs::create_dir(&folder).unwrap();
    make(&folder);
    let run =
        Run::new(Store::open(&root.path().join("store").display().to_string()).unwrap(), Layout::new("t").unwrap());
    let keep = Keep { last: 1, every: 0 };
    let (events, mut told) = mpsc::channel(8);
    let life = Life {
        run,
        epoch: 1,
        ordered_by: None,
        rank: Rank::ALONE,
        heartbeat: Duration::from_secs(1),
        begun: Instant::now(),
        begun_at: Timestamp::now(),
        state: SharedState::default(),
        events,
    };
    let shipper = Shipper::new(life.run.clone(), life.epoch, life.rank, folder.clone(), keep, None);
    let settling = Settling::new(Framework::Auto, Duration::ZERO);
    let shipping = Shipping { shipper, settling, folder, place: Place::Told, life };
    let (_say, finish) = watch::channel(Some(Finish { until: Instant::now(), over: Over::Orderly }));
    let (shipping, is_synced) = shipping.run(finish).await;
    drop(shipping);
    let mut heard = Vec::new();
    while let Some(event) = told.recv().await {
        heard.push(event);
    }
    (is_synced, heard)
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_looked_at_is_not_taken_for_none() {
    assert_eq!(is_synced(|_| {}).await, (true, Vec::new()));
    assert_eq!(
        is_synced(|folder| std::fs::remove_dir(folder).unwrap()).await,
        (true, Vec::new()),
        "without a folder there is none"
    );
    // A link to itself leads nowhere, whoever follows it.
    let (is_synced, heard) =
        is_synced(|folder| std::os::unix::fs::symlink("step-7", folder.join("step-7")).unwrap()).await;
    assert!(!is_synced && matches!(heard.as_slice(), [Event::Warning(text)] if text.contains("step-7")), "{heard:?}");
}

#[tokio::test]
async fn a_notice_shortens_the_time_after_the_program() {
    let (say, finish) = watch::channel(None);
    let waiting = tokio::spawn(out_of_time(finish));
    let within = |span| Some(Finish { until: Instant::now() + span, over: Over::Orderly });
    say.send(within(Duration::from_hours(1))).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    say.send(within(Duration::ZERO)).unwrap();
    tokio::time::timeout(Duration::from_mins(3), waiting).await.unwrap().unwrap();
}
