//! `Once`: what doing a phase one time costs, from a recorded plan or from stated rates, with all that a line of a budget says.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::Item;
use crate::portfolio::Rate;
use crate::portfolio::shape::Shape;
use crate::portfolio::simulation::AVAILABILITY_IN_COMMON;
use gpuplan_estimate::OwnRun;
use gpuplan_plan::money::bill::BillItem;
use gpuplan_plan::normal::NORMAL_90;
use gpuplan_units::{Band, Quantiles, Usd, UsdPerHour};

/// What this program reads of a document of `plan --output json`.
#[derive(Clone, Debug, Deserialize)]
pub struct PlanDocument {
    pub generated_at: Timestamp,
    pub inputs: Inputs,
    pub workload: WorkloadRecord,
    #[serde(default)]
    pub limits: Value,
    pub recommendation: Option<PlanRecord>,
    #[serde(default)]
    pub frontier: Vec<PlanRecord>,
    #[serde(default)]
    pub alternatives: Vec<PlanRecord>,
    #[serde(default)]
    pub terms: Vec<TermRecord>,
    #[serde(default)]
    pub rejected: Vec<RejectionRecord>,
}

/// Hashes of what a document rests on.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, serde::Serialize, schemars::JsonSchema)]
pub struct Inputs {
    pub catalog_sha256: String,
    pub offers_sha256: String,
    pub constants_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_sha256: Option<String>,
    /// Finished runs of the user that the times go by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_runs: Vec<OwnRun>,
    /// Of the rules of the house.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_sha256: Option<String>,
    #[serde(default)]
    pub seed: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct WorkloadRecord {
    pub name: String,
    #[serde(default)]
    pub file: Value,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PlanRecord {
    pub id: String,
    pub cloud: String,
    pub region: String,
    pub zone_id: Option<String>,
    pub instance_type: String,
    pub gpu: String,
    pub gpus_per_node: u32,
    pub nodes: u32,
    pub purchase: String,
    pub rate_usd_per_hour: UsdPerHour,
    pub price: PriceRecord,
    pub step_seconds: Band,
    pub run_hours: Quantiles<f64>,
    pub cost_usd: Quantiles<Usd>,
    pub bill: Vec<BillRecord>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PriceRecord {
    pub origin: String,
    pub observed_at: Timestamp,
    pub source: String,
    #[serde(default)]
    pub stale: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct BillRecord {
    pub item: String,
    pub quantity: f64,
    pub unit: String,
    pub unit_price_usd: Usd,
    pub cost_usd: Usd,
    pub basis: String,
}

/// The recommended machines on one way to buy them; without figures where that was refused.
#[derive(Clone, Debug, Deserialize)]
pub struct TermRecord {
    pub purchase: String,
    pub run_hours: Option<Quantiles<f64>>,
    pub cost_usd: Option<Quantiles<Usd>>,
    pub bound_to_usd: Option<Usd>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RejectionRecord {
    pub what: String,
    pub reason: String,
    pub detail: String,
}

/// Why a recorded plan is no ground for a budget.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlannedError {
    #[error("it is not a plan of this program: {0}")]
    NoPlan(String),
    #[error("it recommends nothing")]
    Nothing,
    #[error("no plan in it has the id `{0}`")]
    UnknownId(String),
    #[error("the bill of `{id}` adds up to ${bill} and not to ${expected}")]
    Unbalanced { id: String, bill: Usd, expected: Usd },
    #[error("no distribution has the mean ${expected}, the median ${p50} and the 90th percentile ${p90} of `{id}`")]
    Unfit { id: String, expected: Usd, p50: Usd, p90: Usd },
}

/// One time of a phase.
#[derive(Clone, Debug)]
pub struct Once {
    /// The same for runs that share an estimate, and so its error.
    pub estimate: String,
    pub plan: Option<String>,
    /// What was asked, as a workload file says it; nothing for stated rates.
    pub question: Value,
    pub cloud: String,
    pub region: Option<String>,
    pub zone_id: Option<String>,
    pub instance_type: Option<String>,
    pub gpu: Option<String>,
    pub gpus_per_node: u32,
    pub nodes: u32,
    pub purchase: String,
    pub hours: Quantiles<f64>,
    pub cost: Quantiles<Usd>,
    pub lines: Vec<OnceLine>,
    pub shape: Shape,
    /// Share of the spread that the estimate of the step explains; the rest is what happens to the run.
    pub estimate_share: f64,
    /// Share of the cost that is paid at a spot price.
    pub spot_share: f64,
    pub elsewhere: Vec<Elsewhere>,
    pub terms: Vec<TermRecord>,
}

#[derive(Clone, Debug)]
pub struct OnceLine {
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
pub struct Elsewhere {
    pub plan: String,
    pub cloud: String,
    pub hours: Quantiles<f64>,
    pub cost: Quantiles<Usd>,
    /// Part of the variance that its repeats share: the estimate, and on spot the market of the month.
    pub in_common: f64,
}

impl PlanDocument {
    pub fn read(document: &Value) -> Result<Self, PlannedError> {
        Self::deserialize(document).map_err(|error| PlannedError::NoPlan(error.to_string()))
    }

    /// The plan with this id, else the recommended one.
    pub fn chosen(&self, id: Option<&str>) -> Result<&PlanRecord, PlannedError> {
        let Some(id) = id else { return self.recommendation.as_ref().ok_or(PlannedError::Nothing) };
        let mut all = self.recommendation.iter().chain(&self.frontier).chain(&self.alternatives);
        all.find(|plan| plan.id == id).ok_or_else(|| PlannedError::UnknownId(id.to_owned()))
    }

    /// The cheapest of each other cloud among what is shown, cheapest first.
    fn elsewhere(&self, than: &PlanRecord) -> Vec<Elsewhere> {
        let mut plans: Vec<&PlanRecord> =
            self.frontier.iter().chain(&self.alternatives).filter(|plan| plan.cloud != than.cloud).collect();
        plans.sort_by(|a, b| a.cost_usd.expected.cmp(&b.cost_usd.expected).then_with(|| a.id.cmp(&b.id)));
        let mut found: Vec<Elsewhere> = Vec::new();
        for plan in plans {
            if !found.iter().any(|known| known.cloud == plan.cloud) {
                found.push(Elsewhere {
                    plan: plan.id.clone(),
                    cloud: plan.cloud.clone(),
                    hours: plan.run_hours,
                    cost: plan.cost_usd,
                    in_common: plan.in_common(),
                });
            }
        }
        found
    }
}

impl Once {
    /// From a recorded answer. `estimate` names the question.
    pub fn of_plan(document: &PlanDocument, id: Option<&str>, estimate: &str) -> Result<Self, PlannedError> {
        let plan = document.chosen(id)?;
        let lines: Vec<OnceLine> = plan.bill.iter().map(|line| plan.line(line)).collect();
        let (bill, expected): (Usd, Usd) = (lines.iter().map(|line| line.cost).sum(), plan.cost_usd.expected);
        if bill != expected {
            return Err(PlannedError::Unbalanced { id: plan.id.clone(), bill, expected });
        }
        let Quantiles { expected, p50, p90 } = plan.cost_usd;
        let shape = plan.shape().ok_or_else(|| PlannedError::Unfit { id: plan.id.clone(), expected, p50, p90 })?;
        let at_spot =
            lines.iter().filter(|line| plan.is_spot() && matches!(line.item, Item::Machines | Item::LostWork));
        let at_spot: Usd = at_spot.map(|line| line.cost).sum();
        let estimate_share = plan.estimate_share(&shape);
        Ok(Self {
            estimate: estimate.to_owned(),
            plan: Some(plan.id.clone()),
            question: document.workload.file.clone(),
            cloud: plan.cloud.clone(),
            region: Some(plan.region.clone()),
            zone_id: plan.zone_id.clone(),
            instance_type: Some(plan.instance_type.clone()),
            gpu: Some(plan.gpu.clone()),
            gpus_per_node: plan.gpus_per_node,
            nodes: plan.nodes,
            purchase: plan.purchase.clone(),
            hours: plan.run_hours,
            cost: plan.cost_usd,
            spot_share: if expected > Usd::ZERO { at_spot.dollars() / expected.dollars() } else { 0.0 },
            lines,
            shape,
            estimate_share,
            elsewhere: document.elsewhere(plan),
            // Terms are those of the recommended machines.
            terms: if document.recommendation.as_ref().is_some_and(|best| best.id == plan.id) {
                document.terms.clone()
            } else {
                Vec::new()
            },
        })
    }

    /// From what somebody states. `None`: beyond counting, or no distribution.
    pub fn of_rate(rate: &Rate) -> Option<Self> {
        let cost = |hours: f64| rate.usd_per_hour.for_hours(1, hours * f64::from(rate.nodes));
        let (expected, p90) = (cost(rate.hours.0)?, cost(rate.hours_p90.0)?);
        let is_spot = rate.purchase.starts_with("spot");
        let line = OnceLine {
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
            cloud: rate.cloud.clone(),
            region: rate.region.clone(),
            zone_id: None,
            instance_type: rate.instance_type.clone(),
            gpu: rate.gpu.clone(),
            gpus_per_node: rate.gpus_per_node,
            nodes: rate.nodes,
            purchase: rate.purchase.clone(),
            hours: Quantiles { expected: rate.hours.0, p50: rate.hours.0, p90: rate.hours_p90.0 },
            cost: Quantiles { expected, p50: expected, p90 },
            lines: vec![line],
            shape: Shape::fit(Quantiles { expected: expected.dollars(), p50: expected.dollars(), p90: p90.dollars() })?,
            estimate_share: 0.0,
            spot_share: f64::from(u8::from(is_spot)),
            elsewhere: Vec::new(),
            terms: Vec::new(),
        })
    }

    pub fn is_spot(&self) -> bool {
        self.purchase.starts_with("spot")
    }

    /// Where spot prices move together.
    pub fn pool(&self) -> String {
        let parts = [Some(&self.cloud), self.region.as_ref(), self.zone_id.as_ref(), self.instance_type.as_ref()];
        parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

/// Unit of machine time on a bill.
pub const MACHINE_HOUR: &str = "machine-hour";

impl PlanRecord {
    fn is_spot(&self) -> bool {
        self.purchase.starts_with("spot")
    }

    fn shape(&self) -> Option<Shape> {
        let Quantiles { expected, p50, p90 } = self.cost_usd;
        Shape::fit(Quantiles { expected: expected.dollars(), p50: p50.dollars(), p90: p90.dollars() })
    }

    /// Only where spot is in it does anything but the estimate move a plan.
    fn estimate_share(&self, shape: &Shape) -> f64 {
        let of_step = (self.step_seconds.high / self.step_seconds.expected).ln() / NORMAL_90;
        if self.is_spot() && shape.spread() > 0.0 { (of_step / shape.spread()).powi(2).min(1.0) } else { 1.0 }
    }

    /// Where no distribution has its figures, nothing evens out.
    fn in_common(&self) -> f64 {
        let of_estimate = self.shape().map_or(1.0, |shape| self.estimate_share(&shape));
        of_estimate + (1.0 - of_estimate) * if self.is_spot() { AVAILABILITY_IN_COMMON } else { 0.0 }
    }

    fn line(&self, line: &BillRecord) -> OnceLine {
        let item = item(&line.item);
        // The basis of lost work is that of the risk; its price is the machines'.
        let is_machine = matches!(item, Item::Machines | Item::LostWork);
        let (source, dated) = split_basis(&line.basis);
        let (source, priced_at) = if is_machine {
            (self.price.source.clone(), Some(self.price.observed_at))
        } else {
            (source.to_owned(), dated)
        };
        let assumption = match item {
            Item::LostWork => line.basis.clone(),
            Item::Machines => format!(
                "the price of {} holds until then{}",
                self.price.observed_at.strftime("%Y-%m-%d"),
                if self.price.stale { ", though it is stale" } else { "" }
            ),
            Item::Fallback => {
                "on-demand machines while spot cannot be had, at the price of the day of the source".to_owned()
            }
            Item::Egress => "all data moves once a run".to_owned(),
            Item::CheckpointStorage => "two checkpoints are kept while the run lasts".to_owned(),
            _ => "as long as the run lasts".to_owned(),
        };
        OnceLine {
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
    const ITEMS: [(BillItem, Item); 6] = [
        (BillItem::Machines, Item::Machines),
        (BillItem::Fallback, Item::Fallback),
        (BillItem::LostWork, Item::LostWork),
        (BillItem::Disk, Item::Disk),
        (BillItem::CheckpointStorage, Item::CheckpointStorage),
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
