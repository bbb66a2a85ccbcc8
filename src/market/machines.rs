//! `MachineList`: which machines a cloud says that it has where, asked before anybody asks for prices.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::answer::SourceNote;
use crate::offer::Offer;
use gpuplan_hardware::{CloudId, Hardware, InstanceId, MachineSheet};

/// Which machines a cloud has where.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MachineList {
    /// Machine types with GPUs by region, of the regions that answered.
    pub regions: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// When each region was last said to be so; of one that is missing nobody kept it.
    #[serde(default)]
    pub said_at: BTreeMap<Arc<str>, Timestamp>,
    /// Of the machine types that the catalog lacks.
    pub sheets: Vec<MachineSheet>,
    #[serde(skip)]
    pub notes: Vec<SourceNote>,
}

/// Who said that a machine is to be had in a region, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Id of the source in the manifest, or the cloud's own list.
    pub source: Arc<str>,
    pub observed_at: Timestamp,
}

/// By machine type and region.
pub(crate) type Listings = FxHashMap<(InstanceId, Arc<str>), Listing>;

impl MachineList {
    /// Pairs of machine type and region.
    pub fn pools(&self) -> usize {
        self.regions.values().map(BTreeSet::len).sum()
    }

    /// Makes rows of the sheets. What a sheet lacks for one is a note.
    pub fn teach(&mut self, cloud: &CloudId, hardware: &mut Hardware) {
        let (mut learnt, mut refused) = (Vec::new(), Vec::new());
        for sheet in &self.sheets {
            let is_new = hardware.find_instance(cloud, &sheet.name).is_none();
            match hardware.learn(cloud, sheet) {
                Ok(_) if is_new => learnt.push(sheet.name.as_str()),
                Ok(_) => {}
                Err(detail) => refused.push(SourceNote { place: sheet.name.clone(), detail }),
            }
        }
        if !learnt.is_empty() {
            let detail = format!("no catalog has {}; planned as the cloud describes them", learnt.join(", "));
            self.notes.push(SourceNote { place: cloud.to_string(), detail });
        }
        self.notes.extend(refused);
    }

    /// The same list as an answer of this moment.
    #[must_use]
    pub fn said(mut self, now: Timestamp) -> Self {
        self.said_at = self.regions.keys().map(|region| (region.clone(), now)).collect();
        self
    }

    /// Of each machine type of the catalog that it lists, in each region that has a date.
    pub(crate) fn listings(
        &self,
        cloud: &CloudId,
        hardware: &Hardware,
    ) -> impl Iterator<Item = ((InstanceId, Arc<str>), Listing)> {
        let source: Arc<str> = format!("{cloud}-machine-list").into();
        let dated = self.regions.iter().filter_map(|(region, names)| Some((region, names, *self.said_at.get(region)?)));
        dated.flat_map(move |(region, names, observed_at)| {
            let said = Listing { source: source.clone(), observed_at };
            let known = names.iter().filter_map(|name| hardware.find_instance(cloud, name));
            known.map(move |instance| ((instance, region.clone()), said.clone()))
        })
    }

    /// This list where it answered, and an earlier one for the regions that did not.
    pub fn over(mut self, earlier: Self) -> Self {
        let Self { regions, mut said_at, sheets, .. } = earlier;
        for (region, names) in regions {
            if let Entry::Vacant(silent) = self.regions.entry(region) {
                self.said_at.extend(said_at.remove_entry(silent.key()));
                silent.insert(names);
            }
        }
        let mut named: BTreeSet<String> = self.sheets.iter().map(|sheet| sheet.name.clone()).collect();
        self.sheets.extend(sheets.into_iter().filter(|sheet| named.insert(sheet.name.clone())));
        self
    }

    /// Whether the list denies that a machine can be had in the place of an offer.
    pub fn denies(&self, offer: &Offer, name: &str) -> bool {
        offer.owned.is_none() && self.regions.get(&offer.place.region).is_some_and(|names| !names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::snapshot::Market;
    use crate::offer::Purchase;

    fn list(regions: &[(&str, &[&str])]) -> MachineList {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        MachineList {
            regions: regions.iter().map(|(region, all)| ((*region).into(), names(all))).collect(),
            ..MachineList::default()
        }
    }

    #[test]
    fn a_price_where_the_cloud_lists_no_machine_is_no_offer() {
        let (hardware, cloud) = (Hardware::embedded().unwrap(), CloudId::new("aws"));
        let market = Market::embedded(&hardware).unwrap();
        let count = |market: &Market, region: &str| {
            let here =
                |offer: &&Offer| hardware.instance(offer.instance).cloud == cloud && &*offer.place.region == region;
            market.offers().iter().filter(here).count()
        };
        let (east, west) = (count(&market, "us-east-1"), count(&market, "us-west-2"));
        assert!(east > 1 && west > 1);
        let market = market.where_listed(&cloud, &list(&[("us-east-1", &["p5.48xlarge"])]), &hardware);
        assert_eq!(count(&market, "us-west-2"), west);
        let left: BTreeSet<&str> = market
            .offers()
            .iter()
            .filter(|offer| &*offer.place.region == "us-east-1" && hardware.instance(offer.instance).cloud == cloud)
            .map(|offer| hardware.instance(offer.instance).name.as_str())
            .collect();
        assert_eq!(left, BTreeSet::from(["p5.48xlarge"]));
        assert!(market.offers().iter().any(|offer| offer.purchase == Purchase::OnDemand));
    }

    #[test]
    fn a_region_that_is_silent_this_time_keeps_its_earlier_list() {
        let at = |day: &str| -> Timestamp { format!("{day}T00:00:00Z").parse().unwrap() };
        let earlier = list(&[("a", &["x"]), ("b", &["y"])]).said(at("2026-11-01"));
        let now = list(&[("a", &["z"])]).said(at("2026-11-02")).over(earlier);
        assert_eq!((now.said_at["a"], now.said_at["b"]), (at("2026-11-02"), at("2026-11-01")));
        assert_eq!((now.pools(), now.regions["a"].contains("z"), now.regions["b"].contains("y")), (2, true, true));
    }
}
