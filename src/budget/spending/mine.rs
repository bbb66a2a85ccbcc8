//! Forecast against actual: how wrong the plans of this user's own runs were, in time, price and interruptions apart.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::spending::spent::{REHEARSAL, RunKnown};
use gpuplan_estimate::OwnRun;
use gpuplan_estimate::own_runs::Program;
use gpuplan_runstore::ForecastBasis;
use gpuplan_units::Usd;

/// One completed run that was launched from a plan. A ratio is actual over forecast.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunComparison {
    pub run: String,
    pub gpu: String,
    pub framework: String,
    pub nodes: u32,
    /// From the request to the end, waiting and interruptions included.
    pub hours: ForecastAndActual,
    /// Of work that counts, on each machine: what the estimate of a step says, without luck with spot machines.
    pub work_hours: ForecastAndActual,
    /// Of a machine and hour.
    pub rate_usd: ForecastAndActual,
    /// Machines, disks and data from elsewhere; the forecast has storage in it, too.
    pub cost_usd: ForecastAndActual,
    pub interruptions: ForecastAndActual,
    /// The cost was no more than nine of ten forecast.
    pub is_within_p90: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<ForecastBasis>,
}

/// A figure as it was forecast and as it came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ForecastAndActual {
    pub forecast: f64,
    pub actual: f64,
}

impl ForecastAndActual {
    /// `None` where nothing was forecast.
    pub fn ratio(self) -> Option<f64> {
        (self.forecast > 0.0 && self.actual.is_finite()).then(|| self.actual / self.forecast)
    }
}

/// A program that starts, compiles and reads its weights takes minutes that no plan has; a run shorter than this says more of them
/// than of its steps. Hours. Judged.
const SHORTEST: f64 = 0.25;
/// A run further off than this did other work than its workload says. Factor. Judged; the worst of 1,075 published runs is off by
/// less than two.
const FURTHEST: f64 = 5.0;

/// Runs that a plan of today can go by, and how many it cannot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsableRuns {
    /// Newest first.
    pub runs: Vec<OwnRun>,
    pub left_out: LeftOut,
}

/// Completed runs with a forecast that say nothing of the next one, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// An older version launched them, which did not keep what the forecast was of.
    pub unknown: usize,
    /// Their forecast rested on other measurements.
    pub otherwise_measured: usize,
    pub too_short: usize,
    pub too_far_off: usize,
}

impl LeftOut {
    /// `None`: nothing was.
    pub fn words(self) -> Option<String> {
        let parts = [
            (self.unknown, "launched by an older version"),
            (self.otherwise_measured, "forecast with other measurements than today's"),
            (self.too_short, "shorter than a quarter of an hour"),
            (self.too_far_off, "more than five times off, as other work is"),
        ];
        let parts: Vec<String> =
            parts.iter().filter(|(runs, _)| *runs > 0).map(|(runs, why)| format!("{runs} {why}")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// What the time of the next run may be taken from. `runs` come oldest first.
pub fn usable(runs: &[RunComparison], constants_version: &str, measured_sha256: Option<&str>) -> UsableRuns {
    let mut usable = UsableRuns::default();
    for run in runs.iter().rev() {
        let left_out = &mut usable.left_out;
        let (Some(basis), Some(ratio)) = (&run.basis, run.work_hours.ratio()) else {
            left_out.unknown += 1;
            continue;
        };
        // As the estimate alone would have said it. Four digits are more than a run is good for, and are written and read exactly.
        let ratio = (ratio * basis.time_factor * 1e4).round() / 1e4;
        if basis.measured_sha256.as_deref() != measured_sha256 {
            left_out.otherwise_measured += 1;
        } else if run.work_hours.forecast < SHORTEST {
            left_out.too_short += 1;
        } else if !(1.0 / FURTHEST..=FURTHEST).contains(&ratio) {
            left_out.too_far_off += 1;
        } else {
            usable.runs.push(OwnRun {
                run: run.run.clone(),
                program: Program {
                    model: basis.model.clone(),
                    task: basis.task.clone(),
                    framework: run.framework.clone(),
                },
                gpu: run.gpu.clone(),
                time_ratio: ratio,
                same_constants: basis.constants_version == constants_version,
            });
        }
    }
    usable
}

/// Runs of one GPU and framework together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparisonGroup {
    pub gpu: String,
    pub framework: String,
    pub runs: Vec<String>,
    /// Medians of actual over forecast.
    pub hours: Option<f64>,
    pub work_hours: Option<f64>,
    pub rate: Option<f64>,
    pub cost: Option<f64>,
    /// All interruptions of the runs, and all that were forecast.
    pub interruptions: ForecastAndActual,
    /// Share of runs that cost no more than their 90th percentile.
    pub within_p90: f64,
}

/// Completed runs with a forecast. What only rehearsed says nothing of real machines.
pub fn compare<'a>(runs: impl Iterator<Item = &'a RunKnown>) -> Vec<RunComparison> {
    let compared =
        runs.filter(|run| run.outcome.as_deref() == Some("completed") && run.cloud != REHEARSAL).filter_map(|run| {
            let (expected, actual) = (run.expected.as_ref()?, run.actual.as_ref()?);
            let dollars = |amount: Usd| amount.dollars();
            Some(RunComparison {
                run: run.run.clone(),
                gpu: expected.gpu.clone(),
                framework: expected.framework.clone(),
                nodes: actual.nodes,
                hours: ForecastAndActual { forecast: expected.hours.expected, actual: actual.hours },
                work_hours: ForecastAndActual { forecast: actual.planned_work_hours, actual: actual.work_hours },
                rate_usd: ForecastAndActual {
                    forecast: dollars(actual.planned_rate_usd),
                    actual: dollars(actual.machines_usd.unwrap_or(actual.cost_usd)) / actual.machine_hours,
                },
                cost_usd: ForecastAndActual {
                    forecast: dollars(expected.cost_usd.expected),
                    actual: dollars(actual.cost_usd),
                },
                interruptions: ForecastAndActual {
                    forecast: expected.interruptions,
                    actual: f64::from(actual.interruptions),
                },
                is_within_p90: actual.cost_usd <= expected.cost_usd.p90,
                basis: expected.basis.clone(),
            })
        });
    compared.collect()
}

pub fn comparison_groups(runs: &[RunComparison]) -> Vec<ComparisonGroup> {
    let mut groups: BTreeMap<(&str, &str), Vec<&RunComparison>> = BTreeMap::new();
    for run in runs {
        groups.entry((&run.gpu, &run.framework)).or_default().push(run);
    }
    let made = groups.into_iter().map(|((gpu, framework), runs)| {
        let median_of = |pair: fn(&RunComparison) -> ForecastAndActual| {
            median(runs.iter().filter_map(|run| pair(run).ratio()).collect())
        };
        let sum = |side: fn(ForecastAndActual) -> f64| runs.iter().map(|run| side(run.interruptions)).sum();
        ComparisonGroup {
            gpu: gpu.to_owned(),
            framework: framework.to_owned(),
            runs: runs.iter().map(|run| run.run.clone()).collect(),
            hours: median_of(|run| run.hours),
            work_hours: median_of(|run| run.work_hours),
            rate: median_of(|run| run.rate_usd),
            cost: median_of(|run| run.cost_usd),
            interruptions: ForecastAndActual { forecast: sum(|pair| pair.forecast), actual: sum(|pair| pair.actual) },
            within_p90: runs.iter().filter(|run| run.is_within_p90).count() as f64 / runs.len() as f64,
        }
    });
    made.collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) {
        f64::midpoint(*values.get(middle.wrapping_sub(1))?, upper)
    } else {
        upper
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spending::spent::ActualRun;
    use gpuplan_runstore::Expected;
    use gpuplan_units::Quantiles;

    fn run(name: &str, work: f64, cost: &str, outcome: &str, cloud: &str) -> RunKnown {
        let usd = |text: &str| Usd::parse(text).unwrap();
        let expected = Expected {
            plan: String::new(),
            gpu: "a10g-24".to_owned(),
            gpus_per_node: 1.0,
            framework: "fsdp".to_owned(),
            cost_usd: Quantiles { expected: usd("10"), p50: usd("10"), p90: usd("12") },
            hours: Quantiles { expected: 10.0, p50: 10.0, p90: 12.0 },
            interruptions: 0.5,
            tokens: None,
            prices: Vec::new(),
            basis: None,
            beside: Vec::new(),
            fetched_bytes: None,
        };
        let actual = ActualRun {
            hours: 20.0,
            machine_hours: 20.0,
            work_hours: work,
            planned_work_hours: 8.0,
            nodes: 1,
            cost_usd: usd(cost),
            machines_usd: None,
            planned_rate_usd: usd("1"),
            interruptions: 2,
        };
        RunKnown {
            key: name.to_owned(),
            run: name.to_owned(),
            cloud: cloud.to_owned(),
            outcome: Some(outcome.to_owned()),
            expected: Some(expected),
            actual: Some(actual),
            ..RunKnown::default()
        }
    }

    #[test]
    fn time_price_and_interruptions_are_told_apart() {
        let runs = [
            run("a", 8.0, "22", "completed", "aws"),
            run("b", 16.0, "11", "completed", "aws"),
            run("failed", 1.0, "1", "failed", "aws"),
            run("rehearsed", 1.0, "1", "completed", REHEARSAL),
        ];
        let compared = compare(runs.iter());
        assert_eq!(compared.iter().map(|one| one.run.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let group = &comparison_groups(&compared)[0];
        assert_eq!((group.work_hours, group.hours, group.within_p90), (Some(1.5), Some(2.0), 0.5));
        assert_eq!(group.interruptions, ForecastAndActual { forecast: 1.0, actual: 4.0 });
        assert!((group.rate.unwrap() - 0.825).abs() < 1e-9 && (group.cost.unwrap() - 1.65).abs() < 1e-9);
        assert!(comparison_groups(&[]).is_empty());
    }

    fn launched(name: &str, work: f64, basis: Option<ForecastBasis>) -> RunKnown {
        let mut known = run(name, work, "10", "completed", "aws");
        if let Some(expected) = &mut known.expected {
            expected.basis = basis;
        }
        known
    }

    #[test]
    fn a_plan_goes_by_runs_that_were_forecast_as_it_is() {
        let basis = ForecastBasis {
            model: "gpt-2".to_owned(),
            task: "pretrain".to_owned(),
            constants_version: "now".to_owned(),
            measured_sha256: None,
            time_factor: 1.1,
        };
        let measured = ForecastBasis { measured_sha256: Some("other".to_owned()), ..basis.clone() };
        let before = ForecastBasis { constants_version: "before".to_owned(), ..basis.clone() };
        let runs = [
            launched("older", 8.0, Some(before)),
            launched("newer", 8.8, Some(basis.clone())),
            launched("measured", 8.0, Some(measured)),
            launched("unknown", 8.0, None),
            launched("other work", 80.0, Some(basis)),
        ];
        let UsableRuns { runs, left_out } = usable(&compare(runs.iter()), "now", None);
        let shown: Vec<_> = runs.iter().map(|run| (run.run.as_str(), run.time_ratio, run.same_constants)).collect();
        // What earlier runs had put into a forecast is taken out of it again.
        assert_eq!(shown, [("newer", 1.21, true), ("older", 1.1, false)]);
        assert_eq!(left_out, LeftOut { unknown: 1, otherwise_measured: 1, too_short: 0, too_far_off: 1 });
    }
}
