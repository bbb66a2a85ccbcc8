//! A budget for a person: the sum and its chance first, then by month, team, cloud and GPU, then what would change it.
//! The same tables serve the terminal and Markdown.

use crate::finance::carbon_text;
use crate::finance::money::Money;
use crate::finance::rules_text;
use crate::finance::sections::{self, Section};
use crate::text::format;
use crate::text::table::{Column, footer};
use gpuplan_budget::Budget;
use gpuplan_budget::portfolio::budget::{
    BestCommitment, CostGroup, HeldMachines, Period, PhaseFigures, PoolFigures, TermCommitment,
};
use gpuplan_budget::portfolio::unit_costs::UnitCosts;
use gpuplan_units::{Hours, Usd};

/// For a terminal.
pub fn text(budget: &Budget, width: u16, most_rows: usize) -> String {
    sections::text(&head(budget), sections(budget, most_rows), &budget.assumptions, Some(&traced(budget)), width)
}

/// For a page or a comment.
pub fn markdown(budget: &Budget, most_rows: usize) -> String {
    sections::markdown(&head(budget), sections(budget, most_rows), &budget.assumptions, Some(&traced(budget)))
}

fn head(budget: &Budget) -> Vec<String> {
    let money = Money::in_currency(budget.exchange.as_ref());
    let cost = budget.total.cost_usd;
    let last = budget.period.start.ahead(budget.period.months).back();
    let tax =
        if budget.tax == "excluded" { "tax excluded".to_owned() } else { format!("tax of {} included", budget.tax) };
    let mut lines = vec![
        format!(
            "{}: {} to {last}, {}, {}, {tax}",
            budget.name,
            budget.period.start,
            if budget.phases.len() == 1 { "1 phase".to_owned() } else { format!("{} phases", budget.phases.len()) },
            money.name()
        ),
        format!(
            "{} expected; with probability 0.9 under {}, with probability 0.5 under {}",
            money.usd(cost.expected),
            money.usd(cost.p90),
            money.usd(cost.p50)
        ),
    ];
    lines.extend(money.average(cost.expected, budget.total.mean_of_draws_usd));
    if let (Some(limit), Some(chance)) = (budget.total.budget_usd, budget.total.chance_within_budget) {
        let kept = format!("Budget of {}: kept with probability {}", money.usd(limit), format::probability(chance));
        lines.push(match (budget.total.chance_if_independent, budget.total.chance_if_common) {
            (Some(independent), Some(common)) => format!(
                "{kept}; {} if the errors of the estimates had nothing in common, {} if they were one",
                format::probability(independent),
                format::probability(common)
            ),
            _ => kept,
        });
    }
    if let Some(saved) = budget.total.saved_usd {
        lines.push(if saved < Usd::ZERO {
            format!("Spot and commitments cost {} more than the same machines on demand", money.usd(Usd::ZERO - saved))
        } else {
            format!("Spot and commitments save {} against the same machines on demand", money.usd(saved))
        });
    }
    let age = budget.total.price_age;
    if let Some(oldest) = age.oldest.filter(|_| age.older_share >= 0.005) {
        lines.push(format!(
            "{:.0} % of the sum rests on prices older than {:.0} days; the oldest is of {}",
            age.older_share * 100.0,
            age.older_than_days,
            oldest.strftime("%Y-%m-%d")
        ));
    }
    lines
}

fn traced(budget: &Budget) -> String {
    format!(
        "{} lines, each with quantity, rate, source, date and assumption, add up to the sum: --output csv or json shows them.",
        format::thousands(budget.lines.len() as i128)
    )
}

fn sections(budget: &Budget, most: usize) -> Vec<Section> {
    let money = Money::in_currency(budget.exchange.as_ref());
    let rules = (!budget.rules.is_empty()).then(|| Section {
        title: "What the budget has to keep".to_owned(),
        columns: rules_text::columns(),
        rows: rules_text::rows(&budget.rules, money),
        foot: String::new(),
    });
    let mut sections: Vec<Section> = rules.into_iter().collect();
    sections.extend([
        cost_groups("By month", "month", &budget.breakdown.by_month, money),
        cost_groups("By team", "team", &budget.breakdown.by_team, money),
        cost_groups("By cloud", "cloud", &budget.breakdown.by_cloud, money),
        cost_groups("By GPU", "GPU", &budget.breakdown.by_gpu, money),
        phases(budget, most),
    ]);
    sections.extend(unit_costs(budget, most));
    sections.extend(held(budget));
    sections.extend(commitments(budget));
    sections.extend(term_commitments(budget));
    sections.extend(other_clouds(budget, most));
    sections.extend(sensitivity(budget));
    sections.extend(budget.footprint.as_ref().map(|footprint| carbon_text::section(footprint, most)));
    sections
}

fn cost_groups(title: &str, name: &'static str, groups: &[CostGroup], money: Money) -> Section {
    let has_budget = groups.iter().any(|group| group.budget_usd.is_some());
    let mut columns =
        vec![Column::left(name, 0), Column::right("expected", 0), Column::right("50 %", 0), Column::right("90 %", 0)];
    if has_budget {
        columns.extend([Column::right("budget", 0), Column::right("kept with", 0)]);
    }
    let row = |group: &CostGroup| {
        let cost = group.cost_usd;
        let mut cells = vec![group.name.clone(), money.usd(cost.expected), money.usd(cost.p50), money.usd(cost.p90)];
        if has_budget {
            cells.push(group.budget_usd.map_or_else(|| "-".to_owned(), |amount| money.usd(amount)));
            cells.push(group.chance_within_budget.map_or_else(|| "-".to_owned(), format::probability));
        }
        cells
    };
    Section { title: title.to_owned(), columns, rows: groups.iter().map(row).collect(), foot: String::new() }
}

/// The cost of one kind of unit; `None`: the workload states none.
type OfUnit = fn(&UnitCosts) -> Option<Usd>;

/// `None`: no workload states anything to count by.
fn unit_costs(budget: &Budget, most: usize) -> Option<Section> {
    let money = Money::in_currency(budget.exchange.as_ref());
    let mut counted: Vec<_> = budget.phases.iter().filter_map(|phase| Some((phase, phase.unit_costs?))).collect();
    counted.sort_by_key(|(phase, _)| std::cmp::Reverse(phase.cost_usd.expected));
    let units: [(&'static str, OfUnit); 5] = [
        ("experiment", |costs| costs.experiment_usd),
        ("epoch", |costs| costs.epoch_usd),
        ("million tokens", |costs| costs.million_tokens_usd),
        ("thousand samples", |costs| costs.thousand_samples_usd),
        ("thousand requests", |costs| costs.thousand_requests_usd),
    ];
    let shown: Vec<_> =
        units.into_iter().filter(|(_, of)| counted.iter().any(|(_, costs)| of(costs).is_some())).collect();
    let mut columns = vec![Column::left("phase", 0), Column::right("each time", 0), Column::right("GPUs busy", 0)];
    columns.extend(shown.iter().map(|(unit, _)| Column::right(unit, 0)));
    let row = |(phase, costs): &(&PhaseFigures, UnitCosts)| {
        let busy = phase.gpu_utilization.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let mut cells = vec![phase.phase.clone(), money.usd(phase.cost_each_usd.expected), busy];
        cells.extend(
            shown.iter().map(|(_, of)| of(costs).map_or_else(|| "-".to_owned(), |amount| small(amount, money))),
        );
        cells
    };
    let rows: Vec<Vec<String>> = counted.iter().take(most).map(row).collect();
    (!rows.is_empty()).then(|| Section {
        title: "What a unit costs, before commitments".to_owned(),
        columns,
        rows,
        foot: String::new(),
    })
}

/// Three figures of what is less than a dollar or another unit.
fn small(amount: Usd, money: Money) -> String {
    let dollars = money.units(amount).dollars();
    if dollars >= 1.0 || dollars <= 0.0 {
        return money.usd(amount);
    }
    let digits = (2.0 - dollars.log10().floor()).clamp(2.0, 9.0) as usize;
    money.signed(&format!("${dollars:.digits$}"))
}

fn phases(budget: &Budget, most: usize) -> Section {
    let money = Money::in_currency(budget.exchange.as_ref());
    let mut columns = vec![
        Column::left("phase", 0),
        Column::left("team", 120),
        Column::left("months", 0),
        Column::right("times", 0),
        Column::left("machines", 140),
        Column::left("terms", 100),
        Column::right("hours each", 0),
        Column::right("expected", 0),
        Column::right("90 %", 0),
    ];
    let saves = budget.phases.iter().any(|phase| phase.saved_usd.is_some());
    columns.extend(saves.then_some(Column::right("saves", 110)));
    let mut by_cost: Vec<_> = budget.phases.iter().collect();
    by_cost.sort_by_key(|phase| std::cmp::Reverse(phase.cost_usd.expected));
    let rows = by_cost.iter().take(most).map(|phase| {
        let Period { start, months } = phase.period;
        let months = if months > 1 { format!("{start} +{}", months - 1) } else { start.to_string() };
        let mut cells = vec![
            phase.phase.clone(),
            phase.team.clone(),
            months,
            phase.repeats.to_string(),
            format::machines(phase.nodes, phase.gpu.as_deref(), &phase.cloud),
            phase.purchase.clone(),
            Hours(phase.run_hours.expected).to_string(),
            money.usd(phase.cost_usd.expected),
            money.usd(phase.cost_usd.p90),
        ];
        cells.extend(saves.then(|| phase.saved_usd.map_or_else(|| "-".to_owned(), |amount| money.change(amount))));
        cells
    });
    let foot = footer(most.min(budget.phases.len()), budget.phases.len(), "--max-results shows more");
    let title = if budget.tax == "excluded" { "By phase" } else { "By phase, before tax" };
    Section { title: title.to_owned(), rows: rows.collect(), columns, foot }
}

/// The best number of machines of each pool in one of ten outcomes.
fn with_less_work(held: &HeldMachines) -> String {
    let of_pool = |pool: &PoolFigures| {
        let best = pool.sizes.iter().rev().max_by_key(|size| size.net_usd_with_less_work)?;
        Some(format!("{} of {}", best.nodes, pool.name))
    };
    held.pools.iter().filter_map(of_pool).collect::<Vec<_>>().join(", ")
}

/// How many machines of all pools together.
fn best_commitment(held: &HeldMachines, money: Money) -> String {
    let Some(best) = &held.best else { return String::new() };
    let numbers = |best: &BestCommitment| {
        let of_pool = |(pool, nodes): (&PoolFigures, &u32)| format!("{nodes} of {}", pool.name);
        held.pools.iter().zip(&best.nodes).map(of_pool).collect::<Vec<_>>().join(", ")
    };
    let with_less = held
        .best_with_less_work
        .as_ref()
        .map_or(String::new(), |less| format!("; with {:.0} % of the work: {}", 100.0 * held.less_work, numbers(less)));
    format!(
        "All of them chosen together: {}, with {} of rent on spot and {} on demand beside them; that saves {} beyond what they cost, now it \
         is {}, and no numbers up to twice as many save more than {}{with_less}.\n",
        numbers(best),
        money.usd(best.rented_on_spot_usd),
        money.usd(best.rented_on_demand_usd),
        money.usd(best.net_usd),
        money.usd(best.net_usd_now),
        money.usd(best.most_net_usd),
    )
}

fn held(budget: &Budget) -> Option<Section> {
    let money = Money::in_currency(budget.exchange.as_ref());
    let held = budget.held.as_ref()?;
    let columns = vec![
        Column::left("held", 0),
        Column::left("machines", 100),
        Column::right("paid", 0),
        Column::right("hours", 0),
        Column::right("used", 0),
        Column::right("one more saves", 0),
        Column::right("best size", 0),
    ];
    let row = |pool: &PoolFigures| {
        let best = pool.sizes.iter().find(|size| size.nodes == pool.best_nodes);
        vec![
            pool.name.clone(),
            format!("{} x {} on {}", pool.nodes, pool.instance_type, pool.cloud),
            money.usd(pool.paid_usd),
            format::thousands(pool.held_hours as i128),
            format!("{:.0} %", 100.0 * pool.used_hours / pool.held_hours.max(f64::MIN_POSITIVE)),
            money.usd(pool.one_more_saves_usd),
            best.map_or(String::new(), |best| format!("{} ({})", best.nodes, money.usd(best.net_usd))),
        ]
    };
    let foot = format!(
        "They save {} of rent; no assignment saves more than {}. With what own machines lose in value, everything costs {}.\nBest size: the number of \
         machines that saves most rent beyond what it costs; with {:.0} % of the work: {}.\n{}Rule: {}.\n",
        money.usd(held.saved_usd),
        money.usd(held.most_saved_usd),
        money.usd(held.full_cost_usd),
        100.0 * held.less_work,
        with_less_work(held),
        best_commitment(held, money),
        held.rule
    );
    Some(Section {
        title: "Machines that are held".to_owned(),
        rows: held.pools.iter().map(row).collect(),
        columns,
        foot,
    })
}

fn commitments(budget: &Budget) -> Option<Section> {
    let money = Money::in_currency(budget.exchange.as_ref());
    let columns = vec![
        Column::left("commitment", 0),
        Column::left("kind", 100),
        Column::right("paid", 0),
        Column::right("used", 0),
        Column::right("saves", 0),
        Column::right("pays from", 0),
        Column::right("loses with", 0),
    ];
    let rows: Vec<Vec<String>> = budget
        .commitments
        .iter()
        .map(|figures| {
            let from = figures.break_even_use.zip(figures.break_even_hours_per_month);
            vec![
                figures.name.clone(),
                figures.kind.to_owned(),
                money.usd(figures.paid_usd),
                format!("{:.0} %", figures.expected_use * 100.0),
                money.change(figures.saved_usd),
                from.map_or_else(
                    || "-".to_owned(),
                    |(share, hours)| format!("{:.0} %, {hours:.0} h a month", share * 100.0),
                ),
                format::probability(figures.chance_of_loss),
            ]
        })
        .collect();
    let foot = budget.commitments.first().map_or(String::new(), |figures| format!("Each {}.\n", figures.assumption));
    (!rows.is_empty()).then(|| Section { title: "Commitments of the portfolio".to_owned(), columns, rows, foot })
}

fn term_commitments(budget: &Budget) -> Option<Section> {
    let money = Money::in_currency(budget.exchange.as_ref());
    let columns = vec![
        Column::left("machines", 0),
        Column::left("for", 0),
        Column::right("a year", 100),
        Column::right("pays from", 0),
        Column::right("used", 0),
        Column::right("saves a year", 0),
    ];
    let row = |term: &TermCommitment| {
        let from = if term.breaks_even_within_a_year() {
            format!("{:.0} h a year", term.break_even_hours_per_year)
        } else {
            "never".to_owned()
        };
        vec![
            term.machines.clone(),
            term.purchase.replace("commitment ", ""),
            money.usd(term.usd_per_year),
            from,
            format!("{:.0} h", term.hours_per_year),
            money.change(term.saved_usd_per_year),
        ]
    };
    let rows: Vec<Vec<String>> = budget.alternatives.promises.iter().map(row).collect();
    (!rows.is_empty()).then(|| Section {
        title: "The same machines committed to for years, at the pace of the portfolio".to_owned(),
        columns,
        rows,
        foot: String::new(),
    })
}

fn other_clouds(budget: &Budget, most: usize) -> Option<Section> {
    let money = Money::in_currency(budget.exchange.as_ref());
    let columns = vec![
        Column::left("phase", 0),
        Column::left("on", 0),
        Column::left("plan", 130),
        Column::right("hours each", 100),
        Column::right("expected", 0),
        Column::right("more", 0),
    ];
    let rows: Vec<Vec<String>> = budget
        .alternatives
        .elsewhere
        .iter()
        .take(most)
        .map(|other| {
            vec![
                other.phase.clone(),
                other.cloud.clone(),
                other.plan.clone(),
                Hours(other.run_hours.expected).to_string(),
                money.usd(other.cost_usd.expected),
                money.change(other.more_usd),
            ]
        })
        .collect();
    let foot = footer(
        most.min(budget.alternatives.elsewhere.len()),
        budget.alternatives.elsewhere.len(),
        "--max-results shows more",
    );
    (!rows.is_empty()).then(|| Section { title: "Each phase on another cloud".to_owned(), columns, rows, foot })
}

fn sensitivity(budget: &Budget) -> Option<Section> {
    let money = Money::in_currency(budget.exchange.as_ref());
    let columns = vec![
        Column::left("what moves it", 0),
        Column::left("from", 0),
        Column::right("", 0),
        Column::left("to", 0),
        Column::right("", 0),
        Column::left("basis", 130),
    ];
    // What moves nothing is in the JSON.
    let rows = budget.sensitivity.iter().filter(|bar| bar.low_usd != bar.high_usd).map(|bar| {
        vec![
            bar.what.to_owned(),
            bar.low.clone(),
            money.change(bar.low_usd),
            bar.high.clone(),
            money.change(bar.high_usd),
            bar.basis.clone(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    (!rows.is_empty()).then(|| Section {
        title: "What the total depends on, one thing at a time".to_owned(),
        rows,
        columns,
        foot: String::new(),
    })
}
