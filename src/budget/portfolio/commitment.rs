//! `Commitment`: a reservation or a savings plan that several runs share, what it covers, saves, and when it loses.

use jiff::Timestamp;
use serde::Serialize;

use crate::Item;
use crate::portfolio::Portfolio;
use crate::portfolio::calendar::Month;
use crate::portfolio::planned::{MACHINE_HOUR, Once, OnceLine};
use gpuplan_units::{Usd, UsdPerHour};

/// Paid for every hour of its months, used or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Commitment {
    pub name: String,
    pub kind: Kind,
    pub cloud: String,
    /// `None`: everywhere.
    pub region: Option<String>,
    /// Of one machine of a reservation, or what a savings plan obliges to spend.
    pub usd_per_hour: UsdPerHour,
    pub start: Month,
    pub months: u32,
    pub source: String,
    pub as_of: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Reservation {
        instance_type: String,
        nodes: u32,
    },
    /// Off the on-demand price of machines whose names begin so; none: of all.
    SavingsPlan {
        machines: Vec<String>,
        discount: f64,
    },
}

/// What a commitment has to do with one line of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cover {
    /// What one machine-hour takes of the commitment.
    pub unit_price: Usd,
    /// Most of the line's machines at a time that it covers.
    pub share: f64,
}

/// How a commitment fares in the portfolio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommitmentFigures {
    pub name: String,
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
    /// In this share of the draws it costs more than it spares.
    pub chance_of_loss: f64,
    pub assumption: &'static str,
}

pub const ASSUMPTION: &str =
    "covers on-demand machine time alone, runs of a month one after another, in the order of the file";

impl Commitment {
    pub fn is_in(&self, month: Month) -> bool {
        (0..i64::from(self.months)).contains(&i64::from(month.since(self.start)))
    }

    /// Obliged to in an hour.
    fn each_hour(&self) -> Usd {
        match self.kind {
            Kind::Reservation { nodes, .. } => self.usd_per_hour.times(nodes),
            Kind::SavingsPlan { .. } => self.usd_per_hour.times(1),
        }
    }

    /// Obliged to in a month.
    pub fn in_month(&self, month: Month) -> Usd {
        // Months have whole hours.
        Usd::from_nanos(self.each_hour().nanos() * month.hours() as i128)
    }

    pub fn word(&self) -> &'static str {
        match self.kind {
            Kind::Reservation { .. } => "reservation",
            Kind::SavingsPlan { .. } => "savings-plan",
        }
    }

    /// `None`: the line is not for it.
    pub fn cover(&self, once: &Once, line: &OnceLine) -> Option<Cover> {
        let is_time = matches!(line.item, Item::Machines | Item::LostWork) && line.unit == MACHINE_HOUR;
        let is_here = self.region.is_none() || self.region == once.region;
        if once.purchase != "on-demand"
            || !is_time
            || once.cloud != self.cloud
            || !is_here
            || line.unit_price <= Usd::ZERO
        {
            return None;
        }
        let instance = once.instance_type.as_deref()?;
        match &self.kind {
            Kind::Reservation { instance_type, nodes } => (instance_type == instance).then(|| Cover {
                unit_price: self.usd_per_hour.times(1),
                share: (f64::from(*nodes) / f64::from(once.nodes)).min(1.0),
            }),
            Kind::SavingsPlan { machines, discount } => {
                let is_meant = machines.is_empty()
                    || machines.iter().any(|start| instance.starts_with(start.trim_end_matches('*')));
                let unit_price =
                    Usd::from_dollars(line.unit_price.dollars() * (1.0 - discount)).filter(|price| *price > Usd::ZERO);
                let most =
                    |unit: Usd| (self.usd_per_hour.dollars() / (unit.dollars() * f64::from(once.nodes))).min(1.0);
                unit_price.filter(|_| is_meant).map(|unit| Cover { unit_price: unit, share: most(unit) })
            }
        }
    }

    /// `used` of it replaces `spared` on demand; `loses` is the share of draws in which that is less than what is paid.
    pub fn figures(&self, portfolio: &Portfolio, used: Usd, spared: Usd, loses: f64) -> CommitmentFigures {
        let months: Vec<Month> = self.within(portfolio).collect();
        let paid: Usd = months.iter().map(|month| self.in_month(*month)).sum();
        let share = |part: Usd| if paid > Usd::ZERO { part.dollars() / paid.dollars() } else { 0.0 };
        // A dollar of it that is used over what it spares.
        let break_even_use = match &self.kind {
            Kind::SavingsPlan { discount, .. } => Some(1.0 - discount),
            Kind::Reservation { .. } => (spared > Usd::ZERO).then(|| used.dollars() / spared.dollars()),
        };
        let hours = months.iter().map(|month| month.hours()).sum::<f64>() / months.len().max(1) as f64;
        CommitmentFigures {
            name: self.name.clone(),
            kind: self.word(),
            paid_usd: paid,
            used_usd: used,
            saved_usd: spared - paid,
            break_even_use,
            expected_use: share(used),
            break_even_hours_per_month: break_even_use.map(|share| share * hours),
            chance_of_loss: loses,
            assumption: ASSUMPTION,
        }
    }

    /// Of its machines, as the phases name them; a savings plan is for any.
    pub fn gpu<'a>(&self, mut once: impl Iterator<Item = &'a Once>) -> Option<&'a str> {
        let Kind::Reservation { instance_type, .. } = &self.kind else { return None };
        once.find(|once| once.cloud == self.cloud && once.instance_type.as_ref() == Some(instance_type))?.gpu.as_deref()
    }

    /// Its months that lie in the portfolio.
    pub fn within<'a>(&'a self, portfolio: &'a Portfolio) -> impl Iterator<Item = Month> + 'a {
        (0..portfolio.months).map(|ahead| portfolio.start.ahead(ahead)).filter(|month| self.is_in(*month))
    }
}
