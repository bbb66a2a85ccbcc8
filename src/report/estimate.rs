//! One estimate for a person or a program: where the time of a step and the memory of a GPU go.

use serde_json::{Value, json};

use crate::format;
use crate::table::{Column, render};
use gpuplan_estimate::{MemoryBreakdown, StepEstimate, Subject};
use gpuplan_plan::document::time_parts;
use gpuplan_units::{Band, Bytes};
use gpuplan_workload::Measure;

/// Parts of a GPU's memory, largest first.
pub fn memory_parts(memory: &MemoryBreakdown) -> Vec<(&'static str, f64)> {
    let parts = [
        ("weights", memory.weights),
        ("gradients", memory.gradients),
        ("optimizer states", memory.optimizer),
        ("activations", memory.activations),
        ("logits and loss", memory.logits),
        ("gathered layers and workspace", memory.workspace),
        ("keys and values", memory.cache),
        ("context, buffers, fragmentation", memory.overhead),
    ];
    let mut shown: Vec<_> = parts.into_iter().filter(|(_, bytes)| *bytes > 1e6).collect();
    shown.sort_by(|a, b| b.1.total_cmp(&a.1));
    shown
}

/// Two tables under one line: time and memory.
pub fn breakdown(made: &StepEstimate, capacity: Bytes, width: u16) -> String {
    let what = if made.served.is_some() { "a round of requests" } else { "a step" };
    let time_columns = [Column::left(what, 0), Column::right("time", 0), Column::right("share", 0)];
    let rows = time_parts(&made.time).into_iter().map(|(name, seconds)| {
        vec![name.to_owned(), format::step_seconds(seconds), format!("{:.0} %", seconds / made.time.total * 100.0)]
    });
    let total = vec!["total".to_owned(), format::step_seconds(made.time.total), "100 %".to_owned()];
    let mut out = render(&time_columns, rows.chain([total]), width);
    out.push('\n');
    let memory_columns = [Column::left("a GPU's memory", 0), Column::right("size", 0), Column::right("of the card", 0)];
    let share = |bytes: f64| format!("{:.0} %", bytes / capacity.0 * 100.0);
    let rows = memory_parts(&made.memory)
        .into_iter()
        .map(|(name, bytes)| vec![name.to_owned(), Bytes(bytes).to_string(), share(bytes)]);
    let peak = [("live at the fullest moment", made.memory.allocated), ("needed to fit", made.memory.needed)];
    let rows = rows.chain(peak.map(|(name, bytes)| vec![name.to_owned(), Bytes(bytes).to_string(), share(bytes)]));
    out.push_str(&render(&memory_columns, rows, width));
    if made.served.is_some() {
        return out;
    }
    out.push_str("Parts do not add up to the fullest moment: gradients grow while activations die.\n");
    out
}

/// The same as JSON.
pub fn json(subject: &Subject, made: &StepEstimate, assumed: &[String]) -> Value {
    let setting = &made.setting;
    let step = made.step_seconds();
    let (low, high) = MemoryBreakdown::band(Measure::Allocated);
    let units = subject.units_per_step(setting);
    let flops = subject.model_flops_per_step(setting);
    let gpus = f64::from(setting.gpus());
    let parts = |parts: Vec<(&'static str, f64)>, suffix: &str| -> Value {
        parts
            .into_iter()
            .map(|(name, value)| {
                (format!("{}_{suffix}", name.replace([' ', ',', '-'], "_").replace("__", "_")), json!(value))
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    json!({
        "version": 1,
        "model": subject.model.name,
        "gpu": subject.machine.gpu.id,
        "gpus": setting.gpus(),
        "layout": setting.layout,
        "micro_batch": setting.micro_batch,
        "global_batch": setting.global_batch,
        "recompute": setting.recompute,
        "step_seconds": step,
        "units_per_second": step.map_decreasing(|seconds| units / seconds),
        "model_tflops_per_gpu": step.map_decreasing(|seconds| flops / seconds / gpus / 1e12),
        "model_flop_utilization": flops / made.time.total / gpus / subject.rates.peak,
        "peak_memory_bytes": Band::around(made.memory.required, low, high),
        "gpu_memory_bytes": subject.machine.memory,
        "fits": made.fits,
        "bound_by": made.bound,
        "regime": made.regime,
        "time_seconds": parts(time_parts(&made.time), "seconds"),
        "memory_bytes": parts(memory_parts(&made.memory), "bytes"),
        "assumed": assumed,
    })
}
