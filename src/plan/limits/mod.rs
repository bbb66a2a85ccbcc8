//! `Limits`: what the user allows: deadline, budget, rate, places, GPUs, terms, and what to aim for.

mod cities;
mod cloud_names;
mod deadline;
pub mod error;
pub mod offer_filter;
pub mod policy;
pub mod purchase_choice;
pub mod quotas;
mod regions;

pub use cities::regions_at;
pub use cloud_names::cloud;
pub use error::LimitsError;
pub use offer_filter::OfferFilter;
pub use purchase_choice::PurchaseChoice;
pub use quotas::{CountedQuota, KnownQuota, QuotaRoom, Quotas};
pub use regions::{check_data_place, check_regions, without_region};

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::deadline::deadline;
use crate::limits::policy::Policy;
use gpuplan_hardware::{CloudId, GpuSelector, Hardware, NodeShape};
use gpuplan_import::StatedLayout;
use gpuplan_units::names::did_you_mean;
use gpuplan_units::separators::parse_amount;
use gpuplan_units::{GpuCount, Hours, Usd, nearest};
use gpuplan_workload::Objective as TrainingObjective;
use gpuplan_workload::file::LimitsSection;

/// What to aim for among plans that keep every limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Least expected cost of machines and of the hours until the result, at the value of time.
    #[default]
    CostAndTime,
    /// Least expected cost, however long it takes.
    Cost,
    /// Fewest expected hours, whatever they cost.
    Time,
    /// Least product of cost and time.
    Balanced,
}

/// Confidence with which limits are kept where the user gives none.
pub const CONFIDENCE: f64 = 0.9;

/// More machines than this are beyond what the planner looks at: 32,768 GPUs, eight to a machine.
pub const MOST_NODES: u32 = 4096;

/// More machines than this are looked at only where the user names such a number: nobody rents them without asking the cloud first.
pub const USUAL_NODES: u32 = 64;

/// Node counts worth looking at: powers of two and one step between.
const NODE_COUNTS: [u32; 24] =
    [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096];

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
    /// What an hour sooner is worth; `None`: by the amount of work.
    pub value_of_time: Option<Usd>,
    /// Clouds on which the program can launch: plans there go before plans elsewhere. `None`: all clouds are the same.
    pub launchable: Option<Vec<CloudId>>,
    /// What is known of the user's accounts: plans that they have no room for go after those that they may have room for.
    pub quotas: Arc<Quotas>,
    /// Machines of one plan.
    pub max_nodes: Option<u32>,
    /// Rules of the house, from `policy.toml`.
    pub policy: Option<Policy>,
    /// When the plan is made, for capacity that ends on a day.
    pub now: Option<Timestamp>,
    /// Several machines may be joined by a network that GPUs cannot use directly.
    pub allow_slow_network: bool,
    /// What a job says of how it is split over its GPUs: every plan has it.
    pub layout: StatedLayout,
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
            value_of_time: None,
            launchable: None,
            quotas: Arc::default(),
            max_nodes: None,
            policy: None,
            now: None,
            allow_slow_network: false,
            layout: StatedLayout::default(),
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
                regions: section.regions.iter().map(|region| region.trim().to_ascii_lowercase()).collect(),
                gpus: section
                    .gpus
                    .iter()
                    .flat_map(|text| text.split(';'))
                    .map(|text| gpus(text, hardware))
                    .collect::<Result<_, _>>()?,
                without_region: Vec::new(),
                instance_type: None,
                purchase: choice("purchase", section.purchase.as_deref())?,
                include_suspect: section.include_suspect.unwrap_or(false),
                accept_stale: false,
            },
            confidence: section.confidence.as_deref().map(confidence).transpose()?.unwrap_or(CONFIDENCE),
            value_of_time: section.value_of_time.as_deref().map(value_of_time).transpose()?,
            objective: objective(section)?,
            max_nodes: section.max_nodes.map(nodes).transpose()?,
            now: Some(now),
            allow_slow_network: section.allow_slow_network.unwrap_or(false),
            ..Self::default()
        })
    }

    /// The most machines that a plan may have: as stated, and else [`USUAL_NODES`], or as many as the stated numbers of GPUs need where they
    /// stand eight to a machine.
    pub fn node_limit(&self) -> u32 {
        const USUAL_DEVICES: u32 = 8;
        let ranges = self.offers.gpus.iter().filter_map(GpuSelector::count);
        // `H100:8..` has no upper end, and asks for no more than the usual.
        let stated = ranges.map(|range| if *range.end() == u32::MAX { *range.start() } else { *range.end() }).max();
        let needed = stated.map_or(0, |gpus| gpus.div_ceil(USUAL_DEVICES));
        self.max_nodes.unwrap_or_else(|| needed.clamp(USUAL_NODES, MOST_NODES))
    }

    /// Counts of machines worth looking at: the usual ones, and those that a stated number of GPUs needs.
    pub fn node_counts(&self) -> Vec<u32> {
        let most = self.node_limit();
        let mut counts: Vec<u32> = NODE_COUNTS.into_iter().filter(|count| *count <= most).collect();
        let ranges = self.offers.gpus.iter().filter_map(GpuSelector::count);
        for gpus in ranges.flat_map(|range| [*range.start(), *range.end()]) {
            for devices in [1, 2, 4, 8, 16] {
                let nodes = gpus / devices;
                if gpus.is_multiple_of(devices) && (1..=most).contains(&nodes) {
                    counts.push(nodes);
                }
            }
        }
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

/// `0.9`, `90 %` or `90%`.
fn confidence(text: &str) -> Result<f64, LimitsError> {
    let trimmed = text.trim();
    let share = match trimmed.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => trimmed.parse(),
    };
    let is_valid = |share: &f64| (0.5..=0.99).contains(share);
    // `90` is nine tenths, written without its sign.
    let percent = trimmed.parse::<f64>().ok().filter(|percent| is_valid(&(percent / 100.0)));
    share.ok().filter(is_valid).ok_or_else(|| LimitsError::Invalid {
        key: "confidence",
        detail: format!("`{text}` is not a valid confidence from 0.5 to 0.99; try 0.9 or 90%"),
        nearest: percent.map(|percent| format!("{percent}%")).into_iter().collect(),
    })
}

fn money(key: &'static str, text: &str) -> Result<Usd, LimitsError> {
    let refused = |detail: String| {
        let nearest = nearest::amount(text).into_iter().collect();
        let is_foreign =
            ["\u{20ac}", "\u{a3}", "\u{a5}", "eur", "gbp", "jpy"].iter().any(|sign| text.to_lowercase().contains(sign));
        let detail = if is_foreign { format!("{detail}: prices are in US dollars") } else { detail };
        LimitsError::Invalid { key, detail, nearest }
    };
    if key == "budget" {
        return budget(text, refused);
    }
    let amount = parse_amount(text.trim().trim_end_matches("/h")).map_err(|error| refused(error.to_string()))?;
    if amount > Usd::ZERO { Ok(amount) } else { Err(refused("it must be more than zero; try 100".to_owned())) }
}

/// Dollars for the whole run.
fn budget(text: &str, refused: impl Fn(String) -> LimitsError) -> Result<Usd, LimitsError> {
    let text = text.trim();
    if let Some(rate) = text.strip_suffix("/h") {
        let detail =
            format!("`{text}` is an hour's, and a budget is for the whole run; `--max-price {rate}` is for an hour");
        return Err(LimitsError::Invalid { key: "budget", detail, nearest: Vec::new() });
    }
    // Where a point groups digits, `1.000` is a thousand; nobody writes a tenth of a cent of a dollar that has none.
    if let Some(whole) = text.strip_suffix(".000") {
        let detail = format!("`{text}` may be a thousand times as much where a point groups digits");
        return Err(LimitsError::Invalid {
            key: "budget",
            detail,
            nearest: vec![whole.to_owned(), format!("{whole}000")],
        });
    }
    let amount = parse_amount(text).map_err(|error| refused(error.to_string()))?;
    if amount > Usd::ZERO { Ok(amount) } else { Err(refused("it must be more than zero; try 100".to_owned())) }
}

/// Dollars an hour; 0 is the least cost.
fn value_of_time(text: &str) -> Result<Usd, LimitsError> {
    let plain = text.trim().trim_end_matches("/h").trim_start_matches('$');
    if plain.trim_matches(['0', '.']).is_empty() && plain.contains('0') {
        return Ok(Usd::ZERO);
    }
    money("value_of_time", text.trim())
}

/// What a plan aims at is not what a model is trained for, and both are called an objective.
fn of_training(error: LimitsError, text: &str) -> LimitsError {
    match error {
        LimitsError::Invalid { key, detail, nearest } if choice::<TrainingObjective>(key, Some(text)).is_ok() => {
            let detail = format!("{detail}; what the model is trained for is --set training.objective={}", text.trim());
            LimitsError::Invalid { key, detail, nearest }
        }
        error => error,
    }
}

/// An objective that weighs no time contradicts a value of it.
fn objective(section: &LimitsSection) -> Result<Objective, LimitsError> {
    let text = section.objective.as_deref();
    let objective = choice("objective", text).map_err(|error| of_training(error, text.unwrap_or_default()))?;
    match (&section.value_of_time, objective) {
        (None, _) | (Some(_), Objective::CostAndTime) => Ok(objective),
        (Some(value), _) => {
            let detail = format!(
                "`{}` does not count the value of time ({value}); leave one of the two out",
                section.objective.as_deref().unwrap_or_default()
            );
            Err(LimitsError::Invalid { key: "objective", detail, nearest: vec!["cost-and-time".to_owned()] })
        }
    }
}

fn nodes(count: u32) -> Result<u32, LimitsError> {
    if (1..=MOST_NODES).contains(&count) {
        return Ok(count);
    }
    Err(LimitsError::Invalid {
        key: "max_nodes",
        detail: format!("{count} is not a valid number of machines; try 1 to {MOST_NODES}"),
        nearest: vec![count.clamp(1, MOST_NODES).to_string()],
    })
}

/// A choice of GPUs that some plan can hold.
fn gpus(text: &str, hardware: &Hardware) -> Result<GpuSelector, LimitsError> {
    let selector = GpuSelector::parse(text, hardware)?;
    let is_chosen = |node: &NodeShape| selector.matches_gpu(node.gpu, hardware.gpu(node.gpu));
    let nodes = hardware.instances().iter().map(|instance| &instance.node);
    let mut devices: BTreeSet<u32> = nodes.filter(|node| is_chosen(node)).map(NodeShape::devices).collect();
    if devices.is_empty() {
        // A card that no listed machine has is still planned at clouds that only say how many of it they rent out.
        devices.extend([1, 2, 4, 8]);
    }
    let largest = devices.last().copied().unwrap_or(1);
    let most = MOST_NODES * largest;
    let is_whole = selector.matches_share(GpuCount::whole(1));
    if !is_whole && !hardware.instances().iter().any(|it| is_chosen(&it.node) && selector.matches_share(it.node.gpus)) {
        return Err(no_such_share(text, &selector, hardware));
    }
    let Some(range) = selector.count().cloned() else { return Ok(selector) };
    let least = *range.start();
    let is_held = |devices: &u32| {
        let nodes = least.div_ceil(*devices);
        nodes <= MOST_NODES && nodes * devices <= *range.end()
    };
    if devices.iter().any(is_held) {
        return Ok(selector);
    }
    let (why, near) = if least > most {
        (format!("asks for {least} GPUs; a plan has at most {most}, {MOST_NODES} machines of {largest}"), vec![most])
    } else {
        let below = least / largest * largest;
        let sizes: Vec<String> = devices.iter().map(ToString::to_string).collect();
        (
            format!(
                "asks for {least} GPUs, which no number of machines has: a plan has at most {MOST_NODES} machines, of {} GPUs each",
                sizes.join(", ")
            ),
            [below, below + largest].into_iter().filter(|count| *count > 0).collect(),
        )
    };
    Err(LimitsError::Invalid {
        key: "gpus",
        detail: format!("`{}` {why}", text.trim()),
        nearest: near.iter().map(|count| text.trim().replace(&least.to_string(), &count.to_string())).collect(),
    })
}

/// Parts of GPUs that an answer names.
const NAMED_PARTS: usize = 3;

/// A part of a GPU that no machine has: names the parts of it that machines have, else those of other GPUs, the largest first.
fn no_such_share(text: &str, selector: &GpuSelector, hardware: &Hardware) -> LimitsError {
    let sold = hardware.instances().iter().map(|instance| &instance.node).filter(|node| node.gpus.is_slice());
    let (meant, other): (Vec<&NodeShape>, Vec<&NodeShape>) =
        sold.partition(|node| selector.matches_gpu(node.gpu, hardware.gpu(node.gpu)));
    let mut near = if meant.is_empty() { other } else { meant };
    near.sort_by(|a, b| b.gpus.as_f64().total_cmp(&a.gpus.as_f64()).then(a.gpu.cmp(&b.gpu)));
    let mut near: Vec<String> =
        near.iter().map(|node| format!("{}:{}", hardware.gpu(node.gpu).family, node.gpus)).collect();
    near.dedup();
    near.truncate(NAMED_PARTS);
    let text = text.trim();
    let detail =
        format!("no known machine has the part of a GPU that `{text}` asks for; `gpuplan estimate` takes any part");
    LimitsError::Invalid { key: "gpus", detail, nearest: near }
}

fn choice<T: Default + for<'de> Deserialize<'de>>(key: &'static str, text: Option<&str>) -> Result<T, LimitsError> {
    let Some(text) = text else { return Ok(T::default()) };
    let word = text.trim().to_ascii_lowercase().replace(['_', ' '], "-");
    serde_json::from_value(serde_json::Value::String(word)).map_err(|error| {
        // `unknown variant `a`, expected one of `b`, `c``: the known words stand in the message.
        let message = error.to_string();
        let known: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
        LimitsError::Invalid {
            key,
            detail: format!("`{text}` is not known; choose one of {}", known.join(", ")),
            nearest: did_you_mean(text, known.iter().copied()).map(str::to_owned).into_iter().collect(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_nobody_has_is_refused_with_parts_that_are_had() {
        let hardware = Hardware::embedded().unwrap();
        let refused = |text: &str| match gpus(text, &hardware) {
            Err(LimitsError::Invalid { nearest, .. }) => nearest,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(refused("L4:1/3"), ["L4:1/2", "L4:1/4", "L4:1/8"]);
        assert_eq!(refused("H100:1/7").len(), 3);
        assert!(gpus("L4:1/4", &hardware).is_ok() && gpus("..1/4", &hardware).is_ok() && gpus("L4", &hardware).is_ok());
    }

    #[test]
    fn a_confidence_is_a_share_or_a_percentage() {
        assert_eq!((confidence("0.9").unwrap(), confidence("95 %").unwrap()), (0.9, 0.95));
        assert!(["1", "0.4", "nan", "90", "sure", ""].into_iter().all(|text| confidence(text).is_err()));
    }

    #[test]
    fn a_value_of_time_may_be_nothing_and_needs_an_objective_that_weighs_it() {
        assert_eq!(value_of_time("5/h").unwrap().to_string(), "5.00");
        assert_eq!(["0", "$0/h", "0.00"].map(|text| value_of_time(text).unwrap()), [Usd::ZERO; 3]);
        assert!(["", "-5", "soon", "/h"].into_iter().all(|text| value_of_time(text).is_err()));
        let asked = |objective: &str| {
            let (objective, value_of_time) = (Some(objective.to_owned()), Some("5".to_owned()));
            super::objective(&LimitsSection { objective, value_of_time, ..LimitsSection::default() })
        };
        assert_eq!(asked("cost-and-time").unwrap(), Objective::CostAndTime);
        assert!(asked("cost").unwrap_err().to_string().contains("leave one of the two out"));
    }

    #[test]
    fn money_is_read_as_people_write_it() {
        assert_eq!(money("budget", "$20,000").unwrap().to_string(), "20000.00");
        assert_eq!(money("max_price", "98.32/h").unwrap().to_string(), "98.32");
        assert!(money("budget", "0").is_err());
        assert!(money("budget", "lots").is_err());
        for (text, near) in [("3,50", "3.50"), ("-3", "3"), ("300usd", "300"), ("1k", "1000")] {
            assert!(
                matches!(money("budget", text), Err(LimitsError::Invalid { nearest, .. }) if nearest == [near]),
                "{text}"
            );
        }
    }

    #[test]
    fn thousands_of_machines_are_looked_at_where_they_are_named() {
        let hardware = Hardware::embedded().unwrap();
        let limits = |text: &str, max_nodes| Limits {
            offers: OfferFilter { gpus: vec![gpus(text, &hardware).unwrap()], ..OfferFilter::default() },
            max_nodes,
            ..Limits::default()
        };
        for (text, max_nodes, most) in [
            ("H100", None, USUAL_NODES),
            ("H100:8..64", None, USUAL_NODES),
            ("H100:8..", None, USUAL_NODES),
            ("H100:16384", None, 2048),
            ("H100:1024..32768", None, MOST_NODES),
            ("H100:1024..", None, 128),
            ("H100:16384", Some(4), 4),
            ("H100", Some(1000), 1000),
        ] {
            let limits = limits(text, max_nodes);
            assert_eq!(limits.node_limit(), most, "{text} {max_nodes:?}");
            assert!(limits.node_counts().iter().all(|count| *count <= most), "{text}");
        }
        assert!(limits("H100:24000", None).node_counts().contains(&3000), "what is named exactly is looked at");
    }

    #[test]
    fn words_and_counts_that_cannot_be_meant_are_answered_with_the_nearest() {
        let nearest = |error| match error {
            LimitsError::Invalid { nearest, .. } => nearest,
            other => panic!("{other}"),
        };
        assert_eq!(nearest(choice::<Objective>("objective", Some("times")).unwrap_err()), ["time"]);
        let section = LimitsSection { objective: Some("dpo".to_owned()), ..LimitsSection::default() };
        assert!(objective(&section).unwrap_err().to_string().ends_with("is --set training.objective=dpo"));
        assert_eq!(choice::<PurchaseChoice>("purchase", Some("On_Demand")).unwrap(), PurchaseChoice::OnDemand);
        assert_eq!(nearest(nodes(4097).unwrap_err()), ["4096"]);
        assert_eq!(nearest(confidence("90").unwrap_err()), ["90%"]);
        let hardware = Hardware::embedded().unwrap();
        assert!(gpus("H100:4..1000000", &hardware).is_ok());
        assert!(gpus("H100:100000", &hardware).unwrap_err().to_string().contains("asks for 100000 GPUs"));
        let odd = gpus("H100:9999", &hardware).unwrap_err();
        assert!(odd.to_string().contains("which no number of machines has"), "{odd}");
        assert_eq!(nearest(odd), ["H100:9992", "H100:10000"]);
    }
}
