//! The machines of the catalog that have GPUs, as table, JSON and CSV.

use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::rows::{Listed, RowOrigin, is_shown, or_dash, short_machine_name};
use crate::text::fit::{ALWAYS, FlexibleColumn, WIDE, fit};
use crate::text::format::three_figures;
use crate::text::json::VERSION;
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_hardware::{Hardware, InstanceType};
use gpuplan_units::{Bytes, BytesPerSecond, GpuCount};

/// `gpuplan catalog instances -o json`.
#[derive(Serialize, JsonSchema)]
pub struct InstanceList<'a> {
    version: u32,
    instances: &'a [InstanceLine<'a>],
}

/// A machine under the names of the catalog.
#[derive(Serialize, JsonSchema)]
pub struct InstanceLine<'a> {
    cloud: &'a str,
    /// What the cloud calls it.
    instance_type: &'a str,
    #[serde(flatten)]
    gpus: InstanceGpus<'a>,
    /// Hardware threads; `null` where the cloud does not say.
    vcpus: Option<u32>,
    /// Main memory, MiB; `null` where the cloud does not say.
    memory_mib: Option<f64>,
    /// Disks inside the machine, GB; `null` where it has none.
    local_nvme_gb: Option<f64>,
    #[serde(flatten)]
    links: InstanceLinks<'a>,
    /// Such as `x86_64`.
    cpu_architecture: &'a str,
    /// Ways to buy it, such as `on-demand` and `spot`.
    sold_as: Vec<&'static str>,
    #[serde(flatten)]
    origin: RowOrigin<'a>,
}

/// The GPUs of a machine.
#[derive(Serialize, JsonSchema)]
#[allow(clippy::struct_field_names, reason = "keys as the document has them")]
struct InstanceGpus<'a> {
    /// Id of the GPU in the catalog.
    gpu: &'a str,
    /// GPUs of the machine; a fraction where a slice of a card is sold.
    gpu_count: GpuCount,
    /// Memory of each GPU that software sees, MiB.
    gpu_memory_mib_each: f64,
}

/// What a machine is connected by, inside and outside.
#[derive(Serialize, JsonSchema)]
struct InstanceLinks<'a> {
    /// Between GPUs of the machine, an id of `links.toml`.
    gpu_link: &'a str,
    /// Copies from locked host memory to one GPU while the others are idle, GB/s, where they were measured on this machine type.
    host_to_gpu_gb_per_s: Option<f64>,
    /// The same to each GPU while all are copied to.
    host_to_each_gpu_gb_per_s: Option<f64>,
    /// From one GPU to another, GB/s one way, where it was measured on this machine type.
    gpu_to_gpu_gb_per_s: Option<f64>,
    /// Network of the host, Gbit/s a machine.
    host_network_gbit_per_s: Option<f64>,
    /// Network that GPUs use between machines, an id of `links.toml`; `null` where there is none.
    fabric: Option<&'a str>,
    /// Gbit/s a machine, one way.
    fabric_gbit_per_s: Option<f64>,
    /// Whether it reaches the GPUs' memory without the host.
    fabric_rdma: Option<bool>,
    /// Highest rate of the network disk, MB/s a machine.
    disk_mb_per_s: Option<f64>,
    /// Highest reads a second of the network disk.
    disk_reads_per_s: Option<f64>,
}

pub const INSTANCE_COLUMNS: [(&str, &str); 23] = [
    ("cloud", "/cloud"),
    ("instance_type", "/instance_type"),
    ("gpu", "/gpu"),
    ("gpu_count", "/gpu_count"),
    ("gpu_memory_mib_each", "/gpu_memory_mib_each"),
    ("vcpus", "/vcpus"),
    ("memory_mib", "/memory_mib"),
    ("local_nvme_gb", "/local_nvme_gb"),
    ("gpu_link", "/gpu_link"),
    ("host_to_gpu_gb_per_s", "/host_to_gpu_gb_per_s"),
    ("host_to_each_gpu_gb_per_s", "/host_to_each_gpu_gb_per_s"),
    ("gpu_to_gpu_gb_per_s", "/gpu_to_gpu_gb_per_s"),
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

impl Listed for InstanceLine<'_> {
    fn list(rows: &[Self]) -> impl Serialize {
        InstanceList { version: VERSION, instances: rows }
    }
}

impl<'a> InstanceLine<'a> {
    pub fn new(instance: &'a InstanceType, hardware: &'a Hardware) -> Self {
        let mib = |bytes: f64| (bytes / f64::from(1 << 20)).round();
        let gpu = hardware.gpu(instance.node.gpu);
        let gb_per_s = |rate: Option<BytesPerSecond>| rate.map(|rate| rate.0 / 1e9);
        let measured = instance.node.measured;
        Self {
            cloud: instance.cloud.as_str(),
            instance_type: &instance.name,
            gpus: InstanceGpus {
                gpu: &gpu.id,
                gpu_count: instance.node.gpus,
                gpu_memory_mib_each: mib(instance.node.gpu_memory.0),
            },
            vcpus: Some(instance.vcpus).filter(|vcpus| *vcpus > 0),
            memory_mib: Some(mib(instance.memory.0)).filter(|mib| *mib > 0.0),
            local_nvme_gb: instance.local_nvme.map(Bytes::gb),
            links: InstanceLinks {
                gpu_link: if instance.link_id.is_empty() { &gpu.link } else { &instance.link_id },
                host_to_gpu_gb_per_s: gb_per_s(measured.host_to_gpu),
                host_to_each_gpu_gb_per_s: gb_per_s(measured.host_to_each_gpu),
                gpu_to_gpu_gb_per_s: gb_per_s(measured.gpu_to_gpu),
                host_network_gbit_per_s: instance.host_network_gbit_per_s,
                fabric: Some(instance.fabric_id.as_str()).filter(|id| !id.is_empty()),
                fabric_gbit_per_s: instance.node.fabric.map(|fabric| fabric.bandwidth.0 * 8.0 / 1e9),
                fabric_rdma: instance.node.fabric.map(|fabric| fabric.rdma),
                disk_mb_per_s: instance
                    .disk_link
                    .map(|link| link.bytes_per_second / 1e6)
                    .filter(|rate| rate.is_finite()),
                disk_reads_per_s: instance.disk_link.map(|link| link.reads_per_second).filter(|rate| rate.is_finite()),
            },
            cpu_architecture: &instance.cpu_architecture,
            sold_as: instance.sold_as.words(),
            origin: RowOrigin { notes: &instance.notes, source: &instance.source, as_of: &instance.as_of },
        }
    }
}

pub fn instances(lines: &[InstanceLine], width: u16) -> String {
    let flexible = [
        FlexibleColumn::needed(Column::left("cloud", 0), ALWAYS),
        FlexibleColumn::elastic(Column::left("machine", 0), 24),
        FlexibleColumn::elastic(Column::left("GPUs", 0), 20),
        FlexibleColumn::needed(Column::right("GiB", 0), 3),
        FlexibleColumn::needed(Column::right("vCPU", 0), 2),
        FlexibleColumn::needed(Column::right("RAM", 0), 1),
        FlexibleColumn::extra(Column::left("GPU link", 0), 8),
        FlexibleColumn::extra(Column::left("fabric", 0), 7),
        FlexibleColumn::extra(Column::left("sold as", 0), 6),
        FlexibleColumn::extra(Column::right("NVMe GB", 0), 5),
    ];
    let most_digits = lines.iter().map(|line| line.gpus.gpu_count.to_string().len()).max().unwrap_or(0);
    let cells = |line: &InstanceLine| {
        vec![
            line.cloud.to_owned(),
            short_machine_name(line.instance_type, width >= WIDE).to_owned(),
            format!("{:>most_digits$} {}", line.gpus.gpu_count.to_string(), line.gpus.gpu),
            three_figures(line.gpus.gpu_memory_mib_each / 1024.0),
            or_dash(line.vcpus.map(f64::from)),
            or_dash(line.memory_mib.map(|mib| mib / 1024.0)),
            line.links.gpu_link.to_owned(),
            match (line.links.fabric, line.links.fabric_gbit_per_s) {
                (Some(fabric), Some(rate)) => format!("{fabric} {}", three_figures(rate)),
                (Some(fabric), None) => fabric.to_owned(),
                _ => "-".to_owned(),
            },
            line.sold_as.join(" "),
            or_dash(line.local_nvme_gb),
        ]
    };
    let mut rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
    let columns = fit(&flexible, &mut rows, width);
    let mut note = format!("{} machines; GiB of one GPU, RAM in GiB", lines.len());
    if is_shown(&columns, "fabric") {
        note.push_str("; fabric: network that GPUs use between machines, Gbit/s a machine");
    }
    format!("{}\n{}\n", render(&columns, rows, width), wrap(&note, width, ""))
}
