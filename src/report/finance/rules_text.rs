//! The rules of a budget in words: what is asked, what was found, and what comes of it.

use crate::finance::money::Money;
use crate::text::format;
use crate::text::table::Column;
use gpuplan_budget::portfolio::rules::RuleOrigin;
use gpuplan_budget::portfolio::verdict::{RuleKind, RuleResult, Verdict};

/// What a rule asks, such as `vision keeps $25,000 with probability 0.80`.
pub fn asked(rule: &RuleResult, money: Money) -> String {
    let whose = match (&rule.team, rule.month) {
        (Some(team), _) => team.clone(),
        (None, Some(month)) => month.to_string(),
        (None, None) => "everything".to_owned(),
    };
    let budget = rule.budget_usd.map_or_else(|| "a budget".to_owned(), |budget| money.usd(budget));
    match rule.rule {
        RuleKind::MinChance => format!("{whose} keeps {budget} with probability {:.2}", rule.limit),
        RuleKind::MaxSpent => format!("{whose} has spent at most {:.0} % of {budget}", rule.limit * 100.0),
        RuleKind::PriceAge => format!(
            "at most {:.0} % of the money rests on prices older than {:.0} days",
            rule.limit * 100.0,
            rule.max_age_days.unwrap_or_default()
        ),
    }
}

/// What was found, in the unit of the rule.
pub fn found(rule: &RuleResult) -> String {
    match (rule.rule, rule.found) {
        (_, None) => "no budget is stated".to_owned(),
        (RuleKind::MinChance, Some(chance)) => format::probability(chance),
        (_, Some(share)) => format!("{:.0} %", share * 100.0),
    }
}

/// What comes of it, with who allows it.
pub fn verdict(rule: &RuleResult) -> String {
    let last_day = |until: jiff::Timestamp| {
        until
            .checked_sub(jiff::SignedDuration::from_secs(1))
            .map_or(String::new(), |day| day.strftime("%Y-%m-%d").to_string())
    };
    match (rule.verdict, &rule.approval) {
        (Verdict::Kept, _) => "kept".to_owned(),
        (Verdict::Approved, Some(approval)) => {
            format!("broken, allowed by {} until {}", approval.by, last_day(approval.until))
        }
        (verdict, Some(approval)) => {
            let word = if verdict == Verdict::Warned { "warning" } else { "BROKEN" };
            format!("{word}; {} allowed it until {}", approval.by, last_day(approval.until))
        }
        (Verdict::Warned, None) => "warning".to_owned(),
        (_, None) => "BROKEN".to_owned(),
    }
}

/// Where a rule is written.
pub fn place(rule: &RuleResult) -> String {
    let file = match rule.origin {
        RuleOrigin::Portfolio => "portfolio",
        RuleOrigin::Policy => "policy",
    };
    format!("{file} line {}", rule.line)
}

pub fn columns() -> Vec<Column> {
    vec![Column::left("rule", 0), Column::left("in", 100), Column::right("found", 0), Column::left("", 0)]
}

pub fn rows(rules: &[RuleResult], money: Money) -> Vec<Vec<String>> {
    rules.iter().map(|rule| vec![asked(rule, money), place(rule), found(rule), verdict(rule)]).collect()
}

/// Where a rule stands, what it asks and what was found.
pub fn words(rule: &RuleResult, money: Money) -> String {
    let is = if rule.found.is_some() { "it is " } else { "" };
    format!("{}: {}, and {is}{}", place(rule), asked(rule, money), found(rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_budget::portfolio::rules::Approval;

    #[test]
    fn a_rule_says_what_it_asks_what_was_found_and_who_allows_it() {
        let rule = RuleResult {
            rule: RuleKind::MinChance,
            team: Some("vision".to_owned()),
            month: None,
            budget_usd: gpuplan_units::Usd::from_dollars(25_000.0),
            max_age_days: None,
            limit: 0.8,
            found: Some(0.005),
            verdict: Verdict::Broken,
            approval: None,
            origin: RuleOrigin::Policy,
            line: 7,
        };
        assert_eq!(
            rows(std::slice::from_ref(&rule), Money::in_currency(None))[0],
            ["vision keeps $25,000 with probability 0.80", "policy line 7", "< 0.01", "BROKEN"]
        );
        let approval = Approval { by: "cfo".to_owned(), until: "2027-01-01T00:00:00Z".parse().unwrap() };
        let allowed = RuleResult { verdict: Verdict::Approved, approval: Some(approval.clone()), ..rule.clone() };
        assert_eq!(verdict(&allowed), "broken, allowed by cfo until 2026-12-31");
        assert_eq!(
            verdict(&RuleResult { approval: Some(approval), ..rule.clone() }),
            "BROKEN; cfo allowed it until 2026-12-31"
        );
        let old = RuleResult {
            rule: RuleKind::PriceAge,
            team: None,
            max_age_days: Some(30.0),
            limit: 0.1,
            found: Some(0.63),
            ..rule
        };
        assert_eq!(
            (asked(&old, Money::in_currency(None)).as_str(), found(&old).as_str()),
            ("at most 10 % of the money rests on prices older than 30 days", "63 %")
        );
    }
}
