//! What was measured beside what is estimated: a user's own table of runs, and the published runs like an estimate.

use crate::cli::support::gpuplan;

#[test]
fn an_own_table_is_scored_by_source_with_memory_and_fits() {
    let ran = gpuplan(&["accuracy", "--cases", "tests/fixtures/runs/measured.csv"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("columns that were not read: operator"), "{}", ran.stderr);
    for part in
        ["lab", "Peak memory of a GPU by source", "false fit 0 of 1", "Without an answer: 1", "b1: unknown GPU `H900`"]
    {
        assert!(ran.stdout.contains(part), "`{part}` is missing from\n{}", ran.stdout);
    }
    let document = gpuplan(&["accuracy", "--cases", "tests/fixtures/runs/measured.csv", "-o", "json"]).json();
    assert_eq!((&document["time_all"]["cases"], &document["time_all"]["answered"]), (&3.into(), &2.into()));
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| run["id"].as_str().unwrap()).collect::<Vec<_>>(), ["a1", "a2", "a3"]);
    let error = |at: usize| runs[at]["error_percent"].as_f64().unwrap();
    let mean = f64::midpoint(error(0).abs(), error(1).abs());
    assert!((document["time_all"]["mape_percent"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert_eq!(document["unanswered"][0]["id"], "b1");
    let csv = gpuplan(&["accuracy", "--cases", "tests/fixtures/runs/measured.csv", "--by", "gpu", "-o", "csv"]).stdout;
    assert!(csv.starts_with("what,gpu,") && csv.contains("\ntime,H900,1,0,"), "{csv}");
}

#[test]
fn lines_of_json_are_scored_like_a_table() {
    let document = gpuplan(&["accuracy", "--cases", "tests/fixtures/runs/measured.jsonl", "-o", "json"]).json();
    assert_eq!(document["fits"]["false_out_of_memory"], 0);
    let sources: Vec<&str> =
        document["time"]["source"].as_array().unwrap().iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(sources, ["lab", "own"]);
}

#[test]
fn a_table_that_cannot_be_read_says_which_rows_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.csv");
    let text = std::fs::read_to_string("tests/fixtures/runs/measured.csv").unwrap();
    std::fs::write(&path, text.replace(",bf16,16,", ",bf15,16,").replace(",44,", ",much,")).unwrap();
    let said = gpuplan(&["accuracy", "--cases", path.to_str().unwrap()]);
    assert_eq!(said.code, 2);
    for part in [
        "row 2: precision `bf15` is not known; it is one of fp32,",
        "row 3: value `much` is not a number",
        "docs/measure.md",
    ] {
        assert!(said.stderr.contains(part), "`{part}` is missing from\n{}", said.stderr);
    }
    let said = gpuplan(&["accuracy", "--cases", path.to_str().unwrap(), "--by", "table"]);
    assert!(said.code == 2 && said.stderr.contains("of the published runs alone"), "{}", said.stderr);
}

#[test]
fn an_estimate_names_the_published_runs_like_it() {
    let example = "examples/llama-7b-pretrain.toml";
    let text = gpuplan(&["estimate", example, "--gpus", "H100:8"]).stdout;
    assert!(text.contains("Like 6 published runs, which are "), "{text}");
    let nearest = gpuplan(&["estimate", example, "--gpus", "H100:8", "-o", "json"]).json()["nearest"].clone();
    let runs = nearest["runs"].as_array().unwrap();
    let distances: Vec<f64> = runs.iter().map(|run| run["distance"].as_f64().unwrap()).collect();
    assert!(runs.len() == 6 && distances.is_sorted() && distances[5] <= 2.0, "{nearest}");
    assert!(nearest["median_error_percent"].as_f64().unwrap() < 30.0, "{nearest}");
    let explained = gpuplan(&["explain", example]).stdout;
    assert!(explained.contains("  published   "), "{explained}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("far.jsonl");
    let case = r#"{"id":1,"model":{"name":"llama-2-70b"},"hardware":{"gpu":"p100-pcie-16","gpus":4096},"training":{"precision":"fp16"}}"#;
    std::fs::write(&path, case).unwrap();
    let far = gpuplan(&["estimate", "--cases", path.to_str().unwrap(), "-o", "json"]).json()["nearest"].clone();
    assert!(far["runs"].as_array().unwrap().is_empty() && far["median_error_percent"].is_null(), "{far}");
    assert!(far["closest_distance"].as_f64().unwrap() > 2.0, "{far}");
}
