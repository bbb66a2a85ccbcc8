//! One estimate for a person or a program: where the time of a step and the memory of a GPU go.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::measure::nearest::NearestReport;
use crate::sentences::assumption::{sentence, sentences};
use crate::text::format;
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use gpuplan_accuracy::nearest::Nearest;
use gpuplan_estimate::{Bound, MemoryBreakdown, Performance, Regime, StepEstimate, Subject};
use gpuplan_plan::document::{Remark, time_parts};
use gpuplan_units::{Band, Bytes};
use gpuplan_workload::{Assumption, Layout, Recompute};

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

/// `gpuplan estimate -o json`.
#[derive(Serialize, JsonSchema)]
pub struct EstimateReport<'a> {
    version: u32,
    model: &'a str,
    /// Id of the GPU in the catalog.
    gpu: &'a str,
    gpus: u32,
    layout: Layout,
    /// Samples that a GPU takes at a time.
    micro_batch: u32,
    /// Samples of a step.
    global_batch: f64,
    recompute: Recompute,
    step_seconds: Band,
    /// Tokens a second of the whole job; samples or images for models that count those.
    units_per_second: Band,
    /// Operations of the model itself, without what is computed again.
    model_tflops_per_gpu: Band,
    /// Share of the GPUs' peak that those operations reach (MFU).
    model_flop_utilization: f64,
    /// What the fullest GPU needs.
    peak_memory_bytes: Band,
    /// What a GPU has.
    gpu_memory_bytes: Bytes,
    fits: bool,
    bound_by: Bound,
    regime: Regime,
    /// Parts of the step, the largest first.
    #[schemars(with = "BTreeMap<String, f64>")]
    time_seconds: Map<String, Value>,
    /// Parts of a GPU's memory, the largest first. They are not all live at the fullest moment.
    #[schemars(with = "BTreeMap<String, f64>")]
    memory_bytes: Map<String, Value>,
    /// What was left open and chosen, as sentences.
    assumed: Vec<String>,
    /// The same with figures, in the same order.
    assumptions: Vec<Remark>,
    nearest: NearestReport,
}

pub fn json(subject: &Subject, made: &StepEstimate, assumed: &[Assumption], nearest: &Nearest) -> String {
    let setting = &made.setting;
    let performance = Performance::new(subject, made);
    pretty(&EstimateReport {
        version: VERSION,
        model: &subject.model.name,
        gpu: &subject.machine.gpu.id,
        gpus: setting.gpus(),
        layout: setting.layout,
        micro_batch: setting.micro_batch,
        global_batch: setting.global_batch,
        recompute: setting.recompute,
        step_seconds: made.step_seconds(),
        units_per_second: performance.units_per_second,
        model_tflops_per_gpu: performance.model_flops_per_gpu.map(|flops| flops / 1e12),
        model_flop_utilization: performance.model_flop_utilization,
        peak_memory_bytes: performance.memory_bytes,
        gpu_memory_bytes: subject.machine.memory,
        fits: made.fits,
        bound_by: made.bound,
        regime: made.regime,
        time_seconds: keyed(time_parts(&made.time), "seconds"),
        memory_bytes: keyed(memory_parts(&made.memory), "bytes"),
        assumed: sentences(assumed),
        assumptions: assumed.iter().map(|one| Remark::new(one, sentence(one))).collect(),
        nearest: NearestReport::new(nearest),
    })
}

/// Parts under keys such as `optimizer_states_bytes`.
fn keyed(parts: Vec<(&'static str, f64)>, unit: &str) -> Map<String, Value> {
    let key = |name: &str| format!("{}_{unit}", name.replace([' ', ',', '-'], "_").replace("__", "_"));
    parts.into_iter().map(|(name, value)| (key(name), value.into())).collect()
}
