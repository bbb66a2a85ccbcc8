//! Time to lay 100,000 cached offers over the snapshot: reading them from SQLite, and merging and judging them.

#![allow(clippy::unwrap_used, reason = "a bench fails loudly")]

use divan::Bencher;
use gpuplan::hardware::{CloudId, Hardware};
use gpuplan::market::{Answer, Cache, Market, Offer, Place};

const OFFERS: usize = 100_000;

fn main() {
    divan::main();
}

/// The snapshot's own offers again and again, each time in zones of their own.
fn offers(market: &Market) -> Vec<Offer> {
    let copies = market.offers().iter().cycle().zip(0..OFFERS);
    let fresh = |(offer, index): (&Offer, usize)| {
        let zone = format!("zone-{}", index / market.offers().len());
        let place = Place { region: offer.place.region.clone(), zone_id: Some(zone.as_str().into()) };
        let mut offer = Offer { place, ..offer.clone() };
        offer.quote.observed_at = "2026-11-20T00:00:00Z".parse().unwrap();
        offer
    };
    copies.map(fresh).collect()
}

#[divan::bench(sample_count = 20)]
fn merge_100_000_offers(bencher: Bencher) {
    let hardware = Hardware::embedded().unwrap();
    let market = Market::embedded(&hardware).unwrap();
    let offers = offers(&market);
    bencher.with_inputs(|| (market.clone(), offers.clone())).bench_values(|(market, offers)| market.merged(offers, &hardware));
}

#[divan::bench(sample_count = 20)]
fn read_100_000_offers(bencher: Bencher) {
    let hardware = Hardware::embedded().unwrap();
    let market = Market::embedded(&hardware).unwrap();
    let mut cache = Cache::in_memory().unwrap();
    for cloud in hardware.clouds() {
        let mine = |offer: &Offer| hardware.instance(offer.instance).cloud == cloud;
        let answer = Answer { offers: offers(&market).into_iter().filter(mine).collect(), ..Answer::default() };
        cache
            .store(&format!("{cloud}-bench"), &CloudId::new(cloud.as_str()), &answer, &hardware, "2026-11-20T00:00:00Z".parse().unwrap())
            .unwrap();
    }
    bencher.bench_local(|| cache.offers(&hardware).unwrap().len());
}
