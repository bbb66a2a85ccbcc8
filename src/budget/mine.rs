//! Forecast against actual: how wrong the plans of this user's own runs were, in time, price and interruptions apart.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::budget::spent::{REHEARSAL, RunKnown};
use crate::units::Usd;

/// One completed run that was launched from a plan. A ratio is actual over forecast.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    pub run: String,
    pub gpu: String,
    pub framework: String,
    pub nodes: u32,
    /// From the request to the end, waiting and interruptions included.
    pub hours: Pair,
    /// Of work that counts, on each machine: what the estimate of a step says, without luck with spot machines.
    pub work_hours: Pair,
    /// Of a machine and hour.
    pub rate_usd: Pair,
    /// The whole of the machines' cost; the forecast has disks and storage in it.
    pub cost_usd: Pair,
    pub interruptions: Pair,
    /// The cost was no more than nine of ten forecast.
    pub is_within_p90: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    pub forecast: f64,
    pub actual: f64,
}

impl Pair {
    /// `None` where nothing was forecast.
    pub fn ratio(self) -> Option<f64> {
        (self.forecast > 0.0 && self.actual.is_finite()).then(|| self.actual / self.forecast)
    }
}

/// Runs of one GPU and framework together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    pub gpu: String,
    pub framework: String,
    pub runs: Vec<String>,
    /// Medians of actual over forecast.
    pub hours: Option<f64>,
    pub work_hours: Option<f64>,
    pub rate: Option<f64>,
    pub cost: Option<f64>,
    /// All interruptions of the runs, and all that were forecast.
    pub interruptions: Pair,
    /// Share of runs that cost no more than their 90th percentile.
    pub within_p90: f64,
}

/// Completed runs with a forecast. What only rehearsed says nothing of real machines.
pub fn compare<'a>(runs: impl Iterator<Item = &'a RunKnown>) -> Vec<Compared> {
    let compared = runs.filter(|run| run.outcome.as_deref() == Some("completed") && run.cloud != REHEARSAL).filter_map(|run| {
        let (expected, actual) = (run.expected.as_ref()?, run.actual.as_ref()?);
        let dollars = |amount: Usd| amount.dollars();
        Some(Compared {
            run: run.run.clone(),
            gpu: expected.gpu.clone(),
            framework: expected.framework.clone(),
            nodes: actual.nodes,
            hours: Pair { forecast: expected.hours.expected, actual: actual.hours },
            work_hours: Pair { forecast: actual.planned_work_hours, actual: actual.work_hours },
            rate_usd: Pair { forecast: dollars(actual.planned_rate_usd), actual: dollars(actual.cost_usd) / actual.machine_hours },
            cost_usd: Pair { forecast: dollars(expected.cost_usd.expected), actual: dollars(actual.cost_usd) },
            interruptions: Pair { forecast: expected.interruptions, actual: f64::from(actual.interruptions) },
            is_within_p90: actual.cost_usd <= expected.cost_usd.p90,
        })
    });
    compared.collect()
}

pub fn groups(runs: &[Compared]) -> Vec<Group> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Compared>> = BTreeMap::new();
    for run in runs {
        groups.entry((&run.gpu, &run.framework)).or_default().push(run);
    }
    let made = groups.into_iter().map(|((gpu, framework), runs)| {
        let of = |pair: fn(&Compared) -> Pair| median(runs.iter().filter_map(|run| pair(run).ratio()).collect());
        let sum = |of: fn(Pair) -> f64| runs.iter().map(|run| of(run.interruptions)).sum();
        Group {
            gpu: gpu.to_owned(),
            framework: framework.to_owned(),
            runs: runs.iter().map(|run| run.run.clone()).collect(),
            hours: of(|run| run.hours),
            work_hours: of(|run| run.work_hours),
            rate: of(|run| run.rate_usd),
            cost: of(|run| run.cost_usd),
            interruptions: Pair { forecast: sum(|pair| pair.forecast), actual: sum(|pair| pair.actual) },
            within_p90: runs.iter().filter(|run| run.is_within_p90).count() as f64 / runs.len() as f64,
        }
    });
    made.collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) { f64::midpoint(*values.get(middle.wrapping_sub(1))?, upper) } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::spent::Actual;
    use crate::runstore::Expected;
    use crate::units::Quantiles;

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
        };
        let actual = Actual {
            hours: 20.0,
            machine_hours: 20.0,
            work_hours: work,
            planned_work_hours: 8.0,
            nodes: 1,
            cost_usd: usd(cost),
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
        let group = &groups(&compared)[0];
        assert_eq!((group.work_hours, group.hours, group.within_p90), (Some(1.5), Some(2.0), 0.5));
        assert_eq!(group.interruptions, Pair { forecast: 1.0, actual: 4.0 });
        assert!((group.rate.unwrap() - 0.825).abs() < 1e-9 && (group.cost.unwrap() - 1.65).abs() < 1e-9);
        assert!(groups(&[]).is_empty());
    }
}
