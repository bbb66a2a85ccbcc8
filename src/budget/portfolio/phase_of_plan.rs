//! What one phase of a recorded plan of several costs, with GPUs or without, and what data processing costs that is planned alone.

use serde_json::Value;

use crate::portfolio::planned::{
    Asked, PhaseCost, PhaseMachines, PlannedError, bill_lines, estimate_share, estimated, spot_share, unfit,
};
use crate::portfolio::shape::Shape;
use crate::portfolio::unit_costs::Work;
use gpuplan_plan::document::{AnyDocument, AnyPlan, DocumentError, ProcessingDocument, ProcessingRecord, stated};
use gpuplan_units::Quantiles;

impl PhaseCost {
    /// Of the phase of this name. What other clouds ask for it is not recorded.
    ///
    /// # Errors
    ///
    /// Where the document has no such phase or recommends nothing for it, or its bill does not add up.
    pub fn of_phase(document: &AnyDocument, name: &str) -> Result<Self, PlannedError> {
        let no_phase = || PlannedError::NoPhase(name.to_owned());
        let phases = document.phases().map(|all| all.phases.as_slice()).unwrap_or_default();
        let phase = phases.iter().find(|phase| phase.name == name).ok_or_else(no_phase)?;
        let file = document.workload_file()?.phase(name).map_err(|_| no_phase())?.file;
        let asked = Asked { work: Work::of_file(&file, None), file: stated(&file) };
        match phase.recommendation.as_ref().ok_or(DocumentError::NoRecommendation)? {
            AnyPlan::Gpu(plan) => Self::of_record(plan, asked),
            AnyPlan::Processing(plan) => Self::of_processing_record(plan, asked),
        }
    }

    /// Of data processing on machines without GPU.
    ///
    /// # Errors
    ///
    /// Where the document recommends nothing, or its bill does not add up.
    pub fn of_processing(document: &ProcessingDocument) -> Result<Self, PlannedError> {
        let asked = Asked { file: document.workload.file.clone(), work: Work::default() };
        Self::of_processing_record(document.plans.pick(None)?, asked)
    }

    fn of_processing_record(plan: &ProcessingRecord, asked: Asked) -> Result<Self, PlannedError> {
        let (machines, cost) = (&plan.machines, plan.cost_usd);
        let is_spot = machines.purchase.is_spot();
        let lines = bill_lines(&plan.id, &plan.bill, &plan.price, cost.expected)?;
        let Quantiles { expected, p50, p90 } = cost;
        let figures = Quantiles { expected: expected.dollars(), p50: p50.dollars(), p90: p90.dollars() };
        let shape = Shape::fit(figures).ok_or_else(|| unfit(&plan.id, cost))?;
        Ok(Self {
            estimate: estimated(&asked.file),
            plan: Some(plan.id.clone()),
            question: Value::Object(asked.file),
            machines: PhaseMachines {
                cloud: machines.cloud.clone(),
                region: Some(machines.region.clone()),
                zone_id: machines.zone_id.clone(),
                instance_type: Some(machines.instance_type.clone()),
                gpu: machines.gpu.clone(),
                gpus_per_node: machines.gpus_per_node.unwrap_or(0),
                nodes: machines.nodes,
                purchase: machines.purchase.word().to_owned(),
            },
            hours: plan.run_hours,
            cost,
            on_demand: None,
            spot_share: spot_share(&lines, is_spot, cost.expected),
            lines,
            estimate_share: estimate_share(plan.work.work.seconds, is_spot, &shape),
            shape,
            elsewhere: Vec::new(),
            work: asked.work,
            gpu_utilization: None,
            terms: Vec::new(),
            held: Vec::new(),
        })
    }
}
