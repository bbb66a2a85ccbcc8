//! Regions that a question names: every one has to exist where it may be used, so that a slip of the keyboard is no empty market.

use std::collections::BTreeSet;

use crate::limits::cities::regions_at;
use crate::limits::cloud_names::cloud;
use crate::limits::error::LimitsError;
use crate::limits::offer_filter::OfferFilter;
use gpuplan_hardware::{GpuId, GpuSelector, Hardware};
use gpuplan_market::{ANYWHERE, Location, Market, names_region};
use gpuplan_units::names::similarity;

/// Regions offered instead of one that does not exist.
const MOST_NEAREST: usize = 3;

/// Names this much alike are one name, misspelt.
const SAME_NAME: f64 = 0.9;

/// Refuses a region that no cloud of the question has, with the nearest that there are.
pub fn check_regions(filter: &OfferFilter, market: &Market, hardware: &Hardware) -> Result<(), LimitsError> {
    if filter.regions.is_empty() {
        return Ok(());
    }
    let offers = market.offers().iter().map(|offer| (&hardware.instance(offer.instance).cloud, &offer.place));
    let hosts = market.host_offers().iter().map(|offer| (&hardware.host(offer.host).cloud, &offer.place));
    let places: Vec<(&str, &Location)> = offers.chain(hosts).map(|(cloud, place)| (cloud.as_str(), place)).collect();
    let is_asked = |cloud: &str| filter.clouds.is_empty() || filter.clouds.iter().any(|asked| asked.as_str() == cloud);
    for name in &filter.regions {
        if !places.iter().any(|(cloud, place)| is_asked(cloud) && names_place(name, place)) {
            return Err(unknown(name, filter, &places, is_asked));
        }
    }
    Ok(())
}

/// Refuses a place of data whose cloud does not exist. A known cloud has more regions than those that rent GPUs.
pub fn check_data_place(place: &str, market: &Market, hardware: &Hardware) -> Result<(), LimitsError> {
    let (name, region) = place.split_once('/').unwrap_or((place, place));
    if cloud(name, hardware).is_ok() {
        return Ok(());
    }
    let same = market.offers().iter().filter(|offer| &*offer.place.region == region);
    let clouds: BTreeSet<&str> = same.map(|offer| hardware.instance(offer.instance).cloud.as_str()).collect();
    let nearest = clouds.into_iter().map(|cloud| format!("{cloud}/{region}")).take(MOST_NEAREST).collect();
    Err(LimitsError::DataPlace { place: place.to_owned(), nearest })
}

/// Chips that the question names and that no source offers with a region, such as those of the clouds that rent single cards.
pub fn without_region(filter: &OfferFilter, market: &Market, hardware: &Hardware) -> Vec<GpuId> {
    let mut has_region = vec![false; hardware.gpus().len()];
    for offer in market.offers().iter().filter(|offer| &*offer.place.region != ANYWHERE) {
        has_region[usize::from(hardware.instance(offer.instance).node.gpu.0)] = true;
    }
    let chips_of = |selector: &GpuSelector| -> Vec<GpuId> {
        let all = (0..has_region.len() as u16).map(GpuId);
        all.filter(|id| selector.matches_gpu(*id, hardware.gpu(*id))).collect()
    };
    let named = filter.gpus.iter().filter(|selector| selector.names_chips()).map(chips_of);
    named.filter(|chips| !chips.iter().any(|id| has_region[usize::from(id.0)])).flatten().collect()
}

/// A region, the beginning of its name, or a zone id.
fn names_place(name: &str, place: &Location) -> bool {
    let is_zone = || place.zone_id.as_deref().is_some_and(|zone| zone.eq_ignore_ascii_case(name));
    !name.is_empty() && &*place.region != ANYWHERE && (names_region(name, &place.region) || is_zone())
}

fn unknown(
    name: &str,
    filter: &OfferFilter,
    places: &[(&str, &Location)],
    is_asked: impl Fn(&str) -> bool,
) -> LimitsError {
    let asked: Vec<String> = filter.clouds.iter().map(ToString::to_string).collect();
    let regions = |is_in: &dyn Fn(&str) -> bool| -> BTreeSet<&str> {
        let named = places.iter().filter(|(cloud, place)| is_in(cloud) && &*place.region != ANYWHERE);
        named.map(|(_, place)| &*place.region).collect()
    };
    let known = regions(&is_asked);
    if let Some(region) = region_of_zone_name(name, &known) {
        let ids = places
            .iter()
            .filter(|(_, place)| &*place.region == region)
            .filter_map(|(_, place)| place.zone_id.as_deref());
        let zone_ids: BTreeSet<&str> = ids.collect();
        let mut zone_ids: Vec<String> = zone_ids.into_iter().map(str::to_owned).collect();
        // Those of local zones are longer.
        zone_ids.sort_by_key(String::len);
        return LimitsError::ZoneName { name: name.to_owned(), region: region.to_owned(), zone_ids };
    }
    let area = name.split('-').next().unwrap_or(name);
    let there = regions_at(name).iter().filter(|region| known.contains(*region));
    let mut nearest: Vec<String> = there.map(|region| (*region).to_owned()).collect();
    nearest.extend(alike(name, &known));
    let of_area = known.iter().filter(|region| region.starts_with(area)).map(|region| (*region).to_owned());
    let more: Vec<String> = of_area.filter(|region| !nearest.contains(region)).collect();
    let owner = places.iter().find(|(cloud, place)| !is_asked(cloud) && names_place(name, place));
    // Where the clouds of the question name no region at all, another cloud is no answer.
    if let Some((owner, _)) = owner.filter(|_| !known.is_empty()) {
        let nearest = more.into_iter().chain(nearest).take(MOST_NEAREST).collect();
        return LimitsError::RegionOfOther {
            name: name.to_owned(),
            owner: (*owner).to_owned(),
            asked: asked.join(", "),
            nearest,
        };
    }
    if nearest.is_empty() {
        nearest.extend(more);
    }
    nearest.truncate(MOST_NEAREST);
    LimitsError::UnknownRegion { name: name.to_owned(), clouds: asked, nearest }
}

/// Regions whose names are spelt nearly so, the nearest first: `us-east-1` and `us-east1` are two.
fn alike(name: &str, known: &BTreeSet<&str>) -> Vec<String> {
    let hyphens = |name: &str| name.matches('-').count();
    let scored = known.iter().map(|region| (similarity(name, region), *region));
    let mut near: Vec<(f64, &str)> = scored.filter(|(alike, _)| *alike >= SAME_NAME).collect();
    let is_spelt = |region: &str| hyphens(region) == hyphens(name);
    near.sort_by(|one, other| {
        is_spelt(other.1).cmp(&is_spelt(one.1)).then(other.0.total_cmp(&one.0)).then(one.1.cmp(other.1))
    });
    near.into_iter().map(|(_, region)| region.to_owned()).collect()
}

/// The region of `us-east-1a` or `us-central1-a`.
fn region_of_zone_name<'a>(name: &str, known: &BTreeSet<&'a str>) -> Option<&'a str> {
    let region = name.strip_suffix(|c: char| c.is_ascii_lowercase())?;
    let region = region.strip_suffix('-').unwrap_or(region);
    known.get(region).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::CloudId;

    fn check(clouds: &[&str], region: &str) -> Result<(), LimitsError> {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let clouds = clouds.iter().map(|name| CloudId::new(name)).collect();
        check_regions(
            &OfferFilter { clouds, regions: vec![region.to_owned()], ..OfferFilter::default() },
            &market,
            &hardware,
        )
    }

    #[test]
    fn a_region_its_beginning_and_a_zone_id_are_taken() {
        for region in ["us-east-1", "us-east", "use1-az1", "eastus", "us-central1"] {
            assert_eq!(check(&[], region), Ok(()), "{region}");
        }
        assert_eq!(check(&["aws"], "us-east-1"), Ok(()));
    }

    #[test]
    fn a_chip_without_any_region_is_taken_where_it_is_named() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let taken = |gpus: &str| {
            let gpus = vec![GpuSelector::parse(gpus, &hardware).unwrap()];
            let found = without_region(&OfferFilter { gpus, ..OfferFilter::default() }, &market, &hardware);
            found.into_iter().map(|id| hardware.gpu(id).id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(taken("RTX4090"), ["rtx-4090"]);
        // Offered in regions as well; and a memory is no name.
        assert!(taken("H100").is_empty() && taken("24GB").is_empty() && taken("8").is_empty());
    }

    #[test]
    fn data_is_stored_at_a_cloud_that_exists() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let place = |place: &str| check_data_place(place, &market, &hardware);
        for known in ["aws/us-east-1", "aws", "gcp/us-central1", "aws/eu-west-3"] {
            assert_eq!(place(known), Ok(()), "{known}");
        }
        assert!(
            matches!(place("us-east-1"), Err(LimitsError::DataPlace { nearest, .. }) if nearest == ["aws/us-east-1"])
        );
        assert!(matches!(place("mars/olympus"), Err(LimitsError::DataPlace { nearest, .. }) if nearest.is_empty()));
    }

    #[test]
    fn what_no_cloud_has_is_answered_with_what_there_is() {
        let Err(LimitsError::UnknownRegion { nearest, .. }) = check(&[], "us-est-1") else { panic!("taken") };
        assert_eq!(nearest[0], "us-east-1");
        let zone = check(&[], "us-east-1a");
        assert!(
            matches!(&zone, Err(LimitsError::ZoneName { region, zone_ids, .. }) if region == "us-east-1" && zone_ids.contains(&"use1-az1".to_owned())),
            "{zone:?}"
        );
        assert!(matches!(check(&["gcp"], "us-central1-a"), Err(LimitsError::ZoneName { .. })));
        let other = check(&["gcp"], "us-east-1");
        assert!(
            matches!(&other, Err(LimitsError::RegionOfOther { owner, nearest, .. }) if owner == "aws" && nearest.iter().all(|near| near.starts_with("us-"))),
            "{other:?}"
        );
        assert!(matches!(check(&[], "mars"), Err(LimitsError::UnknownRegion { nearest, .. }) if nearest.is_empty()));
        assert!(check(&[], "").is_err());
    }
}
