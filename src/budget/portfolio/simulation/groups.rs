//! Draws added up by month, team, cloud and GPU, and all together.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::portfolio::calendar::Month;
use crate::portfolio::lines::BudgetLine;
use crate::portfolio::simulation::draws::{DRAWS, chance_within, quantiles};
use crate::portfolio::{Portfolio, Tax};
use gpuplan_units::{Quantiles, Usd};

/// What belongs to no team: commitments that all share.
pub const SHARED: &str = "shared";
/// A GPU that nobody named, or none at all.
pub const NO_GPU: &str = "not stated";

/// Ways to divide a budget, in the order of `ALL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    Month,
    Team,
    Cloud,
    Gpu,
}

/// The groups that an amount belongs to.
#[derive(Clone, Copy)]
pub struct GroupNames<'a> {
    pub month: Month,
    /// `None`: all teams share it.
    pub team: Option<&'a str>,
    pub cloud: &'a str,
    pub gpu: Option<&'a str>,
}

/// Part of all cost that falls to one month, team, cloud or GPU.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostGroup {
    pub name: String,
    pub cost_usd: Quantiles<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<Usd>,
    /// That the cost stays within the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance_within_budget: Option<f64>,
}

/// Everything until the end of a month.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CumulativeCost {
    pub month: Month,
    pub cost_usd: Quantiles<Usd>,
}

/// The draws of each group.
pub struct GroupedDraws {
    tax: Tax,
    pub total: Vec<f64>,
    by: [BTreeMap<String, Vec<f64>>; 4],
}

impl GroupBy {
    pub const ALL: [Self; 4] = [Self::Month, Self::Team, Self::Cloud, Self::Gpu];

    fn name(self, names: GroupNames) -> String {
        match self {
            Self::Month => names.month.to_string(),
            Self::Team => names.team.unwrap_or(SHARED).to_owned(),
            Self::Cloud => names.cloud.to_owned(),
            Self::Gpu => names.gpu.unwrap_or(NO_GPU).to_owned(),
        }
    }
}

impl GroupedDraws {
    pub fn new(tax: Tax) -> Self {
        Self { tax, total: vec![0.0; DRAWS], by: std::array::from_fn(|_| BTreeMap::new()) }
    }

    pub fn add(&mut self, names: GroupNames, costs: &[f64]) {
        let taxed = self.tax.included(1.0);
        let groups = self.by.iter_mut().zip(GroupBy::ALL);
        let groups = groups.map(|(by, group)| by.entry(group.name(names)).or_insert_with(|| vec![0.0; DRAWS]));
        for sums in groups.chain([&mut self.total]) {
            sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost * taxed);
        }
    }

    /// That a group costs no more; `None`: there is no such group.
    pub fn chance(&self, by: GroupBy, name: &str, budget: Usd) -> Option<f64> {
        self.by[by as usize].get(name).map(|draws| chance_within(draws, budget))
    }

    /// The months one after another, added up draw by draw. Before `costs`, which puts draws in order. `None`: beyond counting.
    pub fn cumulative(&self, lines: &[BudgetLine]) -> Option<Vec<CumulativeCost>> {
        let mut expected: BTreeMap<Month, Usd> = BTreeMap::new();
        for line in lines {
            let sum = expected.entry(line.month).or_default();
            *sum = *sum + line.amount.cost_usd;
        }
        let (mut draws, mut all) = (vec![0.0; DRAWS], Usd::ZERO);
        let until = |(month, expected): (Month, Usd)| {
            if let Some(of_month) = self.by[GroupBy::Month as usize].get(&month.to_string()) {
                draws.iter_mut().zip(of_month).for_each(|(sum, cost)| *sum += cost);
            }
            all = all + expected;
            Some(CumulativeCost { month, cost_usd: quantiles(&mut draws.clone(), all)? })
        };
        expected.into_iter().map(until).collect()
    }

    /// Every group with what is expected of it, from the lines, and its percentiles, from the draws. `None`: beyond counting.
    pub fn costs(&mut self, by: GroupBy, lines: &[BudgetLine], portfolio: &Portfolio) -> Option<Vec<CostGroup>> {
        let mut expected: BTreeMap<String, Usd> = BTreeMap::new();
        for line in lines {
            let (cloud, gpu) = (line.machines.cloud.as_str(), line.machines.gpu.as_deref());
            let names = GroupNames { month: line.month, team: line.team.as_deref(), cloud, gpu };
            let sum = expected.entry(by.name(names)).or_default();
            *sum = *sum + line.amount.cost_usd;
        }
        let draws = &mut self.by[by as usize];
        let group = |(name, expected): (String, Usd)| {
            let teams = &portfolio.teams;
            let budget_usd =
                teams.iter().find(|team| by == GroupBy::Team && team.name == name).and_then(|team| team.budget);
            let draws = draws.get_mut(&name).expect("every line is of a phase or a commitment, whose group is drawn");
            let spent = portfolio.spent.by_team.get(&name).copied().unwrap_or_default();
            let chance = budget_usd.map(|budget| chance_within(draws, budget - spent));
            Some(CostGroup { cost_usd: quantiles(draws, expected)?, name, budget_usd, chance_within_budget: chance })
        };
        expected.into_iter().map(group).collect()
    }
}
