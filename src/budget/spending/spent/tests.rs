//! Tests of `spent.rs`.

#![cfg(test)]

use proptest::prelude::*;

use super::*;
use crate::charge::{Allocation, Costs, Invoice, Resource, examples};

fn charge(run: &str, start: i64, end: i64, nanos: i128, waste: Option<Waste>) -> Charge {
    let charge = examples::charge(&format!("run/{run}@k/e1-0/{start}-{waste:?}"), run, Usd::from_nanos(nanos));
    let tags = BTreeMap::from([("team".to_owned(), "vision".to_owned()), ("paper".to_owned(), run.to_owned())]);
    Charge {
        allocation: Allocation { team: Some("vision".to_owned()), tags, ..charge.allocation },
        start: Timestamp::from_second(start).unwrap(),
        end: Timestamp::from_second(end).unwrap(),
        quantity: (end - start) as f64 / 3600.0,
        costs: Costs { list: charge.costs.list + charge.costs.list, ..charge.costs },
        waste,
        ..charge
    }
}

fn known(run: &str, outcome: &str, tokens: f64) -> (String, RunKnown) {
    let expected = Expected {
        plan: String::new(),
        gpu: String::new(),
        gpus_per_node: 1.0,
        framework: String::new(),
        cost_usd: gpuplan_units::Quantiles::default(),
        hours: gpuplan_units::Quantiles::default(),
        interruptions: 0.0,
        tokens: Some(tokens),
        prices: Vec::new(),
        basis: None,
        beside: Vec::new(),
        fetched_bytes: None,
    };
    let key = format!("{run}@k");
    let (outcome, expected) = (Some(outcome.to_owned()), Some(expected));
    (key.clone(), RunKnown { key, run: run.to_owned(), outcome, expected, ..RunKnown::default() })
}

#[test]
fn waste_and_tokens_are_told_by_run() {
    let charges = vec![
        charge("a", 0, 3600, 3_000_000_000, None),
        charge("a", 3600, 7200, 1_000_000_000, Some(Waste::Redone)),
        charge("b", 0, 3600, 6_000_000_000, None),
    ];
    let spent = Spent::new(
        charges,
        vec![charge("c", 0, 3600, 5, None)],
        &[],
        BTreeMap::from([known("a", "completed", 2e6), known("b", "failed", 1e6)]),
        &CostFilter::default(),
    );
    let (rows, total) = spent.sums(&CostGrouping::Run);
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(
        (rows[0].wasted_share(), rows[1].wasted_share(), rows[2].wasted_share()),
        (Some(0.25), Some(1.0), Some(0.0))
    );
    assert_eq!((rows[0].usd_per_million_tokens(), rows[1].usd_per_million_tokens()), (Some(2.0), None));
    assert_eq!(
        (rows[2].so_far.nanos(), total.contracted.nanos(), total.list.nanos()),
        (5, 10_000_000_005, 20_000_000_010)
    );
    assert_eq!(spent.sums(&CostGrouping::Team).0[0].runs.len(), 3);
    assert_eq!(spent.sums(&CostGrouping::Tag("paper".to_owned())).0.len(), 3);
    assert_eq!(spent.sums(&CostGrouping::Tag("none".to_owned())).0[0].name, UNALLOCATED);
}

#[test]
fn a_rehearsal_is_money_of_nobody() {
    let resource = Resource { cloud: REHEARSAL.to_owned(), ..Resource::default() };
    let fake = Charge { resource, ..charge("a", 0, 10, 7, None) };
    let spent = |clouds: &[&str]| {
        let asked =
            CostFilter { clouds: clouds.iter().map(|cloud| (*cloud).to_owned()).collect(), ..CostFilter::default() };
        Spent::new(vec![fake.clone(), charge("b", 0, 10, 1, None)], Vec::new(), &[], BTreeMap::new(), &asked)
    };
    let plain = spent(&[]);
    assert_eq!((plain.sums(&CostGrouping::Run).1.contracted.nanos(), plain.rehearsals), (1, 1));
    assert_eq!(spent(&["fake"]).sums(&CostGrouping::Run).1.contracted.nanos(), 7);
}

#[test]
fn only_the_part_in_time_counts() {
    let asked = CostFilter {
        since: Timestamp::from_second(1800).ok(),
        until: Timestamp::from_second(2700).ok(),
        ..CostFilter::default()
    };
    let spent = Spent::new(vec![charge("a", 0, 3600, 4_000, None)], Vec::new(), &[], BTreeMap::new(), &asked);
    assert_eq!(spent.sums(&CostGrouping::Run).1.contracted.nanos(), 1_000);
    let late = CostFilter { since: Timestamp::from_second(3600).ok(), ..CostFilter::default() };
    assert!(
        Spent::new(vec![charge("a", 0, 3600, 4_000, None)], Vec::new(), &[], BTreeMap::new(), &late).lines.is_empty()
    );
}

#[test]
fn what_an_invoice_has_for_a_year_is_paid_in_its_month() {
    let moment = |text: &str| text.parse::<Timestamp>().unwrap();
    let (start, end) = (moment("2026-02-01T00:00:00Z"), moment("2027-02-01T00:00:00Z"));
    let year = |invoice: Option<Invoice>| Charge { start, end, invoice, ..charge("a", 0, 10, 459_024, None) };
    let months = |charge: Charge, asked: &CostFilter| {
        let spent = Spent::new(vec![charge], Vec::new(), &[], BTreeMap::new(), asked);
        let (rows, _) = spent.sums(&CostGrouping::Month);
        rows.into_iter().map(|row| (row.name, row.contracted.nanos())).collect::<Vec<_>>()
    };
    let whole = ("2026-02".to_owned(), 459_024);
    let of_bill = || year(Some(Invoice { account: "1".to_owned(), month: "2026-02".to_owned(), id: None }));
    assert_eq!(months(of_bill(), &CostFilter::default()), std::slice::from_ref(&whole));
    let february =
        CostFilter { since: Some(start), until: Some(moment("2026-03-01T00:00:00Z")), ..CostFilter::default() };
    assert_eq!(months(of_bill(), &february), [whole]);
    let march = CostFilter { since: Some(moment("2026-03-01T00:00:00Z")), ..CostFilter::default() };
    assert_eq!(months(of_bill(), &march), []);
    assert_eq!(months(year(None), &CostFilter::default()).len(), 12, "what a run records lasts as long as it lasts");
}

proptest! {
    #[test]
    fn the_rows_are_the_total_to_the_nano_dollar(
        lines in proptest::collection::vec((0_u8..4, 0_i64..400_000, 0_i64..400_000, -1_000_000_007_i128..1_000_000_000_000_007), 0..30),
    ) {
        let charges: Vec<Charge> = lines
            .iter()
            .map(|(run, start, length, nanos)| charge(&format!("r{run}"), *start, start + length, *nanos, None))
            .collect();
        let whole: Usd = charges.iter().map(|charge| charge.costs.contracted).sum();
        let spent = Spent::new(charges, Vec::new(), &[], BTreeMap::new(), &CostFilter::default());
        for by in [CostGrouping::Run, CostGrouping::Team, CostGrouping::Day, CostGrouping::Tag("paper".to_owned())] {
            let (rows, total) = spent.sums(&by);
            let sum: Usd = rows.iter().map(|row| row.contracted).sum();
            prop_assert_eq!((sum, total.contracted), (whole, whole));
            prop_assert_eq!(rows.iter().map(|row| row.list).sum::<Usd>(), total.list);
        }
    }
}
