//! The GPUs of the catalog as table, JSON and CSV.

use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::rows::{Listed, is_shown, or_dash};
use crate::text::fit::{ALWAYS, FlexibleColumn, fit};
use crate::text::json::VERSION;
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_hardware::Gpu;

/// `gpuplan catalog gpus -o json`.
#[derive(Serialize, JsonSchema)]
pub struct GpuList<'a> {
    version: u32,
    gpus: &'a [&'a Gpu],
}

impl Listed for &Gpu {
    fn list(rows: &[Self]) -> impl Serialize {
        GpuList { version: VERSION, gpus: rows }
    }
}

/// `gpuplan catalog gpus --here -o json`.
#[derive(Serialize, JsonSchema)]
pub struct LocalGpuList<'a> {
    version: u32,
    gpus: &'a [LocalGpuLine],
}

/// A GPU of this machine; the same in JSON and CSV.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LocalGpuLine {
    /// As the driver counts, from 0.
    pub index: usize,
    /// As the driver names it.
    pub name: String,
    pub memory_bytes: u64,
    /// Such as `9.0`.
    pub compute_capability: String,
    /// Id in the catalog; `null` where the catalog does not know the GPU.
    pub gpu: Option<String>,
}

impl Listed for LocalGpuLine {
    fn list(rows: &[Self]) -> impl Serialize {
        LocalGpuList { version: VERSION, gpus: rows }
    }
}

pub const GPU_COLUMNS: [(&str, &str); 18] = [
    ("id", "/id"),
    ("name", "/name"),
    ("family", "/family"),
    ("architecture", "/architecture"),
    ("compute_capability", "/compute_capability"),
    ("memory_label_gb", "/memory_label_gb"),
    ("memory_visible_mib", "/memory_visible_mib"),
    ("memory_bandwidth_gb_per_s", "/memory_bandwidth_gb_per_s"),
    ("peak_bf16_tflops", "/peak_tflops/bf16"),
    ("peak_fp8_tflops", "/peak_tflops/fp8"),
    ("peak_fp32_tflops", "/peak_tflops/fp32"),
    ("matmul_ceiling_bf16_tflops", "/matmul_ceiling_tflops/bf16"),
    ("link", "/link"),
    ("link_gb_per_s_one_way", "/link_gb_per_s_one_way"),
    ("tdp_watts", "/tdp_watts"),
    ("evidence", "/evidence"),
    ("unverified", "/unverified"),
    ("as_of", "/as_of"),
];

pub fn gpus(gpus: &[&Gpu], width: u16) -> String {
    let flexible = [
        FlexibleColumn::elastic(Column::left("GPU", 0), 14),
        FlexibleColumn::needed(Column::right("GiB", 0), ALWAYS),
        FlexibleColumn::needed(Column::right("GB/s", 0), 9),
        FlexibleColumn::needed(Column::right("bf16", 0), 8),
        FlexibleColumn::needed(Column::right("fp8", 0), 7),
        FlexibleColumn::needed(Column::right("fp32", 0), 6),
        FlexibleColumn::needed(Column::right("measured", 0), 5),
        FlexibleColumn::extra(Column::left("link", 0), 4),
        FlexibleColumn::extra(Column::right("watts", 0), 3),
        FlexibleColumn::extra(Column::right("unsure", 0), 2),
        FlexibleColumn::extra(Column::left("evidence", 0), 1),
    ];
    let cells = |gpu: &&Gpu| {
        vec![
            gpu.id.clone(),
            format!("{:.1}", gpu.memory().gib()),
            or_dash(Some(gpu.memory_bandwidth_gb_per_s)),
            or_dash(gpu.peak_tflops.bf16),
            or_dash(gpu.peak_tflops.fp8),
            or_dash(gpu.peak_tflops.fp32),
            or_dash(gpu.matmul_ceiling_tflops.bf16),
            gpu.link.clone(),
            or_dash(Some(gpu.tdp_watts)),
            if gpu.unverified.is_empty() { String::new() } else { gpu.unverified.len().to_string() },
            gpu.evidence.join(" "),
        ]
    };
    let mut rows: Vec<Vec<String>> = gpus.iter().map(cells).collect();
    let columns = fit(&flexible, &mut rows, width);
    let mut note =
        "GiB visible to software; bf16, fp8, fp32: dense peak TFLOP/s; measured: highest bf16 TFLOP/s published"
            .to_owned();
    if is_shown(&columns, "unsure") {
        note.push_str("; unsure: figures that nobody has verified");
    }
    format!("{}\n{}\n", render(&columns, rows, width), wrap(&note, width, ""))
}
