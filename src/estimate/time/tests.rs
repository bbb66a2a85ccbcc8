//! Mechanisms of a step, each by two cases that differ in nothing else.

#![cfg(test)]

use crate::cases::case::EstimateCase;
use crate::setting::Setting;
use crate::subject::Subject;
use crate::time::breakdown::TimeBreakdown;
use gpuplan_hardware::Hardware;
use gpuplan_workload::{Layout, Models, Recompute, Shard};

/// A GPT of 13,824 units on 384 A100, as BLOOM's trials had them.
fn step(heads: u32, framework: &str, layout: Layout) -> TimeBreakdown {
    step_of(2048.0, heads, framework, layout)
}

fn step_of(global_batch: f64, heads: u32, framework: &str, layout: Layout) -> TimeBreakdown {
    let case = format!(
        r#"{{"model": {{"kind": "decoder", "layers": 72, "hidden": 13824, "heads": {heads}, "vocab": 250880}},
        "hardware": {{"gpu": "a100-sxm4-80", "gpus": 384, "node_network_gbit_per_s": 400}},
        "training": {{"precision": "fp16", "sequence_length": 2048, "attention": "eager", "framework": "{framework}"}}}}"#
    );
    let case: EstimateCase = serde_json::from_str(&case).unwrap();
    let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
    let setting = Setting { layout, micro_batch: 2, global_batch, recompute: Recompute::Full };
    let subject = Subject::new(&prepared.model, &prepared.training, prepared.machine());
    subject.estimate(&setting).unwrap().time
}

fn layout(data: u32, pipeline: u32) -> Layout {
    Layout { data, tensor: 4, pipeline, shard: Shard::Zero1, ..Layout::default() }
}

#[test]
fn heads_that_matrix_units_cannot_load_are_slow() {
    // Heads of 216, 144 and 108 units. Measured: 104, 107 and 147 s a step.
    let [wide, even, odd] = [64, 96, 128].map(|heads| step(heads, "megatron-deepspeed", layout(8, 12)));
    assert!(wide.attention < even.attention && 2.0 * even.attention < odd.attention, "{wide:?} {even:?} {odd:?}");
    assert!(odd.total > 1.15 * even.total && even.total < 1.1 * wide.total, "{} {}", odd.total, even.total);
}

#[test]
fn a_pipeline_that_deepspeed_schedules_reduces_gradients_after_it() {
    let exposed = step(96, "megatron-deepspeed", layout(96, 1)).data_parallel;
    // 16 bits of a quarter of the parameters, scattered and gathered, over two eighths of 400 Gb/s: nothing hides any of it.
    let wire = 2.0 * 2.0 * (72.0 * 12.0 * 13_824.0_f64.powi(2) + 250_880.0 * 13_824.0) / 4.0 * 95.0 / 96.0 / 12.5e9;
    assert!(exposed > wire, "{exposed} {wire}");
}

#[test]
fn stages_of_deepspeed_hand_on_a_part_for_each_tensor_rank() {
    let [parts, all] = ["megatron-deepspeed", "internevo"].map(|framework| step(96, framework, layout(8, 12)).bubble);
    assert!(all > parts, "{parts} {all}");
}

#[test]
fn gradients_are_summed_over_micro_steps_where_the_product_does_not_do_it() {
    let of_micro_step = |framework: &str, steps: f64| {
        let layout = layout(8, 12);
        step_of(16.0 * steps, 96, framework, layout).elementwise / steps
    };
    let more = |framework| of_micro_step(framework, 8.0) - of_micro_step(framework, 1.0);
    // Seven of eight read 2 bytes of a gradient, and read and write 2 of a sum: six layers on four ranks, at what an A100's memory sustains.
    let bytes = 7.0 / 8.0 * 6.0 * 6.0 * 12.0 * 13_824.0_f64.powi(2) / 4.0;
    let (seconds, least) = (more("megatron-deepspeed"), bytes / 2.039e12);
    assert!((1.0..1.4).contains(&(seconds / least)), "{seconds} {least}");
    assert!(more("megatron").abs() < 1e-9);
}

/// Of a model on eight GPUs of a kind, four micro-steps of one sequence each.
fn small_step(model: &str, gpu: &str, training: &str, expert: u32) -> Result<TimeBreakdown, String> {
    let case = format!(
        r#"{{"model": {{"name": "{model}"}}, "hardware": {{"gpu": "{gpu}", "gpus": 8}},
        "training": {{"sequence_length": 8192, "framework": "megatron", {training}}}}}"#
    );
    let case: EstimateCase = serde_json::from_str(&case).unwrap();
    let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap())?;
    let layout = Layout { data: 8, expert, shard: Shard::Zero1, ..Layout::default() };
    let setting = Setting { layout, micro_batch: 1, global_batch: 32.0, recompute: Recompute::None };
    let subject = Subject::new(&prepared.model, &prepared.training, prepared.machine());
    subject.estimate(&setting).map(|made| made.time).map_err(|why| format!("{why:?}"))
}

#[test]
fn a_recipe_of_eight_bits_says_what_runs_in_them() {
    for gpu in ["h100-sxm5-80", "b200-sxm-180", "h100-pcie-80"] {
        let of = |recipe: &str| small_step("llama-3.1-8b", gpu, recipe, 1).unwrap();
        let (wide, narrow) = (of(r#""precision": "bf16""#), of(r#""precision": "fp8""#));
        let attention = of(r#""precision": "fp8", "fp8_attention": true"#);
        let shorter = attention.attention / narrow.attention;
        assert!((shorter - 0.79).abs() < 1e-9, "{gpu} {shorter}");
        assert!((attention.matmul - narrow.matmul).abs() < 1e-9, "{gpu}");
        // A quarter in 16 bits is a quarter of the way to all of them.
        let quarter = of(r#""precision": "fp8", "half_precision_share": 0.25"#).matmul;
        let way = (quarter - narrow.matmul) / (wide.matmul - narrow.matmul);
        assert!((way - 0.25).abs() < 0.01, "{gpu} {way}");
        let blocks = of(r#""precision": "fp8", "fp8_scaling": "block""#).matmul;
        assert!((0.7..1.5).contains(&(blocks / narrow.matmul)) && blocks != narrow.matmul, "{gpu}");
    }
    for (gpu, recipe, said) in [
        ("l40s", r#""precision": "fp8", "fp8_attention": true"#, "fp8_attention=true on"),
        ("h100-sxm5-80", r#""precision": "bf16", "fp8_attention": true"#, "fp8_attention: only recipes in fp8"),
        ("b200-sxm-180", r#""precision": "mxfp8", "fp8_scaling": "block""#, "fp8_scaling: mxfp8 and nvfp4"),
        ("h100-sxm5-80", r#""precision": "fp8", "half_precision_share": 1.5"#, "half_precision_share: `1.5`"),
    ] {
        let why = small_step("llama-3.1-8b", gpu, recipe, 1).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn tokens_of_many_small_experts_are_copied_into_their_order() {
    let of =
        |expert| small_step("qwen3-30b-a3b", "h100-sxm5-80", r#""precision": "bf16""#, expert).unwrap().elementwise;
    // 48 layers, 2,048 units, 8 experts a token, forward and backward: 18 values a token and pass, and 32 more where tokens come from other ranks.
    let bytes = |values: f64| 4.0 * 48.0 * 8192.0 * 2.0 * values * 2048.0 * 2.0;
    let (alone, among) = (of(1), of(8));
    assert!((1.0..1.4).contains(&((among - alone) / (bytes(32.0) / 3.35e12))), "{alone} {among}");
    assert!(alone > bytes(18.0) / 3.35e12, "{alone}");
}

/// One step of a case, in a setting of its own on one GPU.
fn alone(case: &str, recompute: Recompute) -> TimeBreakdown {
    let case: EstimateCase = serde_json::from_str(case).unwrap();
    let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
    let setting = Setting { layout: Layout::default(), micro_batch: 1, global_batch: 1.0, recompute };
    Subject::new(&prepared.model, &prepared.training, prepared.machine()).estimate(&setting).unwrap().time
}

#[test]
fn operators_that_nothing_fuses_move_what_they_read_and_write() {
    let of = |framework: &str, compile: bool| {
        let case = format!(
            r#"{{"model": {{"name": "llama-2-7b"}}, "hardware": {{"gpu": "h100-sxm5-80", "gpus": 1}},
            "training": {{"task": "full_ft", "precision": "bf16", "sequence_length": 4096, "framework": "{framework}", "compile": {compile}}}}}"#
        );
        alone(&case, Recompute::None)
    };
    // Forward 88 bytes for each hidden value, 20 for each of queries and keys, 10 for each of the gate; backward 202, 30 and 18.
    let bytes = 32.0 * 4096.0 * (290.0 * 4096.0 + 50.0 * 8192.0 + 28.0 * 11008.0);
    let [plain, compiled, fused] =
        [("accelerate", false), ("accelerate", true), ("unsloth", false)].map(|(name, on)| of(name, on));
    let ratio = plain.elementwise / (bytes / 3.35e12);
    assert!((1.1..1.3).contains(&ratio), "{ratio}");
    assert!(compiled.elementwise < 0.5 * plain.elementwise && fused.elementwise < plain.elementwise);
    // The loss casts its logits and keeps their logarithm.
    assert!(plain.head > compiled.head);
}

#[test]
fn eight_bits_in_blocks_are_not_halved_on_geforce() {
    let of = |recipe: &str| {
        let case = format!(
            r#"{{"model": {{"name": "llama-3.1-8b"}}, "hardware": {{"gpu": "rtx-5090", "gpus": 1}},
            "training": {{"sequence_length": 4096, {recipe}}}}}"#
        );
        alone(&case, Recompute::None).matmul
    };
    let [plain, blocks, scaled] =
        [r#""precision": "fp8""#, r#""precision": "fp8", "fp8_scaling": "block""#, r#""precision": "mxfp8""#].map(of);
    assert!(scaled < 0.85 * plain && blocks > 1.3 * scaled, "{plain} {blocks} {scaled}");
}

#[test]
fn a_v100_has_no_fused_attention_before_pytorch_2() {
    let of = |gpu: &str, year: u32| {
        let case = format!(
            r#"{{"model": {{"name": "vit-l-16"}}, "hardware": {{"gpu": "{gpu}", "gpus": 1}},
            "training": {{"precision": "amp-fp16", "framework": "timm", "framework_year": {year}}}}}"#
        );
        alone(&case, Recompute::None).attention
    };
    assert!(of("v100-sxm2-32", 2022) > 1.5 * of("v100-sxm2-32", 2023));
    assert_eq!(of("a100-sxm4-80", 2022), of("a100-sxm4-80", 2023));
}

/// XTuner's Llama 2 7B ran at 177 TFLOP/s of attention and products over 262,144 tokens of an A100, which the kernels of 2022 never reached.
#[test]
fn ampere_has_flash_attention_2_since_2024() {
    let of = |gpu: &str, year: u32| {
        let case = format!(
            r#"{{"model": {{"name": "llama-2-7b"}}, "hardware": {{"gpu": "{gpu}", "gpus": 1}},
            "training": {{"sequence_length": 32768, "framework": "deepspeed", "framework_year": {year}}}}}"#
        );
        alone(&case, Recompute::None).attention
    };
    // 25 to 40 % of the peak, and 50 to 73 % (Dao 2023, arXiv 2307.08691, section 1); an A40 has no table of measured kernels.
    for gpu in ["a100-sxm4-80", "a40", "rtx-4090"] {
        let ratio = of(gpu, 2023) / of(gpu, 2024);
        assert!((1.5..2.6).contains(&ratio), "{gpu}: {ratio}");
    }
    assert_eq!(of("h100-sxm5-80", 2023), of("h100-sxm5-80", 2024));
}

/// torchtitan's list of what selective recompute keeps has `mm`, every second one, and no grouped product.
#[test]
fn grouped_products_run_again_under_selective_recompute_of_operators() {
    let products = |model: &str, recompute| {
        let case = format!(
            r#"{{"model": {{"name": "{model}"}}, "hardware": {{"gpu": "h200-sxm-141", "gpus": 8}},
            "training": {{"sequence_length": 8192, "framework": "torchtitan", "compile": true}}}}"#
        );
        let case: EstimateCase = serde_json::from_str(&case).unwrap();
        let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
        let layout = Layout { data: 8, shard: Shard::Zero3, ..Layout::default() };
        let setting = Setting { layout, micro_batch: 4, global_batch: 32.0, recompute };
        Subject::new(&prepared.model, &prepared.training, prepared.machine()).estimate(&setting).unwrap().time.matmul
    };
    let again = |model| products(model, Recompute::Selective) / products(model, Recompute::None) - 1.0;
    // Half of a third of a dense model's products, and a third of the experts'.
    let (dense, mixture) = (again("qwen3-8b"), again("qwen3-30b-a3b"));
    assert!((0.13..0.20).contains(&dense) && (0.22..0.36).contains(&mixture), "{dense} {mixture}");
}

/// Of a 7B on eight A100 that shard its weights, forward and backward of so many tokens a GPU.
fn sharded_step(framework: &str, tokens: u32, shard: Shard) -> TimeBreakdown {
    let case = format!(
        r#"{{"model": {{"name": "llama-2-7b"}}, "hardware": {{"gpu": "a100-sxm4-80", "gpus": 8}},
        "training": {{"task": "full_ft", "sequence_length": {tokens}, "framework": "{framework}"}}}}"#
    );
    let case: EstimateCase = serde_json::from_str(&case).unwrap();
    let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
    let layout = Layout { data: 8, shard, ..Layout::default() };
    let setting = Setting { layout, micro_batch: 1, global_batch: 8.0, recompute: Recompute::None };
    Subject::new(&prepared.model, &prepared.training, prepared.machine()).estimate(&setting).unwrap().time
}

#[test]
fn parameters_that_are_sharded_one_by_one_are_copied_out_of_what_is_gathered() {
    let moved = |framework, tokens| {
        let of = |shard| sharded_step(framework, tokens, shard).elementwise;
        of(Shard::Zero3) - of(Shard::None)
    };
    // 2 bytes read and 2 written of each weight in either pass, 2 read and 2 written of its gradient, at what an A100's memory sustains.
    let least = 32.0 * (4.0 * 4096.0_f64.powi(2) + 3.0 * 4096.0 * 11_008.0) * 12.0 / 2.039e12;
    let [few, many] = [256, 4096].map(|tokens| moved("fsdp2", tokens));
    assert!((1.0..1.4).contains(&(few / least)) && (few / many - 1.0).abs() < 1e-6, "{few} {many} {least}");
    // Those of FSDP 1 are views of one flat parameter.
    assert!(moved("fsdp", 256).abs() < 1e-9);
}

#[test]
fn hooks_of_each_matrix_keep_the_host_longer_than_those_of_a_layer() {
    let waited = |framework, tokens| sharded_step(framework, tokens, Shard::Zero3).launch;
    assert!(waited("deepspeed", 256) > 2.0 * waited("accelerate", 256));
    // Of many tokens the host is ahead.
    assert!(waited("deepspeed", 16_384) < 1.5 * waited("accelerate", 16_384));
}

#[test]
fn attention_in_fp32_is_not_that_of_16_bits() {
    let of = |precision: &str, year: u32| {
        let case = format!(
            r#"{{"model": {{"name": "gpt-2"}}, "hardware": {{"gpu": "rtx-6000-ada", "gpus": 1}}, "training": {{"sequence_length": 1024,
            "precision": "{precision}", "attention": "flash", "framework": "accelerate", "framework_year": {year}}}}}"#
        );
        alone(&case, Recompute::None).attention
    };
    // FlashAttention 2 multiplies 16 bits alone.
    assert_eq!(of("fp32", 2023), of("fp32", 2026));
    assert!(of("bf16", 2023) > 1.2 * of("bf16", 2026));
}
