//! What a run pays for besides machines: the rates of disks, storage and egress in one place.

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
    pub egress: Option<Rate>,
    /// Data that must be moved to this cloud.
    pub moved: Option<Bytes>,
    /// On the disk of each machine.
    pub on_disk: Bytes,
}

/// The price of a unit of something that is kept or moved.
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
        let leaves = from.filter(|(cloud, _)| *cloud != instance.cloud.as_str());
        let egress = leaves.and_then(|(cloud, region)| {
            charges.find(ChargeKind::EgressInternet, &CloudId::new(cloud), region).map(Rate::new)
        });
        let moved = data.map(|data| Bytes(data.size.0 * times));
        Self {
            disk: rate(ChargeKind::NetworkDisk),
            storage: rate(ChargeKind::ObjectStorage),
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
        if self.moved.is_some() && self.egress.is_none() {
            missing.push(BillItem::Egress);
        }
        missing
    }
}
