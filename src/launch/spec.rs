//! `RunSpec`: everything that a launch agreed on, as the journal and the run's own store keep it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::controller::events::{Rentable, Terms};
use crate::job::Job;
use crate::ports::block::BlockOrder;
use crate::ports::machine::Pool;
use gpuplan_runstore::Expected;
use gpuplan_spot::AvailabilityModel;
use gpuplan_spot::policy::semi_markov::Tables;
use gpuplan_spot::policy::{Limits, Policy, PoolTerms};
use gpuplan_units::billing::{minimum_billed_seconds, read_minimum};
use gpuplan_units::{MINIMUM_BILLED_SECONDS, Usd, UsdPerHour};

pub const VERSION: u32 = 1;
/// Between two decisions of the policy: the probes that its model is fitted on. Seconds.
const TICK: f64 = 600.0;
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

    /// As the controller takes it.
    pub fn choice(&self) -> Rentable {
        Rentable { pool: self.pool.clone(), rate: self.rate_usd_per_hour, minimum_seconds: self.minimum_seconds }
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
    /// What its machines stand on was paid for up front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockOrder>,
    /// What the plan said, for the ledger and for forecast against actual; `None`: it was launched before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
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

    /// What the most that this run may cost is: the budget, or every machine for its whole life.
    pub fn worst_case(&self) -> Option<Usd> {
        if let Some(block) = &self.block {
            return Some(block.offer.upfront_usd);
        }
        let dearest = self.places().map(Offered::most).max()?;
        let whole = dearest.for_hours(self.nodes, self.lifetime_hours);
        match (self.budget_usd, whole) {
            (Some(budget), Some(whole)) => Some(budget.min(whole)),
            (budget, whole) => budget.or(whole),
        }
    }

    /// The one that was forecast. Its tables take a part of a second, which nobody should wait for after saying yes.
    pub fn policy(&self, model: &AvailabilityModel) -> Policy {
        match (self.spot.is_empty(), self.deadline_hours.filter(|_| !self.on_demand.is_empty())) {
            (true, _) => Policy::OnDemand,
            (false, None) => Policy::SpotOnly,
            (false, Some(_)) => {
                Policy::SemiMarkov(Arc::new(Tables::new(model, &Limits { budget: None, ..self.limits() })))
            }
        }
    }

    fn limits(&self) -> Limits {
        let all = |offered: &Offered| {
            UsdPerHour::from_nanos(offered.rate_usd_per_hour.nanos().saturating_mul(i64::from(self.nodes)))
        };
        let changeover = self.changeover_hours * 3600.0;
        let pools = self.spot.iter().map(|spot| PoolTerms {
            spot: all(spot),
            on_demand: None,
            switch_cost: Usd::ZERO,
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
            budget: self.budget_usd,
        }
    }

    /// As the controller takes them.
    pub fn terms(&self, policy: Policy) -> Terms {
        Terms {
            run: self.run.clone(),
            nodes: self.nodes,
            spot: self.spot.iter().map(Offered::choice).collect(),
            on_demand: self.on_demand.iter().map(Offered::choice).collect(),
            limits: self.limits(),
            policy,
            lifetime: self.lifetime_hours * 3600.0,
            // Where time passes faster, calls take as long as ever; a silence is measured by it.
            gang_limit: GANG_LIMIT.max(self.silence_seconds),
            silence: self.silence_seconds,
        }
    }
}
