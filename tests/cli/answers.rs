//! Answers for programs: exact bills, locked plans, the frontier's law, JSON shapes, determinism, age of prices.

use gpuplan::units::Usd;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cli::support::{NOW, Ran, gpuplan, gpuplan_at, plan, plans};

fn amount(value: &Value) -> Usd {
    Usd::parse(value.as_str().unwrap()).unwrap()
}

#[test]
fn the_lines_of_every_bill_add_up_to_the_nano_dollar() {
    for example in ["llama-3.1-8b-finetune", "llama-7b-pretrain", "llama-3-70b-qlora"] {
        let document = plan(example, &[]);
        for plan in plans(&document) {
            let sum: Usd = plan["bill"].as_array().unwrap().iter().map(|line| amount(&line["cost_usd"])).sum();
            assert_eq!(sum, amount(&plan["cost_usd"]["expected"]), "{}", plan["id"]);
            assert!(amount(&plan["cost_usd"]["p90"]) >= amount(&plan["cost_usd"]["p50"]), "{}", plan["id"]);
        }
    }
}

#[test]
fn nothing_on_the_frontier_is_beaten_in_both_cost_and_time() {
    let document = plan("llama-3.1-8b-finetune", &["--deadline", "30d", "--budget", "100000"]);
    let frontier = document["frontier"].as_array().unwrap();
    assert!(frontier.len() > 3);
    for pair in frontier.windows(2) {
        assert!(amount(&pair[0]["cost_usd"]["expected"]) < amount(&pair[1]["cost_usd"]["expected"]));
        assert!(pair[0]["run_hours"]["expected"].as_f64() > pair[1]["run_hours"]["expected"].as_f64());
    }
}

#[test]
fn a_plan_carries_every_key_of_the_contract() {
    let document = plan("llama-3.1-8b-finetune", &[]);
    for key in [
        "version",
        "generated_at",
        "valid_until",
        "inputs",
        "workload",
        "limits",
        "recommendation",
        "frontier",
        "rejected",
        "counts",
        "notes",
    ] {
        assert!(!document[key].is_null(), "{key}");
    }
    for key in ["offers", "shapes", "layouts_estimated"] {
        assert!(document["counts"][key].as_u64().unwrap() > 0, "{key}");
    }
    let keys = [
        "id",
        "cloud",
        "region",
        "instance_type",
        "gpu",
        "gpus_per_node",
        "nodes",
        "purchase",
        "rate_usd_per_hour",
        "price",
        "layout",
        "step_seconds",
        "tokens_per_second",
        "gpu_memory_bytes",
        "bound_by",
        "gpu_utilization",
        "wait_hours",
        "run_hours",
        "cost_usd",
        "bill",
        "chance_by_deadline",
        "checkpoint",
        "because",
    ];
    for key in keys {
        assert!(!document["recommendation"][key].is_null(), "{key}");
    }
}

#[test]
fn a_locked_plan_gives_the_same_bytes_and_says_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    let first = gpuplan(&["plan", "examples/llama-3.1-8b-finetune.toml", "--gpus", "H100", "--output", "json"]);
    std::fs::write(&path, &first.stdout).unwrap();
    let again = gpuplan_at("2027-01-01T00:00:00Z", "80", &["plan", "--locked", path.to_str().unwrap()]);
    assert_eq!((again.code, again.stdout.as_str()), (0, first.stdout.as_str()), "{}", again.stderr);

    let mut document = first.json();
    document["inputs"]["offers_sha256"] = "0000000000000000".into();
    std::fs::write(&path, document.to_string()).unwrap();
    let gone = gpuplan(&["plan", "--locked", path.to_str().unwrap()]);
    assert_eq!(gone.code, 5);
    assert!(gone.stderr.contains("the offers of then (000000000000) are gone"), "{}", gone.stderr);

    document["inputs"]["offers_sha256"] = 3.into();
    std::fs::write(&path, document.to_string()).unwrap();
    let odd = gpuplan(&["plan", "--locked", path.to_str().unwrap()]);
    assert!(odd.code == 2 && odd.stderr.contains("invalid type: integer `3`, expected a string"), "{}", odd.stderr);

    std::fs::write(&path, "{}").unwrap();
    assert_eq!(gpuplan(&["plan", "--locked", path.to_str().unwrap()]).code, 2);
}

/// A figure read in another meaning is worse than none.
#[test]
fn a_plan_of_a_newer_program_is_refused_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (old, newer) = ("tests/fixtures/plans/one-gpu.json", path("newer.json"));
    let text = std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(old)).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    document["version"] = 2.into();
    std::fs::write(&newer, document.to_string()).unwrap();
    let commands: [&[&str]; 6] = [
        &["plan", "--locked", &newer],
        &["launch", &newer, "--cloud", "fake", "--dry-run", "--", "true"],
        &["export", &newer, "--to", "slurm"],
        &["report", &newer],
        &["budget", &newer],
        &["diff", old, &newer],
    ];
    for command in commands {
        let ran = gpuplan(command);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{command:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("this plan has version 2, written by a newer gpuplan; this program reads version 1"),
            "{command:?}: {}",
            ran.stderr
        );
    }
}

/// A folder in the place of a file can be read by nobody, whoever runs the test.
#[test]
fn what_is_there_and_cannot_be_read_is_not_taken_for_absent() {
    let home = tempfile::tempdir().unwrap();
    let kept = home.path().join("calibrations/h100.json");
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::create_dir(home.path().join("prices.sqlite")).unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command.args(arguments).args(["--now", NOW]).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
        command.env("COLUMNS", "100").env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", home.path());
        Ran::of(command.output().unwrap())
    };
    let question = ["plan", "examples/llama-3.1-8b-lora.toml", "--gpus", "H100"];
    let refused = ask(&question);
    assert!(refused.code == 2 && refused.stderr.contains("calibrations/h100.json"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: `--calibration none` uses none"), "{}", refused.stderr);
    assert_eq!(ask(&[&question[..], &["--calibration", "none"]].concat()).code, 0);
    let history = ask(&["prices", "H100", "--spot", "--history"]);
    assert!(history.code == 1 && history.stderr.contains("price cache"), "{}", history.stderr);
}

#[test]
fn the_same_question_gives_the_same_bytes() {
    let ask = || {
        gpuplan(&["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "10M", "--output", "json"]).stdout
    };
    assert_eq!(ask(), ask());
}

#[test]
fn a_limit_is_kept_by_every_plan() {
    let document = plan(
        "llama-3.1-8b-finetune",
        &["--cloud", "aws", "--on-demand", "--deadline", "12h", "--budget", "300", "--max-price", "60"],
    );
    for plan in plans(&document) {
        assert_eq!((plan["cloud"].as_str(), plan["purchase"].as_str()), (Some("aws"), Some("on-demand")));
        assert!(plan["run_hours"]["p90"].as_f64().unwrap() <= 12.0);
        assert!(amount(&plan["cost_usd"]["p90"]) <= Usd::parse("300").unwrap());
        assert!(plan["chance_by_deadline"].as_f64().unwrap() >= 0.9);
        assert!(plan["price"]["suspect"].as_array().unwrap().is_empty());
    }
}

#[test]
fn a_sooner_deadline_never_makes_a_plan_cheaper() {
    let cost = |deadline: &str| {
        amount(
            &plan("llama-7b-pretrain", &["--deadline", deadline, "--on-demand"])["frontier"][0]["cost_usd"]["expected"],
        )
    };
    assert!(cost("5d") >= cost("20d") && cost("20d") >= cost("60d"));
}

/// 15.0 GiB used fit the 16,384 MiB of the interface; the driver of a real T4 leaves 15,360.
#[test]
fn what_needs_all_of_a_t4_does_not_fit() {
    let ask = |tokens: &str| {
        let job = ["estimate", "--gpus", "T4", "--model", "llama-3.1-8b", "--task", "qlora", "--tokens", "1M"];
        let how = ["--precision", "fp16", "--recompute", "none", "--micro-batch", "1", "--global-batch", "16"];
        gpuplan(&[job.as_slice(), &how, &["--sequence-length", tokens]].concat())
    };
    let refused = ask("1056");
    assert_eq!(refused.code, 3, "{}", refused.stdout);
    assert!(refused.stderr.contains("needs 16.0 GiB of 15.0 GiB a GPU"), "{}", refused.stderr);
    assert_eq!(ask("768").code, 0);
}

/// A GB300 has 278 GiB, not the 260 of its label read as GB.
#[test]
fn a_gb300_has_all_of_its_memory() {
    let ran = gpuplan(&["catalog", "gpus", "GB300", "--output", "json"]);
    let row = &ran.json()["gpus"][0];
    assert_eq!(row["memory_visible_mib"], 284_672.0, "{row}");
}

#[test]
fn old_prices_are_said_to_be_old() {
    let ask =
        |now: &str| gpuplan_at(now, "100", &["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "10M"]);
    assert_eq!(ask("2026-10-13T00:00:00Z").stderr, "");
    let warned = ask("2026-12-12T00:00:00Z").stderr;
    assert!(warned.starts_with("warning: the newest price is 63 days old"), "{warned}");
    let stale = ask("2027-05-12T00:00:00Z").stdout;
    assert!(stale.lines().next().unwrap().starts_with("PRICES ARE 214 DAYS OLD"), "{stale}");
}

#[test]
fn a_plan_is_valid_as_long_as_its_price_is_fresh() {
    let ask = |now: &str, terms: &str| {
        let ran = gpuplan_at(now, "100", &["plan", "examples/llama-3.1-8b-finetune.toml", terms, "--output", "json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.json()
    };
    let moment = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    for (terms, fresh) in
        [("--on-demand", SignedDuration::from_hours(30 * 24)), ("--spot", SignedDuration::from_hours(1))]
    {
        for now in ["2026-10-13T12:00:00Z", "2027-02-10T12:00:00Z"] {
            let document = ask(now, terms);
            let (until, price) = (moment(&document["valid_until"]), &document["recommendation"]["price"]);
            assert_eq!(until, moment(&price["observed_at"]) + fresh, "{terms} {now}");
            assert_eq!(price["stale"], until < now.parse().unwrap(), "{terms} {now}: {price}");
        }
    }
    // Four months after the snapshot every price of it is stale, and none is said to hold until tomorrow.
    assert!(
        moment(&ask("2027-02-10T12:00:00Z", "--on-demand")["valid_until"]) < "2026-11-10T00:00:00Z".parse().unwrap()
    );
}

#[test]
fn cases_are_answered_in_order_and_one_bad_line_spoils_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases.jsonl");
    let good = r#"{"id":"a","model":{"kind":"decoder","layers":32,"hidden":4096},"hardware":{"gpu":"h100-sxm5-80","gpus":8},"training":{"task":"pretrain","global_batch":64}}"#;
    let odd = r#"{"id":"c","model":{"kind":"decoder","layers":32,"hidden":4096},"hardware":{"gpu":"h100-sxm5-80"},"training":{"precision":"fp7"}}"#;
    let huge =
        r#"{"id":"d","model":{"kind":"decoder","layers":4294967295,"hidden":4096},"hardware":{"gpu":"h100-sxm5-80"}}"#;
    let strange = good.replace("\"task\"", "\"framework\":\"megatorn\",\"task\"");
    std::fs::write(&path, format!("{good}\nnot json\n{odd}\n{huge}\n{{}}\n{strange}\n")).unwrap();
    let ran = gpuplan(&["estimate", "--cases", path.to_str().unwrap(), "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 6);
    assert_eq!(answers[0]["id"], "a");
    assert!(answers[0]["step_seconds"]["low"].as_f64() < answers[0]["step_seconds"]["high"].as_f64());
    for (index, word) in [(1, "not JSON"), (2, "fp7"), (3, "layers"), (4, "gpu"), (5, "did you mean `megatron`?")] {
        assert!(answers[index]["unsupported"].as_str().unwrap().contains(word), "{}", answers[index]);
    }
}

#[test]
fn explain_shows_a_loser_and_what_would_change_it() {
    let ran = gpuplan(&["explain", "examples/llama-3.1-8b-finetune.toml", "--plan", "L40S", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let value = ran.json();
    assert_eq!(value["plan"]["gpu"], "l40s");
    assert!(
        !value["why_not"].as_array().unwrap().is_empty() && !value["what_would_change"].as_array().unwrap().is_empty()
    );
    let id = value["plan"]["id"].as_str().unwrap();
    let by_id = gpuplan(&["explain", "examples/llama-3.1-8b-finetune.toml", "--plan", id, "--output", "json"]);
    assert_eq!(by_id.json()["plan"]["id"], id);
    let table = gpuplan(&["explain", "examples/llama-3.1-8b-finetune.toml"]);
    assert!(table.stdout.contains("optimizer states") && table.stdout.contains("matrix products"), "{}", table.stdout);
}

#[test]
fn csv_has_a_header_and_a_row_a_plan() {
    let ran = gpuplan(&["plan", "examples/llama-3.1-8b-lora.toml", "--output", "csv"]);
    let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
    let columns = reader.headers().unwrap().len();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert!(rows.len() > 3 && rows.iter().all(|row| row.len() == columns));
}

#[test]
fn completions_and_manual_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(gpuplan(&["completions", shell]).stdout.contains("gpuplan"), "{shell}");
    }
    assert!(gpuplan(&["man"]).stdout.contains(".TH gpuplan"));
}
