//! Questions that newcomers ask first: each has an answer that an engineer would take, as docs/planning.md argues. Bounds are wide, since prices
//! move; what they hold is the kind of answer.

use gpuplan::units::Usd;
use serde_json::Value;

use crate::cli::support::gpuplan;

/// A question, hours within which its work ends (none of a service), and dollars between which it costs.
type Question = (&'static str, Option<f64>, [f64; 2]);

const QUESTIONS: [Question; 19] = [
    ("examples/llama-3.1-8b-finetune.toml", Some(4.0), [10.0, 100.0]),
    ("--model Qwen/Qwen3-32B --task lora --tokens 200M --budget 100", Some(48.0), [20.0, 100.0]),
    (
        "--model meta-llama/Llama-3.3-70B-Instruct --task full-fine-tune --tokens 100M --gpus H100:8..64 --deadline 5d",
        Some(5.0),
        [100.0, 600.0],
    ),
    ("--model llama-3.1-405b --task full-fine-tune --tokens 100M", Some(5.0), [500.0, 4000.0]),
    ("--model llama-3.2-1b --task pretrain --tokens 100B", Some(72.0), [1000.0, 8000.0]),
    ("--model google/vit-base-patch16-224 --task train --samples 1281167 --epochs 300", Some(12.0), [80.0, 700.0]),
    ("--model sdxl --task full-fine-tune --samples 100000", Some(6.0), [10.0, 100.0]),
    ("--model openai/whisper-large-v3 --task full-fine-tune --samples 100000", Some(4.0), [2.0, 20.0]),
    // 2.8 million H800 hours were published (arXiv 2412.19437, table 1).
    ("--model deepseek-v3 --task pretrain --tokens 14.8T", Some(7200.0), [10e6, 80e6]),
    ("--model mixtral-8x7b --task pretrain --tokens 1T", Some(240.0), [150e3, 1e6]),
    ("--model Qwen/Qwen3-30B-A3B --task full-fine-tune --tokens 100M", Some(4.0), [10.0, 90.0]),
    ("--model llama-3.1-8b --task full-fine-tune --tokens 100M --sequence-length 131072", Some(6.0), [30.0, 300.0]),
    ("examples/embed-a-billion.toml", Some(12.0), [60.0, 600.0]),
    (
        "--model llama-3.1-8b --requests 1M --prompt-tokens 800 --answer-tokens 200 --deadline 1d",
        Some(12.0),
        [15.0, 150.0],
    ),
    ("--model llama-3.1-8b --requests-per-second 20 --prompt-tokens 500 --answer-tokens 200", None, [1500.0, 9000.0]),
    ("--model llama-3.3-70b --requests-per-second 2 --prompt-tokens 2000 --answer-tokens 500", None, [6000.0, 35e3]),
    ("--model llama-3.1-8b --requests-per-second 1 --prompt-tokens 100000 --answer-tokens 200", None, [20e3, 120e3]),
    // With weights of 16 bits, which nobody published, it was $12,106.
    ("--model gpt-oss-120b --requests-per-second 5 --prompt-tokens 2000 --answer-tokens 500", None, [2000.0, 10e3]),
    (
        "--model deepseek-v3 --weights fp8 --requests-per-second 2 --prompt-tokens 1000 --answer-tokens 300",
        None,
        [15e3, 90e3],
    ),
];

fn dollars(money: &Value) -> f64 {
    Usd::parse(money.as_str().unwrap()).unwrap().dollars()
}

#[test]
fn usual_questions_have_answers_that_an_engineer_would_take() {
    for (question, hours, [least, most]) in QUESTIONS {
        let words: Vec<&str> = ["plan", "-o", "json"].into_iter().chain(question.split(' ')).collect();
        let document = gpuplan(&words).json();
        let best = &document["recommendation"];
        let cost = dollars(&best["cost_usd"]["expected"]);
        assert!((least..most).contains(&cost), "{question}: ${cost}");
        if let Some(limit) = hours {
            let ends = best["run_hours"]["expected"].as_f64().unwrap();
            assert!(ends < limit, "{question}: {ends} h");
        }
        // What costs less ends so much later that an hour would have to be worth less than it counts.
        let cheapest = &document["choices"][0];
        let value = document["value_of_time"].get("usd_per_hour").map_or(0.0, dollars);
        let ends = |plan: &Value| plan["run_hours"]["expected"].as_f64().unwrap();
        let later = ends(cheapest) - ends(best);
        let saved = cost - dollars(&cheapest["cost_usd"]["expected"]);
        assert!(saved <= value * later + 1e-6, "{question}: ${saved} less, {later} h later, at ${value} an hour");
    }
}

/// 128 sequences of 131,072 tokens were a step of 16.8 million.
#[test]
fn long_sequences_have_a_batch_in_tokens() {
    let question = "plan -o json --model llama-3.1-8b --task full-fine-tune --tokens 100M --sequence-length 131072";
    let document = gpuplan(&question.split(' ').collect::<Vec<_>>()).json();
    let tokens = document["workload"]["global_batch"].as_u64().unwrap() * 131_072;
    assert!((1_000_000..=4_200_000).contains(&tokens), "{tokens} tokens a step");
}

/// The largest question whose time is measured is a file that anybody can ask again.
#[test]
fn the_largest_question_looks_at_every_machine_of_the_snapshot() {
    let document = gpuplan(&["plan", "benchmarks/largest.toml", "-o", "json"]).json();
    let frontier = document["frontier"].as_array().unwrap();
    let gpus = |plan: &Value| plan["nodes"].as_u64().unwrap() * plan["gpus_per_node"].as_u64().unwrap();
    let most = frontier.iter().map(gpus).max();
    assert!(most.is_some_and(|most| most > 8192), "{most:?} GPUs at most");
}
