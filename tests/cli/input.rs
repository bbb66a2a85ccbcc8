//! Input pipelines: GPUs that wait for samples change the choice, and those that do not leave it as it was.

use serde_json::Value;

use crate::cli::support::{gpuplan, plan, plans};

/// ResNet-50 on eight fast GPUs with twelve vCPUs each, or on eight slow ones with as many, on demand at Google.
fn choice(data: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workload.toml");
    let text = format!(
        "model = {{ preset = \"resnet-50\" }}\n[training]\ntask = \"train\"\nepochs = 90\nsequence_length = 224\nglobal_batch = 2048\n\
         precision = \"amp-fp16\"\noptimizer = \"sgd\"\n[data]\nsamples = 1281167\n{}\n[limits]\ngpus = \"A100:8;L4:8\"\n\
         deadline = \"2d\"\nobjective = \"cost\"\nclouds = [\"gcp\"]\npurchase = \"on-demand\"\n",
        data.join("\n")
    );
    std::fs::write(&path, text).unwrap();
    let ran = gpuplan(&["plan", path.to_str().unwrap(), "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()
}

fn gpu(document: &Value) -> &str {
    document["recommendation"]["gpu"].as_str().unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap()
}

fn notes(document: &Value) -> String {
    document["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn eight_fast_gpus_with_few_vcpus_lose_to_slow_ones_on_jpeg_and_win_on_decoded_pictures() {
    // Nothing said of the samples: nothing is made up, and the plan says what to add.
    let unknown = choice(&["size = \"150GB\""]);
    assert_eq!(gpu(&unknown), "a100-sxm4-40");
    assert!(unknown["recommendation"].get("input").is_none());
    assert!(
        notes(&unknown).contains("the input pipeline was not checked") && notes(&unknown).contains("kind = \"jpeg\"")
    );
    let jpeg = choice(&["kind = \"jpeg\"", "size = \"150GB\""]);
    assert_eq!(gpu(&jpeg), "l4", "{}", jpeg["recommendation"]["id"]);
    let said = notes(&jpeg);
    assert!(said.contains("input decides: 8 x A100 SXM4 40GB") && said.contains("(cpu decode)"), "{said}");
    let starved = plans(&jpeg).into_iter().find(|plan| plan["gpu"] == "a100-sxm4-40").unwrap();
    assert_eq!(starved["bound_by"], "input: cpu decode");
    assert!(number(&starved["input"]["wait_share"]) > 0.1 && number(&starved["input"]["waiting_cost_usd"]) > 5.0);
    let (needed, has) = (number(&starved["input"]["vcpus_needed_per_gpu"]), number(&starved["input"]["vcpus_per_gpu"]));
    assert!(has == 12.0 && needed > has, "{needed}");
    let decoded = choice(&["kind = \"raw\"", "size = \"170GB\"", "files = \"shards\"", "storage = \"disk\""]);
    assert_eq!(gpu(&decoded), "a100-sxm4-40");
    // A decoder block in each GPU does as well.
    assert_eq!(gpu(&choice(&["kind = \"jpeg\"", "size = \"150GB\"", "decode = \"gpu\""])), "a100-sxm4-40");
}

#[test]
fn the_wait_is_in_step_cost_and_utilisation_and_every_cure_has_its_price() {
    let plan = plan("resnet-50-object-store", &["--cloud", "aws"]);
    let best = &plan["recommendation"];
    let input = &best["input"];
    assert_eq!((best["bound_by"].as_str(), input["limit"].as_str()), (Some("input: storage"), Some("storage")));
    let share = number(&input["wait_share"]);
    assert!(share > 0.5 && number(&best["gpu_utilization"]["expected"]) < 1.0 - share);
    assert!((number(&input["wait_seconds"]) / number(&best["step_seconds"]["expected"]) - share).abs() < 1e-9);
    let because = best["because"].to_string();
    assert!(because.contains("object store gives") && because.contains("of the cost"), "{because}");
    let cures = input["cures"].as_array().unwrap();
    let of =
        |name: &str| cures.iter().find(|cure| cure["cure"] == name).unwrap_or_else(|| panic!("{name} in {cures:?}"));
    for name in ["format", "stage", "fewer-gpus"] {
        assert!(number(&of(name)["run_hours"]) > 0.0, "{name}");
    }
    // Copied once it is read at the rate of local NVMe.
    assert!(number(&of("stage")["saves_usd"]) > 0.3 * number(&best["cost_usd"]["expected"]));
    assert!(number(&of("stage")["waiting_share"]) < share / 4.0);
    assert!(notes(&plan).contains("requests for objects"));
}

#[test]
fn training_on_tokens_is_not_slowed_by_more_than_the_truth() {
    let cases = [
        ("llama-7b-pretrain", "4TB", "a100-sxm4-80:256", "90d"),
        ("llama-3.1-8b-finetune", "1GB", "a100-sxm4-80:8", "90d"),
        ("llama-3.1-8b-lora", "1GB", "h100:1", "90d"),
    ];
    for (example, size, gpus, deadline) in cases {
        let text = std::fs::read_to_string(format!("{}/examples/{example}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ask = |name: &str, kind: Option<&str>| {
            let mut file: toml::Table = toml::from_str(&text).unwrap();
            let data = file.entry("data").or_insert_with(|| toml::Table::new().into()).as_table_mut().unwrap();
            data.remove("kind");
            data.insert("size".to_owned(), size.into());
            if !data.contains_key("samples") {
                data.insert("tokens".to_owned(), "1T".into());
            }
            data.extend(kind.map(|kind| ("kind".to_owned(), kind.into())));
            let path = folder.path().join(name);
            std::fs::write(&path, toml::to_string(&file).unwrap()).unwrap();
            let ran = gpuplan(&[
                "plan",
                path.to_str().unwrap(),
                "--output",
                "json",
                "--on-demand",
                "--gpus",
                gpus,
                "--deadline",
                deadline,
            ]);
            assert_eq!(ran.code, 0, "{example}: {}", ran.stderr);
            ran.json()
        };
        let (without, with) = (ask("without.toml", None), ask("with.toml", Some("tokens")));
        let (without, with) = (&without["recommendation"], &with["recommendation"]);
        assert_eq!(without["id"], with["id"], "{example}");
        assert!(with["input"].is_object() && without.get("input").is_none(), "{example}");
        for figure in ["/step_seconds/expected", "/cost_usd/expected", "/run_hours/p90"] {
            let (before, after) = (number(without.pointer(figure).unwrap()), number(with.pointer(figure).unwrap()));
            assert!((after / before - 1.0).abs() < 1e-3, "{example}{figure}: {before} {after}");
        }
    }
}

#[test]
fn explain_shows_scaling_beside_the_rule_of_thumb() {
    let ran = gpuplan(&["explain", "examples/llama-7b-pretrain.toml"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let line = ran.stdout.lines().find(|line| line.contains("scaling")).unwrap();
    assert!(line.contains("rule of thumb 60 to 75 %"), "{line}");
    let json = gpuplan(&["explain", "examples/llama-7b-pretrain.toml", "--output", "json"]).json();
    let efficiency = number(&json["scaling"]["efficiency"]);
    assert!(efficiency > 0.5 && efficiency <= 1.0 && json["scaling"]["gpus"].as_u64().unwrap() >= 64, "{efficiency}");
}

#[test]
fn a_word_that_no_data_has_is_refused_with_those_it_may_have() {
    let ran = gpuplan(&["plan", "--model", "resnet-50", "--task", "train", "--steps", "10", "--data-kind", "jpg"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("`jpg` is not known") && ran.stderr.contains("did you mean `jpeg`?"), "{}", ran.stderr);
}

#[test]
fn a_framework_that_nobody_knows_is_refused_with_the_one_that_was_meant() {
    let asked = |name: &str| gpuplan(&["plan", "examples/llama-7b-pretrain.toml", "--framework", name]);
    let misspelt = asked("megatorn");
    assert_eq!(misspelt.code, 2);
    for words in ["`training.framework`: `megatorn` is not known", "torchtitan", "did you mean `megatron`?"] {
        assert!(misspelt.stderr.contains(words), "{}", misspelt.stderr);
    }
    let (named, alias) = (asked("megatron"), asked("Megatron-LM"));
    // The command that launches it has the words of the question.
    let answer = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with("Rent "));
        lines.take_while(|line| !line.starts_with("Launch: ")).map(str::to_owned).collect()
    };
    assert!(answer(&named.stdout).len() > 8, "{}", named.stdout);
    assert_eq!((alias.code, answer(&alias.stdout)), (0, answer(&named.stdout)), "{}", alias.stderr);
}
