//! Plans on spot: what they promise, on what conditions, with what certainty, and what stands beside them.

use std::path::Path;
use std::process::Command;

use gpuplan::launch::Journal;
use gpuplan::launch::launcher::{Market, Pool};
use gpuplan::spot::history::Saw;
use gpuplan::units::Usd;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cli::support::{NOW, Ran, gpuplan, plan, plans};

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

/// A plan of the example on machines of one kind, with this home.
fn with_home(home: &Path, more: &[&str]) -> Ran {
    let example = format!("{}/examples/{FINETUNE}.toml", env!("CARGO_MANIFEST_DIR"));
    let asked = ["plan", example.as_str(), "--cloud", "aws", "--gpus", "H100:8", "--purchase", "spot", "--now", NOW];
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(asked).args(more).env_clear().env("COLUMNS", "140").env("GPUPLAN_OFFLINE", "1");
    Ran::of(command.env("GPUPLAN_HOME", home).output().unwrap())
}

#[test]
fn the_next_plan_goes_by_what_own_launches_saw() {
    let home = tempfile::tempdir().unwrap();
    let json = ["--output", "json"];
    let before = with_home(home.path(), &json).json();
    let now: Timestamp = NOW.parse().unwrap();
    let place = &before["recommendation"]["spot"]["pools"][0];
    let named = |key: &str| place[key].as_str().map(str::to_owned);
    let pool = Pool {
        cloud: named("cloud").unwrap(),
        region: named("region").unwrap(),
        zone_id: named("zone_id"),
        instance_type: named("instance_type").unwrap(),
        market: Market::Spot,
    };
    let mut journal = Journal::open(&home.path().join("launches.sqlite")).unwrap();
    for (hours, saw) in [(23, Saw::Refused), (22, Saw::Gave), (2, Saw::Lost), (2, Saw::Refused)] {
        journal.saw("earlier", 1, now - SignedDuration::from_hours(hours), &[(pool.clone(), saw)]).unwrap();
    }
    let ran = with_home(home.path(), &json);
    let after = ran.json();
    let spot = &after["recommendation"]["spot"];
    assert_eq!(
        (&spot["own"]["starts"], &spot["own"]["losses"], &spot["own"]["refusals"]),
        (&1.into(), &1.into(), &2.into())
    );
    assert!((number(&spot["own"]["hours_up"]) - 20.0).abs() < 1e-9, "{spot}");
    assert_eq!(spot["basis"], "your own launches of these machines");
    let assumed = |document: &Value| number(&document["recommendation"]["spot"]["assumed_availability"]);
    assert!((assumed(&after) - assumed(&before)).abs() > 0.01, "{} {}", assumed(&before), assumed(&after));
    let text = with_home(home.path(), &["--details"]).stdout;
    assert!(text.contains("1 start, 1 loss and 2 refusals in"), "{text}");
    // Without them it is as before, and a recorded plan stands by what was seen then.
    assert_eq!(
        with_home(home.path(), &["--output", "json", "--no-history"]).json()["recommendation"],
        before["recommendation"]
    );
    let kept = home.path().join("plan.json");
    std::fs::write(&kept, &ran.stdout).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut again = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    again.args(["plan", "--locked", kept.to_str().unwrap()]).env_clear().env("GPUPLAN_OFFLINE", "1");
    let again = Ran::of(again.env("GPUPLAN_HOME", elsewhere.path()).output().unwrap());
    assert!(again.stdout == ran.stdout, "{}", again.stderr);
    assert_eq!(
        (&spot["own"]["last"]["is_up"], number(&spot["own"]["last"]["hours_ago"])),
        (&false.into(), 2.0),
        "{spot}"
    );
    // A pool that had machines a moment ago is still the one, and one that has refused for ten hours no more.
    let mut place_after = |run: &str, seen: &[(i64, Saw)]| {
        for (minutes, saw) in seen {
            journal.saw(run, 1, now - SignedDuration::from_mins(*minutes), &[(pool.clone(), *saw)]).unwrap();
        }
        let spot = &with_home(home.path(), &json).json()["recommendation"]["spot"];
        (spot["pools"][0]["region"].as_str().map(str::to_owned), spot["own"]["last"]["is_up"].as_bool())
    };
    let here = Some(pool.region.clone());
    assert_eq!(place_after("later", &[(60, Saw::Gave), (10, Saw::Left)]), (here.clone(), Some(true)));
    assert_ne!(place_after("last", &[(600, Saw::Refused), (300, Saw::Refused), (0, Saw::Refused)]).0, here);
}
