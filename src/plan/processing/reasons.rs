//! Why a plan for work without GPU: what bounds it, what it rests on, and what GPU machines would cost.

use crate::explanation::Reason;
use crate::money::bill::BillItem;
use crate::processing::answer::ProcessingPlan;
use gpuplan_estimate::input_constants::UNKNOWN_HOST_GBIT;
use gpuplan_hardware::CloudId;
use gpuplan_units::{Hours, Seconds};

/// `left`: the cloud and region that the samples leave for these machines; `other`: the same work on the hosts of GPU machines.
pub fn reasons(best: &ProcessingPlan, left: Option<&(CloudId, &str)>, other: Option<&ProcessingPlan>) -> Vec<Reason> {
    let hours = |seconds: f64| Hours::from(Seconds(seconds));
    let work = &best.work;
    let mut reasons = vec![Reason::ProcessingBound {
        bound: work.bound.word().to_owned(),
        computing_hours: hours(work.computing),
        cores: work.cores * f64::from(best.nodes),
        reading_hours: hours(work.reading),
        writing_hours: hours(work.writing),
    }];
    if best.on.host.network_gbit_per_s.is_none() {
        let instance_type = best.on.host.name.to_owned();
        reasons.push(Reason::AssumedNetwork { instance_type, gbit_per_s: UNKNOWN_HOST_GBIT });
    }
    reasons.extend(best.losses.map(|losses| Reason::MachineLosses {
        every_hours: Hours(losses.up),
        lost_hours: Hours(losses.each),
        evidence: losses.evidence.map(str::to_owned),
    }));
    reasons.extend(other.map(|other| Reason::OnGpuMachines {
        nodes: other.nodes,
        instance_type: other.on.host.name.to_owned(),
        region: other.on.region(),
        purchase: other.on.purchase.to_string(),
        cost_usd: other.cost.expected,
        recommended_cost_usd: best.cost.expected,
        run_hours: Hours(other.hours.expected),
    }));
    match left {
        Some((cloud, _)) if best.bill.lines.iter().all(|line| line.item != BillItem::Egress) => {
            reasons.push(Reason::UnpricedEgress { cloud: cloud.to_string() });
        }
        Some((cloud, region)) if cloud == best.on.host.cloud => {
            reasons.push(Reason::EgressAsToInternet { region: (*region).to_owned() });
        }
        _ => {}
    }
    reasons
}
