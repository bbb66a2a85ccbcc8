//! `Billed`: for how long a machine of a run is paid, at the price that was agreed at launch; and the sum of all.

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use gpuplan_units::billing::{minimum_billed_seconds, read_minimum};
use gpuplan_units::{MINIMUM_BILLED_SECONDS, Usd, UsdPerHour};

const NANOS_PER_HOUR: i128 = 3_600_000_000_000;
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// How a cloud bills a machine, copied in at launch: what it is paid for cannot change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::manual_non_exhaustive, reason = "the private field reads what earlier versions wrote")]
pub struct Billing {
    /// Charged at least for a machine that was started.
    #[serde(default = "minimum_billed_seconds")]
    pub minimum_seconds: u32,
    /// Nothing is charged if the cloud takes the machine away before this; 0 where there is no such rule. AWS does so in the
    /// first hour of a spot instance with Linux or Windows ("Billing for interrupted Spot Instances" in its EC2 user guide).
    #[serde(default)]
    pub free_if_interrupted_within_seconds: u32,
    /// Written by earlier versions: every cloud bills by the second.
    #[serde(default, rename = "step_seconds", skip_serializing, deserialize_with = "ignored")]
    _step_seconds: (),
}

/// Whatever value a key has that no longer means anything.
fn ignored<'de, D: Deserializer<'de>>(value: D) -> Result<(), D::Error> {
    IgnoredAny::deserialize(value).map(drop)
}

impl Default for Billing {
    fn default() -> Self {
        let minimum_seconds = MINIMUM_BILLED_SECONDS;
        Self { minimum_seconds, free_if_interrupted_within_seconds: 0, _step_seconds: () }
    }
}

/// One machine in one epoch, written again as time passes. After a crash the last one stands, so it is a lower bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Billed {
    pub epoch: u64,
    pub node: u32,
    /// Of the whole machine.
    pub rate_usd_per_hour: UsdPerHour,
    /// Charged at least.
    #[serde(default = "minimum_billed_seconds", alias = "rule", deserialize_with = "read_minimum")]
    pub minimum_seconds: u32,
    pub from: Timestamp,
    /// Nanoseconds by the owner's monotonic clock, which no correction of the time changes.
    pub elapsed_nanos: u64,
    #[serde(default)]
    pub free_if_interrupted_within_seconds: u32,
    /// The cloud took the machine away.
    #[serde(default)]
    pub is_interrupted: bool,
    /// How much of `elapsed_nanos` had passed when the program was first started; `None`: it never was, or nobody looked.
    #[serde(default)]
    pub started_after_nanos: Option<u64>,
    /// The newest checkpoint that this epoch made safe, and how much of `elapsed_nanos` had passed when it was complete.
    #[serde(default)]
    pub saved: Option<Saved>,
}

/// What machines cost, as far as their bills can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// By the bills that were read.
    pub at_least: Usd,
    /// Keys of the bills that could not: what they come to is not known.
    pub unreadable: Vec<String>,
}

impl Spent {
    /// `None` where a bill could not be read.
    pub fn known(&self) -> Option<Usd> {
        self.unreadable.is_empty().then_some(self.at_least)
    }
}

/// Work that is not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    pub step: u64,
    pub after_nanos: u64,
}

impl Billed {
    /// Rounded up: to the second, and to the nano-dollar.
    pub fn cost(&self) -> Usd {
        let nanos =
            (i128::from(self.rate_usd_per_hour.nanos()) * self.paid_nanos() + NANOS_PER_HOUR - 1) / NANOS_PER_HOUR;
        Usd::from_nanos(nanos)
    }

    /// Nanoseconds on the invoice: every started second, the minimum at least, and nothing where the cloud took the machine in its free time.
    pub fn paid_nanos(&self) -> i128 {
        let free_nanos = u64::from(self.free_if_interrupted_within_seconds) * 1_000_000_000;
        if self.is_interrupted && self.elapsed_nanos < free_nanos {
            return 0;
        }
        let elapsed = i128::from(self.elapsed_nanos).max(i128::from(self.minimum_seconds) * NANOS_PER_SECOND);
        (elapsed + NANOS_PER_SECOND - 1) / NANOS_PER_SECOND * NANOS_PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(rate: &str, seconds: u64) -> Billed {
        let (minimum_seconds, from, elapsed_nanos) =
            (MINIMUM_BILLED_SECONDS, Timestamp::UNIX_EPOCH, seconds * 1_000_000_000);
        let (rate_usd_per_hour, free_if_interrupted_within_seconds) = (UsdPerHour::parse(rate).unwrap(), 0);
        Billed {
            epoch: 1,
            node: 0,
            rate_usd_per_hour,
            minimum_seconds,
            from,
            elapsed_nanos,
            free_if_interrupted_within_seconds,
            is_interrupted: false,
            started_after_nanos: None,
            saved: None,
        }
    }

    fn billed(rate: &str, seconds: u64) -> Usd {
        object(rate, seconds).cost()
    }

    #[test]
    fn an_hour_is_free_only_where_the_rule_says_so_and_the_cloud_took_the_machine() {
        let hour = Billed { free_if_interrupted_within_seconds: 3600, is_interrupted: true, ..object("3.60", 3599) };
        assert_eq!(hour.cost(), Usd::ZERO);
        assert_eq!(Billed { elapsed_nanos: 3_600_000_000_000, ..hour.clone() }.cost().to_string(), "3.60");
        assert_eq!(Billed { is_interrupted: false, ..hour }.cost().to_string(), "3.599");
        assert_eq!(Billed { minimum_seconds: 7200, ..object("2", 3601) }.cost().to_string(), "4.00");
    }

    #[test]
    fn a_machine_costs_its_minimum_and_then_every_started_second() {
        assert_eq!(billed("3.60", 5).to_string(), "0.06");
        assert_eq!(billed("3.60", 3600).to_string(), "3.60");
        assert_eq!(billed("55.04", 86_400).to_string(), "1320.96");
        assert_eq!(billed("0.000000001", 61).to_string(), "0.000000001", "rounded up, never to nothing");
    }
}
