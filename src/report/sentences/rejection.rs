//! Why an offer or a candidate is not in the answer, and what would let it in.

use crate::sentences::{milliseconds, span};
use gpuplan_market::Suspicion;
use gpuplan_plan::Rejection;
use gpuplan_plan::explanation::rejection::LatencyTarget;
use gpuplan_plan::limits::MOST_NODES;
use gpuplan_plan::training::profile::UnusableProfile;

/// What keeps it out, with its figures.
pub fn sentence(rejection: &Rejection) -> String {
    let percent = |share: &f64| share * 100.0;
    match rejection {
        Rejection::Policy(broken) => format!("policy.toml line {}: {}", broken.line, broken.violation),
        Rejection::TooFewOwned { owned_nodes } => format!("capacity.toml has {owned_nodes} of these machines"),
        Rejection::OwnedUntil { until } => format!("capacity.toml has them until {} only", until.strftime("%Y-%m-%d")),
        Rejection::OtherSpan { booking, nodes, needed_hours } => {
            format!("{} can be booked, {nodes} for {needed_hours} needed", span(booking))
        }
        Rejection::TooLong { needed_hours, most_hours } => {
            format!("takes {needed_hours}, and is sold for {most_hours} at most")
        }
        Rejection::OtherCount { gpu, needed_gpus } => {
            format!("the load takes {needed_gpus} x {gpu}, a number that --gpus does not allow")
        }
        Rejection::StalePrice { age_hours } => format!("its price was seen {age_hours} ago, and newer ones are known"),
        Rejection::OutOfMemory { needed_bytes, available_bytes } => {
            format!("needs {needed_bytes} of {available_bytes} a GPU in the smallest layout")
        }
        Rejection::Indivisible { what, gpus } => format!("no layout divides {what} over {gpus} GPUs"),
        Rejection::SweepRunTooLarge { gpus_per_run, gpus } => {
            format!("a run of the sweep takes {gpus_per_run} GPUs, and the machine has {gpus}")
        }
        Rejection::Overloaded { replicas, requests_per_second_each: each, nodes, most_nodes, .. } => format!(
            "{replicas:.0} replicas of {each:.2} requests/s each need {nodes:.0} machines, more than the {most_nodes} that are looked at"
        ),
        Rejection::TooSlow { target, least_seconds, target_seconds } => {
            let what = match target {
                LatencyTarget::FirstToken => "the first token",
                LatencyTarget::EveryFurtherToken => "every further token",
            };
            let (least, target) = (milliseconds(*least_seconds), milliseconds(*target_seconds));
            format!("{what} takes {least} on an idle replica, {target} are asked for")
        }
        Rejection::TooFewReplicas { short_share, allowed_share, places } => format!(
            "machines in {places} {} may be lost together: too few replicas for {:.1} % of the time, {:.1} % are allowed",
            if *places == 1 { "place" } else { "places" },
            percent(short_share),
            percent(allowed_share)
        ),
        Rejection::NoForecast { detail } => format!("nobody can say what spot will do for so long: {detail}"),
        Rejection::TooShortForSpot { work_hours, start_hours } => {
            format!("{work_hours} of work is too little to wait for spot, when a start alone takes {start_hours}")
        }
        Rejection::Deadline { needed_hours, deadline_hours, confidence } => {
            let certainty = percent(confidence);
            format!("ends after {needed_hours} with {certainty:.0} % certainty, {deadline_hours} are left")
        }
        Rejection::GuessedLate { expected_hours, deadline_hours } => {
            format!("takes {expected_hours} on average by a first guess, {deadline_hours} are left")
        }
        Rejection::MaxPrice { rate_usd_per_hour: rate, limit_usd_per_hour: limit } => {
            format!("${:.2} an hour is over ${:.2}", rate.dollars(), limit.dollars())
        }
        Rejection::Budget { most_usd, budget_usd, confidence } => {
            let (most, budget, certainty) = (most_usd.dollars(), budget_usd.dollars(), percent(confidence));
            format!("${most:.2} with {certainty:.0} % certainty is over ${budget:.2}")
        }
        Rejection::GuessedOverBudget { expected_usd, budget_usd } => {
            let (expected, budget) = (expected_usd.dollars(), budget_usd.dollars());
            format!("costs ${expected:.2} on average by a first guess, over ${budget:.2}")
        }
        Rejection::Dominated { cost_usd, run_hours } => {
            format!("${:.2} and {run_hours} at best: another plan is cheaper and no slower", cost_usd.dollars())
        }
        Rejection::OtherCloud { .. } | Rejection::OtherRegion { .. } => elsewhere(rejection),
        plain => without_figures(plain).to_owned(),
    }
}

/// Where what was asked for can be had.
fn elsewhere(rejection: &Rejection) -> String {
    match rejection {
        Rejection::OtherCloud { cloud: Some(cloud), rate_usd_per_hour: Some(rate) } => {
            format!("another cloud was asked for; the cheapest of these is at {cloud}, ${rate} an hour a machine")
        }
        Rejection::OtherRegion { region, rate_usd_per_hour } => {
            format!(
                "another region was asked for; the cheapest of these is in {region}, ${rate_usd_per_hour} an hour a machine"
            )
        }
        _ => "another cloud was asked for".to_owned(),
    }
}

/// What needs no figures.
fn without_figures(rejection: &Rejection) -> &str {
    match rejection {
        Rejection::OtherGpu => "another GPU was asked for",
        Rejection::OtherPurchase => "these terms were not asked for",
        Rejection::SpecialAccount => "the region needs an account of its own",
        Rejection::UnfittedVendor => "hardly any published run on this vendor's chips is in the fit",
        Rejection::NotSold => "the cloud does not sell this machine on these terms",
        Rejection::UnprobedSpotCount { .. } => {
            "so many spot machines can seldom be had at once, and how seldom was counted for one kind of machine alone"
        }
        Rejection::SoldOut => "the cloud says that it has none of it now",
        Rejection::NoNetwork => "no network between these machines is known that GPUs can use",
        Rejection::SliceOfSlice => "a slice of a card is not shared again",
        Rejection::SplitOverSpot => "a replica over several spot machines ends with each of them",
        Rejection::NoStandby => "spot may be gone for hours, and its region has no on-demand machine to stand in",
        Rejection::NoFallback => "spot may be gone for hours, and its region has no on-demand price to fall back to",
        Rejection::SpotSavesLittle => "on-demand costs hardly more than spot here",
        Rejection::Uncountable => "the cost is beyond counting",
        Rejection::Unsupported { detail } => detail,
        Rejection::SuspectPrice { suspicion } => suspicion.explanation(),
        figures => figures.reason().word(),
    }
}

/// What would let it in: a thing to type, where there is one.
pub fn fix(rejection: &Rejection) -> String {
    match rejection {
        Rejection::OtherGpu => "widen --gpus".to_owned(),
        Rejection::OtherCount { gpu, needed_gpus } => format!("--gpus {gpu}:{needed_gpus}"),
        Rejection::OtherCloud { cloud, .. } => other_cloud(cloud.as_deref()),
        Rejection::OtherRegion { region, .. } => format!("--region {region}"),
        Rejection::OtherPurchase => "change --purchase".to_owned(),
        Rejection::Policy(broken) => format!("line {} of policy.toml, by whoever keeps it", broken.line),
        Rejection::TooFewOwned { .. } | Rejection::OwnedUntil { .. } => "capacity.toml, if there is more".to_owned(),
        Rejection::OtherSpan { .. } => "--live --purchase capacity-block, which asks for as much".to_owned(),
        Rejection::TooLong { .. } => "more machines, which take less time, or other terms".to_owned(),
        Rejection::SpecialAccount => "name the region with --region".to_owned(),
        Rejection::UnfittedVendor => "name the chip with --gpus".to_owned(),
        Rejection::SuspectPrice { suspicion: Suspicion::PlaceUnknown } => "name its cloud with --cloud".to_owned(),
        Rejection::SuspectPrice { suspicion: Suspicion::LocalZone | Suspicion::ZoneOutlier } => {
            "name its zone with --region".to_owned()
        }
        Rejection::StalePrice { .. } | Rejection::SuspectPrice { suspicion: Suspicion::NotRepeated } => {
            "--accept-stale-prices".to_owned()
        }
        Rejection::UnprobedSpotCount { .. } => "--spot, if you know that they can be had".to_owned(),
        Rejection::SoldOut => "another place, or later".to_owned(),
        Rejection::NotSold | Rejection::SuspectPrice { .. } => {
            "--include-suspect after checking the price yourself".to_owned()
        }
        Rejection::NoNetwork => "--allow-slow-network".to_owned(),
        Rejection::OutOfMemory { needed_bytes, .. } => {
            format!("a GPU with {needed_bytes}, more GPUs to split over, or a shorter sequence")
        }
        Rejection::Indivisible { gpus, .. } => format!("--global-batch {gpus}, or another multiple of it"),
        Rejection::Unsupported { .. }
        | Rejection::SweepRunTooLarge { .. }
        | Rejection::SliceOfSlice
        | Rejection::Uncountable => "-".to_owned(),
        Rejection::Overloaded { nodes, .. } if *nodes <= f64::from(MOST_NODES) => format!("--max-nodes {nodes:.0}"),
        Rejection::Overloaded { most_requests_per_second, .. } => {
            let most = most_requests_per_second.floor();
            format!("at most {most:.0} requests a second here, or the load in several plans")
        }
        Rejection::TooSlow { target, least_seconds, .. } => {
            let key = match target {
                LatencyTarget::FirstToken => "time_to_first_token",
                LatencyTarget::EveryFurtherToken => "time_per_token",
            };
            let least = (least_seconds.0 * 1.1e3).ceil();
            format!("serving.{key} = \"{least:.0}ms\", fewer bits a weight, or a faster GPU")
        }
        // Rounded down, so that it does.
        Rejection::TooFewReplicas { short_share, .. } => {
            format!("serving.availability = {:.3}", ((1.0 - short_share) * 1000.0).floor() / 1000.0)
        }
        Rejection::Deadline { needed_hours, .. } => format!("--deadline {:.0}h", needed_hours.0.ceil()),
        Rejection::GuessedOverBudget { expected_usd, .. } => {
            format!("--budget {:.0}", (expected_usd.dollars() * 2.0).ceil())
        }
        Rejection::GuessedLate { expected_hours, .. } => format!("--deadline {:.0}h", (expected_hours.0 * 2.0).ceil()),
        Rejection::NoStandby | Rejection::SplitOverSpot | Rejection::NoForecast { .. } => {
            "--purchase on-demand".to_owned()
        }
        Rejection::TooShortForSpot { .. } | Rejection::SpotSavesLittle => "--purchase spot-with-fallback".to_owned(),
        Rejection::NoFallback => "--purchase spot accepts it without a promise".to_owned(),
        Rejection::MaxPrice { rate_usd_per_hour, .. } => {
            format!("--max-price {:.2}", (rate_usd_per_hour.dollars() * 100.0).ceil() / 100.0)
        }
        Rejection::Budget { most_usd, .. } => format!("--budget {:.0}", most_usd.dollars().ceil()),
        Rejection::Dominated { .. } => "name it with --gpus, --cloud or --region".to_owned(),
    }
}

fn other_cloud(cloud: Option<&str>) -> String {
    match cloud {
        Some(cloud) => {
            format!("--cloud {cloud}, or `gpuplan refresh`, which asks for machines that the catalog does not have")
        }
        None => "add it with --cloud".to_owned(),
    }
}

/// Why a profile says nothing about a plan.
pub fn unusable_profile(error: &UnusableProfile) -> String {
    match error {
        UnusableProfile::DoesNotRun { why, .. } => format!("{error}: {}", sentence(why)),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_plan::limits::policy::{BrokenRule, PolicyViolation};
    use gpuplan_units::{Bytes, Hours, Seconds, Usd};

    #[test]
    fn a_rejection_says_its_figures_and_what_to_type() {
        let said = |rejection: &Rejection| (sentence(rejection), fix(rejection));
        let late = Rejection::Deadline { needed_hours: Hours(30.2), deadline_hours: Hours(24.0), confidence: 0.9 };
        let words = said(&late);
        assert!(words.0.contains("with 90 % certainty"), "{}", words.0);
        assert_eq!(words.1, "--deadline 31h");
        let memory = Rejection::OutOfMemory { needed_bytes: Bytes(96e9), available_bytes: Bytes(80e9) };
        assert!(said(&memory).0.starts_with("needs ") && said(&memory).1.starts_with("a GPU with "));
        let violation = PolicyViolation::Clouds { cloud: "gcp".to_owned() };
        let policy = Rejection::Policy(BrokenRule { line: 2, violation });
        assert_eq!(said(&policy).0, "policy.toml line 2: clouds does not list gcp");
        let usd = |text: &str| Usd::parse(text).unwrap();
        let dear = Rejection::MaxPrice { rate_usd_per_hour: usd("98.321"), limit_usd_per_hour: usd("50") };
        assert_eq!(said(&dear), ("$98.32 an hour is over $50.00".to_owned(), "--max-price 98.33".to_owned()));
        let slow = Rejection::TooSlow {
            target: LatencyTarget::EveryFurtherToken,
            least_seconds: Seconds(0.0074),
            target_seconds: Seconds(0.005),
        };
        assert_eq!(said(&slow).0, "every further token takes 7.4 ms on an idle replica, 5.0 ms are asked for");
        assert!(said(&slow).1.starts_with("serving.time_per_token = \"9ms\""));
    }
}
