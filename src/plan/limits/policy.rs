//! `Policy`: what the house allows, from `policy.toml`. Each rule knows its line, so that a refusal can point at it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::limits::cloud_names::cloud;
use gpuplan_hardware::{CloudId, GpuSelector, Hardware, InstanceType};
use gpuplan_market::{Location, Offer, Purchase, names_region};
use gpuplan_units::Usd;
use gpuplan_units::separators::parse_amount;

/// One rule and the line where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule<T> {
    pub value: T,
    pub line: usize,
}

/// Rules of the house; a missing one allows everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    pub clouds: Option<Rule<Vec<CloudId>>>,
    /// Names, zone ids, or beginnings of them.
    pub regions: Option<Rule<Vec<String>>>,
    pub gpus: Option<Rule<Vec<GpuSelector>>>,
    /// Terms, such as `on-demand` and `spot`.
    pub purchases: Option<Rule<Vec<String>>>,
    /// Of all machines of a run together.
    pub max_usd_per_hour: Option<Rule<Usd>>,
    /// Of a run, with 90 % certainty.
    pub max_p90_usd: Option<Rule<Usd>>,
    /// Tags that everything rented must carry.
    pub required_tags: Option<Rule<Vec<String>>>,
}

/// A rule that an offer or a plan breaks, and the line of `policy.toml` where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenRule {
    pub line: usize,
    pub violation: PolicyViolation,
}

/// What breaks a rule, with its figures. Named by the key of the rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum PolicyViolation {
    #[error("clouds does not list {cloud}")]
    Clouds { cloud: String },
    #[error("regions does not list {region}")]
    Regions { region: String },
    #[error("gpus does not list {gpu}")]
    Gpus { gpu: String },
    #[error("purchases does not list {purchase}")]
    Purchases { purchase: String },
    /// Of all machines together.
    #[error("${rate_usd_per_hour} an hour is over max_usd_per_hour = {limit_usd_per_hour}")]
    MaxUsdPerHour { rate_usd_per_hour: Usd, limit_usd_per_hour: Usd },
    #[error("${:.2} with 90 % certainty is over max_p90_usd = {limit_usd}", .p90_usd.dollars())]
    MaxP90Usd { p90_usd: Usd, limit_usd: Usd },
}

impl PolicyViolation {
    /// The rule without what breaks it: its key, and its limit where it has one.
    pub fn rule(&self) -> String {
        match self {
            Self::Clouds { .. } => "clouds".to_owned(),
            Self::Regions { .. } => "regions".to_owned(),
            Self::Gpus { .. } => "gpus".to_owned(),
            Self::Purchases { .. } => "purchases".to_owned(),
            Self::MaxUsdPerHour { limit_usd_per_hour, .. } => format!("max_usd_per_hour = {limit_usd_per_hour}"),
            Self::MaxP90Usd { limit_usd, .. } => format!("max_p90_usd = {limit_usd}"),
        }
    }

    /// Whether the rule is about what a run costs, and not about what may be rented.
    pub fn is_about_cost(&self) -> bool {
        matches!(self, Self::MaxUsdPerHour { .. } | Self::MaxP90Usd { .. })
    }
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    #[error("policy.toml: {0}")]
    Syntax(String),
    #[error("policy.toml line {line}: {key}: {detail}")]
    Invalid { line: usize, key: &'static str, detail: String },
}

/// The keys of `policy.toml`: rules of the organisation. A key that is absent allows everything.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyFile {
    /// Clouds that may be rented from.
    #[schemars(with = "Option<Vec<String>>")]
    clouds: Option<Spanned<Vec<String>>>,
    /// Regions and zones, or beginnings of their names.
    #[schemars(with = "Option<Vec<String>>")]
    regions: Option<Spanned<Vec<String>>>,
    /// GPUs, such as `H100` or `A100-80GB:8`.
    #[schemars(with = "Option<Vec<String>>")]
    gpus: Option<Spanned<Vec<String>>>,
    /// Terms of the purchase, such as `on-demand` and `spot`.
    #[schemars(with = "Option<Vec<String>>")]
    purchases: Option<Spanned<Vec<String>>>,
    /// Dollars an hour for all machines of a run together.
    #[schemars(with = "Option<Amount>")]
    max_usd_per_hour: Option<Spanned<Amount>>,
    /// Dollars for a run, with 90 % certainty.
    #[schemars(with = "Option<Amount>")]
    max_p90_usd: Option<Spanned<Amount>>,
    /// Tags that everything rented must have.
    #[schemars(with = "Option<Vec<String>>")]
    required_tags: Option<Spanned<Vec<String>>>,
    /// Limits on a change, for `diff` and `budget` alone: `max_increase_usd`, `max_increase_percent`, `max_total_p90_usd`.
    #[serde(rename = "guardrail")]
    #[schemars(with = "Option<BTreeMap<String, Amount>>")]
    _guardrail: Option<serde::de::IgnoredAny>,
    /// Of the amounts of `[[rule]]`, for `budget` alone: `USD`, or another code such as `EUR`.
    #[serde(rename = "currency")]
    #[schemars(with = "Option<String>")]
    _currency: Option<serde::de::IgnoredAny>,
    /// What one unit of `currency` is in dollars, for `budget` alone: `usd_per_unit`, `source`, `as_of`.
    #[serde(rename = "exchange")]
    #[schemars(with = "Option<BTreeMap<String, Amount>>")]
    _exchange: Option<serde::de::IgnoredAny>,
    /// What every budget has to keep, for `budget` alone: `min_chance`, `max_price_age`, `max_spent`.
    #[serde(rename = "rule")]
    #[schemars(with = "Option<Vec<BTreeMap<String, Amount>>>")]
    _rule: Option<serde::de::IgnoredAny>,
}

/// An amount of money: text is exact, a bare number is read as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Amount {
    Text(String),
    Whole(i64),
    Decimal(f64),
}

const PURCHASES: [&str; 7] =
    ["on-demand", "spot", "commitment", "capacity-block", "calendar", "flex-start", "reserved"];

impl Policy {
    pub fn read(text: &str, hardware: &Hardware) -> Result<Self, PolicyError> {
        let section: PolicyFile =
            toml::from_str(text).map_err(|error| PolicyError::Syntax(error.to_string().trim_end().to_owned()))?;
        let reader = Reader { text };
        Ok(Self {
            clouds: reader
                .list("clouds", section.clouds, |name| cloud(name, hardware).map_err(|error| error.to_string()))?,
            regions: reader.list("regions", section.regions, |name| Ok(name.to_ascii_lowercase()))?,
            gpus: reader.list("gpus", section.gpus, |name| {
                GpuSelector::parse(name, hardware).map_err(|error| error.to_string())
            })?,
            purchases: reader.list("purchases", section.purchases, |word| {
                let known = PURCHASES.contains(&word).then(|| word.to_owned());
                known.ok_or_else(|| format!("`{word}` is not among {}", PURCHASES.join(", ")))
            })?,
            max_usd_per_hour: reader.money("max_usd_per_hour", section.max_usd_per_hour)?,
            max_p90_usd: reader.money("max_p90_usd", section.max_p90_usd)?,
            required_tags: reader.list("required_tags", section.required_tags, |tag| Ok(tag.to_owned()))?,
        })
    }

    /// The first rule that an offer breaks.
    pub fn breaks(&self, offer: &Offer, instance: &InstanceType, hardware: &Hardware) -> Option<BrokenRule> {
        let gpu = hardware.gpu(instance.node.gpu);
        // Machines that the user owns belong to no cloud.
        if let Some(broken) = self.breaks_place(&instance.cloud, &offer.place).filter(|_| offer.owned.is_none()) {
            return Some(broken);
        }
        if let Some(rule) = self
            .gpus
            .as_ref()
            .filter(|rule| !rule.value.iter().any(|selector| selector.matches_gpu(instance.node.gpu, gpu)))
        {
            return Some(rule.broken(PolicyViolation::Gpus { gpu: gpu.id.clone() }));
        }
        self.breaks_terms(offer.purchase)
    }

    /// Rules about where machines are rented, with GPUs or without.
    pub fn breaks_place(&self, cloud: &CloudId, place: &Location) -> Option<BrokenRule> {
        if let Some(rule) = self.clouds.as_ref().filter(|rule| !rule.value.contains(cloud)) {
            return Some(rule.broken(PolicyViolation::Clouds { cloud: cloud.to_string() }));
        }
        let names = [Some(&place.region), place.zone_id.as_ref()];
        let inside = |allowed: &[String]| {
            names.into_iter().flatten().any(|name| allowed.iter().any(|start| names_region(start, name)))
        };
        let rule = self.regions.as_ref().filter(|rule| !inside(&rule.value))?;
        Some(rule.broken(PolicyViolation::Regions { region: place.region.to_string() }))
    }

    /// The rule about ways to buy.
    pub fn breaks_terms(&self, purchase: Purchase) -> Option<BrokenRule> {
        let word = purchase.word();
        let rule = self
            .purchases
            .as_ref()
            .filter(|rule| purchase != Purchase::Reserved && !rule.value.iter().any(|known| known == word))?;
        Some(rule.broken(PolicyViolation::Purchases { purchase: word.to_owned() }))
    }

    /// The rule about the rate of all machines of a run together.
    pub fn breaks_rate(&self, rate: Usd) -> Option<BrokenRule> {
        let rule = self.max_usd_per_hour.as_ref().filter(|rule| rate > rule.value)?;
        let violation = PolicyViolation::MaxUsdPerHour { rate_usd_per_hour: rate, limit_usd_per_hour: rule.value };
        Some(rule.broken(violation))
    }

    /// The rule about the cost of a run, with 90 % certainty.
    pub fn breaks_cost(&self, p90: Usd) -> Option<BrokenRule> {
        let rule = self.max_p90_usd.as_ref().filter(|rule| p90 > rule.value)?;
        Some(rule.broken(PolicyViolation::MaxP90Usd { p90_usd: p90, limit_usd: rule.value }))
    }
}

impl<T> Rule<T> {
    fn broken(&self, violation: PolicyViolation) -> BrokenRule {
        BrokenRule { line: self.line, violation }
    }
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn line<T>(&self, spanned: &Spanned<T>) -> usize {
        self.text[..spanned.span().start.min(self.text.len())].matches('\n').count() + 1
    }

    fn list<T>(
        &self,
        key: &'static str,
        found: Option<Spanned<Vec<String>>>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Rule<Vec<T>>>, PolicyError> {
        let Some(found) = found else { return Ok(None) };
        let line = self.line(&found);
        let value = found.into_inner().iter().map(|word| read(word)).collect::<Result<_, _>>();
        value.map(|value| Some(Rule { value, line })).map_err(|detail| PolicyError::Invalid { line, key, detail })
    }

    fn money(&self, key: &'static str, found: Option<Spanned<Amount>>) -> Result<Option<Rule<Usd>>, PolicyError> {
        let Some(found) = found else { return Ok(None) };
        let line = self.line(&found);
        let text = match found.into_inner() {
            Amount::Text(text) => text,
            Amount::Whole(number) => number.to_string(),
            Amount::Decimal(number) => number.to_string(),
        };
        let read = parse_amount(&text).map_err(|error| PolicyError::Invalid { line, key, detail: error.to_string() });
        read.map(|value| Some(Rule { value, line }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_market::Market;

    #[test]
    fn every_rule_refuses_with_its_line() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let text = "# of the house\nclouds = [\"aws\"]\nregions = [\"us-east\"]\n\ngpus = [\"H100\"]\npurchases = [\"on-demand\"]\n\
            max_usd_per_hour = 50\nmax_p90_usd = \"1,000.50\"\nrequired_tags = [\"team\"]\n";
        let policy = Policy::read(text, &hardware).unwrap();
        let first = |line: usize| {
            let broken = market
                .offers()
                .iter()
                .filter_map(|offer| policy.breaks(offer, hardware.instance(offer.instance), &hardware));
            broken.into_iter().find(|broken| broken.line == line).map(|broken| broken.violation.to_string())
        };
        assert!(first(2).unwrap().starts_with("clouds does not list "));
        assert!(first(3).unwrap().starts_with("regions does not list "));
        assert!(first(5).unwrap().starts_with("gpus does not list "));
        assert_eq!(first(6).unwrap(), "purchases does not list spot");
        assert_eq!(policy.breaks_rate(Usd::parse("50.01").unwrap()).unwrap().line, 7);
        assert_eq!(policy.breaks_rate(Usd::parse("50").unwrap()), None);
        assert_eq!(policy.breaks_cost(Usd::parse("1000.51").unwrap()).unwrap().line, 8);
        assert_eq!(policy.required_tags.unwrap().value, ["team"]);
        assert_eq!(Policy::read("", &hardware).unwrap(), Policy::default());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line() {
        let hardware = Hardware::embedded().unwrap();
        let refused = |text: &str| Policy::read(text, &hardware).unwrap_err().to_string();
        assert!(refused("\ngpus = [\"H1000\"]").starts_with("policy.toml line 2: gpus: "));
        assert!(refused("purchases = [\"stolen\"]").contains("`stolen` is not among on-demand, spot"));
        assert!(refused("max_p90_usd = \"lots\"").starts_with("policy.toml line 1: max_p90_usd: "));
        assert!(refused("colour = 1").contains("unknown field `colour`"));
    }
}
