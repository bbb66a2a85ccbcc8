//! From Azure's price list to the sizes that it has where. The list says of a size no more than its name, so one that the catalog lacks
//! has the GPUs of a size with another network beside it, or stays a note. Pure.

use std::collections::BTreeMap;

use crate::azure::CLOUD;
use crate::azure::retail::RetailRow;
use crate::listing::Rows;
use gpuplan_hardware::{CloudId, Hardware, InstanceType, MachineSheet};
use gpuplan_market::{MachineList, Purchase, SourceNote};

/// Letters of a size that say nothing of its GPUs or its memory: InfiniBand, and what no document explains
/// (learn.microsoft.com/azure/virtual-machines/vm-naming-conventions).
const OTHER_NETWORK: [char; 2] = ['r', 'f'];
/// The same as words of their own.
const OTHER_NETWORK_WORDS: [&str; 2] = ["flex", "noIB"];

/// Sizes by region that are sold by the hour there, and sheets of those that the catalog lacks.
pub fn list(rows: &Rows<RetailRow>, hardware: &Hardware, as_of: &str) -> MachineList {
    let mut list = MachineList::default();
    for (size, region) in rows.read.iter().filter(|row| row.is_sold_as(by_the_hour)).filter_map(RetailRow::place) {
        list.regions.entry(region.into()).or_default().insert(size.to_owned());
    }
    let cloud = CloudId::new(CLOUD);
    let known: Vec<&InstanceType> = hardware.instances().iter().filter(|instance| instance.cloud == cloud).collect();
    let is_unknown = |name: &&String| known.iter().all(|instance| instance.name != **name);
    let unknown: BTreeMap<&String, Option<MachineSheet>> = list
        .regions
        .values()
        .flatten()
        .filter(is_unknown)
        .map(|name| (name, sheet(name, &known, hardware, as_of)))
        .collect();
    let named: Vec<&str> = unknown.iter().filter(|(_, sheet)| sheet.is_none()).map(|(name, _)| name.as_str()).collect();
    if !named.is_empty() {
        let detail = format!("the price list does not say which GPUs it has: {}", named.join(", "));
        list.notes.push(SourceNote { place: format!("{} sizes", named.len()), detail });
    }
    list.sheets = unknown.into_values().flatten().collect();
    list
}

fn by_the_hour(purchase: Purchase) -> bool {
    purchase.is_by_the_hour()
}

/// A size as its sibling with another network is known.
fn sheet(name: &str, known: &[&InstanceType], hardware: &Hardware, as_of: &str) -> Option<MachineSheet> {
    let wanted = without_network(name)?;
    let sibling = known.iter().find(|instance| without_network(&instance.name).as_deref() == Some(wanted.as_str()))?;
    let gpu = hardware.gpu(sibling.node.gpu);
    Some(MachineSheet {
        name: name.to_owned(),
        gpu: gpu.id.clone(),
        vendor: gpu.vendor.clone(),
        gpus: sibling.node.gpus.to_string(),
        gpu_memory_mib: Some(sibling.node.gpu_memory.gib() * 1024.0),
        vcpus: sibling.vcpus,
        memory_mib: sibling.memory.gib() * 1024.0,
        local_nvme_gb: None,
        network_gbit_per_s: None,
        cpu_architecture: sibling.cpu_architecture.clone(),
        sold_as: "on-demand spot".to_owned(),
        as_of: as_of.to_owned(),
    })
}

/// `Standard_ND96is_H100_v5` of `Standard_ND96isrf_H100_v5` and of `Standard_ND96is_flex_H100_v5`.
fn without_network(name: &str) -> Option<String> {
    let (size, rest) = name.strip_prefix("Standard_")?.split_once('_')?;
    let features = size.trim_start_matches(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit());
    let machine = size.strip_suffix(features)?;
    let features = features.replace(OTHER_NETWORK, "");
    let words = rest.split('_').filter(|word| !OTHER_NETWORK_WORDS.contains(word));
    Some(format!("{machine}{features}_{}", words.collect::<Vec<_>>().join("_")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::azure::retail::Page;
    use crate::listing::HARDWARE;

    fn row(region: &str, size: &str) -> Value {
        json!({
            "currencyCode": "USD", "retailPrice": 9.0, "armRegionName": region, "meterName": size, "productName": "Virtual Machines",
            "skuName": size, "unitOfMeasure": "1 Hour", "type": "Consumption", "armSkuName": size
        })
    }

    fn read(rows: &[Value]) -> MachineList {
        let page: Page = serde_json::from_value(json!({ "Items": rows })).unwrap();
        list(&page.items, &HARDWARE, "2026-11-24")
    }

    #[test]
    fn a_size_with_another_network_has_the_gpus_of_its_sibling_and_any_other_is_a_note() {
        let mut windows = row("northeurope", "Standard_ND96isr_H100_v5");
        windows["productName"] = json!("Virtual Machines Windows");
        let listed = read(&[
            row("eastus", "Standard_ND96isr_H100_v5"),
            row("eastus", "Standard_ND96isrf_H200_v5"),
            row("eastus", "Standard_ND40s_v2"),
            row("westus3", "Standard_NC9999ads_Vera_v9"),
            row("", "Standard_ND96isr_H100_v5"),
            windows,
        ]);
        assert_eq!((listed.regions.len(), listed.regions["eastus"].len()), (2, 3), "no place, and another product");
        let mut hardware = HARDWARE.clone();
        let known = |hardware: &Hardware, name: &str| hardware.find_instance(&CloudId::new(CLOUD), name);
        assert_eq!(listed.sheets.len(), 2, "{:?}", listed.sheets);
        for (name, sibling) in
            [("Standard_ND96isrf_H200_v5", "Standard_ND96isr_H200_v5"), ("Standard_ND40s_v2", "Standard_ND40rs_v2")]
        {
            let sheet = listed.sheets.iter().find(|sheet| sheet.name == name).unwrap();
            let id = hardware.learn(&CloudId::new(CLOUD), sheet).unwrap();
            let sibling = hardware.instance(known(&hardware, sibling).unwrap());
            let (learnt, sibling) = (hardware.instance(id), sibling);
            assert_eq!((learnt.node.gpu, learnt.node.gpus), (sibling.node.gpu, sibling.node.gpus));
            assert!(learnt.node.fabric.is_none(), "its network is not known");
        }
        assert!(listed.notes[0].detail.ends_with("Standard_NC9999ads_Vera_v9"), "{:?}", listed.notes);
    }

    #[test]
    fn letters_that_change_memory_are_kept() {
        let same = |one: &str, other: &str| without_network(one) == without_network(other);
        assert!(same("Standard_ND96ams_A100_v4", "Standard_ND96amsr_A100_v4"));
        assert!(same("Standard_ND96is_noIB_H100_v5", "Standard_ND96isr_H100_v5"));
        assert!(!same("Standard_ND96asr_A100_v4", "Standard_ND96amsr_A100_v4"), "40 GB and 80 GB");
        assert!(!same("Standard_NC128ds_xl_RTXPRO6000BSE_v6", "Standard_NC128lds_xl_RTXPRO6000BSE_v6"));
        assert!(!same("Standard_NC24ads_A100_v4", "Standard_NC48ads_A100_v4"));
        assert_eq!((without_network("Standard_NC6"), without_network("")), (None, None));
    }
}
