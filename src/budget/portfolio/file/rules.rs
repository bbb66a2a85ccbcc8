//! Reads `[[rule]]`, of a portfolio and of `policy.toml`, and `[[shared]]`.

use jiff::{SignedDuration, Timestamp};
use toml::Spanned;

use crate::exchange::Exchange;
use crate::portfolio::calendar::Month;
use crate::portfolio::file::keys::{PolicyRules, RuleSection, SharedSection, SplitKey};
use crate::portfolio::file::values::{Read, Reader};
use crate::portfolio::rules::{Approval, BudgetRule, OnBreak, RuleLimit, RuleOrigin, RuleScope};
use crate::portfolio::shared::{SharedCost, Split};
use crate::portfolio::{PortfolioError, Team};
use gpuplan_units::names::did_you_mean;
use gpuplan_units::{Hours, Usd};

/// In place of a name: each.
const EACH: &str = "*";

impl BudgetRule {
    /// Those of a whole `policy.toml`, for a portfolio in this currency (`None`: in dollars); its other rules are read elsewhere.
    pub fn of_policy(text: &str, portfolio: Option<&Exchange>) -> Read<Vec<Self>> {
        let file: PolicyRules =
            toml::from_str(text).map_err(|error| PortfolioError::Syntax(error.to_string().trim_end().to_owned()))?;
        let exchange = Reader { text, exchange: None }.exchange_of_policy(&file, portfolio)?;
        let exchange = exchange.map(|exchange| (exchange.currency, exchange.usd_per_unit));
        Reader { text, exchange }.rules(&file.rule, RuleOrigin::Policy)
    }
}

impl Reader<'_> {
    pub fn rules(&self, sections: &[Spanned<RuleSection>], origin: RuleOrigin) -> Read<Vec<BudgetRule>> {
        sections.iter().map(|section| self.rule(section, origin)).collect()
    }

    fn rule(&self, at: &Spanned<RuleSection>, origin: RuleOrigin) -> Read<BudgetRule> {
        let section = at.get_ref();
        let refused = |detail: &str, hint: &str| PortfolioError::at(self.line(at), detail, hint);
        let scope = match (&section.team, &section.month) {
            (None, None) => RuleScope::Everything,
            (Some(team), None) if team.get_ref() == EACH => RuleScope::EachTeam,
            (Some(team), None) => RuleScope::Team(team.get_ref().clone()),
            (None, Some(month)) if month.get_ref() == EACH => RuleScope::EachMonth,
            (None, Some(month)) => RuleScope::Month(self.month(month)?),
            (Some(_), Some(_)) => return Err(refused("a rule is for a team or for a month", "make it two [[rule]]")),
        };
        let given = [&section.min_chance, &section.max_price_age, &section.max_spent];
        if given.iter().filter(|given| given.is_some()).count() != 1 {
            let detail = "a rule has exactly one of `min_chance`, `max_price_age` and `max_spent`";
            return Err(refused(detail, "min_chance = \"80 %\""));
        }
        let limit = if let Some(chance) = &section.min_chance {
            RuleLimit::MinChance(self.share("min_chance", chance)?)
        } else if let Some(share) = &section.max_spent {
            RuleLimit::MaxSpent(self.share("max_spent", share)?)
        } else {
            if scope != RuleScope::Everything {
                return Err(refused("the age of prices is a rule for everything", "take `team` and `month` out"));
            }
            let age = section.max_price_age.as_ref().ok_or_else(|| refused("no limit", "max_price_age = \"30d\""))?;
            let text = age.get_ref().to_string();
            let read = Hours::parse(&text).ok().filter(|age| (0.0..1e6).contains(&age.0));
            let age = read.ok_or_else(|| {
                let detail = format!("max_price_age `{text}` is not a valid duration; try 30d");
                PortfolioError::at(self.line(age), detail, "max_price_age = \"30d\"")
            })?;
            let share = section.max_old_share.as_ref().map_or(Ok(0.0), |share| self.share("max_old_share", share))?;
            RuleLimit::PriceAge { days: age.0 / 24.0, share }
        };
        if section.max_old_share.is_some() && section.max_price_age.is_none() {
            return Err(refused("`max_old_share` needs `max_price_age`", "max_price_age = \"30d\""));
        }
        if section.budget.is_some() && section.max_price_age.is_some() {
            return Err(refused("the age of prices has no budget", "take `budget` out"));
        }
        Ok(BudgetRule {
            scope,
            budget: section.budget.as_ref().map(|amount| self.money("budget", amount)).transpose()?,
            limit,
            on_break: self.on_break(section.on_break.as_ref())?,
            approval: self.approval(at)?,
            origin,
            line: self.line(at),
        })
    }

    /// `[[shared]]`.
    pub fn shared(&self, sections: &[Spanned<SharedSection>], teams: &[Team]) -> Read<Vec<SharedCost>> {
        let one = |at: &Spanned<SharedSection>| {
            let section = at.get_ref();
            let line = self.line(&section.split);
            let split = match section.split.get_ref() {
                SplitKey::Word(word) => match word.as_str() {
                    "even" => Split::Even,
                    "spent" => Split::Spent,
                    "team" => Split::Team,
                    other => {
                        let detail = format!("split `{other}` is none of `even`, `spent`, `team` and shares by team");
                        return Err(PortfolioError::at(line, detail, "split = \"spent\""));
                    }
                },
                SplitKey::Shares(shares) => {
                    if let Some(name) = shares.keys().find(|name| !teams.iter().any(|team| team.name == **name)) {
                        return Err(no_team(line, name, teams));
                    }
                    let is_share = |share: &f64| share.is_finite() && *share >= 0.0;
                    if !shares.values().all(is_share) || shares.values().sum::<f64>() <= 0.0 {
                        let detail = "shares are not negative, and one of them is more than zero";
                        return Err(PortfolioError::at(line, detail, "split = { vision = 1, language = 3 }"));
                    }
                    Split::Shares(shares.clone())
                }
            };
            Ok(SharedCost {
                cloud: section.cloud.clone(),
                account: section.account.clone(),
                team: section.team.clone(),
                machines: section.machines.clone(),
                split,
            })
        };
        sections.iter().map(one).collect()
    }

    fn on_break(&self, stated: Option<&Spanned<String>>) -> Read<OnBreak> {
        match stated.map(|word| (word, word.get_ref().as_str())) {
            None | Some((_, "fail")) => Ok(OnBreak::Fail),
            Some((_, "warn")) => Ok(OnBreak::Warn),
            Some((at, other)) => {
                let detail = format!("on_break `{other}` is neither `fail` nor `warn`");
                Err(PortfolioError::at(self.line(at), detail, "on_break = \"warn\""))
            }
        }
    }

    /// An approval has an end: one for ever is another rule.
    fn approval(&self, at: &Spanned<RuleSection>) -> Read<Option<Approval>> {
        match (&at.get_ref().approved_by, &at.get_ref().approved_until) {
            (None, None) => Ok(None),
            (Some(by), Some(until)) if !by.get_ref().trim().is_empty() => {
                // The day itself is approved.
                let end = self.day(until)?.saturating_add(SignedDuration::from_hours(24)).unwrap_or(Timestamp::MAX);
                Ok(Some(Approval { by: by.get_ref().trim().to_owned(), until: end }))
            }
            _ => {
                let detail = "an approval says who gave it and until when";
                let hint = "approved_by = \"cfo@example.com\" and approved_until = 2026-12-31";
                Err(PortfolioError::at(self.line(at), detail, hint))
            }
        }
    }
}

fn no_team(line: usize, name: &str, teams: &[Team]) -> PortfolioError {
    let near = did_you_mean(name, teams.iter().map(|team| team.name.as_str()));
    let hint = near.map_or_else(|| format!("add [[team]] with name = \"{name}\""), |near| format!("team = \"{near}\""));
    PortfolioError::at(line, format!("no [[team]] is called `{name}`"), hint)
}

/// Rules of a portfolio are about teams and months that it has, and have a budget to keep.
pub fn check_scopes(rules: &[BudgetRule], budget: Option<Usd>, teams: &[Team], start: Month, months: u32) -> Read<()> {
    for rule in rules {
        let line = rule.line;
        let of_scope = match &rule.scope {
            RuleScope::Everything => budget,
            RuleScope::Team(name) => {
                let Some(team) = teams.iter().find(|team| team.name == *name) else {
                    return Err(no_team(line, name, teams));
                };
                team.budget
            }
            // Teams without a budget have nothing to keep.
            RuleScope::EachTeam => teams.iter().find_map(|team| team.budget),
            RuleScope::Month(month) => {
                if !(0..i64::from(months)).contains(&i64::from(month.since(start))) {
                    let detail =
                        format!("{month} is outside {start} to {} of the portfolio", start.ahead(months).back());
                    return Err(PortfolioError::at(line, detail, format!("month = \"{start}\"")));
                }
                None
            }
            RuleScope::EachMonth => None,
        };
        let needs_budget = !matches!(rule.limit, RuleLimit::PriceAge { .. });
        if needs_budget && rule.budget.or(of_scope).is_none() {
            return Err(PortfolioError::at(
                line,
                "there is no budget that this rule could be about",
                "budget = \"20,000\"",
            ));
        }
    }
    Ok(())
}
