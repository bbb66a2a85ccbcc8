//! Two plans: the bills of what each recommends, of all phases where a workload has some, and what was asked and known.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::diff::figure::{Figure, figures};
use crate::diff::{Amount, Cause, Change, Diff, DiffError, Reason, behind, changed, differing, input_changes};
use crate::guardrail::Rented;
use crate::portfolio::planned::MACHINE_HOUR;
use gpuplan_plan::document::{AnyDocument, DocumentError, Recommended, RejectionReason, RejectionRecord};
use gpuplan_plan::money::bill::BillItem;
use gpuplan_units::Usd;

pub fn diff(before: &Value, after: &Value) -> Result<Diff, DiffError> {
    let of = |side| move |error: DocumentError| DiffError::Unknown { side, detail: error.to_string() };
    let old = AnyDocument::from_value(before).map_err(of("the first"))?;
    let new = AnyDocument::from_value(after).map_err(of("the second"))?;
    let was = old.recommended().map_err(of("the first"))?;
    let is = new.recommended().map_err(of("the second"))?;
    let reasons = reasons(&old, &new, &was, &is);
    let cause = behind(&reasons);
    let (lines, unchanged) = changed(&amounts(&was), &amounts(&is), |_| cause);
    let expected = |parts: &[Recommended]| parts.iter().map(|part| part.plan.cost.expected).sum::<Usd>();
    let name = new.asked().0;
    Ok(Diff {
        kind: "plans",
        total: Some(Change::new(expected(&was), expected(&is))),
        p90_usd: Some(p90(&is)),
        exchange: None,
        figures: figures(figures_of(&old, &was), figures_of(&new, &is)),
        reasons,
        lines,
        unchanged,
        rented: is.iter().map(|part| rented(name, part)).collect(),
    })
}

/// A sentence about this plan: with its phase before it where there are several.
fn said(part: &Recommended, sentence: String) -> String {
    if part.phase.is_empty() { sentence } else { format!("{}: {sentence}", part.phase) }
}

/// Expected seconds of a step; `None`: there are no steps.
fn step(part: &Recommended) -> Option<f64> {
    part.plan.has_steps.then_some(part.plan.estimated.expected)
}

/// Percentiles of phases are added, as their plan adds them.
fn p90(parts: &[Recommended]) -> Usd {
    parts.iter().map(|part| part.plan.cost.p90).sum()
}

fn rented(name: &str, part: &Recommended) -> Rented {
    let rate = Usd::from_nanos(i128::from(part.plan.rate.nanos()) * i128::from(part.plan.nodes));
    Rented {
        what: if part.phase.is_empty() { name.to_owned() } else { format!("{name}/{}", part.phase) },
        cloud: part.plan.cloud.to_owned(),
        places: std::iter::once(part.plan.region).chain(part.plan.zone_id).map(str::to_owned).collect(),
        gpu: part.plan.gpu.map(str::to_owned),
        purchase: part.plan.purchase.word().to_owned(),
        usd_per_hour: Some(rate),
        p90: part.plan.cost.p90,
        tags: None,
    }
}

fn figures_of(document: &AnyDocument, parts: &[Recommended]) -> [(Figure, Option<f64>); 4] {
    // The change of prices is no time.
    let is_time =
        |item: &str| [BillItem::Machines, BillItem::Fallback, BillItem::LostWork].iter().any(|it| it.label() == item);
    let gpu_hours = |part: &Recommended| {
        let time = part.plan.bill.iter().filter(|line| line.unit == MACHINE_HOUR && is_time(&line.item));
        time.map(|line| line.quantity).sum::<f64>() * f64::from(part.plan.gpus_per_node)
    };
    let seen = parts.iter().map(|part| part.plan.price.observed_at).min();
    let age = seen.map(|seen| document.generated_at().duration_since(seen).as_secs_f64() / 86_400.0);
    [
        (Figure::P90Usd, Some(p90(parts).dollars())),
        (Figure::RunHours, Some(parts.iter().map(|part| part.plan.hours.expected).sum())),
        (Figure::GpuHours, Some(parts.iter().map(gpu_hours).sum())),
        (Figure::PriceAgeDays, age),
    ]
}

fn amounts(parts: &[Recommended]) -> Vec<Amount> {
    parts.iter().flat_map(amounts_of).collect()
}

fn amounts_of(part: &Recommended) -> Vec<Amount> {
    let names = format!(
        "{} x {} on {}, {}",
        part.plan.nodes,
        part.plan.instance_type,
        part.plan.cloud,
        part.plan.purchase.word()
    );
    let of_phase = |what: String| if part.phase.is_empty() { what } else { format!("{}, {what}", part.phase) };
    // A bill may have an item twice, such as the price change of spot and that of the fallback: their order tells them apart.
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let mut amounts = Vec::new();
    for line in part.plan.bill {
        let time = times.entry(&line.item).or_default();
        *time += 1;
        let what = of_phase(if *time > 1 { format!("{} ({time})", line.item) } else { line.item.clone() });
        amounts.push(Amount {
            key: what.clone(),
            of: part.phase.to_owned(),
            what,
            machines: if line.unit == MACHINE_HOUR { names.clone() } else { part.plan.cloud.to_owned() },
            quantity: line.quantity,
            unit_price: line.unit_price_usd,
            cost: line.cost_usd,
        });
    }
    amounts
}

fn reasons(old: &AnyDocument, new: &AnyDocument, was: &[Recommended], is: &[Recommended]) -> Vec<Reason> {
    let mut asked = Vec::new();
    let stated = |map: &Map<String, Value>| Value::Object(map.clone());
    let ((_, old_file, old_limits), (_, new_file, new_limits)) = (old.asked(), new.asked());
    differing("", &stated(old_file), &stated(new_file), &mut asked);
    // The limits of flags stand beside the file.
    differing("limits", &stated(old_limits), &stated(new_limits), &mut asked);
    asked.sort();
    asked.dedup();
    let mut reasons: Vec<Reason> = asked.into_iter().map(|detail| Reason { cause: Cause::Request, detail }).collect();
    reasons.extend(of_policy(old.rejected(), new.rejected()));
    reasons.extend(input_changes(old.inputs(), new.inputs()));
    let both = || was.iter().filter_map(|was| Some((was, is.iter().find(|is| is.phase == was.phase)?)));
    for (was, is) in both() {
        if was.plan.id == is.plan.id && was.plan.rate != is.plan.rate {
            let seen = |part: &Recommended| {
                format!("${} ({})", part.plan.rate, part.plan.price.observed_at.strftime("%Y-%m-%d"))
            };
            let detail = said(was, format!("a machine an hour: {} -> {}", seen(was), seen(is)));
            reasons.push(Reason { cause: Cause::Price, detail });
        }
    }
    for (was, is) in both() {
        if was.plan.id != is.plan.id {
            let detail = said(was, format!("recommended: {} -> {}", was.plan.id, is.plan.id));
            reasons.push(Reason { cause: behind(&reasons), detail });
        } else if let (Some(before), Some(after)) = (step(was), step(is))
            && before != after
        {
            let detail = said(was, format!("time of a step: {:+.1} %", (after / before - 1.0) * 100.0));
            reasons.push(Reason { cause: behind(&reasons), detail });
        }
    }
    reasons
}

/// Rules that forbid something in one and not in the other. A rule that only moved to another line is the same.
fn of_policy(old: &[RejectionRecord], new: &[RejectionRecord]) -> Vec<Reason> {
    // What a program did not record, or an unknown one did, is unknown: it is no rule less.
    let is_unknown = |rejected: &RejectionRecord| {
        rejected.reason == RejectionReason::Policy
            && rejected.why.as_ref().is_none_or(|why| why.kind == "policy")
            && rejected.broken_rule().is_none()
    };
    if old.iter().chain(new).any(is_unknown) {
        return Vec::new();
    }
    let rules = |rejected: &[RejectionRecord]| -> BTreeMap<String, usize> {
        let broken = rejected.iter().filter_map(RejectionRecord::broken_rule);
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
