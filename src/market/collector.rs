//! `Collector`: the offers of one source while its rows are read, one for each machine, place and terms.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::SourceNote;
use crate::offer::{ANYWHERE, Location, Offer, Purchase, Suspicion};
use gpuplan_hardware::{CloudId, Hardware, InstanceId};
use gpuplan_units::UsdPerHour;

/// Unknown machine types that a note names; the rest are counted.
const NAMED: usize = 5;

/// Which of two prices stays that a source gives for the same machine, place and terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The cloud sells under several names what is one machine in the catalog, and a buyer takes the cheapest.
    Lowest,
    /// The rows contradict each other, and nobody is to be promised too little.
    Highest,
}

/// Offers as their rows are read, and machine types that the catalog does not have.
pub struct Collector<'a> {
    hardware: &'a Hardware,
    cloud: CloudId,
    keep: Keep,
    offers: BTreeMap<(InstanceId, Location, Purchase), Offer>,
    unknown: BTreeSet<String>,
}

impl<'a> Collector<'a> {
    pub fn new(hardware: &'a Hardware, cloud: CloudId, keep: Keep) -> Self {
        Self { hardware, cloud, keep, offers: BTreeMap::new(), unknown: BTreeSet::new() }
    }

    pub fn hardware(&self) -> &'a Hardware {
        self.hardware
    }

    pub fn cloud(&self) -> &CloudId {
        &self.cloud
    }

    /// The machine type of this name. An unknown one is remembered for the note.
    pub fn instance(&mut self, name: &str) -> Option<InstanceId> {
        let found = self.hardware.find_instance(&self.cloud, name);
        if found.is_none() {
            self.remember_unknown(name.to_owned());
        }
        found
    }

    /// A machine, however its source describes it, that the catalog does not have.
    pub fn remember_unknown(&mut self, name: String) {
        self.unknown.insert(name);
    }

    /// What this machine costs there on these terms, as far as has been read.
    pub fn rate(&self, instance: InstanceId, place: &Location, purchase: Purchase) -> Option<UsdPerHour> {
        self.offers.get(&(instance, place.clone(), purchase)).map(|known| known.quote.rate)
    }

    /// Adds an offer; one in an unknown place is marked. `None`: the price that is there already stays.
    pub fn add(&mut self, mut offer: Offer) -> Option<&mut Offer> {
        let stays = |known: UsdPerHour| match self.keep {
            Keep::Lowest => known <= offer.quote.rate,
            Keep::Highest => known >= offer.quote.rate,
        };
        if self.rate(offer.instance, &offer.place, offer.purchase).is_some_and(stays) {
            return None;
        }
        if &*offer.place.region == ANYWHERE {
            offer.suspicions.push(Suspicion::PlaceUnknown);
        }
        let key = (offer.instance, offer.place.clone(), offer.purchase);
        self.offers.insert(key.clone(), offer);
        self.offers.get_mut(&key)
    }

    /// In the order of the catalog.
    pub fn offers(&self) -> impl Iterator<Item = &Offer> {
        self.offers.values()
    }

    /// The offers in the order of the catalog, and one note for all unknown machine types.
    pub fn finish(self) -> (Vec<Offer>, Option<SourceNote>) {
        let note = (!self.unknown.is_empty()).then(|| {
            let named: Vec<&str> = self.unknown.iter().take(NAMED).map(String::as_str).collect();
            let rest = if self.unknown.len() > NAMED { ", …" } else { "" };
            let (is, type_) = if self.unknown.len() == 1 { ("is", "type") } else { ("are", "types") };
            let detail =
                format!("{} machine {type_} {is} not in the catalog: {}{rest}", self.unknown.len(), named.join(", "));
            SourceNote { place: self.cloud.to_string(), detail }
        });
        (self.offers.into_values().collect(), note)
    }
}
