//! `Numbers`: regions, zones and pools of many offers as small numbers, so that grouping a hundred thousand of them compares no text and
//! looks nothing up twice.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::offer::{Offer, Purchase};
use gpuplan_hardware::InstanceId;

/// One number for each name, in the order of the offers.
pub struct Numbers {
    pub regions: Vec<u32>,
    /// 0 is the whole region.
    pub zones: Vec<u32>,
    /// A machine type in a region on some terms; below `most_pools`.
    pub pools: Vec<u32>,
    pub most_pools: usize,
}

impl Numbers {
    pub fn from_offers(offers: &[Offer]) -> Self {
        let regions = number(offers.iter().map(|offer| Some(&offer.place.region)));
        let zones = number(offers.iter().map(|offer| offer.place.zone_id.as_ref()));
        let mut known: FxHashMap<(InstanceId, Purchase, u32), u32> = FxHashMap::default();
        let pool = |(offer, region): (&Offer, &u32)| {
            let next = known.len() as u32;
            *known.entry((offer.instance, offer.purchase, *region)).or_insert(next)
        };
        let pools = offers.iter().zip(&regions).map(pool).collect();
        Self { regions, zones, pools, most_pools: known.len() }
    }

    /// Of the offers that stand alone.
    pub fn retain(&mut self, stands: &[bool]) {
        for numbers in [&mut self.regions, &mut self.zones, &mut self.pools] {
            let mut each = stands.iter();
            numbers.retain(|_| *each.next().expect("it is said of every offer"));
        }
    }
}

/// Neighbours mostly share the very same text, which is seen without reading it.
fn number<'a>(names: impl Iterator<Item = Option<&'a Arc<str>>>) -> Vec<u32> {
    let mut known: FxHashMap<&str, u32> = FxHashMap::default();
    let mut last: Option<(&Arc<str>, u32)> = None;
    let mut each = |name: Option<&'a Arc<str>>| {
        let Some(name) = name else { return 0 };
        if let Some((_, number)) = last.filter(|(text, _)| Arc::ptr_eq(text, name)) {
            return number;
        }
        let next = known.len() as u32 + 1;
        let number = *known.entry(name).or_insert(next);
        last = Some((name, number));
        number
    };
    names.map(&mut each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_equal_numbers() {
        let names = ["a", "b", "a"].map(|name| Some(Arc::from(name)));
        let shared = names[1].clone();
        let list = [&names[0], &names[1], &shared, &None, &names[2]];
        assert_eq!(number(list.into_iter().map(Option::as_ref)), [1, 2, 2, 0, 1]);
        let mut numbers = Numbers { regions: vec![1, 2, 3], zones: vec![0, 4, 5], pools: vec![0, 1, 2], most_pools: 3 };
        numbers.retain(&[true, false, true]);
        assert_eq!((numbers.regions, numbers.zones, numbers.pools), (vec![1, 3], vec![0, 5], vec![0, 2]));
    }
}
