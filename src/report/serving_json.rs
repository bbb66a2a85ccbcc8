//! What a plan of a served model says beside a plan's figures: replicas, latency, money by tokens, spare machines.

use serde::Serialize;
use serde_json::{Value, json};

use crate::plan_json::Context;
use gpuplan_plan::Plan;
use gpuplan_plan::serving::standby::{Standby, StandbyPlace};
use gpuplan_units::{Quantiles, Usd, UsdPerHour};
use gpuplan_workload::{Load, Serving};

#[derive(Clone, Debug, Serialize)]
pub struct ServingJson {
    /// At work at once; machines that are spare are not counted.
    pub replicas: u32,
    pub latency_seconds: LatencyJson,
    /// Of prompts and answers together; `null` for models that answer images.
    pub usd_per_million_tokens: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_million_answer_tokens: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_million_images: Option<Usd>,
    pub serving: DetailJson,
}

/// Over requests. Of a job, from the moment that a request begins.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyJson {
    pub ttft: Quantiles<f64>,
    /// The mean over an answer, which is the same for all; zero where an answer has no tokens.
    pub per_token: Quantiles<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct DetailJson {
    pub requests_per_second: f64,
    /// What all replicas could do with every place taken.
    pub most_requests_per_second: f64,
    pub load: f64,
    pub batch_limit: u32,
    pub batch: f64,
    pub prompt_seconds: f64,
    pub pass_seconds: f64,
    pub gpu_cache_bytes_per_token: f64,
    pub gpus_per_replica: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandbyJson>,
}

/// A service on spot machines.
#[derive(Clone, Debug, Serialize)]
pub struct StandbyJson {
    pub spare_nodes: u32,
    pub places: Vec<PlaceJson>,
    pub too_few_replicas_share: f64,
    pub on_demand_share: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct PlaceJson {
    pub place: String,
    pub nodes: u32,
    pub rate_usd_per_hour: UsdPerHour,
}

/// What is asked, with its units.
pub fn asked(serving: &Serving) -> Value {
    let (requests_per_second, hours, requests) = match serving.load {
        Load::Steady { requests_per_second, hours } => (Some(requests_per_second), Some(hours), None),
        Load::Job { requests } => (None, None, Some(requests)),
    };
    json!({
        "requests_per_second": requests_per_second,
        "hours": hours,
        "requests": requests,
        "prompt_tokens": serving.prompt_tokens,
        "answer_tokens": serving.answer_tokens,
        "time_to_first_token_seconds": serving.time_to_first_token,
        "time_per_token_seconds": serving.time_per_token,
        "weights": serving.weights,
        "kv_cache": serving.kv_cache,
        "availability": serving.availability,
    })
}

/// `None`: a plan of a training run.
pub fn serving_json(plan: &Plan, context: &Context) -> Option<ServingJson> {
    let (served, serving) = (plan.step.served?, context.workload.serving?);
    let counts_samples = context.workload.model.kind.counts_samples();
    let million = |each: f64| Usd::from_dollars(plan.cost.expected.dollars() / (serving.requests() * each) * 1e6);
    let answer = f64::from(serving.answer_tokens);
    let per_token = Quantiles { expected: served.per_token, p50: served.per_token, p90: served.per_token };
    Some(ServingJson {
        replicas: served.replicas,
        latency_seconds: LatencyJson { ttft: served.first_token, per_token },
        usd_per_million_tokens: if counts_samples { None } else { million(serving.tokens()) },
        usd_per_million_answer_tokens: if answer > 0.0 { million(answer) } else { None },
        usd_per_million_images: if counts_samples { million(1.0) } else { None },
        serving: DetailJson {
            requests_per_second: served.requests_per_second,
            most_requests_per_second: served.most_requests_per_second,
            load: served.requests_per_second / served.most_requests_per_second,
            batch_limit: served.batch_limit,
            batch: served.batch,
            prompt_seconds: served.prompt_seconds,
            pass_seconds: served.pass_seconds,
            gpu_cache_bytes_per_token: served.cache_bytes_per_token,
            gpus_per_replica: plan.step.setting.layout.model_parallel(),
            standby: plan.standby.as_deref().map(|standby| standby_json(standby, context)),
        },
    })
}

fn standby_json(standby: &Standby, context: &Context) -> StandbyJson {
    let places = standby.places.iter().map(|StandbyPlace { offer, nodes }| {
        let offer = context.world.market.offer(*offer);
        let place = offer.place.zone_id.as_deref().unwrap_or(&offer.place.region).to_owned();
        PlaceJson { place, nodes: *nodes, rate_usd_per_hour: offer.quote.rate }
    });
    StandbyJson {
        spare_nodes: standby.spare,
        places: places.collect(),
        too_few_replicas_share: standby.short,
        on_demand_share: 1.0 - standby.up,
    }
}
