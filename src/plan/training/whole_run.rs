//! What the hours of a whole training hold beside its steps: what is counted, what the user states, and what published projects paid.
//!
//! Counted are saving, failures and restarts (`run.rs`). What a project does beside its run (evaluation, attempts that come to nothing,
//! machines that wait for a person) is the project's own, so that nothing is assumed of it; docs/estimate.md, "Hours of a whole run".

use crate::candidate::Plan;
use crate::context::Context;
use crate::explanation::Advice;
use crate::explanation::advice::ProjectHours;
use gpuplan_spot::hardware_failure_rate;
use gpuplan_units::Hours;

/// Hours paid over hours of estimated steps of the published trainings of `benchmarks/unfitted/project-hours.csv`, which a test holds this
/// to. The error of the estimate is in it: those that print a rate are 0.8 to 1.3 times as slow as estimated.
pub const PROJECT_HOURS: ProjectHours =
    ProjectHours { projects: 25, lower_quartile: 1.05, median: 1.3, upper_quartile: 2.0 };

/// What a failure costs where a person restarts the run: the middle of 3.5, 8.5, 9.2 and 12 hours of HLAT, BLOOM-176B, OPT-175B and
/// GLM-130B (`benchmarks/unfitted/goodput.csv`).
pub const RESTART_BY_HAND: Hours = Hours(9.0);

/// From here on a run is a project: it is looked after, evaluated and interrupted. Judged: every published one took a week or more.
const LONG: Hours = Hours(168.0);

/// What failures take of a run that a person restarts.
fn by_hand_share(gpus: u32) -> f64 {
    let each_hour = hardware_failure_rate(gpus).per_hour * RESTART_BY_HAND.0;
    each_hour / (1.0 + each_hour)
}

/// Of a long run on several machines for which nothing was stated.
pub fn advice(context: Context, plan: &Plan) -> Option<Advice> {
    let (workload, run) = (context.workload, &plan.run);
    let is_project = plan.nodes > 1 && workload.sweep.is_none() && run.training.expected >= LONG.0;
    (is_project && workload.overhead.is_none()).then(|| Advice::WholeRun {
        lost_share: run.lost_hours / (run.training.expected + run.lost_hours),
        by_hand_share: by_hand_share(run.gpus),
        projects: PROJECT_HOURS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::run::START;
    use gpuplan_spot::{CheckpointPlan, optimal_interval};
    use gpuplan_units::Seconds;

    /// A line of the table of published figures.
    struct Row {
        run: String,
        gpus: Option<f64>,
        share: Option<f64>,
        failures_per_gpu_hour: Option<f64>,
        is_automatic: bool,
    }

    fn published() -> Vec<Row> {
        let text = include_str!("../../../benchmarks/unfitted/goodput.csv");
        let row = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            Row {
                run: cells[0].to_owned(),
                gpus: cells[1].parse().ok(),
                share: cells[2].parse().ok(),
                failures_per_gpu_hour: cells[3].parse().ok().map(|millionths: f64| millionths / 1e6),
                is_automatic: cells[4] == "automatic",
            }
        };
        text.lines().skip(1).map(row).collect()
    }

    fn middle(mut numbers: Vec<f64>) -> f64 {
        numbers.sort_by(f64::total_cmp);
        numbers[numbers.len() / 2]
    }

    /// Of a run that saves to memory in ten seconds and restarts as this program does, with a minute for reading its state.
    fn effective_share(gpus: f64) -> f64 {
        let (stall, mean) = (Seconds(10.0), Seconds::from(hardware_failure_rate(gpus as u32).mean_time()));
        let interval = Seconds(optimal_interval(stall, mean).0.max(300.0));
        1.0 / CheckpointPlan::new(stall, interval, mean, Seconds(START.0 + 60.0)).stretch
    }

    #[test]
    fn machines_fail_as_often_as_published() {
        let rates: Vec<f64> = published().iter().filter_map(|row| row.failures_per_gpu_hour).collect();
        assert!(rates.len() >= 8, "{rates:?}");
        let assumed = hardware_failure_rate(1).per_hour;
        let ratio = assumed / middle(rates.clone());
        assert!((0.5..2.0).contains(&ratio), "{assumed:e} is {ratio:.2} times the middle of {rates:?}");
    }

    /// Nothing was fitted on these figures. Up to 16,384 GPUs within five points, at 100,000 within fifteen.
    #[test]
    fn what_failures_and_saving_take_is_what_was_published() {
        let mut compared = 0;
        for row in published().iter().filter(|row| row.is_automatic) {
            let (Some(gpus), Some(share)) = (row.gpus, row.share) else { continue };
            let (expected, room) = (effective_share(gpus), if gpus > 20_000.0 { 0.15 } else { 0.05 });
            assert!((expected - share).abs() <= room, "{}: {expected:.3} where {share} is published", row.run);
            compared += 1;
        }
        assert!(compared >= 5, "{compared}");
    }

    /// By what a failure cost, not by how often there was one.
    #[test]
    fn a_restart_by_hand_takes_hours() {
        let hours = |row: &Row| {
            let rate = row.failures_per_gpu_hour.unwrap_or(hardware_failure_rate(1).per_hour);
            Some((1.0 / row.share? - 1.0) / (rate * row.gpus?))
        };
        let hours: Vec<f64> = published().iter().filter(|row| !row.is_automatic).filter_map(hours).collect();
        assert!(hours.len() >= 4 && (middle(hours.clone()) / RESTART_BY_HAND.0 - 1.0).abs() < 0.1, "{hours:?}");
        assert!(by_hand_share(8) < 0.002 && (by_hand_share(512) - 0.084).abs() < 0.005, "{}", by_hand_share(512));
    }
}
