//! Spot policies replayed: golden vectors, the laws of the answers, and a world that does its worst.

use gpuplan::spot::availability::AvailabilityModel;
use gpuplan::spot::case::Simulator;
use gpuplan::spot::trace::Trace;
use gpuplan::units::{Usd, UsdPerHour};
use proptest::prelude::*;
use serde_json::{Value, json};

const POLICIES: [&str; 7] =
    ["on-demand", "greedy", "time-sliced", "uniform-progress", "slack-reserve", "semi-markov", "default"];

fn trace(source: &str, gap: f64, obtainable: Vec<u32>) -> Trace {
    Trace { source: source.to_owned(), gap, obtainable }
}

fn simulator(traces: Vec<Trace>) -> Simulator {
    Simulator::new(traces, AvailabilityModel::prior(), 0)
}

/// 8 h of work in 10 h on trace `t`, with other keys laid over it.
fn case(more: Value) -> String {
    let mut case = json!({
        "id": 1, "trace": "t", "work_hours": 8, "deadline_hours": 10, "changeover_hours": 0.2, "on_demand_usd_per_hour": "3.06",
        "spot_usd_per_hour": "0.9731", "decisions": true
    });
    case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    case.to_string()
}

fn hours(answer: &Value, key: &str) -> f64 {
    answer[key].as_f64().unwrap_or_else(|| panic!("{key} of {answer}"))
}

fn usd(answer: &Value) -> Usd {
    Usd::parse(answer["cost_usd"].as_str().unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

/// `(letter, pool, ticks)` of every stretch of the decisions, `s12` and `s@1x12` alike.
fn stretches(decisions: &str) -> Vec<(char, Option<usize>, u32)> {
    let starts: Vec<usize> =
        decisions.char_indices().filter(|(_, letter)| "sio".contains(*letter)).map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([decisions.len()]);
    let read = |text: &str| {
        let (pool, ticks) = text[1..]
            .strip_prefix('@')
            .and_then(|rest| rest.split_once('x'))
            .map_or((None, &text[1..]), |(pool, ticks)| (Some(pool.parse().unwrap()), ticks));
        (text.chars().next().unwrap(), pool, ticks.parse().unwrap())
    };
    starts.iter().zip(ends).map(|(from, to)| read(&decisions[*from..to])).collect()
}

#[test]
fn the_cost_is_what_the_decisions_say() {
    let pattern: Vec<u32> = (0..200).map(|tick| u32::from(tick % 17 < 9)).collect();
    let simulator = simulator(vec![trace("t", 600.0, pattern)]);
    for policy in POLICIES {
        let answer = simulator.answer(&case(json!({ "policy": policy })));
        let (mut cost, mut ticks) = (Usd::ZERO, 0);
        for (letter, _, count) in stretches(answer["decisions"].as_str().unwrap()) {
            let rate = if letter == 's' { "0.9731" } else { "3.06" };
            if letter != 'i' {
                cost = cost + UsdPerHour::parse(rate).unwrap().for_hours(1, f64::from(count) / 6.0).unwrap();
            }
            ticks += count;
        }
        assert!((cost.dollars() - usd(&answer).dollars()).abs() < 1e-6, "{policy}: {answer}");
        assert!((f64::from(ticks) / 6.0 - hours(&answer, "finish_hours")).abs() < 1e-9);
        assert_eq!(answer["reasons"].as_array().unwrap().len(), stretches(answer["decisions"].as_str().unwrap()).len());
        assert_eq!(answer["met_deadline"], true);
    }
}

#[test]
fn the_worst_worlds_are_survived() {
    let dies_after_each_changeover = (0..200).map(|tick| u32::from(tick % 3 < 2)).collect();
    for (name, pattern) in [
        ("all down", vec![0; 200]),
        ("all up", vec![1; 200]),
        ("dies after each changeover", dies_after_each_changeover),
    ] {
        let simulator = simulator(vec![trace("t", 600.0, pattern)]);
        let only_on_demand = usd(&simulator.answer(&case(json!({ "policy": "on-demand" }))));
        for policy in ["slack-reserve", "default"] {
            let answer = simulator.answer(&case(json!({ "policy": policy })));
            assert_eq!(answer["met_deadline"], true, "{name}: {answer}");
            assert!(usd(&answer).dollars() < 1.2 * only_on_demand.dollars(), "{name}: {answer}");
        }
    }
}

/// The stress cases of the protocol, each with a loss of unsaved work at every interruption, and a clock that is ten minutes off.
#[test]
fn saved_work_and_the_budget_survive_every_stress() {
    let every = |up: u32, of: u32| (0..400).map(|tick| u32::from(tick % of < up)).collect();
    let patterns: [(&str, Vec<u32>); 4] = [
        ("all down", vec![0; 400]),
        ("all up", vec![1; 400]),
        ("dies after each changeover", every(2, 3)),
        ("flickers", every(5, 9)),
    ];
    for (name, pattern) in patterns {
        let simulator = simulator(vec![trace("t", 600.0, pattern)]);
        for policy in POLICIES {
            for outages in [json!([]), json!([[0, 3], [20, 12]])] {
                let stress = json!({
                    "policy": policy, "on_demand_outages": outages, "save_every_hours": 0.5, "deadline_hours": 14,
                    "worst_changeover_hours": 0.9
                });
                let on = |more: Value| {
                    let mut terms = stress.as_object().unwrap().clone();
                    terms.extend(more.as_object().unwrap().clone());
                    simulator.answer(&case(Value::Object(terms)))
                };
                let free = on(json!({}));
                // What was saved is never done again: at most half an hour for each interruption, and a changeover for each start.
                let hours_run = hours(&free, "spot_hours") + hours(&free, "on_demand_hours");
                let most =
                    8.0 + 0.2 * hours(&free, "starts") + (0.5 + 1.0 / 6.0) * hours(&free, "interruptions") + 1.0 / 6.0;
                assert!(hours_run <= most + 1e-9, "{name}, {policy}: {free}");
                for budget in ["3", "10", "24.48"] {
                    let capped = on(json!({ "budget_usd": budget }));
                    assert!(usd(&capped) <= Usd::parse(budget).unwrap(), "{name}, {policy}: {capped}");
                    let ended = capped["out_of_budget"] == true;
                    assert_eq!(ended, usd(&free) > Usd::parse(budget).unwrap(), "{name}, {policy}: {capped}\n{free}");
                    assert!(!ended || capped["met_deadline"] == false);
                }
                for ahead in [-1.0 / 6.0, 1.0 / 6.0] {
                    let skewed = on(json!({ "clock_ahead_hours": ahead, "on_demand_outages": [] }));
                    if ["slack-reserve", "default"].contains(&policy) {
                        // A clock that is slow by ten minutes may cost ten minutes of the deadline, and no more.
                        assert!(
                            hours(&skewed, "finish_hours") <= 14.0 + f64::max(0.0, -ahead) + 1e-9,
                            "{name}, {policy}: {skewed}"
                        );
                    }
                }
            }
        }
    }
}

/// Pools that take every machine away before or soon after it does work: 30 starts of a tick each cost 1.21 times as much as on-demand machines on the traces.
#[test]
fn no_run_costs_much_more_than_on_demand_machines() {
    let mut kept = 0;
    for (up, down, probe_minutes) in
        (1..4).flat_map(|up| (1..5).flat_map(move |down| [0, 10].map(|probe_minutes| (up, down, probe_minutes))))
    {
        let pattern = (0..600).map(|tick| u32::from(tick % (up + down) < up)).collect();
        let simulator = simulator(vec![trace("t", 600.0, pattern)]);
        for (work, stretch, changeover, spot) in
            [(6.0, 1.5, 0.2, "0.9731"), (24.0, 1.25, 0.5, "2.3"), (24.0, 3.0, 1.0, "0.9731"), (3.0, 4.0, 0.2, "2.3")]
        {
            let answer = simulator.answer(&case(json!({
                "work_hours": work, "deadline_hours": work * stretch, "changeover_hours": changeover,
                "worst_changeover_hours": changeover, "spot_usd_per_hour": spot, "probe_minutes": probe_minutes
            })));
            assert_eq!(answer["met_deadline"], true, "{answer}");
            let start = UsdPerHour::parse(spot).unwrap().dollars() * (changeover * 6.0_f64 - 1e-9).ceil() / 6.0;
            let alone = 3.06 * (work + changeover);
            // The last tick is paid in full.
            let most = alone + f64::max(0.2 * alone, 3.0 * start) + 3.06 / 6.0;
            assert!(
                usd(&answer).dollars() <= most,
                "{up} up, {down} down: {} of {most}, {answer}",
                usd(&answer).dollars()
            );
            kept += usize::from(answer["reasons"].to_string().contains("too dear"));
        }
    }
    assert!(kept > 0, "no case reaches the bound");
}

/// A fifth of less than an hour on on-demand machines pays for one lost start; a job with days until its deadline tries again all the same.
#[test]
fn a_short_job_with_much_time_left_tries_spot_again_after_a_lost_start() {
    let pattern = (0..600).map(|tick| u32::from(tick > 24 || tick % 8 == 0)).collect();
    let answer = simulator(vec![trace("t", 600.0, pattern)]).answer(&case(json!({
        "work_hours": 56.0 / 60.0, "deadline_hours": 72, "changeover_hours": 0.35, "spot_usd_per_hour": "1.2966", "probe_minutes": 10
    })));
    assert_eq!(hours(&answer, "on_demand_hours"), 0.0, "{answer}");
    assert!(answer["interruptions"].as_u64().unwrap() >= 1, "{answer}");
    assert!(usd(&answer).dollars() < 3.06 * (56.0 / 60.0 + 0.35), "{answer}");
}

#[test]
fn work_goes_on_when_on_demand_is_sold_out() {
    let simulator = simulator(vec![trace("t", 600.0, vec![0; 200])]);
    for ticks in [3, 12] {
        let answer = simulator.answer(&case(json!({ "on_demand_outages": [[0, ticks]], "deadline_hours": 11 })));
        assert_eq!(answer["met_deadline"], true, "{answer}");
    }
    // Sold out from just before the last moment to start: late by no more than the outage.
    let answer = simulator.answer(&case(json!({ "on_demand_outages": [[0, 20]] })));
    assert_eq!(answer["met_deadline"], false);
    assert!(hours(&answer, "finish_hours") < 20.0 / 6.0 + 8.5, "{answer}");
    assert!(answer["decisions"].as_str().unwrap().starts_with("i20o"), "{answer}");
}

#[test]
fn several_pools_pay_for_the_move() {
    let first = trace("a", 600.0, (0..200).map(|tick| u32::from(tick < 20)).collect());
    let second = trace("b", 600.0, (0..200).map(|tick| u32::from(tick >= 20)).collect());
    let pools = json!([
        { "trace": "a", "spot_usd_per_hour": "1" },
        { "trace": "b", "spot_usd_per_hour": "1", "switch_usd": "5", "switch_hours": 0.5 }
    ]);
    let answer = simulator(vec![first, second]).answer(&case(json!({ "pools": pools, "policy": "greedy" })));
    assert_eq!(answer["decisions"], "s@0x20s@1x33", "{answer}");
    assert_eq!(usd(&answer), Usd::parse("13.833333333").unwrap());
    assert_eq!((answer["starts"].as_u64(), answer["interruptions"].as_u64()), (Some(2), Some(1)));
}

/// A pool that becomes dearer is left for one that is cheaper now, each tick costs what it costs at the time, and nobody is cheaper than who knows
/// the prices to come.
#[test]
fn prices_that_move_are_paid_and_left() {
    let simulator = simulator(vec![trace("a", 600.0, vec![1; 200]), trace("b", 600.0, vec![1; 200])]);
    let pools = json!([
        { "trace": "a", "spot_usd_per_hour": "1", "spot_usd_per_hour_path": [["1", 40], ["2.5", 1000]] },
        { "trace": "b", "spot_usd_per_hour": "1.2" }
    ]);
    let answer = simulator.answer(&case(json!({ "pools": pools, "start_tick": 30 })));
    assert_eq!(answer["decisions"], "s@0x10s@1x41", "{answer}");
    assert!((usd(&answer).dollars() - (10.0 * 1.0 + 41.0 * 1.2) / 6.0).abs() < 1e-6, "{answer}");
    let alone = |more: Value| {
        let mut pool = pools[0].clone();
        pool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        simulator.answer(&case(json!({ "pools": [pool], "deadline_hours": 20, "start_tick": 30, "policy": "greedy" })))
    };
    // Paid by the tick, in the optimum too.
    let optimum = simulator.answer(&case(json!({ "pools": pools, "start_tick": 30, "policy": "omniscient" })));
    assert!(usd(&optimum) <= usd(&answer), "{optimum}");
    // Nobody takes it away as long as whatever it costs is paid.
    let kept = alone(json!({}));
    assert!((usd(&kept).dollars() - (10.0 * 1.0 + 40.0 * 2.5) / 6.0).abs() < 1e-6, "{kept}");
    // With a highest price it is gone while it costs more, and comes back.
    let path = json!([["1", 40], ["2.5", 20], ["1.5", 1]]);
    let capped = alone(json!({ "spot_usd_per_hour_path": path, "highest_usd_per_hour": "2" }));
    assert_eq!((&capped["decisions"], &capped["interruptions"]), (&json!("s10i20s41"), &json!(1)), "{capped}");
    assert!((usd(&capped).dollars() - (10.0 * 1.0 + 41.0 * 1.5) / 6.0).abs() < 1e-6, "{capped}");
}

/// Pools that flicker, each cheaper than what runs: whoever moves to them changes over for ever.
#[test]
fn pools_that_come_and_go_are_not_followed() {
    let flickers = |of: usize, name: &str| {
        trace(name, 600.0, (0..200).map(|tick| u32::from(tick > 0 && tick % 3 == of)).collect())
    };
    let steady = trace("steady", 600.0, vec![1; 200]);
    let pools = json!([
        { "trace": "steady", "spot_usd_per_hour": "1.2" },
        { "trace": "a", "spot_usd_per_hour": "1.0" },
        { "trace": "b", "spot_usd_per_hour": "0.9" },
        { "trace": "c", "spot_usd_per_hour": "0.8" }
    ]);
    let simulator = simulator(vec![steady, flickers(0, "a"), flickers(1, "b"), flickers(2, "c")]);
    // From every tick of eight rounds, since a single one may be lucky in when it asks. Whoever sees everything moves hardly ever; whoever asks without seeing
    // tries each pool again when it may have been up for hours.
    for (probe_minutes, most_starts) in [(0, 2.5), (10, 8.5)] {
        let starts = (0..24).map(|start_tick| {
            let answer = simulator.answer(&case(json!({
                "pools": pools, "policy": "default", "deadline_hours": 14, "probe_minutes": probe_minutes, "start_tick": start_tick
            })));
            assert_eq!((&answer["on_demand_hours"], &answer["met_deadline"]), (&json!(0.0), &json!(true)), "{answer}");
            hours(&answer, "starts")
        });
        let mean = starts.sum::<f64>() / 24.0;
        assert!(mean <= most_starts, "{probe_minutes}: {mean}");
    }
}

#[test]
fn a_pool_is_up_when_it_has_all_nodes_and_known_only_from_probes() {
    let counts = trace("t", 60.0, (0..2000).map(|tick| if tick < 5 { 4 } else { 2 }).collect());
    let simulator = simulator(vec![counts]);
    let two = simulator.answer(&case(json!({ "nodes": 2, "policy": "greedy" })));
    assert_eq!(hours(&two, "on_demand_hours"), 0.0);
    // Four are there for five minutes; the next probe after ten finds them gone, the running machines tell at once.
    let four = simulator.answer(&case(json!({ "nodes": 4, "policy": "greedy", "probe_minutes": 10 })));
    assert!(four["decisions"].as_str().unwrap().starts_with("s5i"), "{four}");
    assert_eq!(four["interruptions"], 1);
}

#[test]
fn a_forecast_is_the_same_for_the_same_seed_and_in_order() {
    let simulator = simulator(vec![trace("t", 600.0, vec![1; 300])]);
    let text = case(json!({ "forecast": true, "start_tick": 100 }));
    let answer = simulator.answer(&text);
    assert_eq!(answer, simulator.answer(&text));
    let cost = |key: &str| Usd::parse(answer["forecast"]["cost_usd"][key].as_str().unwrap()).unwrap();
    assert!(cost("p50") <= cost("p75") && cost("p75") <= cost("p90"));
    assert!(answer["forecast"]["finish_hours"]["p90"].as_f64().unwrap() <= 10.0);
}

#[test]
fn what_has_no_answer_says_why() {
    let simulator = simulator(vec![trace("t", 600.0, vec![0; 5])]);
    for (more, why) in [
        (json!({ "trace": "x" }), "no trace"),
        (json!({ "policy": "greedy" }), "the trace ends"),
        (json!({ "spot_usd_per_hour": "0" }), "not a price"),
        (
            json!({ "pools": [{ "trace": "t", "spot_usd_per_hour": "1", "spot_usd_per_hour_path": [["0", 3]] }] }),
            "not a price",
        ),
        (json!({ "work_hours": -1 }), "a time is negative"),
        (json!({ "policy": "guess" }), "unknown variant"),
    ] {
        let answer = simulator.answer(&case(more));
        assert!(answer["unsupported"].as_str().unwrap_or_default().contains(why) && answer["id"] == 1, "{answer}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever the pool does and however long changeovers take inside the declared worst case, the deadline holds; and
    /// nobody is cheaper than who knows the future.
    #[test]
    fn the_deadline_holds_inside_the_declared_worst_case(
        runs in prop::collection::vec((1_usize..30, any::<bool>()), 1..60),
        work in 2_u32..20,
        slack_ticks in 4_u32..40,
        changeovers in prop::collection::vec(0.05_f64..0.6, 1..6),
        slack_reserve in any::<bool>(),
    ) {
        let mut pattern: Vec<u32> = runs.iter().flat_map(|(ticks, up)| std::iter::repeat_n(u32::from(*up), *ticks)).collect();
        pattern.resize(400, 0);
        let simulator = simulator(vec![trace("t", 600.0, pattern)]);
        let deadline = f64::from(work) + f64::from(slack_ticks) / 6.0;
        let terms = json!({
            "work_hours": work, "deadline_hours": deadline, "worst_changeover_hours": 0.6, "changeover_hours_samples": changeovers,
            "policy": if slack_reserve { "slack-reserve" } else { "default" }
        });
        let answer = simulator.answer(&case(terms));
        prop_assert_eq!(&answer["met_deadline"], true, "{}", answer);
        let exact = |policy: &str| simulator.answer(&case(json!({ "work_hours": work, "deadline_hours": deadline, "policy": policy })));
        prop_assert!(usd(&exact("omniscient")) <= usd(&exact("default")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any terms are answered or refused, and a cost is never below that of the work on the cheapest machine.
    #[test]
    fn odd_terms_are_answered_or_refused(
        times in prop::collection::vec(prop_oneof![Just(0.0), Just(1e300), 1e-6_f64..1e-3, 0.0_f64..30.0, 1e3_f64..1e7], 6),
        gap in prop_oneof![Just(1.0), Just(1e9), 30.0_f64..4000.0],
        start_tick in prop_oneof![0_u64..500, Just(u64::MAX)],
        policy in prop::sample::select([&POLICIES[..], &["omniscient", "spot-only"]].concat()),
    ) {
        let simulator = simulator(vec![trace("t", gap, (0..400).map(|tick| u32::from(tick % 7 < 4)).collect())]);
        let terms = json!({
            "work_hours": times[0], "deadline_hours": times[1], "changeover_hours": times[2], "worst_changeover_hours": times[3],
            "changeover_hours_samples": [times[4]], "probe_minutes": times[5], "start_tick": start_tick, "policy": policy
        });
        let answer = simulator.answer(&case(terms));
        if answer["unsupported"].is_null() {
            prop_assert!(usd(&answer).dollars() > 0.9999 * times[0] * 0.9731 - 1e-6, "{}", answer);
        } else {
            prop_assert!(answer["id"] == 1 && answer["unsupported"].as_str().is_some_and(|why| !why.is_empty()), "{}", answer);
        }
    }
}

/// Cost, starts, interruptions and finish of the published policies, recorded from the public reference simulator.
#[test]
#[ignore = "needs the public traces and recorded vectors: GPUPLAN_SPOT_TRACES and GPUPLAN_SPOT_GOLDEN name the unpacked files"]
fn golden_vectors() {
    let file = |name: &str| {
        std::fs::read_to_string(std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))).unwrap()
    };
    let simulator = simulator(Trace::parse_all(&file("GPUPLAN_SPOT_TRACES"), "traces").unwrap());
    for line in file("GPUPLAN_SPOT_GOLDEN").lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        for (name, said) in vector["results"].as_object().unwrap() {
            let price = |key: &str| vector[key].to_string();
            let changeover = &vector["changeover_h"];
            let answer = simulator.answer(&case(json!({
                "trace": vector["trace"], "start_tick": vector["start_tick"], "work_hours": vector["work_h"],
                "deadline_hours": vector["deadline_h"], "changeover_hours": changeover, "worst_changeover_hours": changeover,
                "on_demand_usd_per_hour": price("od_price"), "spot_usd_per_hour": price("spot_price"), "policy": name.replace('_', "-")
            })));
            assert!((usd(&answer).dollars() - hours(said, "cost_usd")).abs() < 1e-4, "{vector}\n{answer}");
            if name != "omniscient" {
                assert_eq!(
                    (&answer["starts"], &answer["interruptions"]),
                    (&said["starts"], &said["preemptions"]),
                    "{vector}\n{answer}"
                );
                assert!((hours(&answer, "finish_hours") - hours(said, "finish_h")).abs() < 1e-3, "{vector}\n{answer}");
            }
        }
    }
}

/// A pool that comes up and stays so: whoever starts there stays, however little slack is left beside the changeover.
#[test]
fn no_start_is_ended_before_its_changeover() {
    let pools = [0, 1, 7, 13].map(|down| {
        let up = (0..400).map(|tick| u32::from(tick >= down)).collect();
        trace(&format!("down for {down}"), 600.0, up)
    });
    let simulator = simulator(pools.to_vec());
    let slacks = (2..12).map(|tenths| f64::from(tenths) * 0.3);
    let shapes =
        [0.2, 0.35, 0.5, 1.0, 1.2].into_iter().flat_map(|hours| slacks.clone().map(move |slack| (hours, slack)));
    for (changeover, slack) in shapes.filter(|(changeover, slack)| *slack > changeover + 0.4) {
        for (probe_minutes, pool) in
            [0, 10].into_iter().flat_map(|minutes| pools.iter().map(move |pool| (minutes, pool)))
        {
            let answer = simulator.answer(&case(json!({
                "trace": pool.source, "work_hours": 12, "deadline_hours": 12.0 + slack, "changeover_hours": changeover,
                "worst_changeover_hours": changeover, "probe_minutes": probe_minutes
            })));
            assert_eq!(answer["met_deadline"], true, "{answer}");
            let stretches = stretches(answer["decisions"].as_str().unwrap());
            let first = stretches.iter().position(|(letter, ..)| *letter == 's');
            assert!(
                first.is_none_or(|first| first == stretches.len() - 1),
                "{changeover} h, {slack} h of slack: {answer}"
            );
        }
    }
}
