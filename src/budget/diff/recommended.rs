//! What a plan document recommends: one plan, or one for each phase of its workload, with GPUs or without.

use gpuplan_plan::document::{
    AnyDocument, AnyPlan, BillLineRecord, DocumentError, PlanRecord, PriceRecord, ProcessingRecord,
};
use gpuplan_units::{Quantiles, Usd, UsdPerHour};

/// One recommended plan, as far as two of them are compared.
pub struct Recommended<'a> {
    /// Empty where the workload has no phases.
    pub phase: &'a str,
    pub id: &'a str,
    pub cloud: &'a str,
    pub region: &'a str,
    pub zone_id: Option<&'a str>,
    pub instance_type: &'a str,
    pub gpu: Option<&'a str>,
    pub gpus_per_node: u32,
    pub nodes: u32,
    pub purchase: &'static str,
    pub rate: UsdPerHour,
    pub price: &'a PriceRecord,
    pub bill: &'a [BillLineRecord],
    pub cost: Quantiles<Usd>,
    pub hours: Quantiles<f64>,
    /// Expected seconds of a step; `None`: there are no steps.
    pub step: Option<f64>,
}

impl Recommended<'_> {
    /// A sentence about this plan: with its phase before it where there are several.
    pub fn said(&self, sentence: String) -> String {
        if self.phase.is_empty() { sentence } else { format!("{}: {sentence}", self.phase) }
    }
}

/// All that a document recommends, in the order of its phases.
///
/// # Errors
///
/// Where it recommends nothing, or nothing for one of its phases.
pub fn recommended(document: &AnyDocument) -> Result<Vec<Recommended<'_>>, DocumentError> {
    if let Some(all) = document.phases() {
        return all
            .phases
            .iter()
            .map(|phase| match phase.recommendation.as_ref().ok_or(DocumentError::NoRecommendation)? {
                AnyPlan::Gpu(plan) => Ok(on_gpus(&phase.name, plan)),
                AnyPlan::Processing(plan) => Ok(on_processors(&phase.name, plan)),
            })
            .collect();
    }
    Ok(vec![match document {
        AnyDocument::Gpu(document) => on_gpus("", document.pick(None)?),
        AnyDocument::Processing(document) => on_processors("", document.plans.pick(None)?),
    }])
}

fn on_gpus<'a>(phase: &'a str, plan: &'a PlanRecord) -> Recommended<'a> {
    let machines = &plan.machines;
    Recommended {
        phase,
        id: &plan.id,
        cloud: &machines.cloud,
        region: &machines.region,
        zone_id: machines.zone_id.as_deref(),
        instance_type: &machines.instance_type,
        gpu: Some(&machines.gpu),
        gpus_per_node: machines.gpus_per_node,
        nodes: machines.nodes,
        purchase: machines.purchase.word(),
        rate: machines.rate_usd_per_hour,
        price: &plan.price,
        bill: &plan.cost.bill,
        cost: plan.cost.cost_usd,
        hours: plan.time.run_hours,
        step: Some(plan.step.step_seconds.expected),
    }
}

fn on_processors<'a>(phase: &'a str, plan: &'a ProcessingRecord) -> Recommended<'a> {
    let machines = &plan.machines;
    Recommended {
        phase,
        id: &plan.id,
        cloud: &machines.cloud,
        region: &machines.region,
        zone_id: machines.zone_id.as_deref(),
        instance_type: &machines.instance_type,
        gpu: machines.gpu.as_deref(),
        gpus_per_node: machines.gpus_per_node.unwrap_or(0),
        nodes: machines.nodes,
        purchase: machines.purchase.word(),
        rate: machines.rate_usd_per_hour,
        price: &plan.price,
        bill: &plan.bill,
        cost: plan.cost_usd,
        hours: plan.run_hours,
        step: None,
    }
}
