//! Cases that are refused by name, and what is filled in for the rest.

#![cfg(test)]

use super::answer::{CaseAnswer, answer};
use super::case::{EstimateCase, Prepared};
use gpuplan_hardware::{GpuLink, Hardware};
use gpuplan_workload::{Models, Precision, Stacks};

#[test]
fn sizes_that_nothing_has_are_refused_by_their_name() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let prepared = |model: &str, more: &str| {
        let hardware_section = format!("{{\"gpu\":\"a100-sxm4-80\"{more}}}");
        let line = format!("{{\"model\":{{\"name\":\"llama-3.1-8b\"{model}}},\"hardware\":{hardware_section}}}");
        serde_json::from_str::<EstimateCase>(&line).unwrap().prepare(&hardware, &models)
    };
    assert!(prepared("", "").is_ok());
    for (model, more, name) in [
        (",\"params\":-5", "", "params"),
        (",\"params\":0", "", "params"),
        (",\"params\":1e300", "", "params"),
        ("", ",\"node_network_gbit_per_s\":-1", "node_network_gbit_per_s"),
        ("", ",\"gpu_memory_gb\":-80", "gpu_memory_gb"),
        ("", ",\"gpu_memory_gb_per_s\":0", "gpu_memory_gb_per_s"),
        ("", ",\"gpu_power_watts\":-400", "gpu_power_watts"),
    ] {
        let why = prepared(model, more).unwrap_err();
        assert!(why.starts_with(&format!("{name}=")), "{why}");
    }
    let mut case: EstimateCase = serde_json::from_str("{\"hardware\":{\"gpu\":\"a100-sxm4-80\"}}").unwrap();
    (case.model.name, case.model.params) = (Some("llama-3.1-8b".to_owned()), Some(f64::NAN));
    assert!(case.prepare(&hardware, &models).unwrap_err().starts_with("params=NaN"));
}

fn prepared(line: &str) -> Result<Prepared, String> {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    serde_json::from_str::<EstimateCase>(line).unwrap().prepare(&hardware, &models)
}

fn case(model: &str, gpu: &str, gpus: u32, training: &str, layout: &str) -> String {
    format!(
        "{{\"model\":{{\"name\":\"{model}\"}},\"hardware\":{{\"gpu\":\"{gpu}\",\"gpus\":{gpus}}},\
         \"training\":{{{training}}},\"layout\":{{{layout}}}}}"
    )
}

#[test]
fn what_cannot_run_is_refused_with_the_nearest_that_works() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let said_of = |line: &str| match answer(line, &hardware, &models) {
        CaseAnswer::Unsupported { unsupported, .. } => unsupported,
        CaseAnswer::Estimate(_) => "an estimate".to_owned(),
    };
    for (gpu, gpus, training, layout, start, end) in [
        ("v100-sxm2-32", 8, "\"precision\":\"fp8\"", "", "precision=fp8 needs", "the nearest is fp16"),
        ("v100-sxm2-32", 8, "\"precision\":\"bf16\"", "", "precision=bf16 needs", "the nearest is fp16"),
        ("a100-sxm4-80", 8, "", "\"tensor\":64,\"data\":1", "tensor=64 does not divide the 32", "the nearest is 32"),
        ("a100-sxm4-80", 8, "", "\"tensor\":3", "tensor x pipeline x context = 3", "the nearest is gpus=9"),
        ("a100-sxm4-80", 8, "\"micro_batch\":0", "", "micro_batch=0 is outside", "the nearest is 1"),
        ("a100-sxm4-80", 8, "\"sequence_length\":0", "", "sequence_length=0 is outside", "the nearest is 1"),
        ("a100-sxm4-80", 8, "\"global_batch\":0", "", "global_batch=0 is not", "the nearest is 1"),
        ("a100-sxm4-80", 8, "\"global_batch\":4", "", "global_batch=4 gives not every", "the nearest is 8"),
        ("a100-sxm4-80", 8, "\"task\":\"lora\",\"lora_rank\":0", "", "lora_rank=0 is outside", "the nearest is 1"),
        ("a100-sxm4-80", 8, "\"base_weights\":\"nf4\"", "", "base_weights: only", "the task qlora"),
        // Plain fp32 on old chips, and people stretch what positions a model has.
        ("v100-sxm2-32", 8, "\"precision\":\"tf32\"", "", "an estimate", "an estimate"),
        ("a100-sxm4-80", 8, "\"sequence_length\":16384", "", "an estimate", "an estimate"),
    ] {
        let said = said_of(&case("llama-2-7b", gpu, gpus, training, layout));
        assert!(said.starts_with(start) && said.ends_with(end), "{training} {layout}: {said}");
    }
}

/// One sequence on 32 GPUs would be bubbles and updates (a published run was estimated twelve times too slow so).
#[test]
fn a_pretraining_that_says_nothing_of_its_batch_has_that_of_gpt3() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let batch = |model: &str, gpus: u32, training: &str| match answer(
        &case(model, "h100-sxm5-80", gpus, training, ""),
        &hardware,
        &models,
    ) {
        CaseAnswer::Unsupported { unsupported, .. } => unsupported,
        CaseAnswer::Estimate(estimate) => {
            let stated = |word: &&String| word.starts_with("global_batch=");
            estimate.assumed.iter().find(stated).cloned().unwrap_or_default()
        }
    };
    for (model, gpus, training, said) in [
        ("gpt-2", 1, "\"task\":\"pretrain\"", "global_batch=512"),
        ("qwen3-30b-a3b", 32, "\"task\":\"pretrain\"", "global_batch=2048"),
        ("llama-2-7b", 24, "\"task\":\"pretrain\"", "global_batch=768"),
        ("gpt-2", 1024, "\"task\":\"pretrain\"", "global_batch=1024"),
        ("gpt-2", 1, "\"task\":\"pretrain\",\"micro_batch\":4", "global_batch=4"),
        ("gpt-2", 1, "\"task\":\"pretrain\",\"global_batch\":8", ""),
        ("gpt-2", 1, "\"task\":\"lora\"", "global_batch=1"),
    ] {
        assert_eq!(batch(model, gpus, training), said, "{model} {training}");
    }
}

#[test]
fn no_default_breaks_the_model() {
    let length = |model: &str, training: &str| {
        prepared(&case(model, "a100-sxm4-80", 1, training, "")).unwrap().training.sequence_length
    };
    for (model, tokens) in [
        ("bert-large", 512),
        ("gpt-2", 1024),
        ("whisper-large-v3", 448),
        ("t5-large", 512),
        ("vit-b-16", 197),
        ("llama-3.1-8b", 2048),
    ] {
        assert_eq!(length(model, ""), tokens, "{model}");
    }
    assert_eq!(length("llama-3.1-8b", "\"task\":\"inference\""), 128);
    // Of an encoder with sizes of its own nothing else is known.
    let sizes = "{\"model\":{\"kind\":\"encoder\",\"layers\":24,\"hidden\":1024},\"hardware\":{\"gpu\":\"t4\"}}";
    let own = prepared(sizes).unwrap();
    assert_eq!((own.training.sequence_length, own.training.precision), (512, Precision::Fp16));
    assert!(own.assumed.contains(&"precision=fp16".to_owned()), "{:?}", own.assumed);
}

#[test]
fn a_stack_is_known_by_name_or_the_case_is_unsupported() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let framework = |name: &str| {
        let line = format!(
            r#"{{"model":{{"name":"llama-3.1-8b"}},"hardware":{{"gpu":"a100-sxm4-80"}},"training":{{"framework":"{name}"}}}}"#
        );
        let case: EstimateCase = serde_json::from_str(&line).unwrap();
        case.prepare(&hardware, &models).map(|prepared| prepared.training.framework.id().to_owned())
    };
    for name in Stacks::embedded().ids() {
        assert_eq!(framework(name).as_deref(), Ok(name));
    }
    assert_eq!(framework("Megatron-LM").as_deref(), Ok("megatron"));
    let why = framework("torchtitann").unwrap_err();
    assert_eq!(why, "unknown framework `torchtitann`; did you mean `torchtitan`?");
}

#[test]
fn software_is_assumed_to_do_what_software_of_its_year_did() {
    let of_year = |framework: &str, year: &str, more: &str| {
        let training = format!("\"framework\":\"{framework}\"{year}{more}");
        prepared(&case("llama-2-7b", "h100-sxm5-80", 16, &training, "\"tensor\":8,\"data\":2")).unwrap()
    };
    let splits = |made: &Prepared| made.request.layout.unwrap().sequence_parallel;
    let (now, then) = (of_year("megatron", "", ""), of_year("megatron", ",\"framework_year\":2021", ""));
    assert!(splits(&now) && !splits(&then));
    assert!(now.training.uses_flash() && !then.training.uses_flash());
    assert!(now.training.overlap(true).weight_gather && !then.training.overlap(true).weight_gather);
    // What is stated counts whatever the year.
    let stated = of_year("megatron", ",\"framework_year\":2021", ",\"attention\":\"flash\"");
    assert!(stated.training.uses_flash());
    // Sequence parallelism and Transformer Engine are not of the same year.
    let between = of_year("megatron", ",\"framework_year\":2022", "");
    assert!(splits(&between) && !between.training.has_transformer_engine());
    // Of a stack that is no longer developed the last year is known.
    assert!(!of_year("gpt-neox", "", "").training.is_since(2023) && of_year("nemo", "", "").training.is_since(2023));
    let line = case("llama-2-7b", "h100-sxm5-80", 16, "\"framework_year\":21", "");
    assert_eq!(prepared(&line).unwrap_err(), "framework_year=21 is not a year from 2017 on; the nearest is 2017");
}

/// FlagPerf trained Llama 3 8B on eight H100 with tensor parallelism of two, where 16 bytes a weight on every rank of four would not fit.
#[test]
fn ranks_that_cannot_hold_whole_states_split_them_as_the_stack_s_recipes_do() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let answered = |gpu: &str, framework: &str, layout: &str| {
        let training = format!(
            "\"framework\":\"{framework}\",\"sequence_length\":8192,\"micro_batch\":1,\"global_batch\":512,\"recompute\":\"selective\""
        );
        let line = case("llama-3-8b", gpu, 8, &training, layout);
        let CaseAnswer::Estimate(made) = answer(&line, &hardware, &models) else { panic!("{line}") };
        (made.fits, made.assumed.iter().find(|one| one.starts_with("shard=")).cloned())
    };
    let degrees = "\"data\":4,\"tensor\":2";
    assert_eq!(answered("h100-sxm5-80", "megatron", degrees), (true, Some("shard=zero1".to_owned())));
    // Where they fit, or are stated, or no recipe is known, nothing is assumed.
    assert_eq!(answered("h200-sxm-141", "megatron", degrees), (true, None));
    let stated = "\"data\":4,\"tensor\":2,\"shard\":\"none\"";
    assert_eq!(answered("h100-sxm5-80", "megatron", stated), (false, None));
    assert_eq!(answered("h100-sxm5-80", "nanotron", degrees), (false, None));
}

/// Llama 3 8B in NeMo on eight B200 took 6.06 s a step and allocated 116 GB: whole states would have needed layers that run again, of which
/// it says nothing, and took 8.2 s.
#[test]
fn ranks_split_their_states_before_layers_run_again() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let answered = |framework: &str, more: &str| {
        let training = format!(
            "\"framework\":\"{framework}\",\"sequence_length\":8192,\"micro_batch\":2,\"global_batch\":128{more}"
        );
        let line = case("llama-3.1-8b", "b200-sxm-180", 8, &training, "\"data\":8");
        let CaseAnswer::Estimate(made) = answer(&line, &hardware, &models) else { panic!("{line}") };
        let assumed = |key: &str| made.assumed.iter().find(|one| one.starts_with(key)).cloned().unwrap_or_default();
        (assumed("shard="), assumed("recompute="), made.step_seconds.expected)
    };
    let (shard, recompute, seconds) = answered("nemo", "");
    assert_eq!((shard.as_str(), recompute.as_str()), ("shard=zero1", "recompute=none"));
    // What is stated is no reason to split, nor is a stack whose recipes are not known.
    let (shard, _, stated) = answered("nemo", ",\"recompute\":\"full\"");
    assert!(shard.is_empty() && stated > 1.15 * seconds, "{shard} {stated} {seconds}");
    let (shard, recompute, _) = answered("nanotron", "");
    assert!(shard.is_empty() && recompute != "recompute=none", "{shard} {recompute}");
}

/// Pieces of a product's result can be gathered and reduced beside it; an all-reduce of the whole cannot.
#[test]
fn products_overlap_tensor_parallelism_that_is_split_by_tokens_alone() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let answered = |splits: bool, overlap: &str| {
        let training = format!("\"framework\":\"megatron\",\"micro_batch\":1,\"global_batch\":64{overlap}");
        let layout = format!("\"data\":2,\"tensor\":4,\"shard\":\"zero1\",\"sequence_parallel\":{splits}");
        let line = case("qwen3-8b", "h100-sxm5-80", 8, &training, &layout);
        let CaseAnswer::Estimate(made) = answer(&line, &hardware, &models) else { panic!("{line}") };
        (made.step_seconds.expected, made.assumed.into_iter().find(|one| one.starts_with("overlap=")))
    };
    let assumed = |splits| answered(splits, "").1;
    assert_eq!(assumed(true).as_deref(), Some("overlap=tensor-parallel,weight-gather"));
    assert_eq!(assumed(false).as_deref(), Some("overlap=weight-gather"));
    let gained = |splits| {
        let [without, with] =
            ["[]", "[\"tensor-parallel\"]"].map(|overlap| answered(splits, &format!(",\"overlap\":{overlap}")).0);
        without / with
    };
    assert!(gained(true) > 1.03 && (gained(false) - 1.0).abs() < 1e-12, "{} {}", gained(true), gained(false));
}

#[test]
fn a_stack_that_recomputes_unasked_is_timed_with_it() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let answered = |training: &str| {
        let line = case("qwen3-8b", "h100-sxm5-80", 1, &format!("\"task\":\"lora\",\"micro_batch\":2{training}"), "");
        let CaseAnswer::Estimate(made) = answer(&line, &hardware, &models) else { panic!("{line}") };
        (made.step_seconds.expected, made.assumed.iter().find(|one| one.starts_with("recompute=")).cloned())
    };
    // Unsloth keeps the inputs of layers on the host unless it is told not to; torchtune's program keeps everything.
    let (unsloth, assumed) = answered(",\"framework\":\"unsloth\"");
    assert_eq!(assumed.as_deref(), Some("recompute=offload"));
    let (stated, assumed) = answered(",\"framework\":\"unsloth\",\"recompute\":\"offload\"");
    assert_eq!((stated, assumed), (unsloth, None));
    let (kept, _) = answered(",\"framework\":\"unsloth\",\"recompute\":\"none\"");
    assert!(kept < 0.85 * unsloth, "{kept} {unsloth}");
    assert_eq!(answered(",\"framework\":\"torchtune\"").1.as_deref(), Some("recompute=none"));
}

#[test]
fn names_mean_what_they_mean_to_a_plan() {
    let said = |model: &str, gpu: &str| prepared(&case(model, gpu, 1, "", ""));
    assert_eq!(said("allenai/Olmo-3-7B-Instruct", "h200-sxm-141").unwrap().model.name, "olmo-3-7b");
    let why = said("llama-3.1-8b", "h200").unwrap_err();
    assert!(why.contains("h200-sxm-141") && why.contains("h200-nvl-141"), "{why}");
    assert!(said("llama-3.1-8b", "H900").unwrap_err().contains("catalog gpus"));
}

#[test]
fn a_named_model_hears_how_many_tokens_its_encoder_sees() {
    let seconds = |model: &str| {
        let line = format!(
            r#"{{"id": 1, "model": {model}, "hardware": {{"gpu": "a100-sxm4-80", "gpus": 1}},
            "training": {{"task": "pretrain", "precision": "bf16", "sequence_length": 114, "micro_batch": 64, "global_batch": 64}}}}"#
        );
        let CaseAnswer::Estimate(made) = answer(&line, &Hardware::embedded().unwrap(), &Models::embedded().unwrap())
        else {
            panic!("{line}")
        };
        made.step_seconds.expected
    };
    let (short, long) = (seconds(r#"{"name": "t5-large"}"#), seconds(r#"{"name": "t5-large", "encoder_tokens": 512}"#));
    assert!(long > 1.8 * short, "{short} {long}");
}

#[test]
fn a_named_model_hears_what_is_stated_of_its_shape() {
    let model = |more: &str| {
        let line = format!(r#"{{"model": {{"name": "qwen3-8b"{more}}}, "hardware": {{"gpu": "h200-sxm-141"}}}}"#);
        prepared(&line).map(|prepared| prepared.model)
    };
    let plain = model("").unwrap();
    let wide = model(r#", "ffn_hidden": 14336"#).unwrap();
    // Three matrices of a gated block in each of 36 layers.
    let added = 36.0 * 3.0 * 4096.0 * (14_336.0 - 12_288.0);
    assert!((wide.parameters - plain.parameters - added).abs() < 1.0, "{} {}", wide.parameters, plain.parameters);
    let words = model(r#", "vocab": 262144"#).unwrap();
    let added = 2.0 * 4096.0 * (262_144.0 - 151_936.0);
    assert!((words.parameters - plain.parameters - added).abs() < 1.0, "{} {}", words.parameters, plain.parameters);
    assert!(model(r#", "kv_heads": 64"#).unwrap_err().starts_with("kv_heads=64"));
}

#[test]
fn a_named_mixture_hears_what_is_stated_of_its_experts() {
    let model = |more: &str| {
        let line = format!(r#"{{"model": {{"name": "deepseek-v3"{more}}}, "hardware": {{"gpu": "h200-sxm-141"}}}}"#);
        prepared(&line).map(|prepared| prepared.model)
    };
    let plain = model(r#", "layers": 4"#).unwrap();
    // Of four layers the catalog's first three are dense.
    let mixed = model(r#", "layers": 4, "dense_layers": 0"#).unwrap();
    let added = 3.0 * 3.0 * 7168.0 * (257.0 * 2048.0 - 18_432.0);
    let more = mixed.parameters - plain.parameters;
    assert!((more / added - 1.0).abs() < 0.01, "{more} {added}");
    let halved = model(r#", "layers": 4, "dense_layers": 0, "experts": 128, "experts_per_token": 4"#).unwrap();
    assert!(halved.parameters < 0.6 * mixed.parameters);
    assert_eq!(model(r#", "layers": 2"#).unwrap().experts.unwrap().dense_layers, 2);
    assert!(model(r#", "layers": 2, "dense_layers": 3"#).unwrap_err().contains("3 of 2 layers"));
    assert!(model(r#", "experts_per_token": 512"#).unwrap_err().contains("experts_per_token=512"));
}

/// Four of a machine of JUPITER or Alps have 150 GB/s to each other one (apps.fz-juelich.de/jsc/hps/jupiter/configuration.html).
#[test]
fn the_superchips_of_one_machine_have_nvlink_between_them() {
    let link = |gpus: u32| {
        let line = case("llama-3.1-8b", "gh200-96", gpus, "", "");
        prepared(&line).unwrap().machine().link
    };
    assert!(matches!(link(4), GpuLink::Fast { bandwidth, .. } if (bandwidth.0 - 450e9).abs() < 1.0), "{:?}", link(4));
    assert_eq!(link(1), GpuLink::Single);
}
