//! Plans on spot: what they promise, on what conditions, with what certainty, and what stands beside them.

use gpuplan::units::Usd;
use serde_json::Value;

use crate::cli::support::{gpuplan, plan, plans};

const FINETUNE: &str = "llama-3.1-8b-finetune";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn dollars(value: &Value) -> f64 {
    Usd::parse(value.as_str().unwrap()).unwrap().dollars()
}

/// Every plan of the document on these terms.
fn on<'a>(document: &'a Value, purchase: &str) -> Vec<&'a Value> {
    plans(document).into_iter().filter(|plan| plan["purchase"] == purchase).collect()
}

#[test]
fn a_deadline_is_promised_by_falling_back() {
    let document = plan(FINETUNE, &["--cloud", "aws", "--purchase", "spot-with-fallback", "--deadline", "30h"]);
    let found = on(&document, "spot-with-fallback");
    assert!(found.len() > 3 && found.len() == plans(&document).len());
    for plan in found {
        let (wait, spot) = (&plan["wait_hours"], &plan["spot"]);
        assert!(number(&wait["p50"]) > 0.0 && number(&wait["p90"]) >= number(&wait["p50"]), "{wait}");
        assert!(!wait["basis"].as_str().unwrap().is_empty());
        assert!(
            number(&plan["chance_by_deadline"]) >= 0.9 && number(&plan["run_hours"]["p90"]) <= 30.0,
            "{}",
            plan["id"]
        );
        let promise = spot["promise"].as_str().unwrap();
        assert!(
            promise.contains("unless on-demand capacity for") && promise.contains("On-demand ceiling $"),
            "{promise}"
        );
        assert!(dollars(&spot["fallback_rate_usd_per_hour"]) > 0.0);
        assert!((0.0..=1.0).contains(&number(&spot["on_demand_share"])));
        let (p50, p75, p90) = (
            &spot["forecast"]["cost_usd"]["p50"],
            &spot["forecast"]["cost_usd"]["p75"],
            &spot["forecast"]["cost_usd"]["p90"],
        );
        assert!(dollars(p50) <= dollars(p75) && dollars(p75) <= dollars(p90));
        let bars = spot["cost_histogram"].as_array().unwrap();
        assert!(bars.is_empty() || (bars.iter().map(|bar| number(&bar["share"])).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn the_recommended_spot_plan_lists_pools_and_says_when_on_demand_is_cheaper() {
    let document = plan(FINETUNE, &["--gpus", "A100:8", "--purchase", "spot-with-fallback"]);
    let best = &document["recommendation"];
    let pools = best["spot"]["pools"].as_array().unwrap();
    assert!(pools.len() >= 3, "{pools:?}");
    for pool in pools {
        assert!(dollars(&pool["rate_usd_per_hour"]) > 0.0 && !pool["basis"].as_str().unwrap().is_empty(), "{pool}");
    }
    assert!((0.0..=1.0).contains(&number(&best["spot"]["break_even_availability"])));
}

#[test]
fn more_confidence_never_costs_less_and_is_kept() {
    let ask = |confidence: &str| plan(FINETUNE, &["--deadline", "12h", "--confidence", confidence]);
    let (half, most) = (ask("0.5"), ask("99%"));
    for (document, least) in [(&half, 0.5), (&most, 0.99)] {
        assert!(plans(document).into_iter().all(|plan| number(&plan["chance_by_deadline"]) >= least - 1e-6), "{least}");
    }
    let cheapest = |document: &Value| dollars(&document["frontier"][0]["cost_usd"]["expected"]);
    assert!(cheapest(&half) <= cheapest(&most) + 1e-9);
    assert_eq!(gpuplan(&["plan", "examples/resnet-50-imagenet.toml", "--confidence", "1.5"]).code, 2);
}

#[test]
fn the_recommended_machines_stand_on_every_way_to_buy_them() {
    let document = plan(FINETUNE, &["--gpus", "A100:8", "--cloud", "aws"]);
    let ways: Vec<&str> =
        document["terms"].as_array().unwrap().iter().map(|way| way["purchase"].as_str().unwrap()).collect();
    assert!(["spot", "spot-with-fallback", "on-demand"].iter().all(|way| ways.contains(way)), "{ways:?}");
    for way in document["terms"].as_array().unwrap() {
        assert!(
            way["refused"].is_string() || dollars(&way["cost_usd"]["p90"]) >= dollars(&way["cost_usd"]["p50"]),
            "{way}"
        );
    }
}

#[test]
fn falling_back_keeps_an_end_of_its_own_where_nobody_gives_a_deadline() {
    let document = plan("llama-3.1-8b-lora", &["--purchase", "spot-with-fallback"]);
    let best = &document["recommendation"];
    let end = number(&best["spot"]["finish_by_hours"]);
    assert!(number(&best["run_hours"]["p90"]) <= end + 1e-6, "{}", best["run_hours"]);
    assert!(best["spot"]["promise"].as_str().unwrap().starts_with("finishes by "), "{best}");
}

#[test]
fn another_seed_draws_other_futures() {
    let ask = |seed: &str| {
        plan(FINETUNE, &["--gpus", "A100:8", "--purchase", "spot-with-fallback", "--seed", seed])["recommendation"]["cost_usd"]["p90"]
            .clone()
    };
    assert_eq!(ask("1"), ask("1"));
    assert_ne!(ask("1"), ask("2"));
}

#[test]
fn a_notice_says_what_it_can_save() {
    let document = plan(FINETUNE, &["--purchase", "spot", "--gpus", "H100:8", "--cloud", "gcp"]);
    for plan in plans(&document) {
        let (notice, bytes) = (&plan["checkpoint"]["notice"], number(&plan["checkpoint"]["bytes"]));
        assert!((number(&notice["seconds"]) - 30.0).abs() < 1e-9);
        assert_eq!(notice["saves_all"], number(&notice["saves_bytes"]) >= bytes);
        // PyTorch FSDP keeps 32-bit weights and two moments: 12 bytes a parameter.
        assert!((bytes / 8.03e9 - 12.0).abs() < 0.1, "{bytes}");
    }
}
