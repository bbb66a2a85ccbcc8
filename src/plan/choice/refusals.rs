//! `Refusals`: everything that was filtered out, each machine type represented by the candidate that came closest.

use std::collections::BTreeMap;

use crate::context::World;
use crate::explanation::rejection::Nearest;
use crate::explanation::{Rejected, Rejection, RejectionReason, Warning};
use crate::plan_set::PlanSet;
use gpuplan_hardware::{Hardware, InstanceId};
use gpuplan_market::{Offer, OfferId, Purchase};

/// Cheaper offers with a doubtful price that are named one by one.
const MOST_NAMED: usize = 4;

/// Refused candidates by machine type and terms, represented by the one that came closest.
#[derive(Default)]
pub struct Refusals {
    by_type: BTreeMap<(InstanceId, Purchase), Nearest>,
    by_request: BTreeMap<&'static str, Nearest>,
    /// Offers whose price alone is in the way.
    doubtful: Vec<(OfferId, Rejection)>,
}

impl Refusals {
    pub fn add_offer(&mut self, id: OfferId, offer: &Offer, why: Rejection) {
        let reason = why.reason();
        if matches!(reason, RejectionReason::PriceStale | RejectionReason::PriceSuspect | RejectionReason::NoCapacity) {
            self.doubtful.push((id, why.clone()));
        }
        self.add(offer.instance, offer.purchase, 1, why);
    }

    pub fn add(&mut self, instance: InstanceId, purchase: Purchase, nodes: u32, why: Rejection) {
        if why.is_about_request() {
            let others = match why {
                Rejection::OtherGpu => "other GPUs",
                Rejection::OtherCloud { .. } => "other clouds",
                _ => "other regions",
            };
            let held = self.by_request.entry(others).or_insert_with(|| Nearest::new(why.clone(), nodes));
            held.add(why, nodes);
            return;
        }
        let held = self.by_type.entry((instance, purchase));
        held.or_insert_with(|| Nearest::new(why.clone(), nodes)).add(why, nodes);
    }

    /// One line a machine type and terms, nearest first.
    pub fn lines(&self, hardware: &Hardware) -> Vec<Rejected> {
        let line = |what: String, why: &Rejection, count: u64| Rejected { what, why: why.clone(), count };
        let mut lines: Vec<(f64, Rejected)> = Vec::new();
        for ((instance, purchase), Nearest { why, nodes, count }) in &self.by_type {
            let instance = hardware.instance(*instance);
            let what = format!("{}/{} x{nodes} {purchase}", instance.cloud, instance.name);
            lines.push((why.distance(), line(what, why, *count)));
        }
        for (what, Nearest { why, count, .. }) in &self.by_request {
            lines.push((why.distance(), line((*what).to_owned(), why, *count)));
        }
        lines.sort_by(|(a_distance, a), (b_distance, b)| {
            let by_progress = b.why.progress().cmp(&a.why.progress());
            by_progress.then(a_distance.total_cmp(b_distance)).then(a.what.cmp(&b.what))
        });
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// Whether money alone keeps a plan out.
    pub fn has_money_in_the_way(&self) -> bool {
        self.by_type.values().any(|held| {
            matches!(
                held.why,
                Rejection::Budget { .. } | Rejection::GuessedOverBudget { .. } | Rejection::MaxPrice { .. }
            )
        })
    }

    /// Offers of the recommended machine on the same terms that ask less and were not taken: each with its place and the reason.
    pub fn name_doubtful(self, world: World, set: &mut PlanSet) {
        let Some(best) = &set.recommendation else { return };
        let chosen = world.market.offer(best.offer);
        let cheaper = |offer: &Offer| {
            (offer.instance, offer.purchase) == (chosen.instance, chosen.purchase)
                && offer.quote.rate <= chosen.quote.rate
        };
        let mut named: Vec<(&Offer, Rejection)> = self
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
            set.warnings.push(Warning::MoreDoubtfulOffers { offers: named.len() - MOST_NAMED });
        }
        for (offer, why) in named.into_iter().take(MOST_NAMED) {
            let place = offer.place.zone_id.as_deref().unwrap_or(&offer.place.region);
            let what =
                format!("{}/{} in {place}, {} at ${}", instance.cloud, instance.name, offer.purchase, offer.quote.rate);
            set.warnings.push(Warning::CheaperOffer { offer: what.clone(), why: why.clone() });
            set.rejected.insert(0, Rejected { what, why, count: 1 });
        }
    }
}
