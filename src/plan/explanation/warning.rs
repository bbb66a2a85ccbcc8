//! `Warning`: what else to know about an answer, with its figures: what was left out, could not be checked, or would differ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explanation::rejection::Rejection;
use crate::limits::KnownQuota;
use crate::money::bill::BillItem;
use gpuplan_hardware::Gpu;
use gpuplan_market::Booking;
use gpuplan_units::{Hours, Usd};
use gpuplan_workload::Recompute;

/// What else to know about an answer: its notes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// A plan that would be cheaper if samples were always at hand.
    InputDecides {
        gpus: u32,
        gpu: String,
        plan: String,
        cost_without_waiting_usd: Usd,
        cost_usd: Usd,
        waiting_share: f64,
        limit: String,
    },
    /// What was measured, and what that changed.
    Measured {
        detail: String,
    },
    /// What the figures of a served model leave out.
    ServingFigures {
        counts_samples: bool,
        generates: bool,
    },
    /// The price of the recommended machines was seen a while ago.
    OldPrice {
        age_hours: Hours,
        cloud: String,
        purchase: String,
        /// Of such prices since then, on average; in the cost.
        expected_change: f64,
        /// What one of ten has risen by; in the band of the cost.
        p90_change: f64,
    },
    /// The recommended machines are sold ahead, for a span.
    Booked {
        booking: Booking,
        /// What the span costs, used or not.
        upfront_usd: Usd,
    },
    /// The recommended machines cannot be launched by this program.
    NotLaunchable {
        cloud: String,
        /// Clouds on which it launches and that the question left out. Empty: they were looked at, and nothing there keeps every limit.
        #[serde(default)]
        not_asked: Vec<String>,
    },
    /// The account may not run the recommended machines, as its cloud said it so long ago.
    OverQuota {
        needed: f64,
        quota: KnownQuota,
        age_hours: Hours,
    },
    /// The limit allows the recommended machines, but not beside what ran when the cloud said it.
    QuotaWasTaken {
        needed: f64,
        quota: KnownQuota,
        age_hours: Hours,
    },
    /// Nobody asked the account whether it may run the recommended machines.
    QuotaUnknown {
        cloud: String,
        region: String,
    },
    /// A plan that the account may not run would have been recommended.
    BetterBeyondQuota {
        plan: String,
        needed: f64,
        quota: KnownQuota,
        age_hours: Hours,
        cost_usd: Usd,
        run_hours: Hours,
    },
    /// A cloud on which nothing can be launched has a plan that would have been recommended.
    BetterWherePricedOnly {
        plan: String,
        cloud: String,
        cost_usd: Usd,
        run_hours: Hours,
    },
    /// A price that is too old to know would make a plan that would have been recommended.
    BetterAtOldPrice {
        plan: String,
        age_hours: Hours,
        cost_usd: Usd,
        run_hours: Hours,
    },
    /// The recommended GPU has no units for bf16, which the work is in: fp16 is counted in its place.
    CountedAsFp16 {
        gpu: String,
    },
    /// A service is asked for so small a part of what its machines could answer.
    MostlyIdle {
        load_share: f64,
    },
    /// The recommended plan has as many machines as plans are given unless the question names more.
    MostMachines {
        machines: u32,
        /// What may be asked for.
        limit: u32,
    },
    /// The plan keeps activations that the stack recomputes unless it is told not to.
    RecomputesUnasked {
        /// Name of the stack.
        stack: String,
        /// What it does by itself.
        recompute: Recompute,
        /// How it says so: a few words of its source or documentation.
        setting: String,
        /// Time of a step as the stack comes, over that of the plan.
        step_ratio: f64,
    },
    /// Every core is taken to be as fast as those of the published rates.
    EqualCores,
    /// The clouds were asked for prices, but not for those of machines without GPU.
    CatalogPricesOfHosts,
    /// The host of a GPU was measured.
    MeasuredHost {
        gpu: String,
        processor: Option<String>,
        measured: String,
        /// Whether it counts, which it does where the workload says what a sample costs.
        is_counted: bool,
    },
    /// The workload does not say what samples are.
    InputUnchecked {
        usual_kind: String,
    },
    /// Storage was not checked, since the workload does not say what samples are.
    StorageUnchecked {
        usual_kind: String,
        knows_vcpus: bool,
    },
    InputPartlyUnchecked {
        missing: Vec<MissingInput>,
    },
    /// Requests to a bucket that is read in every pass: no catalog has their price.
    UnpricedRequests {
        requests: f64,
        list_price_usd: f64,
    },
    /// What the bill leaves out for want of a rate.
    Unpriced {
        cloud: String,
        items: Vec<BillItem>,
    },
    /// What the figures of a plan on spot rest on.
    SpotReplay,
    /// What capacity that is not taken back would cost.
    OnDemandCost {
        cost_usd: Usd,
        plan: String,
    },
    /// Cheaper offers of the same machine whose price is stale or doubtful.
    MoreDoubtfulOffers {
        offers: usize,
    },
    /// A cheaper offer of the same machine that was not taken.
    CheaperOffer {
        offer: String,
        why: Rejection,
    },
}

/// What is unknown about the input of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "missing", rename_all = "kebab-case")]
pub enum MissingInput {
    /// What a recording costs a core, for want of its length.
    RecordingCost {
        data_kind: String,
        /// Of the workload file.
        key: String,
    },
    SampleCost,
    Vcpus,
    SampleBytes,
    DiskRates,
}

impl Warning {
    /// That work in bf16 cannot be run as it stands on a GPU before Ampere, which has units for fp16 alone.
    pub fn counted_as_fp16(gpu: &Gpu, is_bf16: bool) -> Option<Self> {
        let has_fp16_alone = gpu.peak_tflops.bf16.is_none() && gpu.peak_tflops.fp16.is_some();
        (is_bf16 && has_fp16_alone).then(|| Self::CountedAsFp16 { gpu: gpu.name.clone() })
    }
}
