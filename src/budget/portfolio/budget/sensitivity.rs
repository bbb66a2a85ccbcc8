//! What the total would be if one thing came out otherwise and all else as expected: the bars of a tornado.

use schemars::JsonSchema;
use serde::Serialize;

use crate::charge::Item;
use crate::portfolio::calendar::Month;
use crate::portfolio::lines::CostedPhase;
use crate::portfolio::shape::Shape;
use crate::portfolio::simulation::{SPOT_PRICE_STEP, months_ahead};
use crate::portfolio::{Portfolio, Tax};
use gpuplan_plan::normal::NORMAL_90;
use gpuplan_units::Usd;

/// On-demand prices do not drift, they are changed: by this share either way. Judged; AWS cut those of its P4 and P5 machines by up
/// to 45 % in June 2025.
const LIST_PRICE_SPREAD: f64 = 0.10;

/// One bar: what is added to the total at either end of what is likely.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SensitivityBar {
    pub what: &'static str,
    /// What the low end is.
    pub low: String,
    pub high: String,
    /// Added at the low end; negative: saved.
    pub low_usd: Usd,
    pub high_usd: Usd,
    pub basis: String,
    /// In dollars.
    #[serde(skip)]
    width: f64,
}

/// Longest bar first. `None`: beyond counting.
pub fn sensitivity_bars(portfolio: &Portfolio, costed: &[CostedPhase], now: Month) -> Option<Vec<SensitivityBar>> {
    let tax = portfolio.tax;
    let levers = [
        list_price(costed),
        spot_price(costed, now),
        throughput(portfolio, costed),
        interruptions(costed),
        data_size(portfolio, costed),
    ];
    let mut bars: Vec<SensitivityBar> = levers.into_iter().map(|lever| lever.bar(tax)).collect::<Option<_>>()?;
    bars.sort_by(|a, b| b.width.total_cmp(&a.width));
    Some(bars)
}

/// What may come out otherwise, and what is added to the total where it does. Dollars before tax.
struct Lever {
    what: &'static str,
    low: LeverEnd,
    high: LeverEnd,
    basis: String,
}

struct LeverEnd {
    name: String,
    added: f64,
}

impl LeverEnd {
    fn new(name: impl Into<String>, added: f64) -> Self {
        Self { name: name.into(), added }
    }
}

impl Lever {
    /// `None`: beyond counting.
    fn bar(self, tax: Tax) -> Option<SensitivityBar> {
        let cents = |added: f64| Usd::from_dollars((tax.included(added) * 100.0).round() / 100.0);
        Some(SensitivityBar {
            what: self.what,
            low_usd: cents(self.low.added)?,
            high_usd: cents(self.high.added)?,
            width: self.high.added - self.low.added,
            low: self.low.name,
            high: self.high.name,
            basis: self.basis,
        })
    }
}

/// Of all times of all phases that are rented.
fn sum_of_phases(costed: &[CostedPhase], one: impl Fn(&CostedPhase) -> f64) -> f64 {
    costed.iter().map(|costed| one(costed) * f64::from(costed.rented())).sum()
}

fn percent(share: f64) -> String {
    format!("{:+.0} %", share * 100.0)
}

fn cost_of(costed: &CostedPhase, keep: impl Fn(Item) -> bool) -> f64 {
    costed.once.lines.iter().filter(|line| keep(line.item)).map(|line| line.cost.dollars()).sum()
}

fn list_price(costed: &[CostedPhase]) -> Lever {
    let time = |item| matches!(item, Item::Machines | Item::LostWork);
    let all = sum_of_phases(costed, |costed| {
        if costed.once.is_spot() { cost_of(costed, |item| item == Item::Fallback) } else { cost_of(costed, time) }
    });
    let added = all * LIST_PRICE_SPREAD;
    let basis = format!(
        "assumed: list prices of machines change seldom and at once; {} of today's either way",
        percent(LIST_PRICE_SPREAD)
    );
    let end = |sign: f64| LeverEnd::new(percent(sign * LIST_PRICE_SPREAD), sign * added);
    Lever { what: "on-demand prices", low: end(-1.0), high: end(1.0), basis }
}

fn spot_price(costed: &[CostedPhase], now: Month) -> Lever {
    let factor = |ahead: u32, sign: f64| (sign * NORMAL_90 * SPOT_PRICE_STEP * f64::from(ahead).sqrt()).exp() - 1.0;
    let added = |sign: f64| {
        sum_of_phases(costed, |costed| {
            let mean = costed.phase.in_months().map(|month| factor(months_ahead(month, now), sign)).sum::<f64>()
                / f64::from(costed.phase.months);
            costed.once.cost.expected.dollars() * costed.once.spot_share * mean
        })
    };
    let furthest =
        costed.iter().filter(|costed| costed.once.spot_share > 0.0).flat_map(|costed| costed.phase.in_months());
    let furthest = furthest.map(|month| months_ahead(month, now)).max().unwrap_or(0);
    let basis = format!(
        "10th and 90th percentile: {SPOT_PRICE_STEP} of the logarithm a month, Google Cloud's price lists of 2024 to 2026"
    );
    let end = |sign: f64| LeverEnd::new(percent(factor(furthest, sign)), added(sign));
    Lever { what: "spot prices", low: end(-1.0), high: end(1.0), basis }
}

/// On machines that are held a slower step costs what using them longer does; on rented ones, all that is paid by the hour.
fn throughput(portfolio: &Portfolio, costed: &[CostedPhase]) -> Lever {
    let added = |sign: f64| {
        let moved = |shape: &Shape, deviations: f64| shape.ratio_at(deviations) - shape.ratio_at(0.0);
        let rented = sum_of_phases(costed, |costed| {
            let deviations = sign * NORMAL_90 * costed.once.estimate_share.sqrt();
            costed.once.cost.expected.dollars() * moved(&costed.once.shape, deviations)
        });
        let placed = costed.iter().flat_map(|costed| costed.placed.iter().map(|placed| (placed, costed.once)));
        let held = placed.map(|(placed, once)| {
            let held = &once.held[placed.held];
            let hourly = portfolio.pools[held.pool].marginal.dollars();
            f64::from(placed.repeats) * hourly * held.machine_hours * moved(&held.shape, sign * NORMAL_90)
        });
        rented + held.sum::<f64>()
    };
    Lever {
        what: "throughput",
        low: LeverEnd::new("faster", added(-1.0)),
        high: LeverEnd::new("slower", added(1.0)),
        basis: "10th and 90th percentile of the step time of each plan, all at once".to_owned(),
    }
}

fn interruptions(costed: &[CostedPhase]) -> Lever {
    let added = |sign: f64| {
        sum_of_phases(costed, |costed| {
            let deviations = sign * NORMAL_90 * (1.0 - costed.once.estimate_share).sqrt();
            let moved = costed.once.shape.ratio_at(deviations) - costed.once.shape.ratio_at(0.0);
            if costed.once.is_spot() { costed.once.cost.expected.dollars() * moved } else { 0.0 }
        })
    };
    Lever {
        what: "interruptions",
        low: LeverEnd::new("few", added(-1.0)),
        high: LeverEnd::new("many", added(1.0)),
        basis: "10th and 90th percentile of the replays of each plan on spot, all at once".to_owned(),
    }
}

fn data_size(portfolio: &Portfolio, costed: &[CostedPhase]) -> Lever {
    let spread = &portfolio.data_spread;
    let added = sum_of_phases(costed, |costed| cost_of(costed, |item| item == Item::Egress)) * spread.share;
    let end = |sign: f64| LeverEnd::new(percent(sign * spread.share), sign * added);
    Lever { what: "data size", low: end(-1.0), high: end(1.0), basis: format!("{}; moves egress", spread.basis) }
}
