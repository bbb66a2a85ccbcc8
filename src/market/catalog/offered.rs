//! Which machines a cloud had where by its own list, as one file of `catalogs/offered/`: what is asked where nobody answers for today's.

use std::sync::Arc;

use crate::machines::MachineList;
use gpuplan_embedded::{EmbeddedError, Table};

/// The list of one cloud. Regions that the file does not name did not answer, as of `MachineList`.
pub fn read(table: &Table) -> Result<MachineList, EmbeddedError> {
    let mut list = MachineList::default();
    for (name, region) in table.column("instance_type")?.zip(table.column("region")?) {
        list.regions.entry(Arc::from(region)).or_default().insert(name.to_owned());
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::catalog::check::{not_listed, offered_there};
    use crate::catalog::snapshot::Market;
    use gpuplan_hardware::{CloudId, Hardware};

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
        assert!(unknown.starts_with("of 49 of ") && unknown.ends_with(": aws, scaleway"), "{unknown}");
        let without_azure = market.offered.iter().filter(|(cloud, _)| cloud.as_str() != "azure");
        let unknown = unlisted(&without_azure.map(|(cloud, list)| (cloud.clone(), list.clone())).collect());
        assert!(unknown.contains("azure"), "{unknown}");
        assert!(!unknown.contains("crusoe"), "its prices name no place: {unknown}");
    }

    #[test]
    fn a_column_that_is_missing_is_an_error() {
        let table = Table::from_csv("instance_type\nx\n").unwrap();
        assert!(read(&table).is_err());
    }
}
