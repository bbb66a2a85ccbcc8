//! What is spent, also where a bill cannot be read.
#![cfg(test)]

use tokio::sync::mpsc;

use super::*;
use crate::state::SharedState;
use crate::team::rank::Rank;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::{Run, Store};

#[tokio::test]
async fn what_others_cost_is_unknown_until_it_was_read_and_while_a_bill_is_torn() {
    let root = tempfile::tempdir().unwrap();
    let run = Run::new(Store::open(&root.path().display().to_string()).unwrap(), Layout::new("t").unwrap());
    let (events, _told) = mpsc::channel(8);
    let caps =
        Caps { budget: Usd::parse("10").ok(), rate: gpuplan_units::UsdPerHour::parse("3.60").ok(), ..Caps::default() };
    let life = Life {
        run,
        epoch: 0,
        ordered_by: None,
        rank: Rank::ALONE,
        heartbeat: Duration::from_secs(1),
        begun: Instant::now(),
        begun_at: Timestamp::now(),
        state: SharedState::default(),
        events,
    };
    let heartbeat = |epoch| Heartbeat { life: Life { epoch, ..life.clone() }, caps };
    assert!(
        heartbeat(2).spent().is_none() && heartbeat(2).spent_at_least() > Some(Usd::ZERO),
        "nobody has asked the store yet"
    );
    assert_eq!(heartbeat(1).bill().await.unwrap(), None);
    assert_eq!(heartbeat(2).bill().await.unwrap(), None);
    assert!(heartbeat(2).spent() > heartbeat(2).billed().map(|own| own.cost()));
    std::fs::write(root.path().join("runs/t/billed/e1-0.json"), "{").unwrap();
    let warning = heartbeat(2).bill().await.unwrap().unwrap();
    assert!(
        warning.contains("the budget of $10.00 is kept by what is known alone") && warning.contains("e1-0.json"),
        "{warning}"
    );
    assert_eq!(heartbeat(2).bill().await.unwrap(), None, "once");
    assert_eq!(
        (heartbeat(2).spent(), heartbeat(2).status(1).spent_usd),
        (None, None),
        "unknown, and not what the others leave out"
    );
}
