//! What a plan document says of spot machines: forecast, pools, when on-demand is cheaper, and the promise.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::World;
use crate::document::words::Words;
use crate::spot::{Pool, SpotForecast};
use gpuplan_market::own::Seen;
use gpuplan_market::{Availability, Signal};
use gpuplan_spot::forecast::Forecast;
use gpuplan_units::{Hours, Usd, UsdPerHour};

/// Bars of the histogram of the cost.
const BARS: usize = 8;
/// Costs that stand for all draws of a forecast: enough for the shape of a cost with two humps, few enough for a document.
const QUANTILES: usize = 50;

/// What may become of a plan on spot machines, and what that rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpotRecord {
    /// Share of time that the pool is assumed to have been up lately.
    #[serde(default)]
    pub assumed_availability: Option<f64>,
    /// Where that comes from.
    #[serde(default)]
    pub basis: String,
    /// How long ago its cloud said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis_age_hours: Option<Hours>,
    /// What the user's own launches saw of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Seen>,
    /// Time and money of the machines under the policy that the program ships.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
    /// Mean share of machine-hours that on-demand machines run.
    #[serde(default)]
    pub on_demand_share: Option<f64>,
    /// Of one on-demand machine that the plan falls back to; `null`: it does not fall back.
    pub fallback_rate_usd_per_hour: Option<UsdPerHour>,
    /// Hours from the start by which it ends, by falling back; `null`: it waits for spot as long as it takes.
    #[serde(default)]
    pub finish_by_hours: Option<Hours>,
    /// Share of time that the pool is up under which on-demand is cheaper; of the recommended plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_even_availability: Option<f64>,
    /// Places to try, the plan's own first and then by price.
    #[serde(default)]
    pub pools: Vec<PoolRecord>,
    /// When the run ends, under which conditions and at which cost, as a sentence; `null` without a fallback.
    #[serde(default)]
    pub promise: Option<String>,
    /// Bars of equal width over the cost of the machines in all draws of the forecast.
    #[serde(default)]
    pub cost_histogram: Vec<CostBar>,
    /// Costs of the machines at equal steps of probability, cheapest first: the first of fifty is at 1 %, the next at 3 %, the last at 99 %.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost_quantiles_usd: Vec<Usd>,
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
    /// How long ago its cloud said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis_age_hours: Option<Hours>,
    /// What the user's own launches saw there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Seen>,
    /// Whether a machine can be had now, as far as the cloud says.
    pub availability: Availability,
    /// What the cloud says of its capacity.
    pub signals: Vec<Signal>,
    /// When the oldest of the signals was said, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals_observed_at: Option<Timestamp>,
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

impl SpotRecord {
    /// `None` while there is no forecast.
    pub(super) fn new(spot: &SpotForecast, world: World, words: &dyn Words) -> Option<Self> {
        let forecast = spot.forecast.clone()?;
        Some(Self {
            assumed_availability: Some(spot.availability),
            basis: spot.basis.to_owned(),
            basis_age_hours: spot.basis_age,
            own: spot.own,
            on_demand_share: Some(forecast.on_demand_share()),
            fallback_rate_usd_per_hour: spot.fallback.map(|id| world.market.offer(id).quote.rate),
            finish_by_hours: spot.finish_by,
            break_even_availability: spot.break_even,
            pools: spot.pools.iter().map(|pool| PoolRecord::new(pool, world)).collect(),
            promise: spot.promise.as_ref().map(|promise| words.promise(promise)),
            cost_histogram: CostBar::histogram(&forecast.costs),
            cost_quantiles_usd: quantiles(&forecast.costs),
            // The draws are not part of a document.
            forecast: Some(Forecast { costs: Vec::new(), finishes: Vec::new(), ..forecast }),
        })
    }
}

/// Of costs that are sorted.
fn quantiles(costs: &[Usd]) -> Vec<Usd> {
    let at = |step: usize| costs.get(costs.len() * (2 * step + 1) / (2 * QUANTILES)).copied();
    (0..QUANTILES).filter_map(at).collect()
}

impl PoolRecord {
    fn new(pool: &Pool, world: World) -> Self {
        let offer = world.market.offer(pool.offer);
        let instance = world.hardware.instance(offer.instance);
        Self {
            cloud: instance.cloud.to_string(),
            region: offer.place.region.to_string(),
            zone_id: offer.place.zone_id.as_ref().map(ToString::to_string),
            instance_type: instance.name.clone(),
            rate_usd_per_hour: offer.quote.rate,
            observed_at: offer.quote.observed_at,
            assumed_availability: pool.availability,
            basis: pool.basis.to_owned(),
            basis_age_hours: pool.basis_age,
            own: pool.own,
            availability: offer.availability,
            signals: offer.signals(),
            signals_observed_at: offer.signals_observed_at(),
        }
    }
}

impl CostBar {
    /// Bars of equal width over costs that are sorted; none where all cost the same.
    pub fn histogram(costs: &[Usd]) -> Vec<Self> {
        let Some((first, last)) = costs.first().zip(costs.last()).filter(|(first, last)| first < last) else {
            return Vec::new();
        };
        let edge =
            |bar: usize| Usd::from_nanos(first.nanos() + (last.nanos() - first.nanos()) * bar as i128 / BARS as i128);
        (0..BARS)
            .map(|bar| {
                let (from_usd, to_usd) = (edge(bar), edge(bar + 1));
                // The last bar takes the dearest draw in.
                let below = |edge: Usd, with_end: bool| {
                    costs.partition_point(|cost| *cost < edge || (with_end && *cost == edge))
                };
                let count = below(to_usd, bar + 1 == BARS) - below(from_usd, false);
                Self { from_usd, to_usd, share: count as f64 / costs.len() as f64 }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_stand_for_the_draws() {
        let costs: Vec<Usd> = (0..300).map(|draw| Usd::from_nanos(draw * draw)).collect();
        let found = quantiles(&costs);
        assert_eq!((found.len(), found[0], found[49]), (QUANTILES, costs[3], costs[297]));
        assert_eq!(quantiles(&costs[..40]).len(), QUANTILES);
        assert!(found.is_sorted() && quantiles(&[]).is_empty());
    }

    #[test]
    fn every_draw_is_in_one_bar() {
        let usd = |nanos: i128| Usd::from_nanos(nanos);
        for nanos in [&[0, 1, 2, 3, 5, 8, 13, 800][..], &[7, 7, 9], &[-4, 0, i128::from(i64::MAX)]] {
            let costs: Vec<Usd> = nanos.iter().copied().map(usd).collect();
            let bars = CostBar::histogram(&costs);
            assert!((bars.iter().map(|bar| bar.share).sum::<f64>() - 1.0).abs() < 1e-9, "{nanos:?}");
            assert_eq!((bars.len(), bars[0].from_usd, bars[BARS - 1].to_usd), (BARS, costs[0], costs[costs.len() - 1]));
        }
        assert!(CostBar::histogram(&[]).is_empty() && CostBar::histogram(&[usd(3), usd(3)]).is_empty());
    }
}
