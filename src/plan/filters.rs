//! Named reasons why something is not in the answer. Data, not log lines: `explain` and the JSON show them.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::limits::{Limits, MOST_NODES, PurchaseChoice};
use crate::policy::Broken;
use gpuplan_estimate::Misfit;
use gpuplan_estimate::load::FIRST;
use gpuplan_hardware::{Hardware, InstanceType};
use gpuplan_market::{Availability, Offer, Purchase, Suspicion};
use gpuplan_units::{Hours, Seconds, Usd};

/// Word of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
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
}

impl Reason {
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
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Why one candidate is out, with the figures that say so.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    GpuNotAsked,
    CloudNotAsked,
    RegionNotAsked,
    TermsNotAsked,
    SpecialAccount,
    /// No published run on this vendor's chips is in the fit.
    UnfittedVendor,
    NotSold,
    Suspect(Suspicion),
    /// Older than a price may be that a machine is started on.
    Stale {
        age: Hours,
    },
    /// The cloud said that it has none.
    SoldOut,
    NoNetwork,
    /// A rule of `policy.toml` about what may be rented, or about what a run may cost.
    Policy(Broken),
    PolicyCost(Broken),
    /// More machines than the user has.
    OwnedNodes {
        have: u32,
    },
    /// The user's capacity ends before the run.
    OwnedUntil {
        until: Timestamp,
    },
    Misfit(Misfit),
    /// The hours that are needed with the asked confidence.
    Deadline {
        needed: Hours,
        deadline: Hours,
        confidence: f64,
    },
    /// Spot machines without on-demand machines to fall back to.
    NoPromise,
    /// The policy could not be run on what may come.
    NoForecast {
        detail: String,
    },
    /// Spot machines of a service where no on-demand ones can take their place.
    NothingStandsIn,
    /// A replica of a service over several spot machines, of which each ends it.
    SplitOverSpot,
    /// Spot machines of a service that are lost together leave too few, however many are spare. Shares of time.
    TooFewReplicas {
        short: f64,
        allowed: f64,
        places: usize,
    },
    /// The run takes so little longer than a start that waiting for spot is not worth it.
    TooShortForSpot {
        work: Hours,
        start: Hours,
    },
    /// On-demand costs hardly more than spot.
    SpotSavesLittle,
    /// On spot, too much or too long already on average, by a first guess without a forecast.
    GuessedDear {
        expected: Usd,
        budget: Usd,
    },
    GuessedLate {
        expected: Hours,
        deadline: Hours,
    },
    /// Falling back has nothing to be in time for.
    NoDeadline,
    MaxPrice {
        rate: Usd,
        limit: Usd,
    },
    /// What it costs at most with the asked confidence.
    Budget {
        most: Usd,
        budget: Usd,
        confidence: f64,
    },
    Dominated {
        cost: Usd,
        hours: Hours,
    },
}

/// One line of the answer's `rejected`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rejection {
    pub what: String,
    pub reason: Reason,
    pub detail: String,
    pub nearest_fix: String,
    /// Offers or candidates that this line stands for.
    pub count: u64,
}

impl Why {
    pub fn reason(&self) -> Reason {
        match self {
            Self::GpuNotAsked
            | Self::CloudNotAsked
            | Self::RegionNotAsked
            | Self::TermsNotAsked
            | Self::SpecialAccount
            | Self::Policy(_)
            | Self::PolicyCost(_)
            | Self::UnfittedVendor => Reason::Policy,
            Self::TooShortForSpot { .. } | Self::SpotSavesLittle => Reason::Dominated,
            Self::NothingStandsIn | Self::NotSold | Self::OwnedNodes { .. } | Self::OwnedUntil { .. } => {
                Reason::NotOffered
            }
            Self::Suspect(Suspicion::ZoneUnverified | Suspicion::PlaceUnknown) => Reason::NotOffered,
            Self::Suspect(Suspicion::NotRepeated) | Self::Stale { .. } => Reason::PriceStale,
            Self::Suspect(_) => Reason::PriceSuspect,
            Self::SoldOut => Reason::NoCapacity,
            Self::NoNetwork => Reason::NoNetwork,
            Self::Misfit(Misfit::NeedsMemory { .. }) => Reason::Memory,
            Self::Misfit(Misfit::Indivisible { .. }) => Reason::Layout,
            Self::Misfit(Misfit::Unsupported { .. } | Misfit::Overloaded { .. }) => Reason::Unsupported,
            Self::Misfit(Misfit::Slow { .. }) => Reason::Latency,
            Self::TooFewReplicas { .. } | Self::SplitOverSpot => Reason::Availability,
            Self::NoForecast { .. } => Reason::Unsupported,
            Self::Deadline { .. } | Self::GuessedLate { .. } | Self::NoPromise | Self::NoDeadline => Reason::Deadline,
            Self::MaxPrice { .. } => Reason::MaxPrice,
            Self::Budget { .. } | Self::GuessedDear { .. } => Reason::Budget,
            Self::Dominated { .. } => Reason::Dominated,
        }
    }

    /// How far the candidate got: later filters mean it was closer.
    pub fn progress(&self) -> u8 {
        match self {
            Self::GpuNotAsked | Self::CloudNotAsked | Self::RegionNotAsked => 0,
            Self::Policy(_) | Self::TermsNotAsked | Self::SpecialAccount | Self::UnfittedVendor | Self::NotSold => 1,
            Self::Suspect(_) | Self::Stale { .. } | Self::SoldOut => 2,
            Self::Misfit(Misfit::Unsupported { .. }) | Self::NoNetwork | Self::OwnedNodes { .. } => 3,
            Self::Misfit(Misfit::Indivisible { .. }) => 4,
            Self::Misfit(Misfit::NeedsMemory { .. }) | Self::NothingStandsIn | Self::SplitOverSpot => 5,
            Self::Misfit(Misfit::Slow { .. }) | Self::TooFewReplicas { .. } => 6,
            Self::NoPromise
            | Self::NoDeadline
            | Self::NoForecast { .. }
            | Self::GuessedLate { .. }
            | Self::GuessedDear { .. }
            | Self::TooShortForSpot { .. }
            | Self::SpotSavesLittle => 6,
            Self::Deadline { .. } | Self::OwnedUntil { .. } | Self::Misfit(Misfit::Overloaded { .. }) => 7,
            Self::MaxPrice { .. } => 8,
            Self::Budget { .. } | Self::PolicyCost(_) => 9,
            Self::Dominated { .. } => 10,
        }
    }

    /// Size of the miss, to find the nearest among equals.
    pub fn distance(&self) -> f64 {
        match self {
            Self::Misfit(Misfit::NeedsMemory { need, have }) => need.0 / have.0,
            Self::Misfit(Misfit::Slow { least, target, .. }) => least.0 / target.0,
            Self::Misfit(Misfit::Overloaded { machines, most, .. }) => machines / f64::from(*most),
            Self::TooFewReplicas { short, allowed, .. } => short / allowed,
            Self::Deadline { needed, deadline, .. } => needed.0 / deadline.0,
            Self::MaxPrice { rate, limit } => rate.dollars() / limit.dollars(),
            Self::Budget { most, budget, .. } => most.dollars() / budget.dollars(),
            Self::GuessedDear { expected, budget } => expected.dollars() / budget.dollars(),
            Self::GuessedLate { expected, deadline } => expected.0 / deadline.0,
            Self::Dominated { cost, .. } => cost.dollars(),
            _ => 0.0,
        }
    }

    pub fn detail(&self) -> String {
        match self {
            Self::GpuNotAsked => "another GPU was asked for".to_owned(),
            Self::CloudNotAsked => "another cloud was asked for".to_owned(),
            Self::RegionNotAsked => "another region was asked for".to_owned(),
            Self::TermsNotAsked => "these terms were not asked for".to_owned(),
            Self::SpecialAccount => "the region needs an account of its own".to_owned(),
            Self::UnfittedVendor => "no published run on this vendor's chips is in the fit".to_owned(),
            Self::Policy(broken) | Self::PolicyCost(broken) => {
                format!("policy.toml line {}: {}", broken.line, broken.detail)
            }
            Self::OwnedNodes { have } => format!("capacity.toml has {have} of these machines"),
            Self::OwnedUntil { until } => format!("capacity.toml has them until {} only", until.strftime("%Y-%m-%d")),
            Self::NotSold => "the cloud does not sell this machine on these terms".to_owned(),
            Self::Suspect(suspicion) => suspicion.explanation().to_owned(),
            Self::Stale { age } => format!("its price was seen {age} ago, and newer ones are known"),
            Self::SoldOut => "the cloud says that it has none of it now".to_owned(),
            Self::NoNetwork => "no network between these machines is known that GPUs can use".to_owned(),
            Self::Misfit(misfit) => misfit_detail(misfit),
            Self::NothingStandsIn => {
                "spot may be gone for hours, and its region has no on-demand machine to stand in".to_owned()
            }
            Self::SplitOverSpot => "a replica over several spot machines ends with each of them".to_owned(),
            Self::TooFewReplicas { short, allowed, places } => format!(
                "machines in {places} {} may be lost together: too few replicas for {:.1} % of the time, {:.1} % are allowed",
                if *places == 1 { "place" } else { "places" },
                short * 100.0,
                allowed * 100.0
            ),
            Self::Deadline { needed, deadline, confidence } => {
                format!("ends after {needed} with {:.0} % certainty, {deadline} are left", confidence * 100.0)
            }
            Self::NoPromise => {
                "spot may be gone for hours, and its region has no on-demand price to fall back to".to_owned()
            }
            Self::NoForecast { detail } => format!("nobody can say what spot will do for so long: {detail}"),
            Self::GuessedDear { expected, budget } => {
                format!("costs ${:.2} on average by a first guess, over ${:.2}", expected.dollars(), budget.dollars())
            }
            Self::GuessedLate { expected, deadline } => {
                format!("takes {expected} on average by a first guess, {deadline} are left")
            }
            Self::TooShortForSpot { work, start } => {
                format!("{work} of work is too little to wait for spot, when a start alone takes {start}")
            }
            Self::SpotSavesLittle => "on-demand costs hardly more than spot here".to_owned(),
            Self::NoDeadline => "without a deadline there is nothing to fall back for".to_owned(),
            Self::MaxPrice { rate, limit } => format!("${:.2} an hour is over ${:.2}", rate.dollars(), limit.dollars()),
            Self::Budget { most, budget, confidence } => {
                format!(
                    "${:.2} with {:.0} % certainty is over ${:.2}",
                    most.dollars(),
                    confidence * 100.0,
                    budget.dollars()
                )
            }
            Self::Dominated { cost, hours } => {
                format!("${:.2} and {hours} at best: another plan is cheaper and no slower", cost.dollars())
            }
        }
    }

    /// What would let it in.
    pub fn fix(&self) -> String {
        match self {
            Self::GpuNotAsked => "widen --gpus".to_owned(),
            Self::CloudNotAsked => "add it with --cloud".to_owned(),
            Self::RegionNotAsked => "add it with --region".to_owned(),
            Self::TermsNotAsked => "change --purchase".to_owned(),
            Self::Policy(broken) | Self::PolicyCost(broken) => {
                format!("line {} of policy.toml, by whoever keeps it", broken.line)
            }
            Self::OwnedNodes { .. } | Self::OwnedUntil { .. } => "capacity.toml, if there is more".to_owned(),
            Self::SpecialAccount => "name the region with --region".to_owned(),
            Self::UnfittedVendor => "name the chip with --gpus".to_owned(),
            Self::Suspect(Suspicion::PlaceUnknown) => "name its cloud with --cloud".to_owned(),
            Self::Suspect(Suspicion::LocalZone | Suspicion::ZoneOutlier) => "name its zone with --region".to_owned(),
            Self::Stale { .. } | Self::Suspect(Suspicion::NotRepeated) => "--accept-stale-prices".to_owned(),
            Self::SoldOut => "another place, or later".to_owned(),
            Self::NotSold | Self::Suspect(_) => "--include-suspect after checking the price yourself".to_owned(),
            Self::NoNetwork => "--allow-slow-network".to_owned(),
            Self::Misfit(Misfit::NeedsMemory { need, .. }) => {
                format!("a GPU with {need}, more GPUs to split over, or a shorter sequence")
            }
            Self::Misfit(Misfit::Indivisible { .. }) => "a global batch that more counts divide".to_owned(),
            Self::Misfit(Misfit::Unsupported { .. }) => "-".to_owned(),
            Self::Misfit(Misfit::Overloaded { machines, .. }) if *machines <= f64::from(MOST_NODES) => {
                format!("--max-nodes {machines:.0}")
            }
            Self::Misfit(Misfit::Overloaded { requests_per_second, .. }) => {
                format!(
                    "at most {:.0} requests a second here, or the load in several plans",
                    requests_per_second.floor()
                )
            }
            Self::Misfit(Misfit::Slow { what, least, .. }) => {
                let key = if *what == FIRST { "time_to_first_token" } else { "time_per_token" };
                format!("serving.{key} = \"{:.0}ms\", fewer bits a weight, or a faster GPU", (least.0 * 1.1e3).ceil())
            }
            Self::NothingStandsIn | Self::SplitOverSpot => "--purchase on-demand".to_owned(),
            // Rounded down, so that it does.
            Self::TooFewReplicas { short, .. } => {
                format!("serving.availability = {:.3}", ((1.0 - short) * 1000.0).floor() / 1000.0)
            }
            Self::Deadline { needed, .. } => format!("--deadline {:.0}h", needed.0.ceil()),
            Self::GuessedDear { expected, .. } => format!("--budget {:.0}", (expected.dollars() * 2.0).ceil()),
            Self::GuessedLate { expected, .. } => format!("--deadline {:.0}h", (expected.0 * 2.0).ceil()),
            Self::NoForecast { .. } => "--purchase on-demand".to_owned(),
            Self::TooShortForSpot { .. } | Self::SpotSavesLittle => "--purchase spot-with-fallback".to_owned(),
            Self::NoDeadline => "--deadline 48h".to_owned(),
            Self::NoPromise => "--purchase spot accepts it without a promise".to_owned(),
            Self::MaxPrice { rate, .. } => format!("--max-price {:.2}", (rate.dollars() * 100.0).ceil() / 100.0),
            Self::Budget { most, .. } => format!("--budget {:.0}", most.dollars().ceil()),
            Self::Dominated { .. } => "name it with --gpus, --cloud or --region".to_owned(),
        }
    }
}

fn misfit_detail(misfit: &Misfit) -> String {
    match misfit {
        Misfit::NeedsMemory { need, have } => format!("needs {need} of {have} a GPU in the smallest layout"),
        Misfit::Indivisible { what, by } => format!("no layout divides {what} over {by} GPUs"),
        Misfit::Unsupported { detail } | Misfit::Overloaded { detail, .. } => detail.clone(),
        Misfit::Slow { what, least, target } => {
            let (least, target) = (milliseconds(*least), milliseconds(*target));
            format!("{what} takes {least} on an idle replica, {target} are asked for")
        }
    }
}

/// With one digit after the point below ten, and two below one.
pub fn milliseconds(time: Seconds) -> String {
    let figure = time.0 * 1e3;
    let digits = if figure >= 10.0 {
        0
    } else if figure >= 1.0 {
        1
    } else {
        2
    };
    format!("{figure:.digits$} ms")
}

/// Filters that need no physics, in order; the first that refuses gives the reason.
pub fn refuse_offer(offer: &Offer, instance: &InstanceType, hardware: &Hardware, limits: &Limits) -> Option<Why> {
    let gpu = hardware.gpu(instance.node.gpu);
    let region_named = limits.regions.iter().any(|region| offer.place.region.starts_with(region.as_str()));
    let zone_named = offer.place.zone_id.as_deref().is_some_and(|zone| limits.regions.iter().any(|name| name == zone));
    if !limits.gpus.is_empty() && !limits.gpus.iter().any(|selector| selector.matches_gpu(instance.node.gpu, gpu)) {
        return Some(Why::GpuNotAsked);
    }
    if limits.instance_type.as_ref().is_some_and(|name| *name != instance.name) {
        return Some(Why::GpuNotAsked);
    }
    if limits.gpus.is_empty() && limits.instance_type.is_none() && gpu.architecture.is_amd() {
        return Some(Why::UnfittedVendor);
    }
    if offer.owned.is_none() && !limits.clouds.is_empty() && !limits.clouds.contains(&instance.cloud) {
        return Some(Why::CloudNotAsked);
    }
    if offer.owned.is_none() && !limits.regions.is_empty() && !region_named && !zone_named {
        return Some(Why::RegionNotAsked);
    }
    let asked = match (limits.purchase, offer.purchase) {
        // What is paid for already is used first, unless only spot was asked for.
        (choice, _) if offer.owned.is_some() => !choice.is_spot(),
        (PurchaseChoice::Any | PurchaseChoice::Commitment, Purchase::OnDemand | Purchase::Spot) => true,
        (PurchaseChoice::OnDemand, purchase) => purchase == Purchase::OnDemand,
        (choice, purchase) if choice.is_spot() => purchase == Purchase::Spot,
        (PurchaseChoice::Commitment, Purchase::Commitment { .. }) => true,
        (PurchaseChoice::CapacityBlock, purchase) => purchase == Purchase::CapacityBlock,
        _ => false,
    };
    if !asked {
        return Some(Why::TermsNotAsked);
    }
    if let Some(broken) = limits.policy.as_ref().and_then(|policy| policy.breaks(offer, instance, hardware)) {
        return Some(Why::Policy(broken));
    }
    if offer.needs_special_account() && !region_named {
        return Some(Why::SpecialAccount);
    }
    let sold = match offer.purchase {
        Purchase::OnDemand => instance.sold_as.on_demand,
        Purchase::Spot => instance.sold_as.spot,
        _ => true,
    };
    if !sold {
        return Some(Why::NotSold);
    }
    if offer.availability == Availability::SoldOut {
        return Some(Why::SoldOut);
    }
    let accepted = |suspicion: &Suspicion| match suspicion {
        Suspicion::NotRepeated => limits.accept_stale,
        Suspicion::LocalZone | Suspicion::ZoneOutlier => zone_named,
        Suspicion::PlaceUnknown => limits.clouds.contains(&instance.cloud),
        _ => false,
    };
    let suspicion = offer.suspicions.iter().find(|suspicion| !accepted(suspicion));
    suspicion.filter(|_| !limits.include_suspect).map(|suspicion| Why::Suspect(*suspicion))
}

/// Whether a selector's count admits this many GPUs of this chip.
pub fn count_is_asked(instance: &InstanceType, hardware: &Hardware, limits: &Limits, gpus: u32) -> bool {
    let gpu = hardware.gpu(instance.node.gpu);
    limits.gpus.is_empty()
        || limits
            .gpus
            .iter()
            .any(|selector| selector.matches_gpu(instance.node.gpu, gpu) && selector.matches_count(gpus))
}
