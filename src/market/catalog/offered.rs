//! Which machines a cloud had where by its own list, as one file of `catalogs/offered/`: what is asked where nobody answers for today's.

use crate::machines::{Listing, Listings, MachineList};
use gpuplan_embedded::Table;
use gpuplan_hardware::{CloudId, Hardware};
use jiff::Timestamp;

/// The list of one cloud, and into `listings` who said each row when. Regions that the file does not name did not answer, as of `MachineList`.
pub fn read(
    table: &Table,
    cloud: &CloudId,
    hardware: &Hardware,
    listings: &mut Listings,
) -> Result<MachineList, String> {
    let missing = |error: gpuplan_embedded::EmbeddedError| error.to_string();
    let (names, regions) = (table.column("instance_type").map_err(missing)?, table.shared("region").map_err(missing)?);
    let day = |text: &str| -> Result<Timestamp, String> {
        format!("{text}T00:00:00Z").parse().map_err(|_| format!("`{text}` is not a day; write it as 2026-11-28"))
    };
    let days = table.parsed("as_of", day).map_err(missing)?;
    let days = days.map_err(|(row, detail)| format!("row {}: {detail}", row + 1))?;
    let sources = table.shared("source").map_err(missing)?;
    let mut list = MachineList::default();
    for (row, name) in names.enumerate() {
        let region = &regions[row];
        list.regions.entry(region.clone()).or_default().insert(name.to_owned());
        if let Some(instance) = hardware.find_instance(cloud, name) {
            let said = Listing { source: sources[row].clone(), observed_at: days[row] };
            listings.insert((instance, region.clone()), said);
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::catalog::check::{not_listed, offered_there};
    use crate::catalog::snapshot::Market;

    #[test]
    fn the_lists_of_the_snapshot_judge_its_prices() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let list = |cloud: &str| &market.offered[&CloudId::new(cloud)];
        assert!(list("aws").pools() > 700 && list("gcp").pools() > 400);
        assert!(list("aws").regions["eu-west-2"].contains("g6.xlarge"));
        assert!(!list("aws").regions.contains_key("us-gov-west-1"), "what it does not say is unknown");
        // Azure's public price list stands for one, as in a live answer.
        assert!(list("azure").regions["eastus"].contains("Standard_ND96isr_H100_v5"));
        for (cloud, list) in &market.offered {
            let denied = offered_there(&market, &hardware, cloud, list);
            assert_eq!(denied, None, "every price is of a place that has the machine");
        }
        let without_g5 = {
            let mut list = list("aws").clone();
            list.regions.values_mut().for_each(|names| names.retain(|name| !name.starts_with("g5.")));
            offered_there(&market, &hardware, &CloudId::new("aws"), &list)
        };
        assert!(without_g5.unwrap().detail.contains("aws/g5."));
        let unlisted = |lists: &BTreeMap<CloudId, MachineList>| not_listed(&market, &hardware, lists).unwrap().detail;
        let unknown = unlisted(&market.offered);
        assert!(unknown.starts_with("of 45 of ") && unknown.ends_with(": aws"), "{unknown}");
        let without_azure = market.offered.iter().filter(|(cloud, _)| cloud.as_str() != "azure");
        let unknown = unlisted(&without_azure.map(|(cloud, list)| (cloud.clone(), list.clone())).collect());
        assert!(unknown.contains("azure"), "{unknown}");
        assert!(!unknown.contains("crusoe"), "its prices name no place: {unknown}");
    }

    #[test]
    fn a_column_that_is_missing_is_an_error() {
        let (hardware, cloud) = (Hardware::embedded().unwrap(), CloudId::new("aws"));
        let read = |text: &str| read(&Table::from_csv(text).unwrap(), &cloud, &hardware, &mut Listings::default());
        assert!(read("instance_type\nx\n").is_err());
        let dated = |day: &str| read(&format!("instance_type,region,source,as_of\nx,r,s,{day}\n"));
        assert_eq!(dated("2026-08-01").unwrap().pools(), 1);
        assert!(dated("soon").unwrap_err().contains("`soon` is not a day"));
    }
}
