//! The page of all runs: what runs, what was spent against what was expected, which machines stand idle, how old prices are.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::page::chart::{Chart, ChartKind, LineChart, Part, PartsChart, Quantity, Series, Stroke};
use crate::page::document::{Cell, Column, Figure, KeyFigure, Report, Section, Table, day};
use crate::page::run::RunFacts;
use crate::runs::{MachineState, RunLine, RunState};
use crate::text::format;
use gpuplan_units::{Hours, Usd};

/// Runs that are drawn; the table has all.
const DRAWN: usize = 20;

/// Steps of the chart of spending, and how many of them are a row of its table.
const STEPS: u32 = 48;
const STEPS_A_ROW: usize = 8;

/// A run as the page of all runs shows it.
#[derive(Clone, Debug)]
pub struct WatchedRun {
    pub line: RunLine,
    /// `None`: an engine has it, and nothing is known of its machines and its money.
    pub facts: Option<RunFacts>,
    /// The file with its own page.
    pub page: Option<String>,
    /// By its tag `team`.
    pub team: Option<String>,
    /// `None`: no machine of it says what it does.
    pub idle: Option<IdleMachines>,
    pub price: Option<SeenPrice>,
}

/// Machines of a run by what their agents sampled last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleMachines {
    pub idle: u32,
    pub sampled: u32,
}

/// The price that the plan of a run rested on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPrice {
    pub source: String,
    pub observed_at: Timestamp,
}

impl WatchedRun {
    fn is_over(&self) -> bool {
        matches!(self.line.state, RunState::Completed | RunState::Failed | RunState::Stopped)
    }

    fn spent(&self) -> Option<Usd> {
        self.facts.as_ref().map(RunFacts::spent).or(self.line.cost_usd)
    }

    /// Spent, and what the rest of the work costs by the plan.
    fn at_the_end(&self) -> Option<Usd> {
        let spent = self.spent()?;
        if self.is_over() {
            return Some(spent);
        }
        let (expected, done) = (self.line.expected_cost_usd?, self.line.progress?);
        Usd::from_dollars(spent.dollars() + expected.dollars() * (1.0 - done.clamp(0.0, 1.0)))
    }

    /// Of the machines that cost money now. Dollars an hour.
    fn rate(&self) -> f64 {
        let machines = self.facts.iter().flat_map(|facts| &facts.machines);
        let paid = machines.filter(|machine| machine.until.is_none());
        // From zero: a sum of nothing is -0.
        paid.fold(0.0, |sum, machine| sum + machine.rate.dollars())
    }

    fn places(&self) -> String {
        let mut pools: Vec<&str> = Vec::new();
        for machine in self.line.machines.iter().filter(|machine| machine.state != MachineState::Gone) {
            if !pools.contains(&machine.pool.as_str()) {
                pools.push(&machine.pool);
            }
        }
        pools.join(", ")
    }
}

/// `newest_price` is that of all prices that a plan would go by now.
pub fn report(mut runs: Vec<WatchedRun>, newest_price: Timestamp, now: Timestamp) -> Report {
    runs.sort_by_key(|run| (run.is_over(), Reverse(run.line.started_at), run.line.run.clone()));
    let mut sections = vec![all(&runs), idle(&runs), prices(&runs, newest_price, now)];
    sections.extend(spending(&runs));
    sections.push(not_shown());
    let open = runs.iter().filter(|run| !run.is_over()).count();
    Report {
        title: "Runs".to_owned(),
        lead: match (open, runs.len()) {
            (_, 0) => "No run was launched from this machine.".to_owned(),
            (open, all) => format!("{open} running or waiting, {} ended.", all - open),
        },
        made_at: now,
        key: key(&runs, newest_price, now),
        sections,
    }
}

/// As many runs, in words.
pub fn runs_of(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

fn key(runs: &[WatchedRun], newest_price: Timestamp, now: Timestamp) -> Vec<KeyFigure> {
    let open: Vec<&WatchedRun> = runs.iter().filter(|run| !run.is_over()).collect();
    let rate = open.iter().fold(0.0, |sum, run| sum + run.rate());
    let unknown = |count: usize| match count {
        0 => String::new(),
        count => format!("; nothing is known of {}", runs_of(count)),
    };
    let unrated = open.iter().filter(|run| run.facts.is_none()).count();
    let unspent = runs.iter().filter(|run| run.spent().is_none()).count();
    let spent: Usd = runs.iter().filter_map(WatchedRun::spent).sum();
    let expected: Usd = runs.iter().filter_map(|run| run.line.expected_cost_usd).sum();
    let sampled = || open.iter().filter_map(|run| run.idle);
    let idle: u32 = sampled().map(|machines| machines.idle).sum();
    vec![
        KeyFigure {
            name: "Running",
            value: open.len().to_string(),
            note: format!("${rate:.2} an hour now{}", unknown(unrated)),
        },
        KeyFigure {
            name: "Spent",
            value: format::usd(spent),
            note: format!("{} were expected for all of it{}", format::usd(expected), unknown(unspent)),
        },
        KeyFigure {
            name: "Idle machines",
            value: if sampled().next().is_some() { idle.to_string() } else { "-".to_owned() },
            note: format!("of {} that say what they do", sampled().map(|machines| machines.sampled).sum::<u32>()),
        },
        KeyFigure {
            name: "Newest price",
            value: format::age(newest_price, now),
            note: format!("old, seen {}", day(newest_price)),
        },
    ]
}

fn all(runs: &[WatchedRun]) -> Section {
    let part = |run: &WatchedRun| {
        let (spent, end) = (run.spent()?, run.at_the_end()?);
        let expected = run.line.expected_cost_usd.map_or_else(String::new, |cost| format!(" of {}", format::usd(cost)));
        Some(Part {
            name: format!("{}, {}", run.line.run, run.line.state.word()),
            words: format!("{}{expected}", format::usd(spent)),
            done: spent.dollars(),
            ahead: (end.dollars() - spent.dollars()).max(0.0),
            limit: run.line.expected_cost_usd.map(Usd::dollars),
        })
    };
    let chart = Chart::new(
        "Spent and to go, run by run",
        "Dark is what was spent, light what the rest of the work costs by the plan; the line is what was expected at launch.",
        ChartKind::Parts(PartsChart { parts: runs.iter().take(DRAWN).filter_map(part).collect() }),
    );
    let money = |amount: Option<Usd>| amount.map_or_else(Cell::none, Cell::usd);
    let row = |run: &WatchedRun| {
        let name = Cell::text(&*run.line.run);
        let off = run.at_the_end().zip(run.line.expected_cost_usd.filter(|cost| *cost > Usd::ZERO));
        let off = off.map(|(end, expected)| end.dollars() / expected.dollars() - 1.0);
        vec![
            match &run.page {
                Some(page) => name.linked(page),
                None => name,
            },
            Cell::text(run.team.as_deref().unwrap_or("-")),
            Cell::text(run.line.state.word()),
            Cell::text(run.places()),
            run.line.progress.map_or_else(Cell::none, Cell::share),
            money(run.spent()),
            money(run.line.expected_cost_usd),
            money(run.at_the_end()),
            off.map_or_else(Cell::none, |off| Cell::new(format!("{:+.0} %", off * 100.0), off.to_string())),
            Cell::time(run.line.started_at),
        ]
    };
    let table = Table {
        id: "runs",
        caption: "Every run; those that have not ended come first".to_owned(),
        columns: vec![
            Column::text("run", "Run"),
            Column::text("team", "Team"),
            Column::text("state", "State"),
            Column::text("where", "Where"),
            Column::number("progress", "Safe"),
            Column::number("spent_usd", "Spent"),
            Column::number("expected_usd", "Expected"),
            Column::number("at_the_end_usd", "At the end"),
            Column::number("off", "Off"),
            Column::text("started_at", "Started"),
        ],
        rows: runs.iter().map(row).collect(),
    };
    Section {
        id: "runs",
        heading: "Runs",
        text: vec![
            "Safe is the share of the work that a checkpoint keeps. At the end: what was spent, and for a run that goes on what the rest of its work costs by \
             the plan; off is that against what was expected at launch."
                .to_owned(),
        ],
        points: completed(runs).into_iter().collect(),
        figures: vec![Figure { chart: (!runs.is_empty()).then_some(chart), table }],
    }
}

/// Forecast against actual, of what was finished.
fn completed(runs: &[WatchedRun]) -> Option<String> {
    let done = runs.iter().filter(|run| run.line.state == RunState::Completed);
    let pairs: Vec<(Usd, Usd)> = done.filter_map(|run| run.spent().zip(run.line.expected_cost_usd)).collect();
    let (spent, expected) =
        (pairs.iter().map(|pair| pair.0).sum::<Usd>(), pairs.iter().map(|pair| pair.1).sum::<Usd>());
    (expected > Usd::ZERO).then(|| {
        format!(
            "What is completed ({}) has cost {} where {} were expected: {:+.0} %. `gpuplan accuracy --mine` says why.",
            runs_of(pairs.len()),
            format::usd(spent),
            format::usd(expected),
            (spent.dollars() / expected.dollars() - 1.0) * 100.0
        )
    })
}

/// Of all runs since the first began. `None`: no run has machines that are known.
fn spending(runs: &[WatchedRun]) -> Option<Section> {
    let known: Vec<&RunFacts> = runs.iter().filter_map(|run| run.facts.as_ref()).collect();
    let first = known.iter().map(|facts| facts.started_at).min()?;
    let begins = |facts: &RunFacts| facts.started_at.duration_since(first).as_secs_f64() / 3600.0;
    let until = known.iter().map(|facts| begins(facts) + facts.hours).fold(0.0, f64::max);
    let moments = (0..=STEPS).map(|step| until * f64::from(step) / f64::from(STEPS));
    let at = |moment: f64| {
        let spent: f64 = known.iter().map(|facts| facts.spent_by(moment - begins(facts))).sum();
        let planned: f64 = known.iter().map(|facts| planned_by(facts, moment - begins(facts))).sum();
        (moment, spent, planned)
    };
    let points: Vec<(f64, f64, f64)> = moments.map(at).collect();
    let (_, spent, planned) = points.last().copied()?;
    let amount = |usd: f64| Usd::from_dollars(usd).map_or_else(Cell::none, Cell::usd);
    let words = |usd: f64| Usd::from_dollars(usd).map_or_else(|| "-".to_owned(), format::usd);
    let line = |name: String, stroke, height: fn(&(f64, f64, f64)) -> f64| Series {
        name,
        stroke,
        points: points.iter().map(|point| (point.0, height(point))).collect(),
    };
    let chart = Chart::new(
        "Spending over time",
        format!(
            "All runs have spent {} in {}; by their plans it would be {}.",
            words(spent),
            Hours(until),
            words(planned)
        ),
        ChartKind::Lines(LineChart {
            time: Quantity::Hours,
            x_name: "since the first run began".to_owned(),
            y_name: "spent".to_owned(),
            begins_at_zero: true,
            series: vec![
                line(format!("spent {}", words(spent)), Stroke::Solid, |point| point.1),
                line(format!("planned {}", words(planned)), Stroke::Dashed, |point| point.2),
            ],
        }),
    );
    let table = Table {
        id: "spending",
        caption: "Spent by all runs".to_owned(),
        columns: vec![
            Column::number("hours", "Since the first began"),
            Column::number("spent_usd", "Spent"),
            Column::number("planned_usd", "By the plans"),
        ],
        rows: points
            .iter()
            .step_by(STEPS_A_ROW)
            .map(|point| vec![Cell::hours(point.0), amount(point.1), amount(point.2)])
            .collect(),
    };
    Some(Section {
        id: "spending",
        heading: "Forecast against actual",
        figures: vec![Figure { chart: Some(chart), table }],
        ..Section::default()
    })
}

/// Evenly until the expected end; where only the cost is known, all of it at once. Dollars.
fn planned_by(facts: &RunFacts, hours: f64) -> f64 {
    let share = match facts.plan.hours.filter(|planned| *planned > 0.0) {
        _ if hours < 0.0 => 0.0,
        Some(planned) => (hours / planned).min(1.0),
        None => 1.0,
    };
    facts.plan.cost.dollars() * share
}

fn idle(runs: &[WatchedRun]) -> Section {
    let open = || runs.iter().filter(|run| !run.is_over());
    let point = |run: &WatchedRun| {
        let name = &run.line.run;
        match run.idle {
            Some(IdleMachines { idle: 0, .. }) => None,
            Some(IdleMachines { idle, sampled }) => Some(format!(
                "{name}: {idle} of {sampled} machines idle; all its machines cost ${:.2} an hour. `gpuplan stop {name} --idle 10m` ends them once all have \
                 been idle for ten minutes.",
                run.rate()
            )),
            None => Some(format!("{name}: no machine says what it does.")),
        }
    };
    let points: Vec<String> = open().filter_map(point).collect();
    let text = if points.is_empty() {
        "No machine stands idle."
    } else {
        "A machine is idle while its GPUs and its processors work less than 5 % of the time."
    };
    Section { id: "idle", heading: "Idle machines", text: vec![text.to_owned()], points, ..Section::default() }
}

fn prices(runs: &[WatchedRun], newest: Timestamp, now: Timestamp) -> Section {
    let row = |run: &WatchedRun| {
        let price = run.price.as_ref()?;
        let age = now.duration_since(price.observed_at).as_secs_f64() / 3600.0;
        Some(vec![
            Cell::text(&*run.line.run),
            Cell::text(&*price.source),
            Cell::time(price.observed_at),
            Cell::new(format::age(price.observed_at, now), age.to_string()),
        ])
    };
    let rows: Vec<Vec<Cell>> = runs.iter().filter(|run| !run.is_over()).filter_map(row).collect();
    let table = Table {
        id: "prices",
        caption: "Prices that the plans of open runs rest on".to_owned(),
        columns: vec![
            Column::text("run", "Run"),
            Column::text("source", "Source"),
            Column::text("observed_at", "Seen"),
            Column::number("age_hours", "Age"),
        ],
        rows,
    };
    Section {
        id: "prices",
        heading: "Age of the prices",
        text: vec![format!(
            "The newest price that a plan would go by is {} old. `gpuplan refresh` asks the clouds.",
            format::age(newest, now)
        )],
        figures: if table.rows.is_empty() { Vec::new() } else { vec![Figure { chart: None, table }] },
        ..Section::default()
    }
}

fn not_shown() -> Section {
    let points = [
        "Runs that were launched from other computers: `gpuplan costs --store URI` has their money, `gpuplan take-over` leads them from here.",
        "What an invoice says: `gpuplan costs import BILL` compares the clouds' bills with this.",
        "Money is in United States dollars, without tax.",
    ];
    let points = points.map(str::to_owned).to_vec();
    Section { id: "not-shown", heading: "What is not shown", points, ..Section::default() }
}

#[cfg(test)]
mod tests;
