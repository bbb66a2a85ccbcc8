//! The evaluation protocol: every policy on windows of real traces, with the constants of other zones, intervals and misses.

pub mod calibration;
pub mod field;
pub mod matrix;
pub mod score;

use schemars::JsonSchema;
use serde::Serialize;

use crate::availability::watch::FIRST_PAUSE;
use crate::evaluate::calibration::{Calibration, PlanCalibration, calibrate_pairs, calibrate_plans, calibrate_pools};
use crate::evaluate::field::{Entrant, Field, JobShape, TracePart};
use crate::evaluate::matrix::{MatrixRow, matrix};
use crate::evaluate::score::{PolicyScore, Protocol, rows};
use crate::simulation::trace::Trace;

/// The job shapes of the tables: work, deadline and changeover in hours.
const SHAPES: [(f64, f64, f64); 3] = [(48.0, 52.0, 0.2), (48.0, 60.0, 0.2), (48.0, 70.0, 0.2)];
/// Windows of a trace in the tables.
const WINDOWS: usize = 30;
/// The rate of the paper's instance type (p3.2xlarge) over its spot rate.
const USUAL_RATIO: f64 = 3.06 / 0.9731;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Evaluation {
    pub sections: Vec<Section>,
    pub matrix: Vec<MatrixRow>,
    pub pairs: Vec<PairScore>,
    pub calibration: Vec<Calibration>,
    /// Forecasts as a plan makes them.
    pub plans: Vec<PlanCalibration>,
    pub notes: Vec<String>,
}

/// All policies on one shape of job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Section {
    pub title: String,
    pub rows: Vec<PolicyScore>,
}

/// Two zones of one type together, against the mean of the two alone.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PairScore {
    pub pools: String,
    pub shape: String,
    pub policy: &'static str,
    pub alone: f64,
    pub together: f64,
}

/// Runs the protocol. The same traces and seed give the same tables.
pub fn evaluate(traces: &[Trace], seed: u64) -> Evaluation {
    let notes = vec![
        "a window whose trace ends before the work does is left out, so spot-only shows its luckier windows".to_owned(),
    ];
    let mut done = Evaluation {
        sections: Vec::new(),
        matrix: matrix(traces, seed),
        pairs: Vec::new(),
        calibration: Vec::new(),
        plans: Vec::new(),
        notes,
    };
    for field in Field::groups(traces) {
        let name = format!("{} traces, tick {} s", field.pools.len(), field.tick);
        if !field.has_other_zones() {
            done.notes.push(format!("{name}: one zone only, so no row has the constants of another zone"));
        }
        for part in [TracePart::Early, TracePart::Late] {
            for (work, deadline, changeover) in SHAPES {
                let shape = JobShape::new(work, deadline, changeover, USUAL_RATIO);
                let run = Protocol { windows: WINDOWS, part, ..Protocol::default() };
                push(&mut done, format!("{name}, {}: {shape}", part.name()), &field, &shape, &run, Entrant::ALL, seed);
            }
        }
        rough(&mut done, &name, &field, seed);
        done.pairs.extend(pairs(&field));
        for calibrate in [calibrate_pools, calibrate_pairs] {
            let usual =
                |(work, deadline, changeover): (f64, f64, f64)| JobShape::new(work, deadline, changeover, USUAL_RATIO);
            done.calibration.extend(SHAPES.into_iter().filter_map(|shape| calibrate(&field, &usual(shape), seed)));
        }
        for (work, deadline, changeover) in SHAPES {
            let shape = JobShape { worst: 3.0, ..JobShape::new(work, deadline, changeover, USUAL_RATIO) };
            done.plans.extend(calibrate_plans(&field, &shape, seed));
        }
    }
    done
}

fn push(
    done: &mut Evaluation,
    title: String,
    field: &Field,
    shape: &JobShape,
    run: &Protocol,
    entrants: &[Entrant],
    seed: u64,
) {
    let rows = rows(field, shape, run, entrants, seed);
    if rows.is_empty() {
        done.notes.push(format!("{title}: no window is long enough"));
    } else {
        done.sections.push(Section { title, rows });
    }
}

/// What is less than perfect: changeovers longer than expected, with a reserve of three, and the eyes of a controller.
fn rough(done: &mut Evaluation, name: &str, field: &Field, seed: u64) {
    let entrants = &[
        Entrant::UniformProgress,
        Entrant::SlackReserve,
        Entrant::Default,
        Entrant::HeldOut,
        Entrant::OwnRates,
        Entrant::Omniscient,
    ];
    for (work, deadline, changeover) in SHAPES {
        let shape = JobShape { worst: 3.0, ..JobShape::new(work, deadline, changeover, USUAL_RATIO) };
        let usual = 3600.0 * changeover;
        let mut tail = vec![usual; 10];
        tail[9] = 3.0 * usual;
        for (what, changeovers) in [
            ("none takes longer", Vec::new()),
            ("one start in ten takes 3x", tail),
            ("every start takes 2x", vec![2.0 * usual]),
        ] {
            let run = Protocol { windows: WINDOWS, changeovers, ..Protocol::default() };
            push(done, format!("{name}, reserve 3x, {what}: {shape}"), field, &shape, &run, entrants, seed);
        }
        let run = Protocol { windows: WINDOWS, pause: Some(FIRST_PAUSE), ..Protocol::default() };
        push(done, format!("{name}, reserve 3x, as a controller sees: {shape}"), field, &shape, &run, entrants, seed);
    }
}

fn pairs(field: &Field) -> Vec<PairScore> {
    let mut made = Vec::new();
    for (work, deadline, changeover) in &SHAPES[..2] {
        let shape = JobShape::new(*work, *deadline, *changeover, USUAL_RATIO);
        for (a, b) in field.pairs() {
            for entrant in [Entrant::UniformProgress, Entrant::SlackReserve, Entrant::Default, Entrant::Omniscient] {
                if let Some((alone, together)) = score::pair(field, (a, b), &shape, entrant, 2 * WINDOWS) {
                    let pools = format!("{} and {}", field.pools[a].name, field.pools[b].name);
                    made.push(PairScore { pools, shape: shape.to_string(), policy: entrant.name(), alone, together });
                }
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::watch::Watch;
    use crate::availability::{AvailabilityModel, Future};
    use gpuplan_units::draw::Draws;

    #[test]
    fn drawn_traces_go_through_the_whole_protocol() {
        let traces: Vec<Trace> = ["z1_a", "z2_a"]
            .into_iter()
            .enumerate()
            .map(|(stream, source)| {
                let up = Future::new(
                    &AvailabilityModel::prior(),
                    &Watch::full(1, 1800.0),
                    0,
                    1800.0,
                    Draws::new(3, stream as u64),
                )
                .reach(400)
                .to_vec();
                Trace { source: source.to_owned(), gap: 1800.0, obtainable: up.into_iter().map(u32::from).collect() }
            })
            .collect();
        let done = evaluate(&traces, 1);
        let safe =
            |row: &PolicyScore| !row.policy.starts_with("default") && row.policy != "slack-reserve" || row.missed == 0;
        assert!(
            !done.sections.is_empty() && done.sections.iter().flat_map(|section| &section.rows).all(safe),
            "{done:#?}"
        );
        assert!(done.matrix.iter().all(|row| row.missed == 0));
        assert_eq!(done.pairs.len(), 8);
        assert!(!done.calibration.is_empty());
    }
}
