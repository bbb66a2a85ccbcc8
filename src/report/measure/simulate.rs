//! The evaluation of spot policies as text and JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use gpuplan_spot::evaluate::{Evaluation, MatrixRow};

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

/// Tables of all sections, the matrix in one line a shape that matters, and the notes.
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
    out.push_str(&matrix(&done.matrix));
    out.push_str(&tail(done, width));
    out
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn matrix(rows: &[MatrixRow]) -> String {
    let saving = |row: &MatrixRow| 1.0 - row.default / row.uniform_progress;
    let Some(worst) = rows.iter().min_by(|a, b| saving(a).total_cmp(&saving(b))) else { return String::new() };
    let mean = rows.iter().map(saving).sum::<f64>() / rows.len() as f64;
    format!(
        "\nMatrix of {} shapes: default with constants of other zones {} under uniform progress on average, dearer in {} shapes, \
         worst {} ({}); {} of {} windows missed their deadline\n",
        rows.len(),
        percent(mean),
        rows.iter().filter(|row| saving(row) < 0.0).count(),
        percent(saving(worst)),
        worst.shape,
        rows.iter().map(|row| row.missed).sum::<usize>(),
        rows.iter().map(|row| row.windows).sum::<usize>(),
    )
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
    for note in &done.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    out
}
