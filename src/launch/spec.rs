//! `RunSpec`: everything that a launch agreed on, as the journal and the run's own store keep it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::controller::events::{Rentable, Terms};
use crate::job::Job;
use crate::names::Launch;
use crate::ports::block::BlockOrder;
use crate::ports::machine::{Access, Pool, WarmMachine};
use gpuplan_runstore::lease::ENDING;
use gpuplan_runstore::{Expected, Side, SidePrice};
use gpuplan_spot::AvailabilityModel;
use gpuplan_spot::policy::semi_markov::Tables;
use gpuplan_spot::policy::{Limits, Policy, PoolTerms};
use gpuplan_units::billing::{minimum_billed_seconds, read_minimum};
use gpuplan_units::{MINIMUM_BILLED_SECONDS, Usd, UsdPerHour};

pub const VERSION: u32 = 1;
/// Between two decisions of the policy: the probes that its model is fitted on. Seconds.
pub const TICK: f64 = 600.0;
/// A call without a clear answer may create a machine for a minute, which lists of EC2 may miss for another (EC2 API reference,
/// "Eventual consistency"; the minutes are judgement). Seconds.
pub const SETTLES: f64 = 120.0;
/// Without a budget, a run may cost so many times what nine of ten such runs take. Judgement.
pub const LIVES: f64 = 2.0;
/// As disks are charged (730 hours: AWS pricing of EBS).
const HOURS_A_MONTH: f64 = 730.0;
/// For all machines of a gang to be created. Judgement. Seconds.
const GANG_LIMIT: f64 = 900.0;

/// A place to rent at. The rate is of one machine, as the plan knew it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    pub pool: Pool,
    pub rate_usd_per_hour: UsdPerHour,
    /// Charged at least for a machine that was started: a minute, or the whole of a capacity block.
    #[serde(default = "minimum_billed_seconds", alias = "billing", deserialize_with = "read_minimum")]
    pub minimum_seconds: u32,
    /// More than this is not paid for it. Spot machines of AWS alone take such a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_usd_per_hour: Option<UsdPerHour>,
    /// Of a pool without a zone: the zones whose price is known, and no others are taken. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
}

impl Offered {
    /// At a price that nobody has bid for.
    pub fn new(pool: Pool, rate_usd_per_hour: UsdPerHour) -> Self {
        let minimum_seconds = MINIMUM_BILLED_SECONDS;
        Self { pool, rate_usd_per_hour, minimum_seconds, most_usd_per_hour: None, zones: Vec::new() }
    }

    /// As the controller takes it, beside nothing else that costs money.
    pub fn choice(&self) -> Rentable {
        let (most, start) = (self.most(), Usd::ZERO);
        let (rate, minimum_seconds) = (self.rate_usd_per_hour, self.minimum_seconds);
        Rentable { pool: self.pool.clone(), rate, minimum_seconds, most, start }
    }

    /// What it may cost at most, an hour.
    pub fn most(&self) -> UsdPerHour {
        self.most_usd_per_hour.unwrap_or(self.rate_usd_per_hour)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    pub version: u32,
    pub run: String,
    pub started_at: Timestamp,
    /// Who rents: `fake` stands in for every cloud.
    pub stand_in: Option<String>,
    pub nodes: u32,
    /// Cheapest first.
    pub spot: Vec<Offered>,
    pub on_demand: Vec<Offered>,
    pub work_hours: f64,
    /// From the start; `None`: as long as it takes.
    pub deadline_hours: Option<f64>,
    pub changeover_hours: f64,
    pub worst_changeover_hours: f64,
    pub budget_usd: Option<Usd>,
    pub lifetime_hours: f64,
    /// A run that says nothing for so long is looked after.
    pub silence_seconds: f64,
    /// After so long a call without a clear answer has created a machine that is listed, or none.
    #[serde(default = "settles")]
    pub settles_seconds: f64,
    pub expected_cost_usd: Usd,
    /// Optimizer steps of the whole run.
    pub steps: f64,
    pub store: String,
    pub job: Job,
    /// The cloud's own name of a machine image; `None`: the cloud's current one with GPU drivers.
    pub image: Option<String>,
    /// Root disk of a machine. GiB.
    pub disk_gib: u32,
    /// Tags that the user wants on everything rented.
    pub tags: Vec<(String, String)>,
    /// A group of the cloud's own starts its machines, until somebody leads the run.
    #[serde(default)]
    pub is_kept: bool,
    /// Once it is completed its machine waits so long for the next run. Seconds of that machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_warm_seconds: Option<f64>,
    /// It takes this one over before it rents another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<WarmMachine>,
    /// The run that its command leads, and what else its machine may do for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads: Option<String>,
    /// What its machines stand on was paid for up front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockOrder>,
    /// What the plan said, for the ledger and for forecast against actual; `None`: it was launched before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
}

fn settles() -> f64 {
    SETTLES
}

/// Why a text is no specification of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("the specification of the run cannot be read: {0}")]
    Malformed(String),
    #[error("the specification of the run was written by another version ({0})")]
    Version(u32),
    #[error("the specification of the run lists no offers")]
    Nowhere,
}

impl RunSpec {
    pub fn read(text: &str) -> Result<Self, SpecError> {
        let read: Self = serde_json::from_str(text).map_err(|error| SpecError::Malformed(error.to_string()))?;
        match read.version {
            VERSION if read.spot.is_empty() && read.on_demand.is_empty() => Err(SpecError::Nowhere),
            VERSION => Ok(read),
            other => Err(SpecError::Version(other)),
        }
    }

    pub fn write(&self) -> Result<String, SpecError> {
        serde_json::to_string(self).map_err(|error| SpecError::Malformed(error.to_string()))
    }

    /// What its machines read and write.
    pub fn access(&self) -> Access {
        Access {
            run: self.run.clone(),
            store: self.store.clone(),
            secrets: self
                .job
                .secrets
                .iter()
                .map(|secret| secret.name.clone())
                .chain(self.job.container_login.clone())
                .collect(),
            runs_within: self.job.sweep.as_ref().map(|sweep| sweep.runs),
            is_shared: self.keep_warm_seconds.is_some(),
        }
    }

    /// Every place to rent at, spot first.
    pub fn places(&self) -> impl Iterator<Item = &Offered> {
        self.spot.iter().chain(&self.on_demand)
    }

    /// Clouds that rent its machines, each once.
    pub fn clouds(&self) -> BTreeSet<&str> {
        self.places().map(|offered| self.rented_from(&offered.pool.cloud)).collect()
    }

    /// Who rents machines of this cloud: itself, unless another stands in for all.
    pub fn rented_from<'a>(&'a self, cloud: &'a str) -> &'a str {
        self.stand_in.as_deref().unwrap_or(cloud)
    }

    /// What the run may cost at most, over all its machines: the budget, or twice the hours that nine of ten such runs take, on the
    /// dearest machines that it may rent. The leases of its machines never add up to more. `None`: more than can be counted.
    pub fn worst_case(&self) -> Option<Usd> {
        match &self.block {
            Some(block) => Some(block.offer.upfront_usd),
            None => self.bound(),
        }
    }

    /// What leases are granted of; `None`: its machines stand on what was paid up front.
    fn bound(&self) -> Option<Usd> {
        if self.budget_usd.is_some() || self.block.is_some() {
            return self.budget_usd;
        }
        let choices = || self.places().map(|offered| self.choice(offered));
        let hours = self.expected.as_ref().map_or(0.0, |expected| LIVES * expected.hours.p90).max(self.lifetime_hours);
        let machines = f64::from(self.nodes);
        let starts = self.expected.as_ref().map_or(0.0, |expected| LIVES * expected.interruptions).ceil() + LIVES;
        let once = choices().map(|choice| choice.start).max()?.dollars() * starts * machines;
        // A machine that has ended itself is paid for until it is gone.
        let whole =
            choices().map(|choice| choice.most).max()?.dollars() * (hours + starts * ENDING / 3600.0) * machines;
        Usd::from_dollars(whole + once)
    }

    /// A place as the controller takes it: what a machine there costs with its disk, and the data that it fetches from elsewhere.
    pub fn choice(&self, offered: &Offered) -> Rentable {
        let side = |of: Side| {
            let beside = self.expected.iter().flat_map(|expected| &expected.beside);
            // A disk is paid where it is; data only where it is not.
            let is_there =
                |price: &&SidePrice| price.is_in(&offered.pool.cloud, &offered.pool.region) == (of == Side::Disk);
            beside
                .filter(|price| price.of == of)
                .filter(is_there)
                .map(|price| price.usd.dollars() / price.unit_bytes)
                .fold(0.0, f64::max)
        };
        let disk = f64::from(self.disk_gib) * f64::from(1_u32 << 30) * side(Side::Disk) / HOURS_A_MONTH;
        let fetched = self.expected.as_ref().and_then(|expected| expected.fetched_bytes).unwrap_or(0.0);
        let an_hour = offered.most().nanos().saturating_add((disk * 1e9).ceil() as i64);
        Rentable {
            pool: offered.pool.clone(),
            rate: offered.rate_usd_per_hour,
            minimum_seconds: offered.minimum_seconds,
            most: UsdPerHour::from_nanos(an_hour),
            start: Usd::from_dollars(fetched * side(Side::DataOut)).unwrap_or_default(),
        }
    }

    /// The one that was forecast. Its tables take a part of a second, which nobody should wait for after saying yes.
    pub fn policy(&self, model: &AvailabilityModel) -> Policy {
        match (self.spot.is_empty(), self.deadline_hours.filter(|_| !self.on_demand.is_empty())) {
            (true, _) => Policy::OnDemand,
            (false, None) => Policy::SpotOnly,
            (false, Some(_)) => {
                let limits = Limits { budget: None, ..self.limits() };
                let moving: Vec<UsdPerHour> = self.spot.iter().flat_map(|spot| self.moves_over(spot)).collect();
                Policy::SemiMarkov(Arc::new(match moving.as_slice() {
                    [] => Tables::new(model, &limits),
                    _ => Tables::moving(model, &limits, limits.pools.iter().map(|pool| pool.spot).chain(moving)),
                }))
            }
        }
    }

    /// Of all machines, an hour.
    fn of_all(&self, rate: UsdPerHour) -> UsdPerHour {
        UsdPerHour::from_nanos(rate.nanos().saturating_mul(i64::from(self.nodes)))
    }

    /// Rates of all machines over which the price may move while the run is led: where a highest price is asked for, up to that, and down to
    /// two thirds of the planned one (within 48 hours it moved by 18 % at most, docs/risk.md). No others are paid, or they are treated as the nearest.
    fn moves_over(&self, spot: &Offered) -> Vec<UsdPerHour> {
        let Some(most) = spot.most_usd_per_hour else { return Vec::new() };
        let least = spot.rate_usd_per_hour.nanos() / 3 * 2;
        let steps = std::iter::successors(Some(most.nanos()), |rate| Some(rate / 11 * 10));
        steps.take_while(|rate| *rate > least.max(0)).map(|rate| self.of_all(UsdPerHour::from_nanos(rate))).collect()
    }

    fn limits(&self) -> Limits {
        let all = |offered: &Offered| self.of_all(offered.rate_usd_per_hour);
        let changeover = self.changeover_hours * 3600.0;
        // A start in another pool fetches its data there: what that costs is weighed before a move.
        let pools = self.spot.iter().map(|spot| PoolTerms {
            spot: all(spot),
            on_demand: None,
            switch_cost: self.choice(spot).start.share(i128::from(self.nodes), 1),
            switch_changeover: changeover,
        });
        let pools: Vec<PoolTerms> = pools.collect();
        // A run without any place is refused as it is read.
        let dearest = pools.iter().map(|pool| pool.spot).max().unwrap_or_default();
        Limits {
            work: self.work_hours * 3600.0,
            deadline: self.deadline_hours.unwrap_or(self.lifetime_hours) * 3600.0,
            tick: TICK,
            changeover,
            worst_changeover: self.worst_changeover_hours * 3600.0,
            on_demand: self.on_demand.first().map_or(dearest, all),
            pools,
            budget: self.bound(),
        }
    }

    /// As the controller takes them.
    pub fn terms(&self, policy: Policy, lead: u64) -> Terms {
        Terms {
            launch: Launch { lead, ..self.launch() },
            nodes: self.nodes,
            spot: self.spot.iter().map(|offered| self.choice(offered)).collect(),
            on_demand: self.on_demand.iter().map(|offered| self.choice(offered)).collect(),
            bound: self.bound(),
            limits: self.limits(),
            policy,
            first: self.takes.as_ref().map(|warm| warm.pool.clone()),
            lifetime: self.lifetime_hours * 3600.0,
            // Where time passes faster, calls take as long as ever; a silence is measured by it.
            gang_limit: GANG_LIMIT.max(self.silence_seconds),
            silence: self.silence_seconds,
            settles: self.settles_seconds,
        }
    }

    /// This run among all of its name, led by nobody.
    pub fn launch(&self) -> Launch {
        Launch { run: self.run.clone(), at: self.started_at.as_nanosecond(), lead: 0 }
    }
}
