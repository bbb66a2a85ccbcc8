//! What a line of an export bought, in the words of the cloud that wrote it.

use crate::bill::cell::normalized;
use crate::bill::export::Format;
use crate::charge::Item;

/// The three columns by which an export says what a line is for; empty where it has none of them.
#[derive(Clone, Copy, Default)]
pub struct Labels<'a> {
    /// FOCUS `ChargeCategory`, CUR `line_item_type`, Azure `ChargeType`, Google `cost_type`.
    pub category: &'a str,
    /// FOCUS `ServiceCategory`, Azure `MeterCategory`, the service of Google.
    pub service: &'a str,
    /// The usage type, meter or SKU.
    pub usage: &'a str,
}

/// What was bought, in the words of the export: FOCUS ChargeCategory and ServiceCategory, CUR line item and usage types
/// (docs.aws.amazon.com/cur, "Line item columns"), Azure ChargeType and MeterCategory, Google service and SKU.
pub fn classify(format: Format, labels: Labels) -> Item {
    let Labels { usage, .. } = labels;
    let service = normalized(labels.service);
    match normalized(labels.category).as_str() {
        "tax" => return Item::Tax,
        "credit" | "refund" | "adjustment" | "edpdiscount" | "bundleddiscount" | "discount" | "privateratediscount" => {
            return Item::Credit;
        }
        "roundingerror" if format == Format::Google => return Item::Credit,
        _ => {}
    }
    match format {
        Format::Cur => aws_item(usage).unwrap_or(Item::Other),
        Format::Focus => aws_item(usage).unwrap_or(match service.as_str() {
            "compute" => Item::Machines,
            "storage" => Item::Disk,
            "networking" => Item::Egress,
            _ => Item::Other,
        }),
        Format::Google => google_item(labels.service, usage),
        Format::Azure => match service.as_str() {
            "virtualmachines" => Item::Machines,
            "storage" if normalized(usage).contains("disk") => Item::Disk,
            "storage" => Item::CheckpointStorage,
            "bandwidth" => Item::Egress,
            _ => Item::Other,
        },
    }
}

/// By the usage type of AWS, such as `USE1-SpotUsage:p5.48xlarge`.
fn aws_item(usage: &str) -> Option<Item> {
    let has = |words: &[&str]| words.iter().any(|word| usage.contains(word));
    if has(&["BoxUsage", "SpotUsage", "DedicatedUsage", "HostUsage", "UnusedBox", "UnusedDed"]) {
        Some(Item::Machines)
    } else if has(&["EBS:"]) {
        Some(Item::Disk)
    } else if has(&["DataTransfer", "Out-Bytes", "In-Bytes"]) {
        Some(Item::Egress)
    } else if has(&["TimedStorage"]) {
        Some(Item::CheckpointStorage)
    } else {
        None
    }
}

/// By service and SKU of Google Cloud.
fn google_item(service: &str, sku: &str) -> Item {
    let (service, sku) = (normalized(service), sku.to_ascii_lowercase());
    if service.contains("cloudstorage") {
        return if sku.contains("storage") { Item::CheckpointStorage } else { Item::Other };
    }
    if sku.contains("egress") || sku.contains("data transfer") {
        Item::Egress
    } else if sku.contains("pd capacity") || sku.contains("disk") || sku.contains("hyperdisk") {
        Item::Disk
    } else if service.contains("computeengine") {
        Item::Machines
    } else {
        Item::Other
    }
}
