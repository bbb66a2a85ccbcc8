//! `Bill`: what a run costs as line items; the lines add up to the total to the nano-dollar.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::Usd;

/// Hours of a billing month, as the clouds count it.
pub const HOURS_PER_MONTH: f64 = 730.0;
/// The unit of machine time.
pub const MACHINE_HOUR: &str = "machine-hour";

/// What a line of a bill is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BillItem {
    #[serde(rename = "machines")]
    Machines,
    /// On-demand machines of a plan that rents spot first.
    #[serde(rename = "on-demand fallback")]
    Fallback,
    /// What these machines are expected to cost today over what they cost when their price was seen.
    #[serde(rename = "expected price change")]
    PriceChange,
    #[serde(rename = "saving, lost work and restarts")]
    LostWork,
    #[serde(rename = "network disk")]
    Disk,
    #[serde(rename = "checkpoint storage")]
    CheckpointStorage,
    /// That write checkpoints to the store.
    #[serde(rename = "store requests")]
    StoreRequests,
    #[serde(rename = "data egress")]
    Egress,
}

impl BillItem {
    /// As JSON has it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Machines => "machines",
            Self::Fallback => "on-demand fallback",
            Self::PriceChange => "expected price change",
            Self::LostWork => "saving, lost work and restarts",
            Self::Disk => "network disk",
            Self::CheckpointStorage => "checkpoint storage",
            Self::StoreRequests => "store requests",
            Self::Egress => "data egress",
        }
    }
}

/// What a line of a bill rests on.
#[derive(Clone, Debug, PartialEq)]
pub enum Basis {
    /// A price and where it was seen.
    Price {
        source: Arc<str>,
        observed_at: Timestamp,
        is_unverified: bool,
        /// It is the most that this can cost, since no source has the price itself.
        is_upper_bound: bool,
    },
    /// How often machines are lost, and what that rests on.
    LossRate(&'static str),
    /// The same for machines without GPU, of which nothing is known.
    LossRateOfGpuMachines,
}

impl Basis {
    /// The same price for something of which it is the most that it can cost.
    #[must_use]
    pub fn as_upper_bound(self) -> Self {
        match self {
            Self::Price { source, observed_at, is_unverified, .. } => {
                Self::Price { source, observed_at, is_unverified, is_upper_bound: true }
            }
            losses => losses,
        }
    }
}

/// `cost` is `quantity x unit_price`, rounded once to the nano-dollar.
#[derive(Clone, Debug, PartialEq)]
pub struct BillLine {
    pub item: BillItem,
    pub quantity: f64,
    pub unit: &'static str,
    pub unit_price: Usd,
    pub cost: Usd,
    pub basis: Basis,
}

impl BillLine {
    /// `None` if the cost is beyond counting.
    pub fn new(item: BillItem, quantity: f64, unit: &'static str, unit_price: Usd, basis: Basis) -> Option<Self> {
        Some(Self { item, quantity, unit, unit_price, cost: Self::cost(quantity, unit_price)?, basis })
    }

    /// Rounded once to the nano-dollar; `None` if it is beyond counting.
    pub fn cost(quantity: f64, unit_price: Usd) -> Option<Usd> {
        Usd::from_dollars(quantity * unit_price.nanos() as f64 / 1e9)
    }
}

/// What a run or a service costs, line by line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bill {
    pub lines: Vec<BillLine>,
}

impl Bill {
    /// To the nano-dollar.
    pub fn total(&self) -> Usd {
        self.lines.iter().map(|line| line.cost).sum()
    }
}
