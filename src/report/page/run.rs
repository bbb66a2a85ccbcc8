//! The report on a run: what it has spent against what was expected, which machines it had and when it lost them.

pub mod bill;

use jiff::Timestamp;

use crate::format;
use crate::page::chart::{Chart, Kind, Line, Lines, Stay, Stays, Stroke};
use crate::page::document::{Cell, Column, Figure, KeyFigure, Report, Section, Table, day_and_time};
use gpuplan_budget::Charge;
use gpuplan_units::{Hours, Usd, UsdPerHour};

/// Machines that are drawn; the table has all.
const MACHINES: usize = 40;

/// A budget so many times above all else is told and not drawn: beside it the rest would be a flat line.
const FAR: f64 = 4.0;

/// A run as the journal of launches knows it, with its charges as its store and the ledger have them.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    pub name: String,
    /// In the word of `status`.
    pub state: String,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub expected: Usd,
    /// By which the plan expects the run to have ended; `None`: an older version launched it.
    pub expected_hours: Option<f64>,
    pub budget: Option<Usd>,
    pub deadline_hours: Option<f64>,
    /// Share of the work that is safe.
    pub done: f64,
    pub interruptions: u32,
    pub store: String,
    pub machines: Vec<Rented>,
    /// Disks, storage, data from elsewhere.
    pub beside: Vec<Beside>,
    /// Why some of that is not here.
    pub beside_missing: Option<String>,
    /// From the start until now, or to the end of the run.
    pub hours: f64,
    pub events: Vec<(Timestamp, String)>,
}

/// A machine that was paid for. Hours since the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Rented {
    pub id: String,
    pub epoch: u64,
    pub node: u32,
    pub place: String,
    pub instance_type: String,
    pub is_on_spot: bool,
    pub rate: UsdPerHour,
    pub from: f64,
    /// `None`: it costs money still.
    pub until: Option<f64>,
    pub cost: Usd,
    /// How its cost divides into work and waste; empty while it costs money still, and where nobody said.
    pub charges: Vec<Charge>,
}

/// A charge beside the machines, with its time in hours since the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    pub charge: Charge,
    pub from: f64,
    pub until: f64,
    /// It grows still.
    pub is_open: bool,
}

/// What was spent at a moment of what is paid evenly over its time.
fn evenly(cost: Usd, from: f64, until: f64, moment: f64) -> f64 {
    let (length, past) = (until - from, moment - from);
    match past {
        past if past < 0.0 => 0.0,
        past if past >= length => cost.dollars(),
        past => cost.dollars() * past / length,
    }
}

impl Rented {
    fn end(&self, hours: f64) -> f64 {
        self.until.unwrap_or(hours).max(self.from)
    }

    fn terms(&self) -> &'static str {
        if self.is_on_spot { "spot" } else { "on-demand" }
    }

    /// What it had cost at a moment, evenly over its time.
    fn cost_by(&self, moment: f64, hours: f64) -> f64 {
        evenly(self.cost, self.from, self.end(hours), moment)
    }
}

impl RunFacts {
    fn spent(&self) -> Usd {
        self.machines.iter().map(|machine| machine.cost).sum::<Usd>() + self.paid_beside()
    }

    fn paid_beside(&self) -> Usd {
        self.beside.iter().map(|one| one.charge.costs.contracted).sum()
    }

    fn spent_by(&self, moment: f64) -> f64 {
        let machines: f64 = self.machines.iter().map(|machine| machine.cost_by(moment, self.hours)).sum();
        let beside: f64 =
            self.beside.iter().map(|one| evenly(one.charge.costs.contracted, one.from, one.until, moment)).sum();
        machines + beside
    }
}

pub fn report(run: &RunFacts, now: Timestamp) -> Report {
    let mut sections = vec![summary(run)];
    let mut missing = vec![
        "Cost against time, the spread of the cost and price history: `gpuplan report PLAN.json` shows them for the plan of this run"
            .to_owned(),
    ];
    missing.extend(run.beside_missing.clone());
    if run.machines.is_empty() {
        missing.push("Spending and machines over time: no machine was rented".to_owned());
    } else {
        sections.extend([spending(run), bill::section(run), machines(run)]);
    }
    if run.events.is_empty() {
        missing.push("Events: the journal has none".to_owned());
    } else {
        sections.push(events(run));
    }
    sections.push(Section {
        id: "assumptions",
        heading: "Assumptions and sources",
        points: vec![
            "Machine time is charged by the billing step that was agreed at launch, at the price of then; nothing is priced again."
                .to_owned(),
            "Within the life of a machine its cost is spread evenly over the chart, and so is what is paid beside it.".to_owned(),
            "Money is in United States dollars, without tax; the cloud's invoice decides.".to_owned(),
            format!("From the journal of launches of this machine, the ledger, and the store of the run, {}.", run.store),
        ],
        ..Section::default()
    });
    sections.push(Section { id: "not-shown", heading: "What is not shown", points: missing, ..Section::default() });
    let ended = run.ended_at.map_or(String::new(), |at| format!(", ended {}", day_and_time(at)));
    Report {
        title: run.name.clone(),
        lead: format!("A run, {}; started {}{ended}.", run.state, day_and_time(run.started_at)),
        made_at: now,
        key: key(run),
        sections,
    }
}

fn key(run: &RunFacts) -> Vec<KeyFigure> {
    let lost = if run.interruptions == 1 {
        "1 interruption".to_owned()
    } else {
        format!("{} interruptions", run.interruptions)
    };
    vec![
        KeyFigure {
            name: "Spent",
            value: format::usd(run.spent()),
            note: if run.beside.is_empty() { "machine time" } else { "machines and all beside them" }.to_owned(),
        },
        KeyFigure { name: "Expected", value: format::usd(run.expected), note: "when it was launched".to_owned() },
        KeyFigure { name: "Work that is safe", value: format!("{:.0} %", run.done * 100.0), note: lost },
        KeyFigure { name: "Time", value: Hours(run.hours).to_string(), note: run.state.clone() },
    ]
}

fn summary(run: &RunFacts) -> Section {
    let (spent, expected) = (run.spent(), run.expected);
    let against = if expected > Usd::ZERO {
        let ratio = spent.dollars() / expected.dollars();
        format!(
            " That is {:.0} % of the {} that were expected at launch, for {:.0} % of the work.",
            ratio * 100.0,
            format::usd(expected),
            run.done * 100.0
        )
    } else {
        String::new()
    };
    let beside = match run.paid_beside() {
        Usd::ZERO => String::new(),
        beside => format!(", {} of it on disks, storage and data", format::usd(beside)),
    };
    let mut text = vec![format!("The run has spent {} in {}{beside}.{against}", format::usd(spent), Hours(run.hours))];
    if let Some(budget) = run.budget {
        text.push(format!(
            "Its budget is {}; {} of it are left.",
            format::usd(budget),
            format::usd(if spent < budget { budget - spent } else { Usd::ZERO })
        ));
    }
    if let Some(deadline) = run.deadline_hours {
        text.push(format!("Its deadline is {} after the start.", Hours(deadline)));
    }
    let open = run.machines.iter().filter(|machine| machine.until.is_none()).count();
    if open > 0 {
        let rate: f64 =
            run.machines.iter().filter(|machine| machine.until.is_none()).map(|machine| machine.rate.dollars()).sum();
        text.push(format!(
            "{open} of its machines may still cost money: ${rate:.2} an hour together. `gpuplan stop {}` ends them.",
            run.name
        ));
    }
    Section { id: "summary", heading: "Summary", text, ..Section::default() }
}

fn spending(run: &RunFacts) -> Section {
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
    let lines = lines(run, &points, by_now);
    let chart = Chart::new(
        "Spending over time",
        format!(
            "Spending rises to {} in {}; {} were expected for the whole run.",
            dollars(by_now),
            Hours(run.hours),
            format::usd(run.expected)
        ),
        Kind::Lines(Lines {
            across: "since the start".to_owned(),
            up: "spent".to_owned(),
            begins_at_zero: true,
            lines,
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
    let text = said(run, by_now);
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
fn lines(run: &RunFacts, points: &[(f64, f64)], by_now: f64) -> Vec<Line> {
    let level = |name: &str, stroke, amount: Usd| Line {
        name: format!("{name} {}", format::usd(amount)),
        stroke,
        points: vec![(0.0, amount.dollars()), (run.hours.max(run.expected_hours.unwrap_or(0.0)), amount.dollars())],
    };
    let mut lines =
        vec![Line { name: format!("spent {}", dollars(by_now)), stroke: Stroke::Solid, points: points.to_vec() }];
    lines.push(match planned(run) {
        Some(points) => {
            let name = format!("planned {} in {}", format::usd(run.expected), Hours(points[1].0));
            Line { name, stroke: Stroke::Dashed, points }
        }
        None => level("expected in all", Stroke::Dashed, run.expected),
    });
    lines.extend(
        run.budget.filter(|_| !has_far_budget(run, by_now)).map(|budget| level("budget", Stroke::Dotted, budget)),
    );
    lines
}

fn has_far_budget(run: &RunFacts, by_now: f64) -> bool {
    run.budget.is_some_and(|budget| budget.dollars() > FAR * by_now.max(run.expected.dollars()))
}

/// What the chart does not say.
fn said(run: &RunFacts, by_now: f64) -> Vec<String> {
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
    if let Some(budget) = run.budget.filter(|_| has_far_budget(run, by_now)) {
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
    let (hours, cost) = (run.expected_hours.filter(|hours| *hours > 0.0)?, run.expected.dollars());
    let after = (run.hours > hours).then_some((run.hours, cost));
    Some([(0.0, 0.0), (hours, cost)].into_iter().chain(after).collect())
}

/// On a line through points whose first coordinates rise; its last height beyond them.
fn between(points: &[(f64, f64)], at: f64) -> f64 {
    let pair = points.windows(2).find(|pair| at <= pair[1].0);
    match pair {
        Some([(from, low), (to, high)]) if to > from => low + (high - low) * (at - from) / (to - from),
        _ => points.last().map_or(0.0, |(_, height)| *height),
    }
}

fn machines(run: &RunFacts) -> Section {
    let stay = |machine: &Rented| Stay {
        name: format!("epoch {}, machine {}: {} {}", machine.epoch, machine.node, machine.terms(), machine.place),
        words: match machine.until {
            Some(until) => format!("{} to {}", Hours(machine.from), Hours(until)),
            None => format!("from {}, still there", Hours(machine.from)),
        },
        from: machine.from,
        to: machine.end(run.hours),
        is_open: machine.until.is_none(),
        is_firm: !machine.is_on_spot,
    };
    let lost = match run.interruptions {
        0 => "The cloud took no machine back.".to_owned(),
        1 => "The cloud took machines back once.".to_owned(),
        times => format!("The cloud took machines back {times} times."),
    };
    let chart = Chart::new(
        "Machines over time",
        format!("{} machines, each from its creation to its end. {lost}", run.machines.len().min(MACHINES)),
        Kind::Stays(Stays { rows: run.machines.iter().take(MACHINES).map(stay).collect(), until: run.hours }),
    );
    let row = |machine: &Rented| {
        vec![
            Cell::text(machine.epoch.to_string()),
            Cell::text(machine.node.to_string()),
            Cell::text(&*machine.id),
            Cell::text(machine.terms()),
            Cell::text(&*machine.place),
            Cell::hours(machine.from),
            machine.until.map_or_else(|| Cell::new("still there", ""), Cell::hours),
            Cell::rate(machine.rate),
            Cell::usd(machine.cost),
        ]
    };
    let table = Table {
        id: "machines",
        caption: "Machines that were rented".to_owned(),
        columns: vec![
            Column::number("epoch", "Epoch"),
            Column::number("node", "No."),
            Column::text("machine", "Machine"),
            Column::text("purchase", "Terms"),
            Column::text("place", "Place"),
            Column::number("from_hours", "From"),
            Column::number("until_hours", "Until"),
            Column::number("rate_usd_per_hour", "$/h"),
            Column::number("cost_usd", "Cost"),
        ],
        rows: run.machines.iter().map(row).collect(),
    };
    let text =
        vec![format!("Each epoch is one life of the run; a new one begins when machines were lost or changed. {lost}")];
    Section {
        id: "machines",
        heading: "Machines and interruptions",
        text,
        points: Vec::new(),
        figures: vec![Figure { chart: Some(chart), table }],
    }
}

fn events(run: &RunFacts) -> Section {
    let table = Table {
        id: "events",
        caption: "What the controller said".to_owned(),
        columns: vec![Column::text("at", "When"), Column::text("event", "What")],
        rows: run.events.iter().map(|(at, line)| vec![Cell::time(*at), Cell::text(&**line)]).collect(),
    };
    Section { id: "events", heading: "Events", figures: vec![Figure { chart: None, table }], ..Section::default() }
}

#[cfg(test)]
mod tests;
