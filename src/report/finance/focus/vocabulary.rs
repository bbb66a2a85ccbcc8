//! The words of FOCUS for what a charge bought: service, provider, unit.

use gpuplan_budget::Item;
use gpuplan_hardware::CloudId;

/// Category and subcategory are of the specification's list ("Service Subcategory", allowed values).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    pub category: &'static str,
    pub subcategory: &'static str,
    pub name: &'static str,
    /// What is metered.
    pub meter: &'static str,
}

pub fn service(cloud: &str, item: Item) -> Service {
    match item {
        Item::Machines | Item::Fallback | Item::LostWork | Item::UnusedCommitment => Service {
            category: "Compute",
            subcategory: "Virtual Machines",
            name: compute(cloud),
            meter: "GPU machine time",
        },
        // Its disks are of the same service as its machines, and a service has one category and one subcategory.
        Item::Disk if cloud == "gcp" => Service {
            category: "Compute",
            subcategory: "Virtual Machines",
            name: compute(cloud),
            meter: "Disk capacity",
        },
        Item::Disk => {
            Service { category: "Storage", subcategory: "Block Storage", name: disk(cloud), meter: "Disk capacity" }
        }
        Item::CheckpointStorage => Service {
            category: "Storage",
            subcategory: "Object Storage",
            name: bucket(cloud),
            meter: "Object storage capacity",
        },
        Item::Egress => Service {
            category: "Networking",
            subcategory: "Other (Networking)",
            name: "Data Transfer",
            meter: "Data transfer out",
        },
        Item::Credit | Item::Tax | Item::Other => {
            Service { category: "Other", subcategory: "Other (Other)", name: "Billing", meter: "Billing" }
        }
    }
}

/// The names that the clouds give their services.
fn compute(cloud: &str) -> &'static str {
    match cloud {
        "aws" => "Amazon Elastic Compute Cloud",
        "gcp" => "Compute Engine",
        "azure" => "Virtual Machines",
        _ => "Compute",
    }
}

fn disk(cloud: &str) -> &'static str {
    match cloud {
        "aws" => "Amazon Elastic Block Store",
        "azure" => "Azure Disk Storage",
        _ => "Block Storage",
    }
}

fn bucket(cloud: &str) -> &'static str {
    match cloud {
        "aws" => "Amazon Simple Storage Service",
        "gcp" => "Cloud Storage",
        "azure" => "Azure Blob Storage",
        _ => "Object Storage",
    }
}

/// Service, host and invoice are of the same entity: machines are rented from the clouds themselves.
pub fn provider(cloud: &str) -> String {
    match cloud {
        "azure" => "Microsoft".to_owned(),
        "oci" => "Oracle".to_owned(),
        other => CloudId::new(other).label().to_owned(),
    }
}

/// As the attribute "Unit Format" writes units; `None` where it has no such unit.
pub fn unit(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "hour" | "hours" | "machine-hour" => "Hours",
        "month" => "Months",
        "GiB" => "GiB",
        "GB" => "GB",
        "TiB" => "TiB",
        "TB" => "TB",
        "GiB-month" => "GiB-Months",
        "GB-month" => "GB-Months",
        "token" | "tokens" => "Tokens",
        "request" | "requests" => "Requests",
        "USD" | "committed dollar" => "USD",
        "unit" | "sum" | "" => "Units",
        _ => return None,
    })
}
