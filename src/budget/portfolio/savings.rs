//! What spot and commitments save against renting the same machines on demand.

use crate::charge::Item;
use crate::portfolio::lines::BudgetLine;
use gpuplan_units::Usd;

/// Less what is paid of commitments and not used; negative where that is more. `None`: of no line the price on demand is known.
pub fn saved<'a>(lines: impl Iterator<Item = &'a BudgetLine>) -> Option<Usd> {
    let (mut saved, mut unused) = (None, Usd::ZERO);
    for line in lines {
        let cost = line.amount.cost_usd;
        if let Some(list) = line.amount.list_usd {
            saved = Some(saved.unwrap_or(Usd::ZERO) + (list - cost));
        } else if line.item == Item::UnusedCommitment {
            unused = unused + cost;
        }
    }
    saved.map(|saved| saved - unused)
}
