//! What a plan document says of spot machines: forecast, pools, when on-demand is cheaper, and the promise.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_market::{Availability, Signal};
use gpuplan_spot::forecast::Forecast;
use gpuplan_units::{Usd, UsdPerHour};

/// What may become of a plan on spot machines, and what that rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpotRecord {
    /// Share of time that the pool is assumed to have been up lately.
    #[serde(default)]
    pub assumed_availability: Option<f64>,
    /// Where that comes from.
    #[serde(default)]
    pub basis: String,
    /// Time and money of the machines under the policy that the program ships.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
    /// Mean share of machine-hours that on-demand machines run.
    #[serde(default)]
    pub on_demand_share: Option<f64>,
    /// Of one on-demand machine that the plan falls back to; `null`: it does not fall back.
    pub fallback_rate_usd_per_hour: Option<UsdPerHour>,
    /// Share of time that the pool is up under which on-demand is cheaper; of the recommended plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_even_availability: Option<f64>,
    /// Places to try, the plan's own first and then by price.
    #[serde(default)]
    pub pools: Vec<PoolRecord>,
    /// When the run ends, under which conditions and at which cost, as a sentence; `null` without a deadline.
    #[serde(default)]
    pub promise: Option<String>,
    /// Bars of equal width over the cost of the machines in all draws of the forecast.
    #[serde(default)]
    pub cost_histogram: Vec<CostBar>,
}

/// A place where such machines are sold as spot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolRecord {
    /// Name of the cloud.
    pub cloud: String,
    /// Name of the region.
    pub region: String,
    /// Id of the zone, where prices differ by zone.
    #[serde(default)]
    pub zone_id: Option<String>,
    /// The cloud's name of the machine.
    pub instance_type: String,
    /// Of one machine.
    pub rate_usd_per_hour: UsdPerHour,
    /// When the rate was seen.
    pub observed_at: Timestamp,
    /// Share of time that this pool is assumed to have been up lately.
    pub assumed_availability: f64,
    /// Where that comes from.
    pub basis: String,
    /// Whether a machine can be had now, as far as the cloud says.
    pub availability: Availability,
    /// What the cloud says of its capacity.
    pub signals: Vec<Signal>,
}

/// Draws of a forecast that cost from `from_usd` to `to_usd`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostBar {
    /// Lower edge, included.
    pub from_usd: Usd,
    /// Upper edge, included in the last bar alone.
    pub to_usd: Usd,
    /// Of all draws.
    pub share: f64,
}
