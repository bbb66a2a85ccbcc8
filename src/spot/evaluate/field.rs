//! The field of an evaluation: pools with their zones, shapes of jobs, windows, and who runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::availability::AvailabilityModel;
use crate::policy::semi_markov::Tables;
use crate::policy::{Limits, Policy, PoolTerms};
use crate::simulation::trace::Trace;
use gpuplan_units::{Usd, UsdPerHour};

/// The on-demand rate of every job: that of the traces' instance type. Only ratios are shown.
const ON_DEMAND: UsdPerHour = UsdPerHour::from_nanos(3_060_000_000);

/// "Can't Be Late" (NSDI'24) takes windows of 554 ticks from the first 1,767 ticks of its traces. Seconds.
const PAPER_SPAN: f64 = 1767.0 * 600.0;
const PAPER_WINDOW: f64 = 554.0 * 600.0;

/// Traces of one tick.
#[derive(Clone, Debug)]
pub struct Field {
    pub tick: f64,
    pub pools: Vec<Pool>,
}

#[derive(Clone, Debug)]
pub struct Pool {
    /// File name of its source.
    pub name: String,
    pub up: Vec<bool>,
    /// Rates fitted on the pools of other zones; `None` where there are none.
    pub others: Option<AvailabilityModel>,
}

impl Pool {
    /// The part of the name before the first `_`, as the public traces name their zones.
    pub fn zone(&self) -> &str {
        self.name.split_once('_').map_or(self.name.as_str(), |(zone, _)| zone)
    }

    /// Seconds that it stays up from each tick on, after `start`.
    fn lasts(&self, start: usize, tick: f64) -> Arc<[f64]> {
        let mut lasts = 0.0;
        let backwards = self.up[start.min(self.up.len())..].iter().rev().map(|up| {
            lasts = if *up { lasts + tick } else { 0.0 };
            lasts
        });
        let mut lasts: Vec<f64> = backwards.collect();
        lasts.reverse();
        lasts.into()
    }

    /// The part after it: the machine type.
    pub fn kind(&self) -> &str {
        self.name.split_once('_').map_or("", |(_, kind)| kind)
    }
}

impl Field {
    /// The traces by tick, in ascending order.
    pub fn groups(traces: &[Trace]) -> Vec<Self> {
        Self::groups_of(traces, 1)
    }

    /// The same for so many machines at once.
    pub fn groups_of(traces: &[Trace], machines: u32) -> Vec<Self> {
        let mut by_tick: BTreeMap<u64, Vec<Pool>> = BTreeMap::new();
        for trace in traces {
            let file = trace.source.rsplit('/').next().unwrap_or(&trace.source);
            let pool = Pool { name: file.trim_end_matches(".json").to_owned(), up: trace.up(machines), others: None };
            by_tick.entry(trace.gap.to_bits()).or_default().push(pool);
        }
        by_tick.into_iter().map(|(bits, pools)| Self { tick: f64::from_bits(bits), pools }.with_others()).collect()
    }

    fn with_others(mut self) -> Self {
        let fits: Vec<Option<AvailabilityModel>> = self
            .pools
            .iter()
            .map(|pool| {
                let others = self.pools.iter().filter(|other| other.zone() != pool.zone());
                let traces: Vec<(&[bool], f64)> = others.map(|other| (other.up.as_slice(), self.tick)).collect();
                (!traces.is_empty()).then(|| AvailabilityModel::fit(&traces))
            })
            .collect();
        for (pool, fit) in self.pools.iter_mut().zip(fits) {
            pool.others = fit;
        }
        self
    }

    pub fn has_other_zones(&self) -> bool {
        self.pools.iter().all(|pool| pool.others.is_some())
    }

    /// Pools of one type in different zones, with traces of the same length.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let all = (0..self.pools.len()).flat_map(|a| (a + 1..self.pools.len()).map(move |b| (a, b)));
        all.filter(|(a, b)| {
            let (a, b) = (&self.pools[*a], &self.pools[*b]);
            a.kind() == b.kind() && a.zone() != b.zone() && a.up.len() == b.up.len()
        })
        .collect()
    }
}

/// Which windows of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TracePart {
    Early,
    Late,
    #[default]
    Whole,
}

impl TracePart {
    pub fn name(self) -> &'static str {
        match self {
            Self::Early => "first half",
            Self::Late => "second half",
            Self::Whole => "whole",
        }
    }

    /// First ticks of `count` windows of `needed` ticks, spread evenly; none where not one fits. The first half of a long trace
    /// has the span of the paper's windows, and the same starts for every shape that its windows are long enough for.
    pub fn starts(self, ticks: usize, tick: f64, needed: usize, count: usize) -> Vec<usize> {
        let is_long = ticks as f64 * tick >= 2.0 * PAPER_SPAN;
        let (from, to, needed) = match self {
            Self::Early if is_long => (0, (PAPER_SPAN / tick) as usize, needed.max((PAPER_WINDOW / tick) as usize)),
            Self::Early => (0, ticks / 2, needed),
            Self::Late => (ticks / 2, ticks, needed),
            Self::Whole => (0, ticks, needed),
        };
        let Some(room) = to.checked_sub(from + needed).filter(|_| count > 0) else { return Vec::new() };
        (0..count).map(|index| from + room * index / count.max(2).saturating_sub(1)).collect()
    }
}

/// A job, in hours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobShape {
    pub work: f64,
    pub deadline: f64,
    pub changeover: f64,
    /// The reserve for a changeover, in changeovers.
    pub worst: f64,
    /// On-demand rate over spot rate.
    pub price_ratio: f64,
}

impl fmt::Display for JobShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} h of work in {:.1} h, changeover {} h", self.work, self.deadline, self.changeover)
    }
}

impl JobShape {
    pub fn new(work: f64, deadline: f64, changeover: f64, price_ratio: f64) -> Self {
        Self { work, deadline, changeover, worst: 1.0, price_ratio }
    }

    pub fn limits(&self, tick: f64, pools: usize) -> Limits {
        let spot = UsdPerHour::from_nanos((ON_DEMAND.nanos() as f64 / self.price_ratio).round() as i64);
        let changeover = self.changeover * 3600.0;
        let terms = PoolTerms { spot, on_demand: None, switch_cost: Usd::ZERO, switch_changeover: changeover };
        Limits {
            work: self.work * 3600.0,
            deadline: self.deadline * 3600.0,
            tick,
            changeover,
            worst_changeover: changeover * self.worst,
            on_demand: ON_DEMAND,
            pools: vec![terms; pools],
            budget: None,
        }
    }

    /// Dollars of the work on on-demand machines without any changeover.
    pub fn on_demand_dollars(&self) -> f64 {
        self.work * ON_DEMAND.dollars()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrant {
    OnDemand,
    SpotOnly,
    Greedy,
    TimeSliced,
    UniformProgress,
    /// Uniform progress that knows how long spot will last.
    Oracle,
    SlackReserve,
    /// With the constants that are shipped.
    Default,
    /// The default with constants fitted on other zones of these traces.
    HeldOut,
    /// A reference that nobody can run: the default with constants fitted on the whole trace of the pool itself.
    OwnRates,
    Omniscient,
}

impl Entrant {
    pub const ALL: &[Self] = &[
        Self::OnDemand,
        Self::SpotOnly,
        Self::Greedy,
        Self::TimeSliced,
        Self::UniformProgress,
        Self::Oracle,
        Self::SlackReserve,
        Self::Default,
        Self::HeldOut,
        Self::OwnRates,
        Self::Omniscient,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::SpotOnly => "spot-only",
            Self::Greedy => "greedy",
            Self::TimeSliced => "time-sliced",
            Self::UniformProgress => "uniform-progress",
            Self::Oracle => "uniform-progress + oracle",
            Self::SlackReserve => "slack-reserve",
            Self::Default => "default",
            Self::HeldOut => "default, constants of other zones",
            Self::OwnRates => "default, told the pool's own rates",
            Self::Omniscient => "omniscient",
        }
    }

    /// Its rule in this pool from this tick on; `None` for the omniscient, and where no other zone gives constants.
    pub fn policy(self, pool: &Pool, limits: &Limits, start: usize) -> Option<Policy> {
        let fitted = |model: &AvailabilityModel| Policy::SemiMarkov(Arc::new(Tables::new(model, limits)));
        match self {
            Self::OnDemand => Some(Policy::OnDemand),
            Self::SpotOnly => Some(Policy::SpotOnly),
            Self::Greedy => Some(Policy::Greedy),
            Self::TimeSliced => Some(Policy::TimeSliced { slices: 8 }),
            Self::UniformProgress => Some(Policy::UniformProgress),
            Self::Oracle => Some(Policy::UniformProgressOracle(pool.lasts(start, limits.tick))),
            Self::SlackReserve => Some(Policy::SlackReserve),
            Self::Default => Some(fitted(&AvailabilityModel::prior())),
            Self::HeldOut => pool.others.as_ref().map(fitted),
            Self::OwnRates => Some(fitted(&AvailabilityModel::fit(&[(pool.up.as_slice(), limits.tick)]))),
            Self::Omniscient => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_inside_their_part() {
        assert_eq!(TracePart::Early.starts(1000, 600.0, 100, 3), [0, 200, 400]);
        assert_eq!(TracePart::Late.starts(1000, 600.0, 100, 3), [500, 700, 900]);
        assert_eq!(TracePart::Whole.starts(1000, 600.0, 1000, 1), [0]);
        assert!(TracePart::Early.starts(1000, 600.0, 501, 3).is_empty());
        assert_eq!(TracePart::Early.starts(3895, 600.0, 312, 3), [0, 606, 1213]);
    }

    /// `benchmarks/spot_windows.csv` says which windows the figures of `docs/risk.md` are of.
    #[test]
    fn windows_are_those_of_the_committed_list() {
        let listed = include_str!("../../../benchmarks/spot_windows.csv");
        for line in listed.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let [tick, ticks, part, _, deadline, count, firsts] = cells[..] else { panic!("{line}") };
            let part = [TracePart::Early, TracePart::Late, TracePart::Whole]
                .into_iter()
                .find(|known| known.name() == part)
                .unwrap();
            let (tick, deadline): (f64, f64) = (tick.parse().unwrap(), deadline.parse().unwrap());
            let needed = (deadline * 3600.0 / tick).ceil() as usize;
            let firsts: Vec<usize> = firsts.split_whitespace().map(|first| first.parse().unwrap()).collect();
            assert_eq!(part.starts(ticks.parse().unwrap(), tick, needed, count.parse().unwrap()), firsts, "{line}");
        }
    }
}
