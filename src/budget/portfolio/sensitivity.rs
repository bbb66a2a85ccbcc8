//! What the total would be if one thing came out otherwise and all else as expected: the bars of a tornado.

use serde::Serialize;

use crate::Item;
use crate::portfolio::calendar::Month;
use crate::portfolio::lines::Costed;
use crate::portfolio::simulation::{SPOT_PRICE_STEP, months_ahead};
use crate::portfolio::{Portfolio, Tax};
use gpuplan_plan::normal::NORMAL_90;
use gpuplan_units::Usd;

/// On-demand prices do not drift, they are changed: by this share either way. Judged; AWS cut those of its P4 and P5 machines by up
/// to 45 % in June 2025.
const LIST_PRICE_SPREAD: f64 = 0.10;

/// One bar: what is added to the total at either end of what is likely.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    pub what: &'static str,
    pub low: String,
    pub high: String,
    /// Dollars added at the low end; negative: saved.
    pub low_usd: Usd,
    pub high_usd: Usd,
    pub basis: String,
    #[serde(skip)]
    pub width: f64,
}

/// Longest bar first. `None`: beyond counting.
pub fn bars(portfolio: &Portfolio, costed: &[Costed], now: Month) -> Option<Vec<Bar>> {
    let tax = portfolio.tax;
    let mut bars = vec![
        list_price(costed, tax)?,
        spot_price(costed, now, tax)?,
        throughput(costed, tax)?,
        interruptions(costed, tax)?,
        data_size(portfolio, costed, tax)?,
    ];
    bars.sort_by(|a, b| b.width.total_cmp(&a.width));
    Some(bars)
}

fn bar(what: &'static str, names: (String, String), added: (f64, f64), basis: String, tax: Tax) -> Option<Bar> {
    let dollars = |added: f64| Usd::from_dollars((tax.with(added) * 100.0).round() / 100.0);
    let (low_usd, high_usd) = (dollars(added.0)?, dollars(added.1)?);
    Some(Bar { what, low: names.0, high: names.1, low_usd, high_usd, basis, width: added.1 - added.0 })
}

/// Of all times of all phases.
fn sum(costed: &[Costed], one: impl Fn(&Costed) -> f64) -> f64 {
    costed.iter().map(|costed| one(costed) * f64::from(costed.phase.repeats)).sum()
}

fn percent(share: f64) -> String {
    format!("{:+.0} %", share * 100.0)
}

fn cost_of(costed: &Costed, keep: impl Fn(Item) -> bool) -> f64 {
    costed.once.lines.iter().filter(|line| keep(line.item)).map(|line| line.cost.dollars()).sum()
}

fn list_price(costed: &[Costed], tax: Tax) -> Option<Bar> {
    let time = |item| matches!(item, Item::Machines | Item::LostWork);
    let all = sum(costed, |costed| {
        if costed.once.is_spot() { cost_of(costed, |item| item == Item::Fallback) } else { cost_of(costed, time) }
    });
    let added = all * LIST_PRICE_SPREAD;
    let basis = format!(
        "assumed: list prices of machines change seldom and at once; {} of today's either way",
        percent(LIST_PRICE_SPREAD)
    );
    bar("on-demand prices", (percent(-LIST_PRICE_SPREAD), percent(LIST_PRICE_SPREAD)), (-added, added), basis, tax)
}

fn spot_price(costed: &[Costed], now: Month, tax: Tax) -> Option<Bar> {
    let factor = |ahead: u32, sign: f64| (sign * NORMAL_90 * SPOT_PRICE_STEP * f64::from(ahead).sqrt()).exp() - 1.0;
    let at = |sign: f64| {
        sum(costed, |costed| {
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
    bar(
        "spot prices",
        (percent(factor(furthest, -1.0)), percent(factor(furthest, 1.0))),
        (at(-1.0), at(1.0)),
        basis,
        tax,
    )
}

fn throughput(costed: &[Costed], tax: Tax) -> Option<Bar> {
    let at = |sign: f64| {
        sum(costed, |costed| {
            let deviations = sign * NORMAL_90 * costed.once.estimate_share.sqrt();
            costed.once.cost.expected.dollars() * (costed.once.shape.at(deviations) - costed.once.shape.at(0.0))
        })
    };
    let names = ("faster".to_owned(), "slower".to_owned());
    bar(
        "throughput",
        names,
        (at(-1.0), at(1.0)),
        "10th and 90th percentile of the step time of each plan, all at once".to_owned(),
        tax,
    )
}

fn interruptions(costed: &[Costed], tax: Tax) -> Option<Bar> {
    let at = |sign: f64| {
        sum(costed, |costed| {
            let deviations = sign * NORMAL_90 * (1.0 - costed.once.estimate_share).sqrt();
            let moved = costed.once.shape.at(deviations) - costed.once.shape.at(0.0);
            if costed.once.is_spot() { costed.once.cost.expected.dollars() * moved } else { 0.0 }
        })
    };
    let names = ("few".to_owned(), "many".to_owned());
    bar(
        "interruptions",
        names,
        (at(-1.0), at(1.0)),
        "10th and 90th percentile of the replays of each plan on spot, all at once".to_owned(),
        tax,
    )
}

fn data_size(portfolio: &Portfolio, costed: &[Costed], tax: Tax) -> Option<Bar> {
    let spread = &portfolio.data_spread;
    let added = sum(costed, |costed| cost_of(costed, |item| item == Item::Egress)) * spread.share;
    bar(
        "data size",
        (percent(-spread.share), percent(spread.share)),
        (-added, added),
        format!("{}; moves egress", spread.basis),
        tax,
    )
}
