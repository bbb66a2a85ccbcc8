//! The cheapest, the recommended and the fastest plan, as on the first screen of a terminal.

use crate::page::document::{Cell, Column, Figure, Section, Table};
use crate::page::plan::ReportContext;
use crate::text::format;
use gpuplan_plan::Role;
use gpuplan_plan::document::{ChoiceRecord, PlanDocument};

/// `None`: a document of before, or a phase, which have none.
pub fn section(document: &PlanDocument, around: &ReportContext) -> Option<Section> {
    if document.choices.is_empty() {
        return None;
    }
    let row = |choice: &ChoiceRecord| {
        let roles: Vec<&str> = choice.roles.iter().copied().map(Role::word).collect();
        let plan = document.plans.all().find(|plan| plan.id == choice.plan);
        let (gpus, place, terms) = plan.map_or_else(
            || (choice.plan.clone(), String::new(), String::new()),
            |plan| {
                let machines = &plan.machines;
                let place = format!("{} {}", machines.cloud, machines.place());
                (around.gpus(plan), place, machines.purchase.word().to_owned())
            },
        );
        vec![
            Cell::text(roles.join(", ")),
            Cell::text(gpus),
            Cell::text(place),
            Cell::text(terms),
            Cell::hours(choice.work_hours.0),
            Cell::hours(choice.wait_hours.0),
            Cell::hours(choice.run_hours.expected),
            Cell::usd(choice.cost_usd.expected),
            Cell::usd(choice.cost_usd.p90),
            Cell::text(&*choice.why.sentence),
        ]
    };
    let table = Table {
        id: "choices",
        caption: "Each plan once; nothing else is both cheaper and faster than any of them".to_owned(),
        columns: vec![
            Column::text("roles", "Plan"),
            Column::text("gpus", "GPUs"),
            Column::text("place", "Where"),
            Column::text("terms", "Terms"),
            Column::number("work_hours", "Work"),
            Column::number("wait_hours", "Starting and waiting"),
            Column::number("run_hours", "Ends in"),
            Column::number("cost_usd", "Cost"),
            Column::number("cost_p90_usd", "Cost in nine of ten cases, at most"),
            Column::text("why", "Why one would take it"),
        ],
        rows: document.choices.iter().map(row).collect(),
    };
    let value = document.value_of_time.filter(|value| value.usd_per_hour.nanos() > 0);
    let value = value.map(|value| {
        let basis = if value.is_stated { "as stated" } else { "by the amount of work" };
        let amount = format::usd(value.usd_per_hour);
        format!("An hour until the result counts {amount} ({basis}). `--value-of-time 5/h` changes that.")
    });
    Some(Section {
        id: "choices",
        heading: "Cheapest, recommended, fastest",
        text: value.into_iter().collect(),
        points: Vec::new(),
        figures: vec![Figure { chart: None, table }],
    })
}
