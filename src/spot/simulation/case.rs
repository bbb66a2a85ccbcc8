//! A case of `simulate --cases`: a job on traces, the policy to run, and the answer.

use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::availability::AvailabilityModel;
use crate::availability::watch::Watch;
use crate::policy::semi_markov::Tables;
use crate::policy::{Action, Limits, Policy, PoolTerms, WORST_CHANGEOVER_RATIO};
use crate::simulation::forecast::{self, Forecast};
use crate::simulation::omniscient::least_cost;
use crate::simulation::replay::{Outcome, Stretch, World, look_back, replay};
use crate::simulation::trace::Trace;
use gpuplan_units::{Usd, UsdPerHour};

/// Slices of the time-sliced rule, as NSDI'24 compares it.
const SLICES: u32 = 8;
/// Tables kept for the next case of the same shape. Each is some megabytes.
const MOST_TABLES: usize = 64;
/// A changeover longer than this, in hours, is no changeover.
const MOST_CHANGEOVER_HOURS: f64 = 1000.0;
/// Decisions of one job: longer ones belong to no machine that is rented.
const MOST_TICKS: f64 = 1e8;

/// A run to replay on traces of availability: its work, its deadline, its prices and the policy that leads it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct SimulationCase {
    pub trace: Option<String>,
    #[serde(default)]
    pub start_tick: usize,
    #[serde(default = "one")]
    pub nodes: u32,
    pub work_hours: f64,
    pub deadline_hours: f64,
    pub changeover_hours: f64,
    pub worst_changeover_hours: Option<f64>,
    #[serde(default)]
    pub changeover_hours_samples: Vec<f64>,
    pub on_demand_usd_per_hour: UsdPerHour,
    pub spot_usd_per_hour: Option<UsdPerHour>,
    #[serde(default)]
    pub pools: Vec<CasePool>,
    #[serde(default)]
    pub on_demand_outages: Vec<(usize, usize)>,
    /// Progress between two saves, of which a loss without notice takes the rest.
    #[serde(default)]
    pub save_every_hours: f64,
    /// How far the policy's clock runs ahead, or behind below zero.
    #[serde(default)]
    pub clock_ahead_hours: f64,
    pub budget_usd: Option<Usd>,
    /// 0: every pool is seen at every tick. Else by attempts alone, the first two of which are so far apart.
    #[serde(default)]
    pub probe_minutes: f64,
    #[serde(default)]
    pub policy: PolicyName,
    #[serde(default)]
    pub forecast: bool,
    #[serde(default)]
    pub decisions: bool,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct CasePool {
    pub trace: String,
    pub spot_usd_per_hour: UsdPerHour,
    pub on_demand_usd_per_hour: Option<UsdPerHour>,
    #[serde(default)]
    pub switch_usd: Usd,
    pub switch_hours: Option<f64>,
    /// The spot rate from the first tick of the trace on, where it moves: each with the ticks that it holds, the last one for as long as the trace
    /// goes. A policy sees the one of the moment, and a forecast knows the one at the start.
    #[serde(default)]
    pub spot_usd_per_hour_path: Vec<(UsdPerHour, usize)>,
    /// Machines are not had, and are taken away, while spot costs more.
    pub highest_usd_per_hour: Option<UsdPerHour>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    OnDemand,
    SpotOnly,
    Greedy,
    TimeSliced,
    UniformProgress,
    SlackReserve,
    SemiMarkov,
    Omniscient,
    /// The one that the product ships.
    #[default]
    Default,
}

/// The answer to one line of cases: what the case came to, or why there is no answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SimulationAnswer {
    Result(Box<SimulationResult>),
    /// `id` is `null` where the line is not JSON.
    Unsupported {
        id: Value,
        unsupported: String,
    },
}

/// What a case came to. Keys as scripts read them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimulationResult {
    pub id: Value,
    pub policy: PolicyName,
    pub cost_usd: Usd,
    #[serde(flatten)]
    pub run: Option<ReplaySummary>,
    pub met_deadline: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
}

/// The course of a replay; the omniscient optimum has only a cost.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReplaySummary {
    pub finish_hours: f64,
    pub starts: u32,
    pub interruptions: u32,
    pub on_demand_hours: f64,
    pub spot_hours: f64,
    /// The budget ended the run before its work was done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub out_of_budget: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<String>,
    /// Why each stretch of `decisions` began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<String>>,
}

/// The job that tables are for, and the rates that its pools take where they move.
type TableKey = (Limits, Vec<Vec<UsdPerHour>>);

/// Traces, the fitted model, and the tables made so far.
#[derive(Debug)]
pub struct Simulator {
    traces: Vec<Trace>,
    model: AvailabilityModel,
    tables: Mutex<Vec<(TableKey, Arc<Tables>)>>,
    seed: u64,
}

impl Simulator {
    pub fn new(traces: Vec<Trace>, model: AvailabilityModel, seed: u64) -> Self {
        Self { traces, model, tables: Mutex::default(), seed }
    }

    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// One line in, one answer out, whatever the line says.
    pub fn answer(&self, line: &str) -> Value {
        let answer = self.simulation(line);
        serde_json::to_value(answer).expect("an answer has text keys, and its figures are finite")
    }

    fn simulation(&self, line: &str) -> SimulationAnswer {
        let refuse = |id: Value, why: String| SimulationAnswer::Unsupported { id, unsupported: why };
        let document: Value = match serde_json::from_str(line) {
            Ok(document) => document,
            Err(error) => return refuse(Value::Null, error.to_string()),
        };
        let id = document.get("id").cloned().unwrap_or(Value::Null);
        let answer = SimulationCase::deserialize(&document)
            .map_err(|error| error.to_string())
            .and_then(|case| self.run(&case, id.clone()));
        answer.map_or_else(|why| refuse(id, why), |result| SimulationAnswer::Result(Box::new(result)))
    }

    fn run(&self, case: &SimulationCase, id: Value) -> Result<SimulationResult, String> {
        let places = case.places()?;
        let traces: Vec<&Trace> = places.iter().map(|pool| self.trace(&pool.trace)).collect::<Result<_, _>>()?;
        let tick = traces[0].gap;
        if traces.iter().any(|trace| trace.gap != tick) {
            return Err("the pools do not share one tick".to_owned());
        }
        let limits = case.limits(&places, tick)?;
        let pairs = || places.iter().zip(&traces);
        let is_moving = places.iter().any(|pool| !pool.spot_usd_per_hour_path.is_empty());
        let paths: Vec<Vec<UsdPerHour>> =
            pairs().filter(|_| is_moving).map(|(pool, trace)| pool.rates(trace.obtainable.len())).collect();
        let rates: Vec<&[UsdPerHour]> = paths.iter().map(Vec::as_slice).collect();
        let up: Vec<Vec<bool>> = pairs().map(|(pool, trace)| pool.up(trace, case.nodes)).collect();
        let pools: Vec<&[bool]> = up.iter().map(Vec::as_slice).collect();
        let changeovers: Vec<f64> = case.changeover_hours_samples.iter().map(|hours| hours * 3600.0).collect();
        let world = World {
            outages: &case.on_demand_outages,
            changeovers: &changeovers,
            save_every: case.save_every_hours * 3600.0,
            clock_ahead: case.clock_ahead_hours * 3600.0,
            rates: &rates,
            ..World::from_pools(&pools)
        };
        let limits = world.terms(&limits, case.start_tick).into_owned();
        if case.policy == PolicyName::Omniscient {
            let cost_usd =
                least_cost(&limits, &world, case.start_tick).ok_or("no way to the deadline inside the trace")?;
            return Ok(SimulationResult {
                id,
                policy: case.policy,
                cost_usd,
                run: None,
                met_deadline: true,
                forecast: None,
            });
        }
        let policy = self.policy(case.policy, &limits, &paths);
        let mut watch = case.watch(tick);
        look_back(&mut watch, &world, case.start_tick);
        let known = case.forecast.then(|| watch.clone());
        let outcome = replay(&policy, &limits, &world, case.start_tick, watch, case.decisions)
            .map_err(|error| error.to_string())?;
        let forecast =
            known.map(|watch| forecast::forecast(&policy, &limits, &self.model, watch, self.seed)).transpose();
        let forecast = forecast.map_err(|error| error.to_string())?;
        let (cost_usd, met_deadline) = (outcome.cost, outcome.met_deadline);
        Ok(SimulationResult {
            id,
            policy: case.policy,
            cost_usd,
            met_deadline,
            run: Some(ReplaySummary::new(outcome, case.decisions, pools.len() > 1)),
            forecast,
        })
    }

    /// By its source, or by the end of a path where only one trace has it.
    fn trace(&self, name: &str) -> Result<&Trace, String> {
        if let Some(exact) = self.traces.iter().find(|trace| trace.source == name) {
            return Ok(exact);
        }
        let file = |path: &str| path.rsplit('/').next().unwrap_or(path).trim_end_matches(".json").to_owned();
        let mut alike = self.traces.iter().filter(|trace| file(&trace.source) == file(name));
        match (alike.next(), alike.next()) {
            (Some(trace), None) => Ok(trace),
            _ => Err(format!("no trace `{name}`")),
        }
    }

    fn policy(&self, name: PolicyName, limits: &Limits, paths: &[Vec<UsdPerHour>]) -> Policy {
        match name {
            PolicyName::OnDemand | PolicyName::Omniscient => Policy::OnDemand,
            PolicyName::SpotOnly => Policy::SpotOnly,
            PolicyName::Greedy => Policy::Greedy,
            PolicyName::TimeSliced => Policy::TimeSliced { slices: SLICES },
            PolicyName::UniformProgress => Policy::UniformProgress,
            PolicyName::SlackReserve => Policy::SlackReserve,
            PolicyName::SemiMarkov | PolicyName::Default => Policy::SemiMarkov(self.tables(limits, paths)),
        }
    }

    /// The table of this shape of job, made once.
    fn tables(&self, limits: &Limits, paths: &[Vec<UsdPerHour>]) -> Arc<Tables> {
        let kept = || self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tables)) = kept().iter().find(|((of, over), _)| of == limits && over == paths) {
            return Arc::clone(tables);
        }
        let made = Arc::new(match paths {
            [] => Tables::new(&self.model, limits),
            _ => Tables::moving(&self.model, limits, paths.iter().flatten().copied()),
        });
        let mut kept = kept();
        if kept.len() >= MOST_TABLES {
            kept.remove(0);
        }
        kept.push(((limits.clone(), paths.to_vec()), Arc::clone(&made)));
        made
    }
}

impl CasePool {
    /// Its spot rate at each of so many ticks.
    fn rates(&self, ticks: usize) -> Vec<UsdPerHour> {
        let path = &self.spot_usd_per_hour_path;
        let last = path.last().map_or(self.spot_usd_per_hour, |(rate, _)| *rate);
        let moving = path.iter().flat_map(|(rate, ticks)| std::iter::repeat_n(*rate, *ticks));
        moving.chain(std::iter::repeat(last)).take(ticks).collect()
    }

    /// At which ticks so many machines can be had together for no more than is paid at most.
    fn up(&self, trace: &Trace, nodes: u32) -> Vec<bool> {
        let up = trace.up(nodes);
        let Some(highest) = self.highest_usd_per_hour else { return up };
        let rates = self.rates(up.len());
        up.into_iter().zip(rates).map(|(up, rate)| up && rate <= highest).collect()
    }
}

impl SimulationCase {
    /// What it knows of its pools before it starts.
    fn watch(&self, tick: f64) -> Watch {
        let pools = self.pools.len().max(1);
        if self.probe_minutes > 0.0 {
            Watch::attempts(pools, tick, self.probe_minutes * 60.0)
        } else {
            Watch::full(pools, tick)
        }
    }

    /// Its pools; a single trace is one pool.
    fn places(&self) -> Result<Vec<CasePool>, String> {
        match (&self.trace, self.spot_usd_per_hour) {
            _ if !self.pools.is_empty() => Ok(self.pools.clone()),
            (Some(trace), Some(spot_usd_per_hour)) => Ok(vec![CasePool {
                trace: trace.clone(),
                spot_usd_per_hour,
                on_demand_usd_per_hour: None,
                switch_usd: Usd::ZERO,
                switch_hours: None,
                spot_usd_per_hour_path: Vec::new(),
                highest_usd_per_hour: None,
            }]),
            _ => Err("neither `pools` nor `trace` with `spot_usd_per_hour`".to_owned()),
        }
    }

    fn limits(&self, places: &[CasePool], tick: f64) -> Result<Limits, String> {
        let worst = self
            .worst_changeover_hours
            .unwrap_or(WORST_CHANGEOVER_RATIO * self.changeover_hours)
            .max(self.changeover_hours);
        let switches: Vec<f64> = places.iter().filter_map(|pool| pool.switch_hours).collect();
        let changeovers = [self.changeover_hours, worst]
            .into_iter()
            .chain(switches)
            .chain(self.changeover_hours_samples.iter().copied());
        if changeovers.clone().any(|hours| hours > MOST_CHANGEOVER_HOURS) {
            return Err(format!("a changeover of more than {MOST_CHANGEOVER_HOURS} h"));
        }
        let times = [
            self.work_hours,
            self.deadline_hours,
            self.probe_minutes,
            self.save_every_hours,
            self.clock_ahead_hours.abs(),
        ]
        .into_iter()
        .chain(changeovers);
        if times.into_iter().any(|hours| !(hours.is_finite() && hours >= 0.0 && hours * 3600.0 / tick < MOST_TICKS)) {
            return Err("a time is negative or too large".to_owned());
        }
        if self.work_hours <= 0.0 || self.nodes == 0 {
            return Err("no work, or no nodes to do it".to_owned());
        }
        let prices =
            places.iter().flat_map(|pool| [Some(pool.spot_usd_per_hour), pool.on_demand_usd_per_hour]).flatten();
        let paths = places.iter().flat_map(|pool| &pool.spot_usd_per_hour_path).map(|(rate, _)| *rate);
        let prices = prices.chain(paths);
        if prices.chain([self.on_demand_usd_per_hour]).any(|price| price.nanos() <= 0) {
            return Err("a price of zero is not a price".to_owned());
        }
        let terms = |pool: &CasePool| PoolTerms {
            spot: pool.spot_usd_per_hour,
            on_demand: pool.on_demand_usd_per_hour,
            switch_cost: pool.switch_usd,
            switch_changeover: pool.switch_hours.unwrap_or(self.changeover_hours) * 3600.0,
        };
        Ok(Limits {
            work: self.work_hours * 3600.0,
            deadline: self.deadline_hours * 3600.0,
            tick,
            changeover: self.changeover_hours * 3600.0,
            worst_changeover: worst * 3600.0,
            on_demand: self.on_demand_usd_per_hour,
            pools: places.iter().map(terms).collect(),
            budget: self.budget_usd,
        })
    }
}

impl ReplaySummary {
    fn new(outcome: Outcome, log: bool, several: bool) -> Self {
        let reasons = || outcome.decisions.iter().map(|stretch| stretch.reason.to_string()).collect();
        Self {
            finish_hours: outcome.finish_hours,
            starts: outcome.starts,
            interruptions: outcome.interruptions,
            on_demand_hours: outcome.on_demand_hours,
            spot_hours: outcome.spot_hours,
            out_of_budget: outcome.out_of_budget,
            decisions: log.then(|| outcome.decisions.iter().map(|stretch| letters(stretch, several)).collect()),
            reasons: log.then(reasons),
        }
    }
}

/// `s12`, `i3`, `o5`; of several pools `s@2x12` and, where the pool names its own on-demand rate, `o@2x5`.
fn letters(stretch: &Stretch, several: bool) -> String {
    let letter = match stretch.action {
        Action::Idle => 'i',
        Action::Spot(_) => 's',
        Action::OnDemand(_) => 'o',
    };
    match stretch.action.pool().filter(|_| several) {
        Some(pool) => format!("{letter}@{pool}x{}", stretch.ticks),
        None => format!("{letter}{}", stretch.ticks),
    }
}
