//! How samples come to the GPUs: why these wait, what would shorten it, and what holds up bringing the data.

use gpuplan_plan::explanation::input_wait::{InputWait, SlowestPart};
use gpuplan_plan::input::fix::InputChange;
use gpuplan_plan::input::store_path::StoreLimit;

/// Why GPUs wait for samples, with the figures that decide.
pub fn wait(waiting: &InputWait) -> String {
    let InputWait { slowest, limit, wanted_samples_per_second, is_sweep, waiting_share, waiting_cost_usd } = waiting;
    let gives = match slowest {
        SlowestPart::Storage { from, samples_per_second, by_reads, only_first_pass } => {
            let by = if *by_reads { "by its reads a second" } else { "by its bytes a second" };
            let first = if *only_first_pass { ", in the first pass; memory keeps the rest" } else { "" };
            format!("{from} gives {} samples/s ({by}){first}", rounded(*samples_per_second))
        }
        SlowestPart::Cpu { threads, vcpus, samples_per_second, times_needed } => {
            let more = times_needed.map(|times| format!(", and {times:.1} times as many would keep up"));
            format!(
                "{threads:.0} of {vcpus} vCPUs prepare {} samples/s{}",
                rounded(*samples_per_second),
                more.as_deref().unwrap_or("")
            )
        }
        SlowestPart::CopiesAndDecoders { samples_per_second } => {
            format!("copies and decoders give {} samples/s", rounded(*samples_per_second))
        }
    };
    let takes = if *is_sweep { "runs of a machine take" } else { "GPUs of a machine would take" };
    format!(
        "input: {gives}; the {takes} {}. They wait {:.0} % of a step ({limit}): ${:.2} of the cost",
        rounded(*wanted_samples_per_second),
        waiting_share * 100.0,
        waiting_cost_usd.dollars(),
    )
}

/// Three significant figures, with the suffix of thousands.
fn rounded(rate: f64) -> String {
    match rate {
        rate if rate >= 1e4 => format!("{:.1}k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

/// A change that would feed the GPUs.
pub fn change(change: &InputChange) -> String {
    match change {
        InputChange::DecodeOnce { size } => format!("pictures decoded and resized once, kept as {size} of pixels"),
        InputChange::DecodeOnGpu => "decoding and cropping on the GPUs (nvJPEG, as in DALI)".to_owned(),
        InputChange::Stage { size, time, passes } => {
            format!("{size} copied to local NVMe at every start, in {time}, instead of read {passes:.0} times")
        }
        InputChange::MoreVcpus { plan, vcpus_per_gpu } | InputChange::FewerGpus { plan, vcpus_per_gpu } => {
            format!("{plan}, {vcpus_per_gpu:.0} vCPUs a GPU")
        }
    }
}

/// What holds up bringing the data to a machine.
pub fn staging_limit(limit: StoreLimit) -> &'static str {
    match limit {
        StoreLimit::Network => "half of its network",
        StoreLimit::AssumedNetwork => "half of a network of 10 Gb/s, as nobody says what it has",
        StoreLimit::Program => "what one program fetches",
        StoreLimit::LocalDisk => "its local disk",
        StoreLimit::Gp3Disk => "its gp3 disk",
        StoreLimit::NetworkDisk => "its network disk",
        StoreLimit::DiskLink => "its link to network disks",
    }
}
