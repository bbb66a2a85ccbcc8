//! What a portfolio may say, and what is refused with its line.
#![cfg(test)]

use super::*;

const GOOD: &str = r#"name = "first quarter"
currency = "USD"
tax = "19 %"
start = "2027-01"
months = 3
budget = "120,000"

[[team]]
name = "language"
budget = 90000

[[run]]
name = "base"
team = "language"
tags = { project = "seven" }

[[run.phase]]
name = "pretrain"
workload = "pretrain.toml"
limits = { purchase = "on-demand" }
months = 2

[[run.phase]]
name = "tune"
plan = "tune.json"
after = ["pretrain"]
repeats = 4

[[run]]
name = "evaluate"
team = "language"
usd_per_hour = "98.32"
hours = "2d"
nodes = 2
cloud = "aws"
source = "a quote"
as_of = 2026-10-01
after = ["base"]
"#;

fn refused(text: &str) -> (usize, String, String) {
    match Portfolio::read(text).unwrap_err() {
        PortfolioError::Invalid { line, detail, hint } => (line, detail, hint),
        PortfolioError::Syntax(text) => panic!("{text}"),
    }
}

fn line_of(text: &str, part: &str) -> usize {
    text[..text.find(part).unwrap()].matches('\n').count() + 1
}

#[test]
fn a_portfolio_is_read_with_its_phases_in_their_months() {
    let text = GOOD.replace("after = [\"base\"]", "");
    let portfolio = Portfolio::read(&text).unwrap();
    assert_eq!((portfolio.tax.millionths, portfolio.budget.unwrap().to_string().as_str()), (190_000, "120000.00"));
    let months: Vec<String> =
        portfolio.phases.iter().map(|phase| format!("{} {}+{}", phase.path(), phase.start, phase.months)).collect();
    assert_eq!(months, ["base/pretrain 2027-01+2", "base/tune 2027-03+1", "evaluate 2027-01+1"]);
    assert_eq!(portfolio.phases[1].tags["project"], "seven");
    assert!(
        matches!(&portfolio.phases[2].what, CostSource::Rate(rate) if rate.hours == Hours(48.0) && rate.hours_p90 == rate.hours)
    );
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_line() {
    for (good, bad, said) in [
        ("repeats = 4", "repeats = -4", "repeats = -4 is outside 1 to 10000"),
        ("currency = \"USD\"", "currency = \"EUR\"", "no rate of exchange is assumed"),
        ("tax = \"19 %\"", "tax = \"some\"", "neither `excluded` nor a percentage"),
        ("after = [\"pretrain\"]", "after = [\"pretran\"]", "no run or phase is called `pretran`"),
        ("hours = \"2d\"", "hours = \"soon\"", "not a valid duration; try 240 or 10d"),
        ("usd_per_hour = \"98.32\"", "usd_per_hour = \"lots\"", "usd_per_hour: `lots` is not an amount"),
        ("as_of = 2026-10-01", "as_of = \"then\"", "`then` is not a valid day; try 2026-10-01"),
        ("start = \"2027-01\"", "start = \"January\"", "`January` is not a valid month; try 2027-01"),
    ] {
        let text = GOOD.replace("after = [\"base\"]", "").replace(good, bad);
        let (line, detail, hint) = refused(&text);
        assert_eq!(line, line_of(&text, bad), "{detail}");
        assert!(detail.contains(said), "{detail}");
        assert!(!hint.is_empty());
    }
    let text = GOOD.replace("name = \"evaluate\"\nteam = \"language\"", "name = \"evaluate\"\nteam = \"langauge\"");
    let (line, detail, hint) = refused(&text);
    assert_eq!((line, detail.as_str()), (line_of(&text, "team = \"langauge\""), "no [[team]] is called `langauge`"));
    assert!(hint.contains("team = \"language\""), "{hint}");
}

#[test]
fn where_there_are_no_teams_every_run_is_of_all() {
    let run = "[[run]]\nname = \"a\"\nusd_per_hour = 1.19\nhours = 100\ncloud = \"runpod\"\nsource = \"a list\"\nas_of = 2026-03-01\n";
    let of = |teams: &str| {
        Portfolio::read(&format!(
            "currency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-12\"\nmonths = 3\n{teams}{run}"
        ))
    };
    let team = |portfolio: &Portfolio| (portfolio.phases[0].team.clone(), portfolio.teams.len());
    assert_eq!(team(&of("").unwrap()), ("all".to_owned(), 1));
    let one = of("[[team]]\nname = \"lab\"\n").unwrap_err().to_string();
    assert!(one.contains("`team` is missing"), "one team is not everybody: {one}");
}

#[test]
fn circles_and_overlaps_are_refused() {
    let text = GOOD.replace("months = 2\n", "months = 2\nafter = [\"tune\"]\n").replace("after = [\"base\"]", "");
    assert!(refused(&text).1.contains("circular"), "{}", refused(&text).1);
    let text = GOOD.replace("repeats = 4", "repeats = 4\nstart = \"2027-02\"").replace("after = [\"base\"]", "");
    let (line, detail, hint) = refused(&text);
    assert_eq!((line, hint.as_str()), (line_of(&text, "start = \"2027-02\""), "start = \"2027-03\""));
    assert!(detail.contains("the months overlap"), "{detail}");
    // After both phases of `base` no month is left.
    assert!(refused(GOOD).1.contains("outside 2027-01 to 2027-03"), "{}", refused(GOOD).1);
}

#[test]
fn nothing_is_assumed_of_currency_tax_and_teams() {
    for key in [
        "currency = \"USD\"\n",
        "tax = \"19 %\"\n",
        "start = \"2027-01\"\n",
        "months = 3\n",
        "team = \"language\"\n",
        "source = \"a quote\"\n",
        "as_of = 2026-10-01\n",
    ] {
        let (line, detail, hint) = refused(&GOOD.replace("after = [\"base\"]", "").replacen(key, "", 1));
        assert!(line > 0 && detail.contains(key.split(' ').next().unwrap()) && !hint.is_empty(), "{key}: {detail}");
    }
    assert!(matches!(Portfolio::read("currency = 1"), Err(PortfolioError::Syntax(_))));
    assert!(
        matches!(Portfolio::read(&format!("{GOOD}\ncolour = 1")), Err(PortfolioError::Syntax(text)) if text.contains("colour"))
    );
}

#[test]
fn rules_are_read_with_their_scope_and_refused_with_their_line() {
    use crate::portfolio::rules::{BudgetRule, OnBreak, RuleLimit, RuleOrigin, RuleScope};
    let rules = BudgetRule::of_policy(
        "clouds = [\"aws\"]\n[[rule]]\nteam = \"*\"\nmin_chance = \"80 %\"\n[[rule]]\nmax_price_age = \"30d\"\nmax_old_share = 0.1\n\
         on_break = \"warn\"\n[[rule]]\nmonth = \"2027-02\"\nbudget = \"9,000\"\nmin_chance = 0.9\napproved_by = \"cfo\"\napproved_until = 2027-03-31\n",
        None,
    )
    .unwrap();
    assert_eq!(
        (&rules[0].scope, rules[0].limit, rules[0].origin, rules[0].line),
        (&RuleScope::EachTeam, RuleLimit::MinChance(0.8), RuleOrigin::Policy, 2)
    );
    assert_eq!((rules[1].limit, rules[1].on_break), (RuleLimit::PriceAge { days: 30.0, share: 0.1 }, OnBreak::Warn));
    let approval = rules[2].approval.clone().unwrap();
    assert_eq!(
        (approval.by.as_str(), approval.until.to_string().as_str()),
        ("cfo", "2027-04-01T00:00:00Z"),
        "its last day counts"
    );
    let refused = |rule: &str| {
        let text = format!(
            "currency = \"USD\"\ntax = \"excluded\"\nstart = \"2027-01\"\nmonths = 3\n[[team]]\nname = \"a\"\n[[rule]]\n{rule}\n\
            [[run]]\nname = \"r\"\nteam = \"a\"\nworkload = \"w.toml\"\n"
        );
        Portfolio::read(&text).unwrap_err().to_string()
    };
    assert_eq!(
        refused("min_chance = 80\nbudget = 5"),
        "line 8: min_chance `80` is neither a share from 0 to 1 nor a percentage"
    );
    assert!(refused("min_chance = 0.8").starts_with("line 7: there is no budget"));
    assert!(refused("team = \"b\"\nmin_chance = 0.8\nbudget = 5").contains("no [[team]] is called `b`"));
    assert!(refused("month = \"2027-04\"\nmin_chance = 0.8\nbudget = 5").contains("outside 2027-01 to 2027-03"));
    assert!(refused("min_chance = 0.8\nmax_spent = 0.8\nbudget = 5").contains("exactly one of"));
    assert!(refused("min_chance = 0.8\nbudget = 5\napproved_by = \"me\"").contains("until when"));
    assert!(refused("max_price_age = \"soon\"").starts_with("line 8: max_price_age"));
    assert!(refused("min_chance = 0.8\nbudget = 5\non_break = \"shout\"").contains("neither `fail` nor `warn`"));
}

#[test]
fn all_keys_that_a_section_lacks_are_named_at_once() {
    let (line, said, hint) = refused(&GOOD.replace("cloud = \"aws\"\nsource = \"a quote\"\nas_of = 2026-10-01\n", ""));
    assert_eq!(line, line_of(GOOD, "[[run]]\nname = \"evaluate\""));
    assert_eq!(said, "`usd_per_hour` needs `cloud`, `source` and `as_of`");
    assert_eq!(
        hint.lines().collect::<Vec<_>>(),
        ["cloud = \"aws\"", "source = \"quote 4711 of the vendor\"", "as_of = 2026-10-01"]
    );
    let plan = "\n[[commitment]]\nname = \"sp\"\nkind = \"savings-plan\"\ncloud = \"aws\"\nusd_per_hour = 10\nas_of = 2026-10-01\n";
    let (_, said, _) = refused(&format!("{}{plan}", GOOD.replace("after = [\"base\"]", "")));
    assert_eq!(said, "commitment `sp` needs `percent` and `source`");
}

#[test]
fn amounts_of_another_currency_are_dollars_at_the_rate_that_is_stated() {
    let rate = "exchange = { usd_per_unit = \"1.0842\", source = \"ECB reference rate\", as_of = 2026-10-30 }\n";
    let good = GOOD.replace("after = [\"base\"]", "");
    let euro = good.replace("currency = \"USD\"\n", &format!("currency = \"EUR\"\n{rate}"));
    let portfolio = Portfolio::read(&euro).unwrap();
    assert_eq!(
        portfolio.exchange.as_ref().unwrap().words(),
        "EUR at 1.0842 US dollars (ECB reference rate, 2026-10-30)"
    );
    // 120,000 and 90,000 euros; a price that says dollars stays one.
    assert_eq!(portfolio.budget.unwrap().to_string(), "130104.00");
    assert_eq!(portfolio.teams[0].budget.unwrap().to_string(), "97578.00");
    let price = |text: &str| match &Portfolio::read(text).unwrap().phases[2].what {
        CostSource::Rate(rate) => rate.usd_per_hour.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(price(&euro), "98.32");
    let own = euro.replace("usd_per_hour = \"98.32\"", "price_per_hour = \"100\"");
    assert_eq!((price(&own), price(&own.replace("\"100\"", "\"€100\""))), ("108.42".to_owned(), "108.42".to_owned()));
    for same in ["\"€120,000\"", "\"120,000 EUR\"", "120000", "\"120_000.00 €\""] {
        let text = euro.replace("budget = \"120,000\"", &format!("budget = {same}"));
        assert_eq!(Portfolio::read(&text).unwrap().budget.unwrap().to_string(), "130104.00", "{same}");
    }
    let both = refused(&own.replace("price_per_hour", "usd_per_hour = 1\nprice_per_hour"));
    assert!(both.1.contains("exactly one of"), "{}", both.1);
}

#[test]
fn rules_of_the_house_have_a_currency_of_their_own() {
    use crate::exchange::Exchange;
    use crate::portfolio::rules::BudgetRule;
    let rate =
        |rate: &str| format!("exchange = {{ usd_per_unit = \"{rate}\", source = \"ECB\", as_of = 2026-10-30 }}\n");
    let portfolio = |currency: &str| {
        let good = GOOD.replace("after = [\"base\"]", "");
        let head = format!("currency = \"{currency}\"\n{}", rate("1.1"));
        Portfolio::read(&good.replace("currency = \"USD\"\n", &head)).unwrap().exchange.unwrap()
    };
    let rule = |head: &str, amount: &str, portfolio: Option<&Exchange>| {
        let text = format!("{head}max_p90_usd = 5\n[[rule]]\nbudget = {amount}\nmin_chance = 0.8\n");
        BudgetRule::of_policy(&text, portfolio).map(|rules| rules[0].budget.unwrap().to_string())
    };
    let (euros, pounds) = (portfolio("EUR"), portfolio("GBP"));
    // In dollars, whatever the portfolio is in, as policies were before they had a currency.
    assert_eq!(rule("", "1000", Some(&euros)).unwrap(), "1000.00");
    let own = format!("currency = \"EUR\"\n{}", rate("1.2"));
    // 1,000 euros of the policy are 1,000 of a portfolio in euros, and at its own rate what they are elsewhere.
    for amount in ["1000", "\"€1,000\""] {
        assert_eq!(rule(&own, amount, Some(&euros)).unwrap(), "1100.00");
        assert_eq!(rule("currency = \"EUR\"\n", amount, Some(&euros)).unwrap(), "1100.00");
        assert_eq!(rule(&own, amount, Some(&pounds)).unwrap(), "1200.00");
        assert_eq!(rule(&own, amount, None).unwrap(), "1200.00");
    }
    let refused = |head: &str, amount: &str, portfolio| match rule(head, amount, portfolio).unwrap_err() {
        PortfolioError::Invalid { line, detail, hint } => (line, detail, hint),
        other @ PortfolioError::Syntax(_) => panic!("{other:?}"),
    };
    let (line, detail, hint) = refused("currency = \"EUR\"\n", "1000", Some(&pounds));
    assert!(
        line == 1 && detail.contains("no rate of exchange is assumed") && hint.contains("exchange = {"),
        "{detail}"
    );
    assert!(refused(&rate("1.2"), "1000", None).1.contains("no `currency` is stated"));
    assert_eq!(refused("currency = \"euro\"\n", "1000", None).2, "currency = \"EUR\"");
    assert_eq!(refused(&own, "\"$1,000\"", None).2, "budget = \"833.33\"");
    assert_eq!(refused("", "\"€1,000\"", None).1, "budget: `€1,000` is in EUR, and this file is in USD");
}

#[test]
fn a_rate_of_exchange_is_never_assumed_and_amounts_are_what_they_say() {
    let good = GOOD.replace("after = [\"base\"]", "");
    let with = |currency: &str, more: &str| {
        refused(&good.replace("currency = \"USD\"\n", &format!("currency = \"{currency}\"\n{more}")))
    };
    let (line, detail, hint) = with("EUR", "");
    assert_eq!((line, detail.contains("no rate of exchange is assumed")), (2, true), "{detail}");
    assert!(
        hint.starts_with("exchange = { usd_per_unit = \"RATE\"") && hint.contains("dollars that one EUR is"),
        "{hint}"
    );
    for (word, code) in [("euro", "EUR"), ("€", "EUR"), ("eur", "EUR"), ("usd", "USD"), ("bitcoins", "USD")] {
        assert_eq!(with(word, "").2, format!("currency = \"{code}\""), "{word}");
    }
    let rate = |rate: &str| format!("exchange = {{ usd_per_unit = {rate}, source = \"ECB\", as_of = 2026-10-30 }}\n");
    assert!(with("USD", &rate("1")).1.contains("need no rate of exchange"));
    for wrong in ["0", "-1", "\"many\"", "5000"] {
        assert!(with("EUR", &rate(wrong)).1.contains("not the number of US dollars that one EUR is"), "{wrong}");
    }
    let (_, detail, hint) = with("EUR", "exchange = { usd_per_unit = 1.1 }\n");
    assert_eq!((detail.as_str(), hint.lines().count()), ("`exchange` needs `source` and `as_of`", 2));
    // What is offered can be typed: the amount itself, or the same in the currency of the portfolio.
    let euro = good.replace("currency = \"USD\"\n", &format!("currency = \"EUR\"\n{}", rate("\"1.0842\"")));
    for (amount, meant) in [
        ("20k", "20000"),
        ("20k€", "20000"),
        ("20.000", "20000"),
        ("20.000 €", "20000"),
        ("20.000,00 €", "20000.00"),
        ("20 000 EUR", "20000"),
        ("$21,684", "20000.00"),
        ("21684 USD", "20000.00"),
    ] {
        let text = euro.replace("budget = \"120,000\"", &format!("budget = \"{amount}\""));
        assert_eq!(refused(&text).2, format!("budget = \"{meant}\""), "{amount}: {}", refused(&text).1);
        assert!(Portfolio::read(&text.replace(&format!("\"{amount}\""), &format!("\"{meant}\""))).is_ok(), "{meant}");
    }
    let pounds = refused(&euro.replace("budget = \"120,000\"", "budget = \"£20,000\""));
    assert_eq!(pounds.1, "budget: `£20,000` is in GBP, and this file is in EUR");
    let dollars = |amount: &str| refused(&good.replace("budget = \"120,000\"", &format!("budget = \"{amount}\"")));
    assert_eq!(
        (dollars("20k").2, dollars("1.5m").2),
        ("budget = \"20000\"".to_owned(), "budget = \"1500000\"".to_owned())
    );
    let (_, detail, hint) = dollars("€20,000");
    assert_eq!(detail, "budget: `€20,000` is in EUR, and this file is in USD");
    assert!(hint.starts_with("currency = \"EUR\" with its rate"), "{hint}");
}
