//! The parts of a change add up to it, and the reason follows the inputs.
#![cfg(test)]

use serde_json::{Value, json};

use super::*;
use crate::diff::guardrail::Guardrail;
use gpuplan_hardware::Hardware;
use gpuplan_plan::document::Remark;
use gpuplan_plan::limits::policy::{BrokenRule, PolicyViolation};
use gpuplan_plan::{Policy, Rejection};
use gpuplan_units::Usd;

/// A plan document as `plan --output json` has it, with one bill line of these hours.
fn plan(rate: &str, hours: f64, change: impl Fn(&mut Value)) -> Value {
    let cost = Usd::from_dollars(Usd::parse(rate).unwrap().dollars() * hours).unwrap();
    let band = |expected: f64| json!({ "low": expected * 0.9, "expected": expected, "high": expected * 1.1 });
    let mut document = json!({
        "version": 1, "generated_at": "2026-08-02T12:00:00Z",
        "inputs": { "catalog_sha256": "c", "offers_sha256": "o", "constants_version": "1", "seed": 0 },
        "workload": {
            "name": "w", "model": "m", "task": "pretrain", "precision": "bf16", "sequence_length": 2048,
            "file": { "training": { "tokens": "1B" } },
        },
        "limits": {},
        "recommendation": {
            "id": "aws/us-east-1/p5.48xlargex1/on-demand", "cloud": "aws", "region": "us-east-1", "zone_id": null, "instance_type": "p5.48xlarge",
            "gpu": "h100-sxm5-80", "gpus_per_node": 8, "nodes": 1, "purchase": "on-demand", "rate_usd_per_hour": rate,
            "price": { "origin": "snapshot", "observed_at": "2026-07-20T00:00:00Z", "source": "s" },
            "layout": {
                "data": 8, "tensor": 1, "pipeline": 1, "context": 1, "expert": 1, "virtual_pipeline": 1, "shard": "none", "sequence_parallel": false,
                "micro_batch": 1, "global_batch": 8.0, "grad_accumulation": 1.0, "recompute": "none",
            },
            "step_seconds": band(1.1), "samples_per_second": band(8.0), "gpu_memory_bytes": band(6e10), "gpu_utilization": band(0.5),
            "model_flop_utilization": 0.4, "bound_by": "compute",
            "run_hours": { "expected": hours, "p50": hours, "p90": hours * 1.2 },
            "cost_usd": { "expected": cost, "p50": cost, "p90": cost },
            "bill": [{ "item": "machines", "quantity": hours, "unit": "machine-hour", "unit_price_usd": rate, "cost_usd": cost, "basis": "s of 2026-07-20" }],
        },
    });
    change(&mut document);
    document
}

fn causes(diff: &Diff) -> Vec<Cause> {
    let mut causes: Vec<Cause> = diff.reasons.iter().map(|reason| reason.cause).collect();
    causes.sort();
    causes.dedup();
    causes
}

#[test]
fn price_and_estimate_share_a_change_that_adds_up() {
    let before = plan("50", 100.0, |_| {});
    let after = plan("55", 120.0, |document| {
        document["inputs"]["constants_version"] = json!("2");
        document["inputs"]["offers_sha256"] = json!("other");
    });
    let found = diff(&before, &after).unwrap();
    assert_eq!(causes(&found), [Cause::Estimate, Cause::Price]);
    let line = &found.lines[0];
    assert_eq!((line.mark, line.change_usd.to_string()), (Mark::Changed, "1600.00".to_owned()));
    let parts: Vec<(Cause, String)> = line.parts.iter().map(|part| (part.cause, part.change_usd.to_string())).collect();
    assert_eq!(parts, [(Cause::Price, "500.00".to_owned()), (Cause::Estimate, "1100.00".to_owned())]);
    assert!((found.total.unwrap().share.unwrap() - 0.32).abs() < 1e-9);
    let figure = |figure| found.figures.iter().find(|change| change.figure == figure).map(|it| (it.before, it.after));
    assert_eq!(figure(Figure::P90Usd), Some((Some(5000.0), Some(6600.0))));
    assert_eq!(figure(Figure::RunHours), Some((Some(100.0), Some(120.0))));
    assert_eq!(figure(Figure::GpuHours), Some((Some(800.0), Some(960.0))));
    assert_eq!(figure(Figure::PriceAgeDays), Some((Some(13.5), Some(13.5))));
}

#[test]
fn another_question_is_a_request_and_another_rule_a_policy() {
    let before = plan("50", 100.0, |_| {});
    let asked = plan("50", 200.0, |document| document["workload"]["file"]["training"]["tokens"] = json!("2B"));
    let found = diff(&before, &asked).unwrap();
    assert_eq!(found.reasons[0].detail, "training.tokens: 1B -> 2B");
    assert_eq!(found.lines[0].parts[0].cause, Cause::Request);
    let ruled = plan("60", 100.0, |document| {
        document["recommendation"]["id"] = json!("gcp/us-central1/a3-highgpu-8gx1/on-demand");
        document["recommendation"]["cloud"] = json!("gcp");
        let violation = PolicyViolation::Clouds { cloud: "aws".to_owned() };
        let why = Remark::new(&Rejection::Policy(BrokenRule { line: 2, violation }), String::new());
        document["rejected"] = json!([{ "what": "x", "reason": "policy", "detail": "", "why": why }]);
    });
    let found = diff(&before, &ruled).unwrap();
    assert_eq!(causes(&found), [Cause::Policy]);
    assert!(found.reasons[0].detail.contains("policy.toml line 2: clouds"), "{:?}", found.reasons);
    assert_eq!(found.lines[0].parts, [ChangePart { cause: Cause::Policy, change_usd: Usd::parse("1000").unwrap() }]);
    assert!(diff(&before, &before).unwrap().lines.is_empty());
    let unrecorded = plan("60", 100.0, |document| {
        document["rejected"] = json!([{ "what": "x", "reason": "policy", "detail": "policy.toml line 2: clouds" }]);
    });
    assert!(!causes(&diff(&unrecorded, &ruled).unwrap()).contains(&Cause::Policy), "unknown is not without rules");
}

#[test]
fn a_plan_of_a_newer_program_is_refused() {
    let newer = plan("50", 100.0, |document| document["version"] = json!(2));
    let said = diff(&plan("50", 100.0, |_| {}), &newer).unwrap_err().to_string();
    assert!(said.starts_with("the second cannot be compared: this plan has version 2, written by a newer"), "{said}");
}

#[test]
fn a_guardrail_names_its_line() {
    let found = diff(&plan("50", 100.0, |_| {}), &plan("60", 100.0, |_| {})).unwrap();
    let broken = |text: &str| {
        Guardrail::read(text).unwrap().breaks(&found).into_iter().map(|broken| broken.line).collect::<Vec<_>>()
    };
    assert_eq!(
        broken("[guardrail]\nmax_increase_usd = 999\nmax_increase_percent = 19\nmax_total_p90_usd = 5999"),
        [2, 3, 4]
    );
    assert!(
        broken("[guardrail]\nmax_increase_usd = 1000\nmax_increase_percent = 20.1\nmax_total_p90_usd = 6000")
            .is_empty()
    );
}

#[test]
fn price_lists_are_compared_offer_by_offer() {
    let row = |zone: &str, rate: &str| json!({ "cloud": "aws", "region": "r", "zone_id": zone, "instance_type": "p5", "purchase": "spot", "rate_usd_per_hour": rate });
    let found = diff(
        &json!([row("a", "10"), row("b", "20"), row("c", "5")]),
        &json!([row("a", "12"), row("b", "20"), row("d", "7")]),
    )
    .unwrap();
    let lines: Vec<(char, &str, String)> =
        found.lines.iter().map(|line| (line.mark.sign(), line.what.as_str(), line.change_usd.to_string())).collect();
    assert_eq!(
        lines,
        [
            ('+', "aws d p5 spot", "7.00".to_owned()),
            ('-', "aws c p5 spot", "-5.00".to_owned()),
            ('~', "aws a p5 spot", "2.00".to_owned())
        ]
    );
    assert_eq!(found.unchanged, 1);
    let other = plan("1", 1.0, |_| {});
    assert!(matches!(diff(&json!([row("a", "1")]), &other), Err(DiffError::Kinds("a price list", "a plan"))));
    assert!(matches!(diff(&json!({}), &other), Err(DiffError::Unknown { side: "the first", .. })));
    // Under `offers` it is the same list; a job that was priced is none.
    let listed = json!({ "version": 1, "offers": [row("a", "2")] });
    assert_eq!(diff(&json!([row("a", "1")]), &listed).unwrap().lines[0].change_usd.to_string(), "1.00");
    assert!(diff(&listed, &json!({ "version": 1, "job": {}, "offers": [row("a", "2")] })).is_err());
    // A rate that cannot be read is no offer that went.
    let said = diff(&json!([row("a", "1")]), &json!([row("a", "one")])).unwrap_err().to_string();
    assert!(said.starts_with("the second cannot be compared: ") && said.contains("`one` is not an amount"), "{said}");
}

#[test]
fn a_document_of_a_newer_version_is_refused_by_its_version() {
    let prices = |version| json!({ "version": version, "offers": [] });
    assert_eq!(
        diff(&prices(1), &prices(2)).unwrap_err().to_string(),
        "the second cannot be compared: it has version 2, written by a newer gpuplan; this program reads version 1"
    );
}

#[test]
fn a_gpu_that_nobody_knows_is_listed_by_no_rule() {
    let hardware = Hardware::embedded().unwrap();
    let policy = Policy::read("gpus = [\"H100\"]\n", &hardware).unwrap();
    let breaks = |gpu: Option<&str>| {
        let found = diff(&plan("50", 1.0, |_| {}), &plan("50", 2.0, |_| {})).unwrap();
        let rented: Vec<Rented> =
            found.rented.into_iter().map(|rented| Rented { gpu: gpu.map(str::to_owned), ..rented }).collect();
        guardrail::breaks(&policy, &rented, &hardware).into_iter().map(|broken| broken.detail).collect::<Vec<_>>()
    };
    assert!(breaks(Some("h100-sxm5-80")).is_empty() && breaks(None).is_empty());
    assert_eq!(breaks(Some("a100-sxm4-80")), ["w: gpus does not list a100-sxm4-80"]);
    assert_eq!(breaks(Some("quux-9000")), ["w: gpus does not list quux-9000, which the catalog does not know"]);
}
