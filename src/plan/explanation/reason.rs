//! `Reason`: why a plan is recommended, with its figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explanation::input_wait::InputWait;
use crate::limits::Objective;
use gpuplan_estimate::Bound;
use gpuplan_units::{Bytes, Hours, Seconds, Usd};
use gpuplan_workload::Recompute;

/// Why a plan is recommended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// What it is the best of.
    Objective {
        objective: Objective,
        /// Waiting has a price (`--value-of-time`).
        counts_waiting: bool,
        /// That price.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value_of_time_usd_per_hour: Option<Usd>,
        /// Plans that keep every limit.
        plans: usize,
    },
    /// How the model is spread over the GPUs, and that it fits.
    Layout {
        layout: String,
        micro_batch: u32,
        required_bytes: Bytes,
        gpu_memory_bytes: Bytes,
        #[schemars(with = "String")]
        recompute: Recompute,
    },
    /// What a training step waits for most.
    Bound {
        #[schemars(with = "String")]
        bound: Bound,
        /// Of a step.
        share: f64,
        /// Of input, which part of it.
        input: Option<String>,
    },
    InputWait(InputWait),
    /// Batch inference, where nobody waits for an answer.
    BatchInference {
        sequences: u32,
        weights_bytes: Bytes,
        cache_bytes: Bytes,
        gpu_memory_bytes: Bytes,
    },
    /// A service: what a replica is given of what it can do.
    ReplicaLoad {
        headroom_share: f64,
        running_requests: f64,
    },
    /// What a served model waits for most.
    ServingBound {
        #[schemars(with = "String")]
        bound: Bound,
        /// Of the time.
        share: f64,
        /// Whether answers are generated token by token.
        generates: bool,
    },
    /// The best plan on other hardware or other terms.
    RunnerUp(RunnerUp),
    /// What the user's own finished runs changed in the time and in its doubt.
    OwnRuns {
        runs: String,
        time_factor: f64,
        /// What nine of ten steps take at most, over the expected, with these runs and without them.
        p90_ratio: f64,
        p90_ratio_without: f64,
    },
    /// What work without GPU waits for most; the parts go on at the same time.
    ProcessingBound {
        bound: String,
        computing_hours: Hours,
        cores: f64,
        reading_hours: Hours,
        writing_hours: Hours,
    },
    /// Nobody says what network the machine has.
    AssumedNetwork {
        instance_type: String,
        gbit_per_s: f64,
    },
    /// Spot machines of work without GPU: how often one is lost, and what goes with it.
    MachineLosses {
        every_hours: Hours,
        lost_hours: Hours,
        /// What the rate rests on; `null`: nothing is known of machines without GPU.
        evidence: Option<String>,
    },
    /// The same work on the CPUs of the cheapest machines with GPUs.
    OnGpuMachines {
        nodes: u32,
        instance_type: String,
        region: String,
        purchase: String,
        cost_usd: Usd,
        recommended_cost_usd: Usd,
        run_hours: Hours,
    },
    /// No rate is known for bringing the samples out of this cloud.
    UnpricedEgress {
        cloud: String,
    },
    /// Samples that leave their region inside a cloud are priced as to the internet.
    EgressAsToInternet {
        region: String,
    },
}

/// A plan that lost, against the recommended one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunnerUp {
    pub gpus: u32,
    pub gpu: String,
    pub purchase: String,
    pub region: String,
    /// Its cost over that of the recommended plan.
    pub cost_ratio: f64,
    pub run_hours: Hours,
    pub recommended_run_hours: Hours,
    /// For a service, whose hours are given: how long people wait.
    pub latency: Option<LatencyComparison>,
}

/// Waits at the 90th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyComparison {
    /// Answers are generated token by token, so that people wait for the first.
    pub generates: bool,
    pub p90_seconds: Seconds,
    pub recommended_p90_seconds: Seconds,
}
