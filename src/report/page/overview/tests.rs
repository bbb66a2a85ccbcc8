//! Tests of the page of all runs.

#![cfg(test)]

use super::*;
use crate::page::html::{Living, living};
use crate::page::markdown;
use crate::page::run::{Rented, RunPlan};
use crate::runs::{Activity, MachineLine};
use gpuplan_units::UsdPerHour;

fn usd(text: &str) -> Usd {
    Usd::parse(text).unwrap()
}

/// Began so many hours after the epoch, with one machine of $2 an hour from its start on.
fn run(name: &str, state: RunState, begun: i64, hours: f64, cost: &str) -> WatchedRun {
    let started_at = Timestamp::from_second(begun * 3600).unwrap();
    let is_open = state == RunState::Running;
    let machine = Rented {
        id: "m".to_owned(),
        epoch: 1,
        node: 0,
        place: "aws us-east-1".to_owned(),
        instance_type: "t".to_owned(),
        is_on_spot: true,
        rate: UsdPerHour::parse("2").unwrap(),
        from: 0.0,
        until: (!is_open).then_some(hours),
        cost: usd(cost),
        charges: Vec::new(),
    };
    let plan = RunPlan { cost: usd("10"), hours: Some(5.0), ..RunPlan::default() };
    WatchedRun {
        line: RunLine {
            run: name.to_owned(),
            state,
            machines: vec![MachineLine {
                id: "m".to_owned(),
                state: if is_open { MachineState::Running } else { MachineState::Gone },
                pool: "aws/us-east-1/t".to_owned(),
                epoch: Some(1),
            }],
            relaunches: Some(0),
            cost_usd: Some(usd(cost)),
            expected_cost_usd: Some(usd("10")),
            progress: Some(if is_open { 0.5 } else { 1.0 }),
            started_at,
            ended_at: None,
            store: "file:///s".to_owned(),
            submission: None,
            activity: Activity::default(),
        },
        facts: Some(RunFacts {
            name: name.to_owned(),
            state: state.word().to_owned(),
            started_at,
            ended_at: None,
            plan,
            done: 0.5,
            interruptions: 0,
            store: "file:///s".to_owned(),
            machines: vec![machine],
            beside: Vec::new(),
            beside_missing: None,
            hours,
            events: Vec::new(),
        }),
        page: Some(format!("run-{name}.html")),
        team: Some("vision".to_owned()),
        idle: is_open.then_some(IdleMachines { idle: 1, sampled: 1 }),
        price: Some(SeenPrice { source: "snapshot".to_owned(), observed_at: Timestamp::UNIX_EPOCH }),
    }
}

fn page(runs: Vec<WatchedRun>) -> Report {
    report(runs, Timestamp::UNIX_EPOCH, Timestamp::from_second(100 * 3600).unwrap())
}

#[test]
fn open_runs_come_first_with_what_they_will_have_cost() {
    let text = markdown::markdown(&page(vec![
        run("done", RunState::Completed, 0, 4.0, "8"),
        run("open", RunState::Running, 2, 3.0, "6"),
    ]));
    // Half of $10 is to go after $6; what is completed stays as it is.
    assert!(
        text.contains("| open | vision | running | aws/us-east-1/t | 50 % | $6.00 | $10.00 | $11.00 | \\+10 % |"),
        "{text}"
    );
    assert!(text.contains("| done | vision | completed |  | 100 % | $8.00 | $10.00 | $8.00 | \\-20 % |"), "{text}");
    assert!(text.find("| open |") < text.find("| done |"), "{text}");
    assert!(text.contains("has cost $8.00 where $10.00 were expected: -20 %"), "{text}");
    assert!(text.contains("open: 1 of 1 machines idle; all its machines cost $2.00 an hour."), "{text}");
    assert!(text.contains("The newest price that a plan would go by is 4 d old."), "{text}");
}

#[test]
fn spending_of_runs_adds_up_at_every_moment() {
    let runs = [run("a", RunState::Completed, 0, 4.0, "8"), run("b", RunState::Running, 2, 3.0, "6")];
    let section = spending(&runs).unwrap();
    let rows = &section.figures[0].table.rows;
    let exact = |row: usize, column: usize| rows[row][column].exact.parse::<f64>().unwrap();
    assert_eq!((rows.len(), exact(0, 1)), (7, 0.0));
    assert_eq!((exact(6, 0), exact(6, 1)), (5.0, 14.0));
    // By the plans: $10 in the first five hours, and three fifths of the other $10.
    assert!((exact(6, 2) - 16.0).abs() < 1e-9);
    let falls = |column| (1..rows.len()).any(|row| exact(row, column) < exact(row - 1, column));
    assert!(!falls(1) && !falls(2));
}

#[test]
fn a_page_reloads_itself_and_leads_to_the_pages_of_its_runs() {
    let text = living(&page(vec![run("a", RunState::Running, 0, 1.0, "2")]), Living { seconds: 30, up: None });
    assert!(text.contains("<meta http-equiv=\"refresh\" content=\"30\">") && !text.contains("<script"), "{text}");
    assert!(text.contains("<a href=\"run-a.html\">a</a>"), "{text}");
    let text = living(&page(Vec::new()), Living { seconds: 30, up: Some("index.html") });
    assert!(text.contains("No run was launched from this machine.") && text.contains("href=\"index.html\""), "{text}");
}

#[test]
fn what_an_engine_runs_has_a_row_without_money() {
    let mut engine = run("job", RunState::Running, 0, 1.0, "2");
    (engine.facts, engine.page, engine.idle) = (None, None, None);
    (engine.line.cost_usd, engine.line.expected_cost_usd, engine.line.progress) = (None, None, None);
    let text = markdown::markdown(&page(vec![engine]));
    assert!(text.contains("| job | vision | running | aws/us-east-1/t | \\- | \\- | \\- | \\- | \\- |"), "{text}");
    assert!(text.contains("job: no machine says what it does."), "{text}");
    assert!(text.contains("$0.00 an hour now; nothing is known of 1 run"), "{text}");
}
