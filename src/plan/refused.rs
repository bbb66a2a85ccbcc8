//! `Refused`: everything that was thrown out, as data: each line told by the candidate that came closest.

use std::collections::BTreeMap;

use crate::choose::{PlanSet, World};
use crate::filters::{Reason, Rejection, Why};
use gpuplan_hardware::{Hardware, InstanceId};
use gpuplan_market::{Offer, OfferId, Purchase};

/// Cheaper offers with a doubtful price that are named one by one.
const MOST_NAMED: usize = 4;

/// Every refused candidate of one machine type and terms, told by the one that came closest.
#[derive(Default)]
pub struct Refused {
    by_type: BTreeMap<(InstanceId, Purchase), (Why, u32, u64)>,
    by_policy: BTreeMap<&'static str, (Why, u64)>,
    /// Offers whose price alone is in the way.
    doubtful: Vec<(OfferId, Why)>,
}

impl Refused {
    pub fn add_offer(&mut self, id: OfferId, offer: &Offer, why: Why) {
        if matches!(why.reason(), Reason::PriceStale | Reason::PriceSuspect | Reason::NoCapacity) {
            self.doubtful.push((id, why.clone()));
        }
        self.add(offer.instance, offer.purchase, 1, why);
    }

    pub fn add(&mut self, instance: InstanceId, purchase: Purchase, nodes: u32, why: Why) {
        if why.progress() == 0 {
            let key = match why {
                Why::GpuNotAsked => "other GPUs",
                Why::CloudNotAsked => "other clouds",
                _ => "other regions",
            };
            self.by_policy.entry(key).or_insert((why, 0)).1 += 1;
            return;
        }
        let entry = self.by_type.entry((instance, purchase)).or_insert_with(|| (why.clone(), nodes, 0));
        entry.2 += 1;
        let (progress, held) = (why.progress(), entry.0.progress());
        if progress > held || (progress == held && why.distance() < entry.0.distance()) {
            (entry.0, entry.1) = (why, nodes);
        }
    }

    pub fn lines(&self, hardware: &Hardware) -> Vec<(u8, f64, Rejection)> {
        let policy =
            self.by_policy.iter().map(|(what, (why, count))| (0, 0.0, rejection((*what).to_owned(), why, *count)));
        let types = self.by_type.iter().map(|((instance, purchase), (why, nodes, count))| {
            let instance = hardware.instance(*instance);
            let what = format!("{}/{} x{nodes} {purchase}", instance.cloud, instance.name);
            (why.progress(), why.distance(), rejection(what, why, *count))
        });
        types.chain(policy).collect()
    }

    /// Whether money alone keeps a plan out.
    pub fn has_money_in_the_way(&self) -> bool {
        self.by_type
            .values()
            .any(|(why, _, _)| matches!(why, Why::Budget { .. } | Why::GuessedDear { .. } | Why::MaxPrice { .. }))
    }

    /// Offers of the recommended machine on the same terms that ask less and were not taken: each with its place and the reason.
    pub fn name_doubtful(self, world: World, set: &mut PlanSet) {
        let Some(best) = &set.recommendation else { return };
        let chosen = world.market.offer(best.offer);
        let cheaper = |offer: &Offer| {
            (offer.instance, offer.purchase) == (chosen.instance, chosen.purchase)
                && offer.quote.rate <= chosen.quote.rate
        };
        let mut named: Vec<(&Offer, Why)> = self
            .doubtful
            .into_iter()
            .map(|(id, why)| (world.market.offer(id), why))
            .filter(|(offer, _)| cheaper(offer))
            .collect();
        named.sort_by_key(|(offer, _)| {
            (offer.place.region != chosen.place.region, offer.quote.rate, offer.place.clone())
        });
        named.dedup_by_key(|(offer, _)| offer.place.clone());
        let instance = world.hardware.instance(best.instance);
        if named.len() > MOST_NAMED {
            set.notes.push(format!(
                "{} more offers of this machine ask less and are stale or doubtful",
                named.len() - MOST_NAMED
            ));
        }
        for (offer, why) in named.into_iter().take(MOST_NAMED) {
            let place = offer.place.zone_id.as_deref().unwrap_or(&offer.place.region);
            let what =
                format!("{}/{} in {place}, {} at ${}", instance.cloud, instance.name, offer.purchase, offer.quote.rate);
            set.notes.push(format!("not taken although it asks less: {what}: {}", why.detail()));
            set.rejected.insert(0, rejection(what, &why, 1));
        }
    }
}

pub fn rejection(what: String, why: &Why, count: u64) -> Rejection {
    Rejection { what, reason: why.reason(), detail: why.detail(), nearest_fix: why.fix(), count }
}
