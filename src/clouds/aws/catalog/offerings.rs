//! Which zones of a region list a machine type, and whether its figures are those of the catalog.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{Filter, GpuDeviceInfo, GpuDeviceMemoryInfo, InstanceType, LocationType};

use crate::CLOUD;
use crate::account::session::Account;
use crate::catalog::machine_types::{Cards, difference};
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_market::{SourceError, SourceNote};

/// A filter, unlike a list of names, is no error where a region does not know one of them.
pub fn named(types: &[impl ToString]) -> Filter {
    Filter::builder().name("instance-type").set_values(Some(types.iter().map(ToString::to_string).collect())).build()
}

/// Machine type and zone id of everything that the region lists.
pub async fn listed(
    account: &Account,
    client: &Client,
    region: &str,
    types: &[impl ToString],
) -> Result<Vec<(String, String)>, SourceError> {
    let question =
        client.describe_instance_type_offerings().location_type(LocationType::AvailabilityZoneId).filters(named(types));
    let mut pages = question.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| account.error(region, &error))?;
        let pools = page.instance_type_offerings().iter();
        found.extend(
            pools.filter_map(|pool| Some((pool.instance_type()?.as_str().to_owned(), pool.location()?.to_owned()))),
        );
    }
    Ok(found)
}

/// Machine types of which EC2 and the catalog say different things.
pub async fn differences(
    account: &Account,
    client: &Client,
    region: &str,
    types: &[String],
    hardware: &Hardware,
) -> Vec<SourceNote> {
    let mut notes = Vec::new();
    if types.is_empty() {
        return notes;
    }
    let mut pages = client.describe_instance_types().filters(named(types)).into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let detail = format!("machine types could not be compared: {}", account.error(region, &error));
                notes.push(SourceNote { place: region.to_owned(), detail });
                return notes;
            }
        };
        for found in page.instance_types() {
            let name = found.instance_type().map_or("", InstanceType::as_str);
            let Some(id) = hardware.find_instance(&CloudId::new(CLOUD), name) else { continue };
            let cards: Vec<Cards> =
                found.gpu_info().map(|info| info.gpus().iter().map(cards).collect()).unwrap_or_default();
            let detail = difference(hardware.instance(id), &cards);
            notes.extend(detail.map(|detail| SourceNote { place: name.to_owned(), detail }));
        }
    }
    notes
}

pub fn cards(info: &GpuDeviceInfo) -> Cards {
    Cards {
        count: info.count().unwrap_or_default(),
        partition: info.gpu_partition_size(),
        memory_mib: info.memory_info().and_then(GpuDeviceMemoryInfo::size_in_mib),
    }
}
