//! The charts of a plan, each with its table; or why there is none.

use crate::page::bill::{self, BillRow};
use crate::page::chart::{
    Bar, BarChart, Chart, ChartKind, LineChart, Mark, Quantity, Range, RangeChart, ScatterPlot, ScatterPoint, Series,
    Stroke,
};
use crate::page::document::{Cell, Column, Figure, Section, Table, day};
use crate::page::plan::around::ReportContext;
use crate::text::format;
use gpuplan_market::trend::Trend;
use gpuplan_plan::document::{BillLineRecord, PlanDocument, PlanRecord, TermsOutcome, TermsRecord};
use gpuplan_plan::money::drift::SPOT_KNOWN_FOR;
use gpuplan_units::{Hours, Usd};

/// Plans whose spread of cost is drawn.
const SPREADS: usize = 8;

/// A section with its figures, or why it has no data.
type Found = Result<Section, &'static str>;

pub fn all(document: &PlanDocument, plan: &PlanRecord, around: &ReportContext) -> Vec<(&'static str, Found)> {
    vec![
        ("Cost against time", frontier(document, plan, around)),
        ("How sure the cost is", Ok(certainty(document, plan, around))),
        ("The bill", bill(plan)),
        ("Ways to pay", ways(document)),
        ("Where the time of a step goes", step(plan)),
        ("Price history", history(around)),
        ("Spending and interruptions over time", Err("a plan has not run; `gpuplan report RUN` shows them for a run")),
    ]
}

fn section(id: &'static str, heading: &'static str, text: String, figures: Vec<Figure>) -> Section {
    Section { id, heading, text: vec![text], points: Vec::new(), figures }
}

/// Recommended and frontier by cost, then the best of other GPUs.
fn listed<'a>(document: &'a PlanDocument, plan: &'a PlanRecord) -> Vec<(&'a PlanRecord, Mark)> {
    let mut front: Vec<&PlanRecord> = document.plans.frontier.iter().collect();
    if !front.iter().any(|one| one.id == plan.id) {
        front.push(plan);
    }
    front.sort_by_key(|one| one.cost.cost_usd.expected);
    let mark = |one: &PlanRecord| if one.id == plan.id { Mark::Best } else { Mark::Frontier };
    let others = document.plans.alternatives.iter().filter(|one| front.iter().all(|known| known.id != one.id));
    front.iter().map(|one| (*one, mark(one))).chain(others.map(|one| (one, Mark::Other))).collect()
}

fn frontier(document: &PlanDocument, plan: &PlanRecord, around: &ReportContext) -> Found {
    let listed = listed(document, plan);
    if listed.len() < 2 {
        return Err("there is one plan only");
    }
    let points = listed.iter().enumerate().map(|(index, (one, mark))| ScatterPoint {
        hours: one.time.run_hours.expected,
        usd: one.cost.cost_usd.expected.dollars(),
        mark: *mark,
        label: (index + 1).to_string(),
    });
    let points = ScatterPlot {
        x_name: "expected time".to_owned(),
        y_name: "expected cost".to_owned(),
        points: points.collect(),
    };
    let best = listed.iter().position(|(_, mark)| *mark == Mark::Best).expect("the plan itself is listed") + 1;
    let chart = Chart::new(
        "Cost against time",
        format!(
            "{} plans by expected time and expected cost. Number {best} is recommended. The table below has every point.",
            listed.len()
        ),
        ChartKind::Scatter(points),
    );
    let row = |(index, (one, mark)): (usize, &(&PlanRecord, Mark))| {
        let role = match mark {
            Mark::Best => "recommended",
            Mark::Frontier => "frontier",
            Mark::Other if is_old(document, one) => "old price",
            Mark::Other if one.machines.gpu == plan.machines.gpu => "other place or terms",
            Mark::Other => "other GPU",
        };
        vec![
            Cell::text((index + 1).to_string()),
            Cell::new(around.gpus(one), format!("{} x {}", one.gpus(), one.machines.gpu)),
            Cell::usd(one.cost.cost_usd.expected),
            Cell::usd(one.cost.cost_usd.p90),
            Cell::hours(one.time.run_hours.expected),
            Cell::hours(one.time.run_hours.p90),
            Cell::text(one.machines.purchase.word()),
            Cell::new(format!("{} {}", one.machines.cloud, one.machines.place()), &*one.id),
            Cell::text(role),
        ]
    };
    let table = Table {
        id: "frontier",
        caption: "Plans that keep every limit, the cheapest first, then the best of other GPUs, of clouds that are only priced and of old prices; nine of ten cases stay below p90"
            .to_owned(),
        columns: vec![
            Column::number("number", "No."),
            Column::text("gpus", "GPUs"),
            Column::number("cost_usd_expected", "Cost"),
            Column::number("cost_usd_p90", "Cost (p90)"),
            Column::number("run_hours_expected", "Time"),
            Column::number("run_hours_p90", "Time (p90)"),
            Column::text("purchase", "Terms"),
            Column::text("id", "Where"),
            Column::text("role", "Place in the list"),
        ],
        rows: listed.iter().enumerate().map(row).collect(),
    };
    let text = "Nothing on the frontier is beaten in both cost and time by a plan that can be launched at a price that is known.".to_owned();
    Ok(section("cost-against-time", "Cost against time", text, vec![Figure { chart: Some(chart), table }]))
}

/// A spot price that nobody knows today.
fn is_old(document: &PlanDocument, plan: &PlanRecord) -> bool {
    let is_spot = plan.machines.purchase.is_spot();
    let age = document.generated_at.duration_since(plan.price.observed_at).as_secs_f64() / 3600.0;
    is_spot && age > SPOT_KNOWN_FOR.0
}

fn certainty(document: &PlanDocument, plan: &PlanRecord, around: &ReportContext) -> Section {
    let listed = listed(document, plan);
    let front: Vec<(usize, &PlanRecord)> = listed
        .iter()
        .enumerate()
        .filter(|(_, (_, mark))| *mark != Mark::Other)
        .map(|(index, (one, _))| (index + 1, *one))
        .collect();
    let place = front.iter().position(|(_, one)| one.id == plan.id).expect("the plan itself is listed");
    // The plans around the recommended one.
    let first = place.saturating_sub(SPREADS / 2).min(front.len().saturating_sub(SPREADS));
    let plans = &front[first..(first + SPREADS).min(front.len())];
    let name = |(number, one): &(usize, &PlanRecord)| {
        format!("{number}: {}, {}, {}", around.gpus(one), one.machines.purchase.word(), one.machines.place())
    };
    let range = |known: &(usize, &PlanRecord)| Range {
        name: name(known),
        words: format!("{} to {}", format::usd(known.1.cost.cost_usd.p50), format::usd(known.1.cost.cost_usd.p90)),
        median: known.1.cost.cost_usd.p50.dollars(),
        p90: known.1.cost.cost_usd.p90.dollars(),
        expected: known.1.cost.cost_usd.expected.dollars(),
        is_best: known.1.id == plan.id,
    };
    let chart = Chart::new(
        "Cost from the middle case to nine of ten",
        format!(
            "For {} plans a bar from the 50th to the 90th percentile of cost, with a mark at the expected cost. Number {}, the recommended one, goes from {} to {}.",
            plans.len(),
            front[place].0,
            format::usd(plan.cost.cost_usd.p50),
            format::usd(plan.cost.cost_usd.p90)
        ),
        ChartKind::Ranges(RangeChart {
            ranges: plans.iter().map(range).collect(),
            limits: Vec::new(),
            is_from_zero: false,
        }),
    );
    let row = |known: &(usize, &PlanRecord)| {
        let cost = known.1.cost.cost_usd;
        let mut cells = vec![Cell::new(name(known), &*known.1.id)];
        cells.extend([cost.p50, cost.expected, cost.p90].map(Cell::usd));
        cells
    };
    let table = Table {
        id: "spread",
        caption: "Percentiles of the cost".to_owned(),
        columns: vec![
            Column::text("id", "Plan"),
            Column::number("cost_usd_p50", "Middle case (p50)"),
            Column::number("cost_usd_expected", "Expected (mean)"),
            Column::number("cost_usd_p90", "Nine of ten (p90)"),
        ],
        rows: plans.iter().map(row).collect(),
    };
    let text = "A plan knows three figures of its cost: the middle case (50th percentile), the mean, and what nine of ten cases stay below \
        (90th percentile). The bar goes from the first to the last, the mark is the mean. The numbers are those of the list above.";
    let mut figures = vec![Figure { chart: Some(chart), table }];
    figures.extend(histogram(plan));
    section("certainty", "How sure the cost is", text.to_owned(), figures)
}

/// Of the draws of a forecast, where a plan has one.
fn histogram(plan: &PlanRecord) -> Option<Figure> {
    let bars = plan.spot.as_ref().map(|spot| &spot.cost_histogram).filter(|bars| !bars.is_empty())?;
    let name = |from: Usd, to: Usd| format!("{} to {}", format::usd(from), format::usd(to));
    let rows = bars.iter().map(|bar| Bar {
        name: name(bar.from_usd, bar.to_usd),
        value: bar.share,
        words: format!("{:.0} %", bar.share * 100.0),
    });
    let chart = Chart::new(
        "What the machines cost in the replayed cases",
        format!("Shares of the replayed cases in {} bands of cost of equal width.", bars.len()),
        ChartKind::Bars(BarChart { bars: rows.collect() }),
    );
    let table = Table {
        id: "histogram",
        caption: "Replayed cases of the recommended plan by what machines cost (storage and transfer come on top)"
            .to_owned(),
        columns: vec![
            Column::number("from_usd", "From"),
            Column::number("to_usd", "To"),
            Column::number("share", "Share of cases"),
        ],
        rows: bars
            .iter()
            .map(|bar| vec![Cell::usd(bar.from_usd), Cell::usd(bar.to_usd), Cell::share(bar.share)])
            .collect(),
    };
    Some(Figure { chart: Some(chart), table })
}

fn bill(plan: &PlanRecord) -> Found {
    if plan.cost.bill.is_empty() {
        return Err("the plan has no bill");
    }
    let row = |line: &BillLineRecord| BillRow {
        item: line.item.clone(),
        quantity: line.quantity,
        unit: line.unit.clone(),
        unit_price: Some(line.unit_price_usd),
        cost: line.cost_usd,
        basis: line.basis.clone(),
    };
    let rows: Vec<BillRow> = plan.cost.bill.iter().map(row).collect();
    let total = format::usd(bill::total(&rows));
    let largest = rows.iter().max_by_key(|row| row.cost).map_or("", |row| &row.item);
    let description = format!("{} items that add up to {total}; the largest is {largest}.", rows.len());
    let text = vec![format!("The lines add up to the expected cost, {total}.")];
    Ok(bill::section(&rows, description, "Expected bill: quantity times unit price", text))
}

fn ways(document: &PlanDocument) -> Found {
    if document.terms.len() < 2 {
        return Err("the market sells these machines on one kind of terms only");
    }
    let row = |terms: &TermsRecord| {
        let mut cells = vec![Cell::text(&*terms.purchase)];
        cells.extend(match &terms.outcome {
            TermsOutcome::Kept { run_hours, cost_usd, bound_to_usd, .. } => [
                Cell::usd(cost_usd.expected),
                Cell::usd(cost_usd.p90),
                Cell::hours(run_hours.expected),
                bound_to_usd.map_or_else(Cell::none, Cell::usd),
                Cell::text("possible"),
            ],
            TermsOutcome::Refused { refused } => {
                [Cell::none(), Cell::none(), Cell::none(), Cell::none(), Cell::text(&**refused)]
            }
        });
        cells
    };
    let table = Table {
        id: "terms",
        caption: "The recommended machines on every way to buy them".to_owned(),
        columns: vec![
            Column::text("purchase", "Terms"),
            Column::number("cost_usd_expected", "Cost"),
            Column::number("cost_usd_p90", "Cost (p90)"),
            Column::number("run_hours_expected", "Time"),
            Column::number("bound_to_usd", "Paid in any case"),
            Column::text("verdict", "Possible?"),
        ],
        rows: document.terms.iter().map(row).collect(),
    };
    Ok(section(
        "ways-to-pay",
        "Ways to pay",
        "The same run on the same machines.".to_owned(),
        vec![Figure { chart: None, table }],
    ))
}

fn step(plan: &PlanRecord) -> Found {
    let total: f64 = plan.step.step_parts.iter().map(|part| part.seconds.0).sum();
    if total <= 0.0 {
        return Err("this plan document does not say it; a plan made again with this version does");
    }
    let words = |seconds: f64| format!("{}, {:.0} %", format::step_seconds(seconds), seconds / total * 100.0);
    let rows = plan.step.step_parts.iter().map(|part| Bar {
        name: part.part.clone(),
        value: part.seconds.0,
        words: words(part.seconds.0),
    });
    let largest = plan.step.step_parts.first().map_or(String::new(), |part| part.part.clone());
    let chart = Chart::new(
        "The time of a step by part",
        format!("{} parts; the largest is {largest}.", plan.step.step_parts.len()),
        ChartKind::Bars(BarChart { bars: rows.collect() }),
    );
    let table = Table {
        id: "step",
        caption: "Parts of one optimizer step, estimated".to_owned(),
        columns: vec![
            Column::text("part", "Part"),
            Column::number("seconds", "Time"),
            Column::number("share", "Share"),
        ],
        rows: plan
            .step
            .step_parts
            .iter()
            .map(|part| {
                let seconds = Cell::new(format::step_seconds(part.seconds.0), part.seconds.0.to_string());
                vec![Cell::text(&*part.part), seconds, Cell::share(part.seconds.0 / total)]
            })
            .collect(),
    };
    let text = format!(
        "A step takes {}. Time in which GPUs wait is paid like any other.",
        format::step_band(plan.step.step_seconds)
    );
    Ok(section("step", "Where the time of a step goes", text, vec![Figure { chart: Some(chart), table }]))
}

fn history(around: &ReportContext) -> Found {
    let none =
        "the price cache knows no course of this price; `gpuplan refresh --history` asks the clouds that tell theirs";
    let points = around.history;
    let (Some(first), Some(trend)) = (points.first(), Trend::from_points(points, around.now)) else { return Err(none) };
    if points.len() < 2 {
        return Err(none);
    }
    let hours = |at: jiff::Timestamp| at.duration_since(first.since).as_secs_f64() / 3600.0;
    // A price holds until the next one: each change is an upright step.
    let mut course: Vec<(f64, f64)> = Vec::new();
    for point in points.iter().filter(|point| point.since <= around.now) {
        if let Some(last) = course.last().copied() {
            course.push((hours(point.since), last.1));
        }
        course.push((hours(point.since), point.rate.dollars()));
    }
    course.push((hours(around.now), trend.now.dollars()));
    let change = |change: Option<f64>| {
        change.map_or_else(Cell::none, |share| Cell::new(format!("{:+.0} %", share * 100.0), share.to_string()))
    };
    let chart = Chart::new(
        "Price of one machine over time",
        format!(
            "{} prices since {}: between {} and {} an hour, now {}.",
            points.len(),
            day(first.since),
            format::rate(trend.lowest),
            format::rate(trend.highest),
            format::rate(trend.now)
        ),
        ChartKind::Lines(LineChart {
            time: Quantity::Hours,
            x_name: format!("since {}", day(first.since)),
            y_name: "$ an hour, one machine".to_owned(),
            begins_at_zero: false,
            series: vec![Series { name: "price".to_owned(), stroke: Stroke::Solid, points: course }],
        }),
    );
    let table = Table {
        id: "price-history",
        caption: format!("Price of one machine, over {}", Hours(hours(around.now))),
        columns: vec![
            Column::number("now_usd_per_hour", "Now"),
            Column::number("lowest_usd_per_hour", "Lowest"),
            Column::number("highest_usd_per_hour", "Highest"),
            Column::number("change_7_days", "7 days"),
            Column::number("change_30_days", "30 days"),
            Column::number("daily_volatility", "Volatility a day"),
        ],
        rows: vec![vec![
            Cell::rate(trend.now),
            Cell::rate(trend.lowest),
            Cell::rate(trend.highest),
            change(trend.change_7_days),
            change(trend.change_30_days),
            trend
                .daily_volatility
                .map_or_else(Cell::none, |share| Cell::new(format!("{:.1} %", share * 100.0), share.to_string())),
        ]],
    };
    let text =
        "What the cloud asked for one such machine in this place, as far as the price cache of this machine knows."
            .to_owned();
    Ok(section("price-history", "Price history", text, vec![Figure { chart: Some(chart), table }]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{Hardware, InstanceId};
    use gpuplan_market::{Location, Market, PricePoint, Purchase};
    use gpuplan_units::UsdPerHour;

    #[test]
    fn a_price_is_drawn_as_steps_up_to_now_and_one_price_is_no_history() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let point = |since: &str, rate: &str| PricePoint {
            instance: InstanceId(0),
            place: Location { region: "r".into(), zone_id: None },
            purchase: Purchase::Spot,
            since: since.parse().unwrap(),
            rate: UsdPerHour::parse(rate).unwrap(),
        };
        let points = [point("2026-08-01T00:00:00Z", "10"), point("2026-08-01T12:00:00Z", "20")];
        let now = "2026-08-02T00:00:00Z".parse().unwrap();
        let around = |history| ReportContext { hardware: &hardware, market: &market, now, history };
        assert!(history(&around(&points[..1])).is_err() && history(&around(&[])).is_err());
        let section = history(&around(&points)).unwrap();
        let Some(Chart { kind: ChartKind::Lines(lines), .. }) = &section.figures[0].chart else { panic!("no lines") };
        assert_eq!(lines.series[0].points, [(0.0, 10.0), (12.0, 10.0), (12.0, 20.0), (24.0, 20.0)]);
        assert_eq!(section.figures[0].table.rows[0][2].shown, "$20.00");
    }
}
