//! What a plan costs, in a plan document: the total under risk and the lines that add up to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::document::words::Words;
use crate::money::bill::{Bill, BillLine};
use gpuplan_units::{Quantiles, Usd};

/// What the whole run costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostRecord {
    /// Of the whole run. For machines that the user has already it is marginal cash.
    pub cost_usd: Quantiles<Usd>,
    /// For machines that the user has already: the same run at what they cost whether used or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_cost_usd: Option<Usd>,
    /// Lines that add up to `cost_usd.expected` to the nano-dollar.
    #[serde(default)]
    pub bill: Vec<BillLineRecord>,
}

/// One line of a bill: `cost_usd` is `quantity` times `unit_price_usd`, rounded once to the nano-dollar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BillLineRecord {
    /// What is paid for, such as `machines`, `on-demand fallback` or `network disk`.
    pub item: String,
    /// In units of `unit`.
    pub quantity: f64,
    /// Such as `machine-hour` or `GB`.
    pub unit: String,
    /// Price of one unit.
    pub unit_price_usd: Usd,
    /// Cost of the line.
    pub cost_usd: Usd,
    /// Where the price, or for lost work the risk, comes from.
    #[serde(default)]
    pub basis: String,
}

impl CostRecord {
    pub(super) fn new(plan: &Plan, words: &dyn Words) -> Self {
        Self { cost_usd: plan.cost, full_cost_usd: plan.full_cost, bill: BillLineRecord::lines(&plan.bill, words) }
    }
}

impl BillLineRecord {
    /// All lines of a bill.
    pub fn lines(bill: &Bill, words: &dyn Words) -> Vec<Self> {
        let record = |line: &BillLine| Self {
            item: line.item.label().to_owned(),
            quantity: line.quantity,
            unit: line.unit.to_owned(),
            unit_price_usd: line.unit_price,
            cost_usd: line.cost,
            basis: words.basis(&line.basis),
        };
        bill.lines.iter().map(record).collect()
    }
}
