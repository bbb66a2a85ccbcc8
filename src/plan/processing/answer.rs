//! A plan for work without GPU, and the whole answer.

use jiff::Timestamp;

use crate::explanation::{Reason, Rejected, Warning};
use crate::money::bill::Bill;
use crate::money::validity::fresh_until;
use crate::processing::machines::Rented;
use gpuplan_estimate::processing::Work;
use gpuplan_units::{Quantiles, Usd};

/// So many machines of one offer, with what they take.
#[derive(Clone, Debug)]
pub struct ProcessingPlan<'a> {
    pub on: Rented<'a>,
    pub nodes: u32,
    pub work: Work,
    /// Wall clock from the request to the last result. Hours.
    pub hours: Quantiles<f64>,
    pub cost: Quantiles<Usd>,
    pub bill: Bill,
    /// `None`: no deadline was given.
    pub chance_by_deadline: Option<f64>,
    /// For machines that may be taken back.
    pub losses: Option<Losses>,
}

/// What it means that machines are taken back: the shard in hand is worked on again, by another machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    /// Mean time of a machine until it is lost, and until there is another. Hours.
    pub up: f64,
    pub down: f64,
    /// What that rests on; `None`: nothing is known of machines without GPU, so it is as of those with.
    pub evidence: Option<&'static str>,
    /// Half a shard and the start of another machine. Hours.
    pub each: f64,
    /// Paid hours over undisturbed ones.
    pub stretch: f64,
}

/// Everything that an answer needs.
#[derive(Clone, Debug, Default)]
pub struct ProcessingSet<'a> {
    pub recommendation: Option<ProcessingPlan<'a>>,
    /// Nothing else is both cheaper and faster; cheapest first.
    pub frontier: Vec<ProcessingPlan<'a>>,
    /// The best on each machine type that is not on the frontier, cheapest first.
    pub alternatives: Vec<ProcessingPlan<'a>>,
    /// The same work on the CPUs of machines with GPUs, whose GPUs stand idle.
    pub on_gpu_machines: Option<ProcessingPlan<'a>>,
    pub rejected: Vec<Rejected>,
    pub only_money: bool,
    pub offers: usize,
    pub candidates: usize,
    /// Why the recommended one.
    pub reasons: Vec<Reason>,
    /// What to know beside the plans.
    pub warnings: Vec<Warning>,
}

impl ProcessingPlan<'_> {
    /// As of a plan with GPUs: the last moment at which its price is fresh.
    pub fn valid_until(&self) -> Timestamp {
        fresh_until(self.on.purchase, &self.on.quote)
    }
}
