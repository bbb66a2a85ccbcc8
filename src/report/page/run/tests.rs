//! Tests of what a run has spent by when, and the run that they and others start from.

#![cfg(test)]

use super::*;
use gpuplan_budget::{Allocation, Charge, Costs, Item, Nature, Resource};
use gpuplan_units::UsdPerHour;

/// From the first to the third hour, on spot.
pub(super) fn rented(cost: &str) -> Rented {
    Rented {
        id: "m".to_owned(),
        epoch: 1,
        node: 0,
        place: "p".to_owned(),
        instance_type: "t".to_owned(),
        is_on_spot: true,
        rate: UsdPerHour::parse("2").unwrap(),
        from: 1.0,
        until: Some(3.0),
        cost: Usd::parse(cost).unwrap(),
        charges: Vec::new(),
    }
}

pub(super) fn charge(item: Item, cost: &str) -> Charge {
    let cost = Usd::parse(cost).unwrap();
    Charge {
        id: String::new(),
        nature: Nature::Actual,
        item,
        allocation: Allocation::default(),
        start: Timestamp::UNIX_EPOCH,
        end: Timestamp::UNIX_EPOCH,
        resource: Resource { cloud: "c".to_owned(), region: Some("r".to_owned()), ..Resource::default() },
        quantity: 1.0,
        unit: "GB".to_owned(),
        unit_price: cost,
        costs: Costs { list: cost, contracted: cost, effective: cost, billed: None },
        waste: None,
        source: "list".to_owned(),
        priced_at: Some(Timestamp::UNIX_EPOCH),
        assumption: "all of it".to_owned(),
        invoice: None,
    }
}

pub(super) fn beside(item: Item, cost: &str) -> OtherCharge {
    OtherCharge { charge: charge(item, cost), from: 0.0, until: 20.0, is_open: false }
}

/// Ten hours without machines.
pub(super) fn facts() -> RunFacts {
    RunFacts {
        name: "run".to_owned(),
        state: "completed".to_owned(),
        started_at: Timestamp::UNIX_EPOCH,
        ended_at: None,
        plan: RunPlan::default(),
        done: 1.0,
        interruptions: 0,
        store: "store".to_owned(),
        machines: Vec::new(),
        beside: Vec::new(),
        beside_missing: None,
        hours: 10.0,
        events: Vec::new(),
    }
}

#[test]
fn what_is_stored_after_the_end_is_in_the_bill_and_told() {
    let run = RunFacts { machines: vec![rented("4")], beside: vec![beside(Item::CheckpointStorage, "1")], ..facts() };
    assert_eq!([0.0, 1.0, 3.0, 10.0].map(|at| run.spent_by(at)), [0.0, 0.05, 4.15, 4.5]);
    assert_eq!(run.spent(), Usd::parse("5").unwrap());
    let said = spending::section(&run).text;
    assert!(
        said.iter().any(|said| said.starts_with("What lies in its store after that has cost $0.50 more")),
        "{said:?}"
    );
}

#[test]
fn cost_grows_evenly_and_stops_with_the_machine() {
    let machine = rented("4");
    let costs = [0.5, 1.0, 2.0, 3.0, 9.0].map(|moment| machine.cost_by(moment, 10.0));
    assert_eq!(costs, [0.0, 0.0, 2.0, 4.0, 4.0]);
    let instant = Rented { until: Some(1.0), ..machine };
    assert_eq!(instant.cost_by(1.0, 10.0), 4.0);
}

#[test]
fn the_plan_spends_evenly_until_its_end() {
    let plan = [(0.0, 0.0), (4.0, 10.0), (9.0, 10.0)];
    assert_eq!([0.0, 1.0, 4.0, 6.0, 20.0].map(|at| spending::between(&plan, at)), [0.0, 2.5, 10.0, 10.0, 10.0]);
}
