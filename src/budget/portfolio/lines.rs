//! The lines of a budget: every amount with quantity, rate, source, date and assumption. They add up to the total exactly.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::Item;
use crate::portfolio::calendar::Month;
use crate::portfolio::commitment::{ASSUMPTION, Commitment, Kind};
use crate::portfolio::planned::{MACHINE_HOUR, Once, OnceLine};
use crate::portfolio::{Phase, Portfolio, Tax};
use gpuplan_units::Usd;

/// A phase and what doing it once costs.
#[derive(Clone, Copy, Debug)]
pub struct Costed<'a> {
    pub phase: &'a Phase,
    pub once: &'a Once,
}

/// One amount of one month.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The same in every budget of this portfolio, so that two can be compared.
    pub id: String,
    pub run: Option<String>,
    pub phase: Option<String>,
    pub team: Option<String>,
    pub month: Month,
    pub item: Item,
    pub cloud: String,
    pub region: Option<String>,
    pub zone_id: Option<String>,
    pub instance_type: Option<String>,
    pub gpu: Option<String>,
    pub gpus_per_node: Option<u32>,
    pub purchase: Option<String>,
    pub quantity: f64,
    pub unit: String,
    pub unit_price_usd: Usd,
    pub cost_usd: Usd,
    /// Percentiles of this line alone; those of several do not add up.
    pub p50_usd: Usd,
    pub p90_usd: Usd,
    pub source: String,
    pub priced_at: Option<Timestamp>,
    pub assumption: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Which draws its percentiles come from.
    #[serde(skip)]
    pub of: Of,
}

/// Position of what a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Phase(usize),
    Commitment(usize),
    Tax,
}

/// All lines, and what each commitment did.
pub struct Lines {
    pub lines: Vec<Line>,
    /// By commitment: what was used of it, and what that would have cost on demand.
    pub covered: Vec<(Usd, Usd)>,
}

/// The `part`-th of `parts` of an amount: all parts together are the amount to the nano-dollar.
pub fn split(amount: Usd, part: u32, parts: u32) -> Usd {
    let until = |part: u32| amount.nanos() * i128::from(part) / i128::from(parts.max(1));
    Usd::from_nanos(until(part + 1) - until(part))
}

impl Lines {
    pub fn of(portfolio: &Portfolio, costed: &[Costed]) -> Self {
        let mut writer = Writer::new(portfolio);
        for (index, costed) in costed.iter().enumerate() {
            for (part, month) in costed.phase.in_months().enumerate() {
                for (position, line) in costed.once.lines.iter().enumerate() {
                    writer.phase_line(index, *costed, (position, line), part as u32, month);
                }
            }
        }
        writer.unused(costed);
        writer.tax();
        Self { lines: writer.lines, covered: writer.covered }
    }

    pub fn total(&self) -> Usd {
        self.lines.iter().map(|line| line.cost_usd).sum()
    }
}

struct Writer<'a> {
    portfolio: &'a Portfolio,
    lines: Vec<Line>,
    /// What is left of each commitment in each month.
    left: Vec<BTreeMap<Month, Usd>>,
    covered: Vec<(Usd, Usd)>,
}

impl<'a> Writer<'a> {
    fn new(portfolio: &'a Portfolio) -> Self {
        let months = |commitment: &Commitment| {
            commitment.within(portfolio).map(|month| (month, commitment.in_month(month))).collect()
        };
        Self {
            portfolio,
            lines: Vec::new(),
            left: portfolio.commitments.iter().map(months).collect(),
            covered: vec![(Usd::ZERO, Usd::ZERO); portfolio.commitments.len()],
        }
    }

    fn phase_line(
        &mut self,
        index: usize,
        costed: Costed,
        (position, line): (usize, &OnceLine),
        part: u32,
        month: Month,
    ) {
        let Costed { phase, once } = costed;
        let whole = Usd::from_nanos(line.cost.nanos() * i128::from(phase.repeats));
        let mut cost = split(whole, part, phase.months);
        let mut quantity = line.quantity * f64::from(phase.repeats) / f64::from(phase.months);
        let all = quantity;
        let id = format!("{}/{month}/{}.{}", phase.path(), position + 1, line.item.word());
        for (at, commitment) in self.portfolio.commitments.iter().enumerate() {
            let Some(left) = self.left[at].get_mut(&month).filter(|left| **left > Usd::ZERO) else { continue };
            let Some(cover) = commitment.cover(once, line) else { continue };
            let hours = (cover.share * all).min(quantity).min(left.dollars() / cover.unit_price.dollars());
            // What is beyond counting is more than there is.
            let priced = |price: Usd, most: Usd| {
                Usd::from_dollars(hours * price.dollars()).map_or(most, |amount| amount.min(most))
            };
            let (used, spared) = (priced(cover.unit_price, *left), priced(line.unit_price, cost));
            if used == Usd::ZERO {
                continue;
            }
            *left = *left - used;
            (quantity, cost) = (quantity - hours, cost - spared);
            self.covered[at] = (self.covered[at].0 + used, self.covered[at].1 + spared);
            let mut covered = of_phase(index, costed, line, month);
            covered.id = format!("{id}/{}", commitment.name);
            (covered.purchase, covered.quantity) = (Some("commitment".to_owned()), hours);
            (covered.unit_price_usd, covered.cost_usd) = (cover.unit_price, used);
            (covered.source, covered.priced_at) = (commitment.source.clone(), Some(commitment.as_of));
            covered.assumption = format!("`{}` {ASSUMPTION}", commitment.name);
            self.lines.push(covered);
        }
        if cost > Usd::ZERO || quantity > 0.0 {
            let rest = Line { id, quantity, cost_usd: cost, ..of_phase(index, costed, line, month) };
            self.lines.push(rest);
        }
    }

    /// What is paid and not used.
    fn unused(&mut self, costed: &[Costed]) {
        let left = std::mem::take(&mut self.left);
        for (at, (commitment, months)) in self.portfolio.commitments.iter().zip(left).enumerate() {
            for (month, cost) in months.into_iter().filter(|(_, left)| *left > Usd::ZERO) {
                let is_machines = matches!(commitment.kind, Kind::Reservation { .. });
                let price = if is_machines { commitment.usd_per_hour.times(1) } else { Usd::from_nanos(1_000_000_000) };
                self.lines.push(Line {
                    id: format!("{}/{month}/unused", commitment.name),
                    cloud: commitment.cloud.clone(),
                    region: commitment.region.clone(),
                    instance_type: match &commitment.kind {
                        Kind::Reservation { instance_type, .. } => Some(instance_type.clone()),
                        Kind::SavingsPlan { .. } => None,
                    },
                    gpu: commitment.gpu(costed.iter().map(|costed| costed.once)).map(str::to_owned),
                    purchase: Some("commitment".to_owned()),
                    quantity: cost.dollars() / price.dollars(),
                    unit: if is_machines { MACHINE_HOUR.to_owned() } else { "committed dollar".to_owned() },
                    unit_price_usd: price,
                    source: commitment.source.clone(),
                    priced_at: Some(commitment.as_of),
                    assumption: format!("what no run uses of `{}`; it {ASSUMPTION}", commitment.name),
                    ..shared(month, Item::UnusedCommitment, cost, Of::Commitment(at))
                });
            }
        }
    }

    /// A line for what each month, team, cloud and GPU adds to the tax.
    fn tax(&mut self) {
        let Tax { millionths } = self.portfolio.tax;
        if millionths == 0 {
            return;
        }
        let mut taxed: BTreeMap<(Month, Option<String>, String, Option<String>), Usd> = BTreeMap::new();
        for line in &self.lines {
            let sum = taxed.entry((line.month, line.team.clone(), line.cloud.clone(), line.gpu.clone())).or_default();
            *sum = *sum + line.cost_usd;
        }
        for ((month, team, cloud, gpu), sum) in taxed {
            let parts = [Some("tax"), team.as_deref(), Some(cloud.as_str()), gpu.as_deref()];
            let id = parts.into_iter().flatten().chain([month.to_string().as_str()]).collect::<Vec<_>>().join("/");
            let line = Line {
                id,
                team,
                cloud,
                gpu,
                quantity: sum.dollars(),
                unit: "USD".to_owned(),
                unit_price_usd: Usd::from_nanos(millionths * 1000),
                source: "the portfolio".to_owned(),
                assumption: "as stated, on every amount alike".to_owned(),
                ..shared(month, Item::Tax, self.portfolio.tax.on(sum), Of::Tax)
            };
            self.lines.push(line);
        }
    }
}

/// A line of a phase, without id and amounts.
fn of_phase(index: usize, Costed { phase, once }: Costed, line: &OnceLine, month: Month) -> Line {
    let times = if phase.repeats > 1 { format!("; done {} times", phase.repeats) } else { String::new() };
    let spread = if phase.months > 1 { format!("; spread evenly over {} months", phase.months) } else { String::new() };
    Line {
        id: String::new(),
        run: Some(phase.run.clone()),
        phase: Some(phase.name.clone()),
        team: Some(phase.team.clone()),
        month,
        item: line.item,
        cloud: once.cloud.clone(),
        region: once.region.clone(),
        zone_id: once.zone_id.clone(),
        instance_type: once.instance_type.clone(),
        gpu: once.gpu.clone(),
        gpus_per_node: Some(once.gpus_per_node),
        // A plan that falls back rents its fallback on demand.
        purchase: Some(if line.item == Item::Fallback { "on-demand".to_owned() } else { once.purchase.clone() }),
        quantity: 0.0,
        unit: line.unit.clone(),
        unit_price_usd: line.unit_price,
        cost_usd: Usd::ZERO,
        p50_usd: Usd::ZERO,
        p90_usd: Usd::ZERO,
        source: line.source.clone(),
        priced_at: line.priced_at,
        assumption: format!("{}{times}{spread}", line.assumption),
        tags: phase.tags.clone(),
        of: Of::Phase(index),
    }
}

/// A line that is no phase's.
fn shared(month: Month, item: Item, cost: Usd, of: Of) -> Line {
    Line {
        id: String::new(),
        run: None,
        phase: None,
        team: None,
        month,
        item,
        cloud: String::new(),
        region: None,
        zone_id: None,
        instance_type: None,
        gpu: None,
        gpus_per_node: None,
        purchase: None,
        quantity: 0.0,
        unit: String::new(),
        unit_price_usd: Usd::ZERO,
        cost_usd: cost,
        p50_usd: cost,
        p90_usd: cost,
        source: String::new(),
        priced_at: None,
        assumption: String::new(),
        tags: BTreeMap::new(),
        of,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_parts_of_an_amount_are_the_amount(nanos in 0_i64..i64::MAX, parts in 1_u32..200) {
            let amount = Usd::from_nanos(i128::from(nanos));
            let sum: Usd = (0..parts).map(|part| split(amount, part, parts)).sum();
            prop_assert_eq!(sum, amount);
        }
    }
}
