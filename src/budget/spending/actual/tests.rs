//! Tests of `actual.rs`.

#![cfg(test)]

use proptest::prelude::*;

use super::*;
use gpuplan_runstore::ManifestName;
use gpuplan_runstore::billed::Saved;
use gpuplan_runstore::epoch::Owner;
use gpuplan_units::{Usd, UsdPerHour};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn epoch(started: i64, restored_from: Option<ManifestName>) -> Epoch {
    let owner = Owner { machine: "m".to_owned(), host: "h".to_owned(), pid: 1, start_ticks: 1, control_group: None };
    Epoch { owner, started_at: at(started), heartbeat_seconds: 1.0, restored_from, nodes: 1 }
}

/// By a dollar an hour, so that hours are dollars.
fn billed(epoch: u64, from: i64, seconds: u64, started: u64, saved: Option<(u64, u64)>) -> Billed {
    Billed {
        epoch,
        node: 0,
        rate_usd_per_hour: UsdPerHour::parse("1").unwrap(),
        minimum_seconds: 0,
        from: at(from),
        elapsed_nanos: seconds * 1_000_000_000,
        free_if_interrupted_within_seconds: 0,
        is_interrupted: false,
        started_after_nanos: Some(started * 1_000_000_000),
        saved: saved.map(|(step, after)| Saved { step, after_nanos: after * 1_000_000_000 }),
    }
}

fn facts() -> RunFacts {
    RunFacts { run: "a".to_owned(), key: "k".to_owned(), speed: 1.0, ..RunFacts::default() }
}

fn hours(found: &[RunCharge], what: &str) -> f64 {
    found.iter().filter(|one| one.charge.id.ends_with(what)).map(|one| one.charge.quantity).sum()
}

#[test]
fn work_after_the_last_checkpoint_was_done_again_and_waiting_is_idle() {
    let mut facts = facts();
    facts.epochs = BTreeMap::from([(1, epoch(0, None)), (2, epoch(7200, Some(ManifestName { step: 50, epoch: 1 })))]);
    // An hour of staging, saved an hour later, taken two hours after that; then three hours to the end.
    facts.billed = vec![
        billed(1, 0, 4 * 3600, 3600, Some((50, 2 * 3600))),
        billed(2, 5 * 3600, 3 * 3600, 0, Some((100, 3 * 3600 - 60))),
    ];
    facts.outcome = Some("completed".to_owned());
    let found = facts.charges(at(1_000_000)).unwrap();
    let of = |what| hours(&found, what);
    assert_eq!((of("e1-0/idle"), of("e1-0/work"), of("e1-0/redone")), (1.0, 1.0, 2.0));
    assert_eq!(
        (of("e2-0/work"), of("e2-0/redone"), of("e2-0/idle")),
        (3.0, 0.0, 0.0),
        "the end of a completed run is safe"
    );
    assert!(found.iter().filter(|one| one.charge.id.contains("e1")).all(|one| !one.is_open));
    assert!(found.iter().any(|one| one.is_open), "its agent has not said that it ended");
    facts.ended.insert((2, 0));
    assert!(facts.charges(at(1_000_000)).unwrap().iter().all(|one| !one.is_open));
    let lost: Vec<_> = found.iter().filter(|one| one.charge.waste == Some(Waste::Redone)).collect();
    assert_eq!(
        (lost.len(), lost[0].charge.item, lost[0].charge.costs.contracted.to_string().as_str()),
        (1, Item::LostWork, "2.00")
    );
}

#[test]
fn what_was_not_gone_on_from_is_lost_though_it_was_saved() {
    let mut facts = facts();
    facts.billed = vec![billed(1, 0, 4 * 3600, 0, Some((100, 4 * 3600)))];
    let lost = |origin: Option<ManifestName>, facts: &mut RunFacts| {
        facts.epochs = BTreeMap::from([(1, epoch(0, None)), (2, epoch(5 * 3600, origin))]);
        hours(&facts.charges(at(1_000_000)).unwrap(), "e1-0/redone")
    };
    assert_eq!(lost(None, &mut facts), 4.0, "begun again from nothing");
    assert_eq!(lost(Some(ManifestName { step: 100, epoch: 1 }), &mut facts), 0.0);
    assert_eq!(lost(Some(ManifestName { step: 75, epoch: 1 }), &mut facts), 1.0, "a quarter of the steps");
}

fn rented(seconds: f64, to: Option<i64>) -> Rented {
    Rented {
        machine: "i-1".to_owned(),
        epoch: 1,
        node: 0,
        cloud: "aws".to_owned(),
        region: "us-east-1".to_owned(),
        zone: None,
        instance_type: "g5.xlarge".to_owned(),
        purchase: "spot".to_owned(),
        place: "aws/us-east-1/g5.xlarge spot".to_owned(),
        rate_usd_per_hour: UsdPerHour::parse("1").unwrap(),
        minimum_seconds: 60,
        from: at(0),
        to: to.map(at),
        seconds,
    }
}

#[test]
fn who_leads_a_run_knows_of_booting_and_ending_and_of_machines_that_never_spoke() {
    let mut facts = facts();
    facts.rented = Some(AllRented { machines: vec![rented(7200.0, Some(7200))], ..AllRented::default() });
    let found = facts.charges(at(0)).unwrap();
    assert_eq!((hours(&found, "/idle"), found.len(), found[0].is_open), (2.0, 1, false));
    facts.billed = vec![billed(1, 1800, 3600, 0, Some((9, 3600)))];
    let found = facts.charges(at(0)).unwrap();
    assert_eq!((hours(&found, "/idle"), hours(&found, "/work")), (1.0, 1.0));
    assert_eq!(found[0].charge.resource.id.as_deref(), Some("i-1"));
    facts.rented = Some(AllRented { machines: vec![rented(7200.0, None)], ..AllRented::default() });
    assert!(facts.charges(at(0)).unwrap().iter().all(|one| one.is_open));
}

#[test]
fn an_agent_belongs_to_the_machine_of_its_time_whatever_the_numbers() {
    let mut facts = RunFacts { is_led: true, ..facts() };
    // The third order was the first to be answered; two agents ran on it, one after the other.
    let first = Rented { epoch: 3, ..rented(7200.0, Some(7200)) };
    let second =
        Rented { epoch: 4, machine: "i-2".to_owned(), from: at(10_000), to: Some(at(13_600)), ..rented(3600.0, None) };
    facts.rented = Some(AllRented { machines: vec![first, second.clone()], ..AllRented::default() });
    let agents = [
        billed(1, 0, 1800, 0, Some((1, 1800))),
        billed(2, 3600, 3600, 0, Some((2, 3600))),
        billed(3, 10_000, 3600, 0, Some((3, 3600))),
    ];
    facts.billed = agents.to_vec();
    let found = facts.charges(at(1_000_000)).unwrap();
    assert_eq!(
        (hours(&found, "e3-0-i-1/work"), hours(&found, "e3-0-i-1/idle"), hours(&found, "e4-0-i-2/work")),
        (1.5, 0.5, 1.0)
    );
    // One that nobody told of yet grows, and is entered once it is told.
    facts.rented = Some(AllRented { machines: facts.rented.unwrap().machines[..1].to_vec(), ..AllRented::default() });
    let found = facts.charges(at(1_000_000)).unwrap();
    let open: Vec<&str> = found.iter().filter(|one| one.is_open).map(|one| one.charge.id.as_str()).collect();
    assert_eq!(open, ["run/a@k/e3-0/work"]);
    assert_eq!(found.iter().map(|one| one.charge.quantity).sum::<f64>(), 3.0);
}

#[test]
fn a_stand_in_passes_its_time_faster() {
    let mut facts = RunFacts { speed: 600.0, is_led: true, ..facts() };
    facts.rented = Some(AllRented { machines: vec![rented(7200.0, Some(12))], ..AllRented::default() });
    facts.billed = vec![billed(1, 3, 6, 0, Some((9, 6)))];
    let found = facts.charges(at(0)).unwrap();
    assert_eq!((hours(&found, "/idle"), hours(&found, "/work")), (1.0, 1.0));
    assert_eq!((found[0].charge.start, found[0].charge.end), (at(0), at(12)));
}

proptest! {
    #[test]
    fn the_lines_of_a_machine_are_its_bill(
        rate in 1_i64..100_000_000_000, seconds in 0_u64..1_000_000, started in 0_u64..1_000_000, saved in 0_u64..1_000_000,
        minimum in 0_u32..4000,
    ) {
        let mut one = billed(1, 0, seconds, started, Some((5, saved)));
        one.rate_usd_per_hour = UsdPerHour::from_nanos(rate);
        one.minimum_seconds = minimum;
        let mut facts = facts();
        facts.billed = vec![one.clone()];
        let found = facts.charges(at(0)).unwrap();
        let total: Usd = found.iter().map(|line| line.charge.costs.contracted).sum();
        prop_assert_eq!(total, one.cost());
        prop_assert!(found.iter().all(|line| line.charge.costs.contracted >= Usd::ZERO && line.charge.quantity >= 0.0));
        let hours: f64 = found.iter().map(|line| line.charge.quantity).sum();
        prop_assert!((hours - one.paid_nanos() as f64 / NANOS_PER_HOUR).abs() < 1e-9);
    }
}
