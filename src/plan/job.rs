//! What the machines that an existing job asks for cost, which others would be cheaper or faster, and the job as a baseline of a plan.

use serde::Serialize;

use crate::filters::refuse_offer;
use crate::limits::{Limits, OfferFilter, PurchaseChoice};
use gpuplan_hardware::gpu::Gpu;
use gpuplan_hardware::selector::SelectorError;
use gpuplan_hardware::{GpuSelector, Hardware, InstanceType};
use gpuplan_import::{Choice, GpuModels, Gpus, JobRequest};
use gpuplan_market::quote::LIST_FRESH;
use gpuplan_market::{Market, Offer, OfferId, Purchase};
use gpuplan_units::{Hours, Usd};

/// Machines of one offer that run the job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOffer {
    pub offer: OfferId,
    pub nodes: u32,
    /// Of all machines together, an hour.
    pub hourly: Usd,
    /// For the longest that the job may take. `None`: it says no time.
    pub cost: Option<Usd>,
}

/// What is changed of what the job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Place,
    Terms,
    PlaceAndTerms,
    /// Another GPU that is behind in no figure of its data sheet.
    Gpu,
    /// The same, chosen by dollars for the work that the data sheet promises.
    FasterGpu,
}

/// Machines that would do, for less money or in less time.
#[derive(Clone, Debug, PartialEq)]
pub struct Better {
    pub change: Change,
    pub offer: JobOffer,
    /// For another GPU: how much faster its data sheet is.
    pub faster: Option<PeakRatios>,
}

/// Figures of a data sheet over those of the card that the job asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakRatios {
    /// Arithmetic: 16 bit, dense.
    pub compute: f64,
    pub memory_bandwidth: f64,
}

impl PeakRatios {
    /// How much faster work may be that needs both.
    pub fn least(self) -> f64 {
        self.compute.min(self.memory_bandwidth)
    }
}

/// A job's machines, priced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Priced {
    /// What the job asks for, cheapest first.
    pub offers: Vec<JobOffer>,
    /// Offers of it that are not trusted, or that limits refuse.
    pub refused: usize,
    pub better: Vec<Better>,
}

pub fn price(asked: &JobRequest, market: &Market, hardware: &Hardware, limits: &Limits) -> Priced {
    let search = Search { market, hardware, limits, hours: asked.hours.map(|hours| hours.0) };
    let (offers, refused) = search.all(asked);
    let better = offers.first().map(|base| search.better(asked, base)).unwrap_or_default();
    Priced { offers, refused, better }
}

/// The market with nothing in it but what the job asks for.
pub fn narrowed(asked: &JobRequest, market: &Market, hardware: &Hardware) -> Market {
    market.only(|offer| nodes(asked, offer, hardware.instance(offer.instance)).is_some())
}

/// The job's own machines as limits of a plan: so many cards of these chips, on these terms, whatever it costs and however long it takes.
/// An error where the catalog calls a chip by a name that selects none.
pub fn baseline(
    asked: &JobRequest,
    offers: &[JobOffer],
    market: &Market,
    hardware: &Hardware,
    limits: &Limits,
) -> Result<Limits, SelectorError> {
    let mut counts: Vec<String> = offers
        .iter()
        .map(|one| {
            let instance = hardware.instance(market.offer(one.offer).instance);
            format!("{}:{}", hardware.gpu(instance.node.gpu).id, instance.node.devices() * one.nodes)
        })
        .collect();
    counts.sort();
    counts.dedup();
    let spot = asked.choices.iter().filter(|choice| choice.is_spot).count();
    Ok(Limits {
        deadline: None,
        budget: None,
        max_price_per_hour: None,
        offers: OfferFilter {
            clouds: Vec::new(),
            regions: Vec::new(),
            gpus: counts.iter().map(|text| GpuSelector::parse(text, hardware)).collect::<Result<_, _>>()?,
            purchase: match spot {
                0 => PurchaseChoice::OnDemand,
                all if all == asked.choices.len() => PurchaseChoice::Spot,
                _ => PurchaseChoice::Any,
            },
            ..limits.offers.clone()
        },
        max_nodes: offers.iter().map(|one| one.nodes).max(),
        // It runs there today.
        allow_slow_network: true,
        layout: asked.stated_layout(),
        ..limits.clone()
    })
}

/// Machines of this offer that the job would run on. `None`: it does not ask for them.
fn nodes(asked: &JobRequest, offer: &Offer, instance: &InstanceType) -> Option<u32> {
    asked
        .choices
        .iter()
        .filter(|choice| is_place(choice, offer) && is_terms(choice, offer))
        .find_map(|choice| asked.nodes_of(choice, instance))
}

fn is_terms(choice: &Choice, offer: &Offer) -> bool {
    match offer.purchase {
        Purchase::Spot => choice.is_spot,
        Purchase::OnDemand => !choice.is_spot,
        _ => !choice.is_spot && offer.owned.is_some(),
    }
}

fn is_place(choice: &Choice, offer: &Offer) -> bool {
    let is_region = choice.region.as_ref().is_none_or(|region| **region == *offer.place.region);
    let is_zone = choice.zone.as_ref().is_none_or(|zone| match offer.place.zone_id.as_deref() {
        // A zone that is priced by its name. Ids such as `use1-az4` are not names, and each account has its own for them.
        Some(id) if id.starts_with(&*offer.place.region) => id == zone,
        _ => zone.starts_with(&*offer.place.region),
    });
    is_region && is_zone
}

struct Search<'a> {
    market: &'a Market,
    hardware: &'a Hardware,
    limits: &'a Limits,
    hours: Option<f64>,
}

impl Search<'_> {
    fn instance(&self, offer: &Offer) -> &InstanceType {
        self.hardware.instance(offer.instance)
    }

    fn gpu(&self, offer: &Offer) -> &Gpu {
        self.hardware.gpu(self.instance(offer).node.gpu)
    }

    /// Offers that a job takes, cheapest first, and how many more are refused.
    fn all(&self, asked: &JobRequest) -> (Vec<JobOffer>, usize) {
        let (mut offers, mut refused) = (Vec::new(), 0);
        for id in self.market.offer_ids() {
            let offer = self.market.offer(id);
            let instance = self.instance(offer);
            let Some(nodes) = nodes(asked, offer, instance) else { continue };
            // The job asks for this machine, so only doubts, rules and places can refuse it.
            let instance_type = Some(instance.name.clone());
            let filter = OfferFilter { gpus: Vec::new(), instance_type, ..self.limits.offers.clone() };
            let named = Limits { offers: filter, ..self.limits.clone() };
            if refuse_offer(offer, instance, self.hardware, &named).is_some() {
                refused += 1;
                continue;
            }
            let rate = offer.quote.rate;
            offers.push(JobOffer {
                offer: id,
                nodes,
                hourly: rate.times(nodes),
                cost: self.hours.and_then(|hours| rate.for_hours(nodes, hours)),
            });
        }
        offers.sort_by_key(|one| (one.hourly, one.offer));
        // Where any card will do, a place of each kind says enough.
        if asked.choices.iter().any(Choice::is_any_gpu) && asked.choices.iter().all(|choice| choice.cloud.is_none()) {
            let mut kinds = Vec::new();
            offers.retain(|one| {
                let gpu = self.instance(self.market.offer(one.offer)).node.gpu;
                let is_new = !kinds.contains(&gpu);
                kinds.extend(is_new.then_some(gpu));
                is_new
            });
        }
        (offers, refused)
    }

    /// The same, and seen lately enough that somebody should change machines for it.
    fn recent(&self, asked: &JobRequest) -> Vec<JobOffer> {
        let (mut offers, _) = self.all(asked);
        let is_old = |offer: &Offer| {
            self.limits.now.is_some_and(|now| {
                Hours(now.duration_since(offer.quote.observed_at).as_secs_f64() / 3600.0) > LIST_FRESH
            })
        };
        offers.retain(|one| self.limits.offers.accept_stale || !is_old(self.market.offer(one.offer)));
        offers
    }

    fn better(&self, asked: &JobRequest, base: &JobOffer) -> Vec<Better> {
        let offer = self.market.offer(base.offer);
        let mut better = Vec::new();
        for (change, place, terms) in
            [(Change::Place, true, false), (Change::Terms, false, true), (Change::PlaceAndTerms, true, true)]
        {
            let found = self
                .recent(&self.relaxed(asked, offer, place, terms))
                .into_iter()
                .next()
                .filter(|one| one.hourly < base.hourly);
            // Both together only where each alone is worse.
            let is_new = |one: &JobOffer| better.iter().all(|known: &Better| known.offer.offer != one.offer);
            better.extend(found.filter(is_new).map(|offer| Better { change, offer, faster: None }));
        }
        better.extend(self.other_gpus(asked, base));
        better
    }

    /// The same job without its place, its terms, or both.
    fn relaxed(&self, asked: &JobRequest, base: &Offer, place: bool, terms: bool) -> JobRequest {
        let mut relaxed = asked.clone();
        relaxed.choices = asked
            .choices
            .iter()
            .flat_map(|choice| {
                let mut one = choice.clone();
                if place {
                    (one.cloud, one.region, one.zone) = (None, None, None);
                    if one.instance_type.take().is_some() {
                        // A machine that was named stands for its cards.
                        let node = &self.instance(base).node;
                        one.chips = Some(GpuModels { word: self.gpu(base).name.clone(), ids: vec![node.gpu] });
                        one.gpus = Some(Gpus::PerMachine(node.devices()));
                    }
                }
                let other = Choice { is_spot: !one.is_spot, ..one.clone() };
                std::iter::once(one).chain(terms.then_some(other))
            })
            .collect();
        relaxed
    }

    /// Cards that are behind in no figure: the cheapest, and the one that costs least for what its data sheet promises.
    fn other_gpus(&self, asked: &JobRequest, base: &JobOffer) -> Vec<Better> {
        let (offer, own) = (self.market.offer(base.offer), self.gpu(self.market.offer(base.offer)));
        let node = self.instance(offer).node;
        let mut others = self.relaxed(asked, offer, true, false);
        others.nodes = None;
        for choice in &mut others.choices {
            choice.chips = None;
            choice.gpus = Some(Gpus::Together(node.devices() * base.nodes));
        }
        let mut candidates: Vec<(JobOffer, PeakRatios)> = self
            .recent(&others)
            .into_iter()
            .filter(|one| {
                let other = self.instance(self.market.offer(one.offer)).node;
                // Neither more machines than before, nor machines that are joined worse.
                other.devices() >= node.devices() && (one.nodes == 1 || other.fabric.is_some())
            })
            .filter_map(|one| {
                let faster = faster(self.gpu(self.market.offer(one.offer)), own)?;
                Some((one, faster))
            })
            .collect();
        let per_work = |(one, faster): &(JobOffer, PeakRatios)| one.hourly.dollars() / faster.least();
        candidates.retain(|candidate| per_work(candidate) < base.hourly.dollars());
        let cheapest = candidates.iter().find(|(one, _)| one.hourly < base.hourly).cloned();
        let fastest = candidates.iter().min_by(|a, b| per_work(a).total_cmp(&per_work(b))).cloned();
        let fastest = fastest.filter(|(one, _)| cheapest.as_ref().is_none_or(|(other, _)| other.offer != one.offer));
        let named = |change: Change| {
            move |(offer, faster): (JobOffer, PeakRatios)| Better { change, offer, faster: Some(faster) }
        };
        cheapest.map(named(Change::Gpu)).into_iter().chain(fastest.map(named(Change::FasterGpu))).collect()
    }
}

/// Ratios of arithmetic and bandwidth, where another chip is behind in no figure and has as much memory. A figure that is
/// unknown is no reason to change.
fn faster(other: &Gpu, own: &Gpu) -> Option<PeakRatios> {
    let peak = |gpu: &Gpu| gpu.peak_tflops.bf16.or(gpu.peak_tflops.fp16);
    let compute = peak(other)? / peak(own)?;
    let memory_bandwidth = other.memory_bandwidth_gb_per_s / own.memory_bandwidth_gb_per_s;
    let holds =
        other.memory_visible_mib >= own.memory_visible_mib && other.architecture.is_amd() == own.architecture.is_amd();
    let ratios = PeakRatios { compute, memory_bandwidth };
    (other.id != own.id && holds && ratios.least() >= 1.0).then_some(ratios)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_import::Names;
    use gpuplan_workload::Models;

    struct PricedJob {
        hardware: Hardware,
        market: Market,
        asked: JobRequest,
        priced: Priced,
    }

    fn priced_job(text: &str) -> PricedJob {
        let hardware = Hardware::embedded().unwrap();
        let (market, models) = (Market::embedded(&hardware).unwrap(), Models::embedded().unwrap());
        let asked = gpuplan_import::read(text, Names::new(&hardware, &models)).unwrap().named(None, None).unwrap();
        let priced = price(&asked, &market, &hardware, &Limits::default());
        PricedJob { hardware, market, asked, priced }
    }

    #[test]
    fn only_what_is_asked_for_is_priced_and_its_cost_is_rate_times_machines_times_hours() {
        let job = priced_job("#SBATCH -N 2 --gpus-per-node=a100-80gb:8 -t 1-00\n");
        assert!(!job.priced.offers.is_empty());
        for one in &job.priced.offers {
            let offer = job.market.offer(one.offer);
            let instance = job.hardware.instance(offer.instance);
            assert!(
                job.hardware.gpu(instance.node.gpu).id.starts_with("a100") && instance.node.devices() == 8,
                "{}",
                instance.name
            );
            assert_eq!((one.nodes, offer.purchase), (2, Purchase::OnDemand));
            assert_eq!((one.hourly, one.cost), (offer.quote.rate.times(2), offer.quote.rate.for_hours(2, 24.0)));
        }
        assert!(job.priced.offers.is_sorted_by_key(|one| one.hourly));
    }

    #[test]
    fn what_is_better_is_cheaper_and_behind_in_nothing() {
        let job = priced_job("resources: {accelerators: 'A100-80GB:8', infra: azure/eastus}\n");
        let base = &job.priced.offers[0];
        let changes: Vec<Change> = job.priced.better.iter().map(|better| better.change).collect();
        assert!(changes.contains(&Change::Place) && changes.contains(&Change::FasterGpu), "{changes:?}");
        for better in &job.priced.better {
            let offer = job.market.offer(better.offer.offer);
            let node = job.hardware.instance(offer.instance).node;
            assert_eq!(node.devices() * better.offer.nodes, 8);
            match better.faster {
                None => assert!(better.offer.hourly < base.hourly),
                Some(faster) => {
                    assert!(faster.least() >= 1.0);
                    assert!(better.offer.hourly.dollars() / faster.least() < base.hourly.dollars());
                }
            }
        }
    }

    #[test]
    fn a_place_narrows_and_a_market_keeps_nothing_else() {
        let job = priced_job("resources: {accelerators: 'H100:8', infra: aws/us-east-1, use_spot: true}\n");
        let narrowed = narrowed(&job.asked, &job.market, &job.hardware);
        assert!(!narrowed.offers().is_empty());
        for offer in narrowed.offers() {
            assert_eq!((&*offer.place.region, offer.purchase), ("us-east-1", Purchase::Spot));
        }
        let limits = baseline(&job.asked, &job.priced.offers, &job.market, &job.hardware, &Limits::default()).unwrap();
        assert_eq!((limits.offers.purchase, limits.max_nodes), (PurchaseChoice::Spot, Some(1)));
        assert!(limits.offers.gpus[0].matches_count(8) && !limits.offers.gpus[0].matches_count(16));
    }
}
