//! What a run pays for besides machines: the rates of disks, storage, its requests and egress in one place.

use crate::input::disks::network_disk;
use crate::money::bill::{Basis, BillItem};
use gpuplan_hardware::{CloudId, InstanceType};
use gpuplan_market::{Charge, ChargeKind, Charges, Offer};
use gpuplan_units::{Bytes, Usd};
use gpuplan_workload::DataSet;

/// Side charges of one place, looked up once an offer.
#[derive(Clone, Debug, Default)]
pub struct SideCharges {
    pub disk: Option<Rate>,
    pub storage: Option<Rate>,
    /// Of a request that writes to it.
    pub requests: Option<Rate>,
    pub egress: Option<Rate>,
    /// Data that must be moved to this cloud, or to this region of it.
    pub moved: Option<Bytes>,
    /// On the disk of each machine.
    pub on_disk: Bytes,
}

/// The price of a unit of something that is kept, moved or asked for.
#[derive(Clone, Debug)]
pub struct Rate {
    pub price: Usd,
    pub unit_bytes: f64,
    pub unit: &'static str,
    pub basis: Basis,
}

impl Rate {
    /// As the catalog has it.
    pub fn new(charge: &Charge) -> Self {
        let basis = Basis::Price {
            source: charge.source.clone(),
            observed_at: charge.observed_at,
            is_unverified: charge.is_unverified,
            is_upper_bound: false,
        };
        Self { price: charge.rate, unit_bytes: charge.unit_bytes(), unit: charge.unit_word(), basis }
    }
}

impl SideCharges {
    /// Rates of the offer's place, and of the place that the data leaves so many times.
    pub fn new(charges: &Charges, offer: &Offer, instance: &InstanceType, data: Option<&DataSet>, times: f64) -> Self {
        let rate = |kind| charges.find(kind, &instance.cloud, &offer.place.region).map(Rate::new);
        let from =
            data.and_then(|data| data.place.as_deref()).map(|place| place.split_once('/').unwrap_or((place, "*")));
        let is_here = |cloud: &str, region: &str| {
            cloud == instance.cloud.as_str() && (region == "*" || *region == *offer.place.region)
        };
        let leaves = from.filter(|(cloud, region)| !is_here(cloud, region));
        let egress = leaves.and_then(|(cloud, region)| {
            let rate = charges.find(ChargeKind::EgressInternet, &CloudId::new(cloud), region).map(Rate::new)?;
            // Rates between regions of a cloud are in no source; that of the internet is the most that they can be.
            let is_within = cloud == instance.cloud.as_str();
            let basis = if is_within { rate.basis.clone().as_upper_bound() } else { rate.basis.clone() };
            Some(Rate { basis, ..rate })
        });
        let moved = data.map(|data| Bytes(data.size.0 * times));
        Self {
            disk: rate(ChargeKind::NetworkDisk),
            storage: rate(ChargeKind::ObjectStorage),
            requests: rate(ChargeKind::StoreRequests),
            egress,
            moved: moved.filter(|_| leaves.is_some()),
            on_disk: network_disk(instance, data),
        }
    }

    /// What this bill leaves out for want of a rate.
    pub fn unpriced(&self) -> Vec<BillItem> {
        let mut missing = Vec::new();
        if self.disk.is_none() {
            missing.push(BillItem::Disk);
        }
        if self.storage.is_none() {
            missing.push(BillItem::CheckpointStorage);
        }
        if self.requests.is_none() {
            missing.push(BillItem::StoreRequests);
        }
        if self.moved.is_some() && self.egress.is_none() {
            missing.push(BillItem::Egress);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_market::Market;
    use gpuplan_workload::Models;
    use gpuplan_workload::file::WorkloadFile;

    fn moved_from(place: &str, to: (&str, &str)) -> Option<(bool, bool)> {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let text = format!(
            "model.preset = \"llama-3.1-8b\"\ntraining = {{ task = \"lora\", tokens = 2000000 }}\n\
             data = {{ size = \"50GB\", place = \"{place}\" }}\n"
        );
        let workload =
            WorkloadFile::parse(&text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload;
        let offer = market
            .offers()
            .iter()
            .find(|offer| (hardware.instance(offer.instance).cloud.as_str(), &*offer.place.region) == to);
        let offer = offer.expect("the catalog sells there");
        let instance = hardware.instance(offer.instance);
        let charges = SideCharges::new(&market.charges, offer, instance, workload.data.as_ref(), 1.0);
        charges.moved.map(|moved| {
            assert_eq!(moved, Bytes(50e9));
            let basis = charges.egress.map(|rate| rate.basis);
            let is_upper_bound = matches!(basis, Some(Basis::Price { is_upper_bound: true, .. }));
            (basis.is_some(), is_upper_bound)
        })
    }

    #[test]
    fn data_that_changes_its_region_is_paid_for_as_at_most_to_the_internet() {
        for (place, to, expected) in [
            ("aws/us-east-1", ("aws", "us-east-1"), None),
            ("aws/us-east-1", ("aws", "us-west-2"), Some((true, true))),
            ("aws", ("aws", "us-west-2"), None),
            ("gcp/us-central1", ("aws", "us-west-2"), Some((true, false))),
            ("gcp/us-central1", ("gcp", "europe-west4"), Some((true, true))),
            ("lambda/us-east-1", ("aws", "us-east-1"), Some((false, false))),
        ] {
            assert_eq!(moved_from(place, to), expected, "from {place} to {to:?}");
        }
    }
}
