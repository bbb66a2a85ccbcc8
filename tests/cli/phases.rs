//! Workloads with phases: each on its own machines, near what the one before it leaves, and all of them together.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::cli::support::{NOW, gpuplan, gpuplan_at, plan};

fn nanos(value: &serde_json::Value) -> i128 {
    let (whole, part) = value.as_str().unwrap().split_once('.').unwrap();
    format!("{whole}{part:0<9}").parse().unwrap()
}

#[test]
fn the_total_is_the_sum_and_the_top_is_the_costliest() {
    let document = plan("phases", &[]);
    let phases = document["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["prepare", "explore", "train", "adapt", "serve"]);
    for key in ["expected", "p50", "p90"] {
        let cost: i128 = phases.iter().map(|phase| nanos(&phase["recommendation"]["cost_usd"][key])).sum();
        assert_eq!(cost, nanos(&document["total"]["cost_usd"][key]), "{key}");
        let hours: f64 = phases.iter().map(|phase| phase["recommendation"]["run_hours"][key].as_f64().unwrap()).sum();
        assert!((hours - document["total"]["run_hours"][key].as_f64().unwrap()).abs() < 1e-9, "{key}");
    }
    let costliest = phases.iter().max_by_key(|phase| nanos(&phase["recommendation"]["cost_usd"]["expected"])).unwrap();
    assert_eq!(costliest["recommendation"]["id"], document["recommendation"]["id"]);
    // It is good no longer than the price that is stale first; machines to fall back on may have an older one.
    let moment = |value: &serde_json::Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let until = phases.iter().map(|phase| &phase["recommendation"]).map(|plan| {
        let hours = if plan["purchase"].as_str().unwrap().starts_with("spot") { 1 } else { 30 * 24 };
        moment(&plan["price"]["observed_at"]) + SignedDuration::from_hours(hours)
    });
    assert!(moment(&document["valid_until"]) <= until.min().unwrap(), "{}", document["valid_until"]);
    // What is written is enough to ask again.
    assert_eq!(document["workload"]["file"]["phase"].as_array().unwrap().len(), 5);
    let alone = plan("phases", &["--phase", "prepare"]);
    assert_eq!(alone["recommendation"]["id"], phases[0]["recommendation"]["id"]);
}

#[test]
fn a_phase_stays_near_a_large_amount_that_it_is_handed() {
    let folder = tempfile::tempdir().unwrap();
    let ask = |handed: &str| {
        let text = format!(
            "[model]\npreset = \"llama-3.1-8b\"\n[training]\ntask = \"lora\"\ntokens = \"5M\"\n\
             [[phase]]\nname = \"a\"\nhands_over = \"{handed}\"\n[phase.limits]\nclouds = [\"gcp\"]\n[[phase]]\nname = \"b\"\n"
        );
        let path = folder.path().join(format!("{handed}.toml"));
        fs::write(&path, text).unwrap();
        let ran = gpuplan(&["plan", path.to_str().unwrap(), "--output", "json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        document["phases"][1]["recommendation"]["cloud"].as_str().unwrap().to_owned()
    };
    // 50 TB out of a cloud cost thousands of dollars; a megabyte costs nothing.
    assert_eq!(ask("50TB"), "gcp");
    assert_ne!(ask("1MB"), "gcp");
}

#[test]
fn all_phases_together_keep_the_deadline_and_the_budget() {
    let free = plan("phases", &["--deadline", "400d", "--budget", "100000"]);
    // All but the service, which runs for its week in any case.
    let ends = |document: &serde_json::Value| {
        let phases = document["phases"].as_array().unwrap().iter().take(4);
        phases.map(|phase| phase["recommendation"]["run_hours"]["p90"].as_f64().unwrap()).sum::<f64>()
    };
    let hours = ends(&free);
    let deadline = format!("{:.0}h", hours * 0.8);
    let hurried = plan("phases", &["--deadline", &deadline, "--budget", "100000"]);
    assert!(ends(&hurried) <= hours * 0.8);
    let shares: f64 = hurried["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["deadline_hours"].as_f64().unwrap_or_default())
        .sum();
    assert!((shares - (hours * 0.8).round()).abs() < 1e-6, "{shares} of {deadline}");
    let poor = gpuplan(&["plan", "examples/phases.toml", "--budget", "10"]);
    assert_eq!(poor.code, 4, "{}", poor.stderr);
    assert!(poor.stderr.contains("all phases together cost up to $"), "{}", poor.stderr);
    let late = gpuplan(&["plan", "examples/phases.toml", "--deadline", "30m"]);
    assert_eq!(late.code, 3, "{}", late.stderr);
    assert!(late.stderr.contains("phase prepare: "), "{}", late.stderr);
}

#[test]
fn what_is_for_one_workload_asks_which_phase() {
    for command in [
        &["launch", "examples/phases.toml", "--cloud", "fake", "-y", "--", "true"][..],
        &["explain", "examples/phases.toml"],
        &["estimate", "examples/phases.toml"],
        &["export", "examples/phases.toml", "--to", "slurm", "--", "true"],
    ] {
        let ran = gpuplan(command);
        assert_eq!(ran.code, 2, "{command:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("prepare, explore, train, adapt, serve") && ran.stderr.contains("--phase explore"),
            "{command:?}: {}",
            ran.stderr
        );
    }
    let unknown = gpuplan(&["plan", "examples/phases.toml", "--phase", "sell"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("choose one of prepare, explore, train, adapt, serve"), "{}", unknown.stderr);
    let explained = gpuplan(&["explain", "examples/phases.toml", "--phase", "adapt"]);
    assert_eq!(explained.code, 0, "{}", explained.stderr);
}

#[test]
fn work_without_gpu_is_planned_on_machines_that_have_none() {
    let document = plan("phases", &["--phase", "prepare"]);
    let best = &document["recommendation"];
    assert_eq!((&best["gpu"], &best["gpus_per_node"], &best["bound_by"]), (&json!(null), &json!(0), &json!("cpu")));
    assert_eq!(format!("{}/{}", best["cloud"].as_str().unwrap(), best["region"].as_str().unwrap()), "gcp/us-central1");
    let lines: i128 = best["bill"].as_array().unwrap().iter().map(|line| nanos(&line["cost_usd"])).sum();
    assert_eq!(lines, nanos(&best["cost_usd"]["expected"]));
    let beside = &document["on_gpu_machines"];
    assert!(beside["gpu"].is_string() && nanos(&beside["cost_usd"]["expected"]) > nanos(&best["cost_usd"]["expected"]));
    for (width, lines) in [("80", 80), ("160", 160)] {
        let ran = gpuplan_at(NOW, width, &["plan", "examples/phases.toml", "--phase", "prepare", "--details"]);
        assert!(ran.stdout.lines().all(|line| line.chars().count() <= lines), "{}", ran.stdout);
        assert!(ran.stdout.contains("on the CPUs of the cheapest machines with GPUs"), "{}", ran.stdout);
    }
    let hurried = plan("phases", &["--phase", "prepare", "--deadline", "2h", "--on-demand"]);
    assert!(hurried["recommendation"]["run_hours"]["p90"].as_f64().unwrap() <= 2.0);
    assert!(
        hurried["recommendation"]["chance_by_deadline"].as_f64().unwrap() > 0.89
            && hurried["recommendation"]["losses"].is_null()
    );
    let refusals = [
        (&["--deadline", "10m"][..], 3),
        (&["--cloud", "azure"], 3),
        (&["--budget", "0.02"], 4),
        (&["--output", "csv"], 2),
    ];
    for (limits, code) in refusals {
        let ran = gpuplan(&[&["plan", "examples/phases.toml", "--phase", "prepare"], limits].concat());
        assert_eq!(ran.code, code, "{limits:?}: {}", ran.stderr);
    }
}

#[test]
fn what_runs_on_gpus_refuses_work_without_them_and_plans_never_mix_the_machines() {
    for command in [
        &["launch", "examples/phases.toml", "--phase", "prepare", "--cloud", "fake", "-y", "--", "true"][..],
        &["explain", "examples/phases.toml", "--phase", "prepare"],
        &["estimate", "examples/phases.toml", "--phase", "prepare"],
        &["export", "examples/phases.toml", "--phase", "prepare", "--to", "slurm", "--", "true"],
        &["report", "examples/phases.toml", "--phase", "prepare"],
    ] {
        let ran = gpuplan(command);
        assert_eq!(ran.code, 2, "{command:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("machines without GPU, which is planned only"), "{command:?}: {}", ran.stderr);
    }
    let text = |arguments: &[&str]| gpuplan(arguments).stdout;
    assert!(text(&["catalog", "hosts", "--output", "csv"]).contains("t2d-standard-60"));
    assert!(text(&["prices", "--hosts", "--cloud", "gcp", "--spot", "--trusted"]).contains("t2d-standard-60"));
    for command in
        [&["catalog", "instances", "--output", "csv"][..], &["prices", "--max-results", "0", "--output", "csv"]]
    {
        assert!(!text(command).contains("t2d-standard"), "{command:?}");
    }
    let document = plan("phases", &["--phase", "explore"]);
    assert!(!document.to_string().contains("t2d-standard"));
}

#[test]
fn a_phase_may_say_nothing_but_that_it_needs_no_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.toml");
    let text = "[model]\npreset = \"resnet-50\"\n[[phase]]\nname = \"prepare\"\nhands_over = \"170GB\"\n[phase.data]\nkind = \"jpeg\"\n\
        size = \"150GB\"\nsamples = 1281167\n[phase.processing]\n[[phase]]\nname = \"train\"\n[phase.training]\nepochs = 9\n[phase.data]\n\
        kind = \"raw\"\nsamples = 1281167\n";
    fs::write(&path, text).unwrap();
    let ran = gpuplan(&["plan", path.to_str().unwrap(), "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let document = ran.json();
    let phases = document["phases"].as_array().unwrap();
    assert!(phases[0]["recommendation"]["gpu"].is_null() && phases[1]["recommendation"]["gpu"].is_string());
    // What is written is enough to ask again.
    assert!(document["workload"]["file"]["phase"][0]["processing"].is_object());
    let assumed = phases[0]["assumed"].to_string();
    assert!(assumed.contains("processing.cpu_seconds_per_sample=0.0046"), "{assumed}");
    fs::write(&path, text.replace("[phase.processing]", "[phase.processing]\n[phase.training]\nsteps = 3")).unwrap();
    let ran = gpuplan(&["plan", path.to_str().unwrap()]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("`[processing]` and `[training]` exclude each other"), "{}", ran.stderr);
}

/// Expected nano-dollars of a budget of this file.
fn budgeted(path: &str) -> (i128, usize) {
    let ran = gpuplan(&["budget", path, "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let budget: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    (nanos(&budget["total"]["cost_usd"]["expected"]), budget["phases"].as_array().unwrap().len())
}

#[test]
fn a_budget_has_every_phase_of_a_workload_of_its_recorded_plan_and_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for example in ["phases", "ppo-13b"] {
        let document = plan(example, &[]);
        let (total, count) =
            (nanos(&document["total"]["cost_usd"]["expected"]), document["phases"].as_array().unwrap().len());
        fs::write(at("plan.json"), document.to_string()).unwrap();
        let file = fs::canonicalize(format!("examples/{example}.toml")).unwrap();
        let dated = "currency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-12\"\nmonths = 1\n";
        let portfolio = format!("{dated}[[run]]\nname = \"r\"\nworkload = {:?}\n", file.to_str().unwrap());
        fs::write(at("portfolio.toml"), portfolio).unwrap();
        for path in [file.to_str().unwrap(), &at("plan.json"), &at("portfolio.toml")] {
            assert_eq!(budgeted(path), (total, count), "{example}: {path}");
        }
    }
}

#[test]
fn the_difference_of_two_plans_is_that_of_all_their_phases() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, document: &serde_json::Value| {
        let path = folder.path().join(name);
        fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (all, dear) = (plan("ppo-13b", &[]), plan("ppo-13b", &["--gpus", "A100"]));
    let ran = gpuplan(&["diff", &write("a.json", &all), &write("b.json", &dear), "--output", "json"]);
    let diff: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let total = |document: &serde_json::Value| nanos(&document["total"]["cost_usd"]["expected"]);
    assert_eq!(
        [nanos(&diff["total"]["before_usd"]), nanos(&diff["total"]["after_usd"])],
        [total(&all), total(&dear)],
        "{diff}"
    );
    let lines = diff["lines"].as_array().unwrap();
    assert!(lines.iter().any(|line| line["what"] == "actor, machines"), "{diff}");

    let page = gpuplan(&["report", &write("a.json", &all)]);
    assert_eq!(page.code, 2, "{}", page.stderr);
    assert!(page.stderr.contains("this plan has phases (rollouts, scores, actor, critic)"), "{}", page.stderr);
    assert!(page.stderr.contains("gpuplan budget"), "{}", page.stderr);
}
