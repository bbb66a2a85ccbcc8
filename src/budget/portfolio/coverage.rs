//! What a commitment covers of a line of a run, what it saves, and when it loses.

use schemars::JsonSchema;
use serde::Serialize;

use crate::charge::Item;
use crate::portfolio::Portfolio;
use crate::portfolio::calendar::Month;
use crate::portfolio::commitment::{Commitment, CommitmentKind, FREE_HOUR};
use crate::portfolio::planned::{MACHINE_HOUR, PhaseCost, PhaseCostLine};
use gpuplan_units::Usd;

/// What a commitment has to do with one line of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// What is paid of the commitment for one machine-hour.
    pub unit_price: Usd,
    /// What one machine-hour takes of its capacity.
    pub capacity: Usd,
    /// Most of the line's machines at a time that it covers.
    pub share: f64,
}

/// What a commitment covered, all months together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Covered {
    /// Of what is paid for it.
    pub used: Usd,
    /// What that would have cost on demand.
    pub on_demand: Usd,
}

/// How a commitment fares in the portfolio.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CommitmentFigures {
    pub name: String,
    /// `reservation` or `savings-plan`.
    pub kind: &'static str,
    pub paid_usd: Usd,
    pub used_usd: Usd,
    /// What the hours it covers would cost on demand, less what is paid; negative: it loses.
    pub saved_usd: Usd,
    /// Share of what is paid that has to be used for it to pay; unknown while nothing in the portfolio could use it.
    pub break_even_use: Option<f64>,
    pub expected_use: f64,
    /// Hours of a month that its machines must be used for it to pay.
    pub break_even_hours_per_month: Option<f64>,
    /// In this share of the draws it costs more than it saves.
    pub chance_of_loss: f64,
    pub assumption: &'static str,
}

/// What is assumed of every commitment; its name goes before.
pub const ASSUMPTION: &str =
    "covers on-demand machine time alone, runs of a month one after another, in the order of the file";

impl Commitment {
    /// `None`: the line is not for it.
    pub fn coverage(&self, once: &PhaseCost, line: &PhaseCostLine) -> Option<Coverage> {
        let is_time = matches!(line.item, Item::Machines | Item::LostWork) && line.unit == MACHINE_HOUR;
        let is_here = self.region.is_none() || self.region == once.machines.region;
        if once.machines.purchase != "on-demand"
            || !is_time
            || once.machines.cloud != self.cloud
            || !is_here
            || line.unit_price <= Usd::ZERO
        {
            return None;
        }
        let instance = once.machines.instance_type.as_deref()?;
        match &self.kind {
            CommitmentKind::Reservation { instance_type, nodes } => (instance_type == instance).then(|| {
                let unit_price = self.usd_per_hour.times(1);
                Coverage {
                    unit_price,
                    capacity: if self.is_free() { FREE_HOUR } else { unit_price },
                    share: (f64::from(*nodes) / f64::from(once.machines.nodes)).min(1.0),
                }
            }),
            CommitmentKind::SavingsPlan { machines, discount } => {
                let is_meant = machines.is_empty()
                    || machines.iter().any(|start| instance.starts_with(start.trim_end_matches('*')));
                let unit_price =
                    Usd::from_dollars(line.unit_price.dollars() * (1.0 - discount)).filter(|price| *price > Usd::ZERO);
                let most = |unit: Usd| {
                    (self.usd_per_hour.dollars() / (unit.dollars() * f64::from(once.machines.nodes))).min(1.0)
                };
                let coverage = |unit: Usd| Coverage { unit_price: unit, capacity: unit, share: most(unit) };
                unit_price.filter(|_| is_meant).map(coverage)
            }
        }
    }

    /// `chance_of_loss` is the share of draws in which what it covers costs less on demand than what is paid.
    pub fn figures(&self, portfolio: &Portfolio, covered: Covered, chance_of_loss: f64) -> CommitmentFigures {
        let Covered { used, on_demand } = covered;
        let months: Vec<Month> = portfolio.months_of(self).collect();
        let paid: Usd = months.iter().map(|month| self.in_month(*month)).sum();
        // A dollar of it that is used over what it saves.
        let break_even_use = match &self.kind {
            CommitmentKind::SavingsPlan { discount, .. } => Some(1.0 - discount),
            CommitmentKind::Reservation { .. } => (on_demand > Usd::ZERO).then(|| used.dollars() / on_demand.dollars()),
        };
        let hours = months.iter().map(|month| month.hours()).sum::<f64>() / months.len().max(1) as f64;
        CommitmentFigures {
            name: self.name.clone(),
            kind: self.kind_word(),
            paid_usd: paid,
            used_usd: used,
            saved_usd: on_demand - paid,
            break_even_use,
            expected_use: if paid > Usd::ZERO { used.dollars() / paid.dollars() } else { 0.0 },
            break_even_hours_per_month: break_even_use.map(|share| share * hours),
            chance_of_loss,
            assumption: ASSUMPTION,
        }
    }

    /// Of its machines, as the phases name them; a savings plan is for any.
    pub fn gpu<'a>(&self, mut once: impl Iterator<Item = &'a PhaseCost>) -> Option<&'a str> {
        let CommitmentKind::Reservation { instance_type, .. } = &self.kind else { return None };
        once.find(|once| {
            once.machines.cloud == self.cloud && once.machines.instance_type.as_ref() == Some(instance_type)
        })?
        .machines
        .gpu
        .as_deref()
    }
}
