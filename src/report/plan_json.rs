//! A plan as JSON, contract section 3. Every figure carries origin, age or band.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::estimate::time_parts;
use crate::input::{InputJson, input_json};
use crate::sentences;
use crate::serving_json::{ServingJson, asked, serving_json};
use crate::spot_json::{SpotJson, WaitJson, spot_json, wait};
use gpuplan_estimate::{Machine, OwnRun, Subject, constants};
use gpuplan_market::{Origin, Suspicion};
use gpuplan_plan::choice::terms::Terms;
use gpuplan_plan::input::feeding::bound_word;
use gpuplan_plan::input::staging::Staging;
use gpuplan_plan::training::packing;
use gpuplan_plan::training::run::{Notice, Saving};
use gpuplan_plan::training::what_if::PricedFinding;
use gpuplan_plan::{BillLine, Plan, PlanSet, Rejected, RejectionReason, World, plan_id};
use gpuplan_units::{Band, GpuCount, Quantiles, Usd, UsdPerHour};
use gpuplan_workload::file::WorkloadFile;
use gpuplan_workload::profile::Finding;
use gpuplan_workload::{Assumption, Layout, Sweep, Workload};

/// What a plan was made from; `plan --locked` starts again from here.
#[derive(Clone, Debug, Serialize)]
pub struct Inputs {
    pub catalog_sha256: String,
    pub offers_sha256: String,
    pub constants_version: &'static str,
    /// Of the calibrations that corrected the estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_sha256: Option<String>,
    /// The user's own finished runs that the time goes by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_runs: Vec<OwnRun>,
    pub seed: u64,
}

/// Everything the JSON needs beside the plans.
#[derive(Clone)]
pub struct Context<'a> {
    pub world: World<'a>,
    pub workload: &'a Workload,
    /// As it was asked, flags included.
    pub file: &'a WorkloadFile,
    pub assumed: &'a [Assumption],
    pub now: Timestamp,
    pub catalog_sha256: String,
    pub offers_sha256: String,
    pub measured_sha256: Option<String>,
    pub seed: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct PlanJson {
    pub id: String,
    pub cloud: String,
    pub region: String,
    pub zone_id: Option<String>,
    pub instance_type: String,
    pub gpu: String,
    pub gpus_per_node: u32,
    pub nodes: u32,
    pub purchase: &'static str,
    pub rate_usd_per_hour: UsdPerHour,
    pub price: PriceJson,
    pub layout: LayoutJson,
    pub step_seconds: Band,
    /// Where the expected time goes, largest first; what is too small to see is left out.
    pub step_parts: Vec<StepPart>,
    pub tokens_per_second: Option<Band>,
    pub samples_per_second: Band,
    pub model_flop_utilization: f64,
    pub gpu_memory_bytes: Band,
    /// `compute`, `network` and the like; of input also which part, such as `input: cpu decode`.
    pub bound_by: String,
    pub gpu_utilization: Band,
    /// How the machines bring samples to the GPUs; absent where nobody could tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputJson>,
    pub wait_hours: WaitJson,
    pub run_hours: Quantiles<f64>,
    pub gpu_hours: f64,
    pub cost_usd: Quantiles<Usd>,
    /// For machines that the user has already, whose `cost_usd` is marginal cash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_cost_usd: Option<Usd>,
    pub bill: Vec<BillLineJson>,
    pub chance_by_deadline: Option<f64>,
    /// For spot machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot: Option<SpotJson>,
    /// For a model that is served.
    #[serde(flatten)]
    pub serving: Option<ServingJson>,
    /// `null` for a service, which saves nothing.
    pub checkpoint: Option<CheckpointJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staging: Option<StagingJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepJson>,
    pub because: Vec<String>,
    pub advice: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PriceJson {
    pub origin: Origin,
    pub observed_at: Timestamp,
    pub source: String,
    pub stale: bool,
    pub suspect: Vec<Suspicion>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LayoutJson {
    #[serde(flatten)]
    pub layout: Layout,
    pub micro_batch: u32,
    pub global_batch: f64,
    pub grad_accumulation: f64,
    pub recompute: gpuplan_workload::Recompute,
    pub label: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct StepPart {
    pub part: &'static str,
    pub seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct BillLineJson {
    pub item: &'static str,
    pub quantity: f64,
    pub unit: &'static str,
    pub unit_price_usd: Usd,
    pub cost_usd: Usd,
    pub basis: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct CheckpointJson {
    pub bytes: f64,
    pub interval_seconds: f64,
    pub upload_seconds: f64,
    pub stall_seconds: f64,
    /// For spot machines whose cloud warns before it takes them back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<NoticeJson>,
}

/// Bringing the data to each new machine.
#[derive(Clone, Debug, Serialize)]
pub struct StagingJson {
    pub bytes: f64,
    pub seconds: f64,
    pub bytes_per_second: f64,
    pub limit: &'static str,
}

/// How the machine carries the runs of a sweep. Figures of a step are those of one run; time and money are of all.
#[derive(Clone, Debug, Serialize)]
pub struct SweepJson {
    pub runs: u32,
    pub gpus_per_run: GpuCount,
    pub side_by_side: u32,
    /// Times that the machine is filled.
    pub rounds: u32,
    /// Undisturbed training of one run. Hours.
    pub run_hours: f64,
}

/// What a warning before an interruption is good for.
#[derive(Clone, Debug, Serialize)]
pub struct NoticeJson {
    pub seconds: f64,
    pub saves_bytes: f64,
    pub saves_all: bool,
}

/// The whole document.
pub fn document(set: &PlanSet, context: &Context) -> Value {
    let plan = |plan: &Plan| plan_json(plan, context);
    let inputs = Inputs {
        catalog_sha256: context.catalog_sha256.clone(),
        offers_sha256: context.offers_sha256.clone(),
        constants_version: &constants::Fitted::embedded().version,
        measured_sha256: context.measured_sha256.clone(),
        own_runs: context.world.correction.own_runs().map(|own| own.runs().to_vec()).unwrap_or_default(),
        seed: context.seed,
    };
    json!({
        "version": 1,
        "generated_at": context.now,
        // Past where a price was stale when the plan was made; `null` where nothing is recommended.
        "valid_until": set.recommendation.as_ref().map(|plan| plan.valid_until(context.world.market)),
        "inputs": inputs,
        "workload": workload_json(context),
        "limits": stated(&context.file.limits),
        "recommendation": set.recommendation.as_ref().map(plan),
        "frontier": set.frontier.iter().map(plan).collect::<Vec<_>>(),
        "alternatives": set.alternatives.iter().map(plan).collect::<Vec<_>>(),
        "terms": set.terms.iter().map(terms_json).collect::<Vec<_>>(),
        "rejected": set.rejected.iter().map(rejected_json).collect::<Vec<_>>(),
        "nearest": set.nearest.iter().map(rejected_json).collect::<Vec<_>>(),
        "counts": set.counts,
        "findings": set.findings.iter().map(finding_json).collect::<Vec<_>>(),
        "notes": set.warnings.iter().map(sentences::warning::sentence).collect::<Vec<_>>(),
    })
}

/// A line of `rejected`.
#[derive(Clone, Debug, Serialize)]
pub struct RejectedJson<'a> {
    what: &'a str,
    reason: RejectionReason,
    detail: String,
    nearest_fix: String,
    count: u64,
}

pub(super) fn rejected_json(rejected: &Rejected) -> RejectedJson<'_> {
    RejectedJson {
        what: &rejected.what,
        reason: rejected.why.reason(),
        detail: sentences::rejection::sentence(&rejected.why),
        nearest_fix: sentences::rejection::fix(&rejected.why),
        count: rejected.count,
    }
}

#[derive(Clone, Debug, Serialize)]
struct FindingJson<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    saves_usd: Option<Usd>,
    saves_hours: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_unpriced: Option<&'static str>,
}

fn finding_json(priced: &PricedFinding) -> FindingJson<'_> {
    let savings = priced.savings.ok();
    FindingJson {
        finding: &priced.finding,
        saves_usd: savings.map(|savings| savings.cost),
        saves_hours: savings.map(|savings| savings.hours.0),
        why_unpriced: priced.savings.err().map(sentences::finding::unpriced),
    }
}

fn terms_json(terms: &Terms) -> Value {
    match &terms.outcome {
        Ok(plan) => json!({
            "purchase": terms.purchase,
            "run_hours": plan.run.hours,
            "cost_usd": plan.cost,
            "chance_by_deadline": plan.chance_by_deadline,
            "bound_to_usd": terms.bound_to,
        }),
        Err(why) => json!({ "purchase": terms.purchase, "refused": sentences::rejection::sentence(why) }),
    }
}

/// What was asked and what was assumed; `file` alone is enough to ask again.
fn workload_json(context: &Context) -> Value {
    let workload = context.workload;
    json!({
        "name": workload.name,
        "model": workload.model.name,
        "parameters": workload.model.parameters,
        "task": workload.training.task,
        "precision": workload.training.precision,
        "sequence_length": workload.training.sequence_length,
        "global_batch": workload.training.global_batch,
        "serving": workload.serving.as_ref().map(asked),
        "assumed": sentences::assumption::sentences(context.assumed),
        "file": stated(context.file),
    })
}

/// What was said and nothing else: keys that nobody gave are left out.
pub fn stated(value: &impl Serialize) -> Value {
    fn strip(value: Value) -> Value {
        match value {
            Value::Object(map) => Value::Object(
                map.into_iter().filter(|(_, inner)| !inner.is_null()).map(|(key, inner)| (key, strip(inner))).collect(),
            ),
            other => other,
        }
    }
    strip(serde_json::to_value(value).expect("sections of a workload file have text keys"))
}

pub fn plan_json(plan: &Plan, context: &Context) -> PlanJson {
    let world = context.world;
    let offer = world.market.offer(plan.offer);
    let instance = world.hardware.instance(plan.instance);
    let gpu = world.hardware.gpu(instance.node.gpu);
    let setting = &plan.step.setting;
    let shape = packing::part(&instance.node, context.workload.sweep.as_ref())
        .expect("a plan is made only where a run has its part");
    let subject = Subject::new(&context.workload.model, &context.workload.training, Machine::new(gpu, &shape));
    let step = plan.step.step_seconds();
    let units = subject.units_per_step(setting);
    let counts_samples = context.workload.model.kind.counts_samples();
    let (low, high) = gpuplan_estimate::MemoryBreakdown::band(gpuplan_workload::Measure::Allocated);
    let flops = subject.model_flops_per_step(setting);
    PlanJson {
        id: plan_id(world, plan),
        cloud: instance.cloud.to_string(),
        region: offer.place.region.to_string(),
        zone_id: offer.place.zone_id.as_ref().map(ToString::to_string),
        instance_type: instance.name.clone(),
        gpu: gpu.id.clone(),
        gpus_per_node: instance.node.devices(),
        nodes: plan.nodes,
        purchase: plan.terms(offer.purchase),
        rate_usd_per_hour: offer.quote.rate,
        price: PriceJson {
            origin: offer.quote.origin,
            observed_at: offer.quote.observed_at,
            source: offer.source.to_string(),
            stale: offer.is_stale(context.now),
            suspect: offer.suspicions.clone(),
        },
        layout: LayoutJson {
            layout: setting.layout,
            micro_batch: setting.micro_batch,
            global_batch: setting.global_batch,
            grad_accumulation: setting.micro_steps(),
            recompute: setting.recompute,
            label: setting.layout.to_string(),
        },
        step_seconds: step,
        step_parts: time_parts(&plan.step.time).into_iter().map(|(part, seconds)| StepPart { part, seconds }).collect(),
        tokens_per_second: (!counts_samples).then(|| step.map_decreasing(|seconds| units / seconds)),
        samples_per_second: step.map_decreasing(|seconds| setting.global_batch / seconds),
        model_flop_utilization: flops / plan.step.time.total / f64::from(setting.gpus()) / subject.rates.peak,
        gpu_memory_bytes: Band::around(plan.step.memory.required, low, high),
        bound_by: bound_word(&plan.step),
        gpu_utilization: utilization(plan),
        input: input_json(plan, instance),
        wait_hours: wait(plan),
        run_hours: plan.run.hours,
        gpu_hours: plan.gpu_hours(),
        cost_usd: plan.cost,
        full_cost_usd: plan.full_cost,
        bill: plan.bill.lines.iter().map(bill_line).collect(),
        chance_by_deadline: plan.chance_by_deadline,
        spot: plan.spot.as_ref().and_then(|spot| spot_json(spot, world)),
        serving: serving_json(plan, context),
        checkpoint: (!context.workload.is_service()).then(|| checkpoint(&plan.run.saving)),
        staging: plan.run.staging.map(staging),
        sweep: context.workload.sweep.map(|sweep| sweep_json(&sweep, plan)),
        because: plan.reasons.iter().map(sentences::reason::sentence).collect(),
        advice: plan.advice.iter().map(sentences::advice::sentence).collect(),
    }
}

/// Useful share of a step; a slower step than expected is one with more waiting.
fn utilization(plan: &Plan) -> Band {
    let expected = plan.utilization();
    let step = plan.step.step_seconds();
    Band { low: expected * step.expected / step.high, expected, high: (expected * step.expected / step.low).min(1.0) }
}

fn checkpoint(saving: &Saving) -> CheckpointJson {
    let notice = |notice: Notice| NoticeJson {
        seconds: notice.seconds,
        saves_bytes: notice.saves.0,
        saves_all: notice.saves_all,
    };
    CheckpointJson {
        bytes: saving.bytes.0,
        interval_seconds: saving.interval_seconds,
        upload_seconds: saving.upload_seconds,
        stall_seconds: saving.stall_seconds,
        notice: saving.notice.map(notice),
    }
}

fn sweep_json(sweep: &Sweep, plan: &Plan) -> SweepJson {
    let packing = plan.run.packing;
    SweepJson {
        runs: sweep.runs,
        gpus_per_run: sweep.gpus_per_run,
        side_by_side: packing.side_by_side,
        rounds: packing.rounds(),
        run_hours: plan.run.training.expected / f64::from(packing.rounds()),
    }
}

fn staging(staging: Staging) -> StagingJson {
    let Staging { bytes, bytes_per_second, limit, .. } = staging;
    let limit = sentences::input::staging_limit(limit);
    StagingJson { bytes: bytes.0, seconds: staging.seconds().0, bytes_per_second, limit }
}

pub(super) fn bill_line(line: &BillLine) -> BillLineJson {
    BillLineJson {
        item: line.item.label(),
        quantity: line.quantity,
        unit: line.unit,
        unit_price_usd: line.unit_price,
        cost_usd: line.cost,
        basis: sentences::bill::basis(&line.basis),
    }
}
