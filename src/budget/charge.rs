//! `Charge`: one amount of money, spent or expected, with all that a reviewer asks of it. Ledger, budget and exports share it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use gpuplan_units::Usd;

/// Whether money has gone out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "nature", rename_all = "kebab-case")]
pub enum Nature {
    Actual,
    /// Percentiles of this charge alone; those of several do not add up.
    Forecast {
        p50: Usd,
        p90: Usd,
    },
}

/// What was bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Item {
    Machines,
    /// On-demand machines of a run that rents spot first.
    Fallback,
    /// Saving, lost work and restarts.
    LostWork,
    Disk,
    CheckpointStorage,
    Egress,
    /// Committed hours that nobody used.
    UnusedCommitment,
    /// Money that came back: its costs are negative.
    Credit,
    Tax,
    Other,
}

impl Item {
    /// As JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Machines => "machines",
            Self::Fallback => "fallback",
            Self::LostWork => "lost-work",
            Self::Disk => "disk",
            Self::CheckpointStorage => "checkpoint-storage",
            Self::Egress => "egress",
            Self::UnusedCommitment => "unused-commitment",
            Self::Credit => "credit",
            Self::Tax => "tax",
            Self::Other => "other",
        }
    }
}

/// Why machine time bought no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waste {
    /// Nothing ran: booting, waiting, after the end.
    Idle,
    /// Work that was lost and done again.
    Redone,
    /// Work of a run that never ended well.
    Failed,
}

impl Waste {
    /// As JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Redone => "redone",
            Self::Failed => "failed",
        }
    }
}

/// The four prices of one purchase, as the FOCUS specification names them (its glossary, "Cost" columns).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// At the published price.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    pub list: Usd,
    /// At the price that was negotiated.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    pub contracted: Usd,
    /// With commitments paid before spread over their hours.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    pub effective: Usd,
    /// On an invoice; `None` while it is only expected.
    #[serde(with = "gpuplan_units::money::signed_usd_or_none")]
    pub billed: Option<Usd>,
}

/// One line of money.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Charge {
    /// Stable: the same charge found twice, on two laptops or in two imports, has the same one.
    pub id: String,
    #[serde(flatten)]
    pub nature: Nature,
    pub item: Item,
    pub run: Option<String>,
    pub team: Option<String>,
    pub tags: BTreeMap<String, String>,
    /// Begin of the time that is charged.
    pub start: Timestamp,
    /// Its end, not included.
    pub end: Timestamp,
    pub cloud: String,
    pub region: Option<String>,
    pub zone: Option<String>,
    /// The cloud's name of the machine or disk.
    pub resource: Option<String>,
    pub instance_type: Option<String>,
    pub gpu: Option<String>,
    /// Cards of one machine.
    pub gpus: Option<f64>,
    /// In the words of the contract: `on-demand`, `spot`, `commitment` and so on.
    pub purchase: Option<String>,
    pub quantity: f64,
    /// Of the quantity: `hour`, `GiB-month`, `GiB`.
    pub unit: String,
    /// At which the quantity was charged.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    pub unit_price: Usd,
    pub costs: Costs,
    pub waste: Option<Waste>,
    /// Where the price came from, in the words of its source.
    pub source: String,
    /// When the price was observed; frozen for ever once money was spent at it.
    pub priced_at: Option<Timestamp>,
    /// What was assumed beside the price.
    pub assumption: String,
}

impl Charge {
    /// Of a line of a bill, which has an amount: one without is let in neither from an export nor from the ledger.
    pub fn on_bill(&self) -> Usd {
        self.costs.billed.expect("a line of a bill has an amount")
    }

    /// Its quantity is hours of machines.
    pub fn is_machine_time(&self) -> bool {
        matches!(self.item, Item::Machines | Item::Fallback | Item::LostWork | Item::UnusedCommitment)
    }
}
