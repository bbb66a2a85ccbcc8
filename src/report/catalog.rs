//! The catalog and its findings as table, JSON and CSV.

use serde::Serialize;
use serde_json::Value;

use crate::fit::{ALWAYS, WIDE, Wish, fit, shorten, wrap};
use crate::format::{count, thousands, three_figures};
use crate::table::{Column, render};
use gpuplan_hardware::rules::{Finding, Severity};
use gpuplan_hardware::{Gpu, Hardware, InstanceType};
use gpuplan_units::{Bytes, GpuCount};
use gpuplan_workload::catalog::ModelRow;
use gpuplan_workload::model::ModelKind;

/// Longest text of a source in a table.
const SOURCE_LENGTH: usize = 48;
/// Rows named for a rule in the text of a check.
const NAMED_ROWS: usize = 6;

/// Azure's prefix says nothing; a narrow table leaves it out.
pub fn machine(name: &str, is_wide: bool) -> &str {
    if is_wide { name } else { name.strip_prefix("Standard_").unwrap_or(name) }
}

/// Any rows as JSON.
pub fn json<T: Serialize>(rows: &[T]) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(rows).map(|text| text + "\n")
}

/// Any rows as CSV: `columns` are a title and where its value stands in the row's JSON.
pub fn csv<T: Serialize>(rows: &[T], columns: &[(&str, &str)]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|(title, _)| title))?;
    for row in rows {
        let row = serde_json::to_value(row).map_err(std::io::Error::from)?;
        writer.write_record(columns.iter().map(|(_, pointer)| row.pointer(pointer).map_or(String::new(), cell)))?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join(";"),
        other => other.to_string(),
    }
}

fn is_shown(columns: &[Column], title: &str) -> bool {
    columns.iter().any(|column| column.title == title && column.from_width == 0)
}

fn or_dash(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), |number| thousands(number.round() as i128))
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
    let wishes = [
        Wish::elastic(Column::left("GPU", 0), 14),
        Wish::needed(Column::right("GiB", 0), ALWAYS),
        Wish::needed(Column::right("GB/s", 0), 9),
        Wish::needed(Column::right("bf16", 0), 8),
        Wish::needed(Column::right("fp8", 0), 7),
        Wish::needed(Column::right("fp32", 0), 6),
        Wish::needed(Column::right("measured", 0), 5),
        Wish::extra(Column::left("link", 0), 4),
        Wish::extra(Column::right("watts", 0), 3),
        Wish::extra(Column::right("unsure", 0), 2),
        Wish::extra(Column::left("evidence", 0), 1),
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
    let columns = fit(&wishes, &mut rows, width);
    let mut note =
        "GiB visible to software; bf16, fp8, fp32: dense peak TFLOP/s; measured: highest bf16 TFLOP/s published"
            .to_owned();
    if is_shown(&columns, "unsure") {
        note.push_str("; unsure: figures that nobody has verified");
    }
    format!("{}\n{}", render(&columns, rows, width), wrap(&note, width, 0))
}

/// A machine under the names of the catalog.
#[derive(Serialize)]
pub struct InstanceLine<'a> {
    cloud: &'a str,
    instance_type: &'a str,
    gpu: &'a str,
    gpu_count: GpuCount,
    gpu_memory_mib_each: f64,
    vcpus: Option<u32>,
    memory_mib: Option<f64>,
    local_nvme_gb: Option<f64>,
    gpu_link: &'a str,
    host_network_gbit_per_s: Option<f64>,
    fabric: Option<&'a str>,
    fabric_gbit_per_s: Option<f64>,
    fabric_rdma: Option<bool>,
    disk_mb_per_s: Option<f64>,
    disk_reads_per_s: Option<f64>,
    cpu_architecture: &'a str,
    sold_as: Vec<&'static str>,
    notes: &'a str,
    source: &'a str,
    as_of: &'a str,
}

pub const INSTANCE_COLUMNS: [(&str, &str); 20] = [
    ("cloud", "/cloud"),
    ("instance_type", "/instance_type"),
    ("gpu", "/gpu"),
    ("gpu_count", "/gpu_count"),
    ("gpu_memory_mib_each", "/gpu_memory_mib_each"),
    ("vcpus", "/vcpus"),
    ("memory_mib", "/memory_mib"),
    ("local_nvme_gb", "/local_nvme_gb"),
    ("gpu_link", "/gpu_link"),
    ("host_network_gbit_per_s", "/host_network_gbit_per_s"),
    ("fabric", "/fabric"),
    ("fabric_gbit_per_s", "/fabric_gbit_per_s"),
    ("fabric_rdma", "/fabric_rdma"),
    ("disk_mb_per_s", "/disk_mb_per_s"),
    ("disk_reads_per_s", "/disk_reads_per_s"),
    ("cpu_architecture", "/cpu_architecture"),
    ("sold_as", "/sold_as"),
    ("notes", "/notes"),
    ("source", "/source"),
    ("as_of", "/as_of"),
];

impl<'a> InstanceLine<'a> {
    pub fn new(instance: &'a InstanceType, hardware: &'a Hardware) -> Self {
        let mib = |bytes: f64| (bytes / f64::from(1 << 20)).round();
        let gpu = hardware.gpu(instance.node.gpu);
        Self {
            cloud: instance.cloud.as_str(),
            instance_type: &instance.name,
            gpu: &gpu.id,
            gpu_count: instance.node.gpus,
            gpu_memory_mib_each: mib(instance.node.gpu_memory.0),
            vcpus: Some(instance.vcpus).filter(|vcpus| *vcpus > 0),
            memory_mib: Some(mib(instance.memory.0)).filter(|mib| *mib > 0.0),
            local_nvme_gb: instance.local_nvme.map(Bytes::gb),
            gpu_link: if instance.link_id.is_empty() { &gpu.link } else { &instance.link_id },
            host_network_gbit_per_s: instance.host_network_gbit_per_s,
            fabric: Some(instance.fabric_id.as_str()).filter(|id| !id.is_empty()),
            fabric_gbit_per_s: instance.node.fabric.map(|fabric| fabric.bandwidth.0 * 8.0 / 1e9),
            fabric_rdma: instance.node.fabric.map(|fabric| fabric.rdma),
            disk_mb_per_s: instance.disk_link.map(|link| link.bytes_per_second / 1e6).filter(|rate| rate.is_finite()),
            disk_reads_per_s: instance.disk_link.map(|link| link.reads_per_second).filter(|rate| rate.is_finite()),
            cpu_architecture: &instance.cpu_architecture,
            sold_as: instance.sold_as.words(),
            notes: &instance.notes,
            source: &instance.source,
            as_of: &instance.as_of,
        }
    }
}

pub fn instances(lines: &[InstanceLine], width: u16) -> String {
    let wishes = [
        Wish::needed(Column::left("cloud", 0), ALWAYS),
        Wish::elastic(Column::left("machine", 0), 24),
        Wish::elastic(Column::left("GPUs", 0), 20),
        Wish::needed(Column::right("GiB", 0), 3),
        Wish::needed(Column::right("vCPU", 0), 2),
        Wish::needed(Column::right("RAM", 0), 1),
        Wish::extra(Column::left("GPU link", 0), 8),
        Wish::extra(Column::left("fabric", 0), 7),
        Wish::extra(Column::left("sold as", 0), 6),
        Wish::extra(Column::right("NVMe GB", 0), 5),
    ];
    let most_digits = lines.iter().map(|line| line.gpu_count.to_string().len()).max().unwrap_or(0);
    let cells = |line: &InstanceLine| {
        vec![
            line.cloud.to_owned(),
            machine(line.instance_type, width >= WIDE).to_owned(),
            format!("{:>most_digits$} {}", line.gpu_count.to_string(), line.gpu),
            three_figures(line.gpu_memory_mib_each / 1024.0),
            or_dash(line.vcpus.map(f64::from)),
            or_dash(line.memory_mib.map(|mib| mib / 1024.0)),
            line.gpu_link.to_owned(),
            match (line.fabric, line.fabric_gbit_per_s) {
                (Some(fabric), Some(rate)) => format!("{fabric} {}", three_figures(rate)),
                (Some(fabric), None) => fabric.to_owned(),
                _ => "-".to_owned(),
            },
            line.sold_as.join(" "),
            or_dash(line.local_nvme_gb),
        ]
    };
    let mut rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
    let columns = fit(&wishes, &mut rows, width);
    let mut note = format!("{} machines; GiB of one GPU, RAM in GiB", lines.len());
    if is_shown(&columns, "fabric") {
        note.push_str("; fabric: network that GPUs use between machines, Gbit/s a machine");
    }
    format!("{}\n{}", render(&columns, rows, width), wrap(&note, width, 0))
}

/// A model under the names of the catalog.
#[derive(Serialize)]
pub struct ModelLine<'a> {
    id: &'a str,
    name: &'a str,
    family: &'a str,
    kind: ModelKind,
    parameters: f64,
    active_parameters: Option<f64>,
    layers: Option<u32>,
    hidden: Option<u32>,
    heads: Option<u32>,
    kv_heads: Option<u32>,
    head_dim: Option<u32>,
    ffn_hidden: Option<u32>,
    vocab: Option<u32>,
    max_context: Option<u32>,
    experts: Option<u32>,
    experts_per_token: Option<u32>,
    aliases: &'a [String],
    source: &'a str,
    as_of: &'a str,
    notes: &'a str,
}

pub const MODEL_COLUMNS: [(&str, &str); 20] = [
    ("id", "/id"),
    ("name", "/name"),
    ("family", "/family"),
    ("kind", "/kind"),
    ("parameters", "/parameters"),
    ("active_parameters", "/active_parameters"),
    ("layers", "/layers"),
    ("hidden", "/hidden"),
    ("heads", "/heads"),
    ("kv_heads", "/kv_heads"),
    ("head_dim", "/head_dim"),
    ("ffn_hidden", "/ffn_hidden"),
    ("vocab", "/vocab"),
    ("max_context", "/max_context"),
    ("experts", "/experts"),
    ("experts_per_token", "/experts_per_token"),
    ("aliases", "/aliases"),
    ("source", "/source"),
    ("as_of", "/as_of"),
    ("notes", "/notes"),
];

impl<'a> ModelLine<'a> {
    pub fn new(row: &'a ModelRow) -> Self {
        Self {
            id: &row.id,
            name: &row.name,
            family: &row.family,
            kind: row.kind,
            parameters: row.parameters,
            active_parameters: row.active_parameters,
            layers: row.layers,
            hidden: row.hidden,
            heads: row.heads,
            kv_heads: row.kv_heads,
            head_dim: row.head_dim,
            ffn_hidden: row.ffn_hidden,
            vocab: row.vocab,
            max_context: row.max_context,
            experts: row.experts,
            experts_per_token: row.experts_per_token,
            aliases: &row.aliases,
            source: &row.source,
            as_of: &row.as_of,
            notes: &row.notes,
        }
    }
}

pub fn models(lines: &[ModelLine], width: u16) -> String {
    let wishes = [
        Wish::elastic(Column::left("model", 0), 16),
        Wish::needed(Column::left("kind", 0), 1),
        Wish::needed(Column::right("size", 0), ALWAYS),
        Wish::needed(Column::right("layers", 0), 8),
        Wish::needed(Column::right("hidden", 0), 7),
        Wish::needed(Column::right("heads", 0), 6),
        Wish::needed(Column::right("ffn", 0), 5),
        Wish::extra(Column::right("context", 0), 9),
        Wish::extra(Column::right("vocab", 0), 8),
        Wish::extra(Column::left("source", 0), 1),
    ];
    let number = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    let cells = |line: &ModelLine| {
        let kind = cell(&serde_json::json!(line.kind));
        let heads = match (line.heads, line.kv_heads) {
            (Some(heads), Some(kv)) if kv != heads => format!("{heads}/{kv}"),
            (heads, _) => number(heads),
        };
        vec![
            line.id.to_owned(),
            kind,
            count(line.parameters),
            number(line.layers),
            number(line.hidden),
            heads,
            number(line.ffn_hidden),
            number(line.max_context),
            number(line.vocab),
            shorten(line.source, SOURCE_LENGTH),
        ]
    };
    let mut rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
    let columns = fit(&wishes, &mut rows, width);
    let note = format!(
        "{} models; heads: of queries/of keys where they differ; `--output json` has their other names",
        lines.len()
    );
    format!("{}\n{}", render(&columns, rows, width), wrap(&note, width, 0))
}

/// What a check of the catalog found.
#[derive(Serialize)]
pub struct CheckReport<'a> {
    errors: Vec<FindingLine<'a>>,
    notes: Vec<FindingLine<'a>>,
    counts: &'a serde_json::Map<String, Value>,
}

#[derive(Serialize)]
struct FindingLine<'a> {
    row: &'a str,
    rule: &'a str,
    detail: &'a str,
}

const FINDING_COLUMNS: [(&str, &str); 4] =
    [("severity", "/0"), ("row", "/1/row"), ("rule", "/1/rule"), ("detail", "/1/detail")];

impl<'a> CheckReport<'a> {
    pub fn new(findings: &'a [Finding], counts: &'a serde_json::Map<String, Value>) -> Self {
        let of = |severity: Severity| {
            let found = findings.iter().filter(move |finding| finding.severity == severity);
            found
                .map(|finding| FindingLine { row: &finding.row, rule: finding.rule, detail: &finding.detail })
                .collect()
        };
        Self { errors: of(Severity::Error), notes: of(Severity::Note), counts }
    }

    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    pub fn csv(&self) -> Result<String, csv::Error> {
        csv(&self.lines(), &FINDING_COLUMNS)
    }

    /// Every error; notes together by their rule.
    pub fn text(&self, width: u16) -> String {
        let mut text = String::new();
        for FindingLine { row, rule, detail } in &self.errors {
            text.push_str(&wrap(&format!("error: {row}: {rule}: {detail}"), width, 2));
        }
        let mut rules: Vec<&str> = self.notes.iter().map(|note| note.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        for rule in rules {
            let of_rule: Vec<&FindingLine> = self.notes.iter().filter(|note| note.rule == rule).collect();
            let line = match of_rule.as_slice() {
                [FindingLine { row, detail, .. }] => format!("note: {row}: {rule}: {detail}"),
                several => {
                    let named: Vec<&str> = several.iter().take(NAMED_ROWS).map(|note| note.row).collect();
                    let more = several.len() - named.len();
                    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                    format!("note: {rule}, {} rows: {}{more}", several.len(), named.join(", "))
                }
            };
            text.push_str(&wrap(&line, width, 2));
        }
        let counted = self.counts.iter().filter(|(_, value)| value.is_number());
        let counted: Vec<String> = counted.map(|(name, value)| format!("{value} {}", name.replace('_', " "))).collect();
        let notes = format!("{} errors, {} notes (`--output json` lists each)", self.errors.len(), self.notes.len());
        format!("{text}\n{}", wrap(&format!("{notes} in {}", counted.join(", ")), width, 0))
    }

    fn lines(&self) -> Vec<(&'static str, &FindingLine<'a>)> {
        let errors = self.errors.iter().map(|line| ("error", line));
        errors.chain(self.notes.iter().map(|line| ("note", line))).collect()
    }
}
