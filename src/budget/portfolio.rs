//! `Portfolio`: many runs as a person states them: phases, repeats, teams, months, commitments, currency and tax.

pub mod assignment;
pub mod budget;
pub mod calendar;
pub mod commitment;
mod coverage;
pub mod file;
pub mod footprint;
pub mod launched;
pub mod line_writer;
pub mod lines;
mod phase_of_plan;
pub mod planned;
pub mod pool_lines;
pub mod rules;
pub mod savings;
pub mod shape;
pub mod shared;
pub mod simulation;
pub mod unit_costs;
pub mod verdict;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::exchange::Exchange;
use crate::portfolio::calendar::Month;
use crate::portfolio::commitment::Commitment;
use crate::portfolio::rules::{BudgetRule, SpentSoFar};
use crate::portfolio::shared::SharedCost;
use gpuplan_market::Capacity;
use gpuplan_market::capacity::pool::Pool;
use gpuplan_units::{Hours, Usd, UsdPerHour};
use gpuplan_workload::file::LimitsSection;

/// What is asked, complete and checked.
#[derive(Clone, Debug)]
pub struct Portfolio {
    pub name: String,
    /// The currency in which it is stated and shown; every amount here is in dollars. `None`: dollars.
    pub exchange: Option<Exchange>,
    pub tax: Tax,
    /// Of everything.
    pub budget: Option<Usd>,
    pub rules: Vec<BudgetRule>,
    /// Before the months that are forecast; nothing unless what was spent is asked for.
    pub spent: SpentSoFar,
    pub start: Month,
    pub months: u32,
    pub teams: Vec<Team>,
    pub phases: Vec<Phase>,
    pub commitments: Vec<Commitment>,
    /// `[[own]]` and `[[committed]]` of the file, as in `capacity.toml`.
    pub capacity: Capacity,
    /// Machines of the capacity, with those of `capacity.toml`.
    pub pools: Vec<Pool>,
    /// Who pays for what bills have that is of no run.
    pub shared: Vec<SharedCost>,
    /// Share by which the data may be larger or smaller.
    pub data_spread: Spread,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Team {
    pub name: String,
    pub budget: Option<Usd>,
}

/// Parts of a share, as `Tax` counts them.
const WHOLE: i128 = 1_000_000;

/// What is added to every price, exactly: parts of a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tax {
    pub millionths: i128,
}

/// A share up and down, and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    pub share: f64,
    pub basis: String,
}

/// One piece of work of a run, in the months that it takes.
#[derive(Clone, Debug)]
pub struct Phase {
    pub run: String,
    pub name: String,
    pub team: String,
    pub tags: BTreeMap<String, String>,
    pub what: CostSource,
    /// Times that it is done.
    pub repeats: u32,
    pub start: Month,
    /// Over which its cost is spread evenly.
    pub months: u32,
    /// Names of its launched runs, each with an optional `*` at the end; none: its own name.
    pub launched_as: Vec<String>,
    /// Nothing more of it is to come.
    pub is_ended: bool,
    /// Of the file.
    pub line: usize,
}

/// Where cost and hours of a phase come from.
#[derive(Clone, Debug, PartialEq)]
pub enum CostSource {
    /// A question that is planned: path beside the portfolio, and limits laid over those of the file.
    Workload {
        path: String,
        /// One `[[phase]]` of it; `None`: it has none.
        phase: Option<String>,
        limits: Box<LimitsSection>,
    },
    /// An answer of `plan --output json`, as it was recorded.
    Plan {
        path: String,
        /// One phase of it; `None`: it has none.
        phase: Option<String>,
        /// `None`: its recommendation.
        id: Option<String>,
    },
    Rate(Box<Rate>),
}

/// Machines whose price and hours somebody states.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Of one machine.
    pub usd_per_hour: UsdPerHour,
    pub nodes: u32,
    /// From begin to end of one run: each of its machines is paid for all of it.
    pub hours: Hours,
    /// That nine of ten such runs need no more than.
    pub hours_p90: Hours,
    pub cloud: String,
    pub region: Option<String>,
    pub instance_type: Option<String>,
    pub gpu: Option<String>,
    pub gpus_per_node: u32,
    pub purchase: String,
    pub source: String,
    pub as_of: Timestamp,
}

/// What goes wrong in a portfolio, with what to type instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortfolioError {
    #[error("{0}")]
    Syntax(String),
    #[error("line {line}: {detail}")]
    Invalid { line: usize, detail: String, hint: String },
}

impl PortfolioError {
    pub fn at(line: usize, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { line, detail: detail.into(), hint: hint.into() }
    }
}

/// Of a workload or plan that nobody put into a portfolio.
pub(crate) const NO_TEAM: &str = "not stated";

impl Portfolio {
    /// One run, once, in one month: what a workload or a plan costs, in the form of a budget.
    pub fn of_single_phase(name: &str, what: CostSource, month: Month) -> Self {
        let phase = Phase {
            run: name.to_owned(),
            name: name.to_owned(),
            team: NO_TEAM.to_owned(),
            tags: BTreeMap::new(),
            what,
            repeats: 1,
            start: month,
            months: 1,
            launched_as: Vec::new(),
            is_ended: false,
            line: 1,
        };
        Self {
            name: name.to_owned(),
            exchange: None,
            tax: Tax::default(),
            budget: None,
            rules: Vec::new(),
            spent: SpentSoFar::default(),
            start: month,
            months: 1,
            teams: Vec::new(),
            phases: vec![phase],
            commitments: Vec::new(),
            capacity: Capacity::default(),
            pools: Vec::new(),
            shared: Vec::new(),
            data_spread: Spread::assumed(),
        }
    }

    /// Puts the phases of a workload that has some, or of a plan of one, in place of it, each priced by itself in the months of the whole.
    /// `phases_of` names them in their order; none: it has none.
    pub fn split_into_phases<E>(
        &mut self,
        mut phases_of: impl FnMut(&Phase) -> Result<Vec<String>, E>,
    ) -> Result<(), E> {
        let mut split = Vec::new();
        for phase in std::mem::take(&mut self.phases) {
            let names = phases_of(&phase)?;
            split.extend(names.iter().map(|name| phase.part(name)));
            if names.is_empty() {
                split.push(phase);
            }
        }
        self.phases = split;
        Ok(())
    }

    pub fn all_months(&self) -> impl Iterator<Item = Month> + '_ {
        (0..self.months).map(|ahead| self.start.ahead(ahead))
    }

    /// The months of a commitment that lie in the portfolio.
    pub fn months_of<'a>(&'a self, commitment: &'a Commitment) -> impl Iterator<Item = Month> + 'a {
        self.all_months().filter(|month| commitment.is_in(*month))
    }
}

impl Spread {
    /// Data that turns out larger or smaller, where nobody says by how much. Judged: nobody publishes it.
    pub fn assumed() -> Self {
        Self { share: 0.25, basis: "assumed: nobody publishes how far data sizes are missed".to_owned() }
    }
}

impl Tax {
    /// What it adds to this amount, rounded once to the nano-dollar, halves up.
    pub fn on(self, amount: Usd) -> Usd {
        // In two parts, since an amount times a million may be beyond an `i128`.
        let (millions, rest) = (amount.nanos().div_euclid(WHOLE), amount.nanos().rem_euclid(WHOLE));
        let rounded = (rest.saturating_mul(self.millionths).saturating_add(WHOLE / 2)).div_euclid(WHOLE);
        Usd::from_nanos(millions.saturating_mul(self.millionths).saturating_add(rounded))
    }

    /// Dollars together with their tax.
    pub fn included(self, dollars: f64) -> f64 {
        dollars * (1.0 + self.millionths as f64 / 1e6)
    }
}

/// An amount so many times. Whatever is beyond counting was refused before it is repeated.
pub(crate) fn repeated(amount: Usd, times: u32) -> Usd {
    amount.share(i128::from(times), 1)
}

impl Phase {
    /// One `[[phase]]` of its workload as a phase of its run.
    fn part(&self, part: &str) -> Self {
        let name = if self.name == self.run { part.to_owned() } else { format!("{}/{part}", self.name) };
        let mut what = self.what.clone();
        match &mut what {
            CostSource::Workload { phase, .. } | CostSource::Plan { phase, .. } => *phase = Some(part.to_owned()),
            CostSource::Rate(_) => {}
        }
        Self { name, what, ..self.clone() }
    }

    /// `run/phase`, or the run alone where it is its only phase.
    pub fn path(&self) -> String {
        if self.run == self.name { self.run.clone() } else { format!("{}/{}", self.run, self.name) }
    }

    pub fn in_months(&self) -> impl Iterator<Item = Month> + '_ {
        (0..self.months).map(|ahead| self.start.ahead(ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tax_on_any_amount_is_counted() {
        let tax = Tax { millionths: 190_000 };
        assert_eq!(tax.on(Usd::from_nanos(100)), Usd::from_nanos(19));
        assert_eq!([2, 3, -3].map(|nanos| tax.on(Usd::from_nanos(nanos)).nanos()), [0, 1, -1]);
        let large = i128::MAX / 10 * 10;
        assert_eq!(
            tax.on(Usd::from_nanos(large)).nanos(),
            large / 1_000_000 * 190_000 + (large % 1_000_000 * 190_000 + 500_000) / 1_000_000
        );
        assert_eq!(repeated(Usd::from_nanos(i128::MAX / 2), 10_000).nanos(), i128::MAX, "not a negative amount");
        assert_eq!(repeated(Usd::from_nanos(7), 3).nanos(), 21);
    }
}
