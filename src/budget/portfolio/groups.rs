//! Draws added up by month, team, cloud and GPU, and all together.

use std::collections::BTreeMap;

use crate::portfolio::calendar::Month;
use crate::portfolio::lines::Line;
use crate::portfolio::simulation::DRAWS;
use crate::portfolio::{Part, Tax, Team, quantiles};
use gpuplan_units::Usd;

/// What belongs to no team: commitments that all share.
pub const SHARED: &str = "shared";
/// A GPU that nobody named, or none at all.
pub const NO_GPU: &str = "not stated";

/// Ways to divide a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Month,
    Team,
    Cloud,
    Gpu,
}

pub struct Groups {
    tax: Tax,
    pub total: Vec<f64>,
    by: [BTreeMap<String, Vec<f64>>; 4],
}

impl By {
    pub const ALL: [Self; 4] = [Self::Month, Self::Team, Self::Cloud, Self::Gpu];

    /// The group that a line belongs to.
    fn name(self, line: &Line) -> String {
        match self {
            Self::Month => line.month.to_string(),
            Self::Team => line.team.clone().unwrap_or_else(|| SHARED.to_owned()),
            Self::Cloud => line.cloud.clone(),
            Self::Gpu => line.gpu.clone().unwrap_or_else(|| NO_GPU.to_owned()),
        }
    }
}

impl Groups {
    pub fn new(tax: Tax) -> Self {
        Self { tax, total: vec![0.0; DRAWS], by: std::array::from_fn(|_| BTreeMap::new()) }
    }

    pub fn add(&mut self, month: Month, team: Option<&str>, cloud: &str, gpu: Option<&str>, costs: &[f64]) {
        let names =
            [month.to_string(), team.unwrap_or(SHARED).to_owned(), cloud.to_owned(), gpu.unwrap_or(NO_GPU).to_owned()];
        let taxed = self.tax.with(1.0);
        let groups = self.by.iter_mut().zip(names).map(|(by, name)| by.entry(name).or_insert_with(|| vec![0.0; DRAWS]));
        for sums in groups.chain([&mut self.total]) {
            sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost * taxed);
        }
    }

    /// Every group with what is expected of it, from the lines, and its percentiles, from the draws. `None`: beyond counting.
    pub fn parts(&mut self, by: By, lines: &[Line], teams: &[Team]) -> Option<Vec<Part>> {
        let mut expected: BTreeMap<String, Usd> = BTreeMap::new();
        for line in lines {
            let sum = expected.entry(by.name(line)).or_default();
            *sum = *sum + line.cost_usd;
        }
        let draws = &mut self.by[by as usize];
        let part = |(name, expected): (String, Usd)| {
            let budget_usd = teams.iter().find(|team| by == By::Team && team.name == name).and_then(|team| team.budget);
            let draws = draws.get_mut(&name).expect("every line is of a phase or a commitment, whose group is drawn");
            let chance = budget_usd.map(|budget| within(draws, budget));
            Some(Part { cost_usd: quantiles(draws, expected)?, name, budget_usd, chance_within_budget: chance })
        };
        expected.into_iter().map(part).collect()
    }
}

/// Share of the draws that cost no more.
pub fn within(draws: &[f64], budget: Usd) -> f64 {
    draws.iter().filter(|cost| **cost <= budget.dollars()).count() as f64 / draws.len().max(1) as f64
}
