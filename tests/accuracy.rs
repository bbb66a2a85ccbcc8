//! The estimate on published runs may not get worse: no source by more than a point, no answer lost, no new false fit.
//!
//! The record is `benchmarks/results/accuracy.json`, written by `gpuplan accuracy --output json`.

use std::path::Path;
use std::process::{Command, Stdio};

use gpuplan::accuracy::{ErrorGroup, Published, Scores, predict};
use gpuplan::estimate::answer::answer;
use gpuplan::estimate::constants::Fitted;
use gpuplan::estimate::memory_constants::FittedMemory;
use gpuplan::hardware::Hardware;
use gpuplan::report::measure::accuracy_json::accuracy;
use gpuplan::workload::Models;
use serde_json::{Value, json};

const RECORD: &str = "benchmarks/results/accuracy.json";
const HOW: &str = "if that is meant: gpuplan accuracy --output json > benchmarks/results/accuracy.json";
/// Percentage points that an error may grow by over the record.
const ALLOWED_POINTS: f64 = 1.0;

fn record() -> Value {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORD)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn present() -> Value {
    let published = Published::embedded().unwrap();
    let predictions = predict(&published, &Hardware::embedded().unwrap(), &Models::embedded().unwrap());
    let text = accuracy(
        &Scores::new(&published, &predictions),
        Fitted::embedded(),
        FittedMemory::embedded(),
        "2026-01-01T00:00:00Z".parse().unwrap(),
    );
    serde_json::from_str(&text).unwrap()
}

/// What is worse now than it was, in words.
fn worse(recorded: &Value, present: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for what in ["time", "memory"] {
        let lines = |document: &Value| document[what]["source"].as_array().cloned().unwrap_or_default();
        let now = lines(present);
        for old in lines(recorded) {
            let name = old["name"].as_str().unwrap_or_default().to_owned();
            let Some(new) = now.iter().find(|line| line["name"] == old["name"]) else {
                found.push(format!("{what} of {name} is no longer scored"));
                continue;
            };
            let number = |line: &Value, key: &str| line[key].as_f64().unwrap_or(f64::INFINITY);
            let (was, is) = (number(&old, "mape_percent"), number(new, "mape_percent"));
            if is > was + ALLOWED_POINTS {
                found.push(format!("{what} of {name}: MAPE {is:.1} %, was {was:.1} %"));
            }
            let (was, is) = (number(&old, "answered"), number(new, "answered"));
            if is < was {
                found.push(format!("{what} of {name}: {is} runs answered, were {was}"));
            }
        }
        let known: Vec<Value> = lines(recorded).into_iter().map(|line| line["name"].clone()).collect();
        let new = now.iter().filter(|line| !known.contains(&line["name"]));
        found.extend(new.map(|line| format!("{what} of {} is not in the record", line["name"])));
    }
    let count = |document: &Value, key: &str| document["fits"][key].as_u64().unwrap_or(0);
    if count(present, "false_fit") > count(recorded, "false_fit") {
        found.push(format!("{} false fits, were {}", count(present, "false_fit"), count(recorded, "false_fit")));
    }
    if count(present, "answered") < count(recorded, "answered") {
        found.push(format!(
            "{} facts about fits answered, were {}",
            count(present, "answered"),
            count(recorded, "answered")
        ));
    }
    found
}

#[test]
fn no_source_got_worse_than_recorded() {
    let found = worse(&record(), &present());
    assert!(found.is_empty(), "{}\n{HOW}", found.join("\n"));
}

#[test]
fn the_record_is_of_these_constants() {
    assert_eq!(
        record()["constants_version"],
        json!(Fitted::embedded().version),
        "the record is of other constants; {HOW}"
    );
}

#[test]
fn the_comparison_sees_each_kind_of_loss() {
    let present = present();
    assert_eq!(worse(&present, &present), Vec::<String>::new());
    let with = |pointer: &str, value: Value| {
        let mut changed = present.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    let number = |pointer: &str| present.pointer(pointer).and_then(Value::as_f64).unwrap();
    for what in ["time", "memory"] {
        let mape = format!("/{what}/source/0/mape_percent");
        assert!(worse(&present, &with(&mape, json!(number(&mape) + 0.9))).is_empty());
        assert_eq!(worse(&present, &with(&mape, json!(number(&mape) + 1.1))).len(), 1);
        assert!(worse(&present, &with(&mape, json!(0.0))).is_empty(), "better is no loss");
        let answered = format!("/{what}/source/0/answered");
        assert_eq!(worse(&present, &with(&answered, json!(number(&answered) - 1.0))).len(), 1);
        // Gone from the present and unknown to the record.
        assert_eq!(worse(&present, &with(&format!("/{what}/source/0/name"), json!("other"))).len(), 2);
    }
    assert_eq!(worse(&present, &with("/fits/false_fit", json!(number("/fits/false_fit") as u64 + 1))).len(), 1);
}

/// Better on every source than whoever was asked for it. Calculon's own validation set stands outside.
#[test]
fn gpuplan_is_ahead_of_the_other_estimators() {
    for peer in present()["peers"].as_array().unwrap() {
        let own = peer["gpuplan_mape_percent"].as_f64().unwrap();
        for other in ["constant_hfu_50_mape_percent", "llm_analysis_mape_percent", "calculon_mape_percent"] {
            let own_set = other.starts_with("calculon") && peer["source"] == "korthikanti22";
            if let Some(theirs) = peer[other].as_f64().filter(|_| !own_set) {
                assert!(own < theirs, "{}: {own:.1} % against {other} {theirs:.1} %", peer["source"]);
            }
        }
    }
}

#[test]
fn every_scored_run_has_an_answer() {
    let published = Published::embedded().unwrap();
    let predictions = predict(&published, &Hardware::embedded().unwrap(), &Models::embedded().unwrap());
    let scores = Scores::new(&published, &predictions);
    for all in [scores.time_of_all(), scores.memory_of_all()] {
        assert_eq!(all.answered, all.cases);
    }
    for by in [ErrorGroup::Source, ErrorGroup::Group, ErrorGroup::Family, ErrorGroup::Gpu, ErrorGroup::Regime] {
        assert_eq!(scores.time(by).iter().map(|line| line.cases).sum::<usize>(), scores.time_of_all().cases, "{by:?}");
        assert_eq!(
            scores.memory(by).iter().map(|line| line.cases).sum::<usize>(),
            scores.memory_of_all().cases,
            "{by:?}"
        );
    }
}

/// The bar of inference, by constants that saw no run on the GPU that they are asked for. What `--refit` recorded is asked here;
/// the test after this one works it out again.
#[test]
fn inference_is_met_on_gpus_that_no_constant_was_fitted_on() {
    let means = gpuplan::report::measure::accuracy::inference_means(&Fitted::embedded().held_out_inference);
    for (what, runs, most_percent) in [("decode", 15, 20.0), ("prefill", 63, 12.0)] {
        let mean = &means[what];
        assert_eq!(mean.runs, runs, "{mean:?}");
        assert!(mean.mape_percent <= most_percent, "{mean:?}");
    }
}

#[test]
#[ignore = "13 fits, half a minute of processor time in release; tests/slow.sh runs it"]
fn held_out_inference_is_what_was_recorded() {
    let found: Value = serde_json::from_str(&gpuplan(&["--refit", "--inference", "--output", "json"])).unwrap();
    crate::schemas::assert_valid("accuracy-inference", "accuracy --refit --inference", &found);
    let recorded = json!(Fitted::embedded().held_out_inference);
    let (found, recorded) = (found["gpus"].as_array().unwrap(), recorded.as_array().unwrap());
    assert_eq!(found.len(), recorded.len());
    for (found, recorded) in found.iter().zip(recorded) {
        assert_eq!(
            [&found["what"], &found["gpu"], &found["runs"]],
            [&recorded["what"], &recorded["gpu"], &recorded["runs"]]
        );
        for key in ["mape_percent", "family_mape_percent"] {
            let (found, recorded) = (found[key].as_f64().unwrap(), recorded[key].as_f64().unwrap());
            assert!((found - recorded).abs() < 0.05, "{key}: {found} now, {recorded} recorded");
        }
    }
}

fn gpuplan(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command
        .arg("accuracy")
        .args(arguments)
        .env_clear()
        .env("COLUMNS", "80")
        .env("GPUPLAN_OFFLINE", "1")
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_table_is_readable_at_80_columns() {
    for (by, name) in [
        ("source", "vtrain-multi"),
        ("group", "nvidia-examples"),
        ("family", "moe-encdec"),
        ("gpu", "a100-sxm4-80"),
        ("regime", "encoder-or-single-precision"),
    ] {
        let text = gpuplan(&["--by", by]);
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(long, Vec::<&str>::new());
        for word in [name, "llm-analysis", "calculon", "false fit", "mean over"] {
            assert!(text.contains(word), "`{word}` is missing from\n{text}");
        }
    }
}

#[test]
fn programs_get_every_figure() {
    assert_eq!(gpuplan(&["--output", "json", "--now", "2026-01-01T00:00:00Z"]), format!("{:#}\n", present()));
    let csv = gpuplan(&["--by", "family", "--output", "csv"]);
    let mut lines = csv.lines();
    let columns = lines.next().unwrap().split(',').count();
    assert!(
        lines.clone().any(|line| line.starts_with("time,decoder,"))
            && lines.clone().any(|line| line.starts_with("memory,decoder,"))
    );
    assert!(lines.all(|line| line.split(',').count() == columns));
}

/// How runs that no constant was fitted on are met.
struct Unseen {
    /// Sizes of the errors, the smallest first.
    sizes: Vec<f64>,
    inside: usize,
    /// Measured time over expected time.
    paid: Vec<f64>,
    lines: Vec<String>,
}

impl Unseen {
    /// Of a file of `benchmarks/unfitted`, the lines of which `wanted` says so.
    fn of(file: &str, wanted: impl Fn(&str) -> bool) -> Self {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benchmarks/unfitted").join(file);
        let mut all = Self { sizes: Vec::new(), inside: 0, paid: Vec::new(), lines: Vec::new() };
        for line in std::fs::read_to_string(path).unwrap().lines().filter(|line| wanted(line)) {
            let case: Value = serde_json::from_str(line).unwrap();
            let answer = serde_json::to_value(answer(line, &hardware, &models)).unwrap();
            let (figure, measured) = ["step_seconds", "tokens_per_second_per_gpu"]
                .into_iter()
                .find_map(|figure| Some((figure, case[format!("measured_{figure}")].as_f64()?)))
                .unwrap();
            let of = |end: &str| answer[figure][end].as_f64().unwrap_or_else(|| panic!("{answer}"));
            let error = of("expected") / measured - 1.0;
            let is_inside = of("low") <= measured && measured <= of("high");
            all.sizes.push(error.abs());
            let paid = if figure == "step_seconds" { 1.0 / (1.0 + error) } else { 1.0 + error };
            all.paid.push(paid);
            all.inside += usize::from(is_inside);
            all.lines.push(format!(
                "{} {measured} {:.4} {:+.0} % {is_inside}",
                case["id"],
                of("expected"),
                100.0 * error
            ));
        }
        all.sizes.sort_by(f64::total_cmp);
        all
    }

    fn runs(&self) -> usize {
        self.sizes.len()
    }

    fn mean(&self) -> f64 {
        self.sizes.iter().sum::<f64>() / self.runs() as f64
    }

    fn median(&self) -> f64 {
        self.sizes[self.runs() / 2]
    }

    fn said(&self) -> String {
        let (mean, median) = (100.0 * self.mean(), 100.0 * self.median());
        let head = format!("mean {mean:.1} %, median {median:.1} %, {} of {} inside", self.inside, self.runs());
        format!("{head}\n{}", self.lines.join("\n"))
    }
}

/// Recent stacks on Hopper and Blackwell, which no constant was fitted on. The bounds are what was found, with room for a point
/// of drift: dense models within 9 % on average, and nearly all of them inside their band.
#[test]
fn recent_stacks_are_met_without_a_fit() {
    let dense = |line: &str| !line.contains("q30") && !line.contains("dsv3");
    let met = Unseen::of("megatron-bridge-25.11.jsonl", dense);
    assert!(met.runs() == 19 && met.mean() < 0.09 && met.inside * 100 >= 90 * met.runs(), "{}", met.said());
}

/// LoRA with Unsloth on a card each and fine-tuning on several, of two sources that were looked at in November 2026: what was mended for them
/// (recomputing unasked, the matrix units of GeForce Blackwell) is in the figures, no constant is. Bounds as above.
#[test]
fn fine_tunes_of_unsloth_and_prime_rl_are_met_without_a_fit() {
    let met = Unseen::of("fine-tunes.jsonl", |_| true);
    assert!(met.runs() == 41 && met.median() < 0.19 && met.inside * 100 >= 80 * met.runs(), "{}", met.said());
}

/// Runs of frameworks, cards and years that no published source of the fit has. Bounds as above; the figures of before anything was
/// changed for them are in `docs/accuracy.md`.
#[test]
fn runs_published_elsewhere_are_met_without_a_fit() {
    let met = Unseen::of("published-elsewhere.jsonl", |_| true);
    assert!(met.runs() == 47 && met.median() < 0.14 && met.inside * 100 >= 75 * met.runs(), "{}", met.said());
    // What PEFT moves for its adapters was found with these, and is counted and not fitted.
    let adapters =
        Unseen::of("published-elsewhere.jsonl", |line| line.contains("\"hf-trainer\"") && line.contains("lora"));
    assert!(adapters.runs() == 13 && adapters.mean() < 0.10, "{}", adapters.said());
}

/// Whole pre-trainings of model cards, most with hours that hold more than steps. Bounds as found: nothing was changed for them.
#[test]
fn runs_of_model_cards_are_met_without_a_fit() {
    let met = Unseen::of("model-cards.jsonl", |_| true);
    assert!(met.runs() == 13 && met.median() < 0.28 && met.inside * 100 >= 60 * met.runs(), "{}", met.said());
}

/// Twenty runs of fifteen sources, found by search and scored before anybody looked for causes. Half of them are hours of whole projects; bounds as found.
#[test]
fn runs_of_strangers_are_met_as_far_as_they_are() {
    let met = Unseen::of("strangers.jsonl", |_| true);
    assert!(met.runs() == 20 && met.median() < 0.75 && met.inside >= 10, "{}", met.said());
    // Of runs that name no stack the band says so.
    let files = ["strangers.jsonl", "model-cards.jsonl", "pretrainings.jsonl", "published-elsewhere.jsonl"];
    let unnamed: Vec<Unseen> =
        files.iter().map(|file| Unseen::of(file, |line| !line.contains("\"framework\""))).collect();
    let (runs, inside) = unnamed.iter().fold((0, 0), |sum, one| (sum.0 + one.runs(), sum.1 + one.inside));
    assert!(runs == 14 && inside >= 10, "{inside} of {runs}");
}

/// What published projects paid over what their steps are estimated to take is what a plan says of it, within five per cent.
#[test]
fn what_projects_paid_beside_steps_is_what_a_plan_says() {
    let table = include_str!("../benchmarks/unfitted/project-hours.csv");
    let ids: Vec<(&str, &str)> = table.lines().skip(1).filter_map(|line| line.split_once(',')).collect();
    let mut paid = Vec::new();
    for file in ["model-cards.jsonl", "pretrainings.jsonl", "strangers.jsonl"] {
        let is_project =
            |line: &str| ids.iter().any(|(of, id)| *of == file && line.contains(&format!("\"id\": \"{id}\"")));
        paid.extend(Unseen::of(file, is_project).paid);
    }
    paid.sort_by(f64::total_cmp);
    let said = gpuplan::plan::training::whole_run::PROJECT_HOURS;
    assert_eq!((paid.len(), ids.len()), (said.projects as usize, said.projects as usize), "{paid:?}");
    for (quarter, said) in [(1, said.lower_quartile), (2, said.median), (3, said.upper_quartile)] {
        let found = paid[(paid.len() - 1) * quarter / 4];
        assert!((found / said - 1.0).abs() < 0.05, "{quarter}: {found:.3}, said {said}; {paid:?}");
    }
}

/// Small experts of a recent stack: bounds as above, of what was found when the permutation of their tokens was counted. One of the five is half of what
/// the same table gave for the release before.
#[test]
fn small_experts_are_met_without_a_fit() {
    let experts = |line: &str| line.contains("q30") || line.contains("dsv3");
    let met = Unseen::of("megatron-bridge-25.11.jsonl", experts);
    assert!(met.runs() == 5 && met.median() < 0.22 && met.inside >= 4, "{}", met.said());
}
