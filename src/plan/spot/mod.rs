//! Spot machines in a plan: what is assumed of a pool, a first guess of what it means, and the forecast of the shipped policy.

pub mod own;
pub mod pools;
pub mod promise;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use rayon::prelude::*;

use crate::context::World;
use crate::normal::{deviations, point};
use crate::spot::promise::Promise;
use crate::training::run::RunTime;
use gpuplan_market::OfferId;
use gpuplan_market::own::{LastSeen, Seen};
use gpuplan_spot::AvailabilityModel;
use gpuplan_spot::evidence::{EvidenceAge, assumed_availability, gang_factor};
use gpuplan_spot::expected_cost::{Table, Terms};
use gpuplan_spot::forecast::{DRAWS, Forecast, Futures, summary};
use gpuplan_spot::hindsight::{Fallback, Least};
use gpuplan_spot::history::OWN_LAUNCHES;
use gpuplan_spot::policy::semi_markov::Tables;
use gpuplan_spot::policy::{Limits, Policy, PoolTerms};
use gpuplan_spot::replay::{Outcome, ReplayError};
use gpuplan_spot::watch::{FIRST_PAUSE, Watch};
use gpuplan_units::{Band, Hours, Usd, UsdPerHour};

/// Time between two decisions: the probes that the model is fitted on. Longer for long runs, which need no finer look. Seconds.
const TICK: f64 = 600.0;
const LONG_TICK: f64 = 1800.0;
/// Ticks of a horizon before ticks grow longer.
const TICKS: f64 = 1500.0;
/// Ticks drawn for one forecast, over all draws: a long run averages over its own ups and downs and needs fewer draws.
const DRAWN_TICKS: usize = 150_000;
/// A 90th percentile rests on at least four draws above it.
const FEWEST_DRAWS: usize = 40;
/// The search for the break-even draws less for each of its points.
const BREAK_EVEN_DRAWN_TICKS: usize = 25_000;
/// Work of less than one start is not worth waiting for spot, nor is spot that saves less than this factor. Guesses.
pub const LEAST_STARTS: f64 = 1.0;
pub const LEAST_RATIO: f64 = 1.2;
/// Plans share a table of the policy whose price ratios differ by less than this factor, and whose changeovers by less than this many
/// seconds. The table only weighs waiting against starting: prices, changeovers and the deadline of a replay are always the plan's own.
const SHARED_RATIO: f64 = 1.1;
const SHARED_CHANGEOVER: f64 = 180.0;
/// Hours that tables reach back from a deadline: one that reaches further serves every job that ends sooner.
const REACHES: [f64; 5] = [8.0, 24.0, 48.0, 96.0, 168.0];
/// Work beyond which spot cannot be forecast: twice as long as the traces. Hours.
const MOST_WORK: f64 = 1300.0;
/// Spot machines that a plan may need at once where the user has not asked for spot: availability is fitted to probes of one machine, and what
/// it is for many at once is unknown (docs/risk.md). Judged.
pub const MOST_UNPROBED: u32 = 8;
/// Ends that a plan with a fallback may promise: hours as people say them, so that plans share their tables and a longer deadline
/// only adds some.
const ENDS: [f64; 24] = [
    1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 18.0, 24.0, 36.0, 48.0, 72.0, 96.0, 120.0, 168.0, 240.0, 336.0, 504.0, 720.0,
    1080.0, 1440.0, 2160.0, 3240.0, 4320.0,
];
/// Ends that are tried, from the soonest that on-demand machines alone would keep: the last is four to six times as long.
const ENDS_TRIED: usize = 4;
/// No window of the development traces cost more than on-demand and so many changeovers (at work of 8 and 48 h).
const CEILING_CHANGEOVERS: f64 = 10.0;
/// Shares of time that a pool was up lately at which spot is compared with on-demand.
const BREAK_EVEN_AT: [f64; 5] = [0.0, 0.1, 0.3, 0.6, 0.9];

/// Pools whose availability has been looked at: eight of AWS in 2022, seven zones of Google Cloud in 2025 (docs/risk.md).
pub const PROBED_POOLS: u32 = 15;
/// No chance that rests on spot alone is said to be higher, whatever the replays say: if all of these pools had been in time, one more would
/// be with this chance (Laplace's rule of succession).
pub const MOST_CERTAIN: f64 = (PROBED_POOLS + 1) as f64 / (PROBED_POOLS + 2) as f64;

/// What may become of a plan on spot machines, and what it rests on.
#[derive(Clone, Debug)]
pub struct SpotForecast {
    /// On-demand machines of the same type in the same region that the plan falls back to, so that it ends by `finish_by`.
    pub fallback: Option<OfferId>,
    /// From the start; `None`: it waits for spot machines as long as it takes.
    pub finish_by: Option<Hours>,
    /// Share of time that the pool is assumed to have been up lately, and why.
    pub availability: f64,
    pub basis: &'static str,
    /// As of its pool.
    pub basis_age: Option<Hours>,
    /// What the user's own launches saw there.
    pub own: Option<Seen>,
    /// How it was when they last saw it, from which a forecast goes on.
    pub last_seen: Option<LastSeen>,
    /// `None`: the plan's figures are a first guess.
    pub forecast: Option<Forecast>,
    /// Share of time up under which on-demand is cheaper; 0: spot is cheaper however seldom it is up, 1: never.
    pub break_even: Option<f64>,
    /// Places to try, cheapest first.
    pub pools: Vec<Pool>,
    pub promise: Option<Promise>,
}

/// A place where such machines are sold as spot.
#[derive(Clone, Debug)]
pub struct Pool {
    pub offer: OfferId,
    pub availability: f64,
    pub basis: &'static str,
    /// How long ago its cloud said so; `None`: it said nothing, or nobody knows what time it is.
    pub basis_age: Option<Hours>,
    /// What the user's own launches saw there.
    pub own: Option<Seen>,
    /// How it was when they last saw it.
    pub last_seen: Option<LastSeen>,
}

/// How a run uses spot machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// It waits for them as long as it takes.
    Alone,
    /// It falls back to on-demand machines to end by then.
    Until { fallback: OfferId, end: Hours },
}

/// Ends that a plan with a fallback may promise where on-demand machines alone take at most so long.
pub fn ends(on_demand_alone: Hours) -> impl Iterator<Item = Hours> {
    ENDS.into_iter().map(Hours).filter(move |end| *end >= on_demand_alone).take(ENDS_TRIED)
}

/// Hours of a run on spot, and how they divide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    pub spot: f64,
    pub on_demand: f64,
    pub finish: f64,
}

impl Pool {
    /// So many machines at once, as things stand at the time of planning; `None`: unknown, and whatever is known is taken as new.
    pub fn new(world: World, id: OfferId, machines: u32, now: Option<Timestamp>) -> Self {
        let offer = world.market.offer(id);
        let risk = offer.risk.as_deref();
        let hours = |at: Timestamp| now.map_or(0.0, |now| now.duration_since(at).as_secs_f64() / 3600.0);
        let age = EvidenceAge {
            signals: hours(offer.signals_observed_at().unwrap_or(offer.quote.observed_at)),
            risk: risk.map_or(0.0, |risk| hours(risk.observed_at)),
        };
        let (availability, basis, basis_age) = assumed_availability(risk, &offer.signals(), age);
        let assumed = availability * gang_factor(machines);
        let availability = own::availability(world, offer, machines, assumed);
        let (basis, basis_age) = if availability == assumed { (basis, basis_age) } else { (OWN_LAUNCHES, None) };
        let basis_age = basis_age.filter(|_| now.is_some()).map(Hours);
        let last_seen = own::last_seen(world, offer, machines);
        Self { offer: id, availability, basis, basis_age, own: own::seen(world, offer), last_seen }
    }
}

impl SpotForecast {
    /// Before it is forecast: as if it waited for spot alone.
    pub fn new(pool: &Pool) -> Self {
        Self {
            fallback: None,
            finish_by: None,
            availability: pool.availability,
            basis: pool.basis,
            basis_age: pool.basis_age,
            own: pool.own,
            last_seen: pool.last_seen,
            forecast: None,
            break_even: None,
            pools: Vec::new(),
            promise: None,
        }
    }

    /// How it is used.
    pub fn way(&self) -> Way {
        match self.fallback.zip(self.finish_by) {
            Some((fallback, end)) => Way::Until { fallback, end },
            None => Way::Alone,
        }
    }

    /// The same, used in this way.
    #[must_use]
    pub fn used(&self, way: Way) -> Self {
        let (fallback, finish_by) = match way {
            Way::Alone => (None, None),
            Way::Until { fallback, end } => (Some(fallback), Some(end)),
        };
        Self { fallback, finish_by, ..self.clone() }
    }

    /// A guess from means alone, for spot machines without a fallback.
    pub fn guess(&self, model: &AvailabilityModel, run: &RunTime) -> Division {
        let (up, down) = (model.mean_spell(self.availability, true).0, model.mean_spell(self.availability, false).0);
        let share_up = up / (up + down);
        let useful = (-run.changeover.0 / up).exp();
        let spot = run.work.expected / useful;
        Division { spot: spot + run.start(), on_demand: 0.0, finish: spot / share_up + run.start() }
    }
}

/// One plan on spot, as a policy sees it. Rates are of all machines together.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    pub run: &'a RunTime,
    pub availability: f64,
    pub last_seen: Option<LastSeen>,
    pub spot: UsdPerHour,
    /// `None`: the plan waits for spot as long as it takes.
    pub on_demand: Option<UsdPerHour>,
    /// That it keeps by falling back.
    pub deadline: Option<Hours>,
}

/// All that a forecast of a job depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    work: Band,
    changeovers: (Hours, Hours),
    availability: f64,
    last_seen: Option<LastSeen>,
    spot: UsdPerHour,
    on_demand: Option<UsdPerHour>,
    deadline: Option<Hours>,
}

/// Which futures a forecast needs: the seed, the availability that they start from, how the pool was last seen (the two times of it), and their tick in
/// seconds, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    seed: u64,
    availability: u64,
    last_seen: Option<(bool, u64, u64)>,
    tick: u64,
}

impl Kind {
    fn new(seed: u64, availability: f64, last_seen: Option<LastSeen>, tick: f64) -> Self {
        let last_seen = last_seen.map(|last| (last.is_up, last.age_hours.to_bits(), last.hours_ago.to_bits()));
        Self { seed, availability: availability.to_bits(), last_seen, tick: tick.to_bits() }
    }

    fn watch(self) -> Watch {
        let last_seen = self.last_seen.map(|(is_up, age, ago)| LastSeen {
            is_up,
            age_hours: f64::from_bits(age),
            hours_ago: f64::from_bits(ago),
        });
        let attempts = Watch::attempts(1, f64::from_bits(self.tick), FIRST_PAUSE);
        attempts.assuming(f64::from_bits(self.availability)).last_seen(last_seen)
    }
}

/// Futures that were drawn, for every question of a process: those of one kind are the same whoever asks first. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Stock {
    by_kind: Arc<Mutex<BTreeMap<Kind, Arc<Futures>>>>,
}

impl Stock {
    fn futures(&self, model: &AvailabilityModel, kind: Kind) -> Arc<Futures> {
        let mut by_kind = self.by_kind.lock().unwrap_or_else(PoisonError::into_inner);
        let made = by_kind
            .entry(kind)
            .or_insert_with(|| Arc::new(Futures::new(model, kind.watch(), f64::from_bits(kind.tick), kind.seed)));
        Arc::clone(made)
    }
}

impl Job<'_> {
    fn asked(&self) -> Asked {
        Asked {
            work: self.run.work,
            changeovers: (self.run.changeover, self.run.worst_changeover),
            availability: self.availability,
            last_seen: self.last_seen,
            spot: self.spot,
            on_demand: self.on_demand,
            deadline: self.deadline,
        }
    }

    /// Falling back ends the run by the deadline, or little later; waiting for spot alone may take several times the work.
    fn horizon(&self) -> f64 {
        let work = self.run.work.high * 3600.0;
        match (self.on_demand, self.deadline) {
            (Some(_), Some(deadline)) => (deadline.0 * 3600.0).max(work),
            _ => 2.0 * work,
        }
    }

    fn tick(&self) -> f64 {
        if self.horizon() > TICK * TICKS { LONG_TICK } else { TICK }
    }

    fn draws(&self, drawn_ticks: usize) -> usize {
        let ticks = (self.horizon() / self.tick()).ceil() as usize;
        (drawn_ticks / ticks.max(1)).clamp(FEWEST_DRAWS, DRAWS)
    }

    fn limits(&self) -> Limits {
        let changeover = self.run.changeover.0 * 3600.0;
        Limits {
            work: self.run.work.expected * 3600.0,
            deadline: self.deadline.map_or(self.horizon(), |deadline| deadline.0 * 3600.0),
            tick: self.tick(),
            changeover,
            worst_changeover: self.run.worst_changeover.0 * 3600.0,
            on_demand: self.on_demand.unwrap_or(self.spot),
            pools: vec![PoolTerms {
                spot: self.spot,
                on_demand: None,
                switch_cost: Usd::ZERO,
                switch_changeover: changeover,
            }],
            budget: None,
        }
    }

    fn can_be_forecast(&self) -> Result<(), ReplayError> {
        if self.run.work.high <= MOST_WORK {
            return Ok(());
        }
        Err(ReplayError::TooLong((MOST_WORK * 3600.0 / TICK) as usize))
    }

    /// What the table of the policy is solved for; `None`: this plan needs none.
    fn terms(&self) -> Option<Terms> {
        let (on_demand, deadline) = (self.on_demand?, self.deadline?.0 * 3600.0);
        let nearest = |hours: f64| (hours * 3600.0 / SHARED_CHANGEOVER).round() * SHARED_CHANGEOVER;
        let ratio = on_demand.dollars() / self.spot.dollars();
        Some(Terms {
            horizon: REACHES.iter().map(|hours| hours * 3600.0).find(|reach| *reach >= deadline).unwrap_or(deadline),
            tick: self.tick(),
            changeover: nearest(self.run.changeover.0),
            worst_changeover: nearest(self.run.worst_changeover.0),
            price_ratio: SHARED_RATIO.powf((ratio.ln() / SHARED_RATIO.ln()).round()),
        })
    }
}

/// Forecasts of many plans over the same futures, so that they differ by what they are and not by luck.
pub struct Forecaster<'a> {
    model: &'a AvailabilityModel,
    seed: u64,
    stock: Stock,
    tables: Vec<(Terms, Arc<Table>)>,
    /// Of jobs that were asked for already: the recommended machines are forecast once more to compare the ways to buy them.
    made: Vec<(Asked, Forecast)>,
    /// Step times of the draws, in 90th percentiles: spread evenly, in an order of its own.
    deviations: Arc<[f64]>,
}

impl<'a> Forecaster<'a> {
    pub fn new(model: &'a AvailabilityModel, stock: &Stock, seed: u64) -> Self {
        // Multiples of the golden ratio fill the unit interval evenly, however many are taken.
        let golden = 0.618_033_988_749_895;
        let deviations = (0..DRAWS).map(|draw| deviations(((draw as f64 + 0.5) * golden).fract())).collect();
        Self { model, seed, stock: stock.clone(), tables: Vec::new(), made: Vec::new(), deviations }
    }

    pub fn forecast(&mut self, job: &Job) -> Result<Forecast, ReplayError> {
        if let Some(made) = self.made(job) {
            return Ok(made.clone());
        }
        self.solve(std::slice::from_ref(job));
        let forecast =
            self.outcomes(job, job.availability, job.last_seen, DRAWN_TICKS).map(|outcomes| summary(&outcomes))?;
        self.made.push((job.asked(), forecast.clone()));
        Ok(forecast)
    }

    fn made(&self, job: &Job) -> Option<&Forecast> {
        let asked = job.asked();
        self.made.iter().find(|(of, _)| *of == asked).map(|(_, forecast)| forecast)
    }

    /// Whether a table must be solved before it is forecast.
    pub fn lacks_table(&self, job: &Job) -> bool {
        let is_solved = |terms: &Terms| self.tables.iter().any(|(solved, _)| solved.cover(terms));
        self.made(job).is_none() && job.terms().is_some_and(|terms| !is_solved(&terms))
    }

    /// The share of time up at which the job costs on average what `on_demand` does.
    pub fn break_even(&mut self, job: &Job, on_demand: Usd) -> Option<f64> {
        self.solve(std::slice::from_ref(job));
        let mut more = Vec::new();
        for at in BREAK_EVEN_AT {
            let outcomes = self.outcomes(job, at, None, BREAK_EVEN_DRAWN_TICKS).ok()?;
            more.push(summary(&outcomes).cost_usd.expected.dollars() - on_demand.dollars());
        }
        let Some(last_dearer) = more.iter().rposition(|more| *more > 0.0) else { return Some(0.0) };
        let Some((next, at)) = more.get(last_dearer + 1).zip(BREAK_EVEN_AT.get(last_dearer + 1)) else {
            return Some(1.0);
        };
        let from = BREAK_EVEN_AT[last_dearer];
        Some(from + (at - from) * more[last_dearer] / (more[last_dearer] - next))
    }

    /// Solves the tables that these jobs need and that are not solved yet, at the same time.
    pub fn solve(&mut self, jobs: &[Job]) {
        let mut missing: Vec<Terms> = Vec::new();
        for terms in jobs.iter().filter(|job| job.can_be_forecast().is_ok()).filter_map(Job::terms) {
            if !missing.iter().chain(self.tables.iter().map(|(solved, _)| solved)).any(|solved| solved.cover(&terms)) {
                missing.retain(|shorter| !terms.cover(shorter));
                missing.push(terms);
            }
        }
        let model = self.model;
        self.tables.par_extend(missing.into_par_iter().map(|terms| (terms, Arc::new(Table::new(model, &terms)))));
    }

    fn policy(&self, job: &Job) -> Policy {
        let table = job.terms().and_then(|terms| self.tables.iter().find(|(solved, _)| solved.cover(&terms)));
        table.map_or(Policy::SpotOnly, |(_, table)| Policy::SemiMarkov(Tables::of_one(job.spot, table.clone()).into()))
    }

    /// What no forecast of the job undercuts at this value of an hour. No table is solved for it.
    pub fn least(&mut self, job: &Job, value_of_hour: f64) -> Result<Least, ReplayError> {
        job.can_be_forecast()?;
        let (limits, deviations) = (job.limits(), self.deviations.clone());
        let work = |draw: usize| work_of(job, &deviations, draw);
        let fallback = job.on_demand.map_or(Fallback::None, |_| Fallback::OnDemand);
        self.futures(job, job.availability, job.last_seen).least(
            &limits,
            fallback,
            job.draws(DRAWN_TICKS),
            work,
            value_of_hour,
        )
    }

    fn futures(&self, job: &Job, availability: f64, last_seen: Option<LastSeen>) -> Arc<Futures> {
        self.stock.futures(self.model, Kind::new(self.seed, availability, last_seen, job.tick()))
    }

    fn outcomes(
        &mut self,
        job: &Job,
        availability: f64,
        last_seen: Option<LastSeen>,
        drawn_ticks: usize,
    ) -> Result<Vec<Outcome>, ReplayError> {
        job.can_be_forecast()?;
        let policy = self.policy(job);
        let (limits, tick, deviations) = (job.limits(), job.tick(), self.deviations.clone());
        let work = |draw: usize| work_of(job, &deviations, draw);
        let outcomes =
            self.futures(job, availability, last_seen).run(&policy, &limits, job.draws(drawn_ticks), work)?;
        // A probe sees nothing finer than a tick, so half of one is the least wait that it can tell.
        let least_wait = tick / 2.0 / 3600.0;
        let exact = |outcome: Outcome| Outcome {
            wait_hours: outcome.wait_hours.max(least_wait),
            ..outcome.to_the_second(&limits)
        };
        Ok(outcomes.into_iter().map(exact).collect())
    }
}

/// Of one draw. Seconds.
fn work_of(job: &Job, deviations: &[f64], draw: usize) -> f64 {
    point(job.run.work, deviations[draw % DRAWS]) * 3600.0
}

/// What the run costs at most, as far as the development traces tell: all of it on-demand, with ten changeovers.
pub fn ceiling(run: &RunTime, on_demand: UsdPerHour) -> Option<Usd> {
    on_demand.for_hours(1, run.work.high + CEILING_CHANGEOVERS * run.changeover.0)
}

/// What a share of the draws of a forecast does not exceed.
pub fn percentile<T: Copy>(sorted: &[T], share: f64) -> T {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    *sorted.get(rank.max(1) - 1).or(sorted.last()).expect("a forecast has `FEWEST_DRAWS` draws at least")
}
