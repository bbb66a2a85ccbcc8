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

/// Prices of one machine by its name, and of a continent on every cloud, whatever its regions are called.
#[test]
fn prices_are_asked_for_by_machine_and_by_continent() {
    let offers = |more: &[&str]| {
        let document = gpuplan(&[&["prices", "--on-demand", "--output", "json"], more].concat()).json();
        document["offers"].as_array().unwrap().clone()
    };
    let text = |offer: &Value, key: &str| offer[key].as_str().unwrap().to_owned();
    let machine = offers(&["P5.48xlarge", "--region", "us-east-1"]);
    assert_eq!(machine.len(), 1, "{machine:?}");
    assert_eq!(
        (text(&machine[0], "instance_type"), text(&machine[0], "cloud")),
        ("p5.48xlarge".to_owned(), "aws".to_owned())
    );
    let europe = offers(&["H100:8", "--region", "europe"]);
    for cloud in ["aws", "azure", "gcp", "nebius"] {
        assert!(europe.iter().any(|offer| text(offer, "cloud") == cloud), "{cloud}");
    }
    assert!(europe.iter().all(|offer| !text(offer, "region").starts_with("us")));
    let paris = offers(&["L4:1", "--region", "paris"]);
    assert!(paris.iter().any(|offer| text(offer, "instance_type") == "L4-1-24G"), "{paris:?}");
    // People own it, and nobody rents it.
    let owned = gpuplan(&["prices", "P40"]);
    assert!(owned.stderr.contains("no machine of the catalog has it") && owned.stdout.is_empty(), "{}", owned.stderr);
    let asked = [
        "plan",
        "examples/llama-3.1-8b-lora.toml",
        "--on-demand",
        "--gpus",
        "H100:8",
        "--region",
        "europe",
        "--cloud",
        "azure",
    ];
    let planned = gpuplan(&[&asked[..], &["--output", "json"]].concat()).json();
    assert_eq!(planned["recommendation"]["cloud"], "azure", "{}", planned["rejected"]);
}

/// Questions as people type them who have not read the manual, and what every offer of the answer is.
#[test]
fn prices_are_asked_for_in_many_words() {
    type IsMeant = fn(&Value) -> bool;
    let asked: [(&str, IsMeant); 14] = [
        ("T4 --cloud gcp", |offer| offer["gpu"] == "t4" && offer["instance_type"].as_str().unwrap().starts_with("n1-")),
        ("--gpus H200", |offer| offer["gpu"].as_str().unwrap().starts_with("h200")),
        ("H100 --terms on-demand", |offer| offer["purchase"] == "on-demand"),
        ("A100 80GB", |offer| offer["gpu"].as_str().unwrap().ends_with("-80")),
        ("A100_SXM4", |offer| offer["gpu"].as_str().unwrap().starts_with("a100-sxm4")),
        ("H100 H200 -n 5", |offer| offer["gpu"].as_str().unwrap().starts_with('h')),
        ("H100 --cloud GCP", |offer| offer["cloud"] == "gcp"),
        ("H100 --cloud google --limit 3", |offer| offer["cloud"] == "gcp"),
        ("L4 --region frankfurt", |offer| {
            ["eu-central-1", "europe-west3"].contains(&offer["region"].as_str().unwrap())
        }),
        ("p5 --spot", |offer| offer["instance_type"].as_str().unwrap().starts_with("p5.")),
        ("NC24ads_A100_v4 --region eastus", |offer| offer["cloud"] == "azure"),
        ("n1-standard-8", |offer| offer["cloud"] == "gcp" && offer["vcpus"] == 8),
        ("cheapest -n 1", |offer| offer["purchase"] == "spot"),
        ("..1/4", |offer| offer["gpu_count"].as_f64().unwrap() <= 0.25),
    ];
    for (words, is_meant) in asked {
        let words: Vec<&str> = words.split(' ').collect();
        let ran = gpuplan(&[&["prices", "--output", "json"], &words[..]].concat());
        let document = ran.json();
        let offers = document["offers"].as_array().unwrap();
        assert!(!offers.is_empty() && offers.iter().all(is_meant), "{words:?}: {offers:?}");
    }
    let clouds_of = |region: &str| {
        let document = gpuplan(&["prices", "A100,H100,L4", "--region", region, "--output", "json"]).json();
        let offers = document["offers"].as_array().unwrap().clone();
        offers
            .iter()
            .map(|offer| offer["cloud"].as_str().unwrap().to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };
    for region in ["asia", "us", "virginia", "tokyo"] {
        let clouds = clouds_of(region);
        assert!(["aws", "azure", "gcp"].iter().all(|cloud| clouds.contains(*cloud)), "{region}: {clouds:?}");
    }
    assert_eq!(clouds_of("East US").into_iter().collect::<Vec<_>>(), ["azure"]);
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
    assert!(refused.stderr.contains("needs 16.4 GiB of 15.0 GiB a GPU"), "{}", refused.stderr);
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
    let ask = |now: &str| {
        let line = ["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "10M", "--cloud", "gcp"];
        gpuplan_at(now, "100", &line)
    };
    // The age is that of the price that is used, not of the newest of the catalog.
    let age = |now: &str| {
        let ran = gpuplan_at(now, "100", &["plan", "examples/llama-3.1-8b-finetune.toml", "--output", "json"]);
        let price = ran.json()["recommendation"]["price"]["observed_at"].as_str().unwrap().parse::<Timestamp>();
        now.parse::<Timestamp>().unwrap().duration_since(price.unwrap()).as_hours() as f64 / 24.0
    };
    let text = |now: &str| gpuplan_at(now, "100", &["plan", "examples/llama-3.1-8b-finetune.toml"]);
    for now in ["2026-12-12T00:00:00Z", "2027-07-12T00:00:00Z"] {
        let (ran, days) = (text(now), age(now));
        assert_eq!(ran.stderr, "");
        assert!(ran.stdout.contains(&format!("Age:     price {days:.0} d (counts ")), "{days}: {}", ran.stdout);
        let says_so = ran.stdout.starts_with(&format!("THIS PRICE IS {days:.0} DAYS OLD"));
        assert_eq!(says_so, days > 180.0, "{days}: {}", ran.stdout);
    }
    let fresh = ask("2026-10-10T00:30:00Z");
    assert!(!fresh.stdout.contains("DAYS OLD"), "{}", fresh.stdout);
}

/// The finding that started it: 36 hours of waiting on an old spot price to save six dollars, told in a hundred lines.
#[test]
fn the_first_command_of_the_readme_is_no_lottery_ticket() {
    let document = plan("llama-3.1-8b-finetune", &[]);
    let hours = |plan: &Value| plan["run_hours"]["expected"].as_f64().unwrap();
    let dollars = |plan: &Value| amount(&plan["cost_usd"]["expected"]).dollars();
    let (best, value) = (&document["recommendation"], amount(&document["value_of_time"]["usd_per_hour"]).dollars());
    assert!((4.0..6.0).contains(&value), "about five dollars an hour for a run of ten: {value}");
    // Its price has been followed for as long as it is old, and the other one is a note.
    let seen = best["price"]["observed_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let days = NOW.parse::<Timestamp>().unwrap().duration_since(seen).as_hours() / 24;
    assert!(best["purchase"] == "on-demand" || days <= 180, "{} at a price of {days} days ago", best["id"]);
    assert!(["aws", "gcp"].contains(&best["cloud"].as_str().unwrap()), "what can be launched: {}", best["id"]);
    assert!(hours(best) < 12.0, "{} h", hours(best));
    for other in document["frontier"].as_array().unwrap() {
        assert!(dollars(best) + value * hours(best) <= dollars(other) + value * hours(other) + 1e-6, "{}", other["id"]);
    }
    let roles: Vec<&str> = document["choices"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|choice| choice["roles"].as_array().unwrap())
        .map(|role| role.as_str().unwrap())
        .collect();
    assert_eq!(roles, ["cheapest", "recommended", "fastest"]);
    for columns in ["80", "160"] {
        let ran = gpuplan_at(NOW, columns, &["plan", "examples/llama-3.1-8b-finetune.toml"]);
        assert!(ran.stdout.lines().count() <= 24, "{}", ran.stdout);
        for said in [
            "Rent ",
            "cost ",
            "ends ",
            "work ",
            "why ",
            "cheapest: ",
            "fastest: ",
            "--value-of-time",
            "gpuplan launch ",
            "--details",
        ] {
            assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
        }
        assert!(!ran.stdout.contains('\u{1b}'), "nobody reads colours in a pipe");
    }
    let coloured = gpuplan(&["plan", "examples/llama-3.1-8b-finetune.toml", "--color", "always"]).stdout;
    assert!(coloured.contains("\u{1b}[1mRent"), "{coloured}");
}

#[test]
fn the_least_cost_is_a_flag_and_details_lose_no_column_on_a_narrow_terminal() {
    let cheapest = plan("llama-3.1-8b-finetune", &["--objective", "cost"]);
    let cost = |plan: &Value| amount(&plan["cost_usd"]["expected"]);
    let free = plan("llama-3.1-8b-finetune", &["--value-of-time", "0"]);
    assert_eq!(cost(&cheapest["recommendation"]), cost(&free["recommendation"]));
    for other in cheapest["frontier"].as_array().unwrap() {
        assert!(cost(&cheapest["recommendation"]) <= cost(other), "{}", other["id"]);
    }
    let both = gpuplan(&[
        "plan",
        "--model",
        "gpt-2",
        "--task",
        "lora",
        "--tokens",
        "1M",
        "--objective",
        "cost",
        "--value-of-time",
        "5",
    ]);
    assert!(both.code == 2 && both.stderr.contains("leave one of the two out"), "{}", both.stderr);
    let narrow = gpuplan_at(NOW, "80", &["plan", "examples/llama-3.1-8b-finetune.toml", "--details"]).stdout;
    for said in ["$/h: ", "90 %: ", "why: ", "to allow it: ", "basis: "] {
        assert!(narrow.contains(said), "{said}: {narrow}");
    }
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
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
        for now in ["2026-11-10T12:00:00Z", "2027-02-10T12:00:00Z"] {
            let document = ask(now, terms);
            let (until, price) = (moment(&document["valid_until"]), &document["recommendation"]["price"]);
            assert_eq!(until, moment(&price["observed_at"]) + fresh, "{terms} {now}");
            assert_eq!(price["stale"], until < now.parse().unwrap(), "{terms} {now}: {price}");
        }
    }
    // Four months after the snapshot every price of it is stale, and none is said to hold until tomorrow.
    assert!(
        moment(&ask("2027-02-10T12:00:00Z", "--on-demand")["valid_until"]) < "2026-12-10T00:00:00Z".parse().unwrap()
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

/// Llama 3 405B and DeepSeek-V3 were trained on thousands of GPUs, with layers that no power of two divides.
#[test]
fn the_largest_pretrainings_are_planned_on_thousands_of_gpus() {
    for (model, gpus) in [("llama-3.1-405b", 16_384), ("deepseek-v3", 2048), ("kimi-k2", 2048)] {
        let selected = format!("H100:{gpus}");
        let question =
            ["--model", model, "--task", "pretrain", "--tokens", "10T", "--gpus", &selected, "--framework", "megatron"];
        let answer = gpuplan(&[&["plan"], &question[..], &["-o", "json"]].concat());
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        let document: Value = serde_json::from_str(&answer.stdout).unwrap();
        let recommended = &document["recommendation"];
        assert_eq!(recommended["nodes"].as_u64(), Some(gpus / 8), "{model}");
        let layout = &recommended["layout"];
        assert!(layout["pipeline"].as_u64().unwrap() * layout["tensor"].as_u64().unwrap() >= 8, "{model}: {layout}");
        let exported = gpuplan(&[&["export"], &question[..], &["--to", "torchrun", "--", "pretrain_gpt.py"]].concat());
        assert_eq!(exported.code, 0, "{}", exported.stderr);
        let flag = match layout["uneven_stages"]["kind"].as_str() {
            None => "--pipeline-model-parallel-size",
            Some("last-has") => "--decoder-last-pipeline-num-layers",
            Some(_) => "--account-for-loss-in-pipeline-split",
        };
        assert!(exported.stdout.contains(flag), "{model}: {flag} is missing in {}", exported.stdout);
    }
}
