//! Sanity rules over prices. A price that breaks one is marked suspect: shown, and never recommended unasked.
//!
//! Why each exists: published catalogs have carried on-demand below spot, eight GPUs at a third of their price in six
//! regions, and rows of one cent; each of these rules catches one of those.

use rustc_hash::FxHashMap as HashMap;

use crate::catalog::numbers::Numbers;
use crate::offer::{Offer, Purchase, Suspicion};
use gpuplan_hardware::{GpuId, Hardware, InstanceId};
use gpuplan_units::Hours;

/// On-demand rates of one machine type differ by at most this factor from their median over regions (list prices of the
/// three large clouds stay within 1.6).
const LIST_FACTOR: f64 = 1.8;
/// Spot rates of one machine type really differ by threes between zones; six is where mistakes begin.
const SPOT_FACTOR: f64 = 6.0;
/// A zone at less than half of its region's median is an outlier that a minimum over zones would pick.
const ZONE_FACTOR: f64 = 2.0;
/// Per-GPU on-demand rates of one chip over all clouds; neoclouds sell at a sixth of the dearest list price.
const CHIP_FACTOR: f64 = 8.0;
/// Two sources of one price may differ by this much before somebody must look.
const SOURCE_DIFFERENCE: f64 = 0.10;
/// A spot price moves by a few percent in two weeks, so quotes seen further apart than this do not contradict each other.
const SPOT_COMPARABLE: Hours = Hours(7.0 * 24.0);
/// Of two prices, the one this much (as a factor) farther from the machine's median is the wrong one; else both are doubted.
const CLEARLY_FARTHER: f64 = 1.1;
/// A rounding of the fourth digit is no contradiction.
const ROUNDING: f64 = 1.0005;
/// Medians of fewer rows say nothing.
const FEWEST_ROWS: usize = 3;

/// Offers of one machine in one region on the same terms, by position.
struct SamePlace {
    groups: Vec<Group>,
    by_place: HashMap<(InstanceId, u32, Purchase), usize>,
    /// Of every offer; 0 is the whole region.
    zones: Vec<u32>,
}

struct Group {
    instance: InstanceId,
    region: u32,
    purchase: Purchase,
    rows: Vec<usize>,
}

impl SamePlace {
    fn new(offers: &[Offer], Numbers { regions, zones, pools, most_pools }: Numbers) -> Self {
        let (mut groups, mut by_place) = (Vec::new(), HashMap::default());
        let mut of_pool: Vec<Option<usize>> = vec![None; most_pools];
        for (index, ((offer, region), pool)) in offers.iter().zip(regions).zip(pools).enumerate() {
            let group = *of_pool[pool as usize].get_or_insert_with(|| {
                by_place.insert((offer.instance, region, offer.purchase), groups.len());
                groups.push(Group { instance: offer.instance, region, purchase: offer.purchase, rows: Vec::new() });
                groups.len() - 1
            });
            groups[group].rows.push(index);
        }
        Self { groups, by_place, zones }
    }

    /// A row without a zone speaks for every zone of its region.
    fn can_be_same_zone(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.zones[a], self.zones[b]);
        a == 0 || b == 0 || a == b
    }

    /// Two rows of a group.
    fn contradict(&self, offers: &[Offer], a: usize, b: usize) -> bool {
        let (one, other) = (&offers[a], &offers[b]);
        let (one_rate, other_rate) = (one.quote.rate.dollars(), other.quote.rate.dollars());
        self.can_be_same_zone(a, b)
            && one_rate.max(other_rate) > one_rate.min(other_rate) * (1.0 + SOURCE_DIFFERENCE)
            && one.source != other.source
    }

    fn spots(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.purchase == Purchase::Spot)
    }

    /// List prices of the same machine in the same region.
    fn lists(&self, group: &Group) -> &[usize] {
        self.by_place
            .get(&(group.instance, group.region, Purchase::OnDemand))
            .map_or(&[], |index| &self.groups[*index].rows)
    }
}

/// What a rule found: position of the offer and the suspicion.
type Marks = Vec<(usize, Suspicion)>;

/// Adds the rules' suspicions to every offer, replacing what they said before.
pub fn mark(offers: &mut [Offer], hardware: &Hardware) {
    mark_numbered(offers, Numbers::from_offers(offers), hardware);
}

/// The same for offers whose places have their numbers already.
pub fn mark_numbered(offers: &mut [Offer], numbers: Numbers, hardware: &Hardware) {
    for offer in offers.iter_mut() {
        offer.suspicions.retain(|suspicion| {
            !matches!(
                suspicion,
                Suspicion::SpotAboveOnDemand
                    | Suspicion::FarFromMedian
                    | Suspicion::SourcesDisagree
                    | Suspicion::ZoneOutlier
            )
        });
    }
    let seen: &[Offer] = offers;
    let of_medians = || {
        let medians = type_medians(seen);
        let marks = far_from_median(seen, hardware, &medians);
        (medians, marks)
    };
    let ((medians, marks), places) = rayon::join(of_medians, || SamePlace::new(seen, numbers));
    apply(offers, marks);
    // What is wrong about list prices must be known before spot prices are held against them.
    for rule in [disagreeing_lists, disagreeing_spots, spot_above_on_demand, zone_outliers] {
        let marks = rule(offers, &places, &medians);
        apply(offers, marks);
    }
}

fn apply(offers: &mut [Offer], marks: Marks) {
    for (index, suspicion) in marks {
        let suspicions = &mut offers[index].suspicions;
        if !suspicions.contains(&suspicion) {
            suspicions.push(suspicion);
        }
    }
}

type Medians = HashMap<(InstanceId, Purchase), f64>;

/// Median rate of a machine over its regions, of rows whose place is certain.
fn type_medians(offers: &[Offer]) -> Medians {
    let mut rates: HashMap<(InstanceId, Purchase), Vec<f64>> = HashMap::default();
    for offer in offers.iter().filter(|offer| !offer.suspicions.contains(&Suspicion::ZoneUnverified)) {
        rates.entry((offer.instance, offer.purchase)).or_default().push(offer.quote.rate.dollars());
    }
    rates.into_iter().filter_map(|(key, rates)| Some((key, median(rates)?))).collect()
}

fn far_from_median(offers: &[Offer], hardware: &Hardware, medians: &Medians) -> Marks {
    let per_gpu = |offer: &Offer| offer.quote.rate.dollars() / hardware.instance(offer.instance).node.gpus.as_f64();
    let mut by_chip: HashMap<GpuId, Vec<f64>> = HashMap::default();
    for offer in offers.iter().filter(|offer| !offer.suspicions.contains(&Suspicion::ZoneUnverified)) {
        if offer.purchase == Purchase::OnDemand {
            by_chip.entry(hardware.instance(offer.instance).node.gpu).or_default().push(per_gpu(offer));
        }
    }
    let by_chip: HashMap<_, _> = by_chip.into_iter().filter_map(|(chip, rates)| Some((chip, median(rates)?))).collect();
    let far = |rate: f64, median: Option<&f64>, factor: f64| {
        median.is_some_and(|median| rate > median * factor || rate < median / factor)
    };
    let is_far = |offer: &Offer| {
        let factor = if offer.purchase == Purchase::Spot { SPOT_FACTOR } else { LIST_FACTOR };
        let chip = by_chip.get(&hardware.instance(offer.instance).node.gpu);
        far(offer.quote.rate.dollars(), medians.get(&(offer.instance, offer.purchase)), factor)
            || offer.purchase == Purchase::OnDemand && far(per_gpu(offer), chip, CHIP_FACTOR)
    };
    let found = offers.iter().enumerate().filter(|(_, offer)| is_far(offer));
    found.map(|(index, _)| (index, Suspicion::FarFromMedian)).collect()
}

/// Two sources, one list price: the row farther from the machine's median is marked, or both where neither clearly is.
fn disagreeing_lists(offers: &[Offer], places: &SamePlace, medians: &Medians) -> Marks {
    let mut marks = Marks::new();
    for group in places.groups.iter().filter(|group| group.purchase != Purchase::Spot && group.rows.len() > 1) {
        let median = medians.get(&(group.instance, group.purchase));
        let distance = |offer: &Offer| median.map_or(0.0, |median| (offer.quote.rate.dollars() / median).ln().abs());
        for (a, b) in pairs(&group.rows).filter(|(a, b)| places.contradict(offers, *a, *b)) {
            let farther = distance(&offers[a]) - distance(&offers[b]);
            if farther > -CLEARLY_FARTHER.ln() {
                marks.push((a, Suspicion::SourcesDisagree));
            }
            if farther < CLEARLY_FARTHER.ln() {
                marks.push((b, Suspicion::SourcesDisagree));
            }
        }
    }
    marks
}

/// A source that is wrong about the list price of a place is not believed about its spot price. Spot rates of regions
/// really differ by threes, so no median decides between two believed sources: both are marked.
fn disagreeing_spots(offers: &[Offer], places: &SamePlace, _: &Medians) -> Marks {
    let mut marks = Marks::new();
    for group in places.spots() {
        let is_wrong = |list: &usize| offers[*list].suspicions.contains(&Suspicion::SourcesDisagree);
        let wrong_lists: Vec<usize> = places.lists(group).iter().copied().filter(is_wrong).collect();
        let contradicts_itself =
            |list: usize, row: usize| places.can_be_same_zone(list, row) && offers[list].source == offers[row].source;
        let disbelieved = |row: usize| wrong_lists.iter().any(|list| contradicts_itself(*list, row));
        let (wrong, believed): (Vec<usize>, Vec<usize>) = group.rows.iter().partition(|row| disbelieved(**row));
        let together = |a: &Offer, b: &Offer| a.quote.age(b.quote.observed_at).0.abs() <= SPOT_COMPARABLE.0;
        let contradicting =
            pairs(&believed).filter(|(a, b)| places.contradict(offers, *a, *b) && together(&offers[*a], &offers[*b]));
        marks.extend(
            wrong
                .into_iter()
                .chain(contradicting.flat_map(|(a, b)| [a, b]))
                .map(|row| (row, Suspicion::SourcesDisagree)),
        );
    }
    marks
}

/// Spot above the list price of its place. List prices found wrong are no measure; where the two come from one source
/// and no other confirms the list price, either may be the wrong one.
fn spot_above_on_demand(offers: &[Offer], places: &SamePlace, _: &Medians) -> Marks {
    let mut marks = Marks::new();
    for group in places.spots() {
        let lists = places.lists(group);
        let is_doubted = |list: &usize| {
            let doubts = &offers[*list].suspicions;
            doubts.contains(&Suspicion::FarFromMedian) || doubts.contains(&Suspicion::SourcesDisagree)
        };
        for (spot, list) in group
            .rows
            .iter()
            .flat_map(|spot| lists.iter().filter(|list| !is_doubted(list)).map(move |list| (*spot, *list)))
        {
            let (spot_offer, list_offer) = (&offers[spot], &offers[list]);
            if !places.can_be_same_zone(spot, list)
                || spot_offer.quote.rate.dollars() <= list_offer.quote.rate.dollars() * ROUNDING
            {
                continue;
            }
            marks.push((spot, Suspicion::SpotAboveOnDemand));
            let is_confirmed =
                lists.iter().any(|other| offers[*other].source != list_offer.source && !is_doubted(other));
            if spot_offer.source == list_offer.source && !is_confirmed {
                marks.push((list, Suspicion::SpotAboveOnDemand));
            }
        }
    }
    marks
}

/// Spot rates of one region differ between zones; one that is far below the rest is shown and taken only by name.
fn zone_outliers(offers: &[Offer], places: &SamePlace, _: &Medians) -> Marks {
    let mut marks = Marks::new();
    for group in places.spots() {
        let zoned: Vec<usize> = group.rows.iter().copied().filter(|row| offers[*row].place.zone_id.is_some()).collect();
        let Some(median) = median(zoned.iter().map(|row| offers[*row].quote.rate.dollars()).collect()) else {
            continue;
        };
        let low = zoned.into_iter().filter(|row| offers[*row].quote.rate.dollars() * ZONE_FACTOR < median);
        marks.extend(low.map(|row| (row, Suspicion::ZoneOutlier)));
    }
    marks
}

fn pairs(rows: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    rows.iter().enumerate().flat_map(move |(position, a)| rows[position + 1..].iter().map(move |b| (*a, *b)))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    if values.len() < FEWEST_ROWS {
        return None;
    }
    let middle = values.len() / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::Location;
    use crate::quote::Origin;
    use gpuplan_hardware::CloudId;
    use gpuplan_units::UsdPerHour;

    fn offer(hardware: &Hardware, region: &str, zone: &str, purchase: Purchase, source: &str, rate: &str) -> Offer {
        let instance = hardware.find_instance(&CloudId::new("gcp"), "a3-highgpu-8g").unwrap();
        let place = Location { region: region.into(), zone_id: Some(zone.into()).filter(|_| !zone.is_empty()) };
        let observed_at = "2026-07-30T00:00:00Z".parse().unwrap();
        let mut offer = Offer::live(instance, place, purchase, UsdPerHour::parse(rate).unwrap(), source, observed_at);
        offer.quote.origin = Origin::Snapshot;
        offer
    }

    fn marked(rows: &[(&str, &str, Purchase, &str, &str)]) -> Vec<Vec<Suspicion>> {
        let hardware = Hardware::embedded().unwrap();
        let mut offers: Vec<Offer> = rows.iter().map(|(a, b, c, d, e)| offer(&hardware, a, b, *c, d, e)).collect();
        mark(&mut offers, &hardware);
        offers.into_iter().map(|offer| offer.suspicions).collect()
    }

    #[test]
    fn of_two_sources_the_one_far_from_the_other_regions_is_doubted() {
        let (list, spot) = (Purchase::OnDemand, Purchase::Spot);
        let found = marked(&[
            ("r1", "", list, "a", "100"),
            ("r2", "", list, "a", "104"),
            ("r3", "", list, "a", "96"),
            ("r1", "r1-z", list, "b", "60"),
            ("r1", "", spot, "a", "62"),
            ("r1", "r1-z", spot, "b", "30"),
        ]);
        assert_eq!(found[0], []);
        assert_eq!(found[3], [Suspicion::SourcesDisagree]);
        assert_eq!(found[4], [], "a list price found wrong is no measure for spot");
        assert_eq!(found[5], [Suspicion::SourcesDisagree], "wrong about the list price, so not believed about spot");
    }

    #[test]
    fn a_zone_far_below_its_neighbours_is_taken_only_by_name() {
        let zone = |zone: &'static str, rate: &'static str| ("r1", zone, Purchase::Spot, "a", rate);
        let found = marked(&[zone("z1", "2.47"), zone("z2", "8.19"), zone("z3", "8.12"), zone("z4", "7.88")]);
        assert_eq!(found, [vec![Suspicion::ZoneOutlier], vec![], vec![], vec![]]);
    }

    #[test]
    fn both_are_doubted_where_the_median_does_not_decide() {
        let list = Purchase::OnDemand;
        let found = marked(&[
            ("r1", "", list, "a", "90"),
            ("r2", "", list, "a", "100"),
            ("r3", "", list, "a", "100"),
            ("r1", "z", list, "b", "112"),
        ]);
        assert_eq!(found[0], [Suspicion::SourcesDisagree]);
        assert_eq!(found[3], [Suspicion::SourcesDisagree]);
        let found = marked(&[("r1", "z", Purchase::Spot, "a", "20"), ("r1", "z", Purchase::Spot, "b", "30")]);
        assert_eq!(found, [[Suspicion::SourcesDisagree], [Suspicion::SourcesDisagree]]);
        let found = marked(&[("r1", "y", Purchase::Spot, "a", "20"), ("r1", "z", Purchase::Spot, "b", "30")]);
        assert_eq!(found, [[], []], "two zones are two prices");
    }

    #[test]
    fn one_source_that_contradicts_itself_is_doubted_as_a_whole_unless_another_confirms_it() {
        let (list, spot) = (Purchase::OnDemand, Purchase::Spot);
        let found = marked(&[("r1", "", list, "a", "36"), ("r1", "", spot, "a", "39")]);
        assert_eq!(found, [[Suspicion::SpotAboveOnDemand], [Suspicion::SpotAboveOnDemand]]);
        let found = marked(&[("r1", "", list, "a", "36"), ("r1", "", spot, "a", "39"), ("r1", "", list, "b", "36")]);
        assert_eq!(found, [vec![], vec![Suspicion::SpotAboveOnDemand], vec![]]);
        let found = marked(&[("r1", "", list, "a", "27.43298"), ("r1", "z", spot, "a", "27.433")]);
        assert_eq!(found, [[], []], "a rounding is no contradiction");
    }
}
