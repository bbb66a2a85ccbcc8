//! A plan document as it was written: what a report takes from it. What older documents lack may be absent.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use gpuplan_units::{Band, Quantiles, Usd, UsdPerHour};

/// The version that is read (contract section 3).
const VERSION: u64 = 1;

/// Why a text is no plan that can be reported on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    #[error("{0}")]
    Malformed(String),
    #[error("it was written by another version ({0})")]
    Version(u64),
    #[error("it recommends no plan")]
    NoPlan,
    #[error("no plan in it has the id `{0}`")]
    UnknownPlan(String),
}

#[derive(Clone, Debug, Deserialize)]
pub struct Document {
    pub version: u64,
    pub generated_at: Timestamp,
    #[serde(default)]
    pub valid_until: Option<Timestamp>,
    #[serde(default)]
    pub inputs: Map<String, Value>,
    pub workload: Workload,
    #[serde(default)]
    pub limits: Map<String, Value>,
    pub recommendation: Option<Plan>,
    #[serde(default)]
    pub frontier: Vec<Plan>,
    #[serde(default)]
    pub alternatives: Vec<Plan>,
    #[serde(default)]
    pub terms: Vec<Terms>,
    #[serde(default)]
    pub rejected: Vec<Rejected>,
    #[serde(default)]
    pub counts: Counts,
    #[serde(default)]
    pub findings: Vec<Finding>,
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Of a profile.
#[derive(Clone, Debug, Deserialize)]
pub struct Finding {
    pub rule: String,
    #[serde(default)]
    pub evidence: String,
    #[serde(default)]
    pub advice: String,
    #[serde(default)]
    pub saves_usd: Option<Usd>,
    #[serde(default)]
    pub saves_hours: Option<f64>,
    #[serde(default)]
    pub why_unpriced: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Workload {
    pub name: String,
    pub model: String,
    #[serde(default)]
    pub parameters: Option<f64>,
    #[serde(default)]
    pub task: String,
    #[serde(default)]
    pub precision: String,
    #[serde(default)]
    pub assumed: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Counts {
    #[serde(default)]
    pub offers: u64,
    #[serde(default)]
    pub shapes: u64,
    #[serde(default)]
    pub layouts_estimated: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Plan {
    pub id: String,
    pub cloud: String,
    pub region: String,
    #[serde(default)]
    pub zone_id: Option<String>,
    pub instance_type: String,
    pub gpu: String,
    pub gpus_per_node: u32,
    pub nodes: u32,
    pub purchase: String,
    pub rate_usd_per_hour: UsdPerHour,
    pub price: Price,
    pub step_seconds: Band,
    #[serde(default)]
    pub step_parts: Vec<Part>,
    #[serde(default)]
    pub wait_hours: Value,
    pub run_hours: Quantiles<f64>,
    #[serde(default)]
    pub gpu_hours: Option<f64>,
    pub cost_usd: Quantiles<Usd>,
    #[serde(default)]
    pub full_cost_usd: Option<Usd>,
    #[serde(default)]
    pub bill: Vec<Line>,
    #[serde(default)]
    pub chance_by_deadline: Option<f64>,
    #[serde(default)]
    pub spot: Option<Spot>,
    #[serde(flatten, default)]
    pub served: Option<Served>,
    #[serde(default)]
    pub because: Vec<String>,
    #[serde(default)]
    pub advice: Vec<String>,
}

/// Of a model that answers requests.
#[derive(Clone, Debug, Deserialize)]
pub struct Served {
    pub replicas: u32,
    pub latency_seconds: Latency,
    pub usd_per_million_tokens: Option<Usd>,
    /// `null` for a service, which has nothing to save and ends by no event.
    pub checkpoint: Option<Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Latency {
    pub ttft: Quantiles<f64>,
    pub per_token: Quantiles<f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Price {
    pub origin: String,
    pub observed_at: Timestamp,
    pub source: String,
    #[serde(default)]
    pub stale: bool,
    #[serde(default)]
    pub suspect: Vec<String>,
}

/// A part of a step.
#[derive(Clone, Debug, Deserialize)]
pub struct Part {
    pub part: String,
    pub seconds: f64,
}

/// Of the bill.
#[derive(Clone, Debug, Deserialize)]
pub struct Line {
    pub item: String,
    pub quantity: f64,
    pub unit: String,
    pub unit_price_usd: Usd,
    pub cost_usd: Usd,
    #[serde(default)]
    pub basis: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Spot {
    #[serde(default)]
    pub basis: String,
    #[serde(default)]
    pub forecast: Option<Forecast>,
    #[serde(default)]
    pub promise: Option<String>,
    #[serde(default)]
    pub cost_histogram: Vec<Bar>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Forecast {
    #[serde(default)]
    pub interruptions: Option<f64>,
    #[serde(default)]
    pub on_demand_hours: Option<f64>,
}

/// Of the histogram of the cost of machines.
#[derive(Clone, Debug, Deserialize)]
pub struct Bar {
    pub from_usd: Usd,
    pub to_usd: Usd,
    pub share: f64,
}

/// The recommended machines on one way to buy them.
#[derive(Clone, Debug, Deserialize)]
pub struct Terms {
    pub purchase: String,
    #[serde(default)]
    pub run_hours: Option<Quantiles<f64>>,
    #[serde(default)]
    pub cost_usd: Option<Quantiles<Usd>>,
    #[serde(default)]
    pub bound_to_usd: Option<Usd>,
    #[serde(default)]
    pub refused: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Rejected {
    pub what: String,
    pub reason: String,
    pub detail: String,
    #[serde(default)]
    pub nearest_fix: String,
    #[serde(default = "one")]
    pub count: u64,
}

fn one() -> u64 {
    1
}

impl Document {
    pub fn read(document: Value) -> Result<Self, RecordedError> {
        let read: Self =
            serde_json::from_value(document).map_err(|error| RecordedError::Malformed(error.to_string()))?;
        if read.version == VERSION { Ok(read) } else { Err(RecordedError::Version(read.version)) }
    }

    /// The recommended plan, or the one that was asked for.
    pub fn plan(&self, id: Option<&str>) -> Result<&Plan, RecordedError> {
        match id {
            None => self.recommendation.as_ref().ok_or(RecordedError::NoPlan),
            Some(id) => {
                let mut all = self.recommendation.iter().chain(&self.frontier).chain(&self.alternatives);
                all.find(|plan| plan.id == id).ok_or_else(|| RecordedError::UnknownPlan(id.to_owned()))
            }
        }
    }

    /// What was asked for in the workload file or on the command line.
    pub fn limit(&self, name: &str) -> Option<&str> {
        self.limits.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// A calibration or a profile corrected the estimate.
    pub fn is_measured(&self) -> bool {
        self.inputs.get("measured_sha256").is_some_and(Value::is_string)
    }
}

impl Plan {
    pub fn gpus(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus_per_node)
    }

    pub fn place(&self) -> &str {
        self.zone_id.as_deref().unwrap_or(&self.region)
    }

    pub fn is_on_spot(&self) -> bool {
        self.purchase.starts_with("spot")
    }
}
