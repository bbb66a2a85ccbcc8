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
