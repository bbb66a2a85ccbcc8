//! Bad input: each gives a clear message, something to type next, its exit code, and no data on stdout.

use clap::Parser;
use gpuplan::cli::command::Arguments;
use serde_json::Value;

use crate::cli::support::{Ran, gpuplan};

fn workload(text: &str, more: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.toml");
    std::fs::write(&path, text).unwrap();
    let mut ran = gpuplan(&[&["plan", path.to_str().unwrap()], more].concat());
    ran.stderr = ran.stderr.replace(path.to_str().unwrap(), "w.toml");
    ran
}

#[test]
fn unknown_names_suggest_the_nearest() {
    insta::assert_snapshot!("unknown_model", gpuplan(&["plan", "--model", "lama-3.1-8b", "--tokens", "1B"]).refusal());
    insta::assert_snapshot!(
        "unknown_gpu",
        gpuplan(&["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "1B", "--gpus", "H10:8"]).refusal()
    );
    insta::assert_snapshot!(
        "unknown_cloud",
        gpuplan(&["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "1B", "--cloud", "awz"]).refusal()
    );
    insta::assert_snapshot!(
        "unknown_key",
        workload("[model]\npreset = \"llama-3.1-8b\"\n[training]\ntask = \"lora\"\ntokns = \"1B\"\n", &[]).refusal()
    );
}

#[test]
fn impossible_numbers_are_named() {
    let model = "[model]\npreset = \"llama-3.1-8b\"\n[training]\ntask = \"lora\"\n";
    insta::assert_snapshot!("negative_tokens", workload(&format!("{model}tokens = -5\n"), &[]).refusal());
    insta::assert_snapshot!("huge_tokens", workload(&format!("{model}tokens = \"1e400\"\n"), &[]).refusal());
    insta::assert_snapshot!(
        "zero_sequence",
        workload(&format!("{model}tokens = \"1B\"\nsequence_length = 0\n"), &[]).refusal()
    );
    insta::assert_snapshot!(
        "unknown_precision",
        workload(&format!("{model}tokens = \"1B\"\nprecision = \"fp9\"\n"), &[]).refusal()
    );
    insta::assert_snapshot!(
        "negative_budget",
        workload(&format!("{model}tokens = \"1B\"\n[limits]\nbudget = \"-3\"\n"), &[]).refusal()
    );
}

#[test]
fn hostile_configurations_are_refused() {
    for file in ["truncated", "deep", "negative_layers", "huge_numbers", "wrong_types", "empty", "not_utf8"] {
        let path = format!("tests/fixtures/huggingface/{file}.json");
        let ran = gpuplan(&["plan", "--config", &path, "--task", "lora", "--tokens", "1B"]);
        assert_eq!(ran.code, 2, "{file}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: config.json: "), "{file}: {}", ran.stderr);
    }
    let missing = gpuplan(&["plan", "--config", "no/such/config.json", "--task", "lora", "--tokens", "1B"]);
    assert_eq!(missing.code, 2);
}

#[test]
fn a_deadline_in_the_past_is_refused() {
    let ran =
        gpuplan(&["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "10M", "--deadline", "2026-07-01"]);
    insta::assert_snapshot!("past_deadline", ran.refusal());
}

#[test]
fn nothing_fits_is_exit_3_with_the_nearest_and_its_fix() {
    let model = ["plan", "--model", "llama-3.1-70b", "--task", "full-fine-tune", "--tokens", "10M"];
    insta::assert_snapshot!("too_little_memory", gpuplan(&[&model[..], &["--gpus", "T4:1"]].concat()).refusal());
    let late = gpuplan(&["plan", "examples/llama-7b-pretrain.toml", "--deadline", "2h"]);
    insta::assert_snapshot!("too_late", late.refusal());
}

#[test]
fn only_the_money_is_exit_4() {
    let ran = gpuplan(&["plan", "examples/llama-7b-pretrain.toml", "--budget", "500"]);
    insta::assert_snapshot!("only_money", ran.refusal());
    assert_eq!(gpuplan(&["plan", "examples/llama-7b-pretrain.toml", "--max-price", "3"]).code, 4);
}

#[test]
fn no_workload_and_unknown_flags_are_usage_errors() {
    insta::assert_snapshot!("no_workload", gpuplan(&["plan"]).refusal());
    assert_eq!(gpuplan(&["plan", "--modell", "x"]).code, 2);
    assert_eq!(gpuplan(&["fly"]).code, 2);
}

/// A hint is a thing to type: every command and flag in one parses.
#[test]
fn every_hint_can_be_typed() {
    let refused = [
        gpuplan(&["plan"]),
        gpuplan(&["plan", "--model", "lama", "--tokens", "1B"]),
        gpuplan(&["plan", "--model", "zzz", "--tokens", "1B"]),
        gpuplan(&["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "1B", "--gpus", "H10:8"]),
        gpuplan(&["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "1B", "--deadline", "2020-01-01"]),
        gpuplan(&["plan", "examples/llama-7b-pretrain.toml", "--budget", "500"]),
        gpuplan(&["plan", "examples/llama-7b-pretrain.toml", "--deadline", "2h"]),
        gpuplan(&["estimate", "examples/llama-3.1-8b-lora.toml", "--gpus", "T4:1"]),
        gpuplan(&["explain", "examples/llama-3.1-8b-lora.toml", "--output", "csv"]),
        gpuplan(&["report", "nowhere.toml"]),
        gpuplan(&["report", "examples/llama-3.1-8b-lora.toml", "--format", "md", "--output", "csv"]),
    ];
    let mut typed = 0;
    for ran in refused {
        assert_ne!(ran.code, 0);
        for hint in ran.stderr.lines().filter_map(|line| line.strip_prefix("hint: ")) {
            for command in commands(hint) {
                let words: Vec<&str> =
                    command.split_whitespace().map(|word| word.trim_matches(['`', ',', '.'])).collect();
                let words = if words[0] == "gpuplan" { words } else { [&["gpuplan", "plan"][..], &words].concat() };
                Arguments::try_parse_from(&words).unwrap_or_else(|error| panic!("hint `{hint}`: {error}"));
                typed += 1;
            }
        }
    }
    assert!(typed > 8, "only {typed} commands were found");
}

/// Parts in backticks that are commands or flags, or the whole hint where it is one.
fn commands(hint: &str) -> Vec<String> {
    let quoted = hint
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|part| part.starts_with("gpuplan ") || part.starts_with("--"))
        .map(str::to_owned);
    if hint.starts_with("gpuplan ") || hint.starts_with("--") {
        return vec![hint.split(" accepts").next().unwrap_or(hint).split(" after").next().unwrap_or(hint).to_owned()];
    }
    quoted.collect()
}

/// Under `--output json` an error is the last line of stderr, whatever was said before it.
fn error_of(arguments: &[&str]) -> (i32, Value) {
    let ran = gpuplan(&[arguments, &["--output", "json"]].concat());
    let last = ran.stderr.lines().last().unwrap_or_else(|| panic!("{arguments:?} says nothing"));
    let document: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    (ran.code, document["error"].clone())
}

#[test]
fn errors_are_json_where_json_was_asked_for() {
    let lora = ["plan", "--model", "llama-3.1-8b", "--task", "lora", "--tokens", "1B"];
    let cases: [(&[&str], i32, &str); 6] = [
        (&["plan"], 2, "usage"),
        (&["fly"], 2, "usage"),
        (&["plan", "--modell", "x"], 2, "usage"),
        (&[&lora[..], &["--gpus", "H10:8"]].concat(), 2, "usage"),
        (&["plan", "examples/llama-7b-pretrain.toml", "--deadline", "2h"], 3, "no-plan-fits"),
        (&["plan", "examples/llama-7b-pretrain.toml", "--budget", "500"], 4, "over-budget"),
    ];
    for (arguments, code, kind) in cases {
        let (ended, error) = error_of(arguments);
        assert_eq!((ended, error["kind"].as_str()), (code, Some(kind)), "{arguments:?}: {error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.starts_with("error")), "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
    }
    let (_, misspelled) = error_of(&["plan", "--modell", "x"]);
    assert!(misspelled["hint"].as_str().unwrap().contains("--model"), "{misspelled}");
}

#[test]
fn set_reaches_every_key_of_the_workload_file() {
    let steps = |set: &[&str]| {
        let ran = gpuplan(&[&["plan", "examples/llama-3.1-8b-lora.toml", "--output", "json"], set].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.json()["workload"]["file"]["training"].clone()
    };
    let set = steps(&["--set", "training.lora.dropout=0.1", "--set", "training.sequence_length=512"]);
    assert_eq!((&set["lora"]["dropout"], &set["sequence_length"]), (&true.into(), &"512".into()));
    let (code, error) = error_of(&["plan", "examples/llama-3.1-8b-lora.toml", "--set", "training.precison=bf16"]);
    assert_eq!(code, 2);
    assert!(error["message"].as_str().unwrap().contains("did you mean `precision`?"), "{error}");
}

/// Questions of meta-llama/llama-cookbook#413, kijai/ComfyUI-FluxTrainer#118 and huggingface/transformers#20348: what is proposed is planned
/// as it stands, and fits.
#[test]
fn where_memory_is_in_the_way_what_is_proposed_fits() {
    let asked: [(&[&str], &[&str]); 3] = [
        (&["--model", "meta-llama/Llama-2-7b-hf", "--task", "full-fine-tune", "--gpus", "A100:1"], &["lora", "A100:2"]),
        (&["--model", "black-forest-labs/FLUX.1-dev", "--task", "lora", "--gpus", "RTX4090:1"], &["qlora"]),
        (&["--model", "openai/whisper-large", "--task", "full-fine-tune", "--gpus", "RTX4090:1"], &["lora"]),
    ];
    for (question, proposed) in asked {
        let question = [&["plan"], question, &["--samples", "1000"]].concat();
        let ran = gpuplan(&question);
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        let hints: Vec<&str> = ran.stderr.lines().filter_map(|line| line.strip_prefix("hint: ")).collect();
        for word in proposed {
            let hint = hints.iter().find(|hint| hint.split([' ', ',']).nth(1) == Some(word));
            let (flag, _) =
                hint.and_then(|hint| hint.split_once(' ')).unwrap_or_else(|| panic!("{word}: {}", ran.stderr));
            let mut again: Vec<&str> = question.clone();
            match again.iter().position(|stated| *stated == flag) {
                Some(at) => again[at + 1] = word,
                None => again.extend([flag, word]),
            }
            let fitting = gpuplan(&again);
            assert_eq!(fitting.code, 0, "{again:?}: {}", fitting.stderr);
        }
    }
}

#[test]
fn a_cloud_without_a_price_for_the_gpus_is_called_so() {
    let ran = gpuplan(&[
        "plan",
        "--model",
        "llama-3.1-8b",
        "--task",
        "qlora",
        "--tokens",
        "10M",
        "--gpus",
        "A10G",
        "--cloud",
        "gcp",
    ]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("no price of these GPUs is known"), "{}", ran.stderr);
    // One that has a price and is too small is no such cloud.
    let small = gpuplan(&[
        "plan",
        "--model",
        "llama-3.1-8b",
        "--task",
        "lora",
        "--tokens",
        "1M",
        "--gpus",
        "A100-40GB:1",
        "--cloud",
        "gcp",
        "--micro-batch",
        "64",
    ]);
    assert!(small.code == 3 && !small.stderr.contains("no price of"), "{}", small.stderr);
}

/// The first hint as it would be typed behind the question: its flags take the place of those that are there.
fn with_first_hint(question: &[&str], ran: &Ran) -> Vec<String> {
    let hint =
        ran.stderr.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_else(|| panic!("{}", ran.stderr));
    let typed = hint.split(" carries").next().unwrap().split(',').next().unwrap();
    let mut again: Vec<String> = question.iter().map(|word| (*word).to_owned()).collect();
    let words: Vec<&str> = typed.split(' ').collect();
    for pair in words.chunks(2) {
        match again.iter().position(|stated| stated == pair[0]) {
            Some(at) => pair[1].clone_into(&mut again[at + 1]),
            None => again.extend(pair.iter().map(|word| (*word).to_owned())),
        }
    }
    again
}

/// Of LLaMA 2 70B on 24 cards of 40 GB, of adapters on cards that no network joins, of a picture model whose
/// text encoder alone fills a card, of services that their load or their weights push off what was asked for.
#[test]
fn what_is_proposed_first_is_planned_and_fits() {
    let questions: [&str; 8] = [
        "--model meta-llama/Llama-2-70b-hf --task full-fine-tune --tokens 10M --gpus A100-40GB:24",
        "--model meta-llama/Llama-3.3-70B-Instruct --task lora --samples 10000 --gpus RTX4090:8",
        "--model meta-llama/Llama-2-70b-hf --task qlora --samples 10000 --gpus RTX3090:2",
        "--model black-forest-labs/FLUX.2-dev --images 10000 --gpus H100",
        "--model llama-3.1-8b --requests-per-second 40 --prompt-tokens 1000 --answer-tokens 300 --gpus L40S:1",
        "--model zai-org/GLM-4.6 --requests-per-second 2 --prompt-tokens 1000 --answer-tokens 300 --gpus H100:8",
        // A million tokens on one machine, as TRL documents it; an adapter for videos on a card of 24 GB, and for pictures alone.
        "--model Qwen/Qwen3-8B --task full-fine-tune --sequence-length 1048576 --steps 12 --global-batch 1 --gpus H100:8",
        "--model tencent/HunyuanVideo --task lora --samples 40 --epochs 70 --gpus RTX4090:1",
    ];
    for question in questions {
        let question: Vec<&str> = ["plan"].into_iter().chain(question.split(' ')).collect();
        let ran = gpuplan(&question);
        assert_eq!(ran.code, 3, "{question:?}: {}", ran.stderr);
        let again = with_first_hint(&question, &ran);
        let again: Vec<&str> = again.iter().map(String::as_str).collect();
        assert_ne!(again, question, "{}", ran.stderr);
        let fitting = gpuplan(&again);
        assert_eq!(fitting.code, 0, "{again:?}: {}", fitting.stderr);
    }
}

#[test]
fn every_command_says_the_same_where_nothing_fits() {
    let question = "--model meta-llama/Llama-2-7b-hf --task full-fine-tune --samples 1000 --gpus A100:1";
    let said = |command: &[&str], last: &[&str]| {
        let words: Vec<&str> = question.split(' ').collect();
        let ran = gpuplan(&[command, &words, last].concat());
        assert_eq!(ran.code, 3, "{command:?}: {}", ran.stderr);
        let from = ran.stderr.find("error: ").unwrap();
        ran.stderr[from..].to_owned()
    };
    let plan = said(&["plan"], &[]);
    assert!(plan.contains("hint: --task lora") && plan.contains("hint: --gpus A100:2 carries the work"), "{plan}");
    assert_eq!(said(&["explain"], &[]), plan);
    assert_eq!(said(&["export", "--to", "slurm"], &[]), plan);
    assert_eq!(said(&["launch", "--dry-run"], &["--", "true"]), plan);
}

#[test]
fn a_flag_that_a_phase_would_override_is_refused() {
    let ran = gpuplan(&["plan", "examples/grpo-7b.toml", "--task", "lora"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("phase `updates` has a value of its own"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: --phase updates --task lora"), "{}", ran.stderr);
    // What no phase states is that of all.
    assert_eq!(gpuplan(&["plan", "examples/grpo-7b.toml", "--precision", "fp8"]).code, 0);
}

#[test]
fn what_nobody_rents_and_what_only_a_cloud_knows_is_called_so() {
    let lora = ["plan", "--model", "qwen3-4b", "--task", "qlora", "--tokens", "1M"];
    let own = gpuplan(&[&lora[..], &["--gpus", "RTX 4080"]].concat());
    assert!(own.code == 3 && own.stderr.contains("no cloud is known to rent these GPUs"), "{}", own.stderr);
    assert!(own.stderr.contains("carries the work as it is"), "{}", own.stderr);
    let asked = gpuplan(&[&lora[..], &["--cloud", "vast"]].concat());
    assert!(asked.code == 3 && asked.stderr.contains("no price is known"), "{}", asked.stderr);
    assert!(asked.stderr.contains("hint: --live") && !asked.stderr.contains("MI300X"), "{}", asked.stderr);
    let count = gpuplan(&[&lora[..], &["--gpus", "H100:8*2"]].concat());
    assert!(count.code == 2 && count.stderr.contains("hint: --gpus H100:16"), "{}", count.stderr);
    let before = gpuplan(&[&lora[..], &["--gpus", "2x RTX 5090"]].concat());
    assert!(before.code == 2 && before.stderr.contains("hint: --gpus 'RTX 5090:2'"), "{}", before.stderr);
}

/// bf16 that nobody stated is taken for fp16 on a GPU before Ampere, which `plan` and `estimate` both say.
#[test]
fn an_estimate_says_what_it_counts_in_place_of_bf16() {
    let train = ["estimate", "--model", "vit-b-16", "--task", "train", "--samples", "1M", "--gpus"];
    let warned = |gpus: &str, more: &[&str]| {
        let ran = gpuplan(&[&train[..], &[gpus], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stderr.contains("no units for bf16: fp16 is counted")
    };
    assert!(warned("V100:8", &[]) && warned("V100:8", &["-o", "json"]));
    assert!(!warned("V100:8", &["--precision", "fp16"]) && !warned("A100:8", &[]));
}
