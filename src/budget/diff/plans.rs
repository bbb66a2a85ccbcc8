//! Two plans: the bills of what each recommends, and what was asked and known.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::diff::figure::{Figure, figures};
use crate::diff::{Amount, Cause, Change, Diff, DiffError, Reason, behind, changed, differing, input_changes};
use crate::guardrail::Rented;
use crate::portfolio::planned::MACHINE_HOUR;
use gpuplan_plan::document::{DocumentError, PlanDocument, PlanRecord, RejectionReason, RejectionRecord};
use gpuplan_plan::money::bill::BillItem;
use gpuplan_units::Usd;

pub fn diff(before: &Value, after: &Value) -> Result<Diff, DiffError> {
    let of = |side| move |error: DocumentError| DiffError::Unknown { side, detail: error.to_string() };
    let old = PlanDocument::from_value(before).map_err(of("the first"))?;
    let new = PlanDocument::from_value(after).map_err(of("the second"))?;
    let (was, is) = (old.pick(None).map_err(of("the first"))?, new.pick(None).map_err(of("the second"))?);
    let reasons = reasons(&old, &new, was, is);
    let cause = behind(&reasons);
    let (lines, unchanged) = changed(&amounts(was), &amounts(is), |_| cause);
    let machines = &is.machines;
    let rate = Usd::from_nanos(i128::from(machines.rate_usd_per_hour.nanos()) * i128::from(machines.nodes));
    let rented = Rented {
        what: new.workload.name.clone(),
        cloud: machines.cloud.clone(),
        places: std::iter::once(machines.region.clone()).chain(machines.zone_id.clone()).collect(),
        gpu: Some(machines.gpu.clone()),
        purchase: machines.purchase.word().to_owned(),
        usd_per_hour: Some(rate),
        p90: is.cost.cost_usd.p90,
        tags: None,
    };
    Ok(Diff {
        kind: "plans",
        total: Some(Change::new(was.cost.cost_usd.expected, is.cost.cost_usd.expected)),
        p90_usd: Some(is.cost.cost_usd.p90),
        figures: figures(figures_of(&old, was), figures_of(&new, is)),
        reasons,
        lines,
        unchanged,
        rented: vec![rented],
    })
}

fn figures_of(document: &PlanDocument, plan: &PlanRecord) -> [(Figure, Option<f64>); 4] {
    // The change of prices is no time.
    let is_time =
        |item: &str| [BillItem::Machines, BillItem::Fallback, BillItem::LostWork].iter().any(|it| it.label() == item);
    let time = plan.cost.bill.iter().filter(|line| line.unit == MACHINE_HOUR && is_time(&line.item));
    let machine_hours: f64 = time.map(|line| line.quantity).sum();
    let age = document.generated_at.duration_since(plan.price.observed_at).as_secs_f64() / 86_400.0;
    [
        (Figure::P90Usd, Some(plan.cost.cost_usd.p90.dollars())),
        (Figure::RunHours, Some(plan.time.run_hours.expected)),
        (Figure::GpuHours, Some(machine_hours * f64::from(plan.machines.gpus_per_node))),
        (Figure::PriceAgeDays, Some(age)),
    ]
}

fn amounts(plan: &PlanRecord) -> Vec<Amount> {
    let machines = &plan.machines;
    let terms = machines.purchase.word();
    let names = format!("{} x {} on {}, {terms}", machines.nodes, machines.instance_type, machines.cloud);
    // A bill may have an item twice, such as the price change of spot and that of the fallback: their order tells them apart.
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let mut amounts = Vec::new();
    for line in &plan.cost.bill {
        let time = times.entry(&line.item).or_default();
        *time += 1;
        let what = if *time > 1 { format!("{} ({time})", line.item) } else { line.item.clone() };
        amounts.push(Amount {
            key: what.clone(),
            of: String::new(),
            what,
            machines: if line.unit == MACHINE_HOUR { names.clone() } else { machines.cloud.clone() },
            quantity: line.quantity,
            unit_price: line.unit_price_usd,
            cost: line.cost_usd,
        });
    }
    amounts
}

fn reasons(old: &PlanDocument, new: &PlanDocument, was: &PlanRecord, is: &PlanRecord) -> Vec<Reason> {
    let mut asked = Vec::new();
    let stated = |map: &Map<String, Value>| Value::Object(map.clone());
    differing("", &stated(&old.workload.file), &stated(&new.workload.file), &mut asked);
    // The limits of flags stand beside the file.
    differing("limits", &stated(&old.limits), &stated(&new.limits), &mut asked);
    asked.sort();
    asked.dedup();
    let mut reasons: Vec<Reason> = asked.into_iter().map(|detail| Reason { cause: Cause::Request, detail }).collect();
    reasons.extend(of_policy(old, new));
    reasons.extend(input_changes(&old.inputs, &new.inputs));
    if was.id == is.id && was.machines.rate_usd_per_hour != is.machines.rate_usd_per_hour {
        let seen = |plan: &PlanRecord| {
            format!("${} ({})", plan.machines.rate_usd_per_hour, plan.price.observed_at.strftime("%Y-%m-%d"))
        };
        reasons
            .push(Reason { cause: Cause::Price, detail: format!("a machine an hour: {} -> {}", seen(was), seen(is)) });
    }
    if was.id != is.id {
        reasons.push(Reason { cause: behind(&reasons), detail: format!("recommended: {} -> {}", was.id, is.id) });
    } else if was.step.step_seconds.expected != is.step.step_seconds.expected {
        let share = is.step.step_seconds.expected / was.step.step_seconds.expected - 1.0;
        reasons.push(Reason { cause: behind(&reasons), detail: format!("time of a step: {:+.1} %", share * 100.0) });
    }
    reasons
}

/// Rules that forbid something in one and not in the other. A rule that only moved to another line is the same.
fn of_policy(old: &PlanDocument, new: &PlanDocument) -> Vec<Reason> {
    // What a program did not record, or an unknown one did, is unknown: it is no rule less.
    let is_unknown = |rejected: &RejectionRecord| {
        rejected.reason == RejectionReason::Policy
            && rejected.why.as_ref().is_none_or(|why| why.kind == "policy")
            && rejected.broken_rule().is_none()
    };
    if old.rejected.iter().chain(&new.rejected).any(is_unknown) {
        return Vec::new();
    }
    let rules = |document: &PlanDocument| -> BTreeMap<String, usize> {
        let broken = document.rejected.iter().filter_map(RejectionRecord::broken_rule);
        broken.map(|broken| (broken.violation.rule(), broken.line)).collect()
    };
    let (before, after) = (rules(old), rules(new));
    let only = |these: &BTreeMap<String, usize>, those: &BTreeMap<String, usize>, word: &str| -> Vec<Reason> {
        let lone = these.iter().filter(|(rule, _)| !those.contains_key(*rule));
        lone.map(|(rule, line)| Reason {
            cause: Cause::Policy,
            detail: format!("{word}: policy.toml line {line}: {rule}"),
        })
        .collect()
    };
    let mut found = only(&after, &before, "a rule more");
    found.extend(only(&before, &after, "a rule less"));
    found
}
