//! From priced parts to rates of whole machines: cores, memory, GPUs and the local SSD that a machine always has. Pure.
//!
//! A machine is offered in a region on terms where every one of its parts has exactly one price there on the same terms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::prices::attached::Attached;
use crate::prices::skus::{
    A2, A3, A3_MEGA, A3_ULTRA, A100_40, A100_80, B200, G2, G4, H100, H100_MEGA, H200, L4, N1, P100, Part, PartRate,
    Priced, RTX_PRO_6000, RTX_PRO_6000_EIGHTH, T4, Unit, V100,
};
use gpuplan_hardware::{InstanceId, InstanceType};
use gpuplan_market::{Location, Offer, OfferQuery, Purchase, SourceNote, Suspicion};
use gpuplan_units::UsdPerHour;

/// Id of this source in an offer.
pub const SOURCE: &str = "gcp-skus";

/// Machine types whose price is a sum: beginning of the name, series of cores and memory, GPU.
const SUMS: &[(&str, &str, &str)] = &[
    ("a2-highgpu-", A2, A100_40),
    ("a2-megagpu-", A2, A100_40),
    ("a2-ultragpu-", A2, A100_80),
    ("a3-highgpu-", A3, H100),
    ("a3-megagpu-", A3_MEGA, H100_MEGA),
    ("a3-ultragpu-", A3_ULTRA, H200),
    ("g2-standard-", G2, L4),
    ("g4-standard-", G4, RTX_PRO_6000),
];
/// Accelerator types of attached cards, and what the price list calls them.
const CARDS: [(&str, &str); 3] = [("nvidia-tesla-t4", T4), ("nvidia-tesla-v100", V100), ("nvidia-tesla-p100", P100)];
/// Machine types that have no public price, and what is known of it.
const UNPRICED: &[(&str, &str)] = &[(
    "a4x-",
    "Google's price list has no row of A4X, which is sold by agreement; `gpuplan catalog import` takes a price of your own",
)];

/// Hours of a month in Google's prices of disks (cloud.google.com/compute/disks-image-pricing).
const HOURS_PER_MONTH: i128 = 730;
/// A machine's included local SSD comes in partitions of this size (cloud.google.com/compute/docs/disks/local-ssd).
const SSD_PARTITION_GIB: i128 = 375;
const MIB: f64 = 1024.0 * 1024.0;
/// Regions that a note names before it counts the rest.
const REGIONS_NAMED: usize = 2;

/// What the rate of a part is multiplied with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Pieces(i128),
    Mib(i128),
}

/// Rates by part, terms and region. Of two different rates for the same none is kept.
#[derive(Default)]
pub struct Parts(BTreeMap<(Part, Purchase, Arc<str>), Option<PartRate>>);

impl Parts {
    /// Adds a part; where it contradicts another of the same place and terms, both are lost and the note says so.
    pub fn add(&mut self, priced: &Priced) -> Option<SourceNote> {
        let mut contradicted = Vec::new();
        for region in &priced.regions {
            let known = self.0.entry((priced.part, priced.purchase, region.clone())).or_insert(Some(priced.rate));
            if known.is_some_and(|rate| rate != priced.rate) {
                *known = None;
                contradicted.push(&**region);
            }
        }
        let detail = || format!("{} has a second, different price ({}); both are left out", priced.part, priced.id);
        (!contradicted.is_empty())
            .then(|| SourceNote { place: listed(&contradicted), detail: format!("{}: {}", priced.purchase, detail()) })
    }

    fn get(&self, part: Part, purchase: Purchase, region: &Arc<str>) -> Option<PartRate> {
        self.0.get(&(part, purchase, region.clone())).copied().flatten()
    }

    /// Terms and regions that a part is known for, with or without a usable price.
    fn places(&self, part: Part) -> impl Iterator<Item = (Purchase, &Arc<str>)> {
        self.0.keys().filter(move |(known, _, _)| *known == part).map(|(_, purchase, region)| (*purchase, region))
    }
}

/// Every offer of the wanted machine types, and what is missing for more.
pub fn offers(query: &OfferQuery, parts: &Parts, answered_at: Timestamp) -> (Vec<Offer>, Vec<SourceNote>) {
    let (mut offers, mut notes) = (Vec::new(), Vec::new());
    for (name, id) in query.instances() {
        let Some(recipe) = recipe(query.hardware.instance(id)) else {
            let known = UNPRICED.iter().find(|(start, _)| name.starts_with(start));
            let detail = known.map_or("it is not known which parts make its price", |(_, why)| why);
            notes.push(SourceNote { place: name.to_owned(), detail: detail.to_owned() });
            continue;
        };
        let machine = Machine { id, instance: query.hardware.instance(id), recipe, query };
        machine.compose(parts, answered_at, &mut offers, &mut notes);
    }
    (offers, notes)
}

struct Machine<'a> {
    id: InstanceId,
    instance: &'a InstanceType,
    /// Its GPU stands first.
    recipe: Vec<(Part, Amount)>,
    query: &'a OfferQuery<'a>,
}

impl Machine<'_> {
    fn compose(&self, parts: &Parts, answered_at: Timestamp, offers: &mut Vec<Offer>, notes: &mut Vec<SourceNote>) {
        let gpu = self.recipe[0].0;
        let places: BTreeSet<_> = parts.places(gpu).filter(|(purchase, _)| self.is_sold(*purchase)).collect();
        if places.is_empty() {
            notes.push(self.note(&format!("{gpu} has no price on any terms that it is sold on")));
        }
        let mut missing: BTreeMap<(Purchase, String), Vec<&str>> = BTreeMap::new();
        for (purchase, region) in places {
            match self.rate(parts, purchase, region) {
                Ok(rate) => offers.push(self.offer(purchase, region, rate, answered_at)),
                Err(why) => missing.entry((purchase, why)).or_default().push(region),
            }
        }
        notes.extend(
            missing
                .iter()
                .map(|((purchase, why), regions)| self.note(&format!("{purchase}: {why} in {}", listed(regions)))),
        );
    }

    /// Parts have prices in regions without such a machine, so outside the regions that were asked for the place is doubted.
    fn offer(&self, purchase: Purchase, region: &Arc<str>, rate: UsdPerHour, answered_at: Timestamp) -> Offer {
        let place = Location { region: region.clone(), zone_id: None };
        let mut offer = Offer::live(self.id, place, purchase, rate, SOURCE, answered_at);
        offer.flags = "composed".into();
        if !self.query.wanted.get(region).is_some_and(|wanted| wanted.contains(&self.id)) {
            offer.suspicions.push(Suspicion::ZoneUnverified);
        }
        offer
    }

    fn note(&self, detail: &str) -> SourceNote {
        SourceNote { place: self.instance.name.clone(), detail: detail.to_owned() }
    }

    /// Parts have prices on terms on which the machine cannot be had: a list price is no offer. Booked and queued
    /// capacity is sold wherever it has a price.
    fn is_sold(&self, purchase: Purchase) -> bool {
        let sold = self.instance.sold_as;
        match purchase {
            Purchase::OnDemand => sold.on_demand,
            Purchase::Spot => sold.spot,
            Purchase::Commitment { .. } => sold.commitment,
            Purchase::Calendar | Purchase::FlexStart => true,
            Purchase::CapacityBlock | Purchase::Reserved => false,
        }
    }

    fn rate(&self, parts: &Parts, purchase: Purchase, region: &Arc<str>) -> Result<UsdPerHour, String> {
        let mut sum = (0, 1);
        for (part, amount) in &self.recipe {
            let rate = parts.get(*part, purchase, region).ok_or_else(|| format!("no single price of {part}"))?;
            let term = term(rate, *amount).and_then(|term| plus(sum, term));
            sum = term.ok_or_else(|| format!("the price of {part} cannot be multiplied"))?;
        }
        let (top, bottom) = sum;
        // Half up to the nano-dollar, once, at the end.
        let nanos = i64::try_from((top + bottom / 2) / bottom).map_err(|_| "the sum is too large".to_owned())?;
        Ok(UsdPerHour::from_nanos(nanos))
    }
}

fn recipe(instance: &InstanceType) -> Option<Vec<(Part, Amount)>> {
    let gpus = instance.node.gpus;
    let eighths = (gpus.as_f64() * 8.0) as i128;
    if instance.name.starts_with("a4-highgpu-") {
        return Some(vec![(Part::Share(B200), Amount::Pieces(eighths / 8))]);
    }
    if instance.name.starts_with("g4-") && gpus.is_slice() {
        return Some(vec![(Part::Share(RTX_PRO_6000_EIGHTH), Amount::Pieces(eighths))]);
    }
    let of_attached = || {
        let attached = Attached::named(&instance.name)?;
        CARDS.iter().find(|(kind, _)| *kind == attached.kind.accelerator).map(|(_, gpu)| (N1, *gpu))
    };
    let of_series =
        SUMS.iter().find(|(start, _, _)| instance.name.starts_with(start)).map(|(_, series, gpu)| (*series, *gpu));
    let (series, gpu) = of_series.or_else(of_attached)?;
    let mut recipe = vec![
        (Part::Gpu(gpu), Amount::Pieces(eighths / 8)),
        (Part::Core(series), Amount::Pieces(i128::from(instance.vcpus))),
        (Part::Memory(series), Amount::Mib((instance.memory.0 / MIB).round() as i128)),
    ];
    // The catalog has the size in decimal GB, rounded; whole partitions bring the exact size back.
    let partitions = instance.local_nvme.map_or(0.0, |size| (size.gib() / SSD_PARTITION_GIB as f64).round()) as i128;
    if partitions > 0 {
        recipe.push((Part::LocalSsd, Amount::Mib(partitions * SSD_PARTITION_GIB * 1024)));
    }
    Some(recipe)
}

/// Exact nano-dollars an hour as a fraction.
fn term(rate: PartRate, amount: Amount) -> Option<(i128, i128)> {
    let (factor, divisor) = match (amount, rate.unit) {
        (Amount::Pieces(count), Unit::Hour) => (count, 1),
        (Amount::Mib(mib), Unit::GibibyteHour) => (mib, 1024),
        (Amount::Mib(mib), Unit::GigabyteHour) => (mib.checked_mul(1 << 20)?, 1_000_000_000),
        (Amount::Mib(mib), Unit::GibibyteMonth) => (mib, 1024 * HOURS_PER_MONTH),
        _ => return None,
    };
    Some((i128::from(rate.nanos).checked_mul(factor)?, divisor))
}

fn plus(a: (i128, i128), b: (i128, i128)) -> Option<(i128, i128)> {
    let top = a.0.checked_mul(b.1)?.checked_add(b.0.checked_mul(a.1)?)?;
    Some((top, a.1.checked_mul(b.1)?))
}

/// Some regions and how many more.
pub fn listed(regions: &[&str]) -> String {
    let named = regions.iter().take(REGIONS_NAMED).copied().collect::<Vec<_>>().join(", ");
    match regions.len().saturating_sub(REGIONS_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::skus;
    use gpuplan_hardware::{CloudId, Hardware};
    use proptest::prelude::*;

    /// Rows whose sums are the recorded prices of machines; which figures are recorded stands beside them in the file.
    const ROWS: &str = include_str!("../../../../tests/fixtures/gcp/skus.json");

    fn at() -> Timestamp {
        "2026-07-30T06:13:17Z".parse().unwrap()
    }

    fn parts() -> (Parts, Vec<SourceNote>) {
        let page: skus::Page = serde_json::from_str(ROWS).unwrap();
        let (mut parts, mut notes) = (Parts::default(), Vec::new());
        for row in &page.skus {
            match skus::read(row, at()) {
                Some(Ok(priced)) => notes.extend(parts.add(&priced)),
                Some(Err(note)) => notes.push(note),
                None => {}
            }
        }
        (parts, notes)
    }

    fn ask(hardware: &Hardware, names: &[&str], parts: &Parts) -> (Vec<Offer>, Vec<SourceNote>) {
        ask_in("us-central1", hardware, names, parts)
    }

    fn ask_in(region: &str, hardware: &Hardware, names: &[&str], parts: &Parts) -> (Vec<Offer>, Vec<SourceNote>) {
        let wanted = names.iter().map(|name| hardware.find_instance(&CloudId::new("gcp"), name).unwrap()).collect();
        offers(&OfferQuery::for_instances(hardware, BTreeMap::from([(region.into(), wanted)])), parts, at())
    }

    fn rates(name: &str) -> Vec<(String, String, String)> {
        let hardware = Hardware::embedded().unwrap();
        let (offers, _) = ask(&hardware, &[name], &parts().0);
        let row =
            |offer: &Offer| (offer.place.region.to_string(), offer.purchase.to_string(), offer.quote.rate.to_string());
        offers.iter().map(row).collect()
    }

    fn rate(name: &str, purchase: &str) -> Option<String> {
        rates(name)
            .into_iter()
            .find(|(region, terms, _)| region == "us-central1" && terms == purchase)
            .map(|(_, _, rate)| rate)
    }

    #[test]
    fn sums_are_the_recorded_prices_of_whole_machines() {
        for (name, purchase, expected) in [
            ("a3-highgpu-8g", "on-demand", "88.489999903"),
            ("a3-highgpu-8g", "spot", "50.609540822"),
            ("a2-highgpu-8g", "on-demand", "29.38708"),
            ("a2-megagpu-16g", "on-demand", "55.739504"),
            ("a2-ultragpu-1g", "on-demand", "5.06879789"),
            ("g2-standard-48", "on-demand", "4.001665148"),
            ("g2-standard-4", "on-demand", "0.706832255"),
            ("g4-standard-48", "on-demand", "4.49993"),
            ("g4-standard-48", "spot", "1.79982"),
            ("a4-highgpu-8g", "spot", "39.6336"),
            ("a4-highgpu-8g", "calendar", "90.216"),
            ("a3-highgpu-8g", "flex-start", "38.320038247"),
            ("g4-standard-6", "on-demand", "0.64688"),
            ("g4-standard-24", "on-demand", "2.58752"),
        ] {
            assert_eq!(rate(name, purchase).as_deref(), Some(expected), "{name} {purchase}");
        }
    }

    #[test]
    fn parts_on_terms_that_a_machine_is_not_sold_on_are_no_offer() {
        assert_eq!(rate("a3-highgpu-1g", "on-demand"), None);
        assert!(rate("a3-highgpu-1g", "spot").is_some());
        assert_eq!(rate("a4-highgpu-8g", "on-demand"), None);
    }

    #[test]
    fn a_price_where_the_machine_is_not_known_to_be_is_doubted() {
        let (hardware, parts) = (Hardware::embedded().unwrap(), parts().0);
        let suspicions = |region: &str| ask_in(region, &hardware, &["g2-standard-4"], &parts).0[0].suspicions.clone();
        assert_eq!(suspicions("us-central1"), []);
        assert_eq!(suspicions("elsewhere"), [Suspicion::ZoneUnverified]);
    }

    #[test]
    fn a_missing_part_is_a_note_and_no_offer() {
        let hardware = Hardware::embedded().unwrap();
        let (offers, notes) = ask(&hardware, &["a2-ultragpu-8g", "a3-ultragpu-8g", "a4x-highgpu-4g"], &parts().0);
        assert!(!offers.iter().any(|offer| &*offer.place.region == "europe-west4"), "{offers:?}");
        let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
        for expected in [
            "a2-ultragpu-8g: on-demand: no single price of cores of A2 in europe-west4",
            "a3-ultragpu-8g: the GPU H200 141GB has no price on any terms that it is sold on",
            "a4x-highgpu-4g: Google's price list has no row of A4X, which is sold by agreement; `gpuplan catalog import` takes a \
             price of your own",
        ] {
            assert!(notes.iter().any(|note| note == expected), "{expected}\n{notes:#?}");
        }
    }

    #[test]
    fn of_two_prices_for_one_part_neither_is_taken() {
        let (mut parts, notes) = parts();
        assert_eq!(notes.len(), 2, "a price of zero and one in euro: {notes:#?}");
        let again = Priced {
            part: Part::Gpu(L4),
            purchase: Purchase::OnDemand,
            regions: vec!["us-central1".into(), "us-east1".into()],
            rate: PartRate { nanos: 1, unit: Unit::Hour },
            id: "X".to_owned(),
        };
        let note = parts.add(&again).unwrap().to_string();
        assert_eq!(note, "us-central1: on-demand: the GPU L4 has a second, different price (X); both are left out");
        let hardware = Hardware::embedded().unwrap();
        let (offers, _) = ask(&hardware, &["g2-standard-4"], &parts);
        assert!(!offers.iter().any(|offer| offer.purchase == Purchase::OnDemand));
    }

    #[test]
    fn a_decimal_gigabyte_is_not_a_gibibyte() {
        let one_gib =
            |unit| term(PartRate { nanos: 1_000_000_000, unit }, Amount::Mib(1024)).map(|(top, bottom)| top / bottom);
        assert_eq!(one_gib(Unit::GigabyteHour), Some(1_073_741_824));
        assert_eq!(one_gib(Unit::GibibyteHour), Some(1_000_000_000));
        assert_eq!(one_gib(Unit::Hour), None);
    }

    proptest! {
        #[test]
        fn dearer_parts_make_no_cheaper_machine(cents in 1_i64..1_000_000, more in 0_i64..1_000_000) {
            let hardware = Hardware::embedded().unwrap();
            let sum = |gpu_nanos: i64| {
                let mut parts = Parts::default();
                for (part, nanos, unit) in [(Part::Gpu(L4), gpu_nanos, Unit::Hour), (Part::Core(G2), 7, Unit::Hour), (Part::Memory(G2), 3, Unit::GibibyteHour)] {
                    parts.add(&Priced { part, purchase: Purchase::Spot, regions: vec!["r".into()], rate: PartRate { nanos, unit }, id: String::new() });
                }
                ask(&hardware, &["g2-standard-4"], &parts).0[0].quote.rate
            };
            let (low, high) = (sum(cents * 10_000_000), sum((cents + more) * 10_000_000));
            prop_assert!(low <= high);
            prop_assert_eq!(low.nanos(), cents * 10_000_000 + 4 * 7 + 16 * 3);
        }
    }
}
