//! `ProcessingRecord`: one plan of a plan document for work without GPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::plans::RecordedPlan;
use crate::document::reading::{Misread, read};
use crate::document::record::Explanation;
use crate::document::record::cost::BillLineRecord;
use crate::document::record::machines::{PriceRecord, PurchaseTerms};
use crate::document::record::run::WaitRecord;
use crate::document::view::PlanView;
use crate::document::words::Words;
use crate::explanation::Reason;
use crate::money::bill::Basis;
use crate::processing::answer::{Losses, ProcessingPlan};
use gpuplan_estimate::processing::WorkBound;
use gpuplan_units::{Band, Hours, Quantiles, Seconds, Usd, UsdPerHour};

/// So many machines that process data, with what they take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessingRecord {
    /// Identity of the plan, stable between runs: place, machine, count, terms.
    pub id: String,
    /// What is rented.
    #[serde(flatten)]
    pub machines: ProcessingMachines,
    /// Where the rate comes from and how old it is.
    pub price: PriceRecord,
    /// How long the samples take.
    #[serde(flatten)]
    pub work: ProcessingWork,
    /// For machines that may be taken back.
    #[serde(default)]
    pub losses: Option<LossesRecord>,
    /// Fields of a plan with GPUs that have no meaning here; always `null`.
    #[serde(flatten)]
    pub without: WithoutGpu,
    /// Nobody publishes it.
    #[serde(default)]
    pub wait_hours: WaitRecord,
    /// Hours from the request to the last result.
    pub run_hours: Quantiles<f64>,
    /// Of the whole work.
    pub cost_usd: Quantiles<Usd>,
    /// Lines that add up to `cost_usd.expected` to the nano-dollar.
    pub bill: Vec<BillLineRecord>,
    /// `null`: no deadline was given.
    #[serde(default)]
    pub chance_by_deadline: Option<f64>,
    /// Why it was chosen.
    #[serde(flatten)]
    pub explanation: Explanation,
}

/// Machines of one type in one place on some terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessingMachines {
    /// Name of the cloud, such as `aws`.
    pub cloud: String,
    /// The cloud's name of the region.
    pub region: String,
    /// Id of the zone, where prices differ by zone.
    #[serde(default)]
    pub zone_id: Option<String>,
    /// The cloud's name of the machine.
    pub instance_type: String,
    /// Id of the GPU that stands idle; `null` of machines without GPU.
    pub gpu: Option<String>,
    /// 0 of machines without GPU; `null` where GPUs stand idle.
    pub gpus_per_node: Option<u32>,
    /// vCPUs of one machine.
    pub vcpus_per_node: u32,
    /// Machines.
    pub nodes: u32,
    /// The terms.
    pub purchase: PurchaseTerms,
    /// Of one machine.
    pub rate_usd_per_hour: UsdPerHour,
}

/// How long the samples take, and what bounds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessingWork {
    /// What takes longest.
    pub bound_by: WorkBound,
    /// Its parts.
    pub work: WorkRecord,
}

/// Parts of the work of one machine; the longest of them decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkRecord {
    /// All samples.
    pub seconds: Band,
    /// Cores alone that a machine is worth.
    pub cores_per_node: f64,
    /// On the cores.
    pub computing_seconds: Seconds,
    /// Reading samples.
    pub reading_seconds: Seconds,
    /// Writing results.
    pub writing_seconds: Seconds,
}

/// What it means that machines are taken back: the shard in hand is worked on again, by another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossesRecord {
    /// Mean time of a machine until it is lost.
    pub mean_hours_between: Hours,
    /// Mean time until there is another.
    pub mean_hours_without: Hours,
    /// Half a shard and the start of another machine.
    pub hours_each: Hours,
    /// Where the means come from.
    pub basis: String,
}

/// Fields of a plan with GPUs that have no meaning without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WithoutGpu {
    /// Always `null`.
    pub layout: (),
    /// Always `null`.
    pub gpu_utilization: (),
    /// Always `null`.
    pub checkpoint: (),
}

impl RecordedPlan for ProcessingRecord {
    fn view(&self) -> PlanView<'_> {
        let machines = &self.machines;
        PlanView {
            id: &self.id,
            cloud: &machines.cloud,
            region: &machines.region,
            zone_id: machines.zone_id.as_deref(),
            instance_type: &machines.instance_type,
            gpu: machines.gpu.as_deref(),
            gpus_per_node: machines.gpus_per_node.unwrap_or(0),
            nodes: machines.nodes,
            purchase: machines.purchase,
            rate: machines.rate_usd_per_hour,
            price: &self.price,
            bill: &self.bill,
            cost: self.cost_usd,
            hours: self.run_hours,
            estimated: self.work.work.seconds,
            has_steps: false,
            gpu_utilization: None,
            spot: None,
        }
    }

    fn misread(plan: &Value) -> Option<Misread> {
        read::<ProcessingMachines>(plan).err().or_else(|| read::<ProcessingWork>(plan).err())
    }
}

/// As the id of a plan with GPUs.
pub fn processing_id(plan: &ProcessingPlan) -> String {
    let on = &plan.on;
    let place = on.place.zone_id.as_deref().unwrap_or(&on.place.region);
    format!("{}/{place}/{}x{}/{}", on.host.cloud, on.host.name, plan.nodes, on.purchase.word())
}

impl ProcessingRecord {
    /// The record of a plan of the planner, and why it was chosen.
    pub(super) fn new(plan: &ProcessingPlan, reasons: &[Reason], words: &dyn Words) -> Self {
        let (on, work) = (&plan.on, &plan.work);
        Self {
            id: processing_id(plan),
            machines: ProcessingMachines::new(plan),
            price: PriceRecord {
                origin: on.quote.origin,
                observed_at: on.quote.observed_at,
                source: on.source.to_string(),
                stale: on.is_stale,
                suspect: on.suspicions.to_vec(),
            },
            work: ProcessingWork {
                bound_by: work.bound,
                work: WorkRecord {
                    seconds: work.seconds(),
                    cores_per_node: work.cores,
                    computing_seconds: Seconds(work.computing),
                    reading_seconds: Seconds(work.reading),
                    writing_seconds: Seconds(work.writing),
                },
            },
            losses: plan.losses.map(|losses| LossesRecord::new(losses, words)),
            without: WithoutGpu::default(),
            wait_hours: WaitRecord::default(),
            run_hours: plan.hours,
            cost_usd: plan.cost,
            bill: BillLineRecord::lines(&plan.bill, words),
            chance_by_deadline: plan.chance_by_deadline,
            explanation: Explanation::new(reasons, &[], words),
        }
    }
}

impl ProcessingMachines {
    fn new(plan: &ProcessingPlan) -> Self {
        let on = &plan.on;
        Self {
            cloud: on.host.cloud.to_string(),
            region: on.place.region.to_string(),
            zone_id: on.place.zone_id.as_ref().map(ToString::to_string),
            instance_type: on.host.name.to_string(),
            gpu: on.gpu.map(ToString::to_string),
            gpus_per_node: on.gpu.is_none().then_some(0),
            vcpus_per_node: on.host.vcpus,
            nodes: plan.nodes,
            purchase: on.purchase.into(),
            rate_usd_per_hour: on.quote.rate,
        }
    }
}

impl LossesRecord {
    fn new(losses: Losses, words: &dyn Words) -> Self {
        let basis = losses.evidence.map_or(Basis::LossRateOfGpuMachines, Basis::LossRate);
        Self {
            mean_hours_between: Hours(losses.up),
            mean_hours_without: Hours(losses.down),
            hours_each: Hours(losses.each),
            basis: words.basis(&basis),
        }
    }
}
