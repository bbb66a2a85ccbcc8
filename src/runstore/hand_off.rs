//! `HandOff`: what the launch of a machine tells the agent on it: the run, the price as agreed, and the limits.

use serde::{Deserialize, Serialize};

use crate::costs::billed::Billing;
use crate::lead::OrderedBy;
use gpuplan_units::{Usd, UsdPerHour};

const VERSION: u32 = 1;

/// A JSON file on the machine, written by whoever launched it. What is absent is not limited, not known, or left to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandOff {
    pub version: u32,
    pub run: Option<String>,
    /// Which machine of how many.
    #[serde(default)]
    pub node: u32,
    #[serde(default = "one")]
    pub nodes: u32,
    /// Of this machine, frozen at launch.
    pub rate_usd_per_hour: Option<UsdPerHour>,
    #[serde(default)]
    pub billing: Billing,
    /// Of all machines and epochs together.
    pub budget_usd: Option<Usd>,
    /// Of this machine.
    pub lifetime_seconds: Option<u64>,
    /// Where people are told what happens.
    pub notify: Option<String>,
    /// The leader that rented the machine; the agent begins only while it leads, or its successor keeps the machine.
    pub ordered_by: Option<OrderedBy>,
    /// How this machine lives on its share of the money; `None`: for all of it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseTerm>,
    /// Run when the agent has ended, whatever the outcome; such as `shutdown -P now`.
    pub at_end: Option<String>,
}

/// Terms in which a machine lives on the share that was granted with its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseTerm {
    /// Token of the order.
    pub order: String,
    pub term_seconds: u64,
    /// Where the machine reads when the present term ends, in seconds since it booted; the agent moves that.
    pub file: String,
}

fn one() -> u32 {
    1
}

/// Why a text is no hand-off. The agent does not start: a machine without its limits could cost anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandOffError {
    #[error("the hand-off cannot be read: {0}")]
    Malformed(String),
    #[error("the hand-off was written by another version ({0})")]
    Version(u32),
    #[error("the hand-off has a budget but no rate, so spending cannot be tracked")]
    Unpriced,
    #[error("a rate of zero in the hand-off is not a valid price; leave it out if it is not known")]
    Free,
    #[error("the hand-off names node {0} of {1} nodes, which count from 0")]
    Node(u32, u32),
}

impl HandOff {
    pub fn read(text: &str) -> Result<Self, HandOffError> {
        let read: Self = serde_json::from_str(text).map_err(|error| HandOffError::Malformed(error.to_string()))?;
        if read.version != VERSION {
            return Err(HandOffError::Version(read.version));
        }
        if read.rate_usd_per_hour.is_some_and(|rate| rate.nanos() == 0) {
            return Err(HandOffError::Free);
        }
        if read.budget_usd.is_some() && read.rate_usd_per_hour.is_none() {
            return Err(HandOffError::Unpriced);
        }
        if read.node >= read.nodes {
            return Err(HandOffError::Node(read.node, read.nodes));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hand_off_is_whole_or_refused() {
        let read = HandOff::read(
            r#"{"version":1,"run":"a","rate_usd_per_hour":"55.04","budget_usd":"1000","lifetime_seconds":3600,
                "billing":{"step_seconds":1,"minimum_seconds":60,"free_if_interrupted_within_seconds":3600}}"#,
        );
        let read = read.unwrap();
        assert_eq!((read.node, read.nodes, read.billing.free_if_interrupted_within_seconds), (0, 1, 3600));
        assert_eq!(HandOff::read(r#"{"version":1}"#).unwrap().billing, Billing::default());
        for (text, error) in [
            (r#"{"version":2}"#, HandOffError::Version(2)),
            (r#"{"version":1,"budget_usd":"5"}"#, HandOffError::Unpriced),
            (r#"{"version":1,"rate_usd_per_hour":"0"}"#, HandOffError::Free),
            (r#"{"version":1,"node":2,"nodes":2}"#, HandOffError::Node(2, 2)),
        ] {
            assert_eq!(HandOff::read(text), Err(error), "{text}");
        }
        for text in ["", "{}", "[]", r#"{"version":1,"budjet_usd":"5"}"#, r#"{"version":1,"rate_usd_per_hour":-3}"#] {
            assert!(matches!(HandOff::read(text), Err(HandOffError::Malformed(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_that_is_no_hand_off_is_refused_as_such(text in ".{0,80}") {
            prop_assert!(matches!(HandOff::read(&text), Err(HandOffError::Malformed(_))));
        }

        #[test]
        fn what_was_written_reads_back_and_no_part_of_it_does(
            (rate, budget) in (1_i64..1_000_000_000_000, proptest::option::of(0_i64..1_000_000_000_000_000)),
            (node, more) in (0_u32..1000, 1_u32..1000),
            (run, notify) in (proptest::option::of(".{0,20}"), proptest::option::of(".{0,20}")),
            (lifetime_seconds, cut) in (proptest::option::of(0_u64..10_000_000), 0.0_f64..1.0),
            lease in proptest::option::of((".{0,20}", 0_u64..1_000_000)),
        ) {
            let written = HandOff {
                version: VERSION,
                run,
                node,
                nodes: node + more,
                rate_usd_per_hour: Some(UsdPerHour::from_nanos(rate)),
                billing: Billing::default(),
                budget_usd: budget.map(|nanos| Usd::from_nanos(i128::from(nanos))),
                lifetime_seconds,
                notify,
                ordered_by: None,
                lease: lease.map(|(order, term_seconds)| LeaseTerm { order, term_seconds, file: "../x".to_owned() }),
                at_end: None,
            };
            let text = serde_json::to_string(&written).unwrap();
            prop_assert_eq!(HandOff::read(&text), Ok(written));
            let part = text.char_indices().map(|(at, _)| at).nth((cut * text.chars().count() as f64) as usize);
            prop_assert!(HandOff::read(&text[..part.unwrap_or(0)]).is_err());
        }
    }
}
