//! The laws of a budget: lines add up, common factors widen, commitments lose when nobody uses them.
#![cfg(test)]

use proptest::prelude::*;

use super::*;
use crate::portfolio::CostSource;
use gpuplan_plan::normal::NORMAL_90;
use gpuplan_units::UsdPerHour;

fn now() -> Timestamp {
    "2026-12-15T00:00:00Z".parse().unwrap()
}

/// A portfolio of stated rates, and its budget.
fn answer(text: &str) -> Budget {
    let portfolio = Portfolio::read(text).unwrap();
    let once = once(&portfolio);
    budget(&portfolio, &once, InputsRecord::default(), now(), 3).unwrap()
}

fn once(portfolio: &Portfolio) -> Vec<PhaseCost> {
    let of = |what: &CostSource| match what {
        CostSource::Rate(rate) => PhaseCost::of_rate(rate).unwrap(),
        _ => panic!("a stated rate"),
    };
    portfolio.phases.iter().map(|phase| of(&phase.what)).collect()
}

const HEAD: &str = "currency = \"USD\"\nstart = \"2027-01\"\nmonths = 3\n[[team]]\nname = \"a\"\n[[team]]\nname = \"b\"\nbudget = 5000\n";

fn run(name: &str, more: &str) -> String {
    format!(
        "[[run]]\nname = \"{name}\"\nteam = \"b\"\nusd_per_hour = \"10\"\nhours = 100\nhours_p90 = 150\ncloud = \"aws\"\nsource = \"a quote\"\nas_of = 2026-10-01\n{more}\n"
    )
}

fn width(budget: &Budget) -> f64 {
    budget.total.cost_usd.p90.dollars() / budget.total.cost_usd.expected.dollars()
}

#[test]
fn the_figures_of_one_run_are_its_own() {
    let budget = answer(&format!("tax = \"excluded\"\n{HEAD}{}", run("one", "")));
    assert_eq!(budget.total.cost_usd.expected.to_string(), "1000.00");
    assert!((budget.total.cost_usd.p50.dollars() / 1000.0 - 1.0).abs() < 0.02, "{}", budget.total.cost_usd.p50);
    assert!((budget.total.cost_usd.p90.dollars() / 1500.0 - 1.0).abs() < 0.02, "{}", budget.total.cost_usd.p90);
    // The mean of a log-normal of this median and 90th percentile.
    let mean = 1000.0 * (0.5 * (1.5_f64.ln() / NORMAL_90).powi(2)).exp();
    assert!((budget.total.mean_of_draws_usd.dollars() / mean - 1.0).abs() < 0.02, "{}", budget.total.mean_of_draws_usd);
    assert_eq!(budget.breakdown.by_team[0].chance_within_budget, Some(1.0));
}

#[test]
fn repeats_even_out_on_demand_and_less_so_on_spot() {
    let tax = "tax = \"excluded\"\n";
    let once = width(&answer(&format!("{tax}{HEAD}{}", run("one", ""))));
    let many = width(&answer(&format!("{tax}{HEAD}{}", run("one", "repeats = 50"))));
    let spot = width(&answer(&format!("{tax}{HEAD}{}", run("one", "repeats = 50\npurchase = \"spot\""))));
    assert!(many < 1.0 + (once - 1.0) / 4.0, "{once} {many}");
    assert!(spot > 1.0 + (once - 1.0) / 2.0, "{once} {spot}");
}

#[test]
fn twenty_copies_of_a_workload_are_as_risky_as_twenty_repeats_and_other_workloads_a_little_less() {
    let many = |name: &dyn Fn(usize) -> String, count: usize, more: &str| {
        let runs: String = (0..count).map(|at| run(&format!("r{at}"), more)).collect();
        let text = format!("tax = \"excluded\"\nbudget = 22000\n{HEAD}{runs}");
        let portfolio = Portfolio::read(&text).unwrap();
        let mut once = once(&portfolio);
        for (at, once) in once.iter_mut().enumerate() {
            (once.estimate, once.estimate_share) = (name(at), 1.0);
        }
        budget(&portfolio, &once, InputsRecord::default(), now(), 3).unwrap()
    };
    let repeats = many(&|_| "one".to_owned(), 1, "repeats = 20");
    let copies = many(&|_| "one".to_owned(), 20, "");
    let others = many(&|at| at.to_string(), 20, "");
    assert!((width(&repeats) - width(&copies)).abs() < 1e-6, "{} {}", width(&repeats), width(&copies));
    assert!(
        width(&others) < width(&copies) && width(&others) > 1.0 + (width(&copies) - 1.0) / 4.0,
        "{}",
        width(&others)
    );
    let total = &others.total;
    assert!(
        total.chance_if_common < total.chance_within_budget && total.chance_within_budget < total.chance_if_independent,
        "{total:?}"
    );
}

#[test]
fn a_bad_spot_month_hits_all_its_runs_and_months_even_out() {
    let runs = |month: &dyn Fn(usize) -> usize| {
        let one = |at: usize| run(&format!("r{at}"), &format!("purchase = \"spot\"\nstart = \"2027-0{}\"", month(at)));
        format!("tax = \"excluded\"\n{HEAD}{}", (0..30).map(one).collect::<String>())
    };
    let together = width(&answer(&runs(&|_| 3)));
    let apart = width(&answer(&runs(&|at| at % 3 + 1)));
    assert!(together > apart + 0.02, "{together} {apart}");
}

#[test]
fn a_commitment_saves_where_it_is_used_and_loses_where_it_is_not() {
    let commitment = |nodes: u32| {
        format!(
            "[[commitment]]\nname = \"block\"\nkind = \"reservation\"\ncloud = \"aws\"\ninstance_type = \"p5\"\nnodes = {nodes}\n\
             usd_per_hour = \"6\"\nstart = \"2027-01\"\nmonths = 1\nsource = \"a quote\"\nas_of = 2026-10-01\n"
        )
    };
    let text = |hours: u32, nodes| {
        let run =
            run("one", "instance_type = \"p5\"").replace("hours = 100\nhours_p90 = 150", &format!("hours = {hours}"));
        format!("tax = \"excluded\"\n{HEAD}{run}{}", commitment(nodes))
    };
    // 744 hours of January at 6 and at 10 dollars: it pays from 446.4 hours on.
    let used = answer(&text(600, 1));
    assert_eq!(used.total.cost_usd.expected.to_string(), "4464.00");
    assert_eq!(used.commitments[0].saved_usd.to_string(), "1536.00");
    assert_eq!(used.commitments[0].chance_of_loss, 0.0);
    assert!((used.commitments[0].break_even_hours_per_month.unwrap() - 446.4).abs() < 1e-6);
    let idle = answer(&text(100, 1));
    assert_eq!(idle.commitments[0].saved_usd.to_string(), "-3464.00");
    assert_eq!(idle.commitments[0].chance_of_loss, 1.0);
    // One reserved machine is at most one of the two that a run needs.
    let half = answer(&text(600, 1).replace("hours = 600", "hours = 600\nnodes = 2"));
    assert_eq!(half.total.cost_usd.expected.to_string(), "10464.00");
    // One that costs nothing covers its 744 hours and no more, in the lines and in every draw alike.
    let free = |hours| answer(&text(hours, 1).replace("usd_per_hour = \"6\"", "usd_per_hour = 0"));
    let covered = free(600);
    assert_eq!(covered.total.cost_usd, Quantiles::default());
    assert_eq!(
        (covered.commitments[0].saved_usd.to_string(), covered.commitments[0].chance_of_loss),
        ("6000.00".to_owned(), 0.0)
    );
    assert_eq!(covered.lines[0].amount.quantity, 600.0);
    let beyond = answer(
        &text(400, 1)
            .replace("usd_per_hour = \"6\"", "usd_per_hour = 0")
            .replace("hours = 400", "hours = 400\nrepeats = 2"),
    );
    assert_eq!(beyond.total.cost_usd.expected.to_string(), "560.00");
    assert_eq!(beyond.total.cost_usd.p90, beyond.total.cost_usd.expected);
}

#[test]
fn the_months_added_up_end_at_the_total_and_even_out() {
    let runs: String = (0..6).map(|at| run(&format!("r{at}"), "months = 3\npurchase = \"spot\"")).collect();
    let budget = answer(&format!("tax = \"19 %\"\n{HEAD}{runs}"));
    let costs: Vec<Quantiles<Usd>> = budget.cumulative.iter().map(|until| until.cost_usd).collect();
    assert_eq!(costs.len(), 3);
    assert!(costs.windows(2).all(|pair| pair[0].expected < pair[1].expected && pair[0].p90 < pair[1].p90), "{costs:?}");
    let total = budget.total.cost_usd;
    assert_eq!(costs[2].expected, total.expected);
    assert!((costs[2].p90.dollars() / total.p90.dollars() - 1.0).abs() < 1e-6, "{costs:?} {total:?}");
    let apart: f64 = budget.breakdown.by_month.iter().map(|month| month.cost_usd.p90.dollars()).sum();
    assert!(costs[2].p90.dollars() < apart, "percentiles of months do not add up");
}

#[test]
fn the_same_seed_gives_the_same_budget_and_charges_carry_its_lines() {
    let text =
        format!("tax = \"19 %\"\n{HEAD}{}{}", run("one", "repeats = 3\nmonths = 2"), run("two", "purchase = \"spot\""));
    let (first, again) = (answer(&text), answer(&text));
    assert_eq!((&first.total, &first.lines), (&again.total, &again.lines));
    let charges = charges(&first);
    assert_eq!(charges.iter().map(|charge| charge.costs.list).sum::<Usd>(), first.total.cost_usd.expected);
    assert!(charges.iter().all(|charge| matches!(charge.nature, Nature::Forecast { p50, p90 } if p50 <= p90)));
    assert!(
        charges
            .iter()
            .all(|charge| charge.costs.billed.is_none() && !charge.source.is_empty() && !charge.assumption.is_empty())
    );
}

#[test]
fn what_is_beyond_counting_is_refused_by_its_line_and_costs_not_nothing() {
    let run = |name: &str, repeats: u32| {
        format!(
            "[[run]]\nname = \"{name}\"\nteam = \"a\"\nusd_per_hour = \"9000000000\"\nhours = 9999\nnodes = 100000\n\
             repeats = {repeats}\ncloud = \"aws\"\nsource = \"s\"\nas_of = 2026-10-01\n"
        )
    };
    let portfolio =
        Portfolio::read(&format!("tax = \"excluded\"\n{HEAD}{}{}", run("once", 1), run("often", 10_000))).unwrap();
    let refused = budget(&portfolio, &once(&portfolio), InputsRecord::default(), now(), 3).unwrap_err();
    let said = "line 20: with `often` the portfolio costs more than this program can count";
    assert_eq!(refused.to_string(), said);
    assert!(matches!(refused, PortfolioError::Invalid { hint, .. } if hint.contains("`repeats`")));
}

#[test]
fn hours_that_are_stated_without_a_spread_have_none() {
    for hours in (1..3000).map(|step| f64::from(step) * 0.07) {
        let stated = run("one", "").replace("hours = 100\nhours_p90 = 150", &format!("hours = {hours}"));
        let portfolio = Portfolio::read(&format!("tax = \"excluded\"\n{HEAD}{stated}")).unwrap();
        let cost = once(&portfolio).remove(0);
        assert_eq!((cost.shape.ratio_at(-1.0), cost.shape.ratio_at(1.0)), (1.0, 1.0), "{hours}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn lines_add_up_to_the_nano_dollar(
        rates in prop::collection::vec((1_i64..99_999_999_999, 0.001_f64..900.0, 1_u32..9, 1_u32..4, 1_u32..40), 1..6),
        tax in 0_u32..250_000,
    ) {
        let whole = tax / 10_000;
        let mut text = format!("tax = \"{whole}.{:04} %\"\n{HEAD}", tax % 10_000);
        for (at, (rate, hours, nodes, months, repeats)) in rates.iter().enumerate() {
            text.push_str(&format!(
                "[[run]]\nname = \"r{at}\"\nteam = \"a\"\nusd_per_hour = \"{}\"\nhours = {hours}\nnodes = {nodes}\nmonths = {months}\n\
                 repeats = {repeats}\ncloud = \"aws\"\ninstance_type = \"p5\"\nsource = \"s\"\nas_of = 2026-10-01\n",
                UsdPerHour::from_nanos(*rate)
            ));
        }
        text.push_str("[[commitment]]\nname = \"plan\"\nkind = \"savings-plan\"\ncloud = \"aws\"\npercent = 27.5\nusd_per_hour = \"1.23\"\nsource = \"s\"\nas_of = 2026-10-01\n");
        let portfolio = Portfolio::read(&text).unwrap();
        let once = once(&portfolio);
        let costed: Vec<CostedPhase> = portfolio.phases.iter().zip(&once).map(|(phase, once)| CostedPhase { phase, once, placed: &[] }).collect();
        let lines = BudgetLines::new(&portfolio, &costed);
        let untaxed: Usd = lines.lines.iter().filter(|line| line.origin != LineOrigin::Tax).map(|line| line.amount.cost_usd).sum();
        let (paid, spared) = (
            portfolio.months_of(&portfolio.commitments[0]).map(|month| portfolio.commitments[0].in_month(month)).sum::<Usd>(),
            lines.covered[0].on_demand,
        );
        // What each run costs on demand, less what is spared, and all that the commitment costs.
        let runs = portfolio.phases.iter().zip(&once).map(|(phase, once)| once.cost.expected.nanos() * i128::from(phase.repeats)).sum::<i128>();
        prop_assert_eq!(untaxed, Usd::from_nanos(runs) - spared + paid);
        let taxes: Usd = lines.lines.iter().filter(|line| line.origin == LineOrigin::Tax).map(|line| line.amount.cost_usd).sum();
        // Rounded once a line.
        let of_all = portfolio.tax.on(untaxed);
        let rounded = lines.lines.iter().filter(|line| line.origin == LineOrigin::Tax).count() as i128;
        prop_assert!((taxes - of_all).nanos().abs() <= rounded);
        prop_assert_eq!(lines.total(), untaxed + taxes);
    }
}

#[test]
fn a_broken_rule_fails_warns_or_is_allowed_until_the_approval_ends() {
    use crate::portfolio::verdict::Verdict;
    let of = |rule: &str| {
        let text = format!("tax = \"excluded\"\nbudget = 900\n{HEAD}[[rule]]\n{rule}\n{}", run("one", ""));
        let result = answer(&text).rules[0].clone();
        (result.verdict, result.found)
    };
    // The median is $1,000.
    let (verdict, chance) = of("min_chance = 0.5");
    assert!(verdict == Verdict::Broken && chance.unwrap() < 0.5, "{chance:?}");
    assert_eq!(of("min_chance = 0.01").0, Verdict::Kept);
    assert_eq!(of("min_chance = 0.5\non_break = \"warn\"").0, Verdict::Warned);
    let until = |day: &str| of(&format!("min_chance = 0.5\napproved_by = \"cfo\"\napproved_until = {day}")).0;
    assert_eq!((until("2026-12-15"), until("2026-12-14")), (Verdict::Approved, Verdict::Broken), "now is 2026-12-15");
    // January has everything, February nothing; team `b` has $5,000.
    assert_eq!(of("month = \"2027-01\"\nbudget = 900\nmin_chance = 0.5").0, Verdict::Broken);
    assert_eq!(of("month = \"2027-02\"\nbudget = 900\nmin_chance = 0.5"), (Verdict::Kept, Some(1.0)));
    assert_eq!(of("team = \"b\"\nmin_chance = 0.99"), (Verdict::Kept, Some(1.0)));
    // The quote is of 2026-10-01, 75 days ago.
    assert_eq!(of("max_price_age = \"80d\""), (Verdict::Kept, Some(0.0)));
    assert_eq!(of("max_price_age = \"70d\"\nmax_old_share = \"50 %\""), (Verdict::Broken, Some(1.0)));
}
