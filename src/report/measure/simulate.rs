//! The evaluation of spot policies as text and JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use gpuplan_spot::evaluate::Evaluation;
use gpuplan_spot::evaluate::calibration::PlanCalibration;
use gpuplan_spot::evaluate::matrix::{MANY_WINDOWS, MatrixRow};

/// `gpuplan simulate --traces TRACES -o json`.
#[derive(Serialize, JsonSchema)]
pub struct PolicyEvaluation<'a> {
    version: u32,
    #[serde(flatten)]
    evaluation: &'a Evaluation,
}

pub fn json(done: &Evaluation) -> String {
    pretty(&PolicyEvaluation { version: VERSION, evaluation: done })
}

/// Tables of all sections, the matrix, forecasts and the notes.
pub fn text(done: &Evaluation, width: u16) -> String {
    let mut out =
        "Costs are over those of the work on on-demand machines; an interval is 95 %, by resampling whole pools.\n"
            .to_owned();
    for section in &done.sections {
        out.push_str(&format!("\n{}\n", section.title));
        let columns = [
            Column::left("policy", 0),
            Column::right("windows", 0),
            Column::right("mean", 0),
            Column::right("interval", 90),
            Column::right("p50", 0),
            Column::right("p90", 0),
            Column::right("under uniform progress", 100),
            Column::right("gap closed", 120),
            Column::right("missed", 0),
            Column::right("starts", 110),
            Column::right("lost", 110),
        ];
        let rows = section.rows.iter().map(|row| {
            vec![
                row.policy.to_owned(),
                row.windows.to_string(),
                format!("{:.3}", row.mean),
                format!("{:.3}-{:.3}", row.interval.0, row.interval.1),
                format!("{:.3}", row.p50),
                format!("{:.3}", row.p90),
                row.saving
                    .map(|(mean, low, high)| format!("{} ({} to {})", percent(mean), percent(low), percent(high)))
                    .unwrap_or_default(),
                row.gap_closed.map(percent).unwrap_or_default(),
                row.missed.to_string(),
                format!("{:.1}", row.starts),
                format!("{:.1}", row.interruptions),
            ]
        });
        out.push_str(&render(&columns, rows, width));
    }
    out.push_str(&matrix(&done.matrix, width));
    out.push_str(&tail(done, width));
    out
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn matrix(rows: &[MatrixRow], width: u16) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = "\nMatrix: the default as a controller sees, with constants of other zones where one pool is used; billed by the second\n".to_owned();
    let right = Column::right;
    let columns = [
        Column::left("shape", 0),
        right("machines", 0),
        right("pools", 0),
        right("windows", 0),
        right("default", 0),
        right("uniform progress", 0),
        right("greedy", 0),
        right("missed", 0),
        right("up to 1.1", 0),
        right("worst", 0),
        right("under p90", 0),
    ];
    let cells = rows.iter().map(|row| {
        let costs = [row.default, row.uniform_progress, row.greedy].map(|cost| format!("{cost:.3}"));
        let [default, uniform, greedy] = costs;
        vec![
            row.shape.clone(),
            row.machines.to_string(),
            row.pools.to_string(),
            row.windows.to_string(),
            default,
            uniform,
            greedy,
            row.missed.to_string(),
            percent(row.within_a_tenth),
            format!("{:.2}", row.worst),
            percent(row.under_p90),
        ]
    });
    out.push_str(&render(&columns, cells, width));
    let count = |is: &dyn Fn(&MatrixRow) -> bool| rows.iter().filter(|row| is(row)).count();
    let has_many = |row: &MatrixRow| row.windows >= MANY_WINDOWS;
    let windows = rows.iter().map(|row| row.windows).sum::<usize>();
    let within = rows.iter().map(|row| row.within_a_tenth * row.windows as f64).sum::<f64>() / windows as f64;
    out.push_str(&format!(
        "{} rows, {windows} windows: {} missed; dearer than uniform progress or greedy by more than 1 % in {} rows; {} of windows up to \
         1.1 times on-demand, the worst {:.2}; 85 to 95 % under the promised 90th percentile in {} of {} rows of at least {MANY_WINDOWS} windows\
         {}\n",
        rows.len(),
        rows.iter().map(|row| row.missed).sum::<usize>(),
        count(&|row| row.default > 1.01 * row.uniform_progress.min(row.greedy)),
        percent(within),
        rows.iter().map(|row| row.worst).fold(0.0, f64::max),
        count(&|row| has_many(row) && row.is_as_promised()),
        count(&has_many),
        match count(&|row| !has_many(row)) {
            0 => String::new(),
            few => format!(
                ", within the binomial interval in {} of {few} others",
                count(&|row| !has_many(row) && row.is_as_promised())
            ),
        },
    ));
    out
}

fn plans(rows: &[PlanCalibration], width: u16) -> String {
    let right = Column::right;
    let columns = [
        Column::left("shape", 0),
        Column::left("known of the pool", 0),
        right("windows", 0),
        right("under p50", 0),
        right("under p90", 0),
        right("pinball p50", 0),
        right("pinball p90", 0),
    ];
    let cells = rows.iter().map(|row| {
        vec![
            row.shape.clone(),
            row.knows.to_owned(),
            row.windows.to_string(),
            percent(row.under_p50),
            percent(row.under_p90),
            format!("{:.4}", row.pinball_p50),
            format!("{:.4}", row.pinball_p90),
        ]
    });
    format!("\nForecasts as a plan makes them, reserve 3x\n{}", render(&columns, cells, width))
}

fn tail(done: &Evaluation, width: u16) -> String {
    let mut out = "\nTwo zones of one type together, against the mean of the two alone\n".to_owned();
    let left = Column::left;
    let right = Column::right;
    let columns = [
        left("pools", 0),
        left("shape", 0),
        left("policy", 0),
        right("alone", 0),
        right("together", 0),
        right("saved", 0),
    ];
    let rows = done.pairs.iter().map(|pair| {
        vec![
            pair.pools.clone(),
            pair.shape.clone(),
            pair.policy.to_owned(),
            format!("{:.3}", pair.alone),
            format!("{:.3}", pair.together),
            percent(1.0 - pair.together / pair.alone),
        ]
    });
    out.push_str(&render(&columns, rows, width));
    out.push_str("\nForecasts with constants of the first half, on windows of the second\n");
    let columns = [
        left("shape", 0),
        right("windows", 0),
        right("under p50", 0),
        right("under p75", 0),
        right("under p90", 0),
        right("pinball", 0),
    ];
    let rows = done.calibration.iter().map(|row| {
        let shares = [row.under_p50, row.under_p75, row.under_p90].map(percent);
        let [p50, p75, p90] = shares;
        vec![row.shape.clone(), row.windows.to_string(), p50, p75, p90, format!("{:.2}", row.pinball_over_constant)]
    });
    out.push_str(&render(&columns, rows, width));
    out.push_str(&plans(&done.plans, width));
    for note in &done.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    out
}
