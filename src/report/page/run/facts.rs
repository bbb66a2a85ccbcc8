//! `RunFacts`: what a report on a run is made of.

use jiff::Timestamp;

use gpuplan_budget::Charge;
use gpuplan_units::{Usd, UsdPerHour};

/// A run as the journal of launches knows it, with its charges as its store and the ledger have them.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    pub name: String,
    /// In the word of `status`.
    pub state: String,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub plan: RunPlan,
    /// Share of the work that is safe.
    pub done: f64,
    pub interruptions: u32,
    pub store: String,
    pub machines: Vec<Rented>,
    /// Disks, storage, data from elsewhere.
    pub beside: Vec<OtherCharge>,
    /// Why some of that is not here.
    pub beside_missing: Option<String>,
    /// From the start until now, or to the end of the run.
    pub hours: f64,
    pub events: Vec<(Timestamp, String)>,
}

/// What the plan of a run expected, and the limits that it was launched with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunPlan {
    /// Expected cost of the whole run.
    pub cost: Usd,
    /// Expected hours from the request to the end; `None`: an older version launched it.
    pub hours: Option<f64>,
    pub budget: Option<Usd>,
    /// From the start.
    pub deadline_hours: Option<f64>,
}

/// A machine that was paid for. Hours since the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Rented {
    pub id: String,
    pub epoch: u64,
    pub node: u32,
    pub place: String,
    pub instance_type: String,
    pub is_on_spot: bool,
    pub rate: UsdPerHour,
    pub from: f64,
    /// `None`: it costs money still.
    pub until: Option<f64>,
    pub cost: Usd,
    /// How its cost divides into work and waste; empty while it costs money still, and where nobody said.
    pub charges: Vec<Charge>,
}

/// A charge beside the machines, with its time in hours since the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherCharge {
    pub charge: Charge,
    pub from: f64,
    pub until: f64,
    /// It grows still.
    pub is_open: bool,
}

/// What was spent by a moment of what is paid evenly over its time. Dollars.
pub fn evenly(cost: Usd, from: f64, until: f64, moment: f64) -> f64 {
    let (length, past) = (until - from, moment - from);
    match past {
        past if past < 0.0 => 0.0,
        past if past >= length => cost.dollars(),
        past => cost.dollars() * past / length,
    }
}

impl Rented {
    pub fn end(&self, hours: f64) -> f64 {
        self.until.unwrap_or(hours).max(self.from)
    }

    pub fn terms(&self) -> &'static str {
        if self.is_on_spot { "spot" } else { "on-demand" }
    }

    /// What it had cost at a moment, evenly over its time.
    pub fn cost_by(&self, moment: f64, hours: f64) -> f64 {
        evenly(self.cost, self.from, self.end(hours), moment)
    }
}

impl RunFacts {
    pub fn spent(&self) -> Usd {
        self.machines.iter().map(|machine| machine.cost).sum::<Usd>() + self.paid_beside()
    }

    pub fn paid_beside(&self) -> Usd {
        self.beside.iter().map(|one| one.charge.costs.contracted).sum()
    }

    pub fn spent_by(&self, moment: f64) -> f64 {
        let machines: f64 = self.machines.iter().map(|machine| machine.cost_by(moment, self.hours)).sum();
        let beside: f64 =
            self.beside.iter().map(|one| evenly(one.charge.costs.contracted, one.from, one.until, moment)).sum();
        machines + beside
    }
}
