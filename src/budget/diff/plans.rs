//! Two plans: the bills of what each recommends, and what was asked and known.

use serde_json::Value;

use crate::diff::{Amount, Cause, Change, Diff, DiffError, Reason, behind, changed, differing, of_inputs};
use crate::guardrail::Rented;
use crate::portfolio::planned::{BillRecord, MACHINE_HOUR, PlanDocument, PlanRecord};
use gpuplan_units::Usd;

pub fn diff(before: &Value, after: &Value) -> Result<Diff, DiffError> {
    let read = |side, document: &Value| {
        PlanDocument::read(document).map_err(|error| DiffError::Unknown { side, detail: error.to_string() })
    };
    let (old, new) = (read("the first", before)?, read("the second", after)?);
    let chosen = |side, document: &PlanDocument| {
        document
            .recommendation
            .clone()
            .ok_or_else(|| DiffError::Unknown { side, detail: "it recommends nothing".to_owned() })
    };
    let (was, is) = (chosen("the first", &old)?, chosen("the second", &new)?);
    let reasons = reasons(&old, &new, &was, &is);
    let cause = behind(&reasons);
    let (lines, unchanged) = changed(&amounts(&was), &amounts(&is), |_| cause);
    let rate = Usd::from_nanos(i128::from(is.rate_usd_per_hour.nanos()) * i128::from(is.nodes));
    let rented = Rented {
        what: new.workload.name.clone(),
        cloud: is.cloud.clone(),
        places: std::iter::once(is.region.clone()).chain(is.zone_id.clone()).collect(),
        gpu: Some(is.gpu.clone()),
        purchase: is.purchase.clone(),
        usd_per_hour: Some(rate),
        p90: is.cost_usd.p90,
        tags: None,
    };
    Ok(Diff {
        kind: "plans",
        total: Some(Change::new(was.cost_usd.expected, is.cost_usd.expected)),
        p90_usd: Some(is.cost_usd.p90),
        reasons,
        lines,
        unchanged,
        rented: vec![rented],
    })
}

fn machines(plan: &PlanRecord) -> String {
    format!("{} x {} on {}, {}", plan.nodes, plan.instance_type, plan.cloud, plan.purchase)
}

fn amounts(plan: &PlanRecord) -> Vec<Amount> {
    let one = |line: &BillRecord| Amount {
        key: line.item.clone(),
        of: String::new(),
        what: line.item.clone(),
        machines: if line.unit == MACHINE_HOUR { machines(plan) } else { plan.cloud.clone() },
        quantity: line.quantity,
        unit_price: line.unit_price_usd,
        cost: line.cost_usd,
    };
    plan.bill.iter().map(one).collect()
}

fn reasons(old: &PlanDocument, new: &PlanDocument, was: &PlanRecord, is: &PlanRecord) -> Vec<Reason> {
    let mut asked = Vec::new();
    differing("", &old.workload.file, &new.workload.file, &mut asked);
    // The limits of flags stand beside the file.
    differing("limits", &old.limits, &new.limits, &mut asked);
    asked.sort();
    asked.dedup();
    let mut reasons: Vec<Reason> = asked.into_iter().map(|detail| Reason { cause: Cause::Request, detail }).collect();
    reasons.extend(of_policy(old, new));
    reasons.extend(of_inputs(&old.inputs, &new.inputs));
    if was.id == is.id && was.rate_usd_per_hour != is.rate_usd_per_hour {
        let seen = |plan: &PlanRecord| {
            format!("${} ({})", plan.rate_usd_per_hour, plan.price.observed_at.strftime("%Y-%m-%d"))
        };
        reasons
            .push(Reason { cause: Cause::Price, detail: format!("a machine an hour: {} -> {}", seen(was), seen(is)) });
    }
    if was.id != is.id {
        reasons.push(Reason { cause: behind(&reasons), detail: format!("recommended: {} -> {}", was.id, is.id) });
    } else if was.step_seconds.expected != is.step_seconds.expected {
        let share = is.step_seconds.expected / was.step_seconds.expected - 1.0;
        reasons.push(Reason { cause: behind(&reasons), detail: format!("time of a step: {:+.1} %", share * 100.0) });
    }
    reasons
}

/// Rules that forbid something in one and not in the other.
fn of_policy(old: &PlanDocument, new: &PlanDocument) -> Vec<Reason> {
    let rules = |document: &PlanDocument| {
        let mut rules: Vec<String> = document
            .rejected
            .iter()
            .filter(|rejected| rejected.reason == "policy")
            // `policy.toml line 2: gpus does not list ...`: the rule without what it hit.
            .map(|rejected| {
                let rule =
                    rejected.detail.split_once(" does not list ").map_or(rejected.detail.as_str(), |(rule, _)| rule);
                rule.rsplit_once(" is over ").map_or(rule, |(_, rule)| rule).to_owned()
            })
            .collect();
        rules.sort();
        rules.dedup();
        rules
    };
    let (before, after) = (rules(old), rules(new));
    let only = |these: &[String], those: &[String], word: &str| -> Vec<Reason> {
        let lone = these.iter().filter(|rule| !those.contains(rule));
        lone.map(|rule| Reason { cause: Cause::Policy, detail: format!("{word}: {rule}") }).collect()
    };
    let mut found = only(&after, &before, "a rule more");
    found.extend(only(&before, &after, "a rule less"));
    found
}
