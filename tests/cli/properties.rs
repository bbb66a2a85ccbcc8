//! What holds for every question: the three rows are the same in text, JSON and page, and more room never makes an answer worse.

use gpuplan::units::Usd;
use gpuplan::units::draw::Draws;
use jiff::Timestamp;
use serde_json::Value;

use crate::cli::support::{NOW, gpuplan, gpuplan_at, plan};

/// Drawn questions, each asked with four kinds of limits.
const QUESTIONS: u64 = 6;

fn dollars(value: &Value) -> f64 {
    Usd::parse(value.as_str().unwrap()).unwrap().dollars()
}

/// `$9.68` and `$1,043,054` as figures.
fn amounts(text: &str) -> Vec<f64> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let amount = |rest: &str| rest.replace(',', "").split(|c| !is_part(c)).next().unwrap().parse().ok();
    text.split('$').skip(1).filter_map(amount).collect()
}

/// Roles with cost and cost at 90 %, as the JSON has them.
fn rows_of_json(document: &Value) -> Vec<(String, f64, f64)> {
    let row = |choice: &Value| {
        let roles: Vec<&str> = choice["roles"].as_array().unwrap().iter().map(|role| role.as_str().unwrap()).collect();
        (roles.join(", "), dollars(&choice["cost_usd"]["expected"]), dollars(&choice["cost_usd"]["p90"]))
    };
    document["choices"].as_array().unwrap().iter().map(row).collect()
}

/// The same of the first screen: a line of figures, and under it the roles and a reason.
fn rows_of_text(text: &str) -> Vec<(String, f64, f64)> {
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.trim_start().starts_with("GPUs ")).skip(1).collect();
    let pairs = lines.chunks(2).take_while(|pair| pair.len() == 2 && pair[1].starts_with("   "));
    let row = |pair: &[&str]| {
        let [.., cost, p90] = amounts(pair[0])[..] else { panic!("{}", pair[0]) };
        (pair[1].trim().split(':').next().unwrap().replace(" and ", ", "), cost, p90)
    };
    pairs.map(row).collect()
}

/// The same of the report as Markdown, which has the tables of the page: the row with a role in its first cell.
fn rows_of_page(markdown: &str) -> Vec<(String, f64, f64)> {
    let section = markdown.split("## Cheapest, recommended, fastest").nth(1).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[1].to_owned(), amounts(cells[3])[0], amounts(cells[4])[0])
    };
    rows.take_while(|line| line.starts_with('|')).map(row).collect()
}

#[test]
fn the_three_rows_are_the_same_in_text_json_and_page() {
    for example in ["llama-3.1-8b-finetune", "llama-3.1-8b-lora", "llama-7b-pretrain", "resnet-50-imagenet", "sweep"] {
        let path = format!("examples/{example}.toml");
        let of_json = rows_of_json(&plan(example, &[]));
        assert!((1..=3).contains(&of_json.len()), "{example}: {of_json:?}");
        let roles: Vec<&str> = of_json.iter().flat_map(|(roles, ..)| roles.split(", ")).collect();
        assert_eq!(roles, ["cheapest", "recommended", "fastest"], "{example}: each role once, by cost");
        let of_text = rows_of_text(&gpuplan_at(NOW, "80", &["plan", &path]).stdout);
        let page = gpuplan(&["report", &path, "--format", "md"]);
        let of_page = rows_of_page(&page.stdout);
        for (what, rows) in [("text", of_text), ("page", of_page)] {
            assert_eq!(rows.len(), of_json.len(), "{example}, {what}: {rows:?} for {of_json:?}");
            for ((roles, cost, p90), (expected_roles, expected, expected_p90)) in rows.iter().zip(&of_json) {
                assert_eq!(roles, expected_roles, "{example}, {what}");
                // A person reads cents, or dollars where there are a thousand of them.
                let is_near =
                    |shown: f64, exact: f64| (shown - exact).abs() <= 0.5_f64.min(exact.abs() * 0.005 + 0.005);
                let is_alike = is_near(*cost, *expected) && is_near(*p90, *expected_p90);
                assert!(is_alike, "{example}, {what}: {cost} and {p90} for {expected} and {expected_p90}");
            }
        }
    }
}

/// The objective of what is recommended: its cost, and with a value of time also its hours. `None`: no plan, or only one at a price that is too
/// old to know, which any other goes before.
fn score(question: &[String], more: &[String]) -> Option<f64> {
    let words: Vec<&str> =
        ["plan", "-o", "json"].into_iter().chain(question.iter().chain(more).map(String::as_str)).collect();
    let ran = gpuplan(&words);
    if matches!(ran.code, 3 | 4) {
        return None;
    }
    assert_eq!(ran.code, 0, "{words:?}: {}", ran.stderr);
    let document = ran.json();
    let best = &document["recommendation"];
    let seen = best["price"]["observed_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let days = NOW.parse::<Timestamp>().unwrap().duration_since(seen).as_hours() / 24;
    if days > 180 {
        return None;
    }
    let value =
        document["value_of_time"]["usd_per_hour"].as_str().map_or(0.0, |text| Usd::parse(text).unwrap().dollars());
    Some(dollars(&best["cost_usd"]["expected"]) + value * best["run_hours"]["expected"].as_f64().unwrap())
}

/// Through the whole program, flags and all; `more_time_money_or_gpus_never_make_the_objective_worse` asks the planner many more.
#[test]
fn a_later_deadline_a_larger_budget_and_more_machines_never_cost_more() {
    let mut compared = 0;
    for question in 0..QUESTIONS {
        let mut draws = Draws::new(20_261_128, question);
        let mut one_of = |all: &[&str]| {
            let at = (draws.uniform() * all.len() as f64) as usize;
            all[at.min(all.len() - 1)].to_owned()
        };
        let model = one_of(&["llama-3.1-8b", "qwen2.5-0.5b", "gpt-2", "starcoder2-3b"]);
        let task = one_of(&["lora", "full-fine-tune"]);
        let tokens = one_of(&["20M", "100M", "400M"]);
        let gpus = one_of(&["H100:1..16", "A100:1..16", "L40S:1..8"]);
        let objective = one_of(&["cost", "cost-and-time"]);
        // Only clouds on which gpuplan launches, so that one kind of plan is compared.
        let asked = format!(
            "--model {model} --task {task} --tokens {tokens} --gpus {gpus} --cloud aws --cloud gcp --objective {objective}"
        );
        let asked: Vec<String> = asked.split(' ').map(str::to_owned).collect();
        let limits = |deadline: &str, budget: &str, machines: &str| {
            ["--deadline", deadline, "--budget", budget, "--max-nodes", machines].map(str::to_owned).to_vec()
        };
        let (deadline, budget) = (one_of(&["6h", "12h", "30h"]), one_of(&["40", "120", "500"]));
        let Some(tight) = score(&asked, &limits(&deadline, &budget, "1")) else { continue };
        for (what, wider) in [
            ("later", limits("90h", &budget, "1")),
            ("richer", limits(&deadline, "5000", "1")),
            ("larger", limits(&deadline, &budget, "4")),
        ] {
            let wide = score(&asked, &wider).unwrap_or_else(|| panic!("{asked:?}, {what}: no plan with more room"));
            assert!(wide <= tight + 1e-6, "{asked:?}, {what}: {wide} with more room, {tight} with less");
            compared += 1;
        }
    }
    assert!(compared >= 6, "only {compared} pairs had a plan");
}

/// A card that answers one request in twenty seconds is paid for by the hour.
#[test]
fn a_service_that_is_hardly_asked_is_told_of_what_charges_by_use() {
    let ask = |rate: &str| {
        let model = ["plan", "--model", "llama-3.1-8b", "--gpus", "H100:1..8", "--cloud", "aws"];
        let load = ["--requests-per-second", rate, "--prompt-tokens", "500", "--answer-tokens", "200"];
        gpuplan(&[&model[..], &load].concat()).stdout
    };
    let (seldom, often) = (ask("0.05"), ask("30"));
    assert!(seldom.contains("% of what these machines could answer is asked for"), "{seldom}");
    assert!(!often.contains("what these machines could answer"), "{often}");
}

/// A table looks at less than the document does, and recommends the same.
#[test]
fn the_total_of_phases_is_the_same_in_text_and_json() {
    for example in ["phases", "grpo-7b"] {
        let path = format!("examples/{example}.toml");
        let document = plan(example, &[]);
        let text = gpuplan_at(NOW, "80", &["plan", &path]).stdout;
        let total = text.lines().find(|line| line.starts_with("total ")).unwrap();
        let shown = amounts(total);
        let cost = &document["total"]["cost_usd"];
        for (shown, exact) in shown.iter().zip([dollars(&cost["expected"]), dollars(&cost["p90"])]) {
            assert!((shown - exact).abs() <= 0.005 + 1e-9, "{example}: {total} for {exact}");
        }
        for phase in document["phases"].as_array().unwrap() {
            let name = phase["name"].as_str().unwrap();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let exact = dollars(&phase["recommendation"]["cost_usd"]["expected"]);
            assert!((amounts(line)[0] - exact).abs() <= 0.005 + 1e-9, "{example}: {line} for {exact}");
        }
    }
}

#[test]
fn work_without_gpu_is_answered_on_one_screen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.toml");
    let text = "name = \"resize\"\n[processing]\nsamples = \"50M\"\ncpu_seconds_per_sample = 0.05\nreads = \"5TB\"\nwrites = \"100GB\"\n\
                [data]\nplace = \"gcp/us-central1\"\nsize = \"5TB\"\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    for columns in ["80", "160"] {
        let screen = gpuplan_at(NOW, columns, &["plan", path]).stdout;
        assert!(screen.lines().count() <= 24, "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= columns.parse().unwrap()), "{screen}");
        for said in
            ["Recommended: ", "cost ", "time ", "why ", "Cheapest, recommended (*), fastest", "\n*  ", "--details"]
        {
            assert!(screen.contains(said), "{said}: {screen}");
        }
    }
    let details = gpuplan(&["plan", path, "--details"]).stdout;
    assert!(details.contains("machine-hour") && details.contains("Looked at "), "{details}");
}

/// Behind the point of a name of timm stands how its weights were trained, which changes no size.
#[test]
fn a_model_of_timm_is_known_by_its_architecture() {
    let asked = |name: &str| {
        gpuplan(&["estimate", "--model", name, "--task", "train", "--samples", "1", "--gpus", "A100:1", "-o", "json"])
    };
    let [tagged, plain] = ["timm/resnet18.a1_in1k", "resnet-18"].map(|name| asked(name).json());
    assert_eq!(tagged["step_seconds"], plain["step_seconds"], "{tagged:#}");
    assert_eq!(asked("timm/nobodys_net.a1_in1k").code, 2);
}

/// Seconds of work waited 7.4 hours for a spot machine, to save $8.
#[test]
fn small_work_does_not_wait_for_hours() {
    let ask = ["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "1M", "--gpus", "H100:8"];
    let document = gpuplan(&[&ask[..], &["-o", "json"]].concat()).json();
    assert!((dollars(&document["value_of_time"]["usd_per_hour"]) - 2.0).abs() < 1e-9, "{}", document["value_of_time"]);
    let hours = document["recommendation"]["run_hours"]["expected"].as_f64().unwrap();
    assert!(hours < 1.0, "{hours} h for work of seconds");
    let screen = gpuplan_at(NOW, "80", &ask).stdout;
    assert!(screen.contains("an hour counts $2.00 (the least that is assumed)"), "{screen}");
}
