//! Tests of `assignment.rs`, and of what a budget makes of it: nothing that is held is ever sold twice.

#![cfg(test)]

use proptest::prelude::*;

use super::*;
use crate::Item;
use crate::portfolio::CostSource;
use crate::portfolio::budget::{Budget, budget};
use crate::portfolio::planned::HeldPlan;
use crate::portfolio::planned::PhaseCost;
use gpuplan_plan::document::InputsRecord;
use gpuplan_units::Usd;

/// `(nodes, hours, repeats, months)` of phases at $55.04 an hour and machine, and a portfolio of so many months.
fn portfolio(phases: &[(u32, u32, u32, u32)], months: u32, pools: &str) -> Portfolio {
    let phase = |(at, (nodes, hours, repeats, months)): (usize, &(u32, u32, u32, u32))| {
        format!(
            "[[run]]\nname = \"r{at}\"\nteam = \"a\"\nusd_per_hour = \"55.04\"\nnodes = {nodes}\nhours = {hours}\nrepeats = {repeats}\n\
             months = {months}\ncloud = \"aws\"\ninstance_type = \"p5.48xlarge\"\nsource = \"a quote\"\nas_of = 2026-10-01\n"
        )
    };
    let phases: String = phases.iter().enumerate().map(phase).collect();
    let mut portfolio = Portfolio::read(&format!(
        "currency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-11\"\nmonths = {months}\n[[team]]\nname = \"a\"\n{phases}{pools}"
    ))
    .unwrap();
    portfolio.pools = portfolio.capacity.pools().unwrap();
    portfolio
}

fn committed(name: &str, nodes: u32, more: &str) -> String {
    format!(
        "[[committed]]\nname = \"{name}\"\ncloud = \"aws\"\ninstance_type = \"p5.48xlarge\"\nregion = \"us-east-1\"\nnodes = {nodes}\n\
         usd_per_hour = \"31.46\"\n{more}\n"
    )
}

fn costs(portfolio: &Portfolio) -> Vec<PhaseCost> {
    let cost = |what: &CostSource| {
        let CostSource::Rate(rate) = what else { panic!("a stated rate") };
        let mut once = PhaseCost::of_rate(rate).unwrap();
        let pools = portfolio.pools.iter().enumerate();
        once.held = pools.filter_map(|(at, pool)| HeldPlan::of_the_same(at, pool, &once)).collect();
        once
    };
    portfolio.phases.iter().map(|phase| cost(&phase.what)).collect()
}

fn answer(portfolio: &Portfolio) -> Budget {
    let now = "2026-11-20T00:00:00Z".parse().unwrap();
    budget(portfolio, &costs(portfolio), InputsRecord::default(), now, 3).unwrap()
}

/// Machine-hours on the pool in each month, from the lines alone.
fn used(budget: &Budget, pool: &str, month: Month) -> f64 {
    let on_pool = |line: &&crate::portfolio::lines::BudgetLine| {
        line.month == month && line.item == Item::Machines && line.id.ends_with(&format!("/{pool}/machines"))
    };
    budget.lines.iter().filter(on_pool).map(|line| line.amount.quantity).sum()
}

#[test]
fn two_machines_of_november_are_not_sold_to_five_thousand_runs() {
    // Two committed machines have 1,440 hours in November; the runs want 3,125 and 1,400.
    let portfolio = portfolio(&[(1, 1, 3125, 1), (2, 700, 1, 1)], 1, &committed("year", 2, ""));
    let budget = answer(&portfolio);
    let november = Month::parse("2026-11").unwrap();
    let hours = used(&budget, "year", november);
    assert!(hours <= 1440.0 && hours > 1400.0, "{hours}");
    let held = budget.held.as_ref().unwrap();
    assert_eq!((held.pools[0].held_hours, held.pools[0].used_hours), (1440.0, hours));
    // What is prepaid is in the budget, once, and the rest is rented: $45,302.40 and 3,085 hours at $55.04.
    assert_eq!(held.pools[0].paid_usd.to_string(), "45302.40");
    let rented = Usd::from_dollars((3125.0 + 1400.0 - hours) * 55.04).unwrap();
    assert_eq!(budget.total.cost_usd.expected, held.pools[0].paid_usd + rented);
    let sum: Usd = budget.lines.iter().map(|line| line.amount.cost_usd).sum();
    assert_eq!(sum, budget.total.cost_usd.expected);
    // A third machine would take 720 hours from the list price.
    let worth = held.pools[0].one_more_saves_usd.dollars();
    assert!((worth / (720.0 * 55.04) - 1.0).abs() < 0.01, "{worth}");
    assert!(held.most_saved_usd >= held.saved_usd, "{held:?}");
}

#[test]
fn a_pool_is_used_up_over_the_months_and_only_while_it_is_there() {
    let until = committed("year", 1, "until = 2026-12-11");
    let portfolio = portfolio(&[(1, 100, 20, 2)], 2, &until);
    let budget = answer(&portfolio);
    let months = ["2026-11", "2026-12"].map(|month| used(&budget, "year", Month::parse(month).unwrap()));
    // December has ten days, and a phase is spread evenly: 240 hours allow four runs of 50 hours a month.
    assert_eq!(months, [200.0, 200.0]);
    assert_eq!(budget.held.unwrap().pools[0].held_hours, 720.0 + 240.0);
}

#[test]
fn a_run_takes_no_pool_that_is_too_small_or_too_short_for_it() {
    for phase in [(3, 10, 1, 1), (2, 721, 1, 2)] {
        let short = committed("year", 2, "until = 2026-12-01");
        let budget = answer(&portfolio(&[phase], 2, &short));
        assert_eq!(budget.held.unwrap().pools[0].used_hours, 0.0, "{phase:?}");
    }
}

#[test]
fn own_machines_cost_their_power_in_cash_and_their_value_beside_it() {
    let mut portfolio = portfolio(&[(1, 300, 1, 1)], 1, "");
    let own = "[[own]]\nname = \"lab\"\ngpu = \"h100-sxm5-80\"\ngpus_per_node = 8\nnodes = 1\nusd_per_hour = \"2.5\"\nfull_usd_per_hour = \"14\"\n";
    portfolio.pools = gpuplan_market::Capacity::read(own).unwrap().pools().unwrap();
    let mut once = costs(&portfolio);
    once[0].held = vec![HeldPlan::of_plan(0, once[0].clone()).unwrap()];
    let now = "2026-11-20T00:00:00Z".parse().unwrap();
    let budget = budget(&portfolio, &once, InputsRecord::default(), now, 3).unwrap();
    assert_eq!(budget.total.cost_usd.expected.to_string(), "750.00");
    assert_eq!(budget.held.unwrap().full_cost_usd.to_string(), "9030.00", "11.50 for all 720 hours, used or not");
}

#[test]
fn a_run_of_two_months_does_not_fit_one() {
    let portfolio = portfolio(&[(1, 1277, 1, 1)], 1, "");
    let now = "2026-11-20T00:00:00Z".parse().unwrap();
    let refused = budget(&portfolio, &costs(&portfolio), InputsRecord::default(), now, 3).unwrap_err().to_string();
    assert_eq!(refused, "line 7: one run of `r0` takes 53.2 d, longer than its month from 2026-11");
}

#[test]
fn two_runs_that_fill_a_machine_go_before_one_that_leaves_a_part_of_it() {
    // Until the fifth of November there are 96 hours: 60 of the first run, or twice 48.
    let until = committed("block", 1, "until = 2026-11-05");
    let budget = answer(&portfolio(&[(1, 60, 1, 1), (1, 48, 2, 1)], 1, &until));
    let held = budget.held.unwrap();
    assert_eq!(held.pools[0].used_hours, 96.0);
    assert_eq!(held.saved_usd, held.most_saved_usd);
}

#[test]
fn the_number_of_machines_that_saves_most_is_told() {
    // Three machines are busy all of November, a fourth for half of it.
    let portfolio = portfolio(&[(1, 720, 3, 1), (1, 360, 1, 1)], 1, &committed("year", 2, ""));
    let held = answer(&portfolio).held.unwrap();
    let sizes = &held.pools[0].sizes;
    assert_eq!(sizes.iter().map(|size| size.nodes).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let net: Vec<f64> = sizes.iter().map(|size| size.net_usd.dollars().round()).collect();
    // $55.04 of rent against $31.46 for each hour, used or not.
    let each = 720.0 * (55.04 - 31.46);
    let expected = [0.0, each, 2.0 * each, 3.0 * each, 3.0 * each + 360.0 * 55.04 - 720.0 * 31.46];
    assert_eq!(net, expected.map(f64::round));
    assert_eq!(held.pools[0].best_nodes, 3);
    assert!(sizes.iter().all(|size| size.net_usd_with_less_work <= size.net_usd), "{sizes:?}");
    assert!(held.less_work > 0.0 && held.less_work <= 1.0);
}

#[test]
fn two_commitments_that_would_take_the_same_runs_are_not_both_advised() {
    // Three machines have work all of November. Two pools of two machines each, the second a third cheaper.
    let pools = committed("year", 2, "") + &committed("quarter", 2, "").replace("31.46", "20.00");
    let portfolio = portfolio(&[(1, 720, 3, 1)], 1, &pools);
    let held = answer(&portfolio).held.unwrap();
    let best = held.best.unwrap();
    assert_eq!(best.nodes, [0, 3], "{best:?}");
    assert_eq!(best.net_usd, Usd::from_dollars(3.0 * 720.0 * (55.04 - 20.0)).unwrap());
    assert_eq!((best.rented_on_demand_usd, best.rented_on_spot_usd), (Usd::ZERO, Usd::ZERO));
    // As they are, one of the four machines stands idle.
    let now = 3.0 * 720.0 * 55.04 - 2.0 * 720.0 * (31.46 + 20.0);
    assert_eq!(best.net_usd_now, Usd::from_dollars(now).unwrap());
    assert!(best.most_net_usd >= best.net_usd && held.best_with_less_work.unwrap().net_usd <= best.net_usd);
}

#[test]
fn what_is_rented_beside_commitments_is_on_the_terms_of_its_plan() {
    // At $60 an hour, a machine that rents for $55.04 is never held.
    let dear = committed("year", 1, "").replace("31.46", "60.00");
    let portfolio = portfolio(&[(1, 100, 3, 1), (1, 50, 1, 1)], 1, &dear);
    let mut once = costs(&portfolio);
    once[1].machines.purchase = "spot".to_owned();
    once[1].held.clear();
    let now = "2026-11-20T00:00:00Z".parse().unwrap();
    let budget = budget(&portfolio, &once, InputsRecord::default(), now, 3).unwrap();
    let best = budget.held.unwrap().best.unwrap();
    assert_eq!((best.nodes.as_slice(), best.net_usd), (&[0][..], Usd::ZERO));
    let usd = |hours: f64| Usd::from_dollars(hours * 55.04).unwrap();
    assert_eq!((best.rented_on_demand_usd, best.rented_on_spot_usd), (usd(300.0), usd(50.0)));
}

/// The most that whole repeats on one pool can save, by trying all.
fn best(capacity: f64, phases: &[(u32, u32, u32, u32)]) -> f64 {
    let Some(((nodes, hours, repeats, _), rest)) = phases.split_first() else { return 0.0 };
    let each = f64::from(nodes * hours);
    (0..=*repeats)
        .take_while(|times| f64::from(*times) * each <= capacity)
        .map(|times| f64::from(times) * each * 55.04 + best(capacity - f64::from(times) * each, rest))
        .fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn capacity_used_never_exceeds_capacity_held(
        phases in proptest::collection::vec((1_u32..5, 1_u32..700, 1_u32..40, 1_u32..4), 1..8),
        pools in proptest::collection::vec((1_u32..6, 1_u32..29, proptest::bool::ANY), 1..4),
    ) {
        let pool = |(at, (nodes, day, ends)): (usize, &(u32, u32, bool))| {
            let limit = if *ends { format!("until = 2026-12-{day:02}") } else { format!("from = 2026-11-{day:02}") };
            committed(&format!("p{at}"), *nodes, &limit)
        };
        let pools: String = pools.iter().enumerate().map(pool).collect();
        let portfolio = portfolio(&phases, 3, &pools);
        let budget = answer(&portfolio);
        let held = budget.held.as_ref().unwrap();
        for pool in &portfolio.pools {
            for month in portfolio.all_months() {
                prop_assert!(used(&budget, &pool.name, month) <= machine_hours_in(pool, month) * (1.0 + 1e-12));
            }
        }
        prop_assert!(held.saved_usd <= held.most_saved_usd);
        // Everything that is asked for is done somewhere, and everything that is prepaid is paid once.
        let wanted: f64 = phases.iter().map(|(nodes, hours, repeats, _)| f64::from(nodes * hours * repeats)).sum();
        let done: f64 = budget.lines.iter().filter(|line| line.item == Item::Machines).map(|line| line.amount.quantity).sum();
        prop_assert!((done / wanted - 1.0).abs() < 1e-9, "{} {}", done, wanted);
        let rented: f64 = wanted - held.pools.iter().map(|pool| pool.used_hours).sum::<f64>();
        let paid: f64 = held.pools.iter().map(|pool| pool.paid_usd.dollars()).sum();
        let total = budget.total.cost_usd.expected.dollars();
        prop_assert!((total - rented * 55.04 - paid).abs() < 1e-3, "{} {} {}", total, rented, paid);
        // In no draw is more used than there is either: what is not used is never less than nothing.
        for line in budget.lines.iter().filter(|line| line.item == Item::UnusedCommitment) {
            prop_assert!(line.amount.p50_usd >= Usd::ZERO && line.amount.quantity >= -1e-6);
        }
    }

    #[test]
    fn no_other_assignment_saves_more(phases in proptest::collection::vec((1_u32..3, 1_u32..300, 1_u32..4, 1_u32..2), 1..5)) {
        saves_most(&phases);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn no_other_numbers_of_machines_save_more(
        phases in proptest::collection::vec((1_u32..3, 1_u32..700, 1_u32..5, 1_u32..2), 1..5),
        nodes in (1_u32..3, 1_u32..3),
        cheaper in 2_000_u32..5_500,
    ) {
        let second = committed("b", nodes.1, "").replace("31.46", &format!("{}.{:02}", cheaper / 100, cheaper % 100));
        let portfolio = portfolio(&phases, 1, &(committed("a", nodes.0, "") + &second));
        let best = answer(&portfolio).held.unwrap().best.unwrap();
        let once = costs(&portfolio);
        let costed: Vec<CostedPhase> =
            portfolio.phases.iter().zip(&once).map(|(phase, once)| CostedPhase { phase, once, placed: &[] }).collect();
        let net = |numbers: [u32; 2]| {
            let mut pools = portfolio.pools.clone();
            pools.iter_mut().zip(numbers).for_each(|(pool, nodes)| pool.nodes = nodes);
            let paid: f64 = pools.iter().map(|pool| 720.0 * pool.paid.dollars() * f64::from(pool.nodes)).sum();
            assign(&portfolio, &pools, &costed, 1.0).saved_usd - paid
        };
        let numbers = (0..=2 * nodes.0).flat_map(|a| (0..=2 * nodes.1).map(move |b| [a, b]));
        let most = numbers.map(net).fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(best.net_usd.dollars() >= most - 0.02, "{:?} where {} is possible", best, most);
        prop_assert!(best.most_net_usd >= best.net_usd);
    }
}

/// Against all assignments to the machines of one pool.
fn saves_most(phases: &[(u32, u32, u32, u32)]) {
    let portfolio = portfolio(phases, 1, &committed("year", 2, ""));
    let held = answer(&portfolio).held.unwrap();
    let best = best(1440.0, phases);
    assert!((held.saved_usd.dollars() - best).abs() <= 0.01, "{held:?} {best}");
    // The solver takes a number for whole that is so to a millionth, and its bound may be so much higher for each phase.
    let (lowest, highest) = (best - 0.01, best + 0.01 + 1e-6 * held.full_cost_usd.dollars());
    assert!((lowest..=highest).contains(&held.most_saved_usd.dollars()), "{held:?} {best}");
}

#[test]
fn a_bound_is_as_tight_as_its_solver_counts() {
    saves_most(&[(2, 233, 1, 1), (2, 269, 2, 1)]);
}
