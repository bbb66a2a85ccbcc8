//! `PlanView`: one plan of a document by what plans with GPUs and data processing have in common, for whoever compares or adds up plans.

use crate::document::record::cost::BillLineRecord;
use crate::document::record::machines::{PriceRecord, PurchaseTerms};
use crate::document::record::spot::SpotRecord;
use gpuplan_units::{Band, Quantiles, Usd, UsdPerHour};

/// One plan, with GPUs or without.
#[derive(Clone, Copy, Debug)]
pub struct PlanView<'a> {
    /// Place, machine, count and terms; stable between runs.
    pub id: &'a str,
    /// Name of the cloud, such as `aws`.
    pub cloud: &'a str,
    /// The cloud's name of the region.
    pub region: &'a str,
    /// Where prices differ by zone.
    pub zone_id: Option<&'a str>,
    /// The cloud's name of the machine.
    pub instance_type: &'a str,
    /// `None`: machines without GPU.
    pub gpu: Option<&'a str>,
    /// 0 where the machines have none, or theirs stand idle.
    pub gpus_per_node: u32,
    /// Machines.
    pub nodes: u32,
    /// The terms.
    pub purchase: PurchaseTerms,
    /// Of one machine.
    pub rate: UsdPerHour,
    /// Where the rate comes from and how old it is.
    pub price: &'a PriceRecord,
    /// Lines that add up to the expected cost.
    pub bill: &'a [BillLineRecord],
    /// Of the whole work.
    pub cost: Quantiles<Usd>,
    /// From the request to the result.
    pub hours: Quantiles<f64>,
    /// Seconds that were estimated: of a step, or of all the work where there are no steps.
    pub estimated: Band,
    /// Whether that is of a step.
    pub has_steps: bool,
    /// Share of a step in which the GPUs do the model's work; `None`: there are no steps.
    pub gpu_utilization: Option<f64>,
    /// Of spot machines whose past was replayed.
    pub spot: Option<&'a SpotRecord>,
}

/// What a document recommends: one plan, or one for each phase of its workload.
#[derive(Clone, Copy, Debug)]
pub struct Recommended<'a> {
    /// Empty where the workload has no phases.
    pub phase: &'a str,
    /// The plan.
    pub plan: PlanView<'a>,
}
