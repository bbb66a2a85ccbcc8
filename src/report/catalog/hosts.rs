//! Machines without GPU, and their prices, as table, JSON and CSV.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::Listed;
use crate::text::format;
use crate::text::json::VERSION;
use crate::text::table::{Column, footer, render};
use gpuplan_hardware::{Hardware, HostType};
use gpuplan_market::{HostOffer, Origin};
use gpuplan_units::{Bytes, UsdPerHour};

/// `gpuplan catalog hosts -o json`.
#[derive(Serialize, JsonSchema)]
pub struct HostList<'a> {
    version: u32,
    hosts: &'a [HostLine<'a>],
}

impl Listed for HostLine<'_> {
    fn list(rows: &[Self]) -> impl Serialize {
        HostList { version: VERSION, hosts: rows }
    }
}

/// A machine without GPU under the names of the catalog.
#[derive(Serialize, JsonSchema)]
pub struct HostLine<'a> {
    cloud: &'a str,
    /// What the cloud calls it.
    instance_type: &'a str,
    /// Hardware threads.
    vcpus: u32,
    threads_per_core: u32,
    /// Main memory, MiB.
    memory_mib: f64,
    /// Disks inside the machine, GB; `null` where it has none.
    local_nvme_gb: Option<f64>,
    /// Gbit/s a machine.
    host_network_gbit_per_s: Option<f64>,
    processor: &'a str,
    /// Such as `x86_64`.
    cpu_architecture: &'a str,
    /// Ways to buy it, such as `on-demand` and `spot`.
    sold_as: Vec<&'static str>,
    notes: &'a str,
    /// Where the figures were read.
    source: &'a str,
    /// When they were read, as a date.
    as_of: &'a str,
}

pub const HOST_COLUMNS: [(&str, &str); 13] = [
    ("cloud", "/cloud"),
    ("instance_type", "/instance_type"),
    ("vcpus", "/vcpus"),
    ("threads_per_core", "/threads_per_core"),
    ("memory_mib", "/memory_mib"),
    ("local_nvme_gb", "/local_nvme_gb"),
    ("host_network_gbit_per_s", "/host_network_gbit_per_s"),
    ("processor", "/processor"),
    ("cpu_architecture", "/cpu_architecture"),
    ("sold_as", "/sold_as"),
    ("notes", "/notes"),
    ("source", "/source"),
    ("as_of", "/as_of"),
];

impl<'a> HostLine<'a> {
    pub fn new(host: &'a HostType) -> Self {
        Self {
            cloud: host.cloud.as_str(),
            instance_type: &host.name,
            vcpus: host.vcpus,
            threads_per_core: host.threads_per_core,
            memory_mib: (host.memory.0 / f64::from(1 << 20)).round(),
            local_nvme_gb: host.local_nvme.map(Bytes::gb),
            host_network_gbit_per_s: host.host_network_gbit_per_s,
            processor: &host.processor,
            cpu_architecture: &host.cpu_architecture,
            sold_as: host.sold_as.words(),
            notes: &host.notes,
            source: &host.source,
            as_of: &host.as_of,
        }
    }
}

pub fn machines(lines: &[HostLine], width: u16) -> String {
    let columns = [
        Column::left("cloud", 0),
        Column::left("machine", 0),
        Column::right("vCPU", 0),
        Column::right("cores", 0),
        Column::right("RAM", 0),
        Column::right("Gbit/s", 0),
        Column::left("processor", 0),
        Column::left("sold as", 100),
    ];
    let rows = lines.iter().map(|line| {
        vec![
            line.cloud.to_owned(),
            line.instance_type.to_owned(),
            line.vcpus.to_string(),
            (line.vcpus / line.threads_per_core).to_string(),
            format::three_figures(line.memory_mib / 1024.0),
            line.host_network_gbit_per_s.map_or_else(|| "-".to_owned(), format::three_figures),
            line.processor.to_owned(),
            line.sold_as.join(" "),
        ]
    });
    format!("{}\n{} machines without GPU; RAM in GiB; `-`: not known\n", render(&columns, rows, width), lines.len())
}

/// `gpuplan prices --hosts -o json`.
#[derive(Serialize, JsonSchema)]
pub struct HostOfferList<'a> {
    version: u32,
    offers: &'a [HostPrice<'a>],
}

impl Listed for HostPrice<'_> {
    fn list(rows: &[Self]) -> impl Serialize {
        HostOfferList { version: VERSION, offers: rows }
    }
}

/// A machine without GPU at a price, under the names of `gpuplan prices` as far as they have a meaning.
#[derive(Serialize, JsonSchema)]
pub struct HostPrice<'a> {
    cloud: &'a str,
    /// `any` where the price holds in all of them.
    region: &'a str,
    /// `null` where the price holds in the whole region.
    zone_id: Option<&'a str>,
    /// What the cloud calls it.
    instance_type: &'a str,
    /// Always 0.
    gpu_count: u32,
    /// Hardware threads.
    vcpus: u32,
    /// Main memory, GiB.
    memory_gib: f64,
    /// Terms of the purchase, such as `on-demand` and `spot`.
    purchase: &'static str,
    /// Dollars an hour for the whole machine.
    rate_usd_per_hour: UsdPerHour,
    /// Dollars an hour for each vCPU.
    rate_usd_per_vcpu_hour: UsdPerHour,
    origin: Origin,
    /// When the price was seen.
    observed_at: Timestamp,
    /// Id of the source, in `SNAPSHOT.toml` or of a live answer.
    source: &'a str,
    /// Why the price may not be what it says, one word a doubt.
    suspect: Vec<&'static str>,
}

pub const PRICE_COLUMNS: [(&str, &str); 14] = [
    ("cloud", "/cloud"),
    ("region", "/region"),
    ("zone_id", "/zone_id"),
    ("instance_type", "/instance_type"),
    ("gpu_count", "/gpu_count"),
    ("vcpus", "/vcpus"),
    ("memory_gib", "/memory_gib"),
    ("purchase", "/purchase"),
    ("rate_usd_per_hour", "/rate_usd_per_hour"),
    ("rate_usd_per_vcpu_hour", "/rate_usd_per_vcpu_hour"),
    ("origin", "/origin"),
    ("observed_at", "/observed_at"),
    ("source", "/source"),
    ("suspect", "/suspect"),
];

impl<'a> HostPrice<'a> {
    pub fn new(offer: &'a HostOffer, hardware: &'a Hardware) -> Self {
        let host = hardware.host(offer.host);
        Self {
            cloud: host.cloud.as_str(),
            region: &offer.place.region,
            zone_id: offer.place.zone_id.as_deref(),
            instance_type: &host.name,
            gpu_count: 0,
            vcpus: host.vcpus,
            memory_gib: host.memory.gib(),
            purchase: offer.purchase.word(),
            rate_usd_per_hour: offer.quote.rate,
            rate_usd_per_vcpu_hour: offer.quote.rate.per_gpu(f64::from(host.vcpus)),
            origin: offer.quote.origin,
            observed_at: offer.quote.observed_at,
            source: &offer.source,
            suspect: offer.suspicions.iter().map(|suspicion| suspicion.word()).collect(),
        }
    }
}

/// The first `most` of them; `!` marks what is doubted.
pub fn prices(lines: &[HostPrice], now: Timestamp, width: u16, most: usize) -> String {
    let columns = [
        Column::left("machine", 0),
        Column::right("vCPU", 0),
        Column::left("place", 0),
        Column::left("terms", 0),
        Column::right("$/vCPU-h", 0),
        Column::right("$/h", 0),
        Column::right("seen", 0),
        Column::left("doubt", 100),
    ];
    let shown = if most == 0 { lines.len() } else { most.min(lines.len()) };
    let rows = lines.iter().take(shown).map(|line| {
        vec![
            line.instance_type.to_owned(),
            line.vcpus.to_string(),
            format!(
                "{} {}{}",
                line.cloud,
                line.zone_id.unwrap_or(line.region),
                if line.suspect.is_empty() { "" } else { " ?" }
            ),
            line.purchase.to_owned(),
            format::rate(line.rate_usd_per_vcpu_hour),
            format::rate(line.rate_usd_per_hour),
            format::age(line.observed_at, now),
            line.suspect.join(" "),
        ]
    });
    let table = render(&columns, rows, width);
    let doubt = if lines.iter().take(shown).any(|line| !line.suspect.is_empty()) {
        "?: doubted; --trusted leaves it out\n"
    } else {
        ""
    };
    format!("{table}{doubt}{}", footer(shown, lines.len(), "--max-results 0 shows all"))
}
