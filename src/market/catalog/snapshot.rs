//! `Market`: every offer, side charge and source of the embedded snapshot, checked as it is read.

use std::collections::{BTreeMap, HashMap};
use std::mem::discriminant;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;

use crate::answer::{Opening, PoolSignal};
use crate::cache::rows::{self, RowsError};
use crate::catalog::charges::Charges;
use crate::catalog::numbers::Numbers;
use crate::catalog::offered;
pub use crate::catalog::rows::read_prices;
use crate::catalog::rows::{Risks, read_risks};
use crate::catalog::rules;
use crate::catalog::sites::Sites;
use crate::drift::MonthlyDrift;
pub use crate::error::MarketError;
use crate::host_offer::{self, HostOffer};
use crate::machines::{Listing, Listings, MachineList};
use crate::offer::{ANYWHERE, Heard, Location, Offer, OfferId, Purchase, RiskEvidence};
use crate::own::OwnPool;
use gpuplan_embedded::Archive;
use gpuplan_hardware::{CloudId, Hardware, InstanceId};
use gpuplan_units::UsdPerHour;

/// One entry of `catalogs/SNAPSHOT.toml`.
#[derive(Clone, Debug, Deserialize)]
pub struct Source {
    pub id: String,
    pub title: String,
    pub url: String,
    #[serde(default)]
    pub commit: String,
    pub observed_at: String,
    pub licence: String,
    #[serde(default)]
    pub note: String,
}

#[derive(Deserialize)]
struct Manifest {
    taken_at: Timestamp,
    source: Vec<Source>,
}

#[derive(Clone, Debug)]
pub struct Market {
    offers: Vec<Offer>,
    /// Of machines without GPU.
    host_offers: Vec<HostOffer>,
    pub charges: Charges,
    /// Where regions take their electricity from.
    pub sites: Sites,
    /// Which machines clouds had where when the snapshot was made, of those whose list it has.
    pub offered: BTreeMap<CloudId, MachineList>,
    /// Who said last that a machine is to be had in a region.
    listings: Arc<Listings>,
    pub sources: Vec<Source>,
    /// Newest observation of the snapshot.
    pub taken_at: Timestamp,
    /// What the user's own launches saw.
    pub own_pools: Vec<OwnPool>,
    /// How far prices move, as a feed says it; empty without one.
    pub drift: Vec<MonthlyDrift>,
}

impl Market {
    /// The packed catalog, for a hash of what an answer rests on.
    pub fn embedded_bytes() -> &'static [u8] {
        gpuplan_embedded::MARKET
    }

    /// The market inside this binary.
    pub fn embedded(hardware: &Hardware) -> Result<Self, MarketError> {
        Self::from_archive(&Archive::unpack(gpuplan_embedded::MARKET)?, hardware)
    }

    pub fn from_archive(archive: &Archive, hardware: &Hardware) -> Result<Self, MarketError> {
        let manifest =
            archive.documents.get("SNAPSHOT").ok_or_else(|| MarketError::Manifest("is missing".to_owned()))?;
        let manifest: Manifest =
            serde_json::from_str(manifest).map_err(|error| MarketError::Manifest(error.to_string()))?;
        let mut risks = Risks::new();
        let mut charges = Charges::default();
        let (mut offered, mut listings) = (BTreeMap::new(), Listings::default());
        for (name, table) in &archive.tables {
            if let Some(cloud) = name.strip_prefix("interruption/") {
                read_risks(cloud, name, table, hardware, &mut risks)?;
            } else if let Some(cloud) = name.strip_prefix("offered/") {
                let cloud = CloudId::new(cloud);
                let list = offered::read(table, &cloud, hardware, &mut listings);
                offered.insert(cloud, list.map_err(|detail| MarketError::Manifest(format!("{name}: {detail}")))?);
            } else if let Some(cloud) = name.strip_prefix("charges/") {
                charges.read(&CloudId::new(cloud), table).map_err(|(row, detail)| MarketError::Row {
                    file: name.clone(),
                    row,
                    detail,
                })?;
            }
        }
        let (mut offers, mut host_offers) = (Vec::new(), Vec::new());
        for (name, table) in &archive.tables {
            if let Some(cloud) = name.strip_prefix("prices/") {
                read_prices(&CloudId::new(cloud), name, table, hardware, &risks, &mut offers)?;
            } else if let Some(cloud) = name.strip_prefix("host-prices/") {
                host_offers.extend(host_offer::read(&CloudId::new(cloud), name, table, hardware)?);
            }
        }
        rules::mark(&mut offers, hardware);
        Ok(Self {
            offers,
            host_offers,
            charges,
            sites: Sites::read(archive)?,
            offered,
            listings: Arc::new(listings),
            sources: manifest.source,
            taken_at: manifest.taken_at,
            own_pools: Vec::new(),
            drift: Vec::new(),
        })
    }

    /// The same market with these offers added and judged together with the rest.
    pub fn with_offers(mut self, more: Vec<Offer>, hardware: &Hardware) -> Self {
        self.offers.extend(more);
        rules::mark(&mut self.offers, hardware);
        self
    }

    /// The same market without prices of places in which their cloud does not have the machine: a price is no offer.
    pub fn where_listed(mut self, cloud: &CloudId, list: &MachineList, hardware: &Hardware) -> Self {
        if list.regions.is_empty() {
            return self;
        }
        Arc::make_mut(&mut self.listings).extend(list.listings(cloud, hardware));
        self.only(|offer| {
            let instance = hardware.instance(offer.instance);
            instance.cloud != *cloud || !list.denies(offer, &instance.name)
        })
    }

    /// The same market as if what is sold ahead could be had in any number for any time.
    #[must_use]
    pub fn unbooked(&self) -> Self {
        let mut market = self.clone();
        market.offers.iter_mut().for_each(|offer| offer.booking = None);
        market
    }

    /// The same market with reservations for a date where they can be had, the earliest of each region.
    #[must_use]
    pub fn with_openings(mut self, openings: &[Opening]) -> Self {
        for offer in self.offers.iter_mut().filter(|offer| offer.purchase == Purchase::Calendar) {
            let is_here = |it: &&Opening| it.instance == offer.instance && it.place.region == offer.place.region;
            if let Some(first) = openings.iter().filter(is_here).min_by_key(|it| it.booking.starts_at) {
                (offer.place, offer.booking) = (first.place.clone(), Some(Box::new(first.booking)));
            }
        }
        self
    }

    /// The same market with nothing in it but some of its offers.
    pub fn only(&self, keeps: impl Fn(&Offer) -> bool) -> Self {
        Self { offers: self.offers.iter().filter(|offer| keeps(offer)).cloned().collect(), ..self.clone() }
    }

    /// The same market with these offers laid over it. Of one machine, place and terms the newest observation stands, of two
    /// as new the one that came later. An offer for a whole region and those of its zones exclude each other: the zones stand
    /// unless they are out of date beside it. A risk that was known of a pool stays known.
    pub fn merged(mut self, newer: Vec<Offer>, hardware: &Hardware) -> Self {
        if newer.is_empty() {
            return self;
        }
        let first = self.offers.len();
        self.offers.extend(newer);
        let mut numbers = Numbers::from_offers(&self.offers);
        let place = |index: usize, offer: &Offer| (offer.instance, numbers.regions[index]);
        let (known, fresh) = self.offers.split_at_mut(first);
        let known =
            known.iter().enumerate().filter_map(|(index, offer)| Some((place(index, offer), offer.risk.clone()?)));
        let risks: FxHashMap<_, Arc<RiskEvidence>> = known.collect();
        for (index, offer) in
            fresh.iter_mut().enumerate().filter(|(_, offer)| offer.purchase == Purchase::Spot && offer.risk.is_none())
        {
            offer.risk = risks.get(&place(first + index, offer)).cloned();
        }
        let stands = stand(&self.offers, first, &numbers);
        let mut each = stands.iter();
        self.offers.retain(|_| *each.next().expect("`stand` says it of every offer"));
        numbers.retain(&stands);
        rules::mark_numbered(&mut self.offers, numbers, hardware);
        self
    }

    /// With what the user's own launches saw.
    #[must_use]
    pub fn seen_by_user(self, own_pools: Vec<OwnPool>) -> Self {
        Self { own_pools, ..self }
    }

    /// Evidence of risk and capacity, given to the offers that it is about: by zone where it names one, else to the region.
    pub fn informed(mut self, risks: &[(InstanceId, Location, Arc<RiskEvidence>)], signals: &[PoolSignal]) -> Self {
        let key = |instance: &InstanceId, place: &Location| (*instance, place.region.clone(), place.zone_id.clone());
        let risks: HashMap<_, _> = risks.iter().map(|(instance, place, risk)| (key(instance, place), risk)).collect();
        let mut found: HashMap<_, Vec<&PoolSignal>> = HashMap::new();
        for said in signals {
            found.entry(key(&said.instance, &said.place)).or_default().push(said);
        }
        for offer in self.offers.iter_mut().filter(|offer| offer.purchase == Purchase::Spot) {
            let zone = key(&offer.instance, &offer.place);
            let region = (offer.instance, offer.place.region.clone(), None);
            let risk = risks
                .get(&zone)
                .or_else(|| risks.get(&region))
                .filter(|risk| offer.risk.as_ref().is_none_or(|known| known.observed_at <= risk.observed_at));
            if let Some(risk) = risk {
                offer.risk = Some((*risk).clone());
            }
            // What is said of the zone replaces what is said of its region, kind by kind.
            for said in [region, zone].iter().filter_map(|place| found.get(place)) {
                offer.hear(said);
            }
        }
        self
    }

    /// What lies over the snapshot, as bytes: offers, and how far prices move; empty where there is nothing.
    pub fn laid_over(&self, hardware: &Hardware) -> Result<Vec<u8>, RowsError> {
        let over: Vec<&Offer> = self.offers.iter().filter(|offer| !offer.quote.origin.is_of_the_snapshot()).collect();
        let mut bytes = if over.is_empty() { Vec::new() } else { rows::pack_offers(&over, hardware)? };
        if !self.drift.is_empty() {
            bytes.extend(postcard::to_stdvec(&self.drift)?);
        }
        Ok(bytes)
    }

    /// Who said last that the machine of an offer is to be had in its region. `None`: no list says so, or nobody kept when it was said.
    pub fn listing(&self, offer: &Offer) -> Option<&Listing> {
        self.listings.get(&(offer.instance, offer.place.region.clone()))
    }

    /// When the newest price of the market was seen.
    pub fn newest(&self) -> Timestamp {
        self.offers.iter().map(|offer| offer.quote.observed_at).max().unwrap_or(self.taken_at)
    }

    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// Of machines without GPU.
    pub fn host_offers(&self) -> &[HostOffer] {
        &self.host_offers
    }

    pub fn offer(&self, id: OfferId) -> &Offer {
        &self.offers[id.0 as usize]
    }

    /// The list price of a machine there: its lowest price on demand. `None`: nobody says one.
    pub fn on_demand_rate(&self, instance: InstanceId, region: &str) -> Option<UsdPerHour> {
        let there = self.offers.iter().filter(|offer| offer.instance == instance && &*offer.place.region == region);
        let bought = there.filter(|offer| offer.purchase == Purchase::OnDemand && offer.owned.is_none());
        bought.map(|offer| offer.quote.rate).min()
    }

    pub fn offer_ids(&self) -> impl Iterator<Item = OfferId> + use<> {
        (0..self.offers.len() as u32).map(OfferId)
    }

    pub fn source(&self, id: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.id == id)
    }
}

impl Offer {
    /// Signals of this pool: each replaces an earlier one of its kind, and the others stay.
    fn hear(&mut self, said: &[&PoolSignal]) {
        for one in said {
            self.signals.retain(|known| discriminant(&known.signal) != discriminant(&one.signal));
        }
        self.signals.extend(said.iter().map(|one| Heard { signal: one.signal, observed_at: one.observed_at }));
    }
}

/// Zones of a region whose prices are older than that of the whole region by more than this give way to it.
const OUT_OF_DATE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Whether each offer stands beside the others of its machine, terms and region, if an offer from `first` on touches these.
fn stand(offers: &[Offer], first: usize, Numbers { zones, pools, most_pools, .. }: &Numbers) -> Vec<bool> {
    let pool = |index: usize| pools[index] as usize;
    let mut is_touched = vec![false; *most_pools];
    (first..offers.len()).for_each(|index| is_touched[pool(index)] = true);
    let newest = newest(offers, zones, pools, &is_touched);
    // The newest look at the whole region and at any of its zones.
    let mut seen: Vec<[Option<Timestamp>; 2]> = vec![[None; 2]; *most_pools];
    for index in (0..offers.len()).filter(|index| newest[*index]) {
        let last = &mut seen[pool(index)][usize::from(zones[index] > 0)];
        *last = (*last).max(Some(offers[index].quote.observed_at));
    }
    let zones_stand = |index: usize| match seen[pool(index)] {
        [Some(region), Some(zones)] => region.duration_since(zones) <= OUT_OF_DATE,
        [_, zones] => zones.is_some(),
    };
    // A price without a place gives way to newer ones that name places.
    let is_placed = |index: usize| &*offers[index].place.region != ANYWHERE;
    let placed: FxHashSet<_> = (first..offers.len())
        .filter(|index| is_placed(*index))
        .map(|index| (offers[index].instance, offers[index].purchase))
        .collect();
    let gives_way =
        |index: usize| !is_placed(index) && placed.contains(&(offers[index].instance, offers[index].purchase));
    let stands = |index: usize| {
        let is_old = index < first;
        !(is_old && gives_way(index))
            && (!is_touched[pool(index)] || newest[index] && (zones[index] > 0) == zones_stand(index))
    };
    (0..offers.len()).map(stands).collect()
}

/// Whether each offer of a touched pool is the newest of its place; of two as new, the later one is.
fn newest(offers: &[Offer], zones: &[u32], pools: &[u32], is_touched: &[bool]) -> Vec<bool> {
    let mut newest: FxHashMap<(u32, u32), usize> = FxHashMap::default();
    let mut is_newest = vec![false; offers.len()];
    for index in (0..offers.len()).filter(|index| is_touched[pools[*index] as usize]) {
        let held = newest.entry((pools[index], zones[index])).or_insert(index);
        if offers[*held].quote.observed_at <= offers[index].quote.observed_at {
            is_newest[*held] = false;
            is_newest[index] = true;
            *held = index;
        }
    }
    is_newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quote::{Origin, Quote};
    use gpuplan_units::UsdPerHour;

    #[test]
    fn fresh_offers_replace_their_own_place_and_terms_only() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let is_spot =
            |offer: &&Offer| offer.purchase == Purchase::Spot && offer.place.zone_id.is_some() && offer.risk.is_some();
        let old = market.offers().iter().find(is_spot).unwrap().clone();
        let mut fresh = old.clone();
        fresh.quote =
            Quote { rate: UsdPerHour::parse("0.123").unwrap(), origin: Origin::Live, observed_at: Timestamp::MAX };
        fresh.risk = None;
        let (count, key) =
            (market.offers().len(), |offer: &&Offer| offer.instance == old.instance && offer.place == old.place);
        let others = market.offers().iter().filter(key).count();
        let market = market.merged(vec![fresh], &hardware);
        assert_eq!(market.offers().len(), count);
        let found: Vec<&Offer> = market.offers().iter().filter(key).collect();
        assert_eq!(found.len(), others, "other terms of the place stay");
        let spot: Vec<&&Offer> = found.iter().filter(|offer| offer.purchase == Purchase::Spot).collect();
        assert_eq!(spot.len(), 1);
        assert_eq!(spot[0].quote.origin, Origin::Live);
        assert_eq!(spot[0].risk, old.risk, "what was known of the risk is kept");
    }

    #[test]
    fn zones_replace_the_price_of_the_whole_region() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let is_regional = |offer: &&Offer| offer.purchase == Purchase::Spot && offer.place.zone_id.is_none();
        let mut fresh = market.offers().iter().find(is_regional).unwrap().clone();
        let regional = (fresh.instance, fresh.place.clone());
        fresh.place.zone_id = Some("some-zone-a".into());
        let mut late = fresh.clone();
        (late.place.zone_id, late.quote.observed_at) =
            (None, late.quote.observed_at + SignedDuration::from_hours(24 * 8));
        let stale_zones = market.clone().merged(vec![fresh.clone(), late], &hardware);
        assert!(
            !stale_zones.offers().iter().any(|offer| offer.place == fresh.place),
            "zones that are out of date give way"
        );
        let market = market.merged(vec![fresh], &hardware);
        assert!(
            !market
                .offers()
                .iter()
                .any(|offer| (offer.instance, offer.place.clone()) == regional && offer.purchase == Purchase::Spot)
        );
    }

    #[test]
    fn signals_of_a_kind_replace_each_other_and_each_keeps_its_date() {
        use crate::offer::Signal;
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let pool = market.offers().iter().find(|offer| offer.purchase == Purchase::Spot).unwrap().clone();
        let said = |signal, day: &str| PoolSignal {
            instance: pool.instance,
            place: pool.place.clone(),
            signal,
            observed_at: format!("{day}T00:00:00Z").parse().ok(),
        };
        let share = said(Signal::DailyPreemptionShare(0.2), "2026-11-01");
        let market = market.informed(&[], &[share, said(Signal::Obtainability(0.9), "2026-11-02")]);
        let market = market.informed(&[], &[said(Signal::Obtainability(0.4), "2026-11-03")]);
        let heard = |offer: &&Offer| {
            (offer.instance, &offer.place, offer.purchase) == (pool.instance, &pool.place, Purchase::Spot)
        };
        let offer = market.offers().iter().find(heard).unwrap();
        let at = |day: &str| format!("{day}T00:00:00Z").parse().ok();
        let dated = |signal, day: &str| Heard { signal, observed_at: at(day) };
        let share = dated(Signal::DailyPreemptionShare(0.2), "2026-11-01");
        assert_eq!(offer.signals, [share, dated(Signal::Obtainability(0.4), "2026-11-03")]);
        assert_eq!(offer.signals_observed_at(), at("2026-11-01"));
    }

    #[test]
    fn a_zone_keeps_what_only_its_region_is_said_to_be() {
        use crate::offer::Signal;
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let is_zone = |offer: &&Offer| offer.purchase == Purchase::Spot && offer.place.zone_id.is_some();
        let pool = market.offers().iter().find(is_zone).unwrap().clone();
        let said = |place: &Location, signal| PoolSignal {
            instance: pool.instance,
            place: place.clone(),
            signal,
            observed_at: None,
        };
        let region = Location { region: pool.place.region.clone(), zone_id: None };
        let signals = [
            said(&region, Signal::UptimeHours(5.0)),
            said(&region, Signal::Obtainability(0.9)),
            said(&pool.place, Signal::Obtainability(0.4)),
        ];
        let market = market.informed(&[], &signals);
        let offer = market
            .offers()
            .iter()
            .filter(is_zone)
            .find(|offer| (offer.instance, &offer.place) == (pool.instance, &pool.place));
        assert_eq!(offer.unwrap().signals(), [Signal::UptimeHours(5.0), Signal::Obtainability(0.4)]);
    }
}
