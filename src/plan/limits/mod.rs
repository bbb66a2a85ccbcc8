//! `Limits`: what the user allows: deadline, budget, rate, places, GPUs, terms, and what to aim for.

pub mod cloud_names;
pub mod error;
pub mod offer_filter;
pub mod policy;
pub mod purchase_choice;

pub use cloud_names::cloud;
pub use error::LimitsError;
pub use offer_filter::OfferFilter;
pub use purchase_choice::PurchaseChoice;

use jiff::{Timestamp, civil};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::policy::Policy;
use gpuplan_hardware::{GpuSelector, Hardware};
use gpuplan_units::{Hours, Usd};
use gpuplan_workload::file::LimitsSection;

/// What to aim for among plans that keep every limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Least expected cost; of plans within a twentieth of it, the fastest.
    #[default]
    Cost,
    Time,
    /// Least product of cost and time.
    Balanced,
}

/// Confidence with which limits are kept where the user gives none.
pub const CONFIDENCE: f64 = 0.9;

/// More machines than this are beyond what the planner looks at.
pub const MOST_NODES: u32 = 64;

/// Node counts worth looking at: powers of two and one step between.
const NODE_COUNTS: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// What the user allows, and what to aim for within that.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Hours from now.
    pub deadline: Option<Hours>,
    pub budget: Option<Usd>,
    /// Certainty with which deadline and budget are kept, 0.5 to 0.99.
    pub confidence: f64,
    /// Of every random draw.
    pub seed: u64,
    /// Of all machines together, an hour.
    pub max_price_per_hour: Option<Usd>,
    /// Which offers may be looked at.
    pub offers: OfferFilter,
    pub objective: Objective,
    /// What an hour sooner is worth: the least cost is that of machines and waiting together.
    pub value_of_time: Usd,
    /// Machines of one plan.
    pub max_nodes: Option<u32>,
    /// Rules of the house, from `policy.toml`.
    pub policy: Option<Policy>,
    /// When the plan is made, for capacity that ends on a day.
    pub now: Option<Timestamp>,
    /// Several machines may be joined by a network that GPUs cannot use directly.
    pub allow_slow_network: bool,
}

impl Default for Limits {
    /// No limit at all.
    fn default() -> Self {
        Self {
            deadline: None,
            budget: None,
            confidence: CONFIDENCE,
            seed: 0,
            max_price_per_hour: None,
            offers: OfferFilter::default(),
            objective: Objective::default(),
            value_of_time: Usd::ZERO,
            max_nodes: None,
            policy: None,
            now: None,
            allow_slow_network: false,
        }
    }
}

impl Limits {
    /// Reads the text of file and flags. `now` turns a date into hours.
    pub fn read(section: &LimitsSection, hardware: &Hardware, now: Timestamp) -> Result<Self, LimitsError> {
        let amount = |key, value: &Option<String>| value.as_deref().map(|text| money(key, text)).transpose();
        Ok(Self {
            deadline: section.deadline.as_deref().map(|text| deadline(text, now)).transpose()?,
            budget: amount("budget", &section.budget)?,
            max_price_per_hour: amount("max_price", &section.max_price)?,
            offers: OfferFilter {
                clouds: section.clouds.iter().map(|name| cloud(name, hardware)).collect::<Result<_, _>>()?,
                regions: section.regions.clone(),
                gpus: section
                    .gpus
                    .iter()
                    .flat_map(|text| text.split(';'))
                    .map(|text| GpuSelector::parse(text, hardware))
                    .collect::<Result<_, _>>()?,
                instance_type: None,
                purchase: choice("purchase", section.purchase.as_deref())?,
                include_suspect: section.include_suspect.unwrap_or(false),
                accept_stale: false,
            },
            confidence: section.confidence.as_deref().map(confidence).transpose()?.unwrap_or(CONFIDENCE),
            value_of_time: amount("value_of_time", &section.value_of_time)?.unwrap_or_default(),
            objective: choice("objective", section.objective.as_deref())?,
            max_nodes: section.max_nodes.map(nodes).transpose()?,
            now: Some(now),
            allow_slow_network: section.allow_slow_network.unwrap_or(false),
            ..Self::default()
        })
    }

    /// The most machines that a plan may have.
    pub fn node_limit(&self) -> u32 {
        self.max_nodes.unwrap_or(MOST_NODES)
    }

    /// Counts of machines worth looking at: the usual ones, and those that a stated number of GPUs needs.
    pub fn node_counts(&self) -> Vec<u32> {
        let most = self.node_limit();
        let mut counts: Vec<u32> = NODE_COUNTS.into_iter().filter(|count| *count <= most).collect();
        let ranges = self.offers.gpus.iter().filter_map(GpuSelector::count);
        for exact in ranges.filter(|range| range.start() == range.end()) {
            for devices in [1, 2, 4, 8, 16] {
                let nodes = exact.start() / devices;
                if exact.start().is_multiple_of(devices) && (1..=most).contains(&nodes) {
                    counts.push(nodes);
                }
            }
        }
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

/// `2026-12-24`, `2026-12-24T18:00:00Z` or a length of time from now.
fn deadline(text: &str, now: Timestamp) -> Result<Hours, LimitsError> {
    if let Ok(hours) = Hours::parse(text) {
        return if hours.0 > 0.0 { Ok(hours) } else { Err(invalid("deadline", format!("`{text}` leaves no time"))) };
    }
    let moment = text.parse::<Timestamp>().ok().or_else(|| {
        let date: civil::Date = text.parse().ok()?;
        // A day means until its end, in UTC.
        date.at(23, 59, 59, 0).to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    let moment = moment
        .ok_or_else(|| invalid("deadline", format!("`{text}` is not a valid deadline; try 36h or 2026-12-24")))?;
    let hours = moment.duration_since(now).as_secs_f64() / 3600.0;
    if hours > 0.0 { Ok(Hours(hours)) } else { Err(LimitsError::DeadlinePassed { deadline: moment, now }) }
}

/// `0.9`, `90 %` or `90%`.
fn confidence(text: &str) -> Result<f64, LimitsError> {
    let refused =
        || invalid("confidence", format!("`{text}` is not a valid confidence from 0.5 to 0.99; try 0.9 or 90%"));
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.trim().parse(),
    };
    share.ok().filter(|share| (0.5..=0.99).contains(share)).ok_or_else(refused)
}

fn money(key: &'static str, text: &str) -> Result<Usd, LimitsError> {
    let plain: String = text.chars().filter(|c| *c != ',' && *c != '_').collect();
    let amount = Usd::parse(plain.trim_end_matches("/h")).map_err(|error| invalid(key, error.to_string()))?;
    if amount > Usd::ZERO { Ok(amount) } else { Err(invalid(key, "must be more than zero".to_owned())) }
}

fn nodes(count: u32) -> Result<u32, LimitsError> {
    if (1..=MOST_NODES).contains(&count) {
        Ok(count)
    } else {
        Err(invalid("max_nodes", format!("{count} is not a valid number of machines; try 1 to {MOST_NODES}")))
    }
}

fn choice<T: Default + for<'de> Deserialize<'de>>(key: &'static str, text: Option<&str>) -> Result<T, LimitsError> {
    let Some(text) = text else { return Ok(T::default()) };
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|error| invalid(key, error.to_string()))
}

fn invalid(key: &'static str, detail: String) -> LimitsError {
    LimitsError::Invalid { key, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-08-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_deadline_is_a_length_or_a_date() {
        assert_eq!(deadline("36h", now()).unwrap(), Hours(36.0));
        assert_eq!(deadline("2026-08-02T00:00:00Z", now()).unwrap(), Hours(24.0));
        assert!((deadline("2026-08-01", now()).unwrap().0 - 24.0).abs() < 0.01);
        assert!(matches!(deadline("2026-07-01", now()), Err(LimitsError::DeadlinePassed { .. })));
        assert!(deadline("soon", now()).is_err());
        assert!(deadline("0h", now()).is_err());
    }

    #[test]
    fn a_confidence_is_a_share_or_a_percentage() {
        assert_eq!((confidence("0.9").unwrap(), confidence("95 %").unwrap()), (0.9, 0.95));
        assert!(["1", "0.4", "nan", "90", "sure", ""].into_iter().all(|text| confidence(text).is_err()));
    }

    #[test]
    fn money_is_read_as_people_write_it() {
        assert_eq!(money("budget", "$20,000").unwrap().to_string(), "20000.00");
        assert_eq!(money("max_price", "98.32/h").unwrap().to_string(), "98.32");
        assert!(money("budget", "0").is_err());
        assert!(money("budget", "lots").is_err());
    }
}
