//! Until when a plan's price holds: as long as every quote that it rests on is fresh.

use jiff::{SignedDuration, Timestamp};

use crate::candidate::Plan;
use gpuplan_market::quote::{LIST_FRESH, Quote, SPOT_FRESH};
use gpuplan_market::{Market, Purchase};

/// The last moment at which this quote is not stale; past for one that is stale already.
pub fn fresh_until(purchase: Purchase, quote: &Quote) -> Timestamp {
    let fresh = if purchase == Purchase::Spot { SPOT_FRESH } else { LIST_FRESH };
    quote.observed_at.checked_add(SignedDuration::from_secs_f64(fresh.0 * 3600.0)).unwrap_or(Timestamp::MAX)
}

impl Plan {
    /// The earliest over its machines and those that it falls back on. Disks, storage and egress have no time of freshness.
    pub fn valid_until(&self, market: &Market) -> Timestamp {
        let until = |offer| fresh_until(market.offer(offer).purchase, &market.offer(offer).quote);
        let of_spot = self.spot.iter().filter_map(|spot| spot.fallback);
        let places = self.standby.iter().flat_map(|standby| &standby.places).map(|place| place.offer);
        let stand_in = self.standby.iter().map(|standby| standby.fallback);
        of_spot.chain(places).chain(stand_in).map(until).fold(until(self.offer), Timestamp::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::plan;
    use crate::context::World;
    use crate::limits::{Limits, OfferFilter, PurchaseChoice};
    use gpuplan_estimate::Correction;
    use gpuplan_hardware::Hardware;
    use gpuplan_market::{Offer, Origin};
    use gpuplan_units::{Hours, UsdPerHour};
    use gpuplan_workload::Models;
    use gpuplan_workload::file::WorkloadFile;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_spot_quote_is_good_for_an_hour_and_another_for_thirty_days() {
        let quote =
            Quote { rate: UsdPerHour::default(), origin: Origin::Live, observed_at: time("2026-07-20T00:00:00Z") };
        assert_eq!(fresh_until(Purchase::Spot, &quote), time("2026-07-20T01:00:00Z"));
        assert_eq!(fresh_until(Purchase::OnDemand, &quote), time("2026-08-19T00:00:00Z"));
        assert_eq!(fresh_until(Purchase::OnDemand, &Quote { observed_at: Timestamp::MAX, ..quote }), Timestamp::MAX);
    }

    /// As `is_stale` of the offer has it, to the second.
    #[test]
    fn an_offer_is_stale_from_then_on() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        for offer in market.offers() {
            let until = fresh_until(offer.purchase, &offer.quote);
            let after = until.checked_add(SignedDuration::from_secs(1)).unwrap();
            assert!(!offer.is_stale(until) && offer.is_stale(after), "{offer:?}");
        }
    }

    /// Spot prices of this moment, with list prices that were seen some days ago.
    #[test]
    fn a_plan_on_spot_is_as_fresh_as_the_older_of_its_two_prices() {
        let hardware = Hardware::embedded().unwrap();
        let file =
            WorkloadFile::parse("model.preset = \"llama-3.1-8b\"\ntraining = { task = \"lora\", tokens = \"10M\" }\n")
                .unwrap();
        let workload = file.resolve(&Models::embedded().unwrap(), None).unwrap().workload;
        let (now, hours) = (time("2026-12-01T00:00:00Z"), SignedDuration::from_hours);
        for (days, until) in [(10, now + hours(1)), (40, now - hours(10 * 24))] {
            let seen = |offer: &Offer| {
                let observed_at = if offer.purchase == Purchase::Spot { now } else { now - hours(days * 24) };
                Offer { quote: Quote { observed_at, ..offer.quote }, ..offer.clone() }
            };
            let market = Market::embedded(&hardware).unwrap();
            let offers = market.offers().iter().map(seen).collect();
            let market = market.merged(offers, &hardware);
            let purchase = PurchaseChoice::SpotWithFallback;
            let limits = Limits {
                offers: OfferFilter { purchase, accept_stale: true, ..OfferFilter::default() },
                deadline: Some(Hours(48.0)),
                now: Some(now),
                ..Limits::default()
            };
            let set =
                plan(World { hardware: &hardware, market: &market, correction: &Correction::NONE }, &workload, &limits);
            assert_eq!(set.recommendation.unwrap().valid_until(&market), until, "{days} days");
        }
    }
}
