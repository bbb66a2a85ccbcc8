//! What to know beside a plan: what was left out, could not be checked, or would be otherwise.

use crate::sentences::{rejection, span};
use crate::text::format;
use gpuplan_plan::Warning;
use gpuplan_plan::explanation::warning::MissingInput;
use gpuplan_plan::limits::KnownQuota;
use gpuplan_units::Hours;
use gpuplan_units::names::word;
use gpuplan_workload::Recompute;

const EQUAL_CORES: &str =
    "every core is taken to work as fast as those of the published rates; the band is for what they differ";
const CATALOG_PRICES_OF_HOSTS: &str =
    "prices of machines without GPU are those of the catalog: the clouds are asked about machines with GPUs";
const SPOT_REPLAY: &str = "spot: hours, cost and chance are replayed on availability fitted to V100 and K80 probes on AWS in 2022 (docs/risk.md)";

/// What to type for a quota.
const ASKS: &str = "`gpuplan doctor` with the same question asks";

/// One warning as a sentence: a note of the answer.
pub fn sentence(warning: &Warning) -> String {
    match warning {
        Warning::InputDecides { gpus, gpu, plan, cost_without_waiting_usd, cost_usd, waiting_share, limit } => format!(
            "input decides: {gpus} x {gpu} ({plan}) would be cheaper at about ${:.2} if samples were always at hand, and costs ${:.2}, \
             since its GPUs wait {:.0} % of a step ({limit})",
            cost_without_waiting_usd.dollars(),
            cost_usd.dollars(),
            waiting_share * 100.0,
        ),
        Warning::Measured { detail } => detail.clone(),
        Warning::ServingFigures { counts_samples, generates } => serving_figures(*counts_samples, *generates),
        Warning::OverQuota { .. }
        | Warning::QuotaWasTaken { .. }
        | Warning::QuotaUnknown { .. }
        | Warning::BetterBeyondQuota { .. } => quota(warning),
        Warning::OldPrice { .. }
        | Warning::Booked { .. }
        | Warning::NotLaunchable { .. }
        | Warning::BetterWherePricedOnly { .. }
        | Warning::BetterAtOldPrice { .. } => offer(warning),
        Warning::MostlyIdle { load_share } => mostly_idle(*load_share),
        Warning::CountedAsFp16 { gpu } => format!("{gpu} has no units for bf16: fp16 is counted, and to be asked for"),
        Warning::MostMachines { machines, limit } => {
            format!("more than {machines} machines are looked at where they are asked for: --max-nodes, up to {limit}")
        }
        Warning::RecomputesUnasked { stack, recompute, setting, step_ratio } => {
            recomputes_unasked(stack, *recompute, setting, *step_ratio)
        }
        Warning::EqualCores => EQUAL_CORES.to_owned(),
        Warning::CatalogPricesOfHosts => CATALOG_PRICES_OF_HOSTS.to_owned(),
        Warning::MeasuredHost { gpu, processor, measured, is_counted } => {
            let processor = processor.as_deref().unwrap_or("the host");
            let counts = if *is_counted {
                "counted on machines with this GPU, as far as [data] says what a sample costs"
            } else {
                "not counted, since the workload does not say what a sample costs (data.cpu_seconds_per_sample, or data.size with \
                 data.samples)"
            };
            format!("loading: beside {gpu}, {processor}: {measured}; {counts}")
        }
        Warning::InputUnchecked { usual_kind } => format!(
            "the input pipeline was not checked: [data] does not say what the samples are (kind = \"{usual_kind}\", with size and samples)"
        ),
        Warning::StorageUnchecked { usual_kind, knows_vcpus } => storage_unchecked(usual_kind, *knows_vcpus),
        Warning::InputPartlyUnchecked { missing } => {
            let missing: Vec<String> = missing.iter().map(missing_input).collect();
            format!("input: not checked in full, since nobody says {}", missing.join(", nor "))
        }
        Warning::UnpricedRequests { requests, list_price_usd } => format!(
            "not in the bill: {:.0}M requests for objects, ${list_price_usd:.0} at S3's list price of $0.0004 a thousand (unverified); shards need fewer",
            requests / 1e6,
        ),
        Warning::Unpriced { cloud, items } => {
            let items: Vec<&str> = items.iter().map(|item| item.label()).collect();
            format!("not in the bill, because {cloud} publishes no rate here: {}", items.join(", "))
        }
        Warning::SpotReplay => SPOT_REPLAY.to_owned(),
        Warning::OnDemandCost { cost_usd, plan } => {
            format!("capacity that is not taken back costs ${:.2}: {plan} (--on-demand)", cost_usd.dollars())
        }
        Warning::MoreDoubtfulOffers { offers } => {
            format!("{offers} more offers of this machine ask less and are stale or doubtful")
        }
        Warning::CheaperOffer { offer, why } => {
            format!("not taken although it asks less: {offer}: {}", rejection::sentence(why))
        }
    }
}

fn mostly_idle(load_share: f64) -> String {
    let asked = format::three_figures(load_share * 100.0);
    format!("{asked} % of what these machines could answer is asked for: an API that charges by use may cost less")
}

fn storage_unchecked(usual_kind: &str, knows_vcpus: bool) -> String {
    let cores = if knows_vcpus {
        "only the stated time of a sample was checked"
    } else {
        "nobody says how many vCPUs the machine has"
    };
    format!("{cores}; storage was not (kind = \"{usual_kind}\", with size and samples)")
}

/// What is known of the account's room for the machines.
fn quota(warning: &Warning) -> String {
    let says = |quota: &KnownQuota, age: Hours| {
        let limit = quota.limit.map_or_else(|| "any number of".to_owned(), |limit| limit.to_string());
        format!(
            "account {} may run {limit} {} of {} ({}) in {}, as {} said on {}, {} ago",
            quota.account,
            quota.unit,
            quota.code,
            quota.name,
            quota.region,
            quota.cloud,
            quota.asked_at.strftime("%Y-%m-%d"),
            format::duration(age)
        )
    };
    match warning {
        Warning::OverQuota { needed, quota, age_hours } => format!(
            "over the quota: this plan takes {needed}, and {}; {ASKS} again, and says how to ask for more",
            says(quota, *age_hours)
        ),
        Warning::QuotaWasTaken { needed, quota, age_hours } => format!(
            "the quota may be in use: this plan takes {needed}, and {}, when {} of it were in use; {ASKS} again",
            says(quota, *age_hours),
            quota.used.unwrap_or(0.0)
        ),
        Warning::QuotaUnknown { cloud, region } => {
            format!("the quota of {cloud} in {region} is not known, so there may be no room for this plan: {ASKS}")
        }
        Warning::BetterBeyondQuota { plan, needed, quota, age_hours, cost_usd, run_hours } => format!(
            "better with more quota: {} in {run_hours} ({plan}), which takes {needed}, but {}; {ASKS} again, and says how to ask for more",
            format::usd(*cost_usd),
            says(quota, *age_hours)
        ),
        _ => String::new(),
    }
}

/// What is said of the recommended offer and of those that gpuplan cannot launch on.
fn offer(warning: &Warning) -> String {
    match warning {
        Warning::OldPrice { age_hours, cloud, purchase, expected_change, p90_change } => format!(
            "{cloud} {purchase}, seen {} ago; such prices rise by {:.0} % in that time, one in ten by over {:.0} % (counted); --live asks today's",
            format::duration(*age_hours),
            expected_change * 100.0,
            p90_change * 100.0
        ),
        Warning::Booked { booking, upfront_usd } => {
            format!("{}, {} up front, used or not", span(booking), format::usd(*upfront_usd))
        }
        Warning::NotLaunchable { cloud, not_asked } if not_asked.is_empty() => format!(
            "gpuplan cannot launch at {cloud}, and nothing where it can keeps every limit: rent there yourself; `gpuplan export` writes the job"
        ),
        Warning::NotLaunchable { cloud, not_asked } => format!(
            "gpuplan cannot launch at {cloud}: rent there yourself, or look at a cloud where it can with --cloud {}",
            not_asked.join(",")
        ),
        Warning::BetterWherePricedOnly { plan, cloud, cost_usd, run_hours } => {
            format!("better, but gpuplan cannot launch at {cloud}: {} in {run_hours} ({plan})", format::usd(*cost_usd))
        }
        Warning::BetterAtOldPrice { plan, age_hours, cost_usd, run_hours } => format!(
            "better if a price of {} ago still holds: {} in {run_hours} ({plan}); --live asks",
            format::duration(*age_hours),
            format::usd(*cost_usd)
        ),
        _ => String::new(),
    }
}

fn recomputes_unasked(stack: &str, recompute: Recompute, setting: &str, step_ratio: f64) -> String {
    format!(
        "{stack} recomputes activations unless it is told not to (`{setting}`), and this plan keeps them, since they fit: turn that off, or work \
         takes {step_ratio:.2} times as long (--recompute {} plans that)",
        word(recompute)
    )
}

fn serving_figures(counts_samples: bool, generates: bool) -> String {
    if counts_samples {
        return "latency and rate are those of the engine on its GPUs, with images that lie decoded in the memory of the host: reading and \
                decoding them, the network to users and a queue before it come on top"
            .to_owned();
    }
    let answers = if generates {
        "prefixes that are cached and tokens that are guessed ahead (speculative decoding) would be faster; "
    } else {
        ""
    };
    format!(
        "latency and rate are those of the engine on its GPUs: {answers}the network to users, tokenizing and a queue before it come on top"
    )
}

fn missing_input(missing: &MissingInput) -> String {
    match missing {
        MissingInput::RecordingCost { data_kind, key } => {
            format!("what {data_kind} costs a core ({key}, or cpu_seconds_per_sample)")
        }
        MissingInput::SampleCost => {
            "what a sample costs a core (size and samples, or cpu_seconds_per_sample)".to_owned()
        }
        MissingInput::Vcpus => "how many vCPUs the machine has".to_owned(),
        MissingInput::SampleBytes => "the bytes of a sample (size, with samples or tokens)".to_owned(),
        MissingInput::DiskRates => "what the disks of this cloud reach".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_checked_is_named_with_the_line_to_add() {
        let unchecked = Warning::InputUnchecked { usual_kind: "jpeg".to_owned() };
        assert!(sentence(&unchecked).contains("kind = \"jpeg\""));
        let recording =
            MissingInput::RecordingCost { data_kind: "video".to_owned(), key: "frames_per_sample".to_owned() };
        let missing = Warning::InputPartlyUnchecked { missing: vec![recording, MissingInput::DiskRates] };
        let words = "input: not checked in full, since nobody says what video costs a core (frames_per_sample, or \
                     cpu_seconds_per_sample), nor what the disks of this cloud reach";
        assert_eq!(sentence(&missing), words);
        let requests = Warning::UnpricedRequests { requests: 9e6, list_price_usd: 3.6 };
        assert!(sentence(&requests).contains("9M requests for objects, $4 at"));
    }
}
