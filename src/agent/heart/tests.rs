//! What is safe, what is spent and when to end, each where something cannot be read.
#![cfg(test)]

use super::*;
use crate::checkpoint::Framework;
use gpuplan_runstore::Store;
use gpuplan_runstore::history::Keep;
use gpuplan_runstore::layout::Layout;

/// Whether all that lies in a checkpoint folder is taken to be safe, at the end of a program that has no time left.
async fn is_synced(make: impl FnOnce(&Path)) -> (bool, Vec<Event>) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("checkpoints");
    std::fs::create_dir(&folder).unwrap();
    make(&folder);
    let run =
        Run::new(Store::open(&root.path().join("store").display().to_string()).unwrap(), Layout::new("t").unwrap());
    let keep = Keep { last: 1, every: 0 };
    let shipper = Shipper::new(run, folder.clone(), (1, Place::ALONE), keep, None);
    let (events, mut told) = mpsc::channel(8);
    let settling = Settling::new(Framework::Auto, Duration::ZERO);
    let shipping = Shipping { shipper, settling, folder, begun: Instant::now(), pulse: Shared::default(), events };
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
async fn what_others_cost_is_unknown_until_it_was_read_and_while_a_bill_is_torn() {
    let root = tempfile::tempdir().unwrap();
    let run = Run::new(Store::open(&root.path().display().to_string()).unwrap(), Layout::new("t").unwrap());
    let (events, _told) = mpsc::channel(8);
    let caps =
        Caps { budget: Usd::parse("10").ok(), rate: gpuplan_units::UsdPerHour::parse("3.60").ok(), ..Caps::default() };
    let (begun, begun_at, pulse) = (Instant::now(), Timestamp::now(), Shared::default());
    let heart = |epoch| Heart {
        run: run.clone(),
        epoch,
        place: Place::ALONE,
        pace: Duration::from_secs(1),
        caps,
        begun,
        begun_at,
        pulse: pulse.clone(),
        events: events.clone(),
    };
    assert!(
        heart(2).spent().is_none() && heart(2).spent_at_least() > Some(Usd::ZERO),
        "nobody has asked the store yet"
    );
    assert_eq!(heart(1).bill().await.unwrap(), None);
    assert_eq!(heart(2).bill().await.unwrap(), None);
    assert!(heart(2).spent() > heart(2).billed().map(|own| own.cost()));
    std::fs::write(root.path().join("runs/t/billed/e1-0.json"), "{").unwrap();
    let warning = heart(2).bill().await.unwrap().unwrap();
    assert!(
        warning.contains("the budget of $10.00 is kept by what is known alone") && warning.contains("e1-0.json"),
        "{warning}"
    );
    assert_eq!(heart(2).bill().await.unwrap(), None, "once");
    assert_eq!(
        (heart(2).spent(), heart(2).status(1).spent_usd),
        (None, None),
        "unknown, and not what the others leave out"
    );
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
