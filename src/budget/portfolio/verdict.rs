//! Whether a budget keeps its rules: each with what was found, and what comes of it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::portfolio::calendar::Month;
use crate::portfolio::lines::{BudgetLine, LineOrigin};
use crate::portfolio::rules::{Approval, BudgetRule, OnBreak, RuleLimit, RuleOrigin, RuleScope};
use crate::portfolio::{Portfolio, Team};
use gpuplan_units::Usd;

/// From then on the share of money on older prices is told. Days. Judged: it covers the dates of catalogs that are renewed monthly.
pub const OLD_PRICE_DAYS: f64 = 30.0;

/// Kinds of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleKind {
    MinChance,
    PriceAge,
    MaxSpent,
}

/// What became of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Kept,
    /// Broken, and somebody allows it.
    Approved,
    /// Broken, and only to be warned of.
    Warned,
    Broken,
}

/// A rule about one team, one month or everything, with what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleResult {
    pub rule: RuleKind,
    /// Null: everything, or a month.
    pub team: Option<String>,
    pub month: Option<Month>,
    /// Null: the rule is about no budget, or none is stated.
    pub budget_usd: Option<Usd>,
    /// Days, of a rule about the age of prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_days: Option<f64>,
    /// Least probability, or most of the money or budget, as a share.
    pub limit: f64,
    /// Null: unknown, which keeps no rule.
    pub found: Option<f64>,
    pub verdict: Verdict,
    /// Null: nobody allows that it is broken.
    pub approval: Option<Approval>,
    pub origin: RuleOrigin,
    pub line: usize,
}

/// How old the prices are that a sum rests on, by money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PriceAge {
    pub older_than_days: f64,
    /// Share of the money on older prices.
    pub older_share: f64,
    /// Share on prices without a date.
    pub undated_share: f64,
    /// Of the oldest price; null: no price has a date.
    pub oldest: Option<Timestamp>,
}

impl PriceAge {
    /// Of these lines; tax has no price.
    pub fn from_lines(lines: &[BudgetLine], days: f64, now: Timestamp) -> Self {
        let (mut all, mut older, mut undated, mut oldest) = (0.0, 0.0, 0.0, None::<Timestamp>);
        for line in lines.iter().filter(|line| line.origin != LineOrigin::Tax && line.amount.cost_usd > Usd::ZERO) {
            let cost = line.amount.cost_usd.dollars();
            all += cost;
            match line.basis.priced_at {
                None => undated += cost,
                Some(priced_at) => {
                    let age = now.duration_since(priced_at).as_secs_f64() / 86_400.0;
                    older += if age > days { cost } else { 0.0 };
                    oldest = Some(oldest.map_or(priced_at, |oldest| oldest.min(priced_at)));
                }
            }
        }
        let share = |part: f64| if all > 0.0 { part / all } else { 0.0 };
        Self { older_than_days: days, older_share: share(older), undated_share: share(undated), oldest }
    }
}

/// What rules are judged by: the forecast of everything, a team or a month.
pub trait Forecast {
    /// That everything, a team or a month costs no more. `None`: nothing of it is forecast.
    fn chance(&self, team: Option<&str>, month: Option<Month>, budget: Usd) -> Option<f64>;
    fn price_age(&self, days: f64) -> PriceAge;
}

/// Every rule about everything that it is about.
pub fn judged(portfolio: &Portfolio, forecast: &impl Forecast, now: Timestamp) -> Vec<RuleResult> {
    portfolio
        .rules
        .iter()
        .flat_map(|rule| {
            rule.scopes(portfolio).into_iter().map(|(team, month)| rule.judge(portfolio, team, month, forecast, now))
        })
        .collect()
}

impl BudgetRule {
    fn scopes<'a>(&'a self, portfolio: &'a Portfolio) -> Vec<(Option<&'a Team>, Option<Month>)> {
        match &self.scope {
            RuleScope::Everything => vec![(None, None)],
            // A team of a policy that is not in this portfolio spends nothing in it.
            RuleScope::Team(name) => {
                portfolio.teams.iter().filter(|team| team.name == *name).map(|team| (Some(team), None)).collect()
            }
            RuleScope::EachTeam => {
                let has_budget = |team: &&Team| team.budget.or(self.budget).is_some();
                portfolio.teams.iter().filter(has_budget).map(|team| (Some(team), None)).collect()
            }
            RuleScope::Month(month) => vec![(None, Some(*month))],
            RuleScope::EachMonth => portfolio.all_months().map(|month| (None, Some(month))).collect(),
        }
    }

    fn judge(
        &self,
        portfolio: &Portfolio,
        team: Option<&Team>,
        month: Option<Month>,
        forecast: &impl Forecast,
        now: Timestamp,
    ) -> RuleResult {
        let spent = match (team, month) {
            (Some(team), _) => portfolio.spent.by_team.get(&team.name).copied().unwrap_or_default(),
            (None, Some(month)) => portfolio.spent.by_month.get(&month).copied().unwrap_or_default(),
            (None, None) => portfolio.spent.total,
        };
        let stated = match (team, month) {
            (Some(team), _) => team.budget,
            (None, Some(_)) => None,
            (None, None) => portfolio.budget,
        };
        let budget = self.budget.or(stated);
        let name = team.map(|team| team.name.as_str());
        let (rule, limit, found) = match self.limit {
            RuleLimit::MinChance(limit) => {
                // What is not forecast any more costs what it has cost.
                let kept = |budget: Usd| {
                    forecast.chance(name, month, budget - spent).unwrap_or(f64::from(u8::from(spent <= budget)))
                };
                (RuleKind::MinChance, limit, budget.map(kept))
            }
            RuleLimit::MaxSpent(limit) => {
                let share = |budget: Usd| if spent <= Usd::ZERO { 0.0 } else { spent.dollars() / budget.dollars() };
                (RuleKind::MaxSpent, limit, budget.map(share))
            }
            RuleLimit::PriceAge { days, share } => {
                let age = forecast.price_age(days);
                (RuleKind::PriceAge, share, Some(age.older_share + age.undated_share))
            }
        };
        let is_kept =
            found.is_some_and(|found| if rule == RuleKind::MinChance { found >= limit } else { found <= limit });
        let is_approved = self.approval.as_ref().is_some_and(|approval| now < approval.until);
        let verdict = match (is_kept, is_approved, self.on_break) {
            (true, ..) => Verdict::Kept,
            (false, true, _) => Verdict::Approved,
            (false, false, OnBreak::Warn) => Verdict::Warned,
            (false, false, OnBreak::Fail) => Verdict::Broken,
        };
        let max_age_days = if let RuleLimit::PriceAge { days, .. } = self.limit { Some(days) } else { None };
        RuleResult {
            rule,
            team: name.map(str::to_owned),
            month,
            budget_usd: budget,
            max_age_days,
            limit,
            found,
            verdict,
            approval: self.approval.clone(),
            origin: self.origin,
            line: self.line,
        }
    }
}
