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
    // The hours of a service are given, and nobody waits for its end.
    let is_served = document.plans.recommendation.as_ref().is_some_and(|plan| plan.serving.is_some());
    let is_service = is_served && document.choices.iter().all(|choice| choice.wait_hours.0 == 0.0);
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
        let mut cells = vec![
            Cell::text(roles.join(", ")),
            Cell::text(gpus),
            Cell::usd(choice.cost_usd.expected),
            Cell::usd(choice.cost_usd.p90),
        ];
        if !is_service {
            let hours = [choice.run_hours.expected, choice.work_hours.0, choice.wait_hours.0];
            cells.extend(hours.map(Cell::hours));
        }
        cells.extend([Cell::text(terms), Cell::text(place), Cell::text(&*choice.why.sentence)]);
        cells
    };
    // What a narrow screen has no room for comes last.
    let mut columns = vec![
        Column::text("roles", "Plan"),
        Column::text("gpus", "GPUs"),
        Column::number("cost_usd", "Cost"),
        Column::number("cost_p90_usd", "At 90 %"),
    ];
    if !is_service {
        columns.extend([
            Column::number("run_hours", "Ends in"),
            Column::number("work_hours", "Work"),
            Column::number("wait_hours", "Waiting"),
        ]);
    }
    columns.extend([
        Column::text("terms", "Terms"),
        Column::text("place", "Where"),
        Column::text("why", "Why one would take it"),
    ]);
    let table = Table {
        id: "choices",
        caption: "Each plan once; nothing else is both cheaper and faster than any of them".to_owned(),
        columns,
        rows: document.choices.iter().map(row).collect(),
    };
    let value = document.value_of_time.filter(|value| value.usd_per_hour.nanos() > 0);
    let value = value.map(|value| {
        let basis = if value.is_stated { "as stated" } else { "by the amount of work" };
        let amount = format::usd(value.usd_per_hour);
        format!("An hour until the result counts {amount} ({basis}). `--value-of-time 20/h` changes that.")
    });
    Some(Section {
        id: "choices",
        heading: "Cheapest, recommended, fastest",
        text: value.into_iter().collect(),
        points: Vec::new(),
        figures: vec![Figure { chart: None, table }],
    })
}
