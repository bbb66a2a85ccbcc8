//! What stands out in what was spent: runs far over their forecast, idle machines, runs that nobody planned, phases that are late.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::charge::Waste;
use crate::portfolio::Portfolio;
use crate::portfolio::planned::PhaseCost;
use crate::spending::spent::Spent;
use crate::status::attribution::Attributed;
use crate::status::remaining::Progress;
use gpuplan_units::Usd;

/// A run that costs so many times its forecast stands out. Judged: nine of ten of a forecast's own draws are under 1.5 to 2 times it.
const FAR_OVER: f64 = 3.0;
/// Machine-hours on which nothing ran. Judged: booting and fetching data take minutes.
const IDLE_HOURS: f64 = 1.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnomalyKind {
    /// A run costs three times its forecast or more.
    FarOverForecast,
    /// Machines on which nothing ran for an hour or more.
    IdleMachines,
    /// A run of a team that belongs to no phase.
    NotPlanned,
    /// The months of a phase are over, and it is not done.
    Late,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Anomaly {
    pub kind: AnomalyKind,
    /// Name of the run, or of the phase that is late.
    pub run: String,
    pub usd: Usd,
    /// Times its forecast; null: another kind.
    pub times_forecast: Option<f64>,
    /// Idle machine-hours; null: another kind.
    pub idle_hours: Option<f64>,
}

pub fn anomalies(
    portfolio: &Portfolio,
    once: &[PhaseCost],
    spent: &Spent,
    attributed: &Attributed,
    progress: &[Progress],
) -> Vec<Anomaly> {
    let blank =
        |kind, run: &str, usd| Anomaly { kind, run: run.to_owned(), usd, times_forecast: None, idle_hours: None };
    let mut found = Vec::new();
    let mut phase_of_run: BTreeMap<String, usize> = BTreeMap::new();
    for at in 0..portfolio.phases.len() {
        phase_of_run.extend(attributed.runs_of(at).into_iter().map(|run| (run, at)));
    }
    for (run, usd) in &attributed.by_run {
        let Some(phase) = phase_of_run.get(run) else {
            found.push(blank(AnomalyKind::NotPlanned, run, *usd));
            continue;
        };
        let own = spent.known.values().filter(|known| known.run == *run).filter_map(|known| known.expected.as_ref());
        let forecast = own.map(|expected| expected.cost_usd.expected).max().unwrap_or(once[*phase].cost.expected);
        let times = usd.dollars() / forecast.dollars();
        if forecast > Usd::ZERO && times >= FAR_OVER {
            found.push(Anomaly { times_forecast: Some(times), ..blank(AnomalyKind::FarOverForecast, run, *usd) });
        }
    }
    let mut idle: BTreeMap<&str, (f64, Usd)> = BTreeMap::new();
    for charge in spent.lines.iter().map(|line| &line.charge).filter(|charge| charge.waste == Some(Waste::Idle)) {
        let Some(run) = charge.allocation.run.as_deref().filter(|run| attributed.by_run.contains_key(*run)) else {
            continue;
        };
        let (hours, usd) = idle.entry(run).or_default();
        *hours += charge.quantity;
        *usd = *usd + charge.costs.effective;
    }
    let idle = idle.into_iter().filter(|(_, (hours, _))| *hours >= IDLE_HOURS);
    found.extend(
        idle.map(|(run, (hours, usd))| Anomaly {
            idle_hours: Some(hours),
            ..blank(AnomalyKind::IdleMachines, run, usd)
        }),
    );
    let late = progress.iter().enumerate().filter(|(_, progress)| progress.is_late);
    found.extend(late.map(|(at, _)| blank(AnomalyKind::Late, &portfolio.phases[at].path(), attributed.of_phase(at))));
    found.sort_by(|a, b| (b.usd, a.kind, &a.run).cmp(&(a.usd, b.kind, &b.run)));
    found
}
