//! What a plan document says of a model that answers requests: replicas, latency, money by tokens, spare machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::context::World;
use crate::document::context::Context;
use crate::document::reading::OptionalGroup;
use crate::serving::standby::Standby;
use gpuplan_units::{Band, Quantiles, Seconds, Usd, UsdPerHour};
use gpuplan_workload::Transcription;

/// A served model, beside the fields of every plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServingRecord {
    /// At work at once; machines that are spare are not counted.
    pub replicas: u32,
    /// What people who wait see.
    pub latency_seconds: LatencyRecord,
    /// Of prompts and answers together; `null` for models that answer images or hear speech.
    pub usd_per_million_tokens: Option<Usd>,
    /// Of answers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_million_answer_tokens: Option<Usd>,
    /// For models that answer images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_million_images: Option<Usd>,
    /// An hour of sound, for models that hear speech.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_per_audio_hour: Option<Usd>,
    /// How the replicas carry the load.
    pub serving: ServingDetail,
}

/// Seconds over requests. Of a job, from the moment that a request begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyRecord {
    /// To the first token.
    pub ttft: Quantiles<f64>,
    /// The mean over an answer, which is the same for all; zero where an answer has no tokens.
    pub per_token: Quantiles<f64>,
    /// How far the estimate of `per_token` may be off: what a pass takes, at the same number of sequences; absent where an answer has no tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_token_band: Option<Band>,
}

/// How the replicas carry the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServingDetail {
    /// Requests that come, or that a job gets done.
    pub requests_per_second: f64,
    /// What all replicas could do with every place taken.
    pub most_requests_per_second: f64,
    /// The first over the second.
    pub load: f64,
    /// Most requests that a replica works on at once.
    pub batch_limit: u32,
    /// Mean number that it works on.
    pub batch: f64,
    /// Reading one prompt.
    pub prompt_seconds: Seconds,
    /// One pass over the batch, which writes a token of each answer.
    pub pass_seconds: Seconds,
    /// Keys and values of a token on one GPU.
    pub gpu_cache_bytes_per_token: f64,
    /// GPUs of one replica.
    pub gpus_per_replica: u32,
    /// Copies that read prompts for the replicas, where other GPUs do that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<PrefillRecord>,
    /// Of a service on spot machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandbyRecord>,
}

/// Copies that read prompts and hand the cache over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrefillRecord {
    pub workers: u32,
    /// GPUs of one of them.
    pub gpus_per_worker: u32,
    /// Share of time that they read.
    pub load: f64,
    /// From the end of a prompt until its cache is on the other GPUs.
    pub handover_seconds: Seconds,
}

/// What keeps a service on spot machines up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StandbyRecord {
    /// Machines beyond those that carry the load.
    pub spare_nodes: u32,
    /// Where the machines stand.
    pub places: Vec<StandbyPlace>,
    /// Share of time that too few replicas run.
    pub too_few_replicas_share: f64,
    /// Share of time that on-demand machines stand in.
    pub on_demand_share: f64,
}

/// Machines of a service in one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StandbyPlace {
    /// Zone, or region where prices do not differ by zone.
    pub place: String,
    /// Machines there.
    pub nodes: u32,
    /// Of one machine.
    pub rate_usd_per_hour: UsdPerHour,
}

impl ServingRecord {
    /// `None`: a plan of a training run.
    pub fn new(plan: &Plan, context: &Context) -> Option<Self> {
        let (served, serving) = (plan.step.served?, context.workload.serving?);
        let counts_samples = context.workload.model.kind.counts_samples();
        let million = |each: f64| Usd::from_dollars(plan.cost.expected.dollars() / (serving.requests() * each) * 1e6);
        let audio_hour = |audio: Transcription| {
            Usd::from_dollars(plan.cost.expected.dollars() / (serving.requests() * audio.seconds) * 3600.0)
        };
        let answer = f64::from(serving.answer_tokens);
        let per_token = Quantiles { expected: served.per_token, p50: served.per_token, p90: served.per_token };
        Some(Self {
            replicas: served.replicas,
            latency_seconds: LatencyRecord {
                ttft: served.first_token,
                per_token,
                per_token_band: per_token_band(plan),
            },
            usd_per_million_tokens: if counts_samples || serving.audio.is_some() {
                None
            } else {
                million(serving.tokens())
            },
            usd_per_million_answer_tokens: if answer > 0.0 { million(answer) } else { None },
            usd_per_million_images: if counts_samples { million(1.0) } else { None },
            usd_per_audio_hour: serving.audio.and_then(audio_hour),
            serving: ServingDetail {
                requests_per_second: served.requests_per_second,
                most_requests_per_second: served.most_requests_per_second,
                load: served.requests_per_second / served.most_requests_per_second,
                batch_limit: served.batch_limit,
                batch: served.batch,
                prompt_seconds: Seconds(served.prompt_seconds),
                pass_seconds: Seconds(served.pass_seconds),
                gpu_cache_bytes_per_token: served.cache_bytes_per_token,
                gpus_per_replica: plan.step.setting.layout.model_parallel(),
                prefill: served.prefill.map(|prefill| PrefillRecord {
                    workers: prefill.workers,
                    gpus_per_worker: prefill.gpus_each,
                    load: prefill.load,
                    handover_seconds: Seconds(prefill.handover_seconds),
                }),
                standby: plan.standby.as_deref().map(|standby| StandbyRecord::new(standby, context.world)),
            },
        })
    }
}

/// A token comes with a pass, so that it may be off by what passes may be off by.
pub fn per_token_band(plan: &Plan) -> Option<Band> {
    let expected = plan.step.served?.per_token;
    let passes = plan.step.step_seconds();
    let times = |seconds: f64| expected * seconds / passes.expected;
    (expected > 0.0).then(|| Band { low: times(passes.low), expected, high: times(passes.high) })
}

impl OptionalGroup for ServingRecord {
    const KEY: &'static str = "replicas";
}

impl StandbyRecord {
    fn new(standby: &Standby, world: World) -> Self {
        let places = standby.places.iter().map(|there| {
            let offer = world.market.offer(there.offer);
            let place = offer.place.zone_id.as_deref().unwrap_or(&offer.place.region).to_owned();
            StandbyPlace { place, nodes: there.nodes, rate_usd_per_hour: offer.quote.rate }
        });
        Self {
            spare_nodes: standby.spare,
            places: places.collect(),
            too_few_replicas_share: standby.short,
            on_demand_share: 1.0 - standby.up,
        }
    }
}
