//! What `prices` is asked for: GPUs and machines, clouds, places and terms, read from words as people type them.

use std::collections::BTreeSet;

use crate::session::diagnostic::Diagnostic;
use gpuplan_hardware::{CloudId, GpuSelector, Hardware, InstanceType};
use gpuplan_market::{Location, Market, Purchase, names_region};
use gpuplan_plan::limits::{self, OfferFilter, check_regions, regions_at};
use gpuplan_units::names::did_you_mean;

/// The words of a question, as they were typed.
#[derive(Default)]
pub struct Words<'a> {
    pub gpus: Vec<&'a str>,
    pub clouds: &'a [String],
    pub purchases: &'a [String],
    pub spot: bool,
    pub on_demand: bool,
    pub commitments: bool,
    pub trusted: bool,
}

/// The same, read. Nothing of a kind: any.
#[derive(Default)]
pub struct Query {
    pub wanted: Vec<Wanted>,
    pub clouds: Vec<CloudId>,
    pub terms: Terms,
    /// Offers without a suspicion alone.
    pub trusted: bool,
}

/// GPUs, or a machine and its relatives.
pub struct Wanted {
    /// As it was typed.
    pub text: String,
    /// Any of these; of a machine those that it has.
    pub gpus: Vec<GpuSelector>,
    /// A machine that was named instead, or how the names of several begin.
    machine: Option<String>,
}

impl Wanted {
    pub fn is_gpu_of(&self, machine: &InstanceType, hardware: &Hardware) -> bool {
        self.selectors(machine, hardware).next().is_some()
    }

    pub fn is_count_of(&self, machine: &InstanceType, hardware: &Hardware) -> bool {
        let node = &machine.node;
        self.selectors(machine, hardware)
            .any(|selector| selector.matches_count(node.devices()) && selector.matches_share(node.gpus))
    }

    fn selectors<'a>(
        &'a self,
        machine: &InstanceType,
        hardware: &'a Hardware,
    ) -> impl Iterator<Item = &'a GpuSelector> {
        let gpu = machine.node.gpu;
        self.gpus.iter().filter(move |selector| selector.matches_gpu(gpu, hardware.gpu(gpu)))
    }

    pub fn is_machine(&self, machine: &InstanceType) -> bool {
        self.machine.as_ref().is_none_or(|name| is_named(name, machine))
    }

    pub fn names_machine(&self) -> bool {
        self.machine.is_some()
    }
}

impl Query {
    pub fn read(words: &Words, hardware: &Hardware) -> Result<Self, Diagnostic> {
        Ok(Self {
            wanted: wanted(&words.gpus, hardware)?,
            clouds: words.clouds.iter().map(|name| limits::cloud(name, hardware)).collect::<Result<_, _>>()?,
            terms: Terms::read(words)?,
            trusted: words.trusted,
        })
    }

    /// Whether a machine is asked for by GPU, number and name.
    pub fn wants(&self, machine: &InstanceType, hardware: &Hardware) -> bool {
        let is_meant = |wanted: &Wanted| wanted.is_count_of(machine, hardware) && wanted.is_machine(machine);
        self.wanted.is_empty() || self.wanted.iter().any(is_meant)
    }
}

/// Terms that are listed.
#[derive(Default)]
pub struct Terms {
    /// Only these words; none: all but commitments.
    only: Vec<&'static str>,
    /// Commitments as well.
    with_commitments: bool,
}

/// What `--purchase` takes, and what else it is called.
const TERMS: [(&str, &[&str]); 7] = [
    ("on-demand", &["ondemand", "demand"]),
    ("spot", &["preemptible", "interruptible", "low-priority"]),
    ("commitment", &["commitments", "committed", "savings-plan"]),
    ("capacity-block", &["capacity-blocks", "block"]),
    ("calendar", &[]),
    ("flex-start", &["flex", "dws"]),
    ("reserved", &["reservation", "reservations"]),
];

impl Terms {
    fn read(words: &Words) -> Result<Self, Diagnostic> {
        let mut only = Vec::new();
        only.extend(words.spot.then_some("spot"));
        only.extend(words.on_demand.then_some("on-demand"));
        for text in words.purchases {
            let typed = text.trim().to_lowercase().replace(['_', ' '], "-");
            let known = TERMS.iter().find(|(word, others)| *word == typed || others.contains(&typed.as_str()));
            match known {
                Some((word, _)) => only.push(*word),
                None if typed == "any" => return Ok(Self { only: Vec::new(), with_commitments: true }),
                None => {
                    let names: Vec<&str> = TERMS.iter().map(|(word, _)| *word).collect();
                    let refused = Diagnostic::usage(format!("`{text}` is not a valid choice of terms"));
                    return Err(match did_you_mean(&typed, names.iter().copied()) {
                        Some(near) => refused.hint(format!("--purchase {near}")),
                        None => refused.hint(format!("--purchase any, or one of {}", names.join(", "))),
                    });
                }
            }
        }
        Ok(Self { only, with_commitments: words.commitments })
    }

    pub fn include(&self, purchase: Purchase) -> bool {
        match purchase {
            Purchase::Commitment { .. } => self.with_commitments || self.only.contains(&purchase.word()),
            _ => self.only.is_empty() || self.only.contains(&purchase.word()),
        }
    }

    /// As it would be typed.
    pub fn words(&self) -> String {
        match self.only.as_slice() {
            [] => "no --commitments".to_owned(),
            [one] => flag(one),
            several => format!("--purchase {}", several.join(",")),
        }
    }

    /// Only what is sold ahead, of which no list has a price.
    pub fn are_sold_ahead(&self) -> bool {
        let ahead = ["capacity-block", "calendar", "flex-start"];
        !self.only.is_empty() && self.only.iter().all(|word| ahead.contains(word))
    }
}

/// The flag that lists such terms.
pub fn flag(word: &str) -> String {
    match word {
        "spot" | "on-demand" => format!("--{word}"),
        "commitment" => "--commitments".to_owned(),
        _ => format!("--purchase {word}"),
    }
}

/// Words for every GPU: the list begins with the cheapest anyway.
const EVERY: [&str; 7] = ["all", "any", "*", "gpu", "gpus", "cheap", "cheapest"];

/// `H100 H200` are two, `A100 80GB` and `H100 8` are one that is written apart.
fn wanted(words: &[&str], hardware: &Hardware) -> Result<Vec<Wanted>, Diagnostic> {
    let mut texts: Vec<String> = Vec::new();
    for word in words.iter().map(|word| word.trim()).filter(|word| !EVERY.contains(&word.to_lowercase().as_str())) {
        let is_part = GpuSelector::parse(word, hardware).is_ok_and(|selector| !selector.names_chips());
        match texts.last_mut() {
            Some(last) if is_part => *last = format!("{last}:{word}"),
            _ => texts.push(word.to_owned()),
        }
    }
    texts.into_iter().map(|text| one(text, hardware)).collect()
}

fn one(text: String, hardware: &Hardware) -> Result<Wanted, Diagnostic> {
    let error = match GpuSelector::parse(&text, hardware) {
        Ok(gpus) => return Ok(Wanted { text, gpus: vec![gpus], machine: None }),
        Err(error) => error,
    };
    let machines = hardware.instances().iter().filter(|machine| is_named(&text, machine));
    let gpus: BTreeSet<String> =
        machines.map(|machine| format!("{}:{}", hardware.gpu(machine.node.gpu).family, machine.node.gpus)).collect();
    if gpus.is_empty() {
        return Err(error.into());
    }
    let gpus = gpus.iter().map(|gpus| GpuSelector::parse(gpus, hardware)).collect::<Result<_, _>>()?;
    Ok(Wanted { machine: Some(text.clone()), text, gpus })
}

/// Whether a machine is called so, or its name begins so and goes on with a sign: `p5` is p5.48xlarge, and not p5en.48xlarge. Azure's
/// names have a beginning that tables leave out.
fn is_named(name: &str, machine: &InstanceType) -> bool {
    let begins = |full: &str| {
        let start = full.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name));
        start.is_some_and(|_| !full[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    !name.is_empty() && (begins(&machine.name) || machine.name.strip_prefix("Standard_").is_some_and(begins))
}

/// Places that were named: regions, beginnings of their names, zone ids, areas, or cities that have regions.
pub struct Places {
    names: Vec<String>,
    /// What was typed.
    pub words: String,
}

impl Places {
    /// # Errors
    /// A name that no cloud of the question has.
    pub fn read(
        typed: &[String],
        clouds: &[CloudId],
        market: &Market,
        hardware: &Hardware,
    ) -> Result<Self, Diagnostic> {
        let mut places = Self { names: Vec::new(), words: format!("--region {}", typed.join(" --region ")) };
        let is_asked = |cloud: &CloudId| clouds.is_empty() || clouds.contains(cloud);
        for name in typed {
            let there = regions_at(name);
            let alone = Self { names: vec![name.clone()], words: String::new() };
            let mut offers = market.offers().iter().filter(|offer| is_asked(&hardware.instance(offer.instance).cloud));
            if there.is_empty() && !offers.any(|offer| alone.include(&offer.place)) {
                let filter =
                    OfferFilter { clouds: clouds.to_vec(), regions: vec![name.clone()], ..OfferFilter::default() };
                check_regions(&filter, market, hardware)?;
            }
            places.names.extend(alone.names);
            places.names.extend(there.iter().map(|region| (*region).to_owned()));
        }
        Ok(places)
    }

    pub fn are_any(&self) -> bool {
        self.names.is_empty()
    }

    pub fn include(&self, place: &Location) -> bool {
        let is_meant = |found: &str| self.names.iter().any(|name| names_region(name, found));
        self.are_any() || is_meant(&place.region) || place.zone_id.as_deref().is_some_and(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(words: &[&str]) -> Vec<String> {
        let hardware = Hardware::embedded().unwrap();
        let query = Query::read(&Words { gpus: words.to_vec(), ..Words::default() }, &hardware)
            .unwrap_or_else(|error| panic!("{words:?}: {error:?}"));
        let meant = hardware.instances().iter().filter(|machine| query.wants(machine, &hardware));
        meant.map(|machine| machine.name.clone()).collect()
    }

    #[test]
    fn words_beside_each_other_are_several_or_parts_of_one() {
        assert_eq!(machines(&["H100", "H200"]), machines(&["H100,H200"]));
        assert_eq!(machines(&["A100", "80GB"]), machines(&["A100:80GB"]));
        assert_eq!(machines(&["H100", "8"]), machines(&["H100:8"]));
        let both = machines(&["H100:8", "L4:1"]);
        assert!(both.contains(&"p5.48xlarge".to_owned()) && both.contains(&"g6.xlarge".to_owned()));
        assert!(!both.contains(&"g6.12xlarge".to_owned()));
        assert_eq!(machines(&["cheapest"]).len(), machines(&[]).len());
    }

    #[test]
    fn a_machine_is_named_whole_or_by_its_family() {
        assert_eq!(machines(&["P5.48xlarge"]), ["p5.48xlarge"]);
        assert_eq!(machines(&["p5"]).iter().filter(|name| !name.starts_with("p5.")).count(), 0);
        assert!(machines(&["n1-standard-8"]).contains(&"n1-standard-8-t4x1".to_owned()));
        assert_eq!(machines(&["NC24ads_A100_v4"]), ["Standard_NC24ads_A100_v4"]);
        let hardware = Hardware::embedded().unwrap();
        let refused = Query::read(&Words { gpus: vec!["p55"], ..Words::default() }, &hardware);
        assert!(refused.is_err());
    }

    #[test]
    fn terms_have_the_words_of_plans_and_of_clouds() {
        let listed = |purchases: &[&str]| {
            let purchases: Vec<String> = purchases.iter().map(|word| (*word).to_owned()).collect();
            let terms = Terms::read(&Words { purchases: &purchases, ..Words::default() });
            let all = [Purchase::OnDemand, Purchase::Spot, Purchase::Commitment { years: 1 }, Purchase::CapacityBlock];
            let kept = |terms: Terms| all.map(|purchase| terms.include(purchase));
            terms.map(kept).map_err(|error| format!("{error:?}"))
        };
        assert_eq!(listed(&[]), Ok([true, true, false, true]));
        assert_eq!(listed(&["on_demand"]), Ok([true, false, false, false]));
        assert_eq!(listed(&["spot", "commitment"]), Ok([false, true, true, false]));
        assert_eq!(listed(&["any"]), Ok([true; 4]));
        assert!(listed(&["sport"]).unwrap_err().contains("--purchase spot"));
    }
}
