//! Spending of a run over time against its plan.

use crate::page::chart::{Chart, ChartKind, LineChart, Quantity, Series, Stroke};
use crate::page::document::{Cell, Column, Figure, Section, Table};
use crate::page::run::facts::{RunFacts, evenly};
use crate::text::format;
use gpuplan_units::{Hours, Usd};

/// A budget so many times above all else is told and not drawn: beside it the rest would be a flat line.
const FAR: f64 = 4.0;

/// Spent by the moments at which machines came or went, beside what the plan had spent by then.
pub fn section(run: &RunFacts) -> Section {
    let mut moments: Vec<f64> = run
        .machines
        .iter()
        .flat_map(|machine| [machine.from, machine.end(run.hours)])
        .chain([0.0, run.hours])
        .collect();
    moments.retain(|moment| *moment <= run.hours);
    moments.sort_by(f64::total_cmp);
    moments.dedup();
    let points: Vec<(f64, f64)> = moments.iter().map(|moment| (*moment, run.spent_by(*moment))).collect();
    let by_now = run.spent_by(run.hours);
    let series = series(run, &points, by_now);
    let chart = Chart::new(
        "Spending over time",
        format!(
            "Spending rises to {} in {}; {} were expected for the whole run.",
            dollars(by_now),
            Hours(run.hours),
            format::usd(run.plan.cost)
        ),
        ChartKind::Lines(LineChart {
            time: Quantity::Hours,
            x_name: "since the start".to_owned(),
            y_name: "spent".to_owned(),
            begins_at_zero: true,
            series,
        }),
    );
    let plan = planned(run);
    let amount = |usd: f64| Usd::from_dollars(usd).map_or_else(|| Cell::text(dollars(usd)), Cell::usd);
    let row = |(hours, usd): &(f64, f64)| {
        let by_plan = plan.as_ref().map_or_else(Cell::none, |plan| amount(between(plan, *hours)));
        vec![Cell::hours(*hours), amount(*usd), by_plan]
    };
    let table = Table {
        id: "spending",
        caption: "Spent by the moments at which machines came or went".to_owned(),
        columns: vec![
            Column::number("hours", "Since the start"),
            Column::number("spent_usd", "Spent"),
            Column::number("planned_usd", "By the plan"),
        ],
        rows: points.iter().map(row).collect(),
    };
    let text = remarks(run, by_now);
    Section {
        id: "spending",
        heading: "Spending against plan",
        text,
        points: Vec::new(),
        figures: vec![Figure { chart: Some(chart), table }],
    }
}

fn dollars(usd: f64) -> String {
    Usd::from_dollars(usd).map_or_else(|| "more than can be counted".to_owned(), format::usd)
}

/// Spent, planned, and the budget where it is near.
fn series(run: &RunFacts, points: &[(f64, f64)], by_now: f64) -> Vec<Series> {
    let level = |name: &str, stroke, amount: Usd| Series {
        name: format!("{name} {}", format::usd(amount)),
        stroke,
        points: vec![(0.0, amount.dollars()), (run.hours.max(run.plan.hours.unwrap_or(0.0)), amount.dollars())],
    };
    let mut all =
        vec![Series { name: format!("spent {}", dollars(by_now)), stroke: Stroke::Solid, points: points.to_vec() }];
    all.push(match planned(run) {
        Some(points) => {
            let name = format!("planned {} in {}", format::usd(run.plan.cost), Hours(points[1].0));
            Series { name, stroke: Stroke::Dashed, points }
        }
        None => level("expected in all", Stroke::Dashed, run.plan.cost),
    });
    all.extend(
        run.plan.budget.filter(|_| !has_far_budget(run, by_now)).map(|budget| level("budget", Stroke::Dotted, budget)),
    );
    all
}

fn has_far_budget(run: &RunFacts, by_now: f64) -> bool {
    run.plan.budget.is_some_and(|budget| budget.dollars() > FAR * by_now.max(run.plan.cost.dollars()))
}

/// What the chart does not say.
fn remarks(run: &RunFacts, by_now: f64) -> Vec<String> {
    let text = match planned(run) {
        Some(_) => {
            "The plan knows its cost and its hours, so its spending is drawn evenly from the request to the expected end; what a run on \
                    spot spends comes in steps."
                .to_owned()
        }
        None => "Of this run's plan only the cost is known, so it is a level line.".to_owned(),
    };
    let mut text = vec![text];
    let after = run
        .beside
        .iter()
        .filter(|one| one.until > run.hours)
        .map(|one| {
            one.charge.costs.contracted.dollars() - evenly(one.charge.costs.contracted, one.from, one.until, run.hours)
        })
        .sum::<f64>();
    if let Some(budget) = run.plan.budget.filter(|_| has_far_budget(run, by_now)) {
        text.push(format!("The budget, {}, lies far above the chart.", format::usd(budget)));
    }
    if after >= 0.005 {
        text.push(format!(
            "What lies in its store after that has cost ${after:.2} more, which is in the bill and not in this chart."
        ));
    }
    text
}

/// What the plan had spent at each moment: evenly until its expected end, then nothing more.
fn planned(run: &RunFacts) -> Option<Vec<(f64, f64)>> {
    let (hours, cost) = (run.plan.hours.filter(|hours| *hours > 0.0)?, run.plan.cost.dollars());
    let after = (run.hours > hours).then_some((run.hours, cost));
    Some([(0.0, 0.0), (hours, cost)].into_iter().chain(after).collect())
}

/// On a line through points whose first coordinates rise; its last height beyond them.
pub(super) fn between(points: &[(f64, f64)], at: f64) -> f64 {
    let pair = points.windows(2).find(|pair| at <= pair[1].0);
    match pair {
        Some([(from, low), (to, high)]) if to > from => low + (high - low) * (at - from) / (to - from),
        _ => points.last().map_or(0.0, |(_, height)| *height),
    }
}
