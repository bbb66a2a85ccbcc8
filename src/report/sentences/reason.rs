//! Why a plan is recommended.

use crate::sentences::input::wait;
use crate::sentences::milliseconds;
use crate::text::format::usd;
use gpuplan_estimate::Bound;
use gpuplan_plan::explanation::reason::RunnerUp;
use gpuplan_plan::{Objective, Reason};
use gpuplan_units::{Hours, Usd};
use gpuplan_workload::Recompute;

/// Where nothing is known of machines without GPU.
pub const AS_GPU_MACHINES: &str = "nothing is known of machines without GPU: as those with, in AWS probes of 2022";

/// One reason as a sentence.
pub fn sentence(reason: &Reason) -> String {
    match reason {
        Reason::Objective { objective, value_of_time_usd_per_hour, plans, .. } => {
            let aim = aim(*objective, *value_of_time_usd_per_hour);
            format!("{aim}, among {plans} plans that keep every limit")
        }
        Reason::Layout { layout, micro_batch, required_bytes, gpu_memory_bytes, recompute } => format!(
            "{layout} with micro batch {micro_batch} needs {required_bytes} of {gpu_memory_bytes} a GPU{}",
            match recompute {
                Recompute::None => "",
                Recompute::Selective => ", recomputing attention",
                Recompute::Full | Recompute::Offload => ", recomputing activations",
            }
        ),
        Reason::Bound { bound, share, input } => training_bound(*bound, share * 100.0, input.as_deref()),
        Reason::InputWait(waiting) => wait(waiting),
        Reason::BatchInference { sequences, weights_bytes, cache_bytes, gpu_memory_bytes } => format!(
            "nobody waits, so {sequences} sequences run at once: {weights_bytes} of weights and {cache_bytes} of {gpu_memory_bytes} a GPU"
        ),
        Reason::ReplicaLoad { headroom_share, running_requests } => format!(
            "a replica is given at most {:.0} % of what it can do, and keeps the targets for 90 % of requests with {running_requests:.0} running at once",
            headroom_share * 100.0
        ),
        Reason::ServingBound { bound, share, generates } => serving_bound(*bound, share * 100.0, *generates),
        Reason::RunnerUp(other) => runner_up(other),
        Reason::OwnRuns { runs, time_factor, p90_ratio, p90_ratio_without } => format!(
            "your finished runs: {runs}; so time x {time_factor:.2}, and nine of ten steps take at most {:.0} % more than that ({:.0} % without them)",
            (p90_ratio - 1.0) * 100.0,
            (p90_ratio_without - 1.0) * 100.0
        ),
        Reason::ProcessingBound { bound, computing_hours, cores, reading_hours, writing_hours } => format!(
            "bound by {bound}: working takes {computing_hours} on vCPUs worth {cores:.0} cores, reading {reading_hours}, storing results {writing_hours}, beside each other"
        ),
        Reason::AssumedNetwork { instance_type, gbit_per_s } => {
            format!("nobody says what network {instance_type} has: {gbit_per_s:.0} Gb/s are assumed")
        }
        Reason::MachineLosses { every_hours, lost_hours, evidence } => format!(
            "a machine is lost about every {every_hours}, and {lost_hours} with it: half of its shard and another start; {}",
            evidence.as_deref().unwrap_or(AS_GPU_MACHINES)
        ),
        Reason::OnGpuMachines { nodes, instance_type, region, purchase, cost_usd, recommended_cost_usd, run_hours } => {
            let cost = cost_usd.dollars();
            let verdict = compared_cost(*cost_usd, *recommended_cost_usd);
            format!(
                "on the CPUs of the cheapest machines with GPUs, {nodes} x {instance_type} in {region} ({purchase}), it costs ${cost:.2} in {run_hours}: {verdict}"
            )
        }
        Reason::UnpricedEgress { cloud } => {
            format!("bringing the samples out of {cloud} is not priced: no rate of it is known")
        }
        Reason::EgressAsToInternet { region } => format!(
            "bringing the samples out of {region} is priced as to the internet, the most that another region costs"
        ),
    }
}

fn aim(objective: Objective, value_of_time: Option<Usd>) -> String {
    match (objective, value_of_time) {
        (Objective::CostAndTime, Some(value)) => {
            format!("the least cost of machines and of time at {} an hour", usd(value))
        }
        (Objective::CostAndTime, None) | (Objective::Cost, _) => "the least cost".to_owned(),
        (Objective::Time, _) => "the shortest run".to_owned(),
        (Objective::Balanced, _) => "the least product of cost and time".to_owned(),
    }
}

fn training_bound(bound: Bound, percent: f64, input: Option<&str>) -> String {
    match bound {
        Bound::Compute => format!("bound by arithmetic ({percent:.0} % of a step)"),
        Bound::MemoryBandwidth => format!("bound by memory bandwidth ({percent:.0} % of a step)"),
        Bound::Launch => {
            format!("bound by kernel launches ({percent:.0} % of a step): the GPU waits for the host")
        }
        Bound::GpuLink => format!("bound by the link between GPUs ({percent:.0} % of a step)"),
        Bound::Network => format!("bound by the network ({percent:.0} % of a step)"),
        Bound::Pipeline => format!("bound by pipeline bubbles ({percent:.0} % of a step)"),
        Bound::Input => {
            let part = input.map_or_else(String::new, |part| format!(", {part}"));
            format!("bound by the input pipeline{part} ({percent:.0} % of a step): the loader cannot feed the GPU")
        }
    }
}

fn serving_bound(bound: Bound, percent: f64, generates: bool) -> String {
    match bound {
        Bound::MemoryBandwidth if !generates => {
            format!("bound by memory bandwidth: what one layer hands to the next ({percent:.0} % of the time)")
        }
        Bound::MemoryBandwidth => "bound by memory bandwidth: weights and keys are read for every token".to_owned(),
        Bound::Launch => format!("bound by the host and by kernels that begin and end ({percent:.0} % of the time)"),
        Bound::GpuLink => format!("bound by the link between GPUs ({percent:.0} % of the time)"),
        Bound::Pipeline => format!("bound by handing on between stages ({percent:.0} % of the time)"),
        Bound::Compute | Bound::Network | Bound::Input => {
            format!("bound by arithmetic ({percent:.0} % of the time)")
        }
    }
}

fn runner_up(other: &RunnerUp) -> String {
    let RunnerUp { gpus, gpu, purchase, region, cost_ratio, run_hours, recommended_run_hours, latency } = other;
    let instead = match latency {
        None => instead(*run_hours, *recommended_run_hours),
        Some(latency) => format!(
            "{} in {} instead of {} at 90 %",
            if latency.generates { "first token" } else { "answer" },
            milliseconds(latency.p90_seconds),
            milliseconds(latency.recommended_p90_seconds)
        ),
    };
    format!("next: {gpus} x {gpu} {purchase} in {region}, {:+.0} % cost, {instead}", (cost_ratio - 1.0) * 100.0)
}

fn instead(hours: Hours, recommended: Hours) -> String {
    format!("{hours} instead of {recommended}")
}

/// Of two costs the first against the second.
fn compared_cost(cost: Usd, other: Usd) -> String {
    let (there, here) = (cost.dollars(), other.dollars());
    if there >= here {
        format!("{:.1} times as much", there / here)
    } else {
        format!("{:.0} % less", (1.0 - there / here) * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_says_its_figures() {
        let bound = Reason::Bound { bound: Bound::Input, share: 0.42, input: Some("cpu decode".to_owned()) };
        let words = "bound by the input pipeline, cpu decode (42 % of a step): the loader cannot feed the GPU";
        assert_eq!(sentence(&bound), words);
        let aim = Reason::Objective {
            objective: Objective::Time,
            counts_waiting: false,
            value_of_time_usd_per_hour: None,
            plans: 7,
        };
        assert_eq!(sentence(&aim), "the shortest run, among 7 plans that keep every limit");
        let usd = |text: &str| Usd::parse(text).unwrap();
        assert_eq!(compared_cost(usd("30"), usd("10")), "3.0 times as much");
        assert_eq!(compared_cost(usd("8"), usd("10")), "20 % less");
    }
}
