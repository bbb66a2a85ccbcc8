//! The part of a plan that is about spot machines, as JSON: wait, forecast, pools, break-even, promise.

use jiff::Timestamp;
use serde::Serialize;

use crate::sentences;
use gpuplan_market::{Availability, Signal};
use gpuplan_plan::spot::{Outlook, Pool};
use gpuplan_plan::{Plan, World};
use gpuplan_spot::forecast::Forecast;
use gpuplan_units::{Usd, UsdPerHour};

/// Bars of the histogram of the cost.
const BARS: usize = 8;

/// How long until the first machine runs. Nobody publishes it for capacity that is not spot.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum WaitJson {
    Unknown(&'static str),
    Known { p50: f64, p90: f64, basis: &'static str },
}

#[derive(Clone, Debug, Serialize)]
pub struct SpotJson {
    /// Share of time that the pool is assumed to have been up lately.
    pub assumed_availability: f64,
    pub basis: &'static str,
    pub forecast: Forecast,
    pub on_demand_share: f64,
    pub fallback_rate_usd_per_hour: Option<UsdPerHour>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub break_even_availability: Option<f64>,
    pub pools: Vec<PoolJson>,
    pub promise: Option<String>,
    /// Of the machines' cost.
    pub cost_histogram: Vec<Bar>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PoolJson {
    pub cloud: String,
    pub region: String,
    pub zone_id: Option<String>,
    pub instance_type: String,
    pub rate_usd_per_hour: UsdPerHour,
    pub observed_at: Timestamp,
    pub assumed_availability: f64,
    pub basis: &'static str,
    pub availability: Availability,
    pub signals: Vec<Signal>,
}

/// Draws that cost from `from_usd` to `to_usd`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    pub from_usd: Usd,
    pub to_usd: Usd,
    pub share: f64,
}

pub fn wait(plan: &Plan) -> WaitJson {
    match plan.spot.as_ref().and_then(|spot| Some((spot.forecast.as_ref()?, spot.basis))) {
        Some((forecast, basis)) => {
            WaitJson::Known { p50: forecast.wait_hours.p50, p90: forecast.wait_hours.p90, basis }
        }
        None => WaitJson::Unknown("unknown"),
    }
}

/// `None` while there is no forecast.
pub fn spot_json(spot: &Outlook, world: World) -> Option<SpotJson> {
    let forecast = spot.forecast.clone()?;
    Some(SpotJson {
        assumed_availability: spot.availability,
        basis: spot.basis,
        on_demand_share: forecast.on_demand_share(),
        fallback_rate_usd_per_hour: spot.fallback.map(|id| world.market.offer(id).quote.rate),
        break_even_availability: spot.break_even,
        pools: spot.pools.iter().map(|pool| pool_json(pool, world)).collect(),
        promise: spot.promise.as_ref().map(sentences::spot::promise),
        cost_histogram: histogram(&forecast.costs),
        forecast,
    })
}

fn pool_json(pool: &Pool, world: World) -> PoolJson {
    let offer = world.market.offer(pool.offer);
    let instance = world.hardware.instance(offer.instance);
    PoolJson {
        cloud: instance.cloud.to_string(),
        region: offer.place.region.to_string(),
        zone_id: offer.place.zone_id.as_ref().map(ToString::to_string),
        instance_type: instance.name.clone(),
        rate_usd_per_hour: offer.quote.rate,
        observed_at: offer.quote.observed_at,
        assumed_availability: pool.availability,
        basis: pool.basis,
        availability: offer.availability,
        signals: offer.signals.clone(),
    }
}

/// Bars of equal width over costs that are sorted; none where all cost the same.
pub fn histogram(costs: &[Usd]) -> Vec<Bar> {
    let Some((first, last)) = costs.first().zip(costs.last()).filter(|(first, last)| first < last) else {
        return Vec::new();
    };
    let edge =
        |bar: usize| Usd::from_nanos(first.nanos() + (last.nanos() - first.nanos()) * bar as i128 / BARS as i128);
    (0..BARS)
        .map(|bar| {
            let (from_usd, to_usd) = (edge(bar), edge(bar + 1));
            // The last bar takes the dearest draw in.
            let below =
                |edge: Usd, with_end: bool| costs.partition_point(|cost| *cost < edge || (with_end && *cost == edge));
            let count = below(to_usd, bar + 1 == BARS) - below(from_usd, false);
            Bar { from_usd, to_usd, share: count as f64 / costs.len() as f64 }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_draw_is_in_one_bar(mut nanos in prop::collection::vec(0_i64..i64::MAX, 0..400)) {
            nanos.sort_unstable();
            let costs: Vec<Usd> = nanos.iter().map(|nanos| Usd::from_nanos(i128::from(*nanos))).collect();
            let bars = histogram(&costs);
            prop_assert!(bars.is_empty() == (nanos.first() == nanos.last()));
            prop_assert!(bars.is_empty() || (bars.iter().map(|bar| bar.share).sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}
