//! Why an offer or a candidate is not in the answer. Data, not log lines: `explain` and the JSON show them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::policy::BrokenRule;
use gpuplan_estimate::Infeasible;
use gpuplan_estimate::load::FIRST;
use gpuplan_hardware::CloudId;
use gpuplan_market::{Booking, Suspicion};
use gpuplan_units::{Bytes, GpuCount, Hours, Seconds, Usd, UsdPerHour};

/// Why a candidate is out, in one word: what a script looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RejectionReason {
    Policy,
    NotOffered,
    PriceSuspect,
    PriceStale,
    NoCapacity,
    NoNetwork,
    Memory,
    Layout,
    Latency,
    Availability,
    Unsupported,
    Deadline,
    MaxPrice,
    Budget,
    Dominated,
    /// A reason that a newer program wrote.
    #[serde(other)]
    Other,
}

impl RejectionReason {
    /// As JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::NotOffered => "not-offered",
            Self::PriceSuspect => "price-suspect",
            Self::PriceStale => "price-stale",
            Self::NoCapacity => "no-capacity",
            Self::NoNetwork => "no-network",
            Self::Memory => "memory",
            Self::Layout => "layout",
            Self::Latency => "latency",
            Self::Availability => "availability",
            Self::Unsupported => "unsupported",
            Self::Deadline => "deadline",
            Self::MaxPrice => "max-price",
            Self::Budget => "budget",
            Self::Dominated => "dominated",
            Self::Other => "other",
        }
    }
}

/// What people who wait for a served model wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyTarget {
    FirstToken,
    EveryFurtherToken,
}

/// Why one offer or candidate is out, with the figures that say so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Rejection {
    /// The user asks for another GPU, cloud, region or way to buy.
    OtherGpu,
    /// A service needs so many of these GPUs, which `--gpus` does not allow.
    OtherCount {
        gpu: String,
        needed_gpus: u32,
    },
    /// Of all that are elsewhere, the cheapest machine is at this cloud, at this rate of one machine. Plans that were made before it was said have neither.
    OtherCloud {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cloud: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_usd_per_hour: Option<UsdPerHour>,
    },
    /// Of all that are elsewhere, the cheapest machine is in this region, at this rate of one machine.
    OtherRegion {
        region: String,
        rate_usd_per_hour: UsdPerHour,
    },
    OtherPurchase,
    SpecialAccount,
    /// Hardly any published run on this vendor's chips is in the fit.
    UnfittedVendor,
    NotSold,
    SuspectPrice {
        suspicion: Suspicion,
    },
    /// Older than a price may be that a machine is started on.
    StalePrice {
        age_hours: Hours,
    },
    /// The cloud says that it has none.
    SoldOut,
    /// Several machines, and no network between them that GPUs can use.
    NoNetwork,
    /// A rule of `policy.toml` about what may be rented, or about what a run may cost.
    Policy(BrokenRule),
    /// More machines than the user owns.
    TooFewOwned {
        owned_nodes: u32,
    },
    /// The span for which machines are sold ahead is too short, or for too few of them.
    OtherSpan {
        booking: Booking,
        nodes: u32,
        needed_hours: Hours,
    },
    /// Nobody has machines on these terms for so long.
    TooLong {
        needed_hours: Hours,
        most_hours: Hours,
    },
    /// The user's own capacity ends before the run.
    OwnedUntil {
        until: Timestamp,
    },
    /// The smallest layout needs more memory than a GPU has.
    OutOfMemory {
        needed_bytes: Bytes,
        available_bytes: Bytes,
    },
    Indivisible {
        what: String,
        gpus: u32,
    },
    /// A run of a sweep takes more GPUs than the machine has.
    SweepRunTooLarge {
        gpus_per_run: GpuCount,
        gpus: u32,
    },
    /// A run of a sweep asks for a part of what is a slice already.
    SliceOfSlice,
    Unsupported {
        detail: String,
    },
    /// A service needs more machines for its load than are looked at.
    Overloaded {
        replicas: f64,
        requests_per_second_each: f64,
        nodes: f64,
        most_nodes: u32,
        /// What so many machines at most would answer.
        most_requests_per_second: f64,
    },
    /// A served model cannot answer as fast as required, however little it has to do.
    TooSlow {
        target: LatencyTarget,
        least_seconds: Seconds,
        target_seconds: Seconds,
    },
    /// The run ends too late, with the confidence that the user wants.
    Deadline {
        needed_hours: Hours,
        deadline_hours: Hours,
        confidence: f64,
    },
    /// Spot machines without on-demand machines to fall back to.
    NoFallback,
    /// The policy could not be run on what may come.
    NoForecast {
        detail: String,
    },
    /// More spot machines at once than anybody has probed for, which the user has not asked for.
    UnprobedSpotCount {
        nodes: u32,
        most_nodes: u32,
    },
    /// Spot machines of a service where no on-demand ones can take their place.
    NoStandby,
    /// A replica of a service over several spot machines, of which each ends it.
    SplitOverSpot,
    /// Spot machines of a service that are lost together leave too few, however many are spare. Shares of time.
    TooFewReplicas {
        short_share: f64,
        allowed_share: f64,
        places: usize,
    },
    /// The run takes so little longer than a start that waiting for spot is not worth it.
    TooShortForSpot {
        work_hours: Hours,
        start_hours: Hours,
    },
    /// On-demand costs hardly more than spot.
    SpotSavesLittle,
    /// On spot, too much already on average, by a first guess without a forecast.
    GuessedOverBudget {
        expected_usd: Usd,
        budget_usd: Usd,
    },
    /// On spot, too long already on average, by a first guess without a forecast.
    GuessedLate {
        expected_hours: Hours,
        deadline_hours: Hours,
    },
    MaxPrice {
        rate_usd_per_hour: Usd,
        limit_usd_per_hour: Usd,
    },
    /// The run costs too much, with the confidence that the user wants.
    Budget {
        most_usd: Usd,
        budget_usd: Usd,
        confidence: f64,
    },
    /// Another plan is cheaper and no slower.
    Dominated {
        cost_usd: Usd,
        run_hours: Hours,
    },
    /// The cost is beyond counting.
    Uncountable,
}

impl From<Infeasible> for Rejection {
    fn from(misfit: Infeasible) -> Self {
        match misfit {
            Infeasible::NeedsMemory { need, have } => Self::OutOfMemory { needed_bytes: need, available_bytes: have },
            Infeasible::Indivisible { what, by } => Self::Indivisible { what: what.to_owned(), gpus: by },
            Infeasible::Unsupported { detail } => Self::Unsupported { detail },
            Infeasible::Slow { what, least, target } => {
                let is_first = what == FIRST;
                Self::TooSlow {
                    target: if is_first { LatencyTarget::FirstToken } else { LatencyTarget::EveryFurtherToken },
                    least_seconds: least,
                    target_seconds: target,
                }
            }
        }
    }
}

impl Rejection {
    pub fn other_cloud(cloud: &CloudId, rate: UsdPerHour) -> Self {
        Self::OtherCloud { cloud: Some(cloud.to_string()), rate_usd_per_hour: Some(rate) }
    }

    /// The word of the JSON's `reason`.
    pub fn reason(&self) -> RejectionReason {
        match self {
            Self::OtherGpu
            | Self::OtherCount { .. }
            | Self::OtherCloud { .. }
            | Self::OtherRegion { .. }
            | Self::OtherPurchase
            | Self::SpecialAccount
            | Self::Policy(_)
            | Self::UnfittedVendor => RejectionReason::Policy,
            Self::TooShortForSpot { .. } | Self::SpotSavesLittle => RejectionReason::Dominated,
            Self::NoStandby
            | Self::NotSold
            | Self::TooFewOwned { .. }
            | Self::OwnedUntil { .. }
            | Self::OtherSpan { .. }
            | Self::TooLong { .. } => RejectionReason::NotOffered,
            Self::SuspectPrice { suspicion: Suspicion::ZoneUnverified | Suspicion::PlaceUnknown } => {
                RejectionReason::NotOffered
            }
            Self::SuspectPrice { suspicion: Suspicion::NotRepeated } | Self::StalePrice { .. } => {
                RejectionReason::PriceStale
            }
            Self::SuspectPrice { .. } => RejectionReason::PriceSuspect,
            Self::SoldOut | Self::UnprobedSpotCount { .. } => RejectionReason::NoCapacity,
            Self::NoNetwork => RejectionReason::NoNetwork,
            Self::OutOfMemory { .. } => RejectionReason::Memory,
            Self::Indivisible { .. } => RejectionReason::Layout,
            Self::Unsupported { .. }
            | Self::SweepRunTooLarge { .. }
            | Self::SliceOfSlice
            | Self::Uncountable
            | Self::Overloaded { .. }
            | Self::NoForecast { .. } => RejectionReason::Unsupported,
            Self::TooSlow { .. } => RejectionReason::Latency,
            Self::TooFewReplicas { .. } | Self::SplitOverSpot => RejectionReason::Availability,
            Self::Deadline { .. } | Self::GuessedLate { .. } | Self::NoFallback => RejectionReason::Deadline,
            Self::MaxPrice { .. } => RejectionReason::MaxPrice,
            Self::Budget { .. } | Self::GuessedOverBudget { .. } => RejectionReason::Budget,
            Self::Dominated { .. } => RejectionReason::Dominated,
        }
    }

    /// How far the candidate got: later filters mean it was closer.
    pub fn progress(&self) -> u8 {
        match self {
            Self::OtherGpu => 0,
            // Nobody knows whether it is in the region that was asked for.
            Self::SuspectPrice { suspicion: Suspicion::PlaceUnknown } => 1,
            Self::Policy(broken) if broken.violation.is_about_cost() => 9,
            Self::OtherCloud { .. }
            | Self::Policy(_)
            | Self::OtherPurchase
            | Self::SpecialAccount
            | Self::UnfittedVendor
            | Self::NotSold => 1,
            Self::SuspectPrice { .. } | Self::StalePrice { .. } | Self::SoldOut | Self::OtherRegion { .. } => 2,
            Self::Unsupported { .. }
            | Self::SweepRunTooLarge { .. }
            | Self::SliceOfSlice
            | Self::Uncountable
            | Self::NoNetwork
            | Self::TooFewOwned { .. }
            | Self::UnprobedSpotCount { .. } => 3,
            Self::Indivisible { .. } | Self::OtherCount { .. } => 4,
            Self::OutOfMemory { .. } | Self::NoStandby | Self::SplitOverSpot => 5,
            Self::TooSlow { .. }
            | Self::TooFewReplicas { .. }
            | Self::NoFallback
            | Self::NoForecast { .. }
            | Self::GuessedLate { .. }
            | Self::GuessedOverBudget { .. }
            | Self::TooShortForSpot { .. }
            | Self::SpotSavesLittle => 6,
            Self::Deadline { .. }
            | Self::OwnedUntil { .. }
            | Self::OtherSpan { .. }
            | Self::TooLong { .. }
            | Self::Overloaded { .. } => 7,
            Self::MaxPrice { .. } => 8,
            Self::Budget { .. } => 9,
            Self::Dominated { .. } => 10,
        }
    }

    /// Whether the user asked for something else altogether: such candidates are counted, not listed one by one.
    pub fn is_about_request(&self) -> bool {
        matches!(self, Self::OtherGpu | Self::OtherCloud { .. } | Self::OtherRegion { .. })
    }

    /// Size of the miss, to find the nearest among equals.
    pub fn distance(&self) -> f64 {
        match self {
            Self::OtherRegion { rate_usd_per_hour, .. } => rate_usd_per_hour.dollars(),
            Self::OtherCloud { rate_usd_per_hour, .. } => rate_usd_per_hour.map_or(f64::INFINITY, UsdPerHour::dollars),
            Self::OutOfMemory { needed_bytes, available_bytes } => needed_bytes.0 / available_bytes.0,
            Self::TooSlow { least_seconds, target_seconds, .. } => least_seconds.0 / target_seconds.0,
            Self::OtherCount { needed_gpus, .. } => f64::from(*needed_gpus),
            Self::Overloaded { nodes, most_nodes, .. } => nodes / f64::from(*most_nodes),
            Self::TooFewReplicas { short_share, allowed_share, .. } => short_share / allowed_share,
            Self::Deadline { needed_hours, deadline_hours, .. } => needed_hours.0 / deadline_hours.0,
            Self::MaxPrice { rate_usd_per_hour, limit_usd_per_hour } => {
                rate_usd_per_hour.dollars() / limit_usd_per_hour.dollars()
            }
            Self::Budget { most_usd, budget_usd, .. } => most_usd.dollars() / budget_usd.dollars(),
            Self::GuessedOverBudget { expected_usd, budget_usd } => expected_usd.dollars() / budget_usd.dollars(),
            Self::GuessedLate { expected_hours, deadline_hours } => expected_hours.0 / deadline_hours.0,
            Self::Dominated { cost_usd, .. } => cost_usd.dollars(),
            _ => 0.0,
        }
    }

    /// Whether this came closer than another: further through the filters, or as far with a smaller miss.
    pub fn is_nearer_than(&self, other: &Self) -> bool {
        let (progress, others) = (self.progress(), other.progress());
        progress > others || (progress == others && self.distance() < other.distance())
    }
}

/// Of some refused candidates the one that came closest.
#[derive(Clone, Debug)]
pub struct Nearest {
    pub why: Rejection,
    pub nodes: u32,
    /// All of them.
    pub count: u64,
}

impl Nearest {
    /// The first of them, which is still to be added.
    pub fn new(why: Rejection, nodes: u32) -> Self {
        Self { why, nodes, count: 0 }
    }

    pub fn add(&mut self, why: Rejection, nodes: u32) {
        self.count += 1;
        if why.is_nearer_than(&self.why) {
            (self.why, self.nodes) = (why, nodes);
        }
    }
}

/// Offers or candidates that were refused, represented by the one that came closest.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// Names them: the machine with its count and terms, or what they share.
    pub what: String,
    pub why: Rejection,
    /// Offers or candidates that this line stands for.
    pub count: u64,
}
