//! `PhaseCost`: what doing a phase one time costs, from a recorded plan or from stated rates, with all that a line of a budget says.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::Item;
use crate::portfolio::Rate;
use crate::portfolio::shape::Shape;
use crate::portfolio::simulation::AVAILABILITY_IN_COMMON;
use crate::portfolio::unit_costs::Work;
use gpuplan_market::capacity::pool::Pool;
use gpuplan_plan::document::{
    BillLineRecord, DocumentError, PlanDocument, PlanView, PriceRecord, RecordedPlan, TermsRecord,
};
use gpuplan_plan::money::bill::BillItem;
use gpuplan_plan::normal::NORMAL_90;
use gpuplan_units::{Band, Quantiles, Usd, UsdPerHour};

/// Why a recorded plan is no ground for a budget.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlannedError {
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("it has no phase `{0}` that can be asked again")]
    NoPhase(String),
    #[error("the bill of `{id}` adds up to ${bill} and not to ${expected}")]
    Unbalanced { id: String, bill: Usd, expected: Usd },
    #[error("`{id}` costs ${expected} with a median of ${p50} and a 90th percentile of ${p90}, which no run does")]
    Unfit { id: String, expected: Usd, p50: Usd, p90: Usd },
}

/// One time of a phase.
#[derive(Clone, Debug)]
pub struct PhaseCost {
    /// The same for runs that share an estimate, and so its error.
    pub estimate: String,
    pub plan: Option<String>,
    /// What was asked, as a workload file says it; nothing for stated rates.
    pub question: Value,
    pub machines: PhaseMachines,
    pub hours: Quantiles<f64>,
    pub cost: Quantiles<Usd>,
    pub lines: Vec<PhaseCostLine>,
    /// What was estimated of it: the seconds of a step, or all of the work; of stated rates their hours.
    pub estimated: Band,
    pub shape: Shape,
    /// Share of the spread that the estimate of the step explains; the rest is what happens to the run.
    pub estimate_share: f64,
    /// Share of the cost that is paid at a spot price.
    pub spot_share: f64,
    /// Of one of its machines on demand, where it is on spot and that is known: its list price.
    pub on_demand: Option<UsdPerHour>,
    pub elsewhere: Vec<OtherCloud>,
    /// What one time does, as far as its workload says.
    pub work: Work,
    /// Share of a step in which the GPUs do the model's work; `None` for stated rates.
    pub gpu_utilization: Option<f64>,
    /// The same machines on every way to buy them.
    pub terms: Vec<TermsRecord>,
    /// The same work on machines that are held already, one for each pool that can do it.
    pub held: Vec<HeldPlan>,
}

/// The machines of a phase; what stated rates leave open is `None`.
#[derive(Clone, Debug)]
pub struct PhaseMachines {
    pub cloud: String,
    pub region: Option<String>,
    pub zone_id: Option<String>,
    pub instance_type: Option<String>,
    pub gpu: Option<String>,
    pub gpus_per_node: u32,
    pub nodes: u32,
    /// `on-demand`, `spot` and so on, as a plan has it.
    pub purchase: String,
}

#[derive(Clone, Debug)]
pub struct PhaseCostLine {
    pub item: Item,
    pub quantity: f64,
    pub unit: String,
    pub unit_price: Usd,
    pub cost: Usd,
    pub source: String,
    pub priced_at: Option<Timestamp>,
    pub assumption: String,
}

/// The same work on another cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherCloud {
    pub plan: String,
    pub cloud: String,
    pub hours: Quantiles<f64>,
    pub cost: Quantiles<Usd>,
    /// Part of the variance that its repeats share: the estimate, and on spot the market of the month.
    pub in_common: f64,
}

/// One time of a phase on machines of a pool.
#[derive(Clone, Debug)]
pub struct HeldPlan {
    /// Of the pools of the portfolio.
    pub pool: usize,
    pub machines: PhaseMachines,
    /// From begin to end.
    pub hours: Quantiles<f64>,
    /// Of all its machines together.
    pub machine_hours: f64,
    /// Besides the machines.
    pub lines: Vec<PhaseCostLine>,
    /// Of its hours.
    pub shape: Shape,
}

/// Repeats of a phase that take machines of a pool; the others rent the next best offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Of `PhaseCost::held`.
    pub held: usize,
    pub repeats: u32,
}

/// What was asked of one time of a phase.
pub(super) struct Asked {
    pub(super) file: Map<String, Value>,
    pub(super) work: Work,
}

impl PhaseCost {
    /// From a recorded answer.
    pub fn of_plan(document: &PlanDocument, id: Option<&str>) -> Result<Self, PlannedError> {
        let plan = document.pick(id)?;
        let asked = Asked { file: document.workload.file.clone(), work: Work::from_workload(&document.workload) };
        let is_recommended = document.plans.recommendation.as_ref().is_some_and(|best| best.id == plan.id);
        Ok(Self {
            elsewhere: document
                .plans
                .on_other_clouds(plan)
                .into_iter()
                .map(|plan| OtherCloud::from_plan(&plan.view()))
                .collect(),
            // Terms are those of the recommended machines.
            terms: if is_recommended { document.terms.clone() } else { Vec::new() },
            ..Self::of_view(&plan.view(), asked)?
        })
    }

    /// From a recorded plan alone, with GPUs or without, and with nothing beside it.
    pub(super) fn of_view(plan: &PlanView, asked: Asked) -> Result<Self, PlannedError> {
        let is_spot = plan.purchase.is_spot();
        let lines = bill_lines(plan)?;
        let Quantiles { expected, p50, p90 } = plan.cost;
        let shape = shape(plan).ok_or_else(|| PlannedError::Unfit { id: plan.id.to_owned(), expected, p50, p90 })?;
        Ok(Self {
            estimate: estimated(&asked.file),
            plan: Some(plan.id.to_owned()),
            question: Value::Object(asked.file),
            machines: PhaseMachines {
                cloud: plan.cloud.to_owned(),
                region: Some(plan.region.to_owned()),
                zone_id: plan.zone_id.map(str::to_owned),
                instance_type: Some(plan.instance_type.to_owned()),
                gpu: plan.gpu.map(str::to_owned),
                gpus_per_node: plan.gpus_per_node,
                nodes: plan.nodes,
                purchase: plan.purchase.word().to_owned(),
            },
            hours: plan.hours,
            cost: plan.cost,
            on_demand: None,
            spot_share: spot_share(&lines, is_spot, expected),
            lines,
            estimated: plan.estimated,
            estimate_share: estimate_share(plan.estimated, is_spot, &shape),
            shape,
            elsewhere: Vec::new(),
            work: asked.work,
            gpu_utilization: plan.gpu_utilization,
            terms: Vec::new(),
            held: Vec::new(),
        })
    }

    /// From what somebody states; its hours may be as far below as above. `None`: beyond counting, or no distribution.
    pub fn of_rate(rate: &Rate) -> Option<Self> {
        let cost = |hours: f64| rate.usd_per_hour.for_hours(1, hours * f64::from(rate.nodes));
        let (expected, p90) = (cost(rate.hours.0)?, cost(rate.hours_p90.0)?);
        let is_spot = rate.purchase.starts_with("spot");
        let estimated = Band {
            // In this order, so that hours without a spread have none: h * h / h may be more than h.
            low: rate.hours.0 * (rate.hours.0 / rate.hours_p90.0),
            expected: rate.hours.0,
            high: rate.hours_p90.0,
        };
        let figures = Quantiles { expected: expected.dollars(), p50: expected.dollars(), p90: p90.dollars() };
        let line = PhaseCostLine {
            item: Item::Machines,
            quantity: rate.hours.0 * f64::from(rate.nodes),
            unit: MACHINE_HOUR.to_owned(),
            unit_price: rate.usd_per_hour.times(1),
            cost: expected,
            source: rate.source.clone(),
            priced_at: Some(rate.as_of),
            assumption: "hours and rate are stated in the portfolio".to_owned(),
        };
        Some(Self {
            estimate: String::new(),
            plan: None,
            question: Value::Null,
            machines: PhaseMachines {
                cloud: rate.cloud.clone(),
                region: rate.region.clone(),
                zone_id: None,
                instance_type: rate.instance_type.clone(),
                gpu: rate.gpu.clone(),
                gpus_per_node: rate.gpus_per_node,
                nodes: rate.nodes,
                purchase: rate.purchase.clone(),
            },
            hours: Quantiles { expected: rate.hours.0, p50: rate.hours.0, p90: rate.hours_p90.0 },
            cost: Quantiles { expected, p50: expected, p90 },
            lines: vec![line],
            estimated,
            shape: Shape::banded(figures, estimated)?,
            estimate_share: 0.0,
            spot_share: f64::from(u8::from(is_spot)),
            on_demand: None,
            elsewhere: Vec::new(),
            work: Work::default(),
            gpu_utilization: None,
            terms: Vec::new(),
            held: Vec::new(),
        })
    }

    pub fn is_spot(&self) -> bool {
        self.machines.purchase.starts_with("spot")
    }

    /// Where spot prices move together.
    pub fn pool(&self) -> String {
        let PhaseMachines { cloud, region, zone_id, instance_type, .. } = &self.machines;
        let parts = [Some(cloud), region.as_ref(), zone_id.as_ref(), instance_type.as_ref()];
        parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

impl HeldPlan {
    /// From the plan of a phase on machines of this pool alone. `None`: no distribution has its hours.
    pub fn of_plan(pool: usize, once: PhaseCost) -> Option<Self> {
        let is_time =
            |line: &PhaseCostLine| matches!(line.item, Item::Machines | Item::LostWork) && line.unit == MACHINE_HOUR;
        let (time, lines): (Vec<_>, Vec<_>) = once.lines.into_iter().partition(is_time);
        Some(Self {
            pool,
            machine_hours: time.iter().map(|line| line.quantity).sum(),
            shape: Shape::banded(once.hours, once.estimated)?,
            machines: once.machines,
            hours: once.hours,
            lines,
        })
    }

    /// The same machines as a phase would rent on demand. `None`: it is for others.
    pub fn of_the_same(pool: usize, held: &Pool, once: &PhaseCost) -> Option<Self> {
        let machines = &once.machines;
        let is_same = machines.purchase == "on-demand"
            && machines.cloud == held.cloud
            && machines.instance_type.as_ref() == Some(&held.instance_type)
            && (machines.region.is_none() || machines.region == held.region)
            && machines.nodes <= held.nodes;
        is_same.then(|| Self::of_plan(pool, once.clone())).flatten()
    }

    /// Cash of one time: what using the machines costs beside what is paid anyway, and everything else. Dollars.
    pub fn cash(&self, pool: &Pool) -> f64 {
        pool.marginal.dollars() * self.machine_hours + self.lines.iter().map(|line| line.cost.dollars()).sum::<f64>()
    }
}

/// What an estimate is of: the workload as it is asked, by its content and not by the name of its file, and whatever limits were set. A
/// copy of a file has the same error.
fn estimated(file: &Map<String, Value>) -> String {
    let mut asked = file.clone();
    asked.remove("limits");
    asked.remove("name");
    Value::Object(asked).to_string()
}

/// Unit of machine time on a bill.
pub const MACHINE_HOUR: &str = "machine-hour";

impl OtherCloud {
    /// One of the plans that a document shows for the same question.
    pub(super) fn from_plan(plan: &PlanView) -> Self {
        Self {
            plan: plan.id.to_owned(),
            cloud: plan.cloud.to_owned(),
            hours: plan.hours,
            cost: plan.cost,
            in_common: variance_in_common(plan),
        }
    }
}

/// By the replays of its machines, where the document has them, with everything else beside; through its median and its band otherwise.
fn shape(plan: &PlanView) -> Option<Shape> {
    let Quantiles { expected, p50, p90 } = plan.cost;
    let figures = Quantiles { expected: expected.dollars(), p50: p50.dollars(), p90: p90.dollars() };
    let replayed = plan.spot.and_then(|spot| {
        let costs: Vec<f64> = spot.cost_quantiles_usd.iter().map(|cost| cost.dollars()).collect();
        let beside = figures.expected - costs.iter().sum::<f64>() / costs.len().max(1) as f64;
        let whole: Vec<f64> = costs.iter().map(|cost| cost + beside).collect();
        Shape::replayed(&whole, figures)
    });
    replayed.or_else(|| Shape::banded(figures, plan.estimated))
}

/// Only where spot is in it does anything but the estimate, of a step or of all the work, move a plan.
fn estimate_share(estimated: Band, is_spot: bool, shape: &Shape) -> f64 {
    let of_estimate = (estimated.high / estimated.expected).ln() / NORMAL_90;
    let is_risky = is_spot && shape.spread() > 0.0;
    if is_risky { (of_estimate / shape.spread()).powi(2).min(1.0) } else { 1.0 }
}

/// Part of the cost that is paid at a spot price.
fn spot_share(lines: &[PhaseCostLine], is_spot: bool, expected: Usd) -> f64 {
    let at_spot = lines.iter().filter(|line| is_spot && matches!(line.item, Item::Machines | Item::LostWork));
    let at_spot: Usd = at_spot.map(|line| line.cost).sum();
    if expected > Usd::ZERO { at_spot.dollars() / expected.dollars() } else { 0.0 }
}

/// Where no distribution has its figures, nothing evens out.
fn variance_in_common(plan: &PlanView) -> f64 {
    let of_estimate = shape(plan).map_or(1.0, |shape| estimate_share(plan.estimated, plan.purchase.is_spot(), &shape));
    let of_market = if plan.purchase.is_spot() { AVAILABILITY_IN_COMMON } else { 0.0 };
    of_estimate + (1.0 - of_estimate) * of_market
}

/// The bill of a plan, which has to add up to what the plan is expected to cost.
fn bill_lines(plan: &PlanView) -> Result<Vec<PhaseCostLine>, PlannedError> {
    let lines: Vec<PhaseCostLine> = plan.bill.iter().map(|line| bill_line(plan.price, line)).collect();
    let (bill, expected) = (lines.iter().map(|line| line.cost).sum(), plan.cost.expected);
    if bill != expected {
        return Err(PlannedError::Unbalanced { id: plan.id.to_owned(), bill, expected });
    }
    Ok(lines)
}

fn bill_line(price: &PriceRecord, line: &BillLineRecord) -> PhaseCostLine {
    let item = item(&line.item);
    // The basis of lost work is that of the risk; its price is the machines'.
    let is_machine = matches!(item, Item::Machines | Item::LostWork);
    let (source, dated) = split_basis(&line.basis);
    let (source, priced_at) =
        if is_machine { (price.source.clone(), Some(price.observed_at)) } else { (source.to_owned(), dated) };
    let assumption = match item {
        Item::LostWork => line.basis.clone(),
        Item::Machines => format!(
            "the price of {} holds until then{}",
            price.observed_at.strftime("%Y-%m-%d"),
            if price.stale { ", though it is stale" } else { "" }
        ),
        Item::Fallback => {
            "on-demand machines while spot cannot be had, at the price of the day of the source".to_owned()
        }
        Item::Egress => "all data moves once a run".to_owned(),
        Item::CheckpointStorage if line.item == BillItem::StoreRequests.label() => {
            "each part of 8 MiB of a checkpoint is a request".to_owned()
        }
        Item::CheckpointStorage => "two checkpoints are kept while the run lasts".to_owned(),
        _ => "as long as the run lasts".to_owned(),
    };
    PhaseCostLine {
        item,
        quantity: line.quantity,
        unit: line.unit.clone(),
        unit_price: line.unit_price_usd,
        cost: line.cost_usd,
        source,
        priced_at,
        assumption,
    }
}

/// `source of 2026-07-30, unverified` in its parts.
fn split_basis(basis: &str) -> (&str, Option<Timestamp>) {
    let dated = basis.rsplit_once(" of ").and_then(|(source, rest)| {
        let moment: Timestamp = format!("{}T00:00:00Z", rest.get(..10)?).parse().ok()?;
        Some((source, moment))
    });
    dated.map_or((basis, None), |(source, moment)| (source, Some(moment)))
}

fn item(label: &str) -> Item {
    const ITEMS: [(BillItem, Item); 7] = [
        (BillItem::Machines, Item::Machines),
        (BillItem::Fallback, Item::Fallback),
        (BillItem::LostWork, Item::LostWork),
        (BillItem::Disk, Item::Disk),
        (BillItem::CheckpointStorage, Item::CheckpointStorage),
        (BillItem::StoreRequests, Item::CheckpointStorage),
        (BillItem::Egress, Item::Egress),
    ];
    ITEMS.iter().find(|(bill, _)| bill.label() == label).map_or(Item::Other, |(_, item)| *item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_basis_is_a_source_and_its_day() {
        let (source, day) = split_basis("gcp-pricing of 2026-07-30, unverified");
        assert_eq!((source, day.unwrap().to_string().as_str()), ("gcp-pricing", "2026-07-30T00:00:00Z"));
        assert_eq!(split_basis("the average of AWS probes of 2022"), ("the average of AWS probes of 2022", None));
        assert_eq!(item("saving, lost work and restarts"), Item::LostWork);
        assert_eq!(item("something new"), Item::Other);
    }
}
