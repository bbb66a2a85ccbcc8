//! `Charge`: one amount of money, spent or expected, with all that a reviewer asks of it. Ledger, budget and exports share it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::Usd;

/// Stands for the name where a charge has none: of no run, no team, no tag.
pub const UNALLOCATED: &str = "(none)";

/// Whether money has gone out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Costs {
    /// At the published price.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    #[schemars(with = "Usd")]
    pub list: Usd,
    /// At the price that was negotiated.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    #[schemars(with = "Usd")]
    pub contracted: Usd,
    /// With commitments paid before spread over their hours.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    #[schemars(with = "Usd")]
    pub effective: Usd,
    /// On an invoice; `None` while it is only expected.
    #[serde(with = "gpuplan_units::money::signed_usd_or_none")]
    #[schemars(with = "Option<Usd>")]
    pub billed: Option<Usd>,
}

/// To whom a charge is allocated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allocation {
    pub run: Option<String>,
    pub team: Option<String>,
    pub tags: BTreeMap<String, String>,
}

/// What was rented, and where. `None`: unknown, or there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resource {
    pub cloud: String,
    pub region: Option<String>,
    pub zone: Option<String>,
    /// The cloud's name of the machine or disk.
    #[serde(rename = "resource")]
    pub id: Option<String>,
    pub instance_type: Option<String>,
    pub gpu: Option<String>,
    /// GPUs of one machine.
    pub gpus: Option<f64>,
    /// `on-demand`, `spot`, `commitment` and so on, as a plan has it.
    pub purchase: Option<String>,
}

/// The invoice that a line of a bill came with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Invoice {
    /// Billing account.
    pub account: String,
    /// Billing period, `2026-10`: usage that was reported late and corrections keep the month of their invoice.
    pub month: String,
    /// `None`: it is not issued yet, or the export does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// One line of money.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Charge {
    /// Stable: the same charge found twice, on two laptops or in two imports, has the same one.
    pub id: String,
    #[serde(flatten)]
    pub nature: Nature,
    pub item: Item,
    #[serde(flatten)]
    pub allocation: Allocation,
    /// Begin of the time that is charged.
    pub start: Timestamp,
    /// Its end, not included.
    pub end: Timestamp,
    #[serde(flatten)]
    pub resource: Resource,
    pub quantity: f64,
    /// Of the quantity: `hour`, `GiB-month`, `GiB`.
    pub unit: String,
    /// At which the quantity was charged.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    #[schemars(with = "Usd")]
    pub unit_price: Usd,
    pub costs: Costs,
    pub waste: Option<Waste>,
    /// Where the price came from, in the words of its source.
    pub source: String,
    /// When the price was observed; frozen for ever once money was spent at it.
    pub priced_at: Option<Timestamp>,
    /// What was assumed beyond the price.
    pub assumption: String,
    /// Of a line of a bill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invoice: Option<Invoice>,
}

impl Charge {
    /// The amount on the invoice, of a line of a bill. Such a line has one: without it, neither an export nor the ledger is
    /// read.
    pub fn on_bill(&self) -> Usd {
        self.costs.billed.expect("a line of a bill has an amount")
    }

    /// A line of a bill that paid for machines with GPUs, or for what goes by the hour of such machines.
    pub fn is_of_gpus(&self) -> bool {
        self.resource.gpu.is_some() && !matches!(self.item, Item::Credit | Item::Tax)
    }

    /// Its quantity is hours of machines.
    pub fn is_machine_time(&self) -> bool {
        matches!(self.item, Item::Machines | Item::Fallback | Item::LostWork | Item::UnusedCommitment)
    }
}

/// The day of a moment in UTC, as `2026-10-31`.
pub fn utc_day(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;

    /// Machines of one run that cost `amount` on AWS: what a test does not say is empty.
    pub fn charge(id: &str, run: &str, amount: Usd) -> Charge {
        Charge {
            id: id.to_owned(),
            nature: Nature::Actual,
            item: Item::Machines,
            allocation: Allocation { run: Some(run.to_owned()), ..Allocation::default() },
            start: Timestamp::UNIX_EPOCH,
            end: Timestamp::UNIX_EPOCH,
            resource: Resource { cloud: "aws".to_owned(), ..Resource::default() },
            quantity: 1.0,
            unit: "hour".to_owned(),
            unit_price: amount,
            costs: Costs { list: amount, contracted: amount, effective: amount, billed: None },
            waste: None,
            source: String::new(),
            priced_at: None,
            assumption: String::new(),
            invoice: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of a charge in their order, as ledgers have kept them since the first version.
    const KEPT: &str = concat!(
        r#"{"id":"run/a@k/e1-0-i-1/work","nature":"actual","item":"machines","run":"a","team":null,"tags":{"team":"vision"},"#,
        r#""start":"1970-01-01T00:00:00Z","end":"1970-01-01T01:00:00Z","cloud":"aws","region":"us-east-1","zone":null,"#,
        r#""resource":"i-1","instance_type":"g5.xlarge","gpu":"a10g-24","gpus":1.0,"purchase":"spot","quantity":0.1,"unit":"hour","#,
        r#""unit_price":"3.000000001","costs":{"list":"3.00","contracted":"-3.00","effective":"3.00","billed":null},"waste":"idle","#,
        r#""source":"aws-spot","priced_at":null,"assumption":""}"#
    );

    #[test]
    fn a_charge_is_kept_with_the_keys_that_it_always_had() {
        let charge: Charge = serde_json::from_str(KEPT).unwrap();
        assert_eq!((charge.resource.id.as_deref(), charge.allocation.run.as_deref()), (Some("i-1"), Some("a")));
        assert_eq!(charge.costs.contracted, Usd::parse_signed("-3").unwrap());
        assert_eq!(serde_json::to_string(&charge).unwrap(), KEPT);
        assert_eq!(utc_day(charge.end), "1970-01-01");
    }
}
