//! Tests of `status.rs`: figures worked out by hand, and what holds for every ledger.

#![cfg(test)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::charge::{Allocation, Charge, Resource, Waste, examples};
use crate::portfolio::CostSource;
use crate::spending::spent::{ActualRun, CostFilter, RunKnown};
use gpuplan_units::UsdPerHour;

const TEXT: &str = "currency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-09\"\nmonths = 3\nbudget = 9000\n[[team]]\nname = \"a\"\nbudget = 6000\n\
    [[team]]\nname = \"b\"\n[[rule]]\nmin_chance = \"50 %\"\n[[rule]]\nteam = \"a\"\nmax_spent = \"40 %\"\non_break = \"warn\"\n\
    [[run]]\nname = \"tune\"\nteam = \"a\"\ntags = { project = \"seven\" }\nusd_per_hour = 10\nhours = 100\ncloud = \"aws\"\nsource = \"a quote\"\n\
    as_of = 2026-10-01\nrepeats = 4\nmonths = 2\n[[run]]\nname = \"eval\"\nteam = \"b\"\nusd_per_hour = 10\nhours = 100\ncloud = \"aws\"\n\
    source = \"a quote\"\nas_of = 2026-10-01\nstart = \"2026-11\"\nlaunched_as = [\"nightly-*\"]\n";

fn now() -> Timestamp {
    "2026-11-16T00:00:00Z".parse().unwrap()
}

fn charge(run: &str, day: &str, hours: f64, usd_per_hour: u32, waste: Option<Waste>) -> Charge {
    let start: Timestamp = format!("{day}T00:00:00Z").parse().unwrap();
    let usd = UsdPerHour::parse(&usd_per_hour.to_string()).unwrap().for_hours(1, hours).unwrap();
    let charge = examples::charge(&format!("run/{run}@k/e1-0/{day}-{waste:?}"), run, usd);
    Charge {
        allocation: Allocation { team: Some("a".to_owned()), ..charge.allocation },
        start,
        end: start,
        quantity: hours,
        waste,
        ..charge
    }
}

fn known(run: &str, outcome: Option<&str>) -> (String, RunKnown) {
    let actual = outcome.map(|_| ActualRun {
        hours: 0.0,
        machine_hours: 0.0,
        work_hours: 0.0,
        planned_work_hours: 0.0,
        nodes: 1,
        cost_usd: Usd::ZERO,
        machines_usd: None,
        planned_rate_usd: Usd::ZERO,
        interruptions: 0,
    });
    let key = format!("{run}@k");
    let outcome = outcome.map(str::to_owned);
    (key.clone(), RunKnown { key, run: run.to_owned(), outcome, actual, ..RunKnown::default() })
}

fn answer(text: &str, charges: Vec<Charge>, known: BTreeMap<String, RunKnown>) -> BudgetStatus {
    let portfolio = Portfolio::read(text).unwrap();
    let of = |what: &CostSource| match what {
        CostSource::Rate(rate) => PhaseCost::of_rate(rate).unwrap(),
        _ => panic!("a stated rate"),
    };
    let once: Vec<PhaseCost> = portfolio.phases.iter().map(|phase| of(&phase.what)).collect();
    let planned = Planned::of_today(&budget(&portfolio, &once, InputsRecord::default(), now(), 3).unwrap());
    let spent = Spent::new(charges, Vec::new(), &[], known, &CostFilter::default());
    status(&portfolio, &once, &planned, &spent, InputsRecord::default(), now(), 3).unwrap()
}

fn text(usd: Usd) -> String {
    usd.to_string()
}

#[test]
fn what_is_spent_and_what_is_to_go_are_what_it_comes_to() {
    // Two of four runs are done in October: one as planned, one at twice the rate with an hour of idling; a third has spent half.
    let charges = vec![
        charge("tune-1", "2026-10-02", 100.0, 10, None),
        charge("tune-2", "2026-10-03", 100.0, 20, None),
        charge("tune-2", "2026-10-03", 2.0, 20, Some(Waste::Idle)),
        charge("tune-3", "2026-11-10", 50.0, 10, None),
        charge("somebody", "2026-10-05", 7.0, 10, None),
        charge("nightly-4", "2026-11-01", 10.0, 10, None),
    ];
    let known = BTreeMap::from([
        known("tune-1", Some("completed")),
        known("tune-2", Some("completed")),
        known("tune-3", None),
        known("nightly-4", None),
    ]);
    let found = answer(TEXT, charges, known);
    // 4 x 1000 and 1000 were planned; 1000 + 2040 + 500 + 70 + 100 are spent; 1.5 runs of `tune` and 0.9 of `eval` are to go.
    assert_eq!(
        [found.total.planned_usd, found.total.spent_usd, found.total.to_go_usd, found.total.at_completion_usd]
            .map(text),
        ["5000.00", "3710.00", "2400.00", "6110.00"]
    );
    let row = |rows: &[StatusRow], name: &str| rows.iter().find(|row| row.name == name).unwrap().clone();
    let october = row(&found.by_month, "2026-10");
    assert_eq!([october.planned_usd, october.spent_usd, october.to_go_usd].map(text), ["2000.00", "3110.00", "0.00"]);
    assert_eq!(row(&found.by_month, "2026-09").to_go_usd, Usd::ZERO, "what is over is not forecast");
    let a = row(&found.by_team, "a");
    assert_eq!([a.spent_usd, a.to_go_usd].map(text), ["3610.00", "1500.00"]);
    assert_eq!(text(row(&found.by_project, "seven").at_completion_usd), "5040.00");
    let tune = &found.by_phase[0];
    assert!((tune.done - 2.5).abs() < 1e-9 && tune.is_late, "{tune:?}");
    // 2.5 x 1000 less 4000 that were planned until the end of October; 1000 for the rate; 40 for idling.
    let Variance { total_usd, timing_usd, rate_usd, hours_usd, idle_usd, .. } = tune.variance.clone();
    assert_eq!(text(total_usd), "-460.00");
    assert_eq!([timing_usd, rate_usd, hours_usd, idle_usd].map(text), ["-1500.00", "1000.00", "0.00", "40.00"]);
    let kinds: Vec<(AnomalyKind, &str)> = found.anomalies.iter().map(|one| (one.kind, one.run.as_str())).collect();
    assert_eq!(
        kinds,
        [(AnomalyKind::Late, "tune"), (AnomalyKind::NotPlanned, "somebody"), (AnomalyKind::IdleMachines, "tune-2")]
    );
    assert_eq!(found.total.chance_within_budget, Some(1.0));
    let spent = &found.rules[1];
    assert_eq!(
        (spent.found.map(|share| (share * 1000.0).round()), spent.verdict),
        (Some(602.0), crate::portfolio::verdict::Verdict::Warned)
    );
}

#[test]
fn a_run_at_three_times_its_forecast_stands_out_and_a_budget_that_is_spent_is_not_kept() {
    let charges = vec![charge("tune-1", "2026-10-02", 950.0, 10, None)];
    let found = answer(TEXT, charges, BTreeMap::from([known("tune-1", Some("completed"))]));
    assert_eq!(found.anomalies[0].kind, AnomalyKind::FarOverForecast);
    assert!((found.anomalies[0].times_forecast.unwrap() - 9.5).abs() < 1e-9);
    assert_eq!(found.total.chance_within_budget, Some(0.0));
    assert_eq!(found.rules[0].verdict, crate::portfolio::verdict::Verdict::Broken);
    // Nothing more is to come where the file says so.
    let ended = TEXT.replace("repeats = 4", "repeats = 4\nended = true");
    let found = answer(&ended, vec![charge("tune-1", "2026-10-02", 95.0, 10, None)], BTreeMap::new());
    assert_eq!([found.by_phase[0].row.spent_usd, found.by_phase[0].row.to_go_usd].map(text), ["950.00", "0.00"]);
}

#[test]
fn a_reservation_is_paid_once_whoever_used_it() {
    // 720 h at $4 are paid in September; 100 h on the same machines were recorded at the on-demand price of $10.
    let reservation = "[[commitment]]\nname = \"c\"\nkind = \"reservation\"\ncloud = \"aws\"\ninstance_type = \"p5\"\nnodes = 1\n\
        usd_per_hour = 4\nsource = \"an offer\"\nas_of = 2026-08-01\nmonths = 1\n";
    let on_p5 = |charge: Charge| Charge {
        resource: Resource {
            instance_type: Some("p5".to_owned()),
            purchase: Some("on-demand".to_owned()),
            ..charge.resource
        },
        ..charge
    };
    let charges = vec![on_p5(charge("tune-1", "2026-09-02", 100.0, 10, None))];
    let found = answer(&format!("{TEXT}{reservation}"), charges, BTreeMap::from([known("tune-1", Some("completed"))]));
    let september = found.by_month.iter().find(|row| row.name == "2026-09").unwrap();
    assert_eq!(text(september.spent_usd), "2880.00", "the reservation, and nothing beside it");
    let shared = found.by_team.iter().find(|row| row.name == "shared").unwrap();
    assert_eq!(text(shared.spent_usd), "1880.00");
}

#[test]
fn a_recorded_budget_is_what_was_planned() {
    let text = r#"{"version":1,"generated_at":"2026-08-20T10:00:00Z","lines":[
        {"run":"tune","phase":"tune","team":"a","month":"2026-09","cost_usd":"123.00","tags":{"project":"seven"}},
        {"run":null,"phase":null,"team":null,"month":"2026-10","cost_usd":"7.00"}]}"#;
    let planned = Planned::read(text).unwrap();
    assert_eq!(planned.source, "the budget of 2026-08-20");
    assert!(Planned::read("{}").unwrap_err().to_string().contains("`lines`"));
    assert!(Planned::read(&text.replace("2026-10", "soon")).unwrap_err().to_string().contains("`soon` is not a month"));
}

proptest! {
    // Each case draws a budget four times.
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn rows_of_each_kind_add_up_and_causes_explain_the_difference(
        runs in proptest::collection::vec((0_usize..5, 1_u8..29, 8_u8..12, 0.0..300.0_f64, 1_u32..40, 0_u8..4, any::<bool>()), 0..12),
    ) {
        let names = ["tune-1", "tune-2", "tune-3", "nightly-1", "somebody"];
        let (mut charges, mut all) = (Vec::new(), BTreeMap::new());
        for (at, (run, day, month, hours, rate, waste, is_done)) in runs.into_iter().enumerate() {
            let waste = [None, Some(Waste::Idle), Some(Waste::Redone), Some(Waste::Failed)][usize::from(waste)];
            let one = charge(names[run], &format!("2026-{month:02}-{day:02}"), hours, rate, waste);
            charges.push(Charge { id: format!("run/{}@k/e{at}-0", names[run]), ..one });
            all.extend([known(names[run], is_done.then_some("completed"))]);
        }
        let found = answer(TEXT, charges, all);
        for rows in [&found.by_month, &found.by_team, &found.by_project] {
            let sum = |amount: &dyn Fn(&StatusRow) -> Usd| rows.iter().map(amount).sum::<Usd>();
            prop_assert_eq!(sum(&|row| row.spent_usd), found.total.spent_usd);
            prop_assert_eq!(sum(&|row| row.to_go_usd), found.total.to_go_usd);
            prop_assert_eq!(sum(&|row| row.planned_usd), found.total.planned_usd);
        }
        prop_assert_eq!(found.total.at_completion_usd, found.total.spent_usd + found.total.to_go_usd);
        for month in &found.by_month {
            prop_assert!(month.name.as_str() >= "2026-11" || month.to_go_usd == Usd::ZERO, "{month:?}");
        }
        for phase in &found.by_phase {
            let of = &phase.variance;
            let causes = [of.timing_usd, of.rate_usd, of.hours_usd, of.machines_usd, of.lost_work_usd, of.idle_usd, of.bill_usd, of.other_usd];
            prop_assert_eq!(causes.into_iter().sum::<Usd>(), of.total_usd);
        }
    }
}
