//! `PlanRecord`: one plan of a plan document, with its machines, price, layout, step, time and cost.

pub mod cost;
pub mod energy;
pub mod input;
pub mod machines;
pub mod run;
pub mod serving;
pub mod spot;
pub mod step;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::candidate::{Plan, plan_id};
use crate::document::context::Context;
use crate::document::plans::RecordedPlan;
use crate::document::reading::{Misread, optional_group, read};
use crate::document::remark::{Remark, sentences};
use crate::document::view::PlanView;
use crate::document::words::Words;
use crate::explanation::{Advice, Reason};
use crate::limits::QuotaRoom;
use cost::CostRecord;
use energy::EnergyRecord;
use machines::{MachinesRecord, PriceRecord};
use run::{CheckpointRecord, StagingRecord, SweepRecord, TimeRecord};
use serving::ServingRecord;
use spot::SpotRecord;
use step::{LayoutRecord, StepRecord};

/// A way to carry out the workload: machines, how the model is spread over them, how long it takes and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRecord {
    /// Identity of the plan, stable between runs: place, machine, count, terms.
    pub id: String,
    /// What is rented.
    #[serde(flatten)]
    pub machines: MachinesRecord,
    /// Where the rate comes from and how old it is.
    pub price: PriceRecord,
    /// How the model is spread over the GPUs.
    pub layout: LayoutRecord,
    /// One step of the training, or one pass of a served model.
    #[serde(flatten)]
    pub step: StepRecord,
    /// The whole run.
    #[serde(flatten)]
    pub time: TimeRecord,
    /// What it costs.
    #[serde(flatten)]
    pub cost: CostRecord,
    /// Electricity of the machines, and what it emits; absent in plans of before it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyRecord>,
    /// `null`: no deadline was given.
    #[serde(default)]
    pub chance_by_deadline: Option<f64>,
    /// What is known of the account's room for its machines, as the cloud last said it to `gpuplan doctor`.
    #[serde(default)]
    pub quota: QuotaRoom,
    /// For spot machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot: Option<SpotRecord>,
    /// For a model that answers requests.
    #[serde(flatten, deserialize_with = "optional_group")]
    pub serving: Option<ServingRecord>,
    /// `null` for a service, which saves nothing.
    #[serde(default)]
    pub checkpoint: Option<CheckpointRecord>,
    /// Bringing the data to each new machine, where a launch does that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging: Option<StagingRecord>,
    /// For a sweep: how a machine carries its runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepRecord>,
    /// Why it was chosen, and how to run it well.
    #[serde(flatten)]
    pub explanation: Explanation,
}

/// Sentences about one plan, and the same with figures in the same order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Explanation {
    /// Why it was chosen; of the recommended plan.
    pub because: Vec<String>,
    /// `because` with figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Remark>,
    /// How to run it well.
    pub advice: Vec<String>,
    /// `advice` with figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Remark>,
}

impl PlanRecord {
    /// GPUs of all machines.
    pub fn gpus(&self) -> u64 {
        u64::from(self.machines.nodes) * u64::from(self.machines.gpus_per_node)
    }
}

impl RecordedPlan for PlanRecord {
    fn view(&self) -> PlanView<'_> {
        let machines = &self.machines;
        PlanView {
            id: &self.id,
            cloud: &machines.cloud,
            region: &machines.region,
            zone_id: machines.zone_id.as_deref(),
            instance_type: &machines.instance_type,
            gpu: Some(&machines.gpu),
            gpus_per_node: machines.gpus_per_node,
            nodes: machines.nodes,
            purchase: machines.purchase,
            rate: machines.rate_usd_per_hour,
            price: &self.price,
            bill: &self.cost.bill,
            cost: self.cost.cost_usd,
            hours: self.time.run_hours,
            estimated: self.step.step_seconds,
            has_steps: true,
            gpu_utilization: Some(self.step.gpu_utilization.expected),
            spot: self.spot.as_ref(),
        }
    }

    fn misread(plan: &Value) -> Option<Misread> {
        let groups = [
            read::<MachinesRecord>(plan).err(),
            read::<StepRecord>(plan).err(),
            read::<TimeRecord>(plan).err(),
            read::<CostRecord>(plan).err(),
            read::<Explanation>(plan).err(),
        ];
        groups.into_iter().flatten().next()
    }
}

impl PlanRecord {
    /// The record of a plan of the planner.
    pub fn new(plan: &Plan, context: &Context) -> Self {
        let (world, workload) = (context.world, context.workload);
        Self {
            id: plan_id(world, plan),
            machines: MachinesRecord::new(plan, world),
            price: PriceRecord::new(plan, world, context.now),
            layout: LayoutRecord::new(plan, context),
            step: StepRecord::new(plan, context),
            time: TimeRecord::new(plan),
            cost: CostRecord::new(plan, context.words),
            energy: Some(EnergyRecord::new(plan, world)),
            chance_by_deadline: plan.chance_by_deadline,
            quota: plan.quota.clone(),
            spot: plan.spot.as_ref().and_then(|spot| SpotRecord::new(spot, world, context.words)),
            serving: ServingRecord::new(plan, context),
            checkpoint: (!workload.is_service()).then(|| CheckpointRecord::new(&plan.run.saving)),
            staging: plan.run.staging.map(|staging| StagingRecord::new(staging, context.words)),
            sweep: workload.sweep.map(|sweep| SweepRecord::new(&sweep, plan)),
            explanation: Explanation::new(&plan.reasons, &plan.advice, context.words),
        }
    }
}

impl Explanation {
    pub(super) fn new(reasons: &[Reason], advice: &[Advice], words: &dyn Words) -> Self {
        let reasons: Vec<Remark> = reasons.iter().map(|one| Remark::new(one, words.reason(one))).collect();
        let suggestions: Vec<Remark> = advice.iter().map(|one| Remark::new(one, words.advice(one))).collect();
        Self { because: sentences(&reasons), reasons, advice: sentences(&suggestions), suggestions }
    }
}
