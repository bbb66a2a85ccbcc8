//! `Quotas`: how much the user's accounts may run at once, as their clouds last said it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_hardware::{CloudId, InstanceId};
use gpuplan_market::Purchase;

/// Region of a quota that counts what runs in all of them.
const GLOBAL: &str = "global";

/// A limit of an account, and when its cloud said it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KnownQuota {
    pub cloud: String,
    /// Number of the account or name of the project.
    pub account: String,
    /// `global`: of all regions together.
    pub region: String,
    /// As the cloud names it, such as `L-7212CCBC`.
    pub code: String,
    pub name: String,
    /// What it counts, such as `vCPUs`.
    pub unit: String,
    /// `null`: there is none.
    pub limit: Option<f64>,
    /// What ran when the cloud said it; `null` where it did not say.
    pub used: Option<f64>,
    pub asked_at: Timestamp,
}

impl KnownQuota {
    /// Whether so much is over the limit, whatever else runs.
    fn is_below(&self, needed: f64) -> bool {
        self.limit.is_some_and(|limit| needed > limit)
    }

    /// Whether what ran when the cloud said it leaves too little for so much.
    pub fn was_taken(&self, needed: f64) -> bool {
        self.is_below(needed + self.used.unwrap_or(0.0))
    }
}

/// A quota, and what one machine takes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedQuota {
    pub quota: KnownQuota,
    /// By machine and terms, in its unit; what is not here does not count against it.
    pub takes: BTreeMap<(InstanceId, Purchase), f64>,
}

/// What is known of the user's accounts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quotas {
    /// Clouds whose accounts can be asked.
    pub clouds: Vec<CloudId>,
    pub known: Vec<CountedQuota>,
}

/// What is known of an account's room for the machines of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum QuotaRoom {
    /// No cloud said what counts here: there may be room or none.
    #[default]
    Unknown,
    /// The machines are the user's own.
    NotNeeded,
    /// The limit is no less than what the machines take.
    Within {
        needed: f64,
        #[serde(flatten)]
        quota: KnownQuota,
    },
    /// The machines take more than the account may run.
    Exceeded {
        needed: f64,
        #[serde(flatten)]
        quota: KnownQuota,
    },
}

impl QuotaRoom {
    pub fn is_exceeded(&self) -> bool {
        matches!(self, Self::Exceeded { .. })
    }

    /// Of two that must both be kept to: one that is exceeded, else one that nobody knows.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let weight = |room: &Self| match room {
            Self::Exceeded { .. } => 3,
            Self::Unknown => 2,
            Self::Within { .. } => 1,
            Self::NotNeeded => 0,
        };
        if weight(&other) > weight(&self) { other } else { self }
    }
}

impl Quotas {
    /// What is known of the room for so many of these machines on these terms.
    pub fn room(&self, cloud: &CloudId, region: &str, machine: (InstanceId, Purchase), nodes: u32) -> QuotaRoom {
        let mut room = QuotaRoom::Unknown;
        for CountedQuota { quota, takes } in &self.known {
            let is_here = quota.cloud == cloud.as_str() && (quota.region == region || quota.region == GLOBAL);
            let Some(each) = takes.get(&machine).filter(|_| is_here) else { continue };
            let (needed, quota) = (each * f64::from(nodes), quota.clone());
            if quota.is_below(needed) {
                return QuotaRoom::Exceeded { needed, quota };
            }
            // That of all regions says nothing of this one.
            if quota.region == region {
                room = QuotaRoom::Within { needed, quota };
            }
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(region: &str, limit: Option<f64>, used: Option<f64>) -> KnownQuota {
        KnownQuota {
            cloud: "aws".to_owned(),
            account: "123456789012".to_owned(),
            region: region.to_owned(),
            code: "L-3819A6DF".to_owned(),
            name: "All G and VT Spot Instance Requests".to_owned(),
            unit: "vCPUs".to_owned(),
            limit,
            used,
            asked_at: "2026-11-20T12:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn what_nobody_said_is_unknown_and_what_one_limit_excludes_is_exceeded() {
        let machine = (InstanceId(0), Purchase::Spot);
        let counted = |quota| CountedQuota { quota, takes: BTreeMap::from([(machine, 8.0)]) };
        let room = |known: Vec<KnownQuota>, region: &str, machine, nodes| {
            let quotas = Quotas { clouds: Vec::new(), known: known.into_iter().map(counted).collect() };
            quotas.room(&CloudId::new("aws"), region, machine, nodes)
        };
        let here = || vec![quota("us-east-1", Some(64.0), Some(60.0))];
        assert_eq!(room(Vec::new(), "us-east-1", machine, 1), QuotaRoom::Unknown);
        assert_eq!(room(here(), "us-west-2", machine, 1), QuotaRoom::Unknown, "of another region");
        assert_eq!(room(here(), "us-east-1", (machine.0, Purchase::OnDemand), 1), QuotaRoom::Unknown, "other terms");
        assert!(matches!(room(here(), "us-east-1", machine, 8), QuotaRoom::Within { needed: 64.0, .. }));
        assert!(room(here(), "us-east-1", machine, 9).is_exceeded());
        assert!(here()[0].was_taken(8.0) && !here()[0].was_taken(4.0));
        let without = vec![quota("us-east-1", None, Some(1e6))];
        assert!(matches!(room(without, "us-east-1", machine, 512), QuotaRoom::Within { .. }));
        let global = || vec![quota(GLOBAL, Some(16.0), None)];
        assert_eq!(room(global(), "us-east-1", machine, 2), QuotaRoom::Unknown, "the region has one of its own");
        assert!(room(global(), "us-east-1", machine, 3).is_exceeded());
    }

    #[test]
    fn of_two_that_must_be_kept_the_worse_counts() {
        let within = || QuotaRoom::Within { needed: 1.0, quota: quota("r", Some(2.0), None) };
        let exceeded = || QuotaRoom::Exceeded { needed: 3.0, quota: quota("r", Some(2.0), None) };
        assert_eq!(within().and(QuotaRoom::Unknown), QuotaRoom::Unknown);
        assert!(QuotaRoom::Unknown.and(exceeded()).is_exceeded() && exceeded().and(within()).is_exceeded());
        let json = serde_json::to_value(exceeded()).unwrap();
        assert_eq!((json["state"].as_str(), json["limit"].as_f64()), (Some("exceeded"), Some(2.0)), "{json}");
        assert_eq!(serde_json::from_value::<QuotaRoom>(json).unwrap(), exceeded());
    }
}
