//! `Billed`: for how long a machine of a run is paid, at the price that was agreed at launch; and the sum of all.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::units::{BillingRule, Usd, UsdPerHour};

const NANOS_PER_HOUR: i128 = 3_600_000_000_000;
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// One machine in one epoch, written again as time passes. After a crash the last one stands, so it is a lower bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Billed {
    pub epoch: u64,
    pub node: u32,
    /// Of the whole machine.
    pub rate_usd_per_hour: UsdPerHour,
    pub rule: BillingRule,
    pub from: Timestamp,
    /// Nanoseconds by the owner's monotonic clock, which no correction of the time changes.
    pub elapsed_nanos: u64,
}

impl Billed {
    /// Rounded up: to the rule's step, and to the nano-dollar.
    pub fn cost(&self) -> Usd {
        let step = i128::from(self.rule.step_seconds.max(1)) * NANOS_PER_SECOND;
        let elapsed = i128::from(self.elapsed_nanos).max(i128::from(self.rule.minimum_seconds) * NANOS_PER_SECOND);
        let paid = (elapsed + step - 1) / step * step;
        let nanos = (i128::from(self.rate_usd_per_hour.nanos()) * paid + NANOS_PER_HOUR - 1) / NANOS_PER_HOUR;
        Usd::from_nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn billed(rate: &str, seconds: u64) -> Usd {
        let rate_usd_per_hour = UsdPerHour::parse(rate).unwrap();
        let elapsed_nanos = seconds * 1_000_000_000;
        Billed { epoch: 1, node: 0, rate_usd_per_hour, rule: BillingRule::PER_SECOND, from: Timestamp::UNIX_EPOCH, elapsed_nanos }.cost()
    }

    #[test]
    fn a_machine_costs_its_minimum_and_then_every_started_second() {
        assert_eq!(billed("3.60", 5).to_string(), "0.06");
        assert_eq!(billed("3.60", 3600).to_string(), "3.60");
        assert_eq!(billed("55.04", 86_400).to_string(), "1320.96");
        assert_eq!(billed("0.000000001", 61).to_string(), "0.000000001", "rounded up, never to nothing");
    }
}
