//! Work without GPU: how many of which machines, for how long and for how much; and what the same costs on hosts of GPU machines.

pub mod answer;
pub mod machines;
pub mod reasons;
pub mod refusals;

pub use answer::{Losses, ProcessingPlan, ProcessingSet};

use std::collections::BTreeMap;

use crate::choice::objective::{Aim, by_key};
use crate::choice::value_of_time::ValueOfTime;
use crate::explanation::{Rejection, Warning};
use crate::limits::Limits;
use crate::money::bill::{Basis, Bill, BillItem, BillLine, HOURS_PER_MONTH, MACHINE_HOUR};
use crate::money::side_charges::Rate;
use crate::normal::{NORMAL_90, deviations, normal_distribution};
use crate::processing::machines::{Rented, WorkOffers};
use crate::processing::reasons::reasons;
use crate::processing::refusals::Refusals;
use crate::training::run::START;
use gpuplan_estimate::processing::{ROOT, Work, cpu_seconds};
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_market::{ChargeKind, Market, Purchase};
use gpuplan_spot::AvailabilityModel;
use gpuplan_spot::evidence::{EvidenceAge, assumed_availability};
use gpuplan_units::{Band, Hours, MINIMUM_BILLED_SECONDS, Quantiles, Seconds, Usd, billed_seconds};
use gpuplan_workload::{Processing, Storage};

/// Plans shown between the cheapest and the fastest.
const MOST_SHOWN: usize = 8;

/// The work, priced on machines without GPU.
pub fn plan<'a>(hardware: &'a Hardware, market: &'a Market, work: &Processing, limits: &Limits) -> ProcessingSet<'a> {
    let case = Case::new(market, work, limits);
    let found = WorkOffers::without_gpu(hardware, market, limits, work.place.as_deref());
    let mut refused = Refusals::default();
    for (rented, why) in found.refused {
        refused.add(&rented, 1, why);
    }
    let plans = case.plans(&found.kept, &mut refused);
    let value = ValueOfTime::of_cores(Seconds(cpu_seconds(work).unwrap_or(0.0) * work.samples), limits);
    let aim = Aim::new(limits, value);
    let recommended = recommend(&plans, aim);
    let mut set = ProcessingSet {
        recommendation: recommended.map(|index| plans[index].clone()),
        only_money: recommended.is_none() && refused.has_money_in_the_way(),
        offers: found.offers,
        candidates: plans.len(),
        warnings: vec![Warning::EqualCores],
        ..ProcessingSet::default()
    };
    (set.frontier, set.alternatives) = frontier_and_alternatives(plans, aim);
    set.rejected = refused.lines();
    if let Some(best) = &set.recommendation {
        let hosts = WorkOffers::with_gpu(hardware, market, limits, work.place.as_deref()).kept;
        set.on_gpu_machines = cheapest(case.plans(&hosts, &mut Refusals::default()));
        set.reasons = reasons(best, case.left_by_samples(&best.on).as_ref(), set.on_gpu_machines.as_ref());
    }
    set
}

struct Case<'a> {
    market: &'a Market,
    work: &'a Processing,
    limits: &'a Limits,
    model: AvailabilityModel,
    /// The confidence that the user wants, in 90th percentiles.
    certainty: f64,
}

impl<'a> Case<'a> {
    fn new(market: &'a Market, work: &'a Processing, limits: &'a Limits) -> Self {
        Self { market, work, limits, model: AvailabilityModel::prior(), certainty: deviations(limits.confidence) }
    }

    /// Every count on every offer that keeps all limits.
    fn plans<'o>(&self, offers: &[Rented<'o>], refused: &mut Refusals) -> Vec<ProcessingPlan<'o>> {
        let mut plans = Vec::new();
        let counts = self.limits.node_counts();
        for rented in offers {
            // More machines than samples have nothing to do.
            for nodes in counts.iter().copied().filter(|nodes| f64::from(*nodes) <= self.work.samples.max(1.0)) {
                let Some(work) = Work::on(&rented.host, self.work, nodes) else { continue };
                match self.price(rented, nodes, work) {
                    Ok(plan) => plans.push(plan),
                    Err(why) => refused.add(rented, nodes, why),
                }
            }
        }
        plans
    }

    fn price<'o>(&self, rented: &Rented<'o>, nodes: u32, work: Work) -> Result<ProcessingPlan<'o>, Rejection> {
        let losses = (rented.purchase == Purchase::Spot).then(|| self.losses(rented, work.seconds()));
        let hours = hours(work.seconds(), losses.as_ref());
        let chance_by_deadline = self.check_time(hours)?;
        let rate = rented.quote.rate.times(nodes);
        if let Some(broken) = self.limits.policy.as_ref().and_then(|policy| policy.breaks_rate(rate)) {
            return Err(Rejection::Policy(broken));
        }
        if let Some(limit) = self.limits.max_price_per_hour.filter(|limit| rate > *limit) {
            return Err(Rejection::MaxPrice { rate_usd_per_hour: rate, limit_usd_per_hour: limit });
        }
        let band = work.seconds().map(|seconds| Hours::from(Seconds(seconds)).0);
        let bill_for = |work: f64, elapsed: f64| {
            self.bill(rented, nodes, work, elapsed, losses.as_ref()).ok_or(Rejection::Uncountable)
        };
        let bill = bill_for(band.expected, hours.expected)?;
        let most = bill_for(band.high, hours.p90)?.total();
        let expected = bill.total();
        let cost = Quantiles { expected, p50: expected, p90: most.max(expected) };
        self.check_cost(cost)?;
        Ok(ProcessingPlan { on: *rented, nodes, work, hours, cost, bill, chance_by_deadline, losses })
    }

    fn losses(&self, rented: &Rented, undisturbed: Band) -> Losses {
        let signals: Vec<_> = rented.signals.iter().map(|heard| heard.signal).collect();
        let (availability, basis, _) = assumed_availability(rented.risk, &signals, EvidenceAge::default());
        let evidence = (rented.risk.is_some() || !rented.signals.is_empty()).then_some(basis);
        let (up, down) = (self.model.mean_spell(availability, true).0, self.model.mean_spell(availability, false).0);
        // What takes less than a shard is one.
        let shard = self.work.shard.0.min(undisturbed.expected);
        let each = Hours::from(Seconds(shard / 2.0 + START.0)).0;
        Losses { up, down, evidence, each, stretch: (each / up).exp() }
    }

    fn check_time(&self, hours: Quantiles<f64>) -> Result<Option<f64>, Rejection> {
        let Some(deadline) = self.limits.deadline else { return Ok(None) };
        let width = (hours.p90 / hours.p50).ln();
        let needed = Hours(hours.p50 * (width * self.certainty).exp());
        if needed > deadline {
            let confidence = self.limits.confidence;
            return Err(Rejection::Deadline { needed_hours: needed, deadline_hours: deadline, confidence });
        }
        Ok(Some(normal_distribution((deadline.0 / hours.p50).ln() / (width / NORMAL_90).max(1e-6))))
    }

    fn check_cost(&self, cost: Quantiles<Usd>) -> Result<(), Rejection> {
        if let Some(broken) = self.limits.policy.as_ref().and_then(|policy| policy.breaks_cost(cost.p90)) {
            return Err(Rejection::Policy(broken));
        }
        let ratio = (cost.p90.dollars() / cost.p50.dollars()).powf(self.certainty);
        let most = Usd::from_dollars(cost.p50.dollars() * ratio).ok_or(Rejection::Uncountable)?;
        match self.limits.budget.filter(|budget| most > *budget) {
            Some(budget) => {
                let confidence = self.limits.confidence;
                Err(Rejection::Budget { most_usd: most, budget_usd: budget, confidence })
            }
            None => Ok(()),
        }
    }

    /// Machines for their work and what they lose, disks for as long, and bringing samples out of another cloud.
    fn bill(&self, rented: &Rented, nodes: u32, work: f64, elapsed: f64, losses: Option<&Losses>) -> Option<Bill> {
        let (cloud, count, rate) = (rented.host.cloud, f64::from(nodes), rented.quote.rate.times(1));
        let basis = Basis::Price {
            source: rented.source.clone(),
            observed_at: rented.quote.observed_at,
            is_unverified: false,
            is_upper_bound: false,
        };
        let working = billed_seconds((start() + work) * 3600.0, MINIMUM_BILLED_SECONDS) / 3600.0;
        let mut lines = vec![BillLine::new(BillItem::Machines, working * count, MACHINE_HOUR, rate, basis)?];
        if let Some(losses) = losses {
            let lost = work * (losses.stretch - 1.0);
            let basis = losses.evidence.map_or(Basis::LossRateOfGpuMachines, Basis::LossRate);
            lines.push(BillLine::new(BillItem::LostWork, lost * count, MACHINE_HOUR, rate, basis)?);
        }
        if let Some(disk) =
            self.market.charges.find(ChargeKind::NetworkDisk, cloud, &rented.place.region).map(Rate::new)
        {
            let on_disk = if self.work.reading.storage == Storage::ObjectStore { 0.0 } else { self.work.reads.0 };
            let quantity = (ROOT * count + on_disk) / disk.unit_bytes * elapsed / HOURS_PER_MONTH;
            lines.push(BillLine::new(BillItem::Disk, quantity, disk.unit, disk.price, disk.basis)?);
        }
        if let Some((from, region)) = self.left_by_samples(rented)
            && let Some(egress) = self.market.charges.find(ChargeKind::EgressInternet, &from, region).map(Rate::new)
        {
            // Rates between regions are in no source; that of the internet is the most it can be.
            let basis = if from == *cloud { egress.basis.as_upper_bound() } else { egress.basis };
            let quantity = self.work.reads.0 / egress.unit_bytes;
            lines.push(BillLine::new(BillItem::Egress, quantity, egress.unit, egress.price, basis)?);
        }
        Some(Bill { lines })
    }

    /// The cloud and region that the samples leave for these machines. A cloud alone means all of it.
    fn left_by_samples(&self, rented: &Rented) -> Option<(CloudId, &str)> {
        let place = self.work.place.as_deref().filter(|_| self.work.reads.0 > 0.0)?;
        let (from, region) = place.split_once('/').unwrap_or((place, "*"));
        let is_here = from == rented.host.cloud.as_str() && (region == "*" || *region == *rented.place.region);
        (!is_here).then(|| (CloudId::new(from), region))
    }
}

/// From asking for machines to the first sample. Hours.
fn start() -> f64 {
    Hours::from(START).0
}

/// All machines of a pool are taken to be lost together, which they are at worst: then the work stands still until there are others.
fn hours(seconds: Band, losses: Option<&Losses>) -> Quantiles<f64> {
    let band = seconds.map(|seconds| Hours::from(Seconds(seconds)).0);
    let Some(losses) = losses else {
        let expected = start() + band.expected;
        return Quantiles { expected, p50: expected, p90: start() + band.high };
    };
    let lost = |hours: f64| hours * losses.stretch / losses.up;
    let mean = |hours: f64| start() + hours * losses.stretch + lost(hours) * losses.down;
    // A Poisson number of exponential waits has a variance of twice their number times the mean squared.
    let waiting = NORMAL_90 * losses.down * (2.0 * lost(band.high)).sqrt();
    Quantiles { expected: mean(band.expected), p50: mean(band.expected), p90: mean(band.high) + waiting }
}

/// By the objective, as for machines with GPUs.
fn recommend(plans: &[ProcessingPlan], aim: Aim) -> Option<usize> {
    let key = |index: &usize| aim.key(plans[*index].cost.expected, plans[*index].hours.expected);
    (0..plans.len()).min_by(|a, b| by_key(key(a), key(b)))
}

fn cheapest(plans: Vec<ProcessingPlan>) -> Option<ProcessingPlan> {
    plans
        .into_iter()
        .min_by(|a, b| a.cost.expected.cmp(&b.cost.expected).then(a.hours.expected.total_cmp(&b.hours.expected)))
}

/// What nothing beats in both cost and time; and of every other machine type the plan that would be recommended.
fn frontier_and_alternatives<'a>(
    mut plans: Vec<ProcessingPlan<'a>>,
    aim: Aim,
) -> (Vec<ProcessingPlan<'a>>, Vec<ProcessingPlan<'a>>) {
    plans.sort_by(|a, b| a.cost.expected.cmp(&b.cost.expected).then(a.hours.expected.total_cmp(&b.hours.expected)));
    let (mut frontier, mut rest, mut fastest): (Vec<ProcessingPlan>, BTreeMap<String, Vec<ProcessingPlan>>, f64) =
        (Vec::new(), BTreeMap::new(), f64::INFINITY);
    for plan in plans {
        if plan.hours.expected < fastest {
            fastest = plan.hours.expected;
            frontier.push(plan);
        } else {
            rest.entry(format!("{}/{}", plan.on.host.cloud, plan.on.host.name)).or_default().push(plan);
        }
    }
    for plan in &frontier {
        rest.remove(&format!("{}/{}", plan.on.host.cloud, plan.on.host.name));
    }
    let best = |plans: Vec<ProcessingPlan<'a>>| recommend(&plans, aim).map(|index| plans[index].clone());
    let mut alternatives: Vec<ProcessingPlan> = rest.into_values().filter_map(best).collect();
    alternatives.sort_by_key(|plan| plan.cost.expected);
    // The recommended and the fastest stay, however many are cheaper.
    let (chosen, last, mut index) = (recommend(&frontier, aim), frontier.len(), 0);
    frontier.retain(|_| {
        index += 1;
        index + 2 <= MOST_SHOWN || index == last || chosen.is_some_and(|chosen| chosen + 1 == index)
    });
    (frontier, alternatives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::Reason;
    use crate::limits::{OfferFilter, PurchaseChoice};
    use gpuplan_workload::file::WorkloadFile;

    const LARGE: &str = "[data]\nkind = \"jpeg\"\nfiles = \"shards\"\nsize = \"15TB\"\nsamples = 128116700\nplace = \"gcp/us-central1\"\n\
        [processing]\nwrites = \"17TB\"\n";

    fn within(offers: OfferFilter) -> Limits {
        Limits { offers, ..Limits::default() }
    }

    fn with(text: &str, limits: &Limits, check: impl Fn(&ProcessingSet)) {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let work = WorkloadFile::parse(text).unwrap().resolve_processing().unwrap().processing;
        check(&plan(&hardware, &market, &work, limits));
    }

    #[test]
    fn the_bill_adds_up_and_a_gpu_that_stands_idle_costs_more() {
        with(LARGE, &Limits::default(), |set| {
            let best = set.recommendation.as_ref().unwrap();
            assert!(best.on.gpu.is_none());
            assert_eq!(best.bill.total(), best.cost.expected);
            assert!(best.cost.p90 > best.cost.expected && best.hours.p90 > best.hours.expected);
            let on_gpus = set.on_gpu_machines.as_ref().unwrap();
            assert!(on_gpus.on.gpu.is_some() && on_gpus.cost.expected > best.cost.expected);
            assert!(
                set.reasons.iter().any(|reason| matches!(reason, Reason::OnGpuMachines { .. })),
                "{:?}",
                set.reasons
            );
            let is_best = |plan: &ProcessingPlan| (plan.nodes, &plan.on.host.name) == (best.nodes, &best.on.host.name);
            assert!(set.frontier.iter().any(is_best), "the recommended plan is among those that nothing beats");
            assert!(set.frontier.len() <= MOST_SHOWN);
            // Every plan of the frontier is dearer and faster than the one before it.
            for pair in set.frontier.windows(2) {
                assert!(
                    pair[0].cost.expected <= pair[1].cost.expected && pair[0].hours.expected > pair[1].hours.expected
                );
            }
        });
    }

    #[test]
    fn a_deadline_takes_more_machines_and_an_impossible_one_none() {
        let by = |hours: f64| Limits { deadline: Some(Hours(hours)), ..Limits::default() };
        let cheapest = |set: &ProcessingSet| {
            set.frontier.first().map(|plan| (plan.nodes * plan.on.host.vcpus, plan.cost.expected))
        };
        let vcpus = std::cell::Cell::new(0);
        with(LARGE, &by(200.0), |set| vcpus.set(cheapest(set).unwrap().0));
        with(LARGE, &by(4.0), |set| {
            let best = set.recommendation.as_ref().unwrap();
            assert!(best.hours.p90 <= 4.0 && best.chance_by_deadline.unwrap() >= 0.89, "{:?}", best.hours);
            assert!(cheapest(set).unwrap().0 > vcpus.get());
        });
        with(LARGE, &by(0.21), |set| {
            assert!(set.recommendation.is_none() && !set.only_money);
            assert!(matches!(set.rejected[0].why, Rejection::Deadline { .. }), "{:?}", set.rejected[0]);
        });
        let poor = Limits { budget: Usd::from_dollars(0.01), ..Limits::default() };
        with(LARGE, &poor, |set| assert!(set.recommendation.is_none() && set.only_money));
    }

    #[test]
    fn what_is_lost_with_a_machine_is_its_shard() {
        let spot = within(OfferFilter { purchase: PurchaseChoice::Spot, ..OfferFilter::default() });
        let stretch = std::cell::Cell::new(0.0);
        with(LARGE, &spot, |set| stretch.set(set.recommendation.as_ref().unwrap().losses.unwrap().stretch));
        with(&LARGE.replace("writes", "shard = \"4h\"\nwrites"), &spot, |set| {
            let losses = set.recommendation.as_ref().unwrap().losses.unwrap();
            assert!(losses.stretch > stretch.get() && stretch.get() > 1.0, "{losses:?}");
        });
        let firm = within(OfferFilter { purchase: PurchaseChoice::OnDemand, ..OfferFilter::default() });
        with(LARGE, &firm, |set| assert!(set.recommendation.as_ref().unwrap().losses.is_none()));
    }

    #[test]
    fn samples_that_leave_their_cloud_are_paid_for() {
        let elsewhere = within(OfferFilter { clouds: vec![CloudId::new("aws")], ..OfferFilter::default() });
        with(LARGE, &elsewhere, |set| {
            let best = set.recommendation.as_ref().unwrap();
            let egress = best.bill.lines.iter().find(|line| line.item == BillItem::Egress).unwrap();
            // 15 TB at more than 5 cents a GB.
            assert!(egress.cost.dollars() > 750.0);
        });
        with(LARGE, &Limits::default(), |set| {
            assert_eq!(set.recommendation.as_ref().unwrap().on.region(), "gcp/us-central1");
        });
        // Leaving a region of the same cloud costs money too; without a region for the samples it is not counted.
        let (clouds, regions) = (vec![CloudId::new("gcp")], vec!["us-west1".to_owned()]);
        let oregon = within(OfferFilter { clouds, regions, ..OfferFilter::default() });
        let egress = |set: &ProcessingSet| {
            set.recommendation.as_ref().unwrap().bill.lines.iter().any(|line| line.item == BillItem::Egress)
        };
        with(LARGE, &oregon, |set| {
            let is_upper_bound = |reason: &Reason| matches!(reason, Reason::EgressAsToInternet { .. });
            assert!(egress(set) && set.reasons.iter().any(is_upper_bound));
        });
        with(&LARGE.replace("gcp/us-central1", "gcp"), &oregon, |set| assert!(!egress(set)));
    }
}
