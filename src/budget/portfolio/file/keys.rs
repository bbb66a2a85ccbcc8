//! The keys of a portfolio file, each with its place in the text.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use gpuplan_workload::file::{LimitsSection, Scalar};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub name: Option<String>,
    pub currency: Option<Spanned<String>>,
    pub tax: Option<Spanned<Scalar>>,
    pub budget: Option<Spanned<Scalar>>,
    pub start: Option<Spanned<String>>,
    pub months: Option<Spanned<i64>>,
    pub data_spread: Option<Spanned<Scalar>>,
    #[serde(default)]
    pub team: Vec<Spanned<TeamSection>>,
    #[serde(default)]
    pub run: Vec<Spanned<Section>>,
    #[serde(default)]
    pub commitment: Vec<Spanned<CommitmentSection>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamSection {
    pub name: String,
    pub budget: Option<Spanned<Scalar>>,
}

/// A run or a phase of one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    pub name: Option<String>,
    pub team: Option<Spanned<String>>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    pub workload: Option<Spanned<String>>,
    pub limits: Option<LimitsSection>,
    pub plan: Option<Spanned<String>>,
    pub id: Option<String>,
    pub usd_per_hour: Option<Spanned<Scalar>>,
    pub hours: Option<Spanned<Scalar>>,
    pub hours_p90: Option<Spanned<Scalar>>,
    pub nodes: Option<Spanned<i64>>,
    pub cloud: Option<String>,
    pub region: Option<String>,
    pub instance_type: Option<String>,
    pub gpu: Option<String>,
    pub gpus_per_node: Option<Spanned<i64>>,
    pub purchase: Option<Spanned<String>>,
    pub source: Option<String>,
    pub as_of: Option<Spanned<Scalar>>,
    pub repeats: Option<Spanned<i64>>,
    pub start: Option<Spanned<String>>,
    pub months: Option<Spanned<i64>>,
    #[serde(default)]
    pub after: Vec<Spanned<String>>,
    #[serde(default)]
    pub phase: Vec<Spanned<Section>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitmentSection {
    pub name: String,
    pub kind: Spanned<String>,
    pub cloud: String,
    pub region: Option<String>,
    pub instance_type: Option<String>,
    #[serde(default)]
    pub machines: Vec<String>,
    pub nodes: Option<Spanned<i64>>,
    pub usd_per_hour: Spanned<Scalar>,
    pub percent: Option<Spanned<Scalar>>,
    pub start: Option<Spanned<String>>,
    pub months: Option<Spanned<i64>>,
    pub source: Option<String>,
    pub as_of: Option<Spanned<Scalar>>,
}

impl Section {
    /// Whether it says of itself what is to be done, or when.
    pub fn is_work(&self) -> bool {
        [&self.workload, &self.plan, &self.start].iter().any(|key| key.is_some())
            || [&self.usd_per_hour, &self.hours, &self.hours_p90].iter().any(|key| key.is_some())
            || [&self.repeats, &self.months, &self.nodes].iter().any(|key| key.is_some())
            || self.limits.is_some()
            || !self.after.is_empty()
    }
}
