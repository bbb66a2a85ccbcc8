//! A calibration for a person: what each benchmark reached, which share of the peak that is, what was waived, what it means.

use std::fmt::Write as _;

use crate::text::format;
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_calibration::Calibration;
use gpuplan_calibration::benchmark::Work;
use gpuplan_calibration::suite::Sampled;
use gpuplan_estimate::MeasuredGpu;
use gpuplan_hardware::{Gpu, GpuLink, Hardware};
use gpuplan_units::Bytes;

const COLUMNS: [Column; 7] = [
    Column::left("what", 100),
    Column::left("work", 0),
    Column::right("time", 0),
    Column::right("rate", 0),
    Column::right("of peak", 0),
    Column::right("spread", 0),
    Column::right("outliers", 90),
];

/// `found`: what a plan makes of it, or why nothing.
pub fn text(calibration: &Calibration, found: &Result<MeasuredGpu, String>, hardware: &Hardware, width: u16) -> String {
    let gpu = calibration.gpu.as_deref().and_then(|name| hardware.find_gpu(name)).map(|id| hardware.gpu(id));
    let mut out = format!("{}\n\n", wrap(&headline(calibration), width, "  "));
    // Without a link in the catalog nobody knows its share.
    let link = gpu.and_then(|gpu| hardware.gpu_link(gpu, &gpu.link, calibration.device.gpus).ok());
    let peaks = Peaks { gpu, link, gpus: calibration.device.gpus };
    out.push_str(&render(&COLUMNS, calibration.results.iter().map(|one| row(one, &peaks, width)), width));
    out.push('\n');
    let highest = calibration.readings.summary().map(|summary| format!("highest seen: {summary}"));
    for line in host(calibration).into_iter().chain(highest) {
        let _ = writeln!(out, "{}", wrap(&line, width, "  "));
    }
    out.push_str(&waived(calibration, width));
    match found {
        Ok(measured) => {
            for reason in &measured.reasons {
                let _ = writeln!(out, "{}", wrap(&format!("A plan says: {reason}"), width, "  "));
            }
        }
        Err(why) => {
            for line in
                calibration.readings.warnings().into_iter().chain([format!("no plan is changed by this: {why}")])
            {
                let _ = writeln!(out, "{}", wrap(&line, width, "  "));
            }
        }
    }
    out
}

fn headline(calibration: &Calibration) -> String {
    let device = &calibration.device;
    let (major, minor) = device.compute_capability;
    let versions: Vec<String> = device.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let count = if device.gpus > 1 { format!("{} x ", device.gpus) } else { String::new() };
    let of = calibration.workload.as_ref().map_or_else(
        || "no workload: sizes for comparison alone".to_owned(),
        |workload| format!("shapes of {} ({}, micro batch {})", workload.model, workload.layout, workload.micro_batch),
    );
    format!(
        "{count}{}, {}, compute capability {major}.{minor}, {}; {of}; {} suite, {:.1} s",
        device.name,
        Bytes(device.memory_bytes as f64),
        versions.join(", "),
        calibration.suite,
        calibration.seconds
    )
}

/// Denominators of the shares.
struct Peaks<'a> {
    gpu: Option<&'a Gpu>,
    link: Option<GpuLink>,
    gpus: u32,
}

fn row(one: &Sampled, peaks: &Peaks, width: u16) -> Vec<String> {
    let (work, statistics) = (&one.benchmark.work, &one.statistics);
    let seconds = statistics.median_seconds;
    let rate = rate(work, seconds, peaks);
    // Below 100 columns the name has no column of its own, and the size alone says what a product is.
    let what = if width < 100 && one.benchmark.weight > 0.0 { one.benchmark.name.clone() } else { work.to_string() };
    vec![
        one.benchmark.name.clone(),
        what,
        time(seconds),
        rate.as_ref().map_or_else(String::new, |rate| rate.text.clone()),
        rate.and_then(|rate| Some(rate.value / rate.peak?))
            .map_or_else(String::new, |share| format!("{:.0} %", share * 100.0)),
        format!("{:.1} %", statistics.spread * 100.0),
        if statistics.outliers > 0 {
            format!("{} of {}", statistics.outliers, statistics.samples)
        } else {
            String::new()
        },
    ]
}

fn time(seconds: f64) -> String {
    if seconds < 1e-3 { format!("{} us", format::three_figures(seconds * 1e6)) } else { format::step_seconds(seconds) }
}

struct Rate {
    value: f64,
    text: String,
    peak: Option<f64>,
}

fn rate(work: &Work, seconds: f64, peaks: &Peaks) -> Option<Rate> {
    let flops = |format| {
        let value = work.flops() / seconds;
        let peak = peaks.gpu.and_then(|gpu| gpu.peak_tflops.get(format)).map(|peak| peak * 1e12);
        Some(Rate { value, text: format!("{} TFLOP/s", format::three_figures(value / 1e12)), peak })
    };
    let bytes = |share: f64, peak: Option<f64>| {
        let value = work.bytes() * share / seconds;
        Some(Rate { value, text: format!("{} GB/s", format::three_figures(value / 1e9)), peak })
    };
    let link = match peaks.link {
        Some(GpuLink::Fast { bandwidth, .. } | GpuLink::Pcie { bandwidth }) => Some(bandwidth.0),
        _ => None,
    };
    match *work {
        Work::Matmul { format, .. } | Work::Attention { format, .. } => flops(format),
        Work::Kernel { .. } | Work::Stream { .. } => bytes(1.0, peaks.gpu.map(|gpu| gpu.memory_bandwidth().0)),
        Work::Launch { .. } => None,
        Work::HostCopy { .. } => bytes(1.0, peaks.gpu.map(|gpu| gpu.pcie_bandwidth().0)),
        Work::PeerCopy { .. } => bytes(1.0, link),
        // Bus bandwidth: a ring of n sends 2 (n - 1) / n of the data over every link.
        Work::AllReduce { .. } => bytes(2.0 * f64::from(peaks.gpus.max(1) - 1) / f64::from(peaks.gpus.max(1)), link),
    }
}

fn host(calibration: &Calibration) -> Vec<String> {
    let host = &calibration.host;
    let rate = |rate: f64| format!("{} MB/s", format::three_figures(rate / 1e6));
    let mut lines = Vec::new();
    if let (Some(one), Some(all)) = (host.decode_bytes_per_second_one_core, host.decode_bytes_per_second) {
        let scaling = all / one / f64::from(host.cores.max(1)) * 100.0;
        lines.push(format!(
            "loader work: {} on one core, {} on {} ({scaling:.0} % of linear)",
            rate(one),
            rate(all),
            host.cores
        ));
    }
    if let (Some(bytes), Some(speed)) = (host.read_bytes, host.read_bytes_per_second) {
        lines.push(format!(
            "data folder: {} at {}; what was read lately may have come from memory",
            Bytes(bytes),
            rate(speed)
        ));
    }
    lines.extend(host.waived.iter().map(|reason| format!("waived: {reason}")));
    lines
}

/// One line for every reason, with the number of benchmarks that it stopped.
fn waived(calibration: &Calibration, width: u16) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for one in &calibration.waived {
        let what = format!("{} ({})", one.benchmark.name, one.benchmark.work);
        match reasons.iter_mut().find(|(reason, _)| *reason == one.reason) {
            Some((_, list)) => list.push(what),
            None => reasons.push((&one.reason, vec![what])),
        }
    }
    let mut out = String::new();
    for (reason, list) in reasons {
        let more = if list.len() > 1 { format!(" and {} more", list.len() - 1) } else { String::new() };
        let _ = writeln!(out, "{}", wrap(&format!("waived: {}{more}: {reason}", list[0]), width, "  "));
    }
    out
}
