//! Rows of a status: what was planned, spent, is to go and comes to, by month, team, project and phase.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::charge::{Item, UNALLOCATED};
use crate::exchange::Exchange;
use crate::portfolio::Portfolio;
use crate::portfolio::budget::Budget;
use crate::portfolio::calendar::Month;
use crate::portfolio::lines::BudgetLine;
use crate::portfolio::simulation::groups::SHARED;
use crate::status::attribution::Attributed;
use gpuplan_units::Usd;

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct StatusRow {
    pub name: String,
    pub planned_usd: Usd,
    pub spent_usd: Usd,
    /// Forecast from now on.
    pub to_go_usd: Usd,
    /// Of `to_go_usd`, what reservations, savings plans and prepaid machines cost, whether used or not.
    pub committed_usd: Usd,
    pub at_completion_usd: Usd,
    /// Null: none is stated.
    pub budget_usd: Option<Usd>,
    /// With what was spent; null without a budget.
    pub chance_within_budget: Option<f64>,
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slice {
    Total,
    Month(Month),
    Team(String),
    Project(String),
    Phase(usize),
}

impl Slice {
    pub fn is_month(&self) -> bool {
        matches!(self, Self::Month(_))
    }

    pub fn is_team(&self) -> bool {
        matches!(self, Self::Team(_))
    }

    pub fn is_project(&self) -> bool {
        matches!(self, Self::Project(_))
    }

    fn name(&self) -> String {
        match self {
            Self::Total | Self::Phase(_) => String::new(),
            Self::Month(month) => month.to_string(),
            Self::Team(name) | Self::Project(name) => name.clone(),
        }
    }
}

/// What was budgeted: the lines of a budget, as they were made.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub source: String,
    /// The currency in which it was shown and approved; `None`: dollars.
    pub exchange: Option<Exchange>,
    lines: Vec<PlannedLine>,
}

/// What a row takes from a line of a recorded budget.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct PlannedLine {
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    team: Option<String>,
    month: String,
    cost_usd: Usd,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

/// Why a file is no budget to compare with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a budget of `gpuplan budget --output json`: {0}")]
pub struct PlannedBudgetError(String);

impl Planned {
    /// Of a budget that was recorded.
    pub fn read(text: &str) -> Result<Self, PlannedBudgetError> {
        let refused = |error: &dyn std::fmt::Display| PlannedBudgetError(error.to_string());
        let mut document: Value = serde_json::from_str(text).map_err(|error| refused(&error))?;
        let lines = document.get_mut("lines").map(Value::take).ok_or_else(|| refused(&"it has no `lines`"))?;
        let lines: Vec<PlannedLine> = serde_json::from_value(lines).map_err(|error| refused(&error))?;
        if let Some(line) = lines.iter().find(|line| Month::parse(&line.month).is_none()) {
            return Err(refused(&format!("`{}` is not a month", line.month)));
        }
        let exchange = document.get_mut("exchange").map(Value::take).map(serde_json::from_value);
        let exchange = exchange.transpose().map_err(|error| refused(&error))?;
        let made = document.get("generated_at").and_then(Value::as_str).and_then(|at| at.get(..10));
        Ok(Self { source: format!("the budget of {}", made.unwrap_or("an unknown day")), exchange, lines })
    }

    /// Of today's plans and prices.
    pub fn of_today(budget: &Budget) -> Self {
        let line = |line: &BudgetLine| PlannedLine {
            run: line.run.clone(),
            phase: line.phase.clone(),
            team: line.team.clone(),
            month: line.month.to_string(),
            cost_usd: line.amount.cost_usd,
            tags: line.tags.clone(),
        };
        Self {
            source: "today's plans and prices".to_owned(),
            exchange: budget.exchange.clone(),
            lines: budget.lines.iter().map(line).collect(),
        }
    }
}

/// All rows.
pub struct Rows {
    rows: BTreeMap<Slice, StatusRow>,
    /// Of each phase by month.
    planned: BTreeMap<(usize, Month), Usd>,
}

impl Rows {
    pub fn new(portfolio: &Portfolio, planned: &Planned, attributed: &Attributed) -> Self {
        let mut rows = Self { rows: BTreeMap::new(), planned: BTreeMap::new() };
        for month in portfolio.all_months() {
            rows.rows.entry(Slice::Month(month)).or_default();
        }
        for team in &portfolio.teams {
            rows.rows.entry(Slice::Team(team.name.clone())).or_default();
        }
        for line in &planned.lines {
            let Some(month) = Month::parse(&line.month) else { continue };
            let phase = phase_named(portfolio, line.run.as_deref(), line.phase.as_deref());
            if let Some(phase) = phase {
                let sum = rows.planned.entry((phase, month)).or_default();
                *sum = *sum + line.cost_usd;
            }
            let project = line.tags.get("project").map(String::as_str);
            let is_shared = line.team.is_none();
            rows.add(phase, line.team.as_deref(), project.filter(|_| !is_shared), month, |row| {
                row.planned_usd = row.planned_usd + line.cost_usd;
            });
        }
        for part in &attributed.parts {
            let team = Some(part.team.as_str());
            rows.add(part.phase, team, Some(&part.project), part.month, |row| row.spent_usd = row.spent_usd + part.usd);
        }
        rows
    }

    pub fn add_to_go(&mut self, portfolio: &Portfolio, to_go: &Budget) {
        for line in &to_go.lines {
            let phase = phase_named(portfolio, line.run.as_deref(), line.phase.as_deref());
            let cost = line.amount.cost_usd;
            let is_committed = line.item == Item::UnusedCommitment
                || matches!(line.machines.purchase.as_deref(), Some("commitment" | "reserved"));
            let project = line.tags.get("project").map(String::as_str).filter(|_| line.team.is_some());
            self.add(phase, line.team.as_deref(), project, line.month, |row| {
                row.to_go_usd = row.to_go_usd + cost;
                if is_committed {
                    row.committed_usd = row.committed_usd + cost;
                }
            });
        }
        for (slice, row) in &mut self.rows {
            row.name = slice.name();
            row.at_completion_usd = row.spent_usd + row.to_go_usd;
        }
    }

    /// Budgets, and how likely they are kept with what was spent.
    pub fn set_chances(&mut self, portfolio: &Portfolio, to_go: &Budget) {
        let certain = |row: &StatusRow, budget: Usd| f64::from(u8::from(row.spent_usd <= budget));
        if let Some((row, budget)) = self.rows.get_mut(&Slice::Total).zip(portfolio.budget) {
            row.budget_usd = Some(budget);
            row.chance_within_budget = Some(to_go.total.chance_within_budget.unwrap_or_else(|| certain(row, budget)));
        }
        for team in &portfolio.teams {
            let Some((row, budget)) = self.rows.get_mut(&Slice::Team(team.name.clone())).zip(team.budget) else {
                continue;
            };
            let drawn = to_go.breakdown.by_team.iter().find(|group| group.name == team.name);
            let chance = drawn.and_then(|group| group.chance_within_budget);
            row.budget_usd = Some(budget);
            row.chance_within_budget = Some(chance.unwrap_or_else(|| certain(row, budget)));
        }
    }

    fn add(
        &mut self,
        phase: Option<usize>,
        team: Option<&str>,
        project: Option<&str>,
        month: Month,
        change: impl Fn(&mut StatusRow),
    ) {
        let unallocated = if team.is_none() { SHARED } else { UNALLOCATED };
        let slices = [
            Slice::Total,
            Slice::Month(month),
            Slice::Team(team.unwrap_or(SHARED).to_owned()),
            Slice::Project(project.unwrap_or(unallocated).to_owned()),
        ];
        for slice in slices.into_iter().chain(phase.map(Slice::Phase)) {
            change(self.rows.entry(slice).or_default());
        }
    }

    pub fn sum(&self, slice: Slice) -> StatusRow {
        self.rows.get(&slice).cloned().unwrap_or_default()
    }

    pub fn all(&self, is_wanted: impl Fn(&Slice) -> bool) -> Vec<StatusRow> {
        self.rows.iter().filter(|(slice, _)| is_wanted(slice)).map(|(_, row)| row.clone()).collect()
    }

    /// Those of the portfolio, and others in which something was spent or is to go, in their order.
    pub fn months(&self) -> impl Iterator<Item = Month> {
        self.rows.keys().filter_map(|slice| match slice {
            Slice::Month(month) => Some(*month),
            _ => None,
        })
    }

    pub fn spent_by_team(&self) -> BTreeMap<String, Usd> {
        let team = |(slice, row): (&Slice, &StatusRow)| match slice {
            Slice::Team(name) => Some((name.clone(), row.spent_usd)),
            _ => None,
        };
        self.rows.iter().filter_map(team).collect()
    }

    pub fn spent_by_month(&self, portfolio: &Portfolio) -> BTreeMap<Month, Usd> {
        portfolio.all_months().map(|month| (month, self.sum(Slice::Month(month)).spent_usd)).collect()
    }

    /// Of a phase: the months that are over, and of this month the part that is.
    pub fn planned_to_date(&self, phase: usize, now: Timestamp) -> Usd {
        let part = |(&(at, month), usd): (&(usize, Month), &Usd)| {
            let (begin, end) = (month.begin(), month.ahead(1).begin());
            let whole = end.duration_since(begin).as_secs();
            let over = now.duration_since(begin).as_secs().clamp(0, whole);
            (at == phase).then(|| usd.share(i128::from(over), i128::from(whole.max(1))))
        };
        self.planned.iter().filter_map(part).sum()
    }
}

fn phase_named(portfolio: &Portfolio, run: Option<&str>, phase: Option<&str>) -> Option<usize> {
    let run = run?;
    portfolio.phases.iter().position(|known| known.run == run && phase.is_none_or(|phase| phase == known.name))
}
