//! The report on a run: what it has spent against what was expected, which machines it had and when it lost them.

mod bill;
mod facts;
mod spending;

pub use facts::{OtherCharge, Rented, RunFacts, RunPlan};

use jiff::Timestamp;

use crate::page::chart::{Chart, ChartKind, Span, Timeline};
use crate::page::document::{Cell, Column, Figure, KeyFigure, Report, Section, Table, day_and_time};
use crate::text::format;
use gpuplan_units::{Hours, Usd};

/// Machines that are drawn; the table has all.
const MACHINES: usize = 40;

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
        sections.extend([spending::section(run), bill::section(run), machines(run)]);
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
        KeyFigure { name: "Expected", value: format::usd(run.plan.cost), note: "when it was launched".to_owned() },
        KeyFigure { name: "Work that is safe", value: format!("{:.0} %", run.done * 100.0), note: lost },
        KeyFigure { name: "Time", value: Hours(run.hours).to_string(), note: run.state.clone() },
    ]
}

fn summary(run: &RunFacts) -> Section {
    let (spent, expected) = (run.spent(), run.plan.cost);
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
    if let Some(budget) = run.plan.budget {
        text.push(format!(
            "Its budget is {}; {} of it are left.",
            format::usd(budget),
            format::usd(if spent < budget { budget - spent } else { Usd::ZERO })
        ));
    }
    if let Some(deadline) = run.plan.deadline_hours {
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

fn machines(run: &RunFacts) -> Section {
    let span = |machine: &Rented| Span {
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
        ChartKind::Timeline(Timeline {
            spans: run.machines.iter().take(MACHINES).map(span).collect(),
            until: run.hours,
        }),
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
