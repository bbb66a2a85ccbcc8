//! `Plan`: one offer, a number of machines and a setting, with run time, bill and chance; and what it is before a price is looked at.

use std::sync::Arc;

use crate::context::World;
use crate::explanation::{Advice, Reason, Rejection};
use crate::input::fix::InputFix;
use crate::limits::QuotaRoom;
use crate::money::bill::Bill;
use crate::serving::standby::Standby;
use crate::spot::SpotForecast;
use crate::training::run::RunTime;
use gpuplan_estimate::StepEstimate;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{OfferId, Purchase};
use gpuplan_units::{Hours, Quantiles, Usd};

/// The best way to run on so many machines of one shape, before any price is looked at.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub nodes: u32,
    pub step: Result<StepEstimate, Rejection>,
}

/// A way to carry out the workload. Cheap to clone: the physics is shared.
#[derive(Clone, Debug)]
pub struct Plan {
    pub offer: OfferId,
    pub instance: InstanceId,
    pub nodes: u32,
    pub step: Arc<StepEstimate>,
    pub run: RunTime,
    pub bill: Bill,
    pub cost: Quantiles<Usd>,
    /// For machines that the user has already: the same run at what they cost whether used or not. `cost` is marginal cash.
    pub full_cost: Option<Usd>,
    /// `None`: no deadline was given.
    pub chance_by_deadline: Option<f64>,
    /// For spot machines: what may become of them, and what it rests on.
    pub spot: Option<Box<SpotForecast>>,
    /// What would feed its GPUs, where they wait for samples; of the recommended plan.
    pub input_fixes: Vec<InputFix>,
    /// For a service on spot machines: places, spare machines and what stands in.
    pub standby: Option<Box<Standby>>,
    /// What is known of the account's room for its machines; of plans that are shown.
    pub quota: QuotaRoom,
    /// Why it is recommended; of the recommended plan.
    pub reasons: Vec<Reason>,
    pub advice: Vec<Advice>,
}

impl Plan {
    /// Expected, from the request to the end.
    pub fn hours(&self) -> Hours {
        Hours(self.run.hours.expected)
    }

    /// Expected, of everything that is no work: starting and waiting for machines, interruptions and what they cost.
    pub fn wait_hours(&self) -> Hours {
        Hours((self.run.hours.expected - self.run.work.expected).max(0.0))
    }

    /// The JSON's `purchase`: a way to buy, of which the offer's are only a part where there is a fallback.
    pub fn terms(&self, offered: Purchase) -> &'static str {
        if self.falls_back() { "spot-with-fallback" } else { offered.word() }
    }

    /// On-demand machines take over from those on spot.
    pub fn falls_back(&self) -> bool {
        self.standby.is_some() || self.spot.as_ref().is_some_and(|spot| spot.fallback.is_some())
    }

    /// A plan on spot machines of which only the mean is known so far.
    pub fn needs_forecast(&self) -> bool {
        self.spot.as_ref().is_some_and(|spot| spot.forecast.is_none())
    }

    /// Runs for its hours and ends by nothing it does.
    pub fn is_service(&self) -> bool {
        self.step.served.is_some() && self.run.steps == 0.0
    }

    /// Those at work, of all runs that share the machine.
    pub fn gpus(&self) -> u32 {
        self.run.gpus
    }

    /// GPU-hours of undisturbed training.
    pub fn gpu_hours(&self) -> f64 {
        self.run.training.expected * f64::from(self.gpus())
    }

    /// Share of a step in which the GPUs do the model's work: neither waiting for launches, links, stages nor data.
    pub fn utilization(&self) -> f64 {
        let time = &self.step.time;
        let work = time.matmul + time.attention + time.elementwise + time.head + time.dequantise + time.optimizer;
        // A replica without a request waits for one.
        let requested = self.step.served.map_or(1.0, |served| served.batch.min(1.0));
        (work / time.total).min(1.0) * requested
    }

    /// Whether nothing is better in both cost and time.
    pub fn dominates(&self, other: &Self) -> bool {
        let (cost, hours) = (self.cost.expected, self.run.hours.expected);
        let (other_cost, other_hours) = (other.cost.expected, other.run.hours.expected);
        cost <= other_cost && hours <= other_hours && (cost < other_cost || hours < other_hours)
    }
}

/// Identity of a plan, stable between runs: place, machine, count, terms.
pub fn plan_id(world: World, plan: &Plan) -> String {
    let offer = world.market.offer(plan.offer);
    let instance = world.hardware.instance(plan.instance);
    let place = offer.place.zone_id.as_deref().unwrap_or(&offer.place.region);
    format!("{}/{}/{}x{}/{}", instance.cloud, place, instance.name, plan.nodes, plan.terms(offer.purchase))
}
