//! What stands on a machine so that it is found again: labels to search and to bill by, and one item of metadata that says it exactly.
//! Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use gpuplan_launch::{CreateRequest, Pool};

/// The tags of `launch::names`, without their colons: a label's name has none.
pub const RUN: &str = "gpuplan_run";
pub const EPOCH: &str = "gpuplan_epoch";
pub const NODE: &str = "gpuplan_node";
pub const EXPIRES: &str = "gpuplan_expires";
pub const OWNER: &str = "gpuplan_owner";

/// Item of metadata that holds a `Marks` as JSON.
pub const ITEM: &str = "gpuplan-marks";

/// Characters of a label's name or value (cloud.google.com/compute/docs/labeling-resources, "Requirements for labels").
const LONGEST: usize = 63;

/// Everything of an order that the machine has to be recognised by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    pub run: String,
    pub epoch: u64,
    pub node: u32,
    pub token: String,
    /// As it was ordered: the offer may have named no zone.
    pub pool: Pool,
    pub expires_at: Timestamp,
    pub owner: String,
    /// Tags of the user that no label can hold.
    #[serde(default)]
    pub tags: Vec<(String, String)>,
    /// A group started it, where there was room: of the pool, its place counts.
    #[serde(default)]
    pub is_kept: bool,
}

impl Marks {
    pub fn for_request(request: &CreateRequest, owner: &str) -> Self {
        Self {
            run: request.run.clone(),
            epoch: request.epoch,
            node: request.node,
            token: request.token.clone(),
            pool: request.pool.clone(),
            expires_at: request.expires_at,
            owner: owner.to_owned(),
            tags: request.tags.iter().filter(|(name, value)| !is_label(name, value)).cloned().collect(),
            is_kept: false,
        }
    }

    /// Those of the run, over those of the user's tags that a label can hold.
    pub fn labels(&self, tags: &[(String, String)]) -> BTreeMap<String, String> {
        let mut labels: BTreeMap<String, String> =
            tags.iter().filter(|(name, value)| is_label(name, value)).cloned().collect();
        labels.extend([
            (RUN.to_owned(), label(&self.run)),
            (EPOCH.to_owned(), self.epoch.to_string()),
            (NODE.to_owned(), self.node.to_string()),
            (EXPIRES.to_owned(), self.expires_at.as_second().to_string()),
            (OWNER.to_owned(), label(&self.owner)),
        ]);
        labels
    }

    /// From the machine's metadata; where somebody removed that, what its labels still say. `None`: it is no machine of a run.
    pub fn read(item: Option<&str>, labels: &BTreeMap<&str, &str>, pool: Pool, created_at: Timestamp) -> Option<Self> {
        let run = *labels.get(RUN)?;
        if let Some(marks) = item.and_then(|text| serde_json::from_str::<Self>(text).ok()) {
            return Some(if marks.is_kept { Self { pool, ..marks } } else { marks });
        }
        let number = |name: &str| labels.get(name).and_then(|text| text.parse::<u64>().ok());
        let expires = number(EXPIRES).and_then(|seconds| Timestamp::from_second(seconds as i64).ok());
        Some(Self {
            run: run.to_owned(),
            epoch: number(EPOCH).unwrap_or(0),
            node: number(NODE).unwrap_or(0) as u32,
            token: String::new(),
            pool,
            expires_at: expires.unwrap_or(created_at),
            owner: labels.get(OWNER).map(|owner| (*owner).to_owned()).unwrap_or_default(),
            tags: Vec::new(),
            is_kept: false,
        })
    }
}

/// A text as a label can hold it. What it loses stands in the metadata.
pub fn label(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).take(LONGEST).collect()
}

fn is_label(name: &str, value: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase()) && label(name) == name && label(value) == value
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_launch::{Access, Market, Role};
    use proptest::prelude::*;

    fn marks(run: &str, tags: &[(&str, &str)]) -> (Marks, Vec<(String, String)>) {
        let tags: Vec<(String, String)> =
            tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let pool = Pool {
            cloud: "gcp".to_owned(),
            region: "us-central1".to_owned(),
            zone_id: None,
            instance_type: "g2-standard-4".to_owned(),
            market: Market::Spot,
        };
        let request = CreateRequest {
            run: run.to_owned(),
            epoch: 3,
            node: 1,
            nodes: 2,
            pool,
            token: "t".to_owned(),
            name: "n".to_owned(),
            expires_at: Timestamp::UNIX_EPOCH,
            boot: String::new(),
            image: None,
            disk_gib: 100,
            tags: tags.clone(),
            most: None,
            zones: Vec::new(),
            reservation: None,
            role: Role::Work,
            access: Access::default(),
        };
        (Marks::for_request(&request, "Ann@Example.com"), tags)
    }

    fn borrowed(labels: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
        labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[test]
    fn what_a_label_cannot_hold_is_in_the_metadata() {
        let (marks, tags) =
            marks("Llama_3.1", &[("team", "vision"), ("Cost Centre", "42"), ("note", "A/B"), (RUN, "stolen")]);
        let labels = marks.labels(&tags);
        assert_eq!(
            (labels["team"].as_str(), labels[RUN].as_str(), labels[OWNER].as_str()),
            ("vision", "llama_3-1", "ann-example-com")
        );
        assert_eq!(labels.len(), 6, "{labels:?}");
        assert_eq!(marks.tags.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["Cost Centre", "note"]);
    }

    #[test]
    fn a_machine_without_its_metadata_is_still_one_of_a_run() {
        let (kept, tags) = marks("Llama_3.1", &[]);
        let labels = kept.labels(&tags);
        let read = Marks::read(None, &borrowed(&labels), kept.pool.clone(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((read.run.as_str(), read.epoch, read.node), ("llama_3-1", 3, 1));
        assert!(Marks::read(None, &BTreeMap::new(), kept.pool, Timestamp::UNIX_EPOCH).is_none());
    }

    proptest! {
        #[test]
        fn the_exact_run_comes_back_and_every_label_is_one(run in "[A-Za-z0-9._-]{1,80}", name in ".{0,70}", value in ".{0,70}") {
            let (kept, tags) = marks(&run, &[(&name, &value)]);
            let labels = kept.labels(&tags);
            prop_assert!(labels.iter().all(|(name, value)| is_label(name, value)), "{labels:?}");
            prop_assert_eq!(labels.contains_key(&name) || RUN == name, !kept.tags.iter().any(|(other, _)| *other == name));
            let text = serde_json::to_string(&kept).unwrap();
            let read = Marks::read(Some(&text), &borrowed(&labels), kept.pool.clone(), Timestamp::UNIX_EPOCH).unwrap();
            prop_assert_eq!(read, kept);
        }
    }
}
