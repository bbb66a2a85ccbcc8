//! Time to lay 100,000 cached offers over the snapshot: reading them from SQLite, and merging and judging them.

#![allow(clippy::unwrap_used, reason = "a bench fails loudly")]

use divan::Bencher;
use gpuplan::estimate::Correction;
use gpuplan::hardware::{CloudId, Hardware};
use gpuplan::market::{Cache, Location, Market, Offer, PriceAnswer};
use gpuplan::plan::{Limits, World, plan};
use gpuplan::workload::Models;
use gpuplan::workload::file::WorkloadFile;

const OFFERS: usize = 100_000;

fn main() {
    divan::main();
}

/// The snapshot's own offers again and again, each time in zones of their own.
fn offers(market: &Market) -> Vec<Offer> {
    let copies = market.offers().iter().cycle().zip(0..OFFERS);
    let fresh = |(offer, index): (&Offer, usize)| {
        let zone = format!("zone-{}", index / market.offers().len());
        let place = Location { region: offer.place.region.clone(), zone_id: Some(zone.as_str().into()) };
        let mut offer = Offer { place, ..offer.clone() };
        offer.quote.observed_at = "2026-11-20T00:00:00Z".parse().unwrap();
        offer
    };
    copies.map(fresh).collect()
}

/// A cache with these offers, each cloud's under a source of its own.
fn cache_of(offers: &[Offer], hardware: &Hardware) -> Cache {
    let mut cache = Cache::in_memory().unwrap();
    for cloud in hardware.clouds() {
        let mine = offers.iter().filter(|offer| hardware.instance(offer.instance).cloud == cloud).cloned();
        let answer = PriceAnswer { offers: mine.collect(), ..PriceAnswer::default() };
        let at = "2026-11-20T00:00:00Z".parse().unwrap();
        cache.store(&format!("{cloud}-bench"), &CloudId::new(cloud.as_str()), &answer, hardware, at).unwrap();
    }
    cache
}

/// The offers as the cache gives them.
#[divan::bench(sample_count = 20)]
fn merge_100_000_offers(bencher: Bencher) {
    let hardware = Hardware::embedded().unwrap();
    let market = Market::embedded(&hardware).unwrap();
    let offers = cache_of(&offers(&market), &hardware).offers(&hardware).unwrap();
    assert_eq!(offers.len(), OFFERS);
    bencher
        .with_inputs(|| (market.clone(), offers.clone()))
        .bench_values(|(market, offers)| market.merged(offers, &hardware));
}

#[divan::bench(sample_count = 20)]
fn read_100_000_offers(bencher: Bencher) {
    let hardware = Hardware::embedded().unwrap();
    let market = Market::embedded(&hardware).unwrap();
    let cache = cache_of(&offers(&market), &hardware);
    bencher.bench_local(|| cache.offers(&hardware).unwrap().len());
}

/// Everything that a plan does after the program has started: the snapshot, the cache of this many offers, and the plan over all of
/// them, without a limit on GPUs.
#[divan::bench(args = [10_000, 100_000], sample_count = 10)]
fn plan_with_a_warm_cache(bencher: Bencher, cached: usize) {
    let hardware = Hardware::embedded().unwrap();
    let mut offers = offers(&Market::embedded(&hardware).unwrap());
    offers.truncate(cached);
    let cache = cache_of(&offers, &hardware);
    let text = "[model]\npreset = \"llama-2-7b\"\n[training]\ntask = \"pretrain\"\ntokens = \"1T\"\nsequence_length = 2048\nglobal_batch_tokens = \"4M\"\n";
    let workload = WorkloadFile::parse(text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload;
    bencher.bench_local(|| {
        let market = Market::embedded(&hardware).unwrap().merged(cache.offers(&hardware).unwrap(), &hardware);
        plan(
            World { hardware: &hardware, market: &market, correction: &Correction::NONE },
            &workload,
            &Limits::default(),
        )
        .counts
        .offers
    });
}
