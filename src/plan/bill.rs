//! `Bill`: what a run costs as line items; the lines add up to the total to the nano-dollar.

use std::sync::Arc;

use crate::run::RunTime;
use gpuplan_hardware::InstanceType;
use gpuplan_market::{Charge, ChargeKind, Charges, Offer};
use gpuplan_units::{Bytes, MINIMUM_BILLED_SECONDS, Usd, billed_seconds};
use gpuplan_workload::{DataSet, Storage};

/// Hours of a billing month, as the clouds count it.
pub const HOURS_PER_MONTH: f64 = 730.0;
/// Root disk beside the data: image, environment, logs. GiB. A deep learning image needs 45 to 100.
const ROOT_DISK_GIB: f64 = 100.0;
/// Of local disks, what data may take: the rest is for the file system, the work and checkpoints. Judged.
const SHARE_FOR_DATA: f64 = 0.9;
/// Checkpoints kept in the bucket: the newest and the one before, in case the newest is torn.
const CHECKPOINTS_KEPT: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillItem {
    Machines,
    /// On-demand machines of a plan that rents spot first.
    Fallback,
    LostWork,
    Disk,
    CheckpointStorage,
    Egress,
}

impl BillItem {
    pub fn label(self) -> &'static str {
        match self {
            Self::Machines => "machines",
            Self::Fallback => "on-demand fallback",
            Self::LostWork => "saving, lost work and restarts",
            Self::Disk => "network disk",
            Self::CheckpointStorage => "checkpoint storage",
            Self::Egress => "data egress",
        }
    }
}

/// `cost` is `quantity x unit_price`, rounded once to the nano-dollar.
#[derive(Clone, Debug, PartialEq)]
pub struct BillLine {
    pub item: BillItem,
    pub quantity: f64,
    pub unit: &'static str,
    pub unit_price: Usd,
    pub cost: Usd,
    pub basis: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bill {
    pub lines: Vec<BillLine>,
}

impl Bill {
    pub fn total(&self) -> Usd {
        self.lines.iter().map(|line| line.cost).sum()
    }
}

/// Side charges of one place, looked up once an offer.
#[derive(Clone, Debug, Default)]
pub struct PlaceCharges {
    disk: Option<Rate>,
    storage: Option<Rate>,
    egress: Option<Rate>,
    /// Data that must be moved to this cloud.
    moved: Option<Bytes>,
    /// On the disk of each machine.
    on_disk: Bytes,
}

/// The disk that a machine needs: image, environment and logs, and the data where there is no local NVMe that holds it.
pub fn disk(instance: &InstanceType, data: Option<&DataSet>) -> Bytes {
    let elsewhere =
        data.filter(|data| data.reading.storage != Storage::ObjectStore && !fits_on_local_disks(instance, data));
    Bytes(ROOT_DISK_GIB * f64::from(1 << 30) + elsewhere.map_or(0.0, |data| data.size.0))
}

/// Whether the data has its place on disks that come with the machine.
pub fn fits_on_local_disks(instance: &InstanceType, data: &DataSet) -> bool {
    data.reading.storage == Storage::Disk
        && instance.local_nvme.is_some_and(|nvme| data.size.0 <= nvme.0 * SHARE_FOR_DATA)
}

#[derive(Clone, Debug)]
pub(super) struct Rate {
    pub(super) price: Usd,
    pub(super) unit_bytes: f64,
    pub(super) unit: &'static str,
    pub(super) basis: Arc<str>,
}

impl Rate {
    pub(super) fn new(charge: &Charge) -> Self {
        let doubt = if charge.is_unverified { ", unverified" } else { "" };
        let basis = format!("{} of {}{doubt}", charge.source, charge.observed_at.strftime("%Y-%m-%d"));
        Self { price: charge.rate, unit_bytes: charge.unit_bytes(), unit: charge.unit_word(), basis: basis.into() }
    }
}

impl PlaceCharges {
    /// Rates of the offer's place, and of the place that the data leaves so many times.
    pub fn new(charges: &Charges, offer: &Offer, instance: &InstanceType, data: Option<&DataSet>, times: f64) -> Self {
        let rate = |kind| charges.find(kind, &instance.cloud, &offer.place.region).map(Rate::new);
        let from =
            data.and_then(|data| data.place.as_deref()).map(|place| place.split_once('/').unwrap_or((place, "*")));
        let leaves = from.filter(|(cloud, _)| *cloud != instance.cloud.as_str());
        let egress = leaves.and_then(|(cloud, region)| {
            charges.find(ChargeKind::EgressInternet, &gpuplan_hardware::CloudId::new(cloud), region).map(Rate::new)
        });
        let moved = data.map(|data| Bytes(data.size.0 * times));
        Self {
            disk: rate(ChargeKind::NetworkDisk),
            storage: rate(ChargeKind::ObjectStorage),
            egress,
            moved: moved.filter(|_| leaves.is_some()),
            on_disk: disk(instance, data),
        }
    }

    /// What this bill leaves out for want of a rate.
    pub fn unpriced(&self) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if self.disk.is_none() {
            missing.push("network disk");
        }
        if self.storage.is_none() {
            missing.push("checkpoint storage");
        }
        if self.moved.is_some() && self.egress.is_none() {
            missing.push("data egress");
        }
        missing
    }
}

/// Everything a bill needs beside the hours.
pub struct BillInput<'a> {
    pub offer: &'a Offer,
    pub nodes: u32,
    pub saved: Bytes,
    pub charges: &'a PlaceCharges,
    pub rate_basis: &'a Arc<str>,
    pub risk_basis: &'static str,
}

/// Hours that a bill is for.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// On the offer's machines, without what is lost.
    pub working: f64,
    /// On the offer's machines: saving, redone work and restarts.
    pub lost: f64,
    /// On machines to fall back to, their rate and its basis.
    pub fallback: Option<(f64, Usd, Arc<str>)>,
    /// From the request to the last save; what is stored is paid for as long.
    pub elapsed: f64,
}

impl Used {
    /// A run that holds its machines from the first moment to the last.
    pub fn held(working: f64, lost: f64) -> Self {
        Self { working, lost, fallback: None, elapsed: working + lost }
    }

    /// The expected hours of a run on machines that are not taken back.
    pub fn expected(run: &RunTime) -> Self {
        Self::held(run.start() + run.training.expected, run.lost_hours)
    }
}

impl BillInput<'_> {
    /// `None` if a figure is beyond counting.
    pub fn bill(&self, used: &Used) -> Option<Bill> {
        let nodes = f64::from(self.nodes);
        let working = billed_seconds(used.working * 3600.0, MINIMUM_BILLED_SECONDS) / 3600.0;
        let elapsed = working + (used.elapsed - used.working);
        let mut lines = Vec::with_capacity(6);
        let rate = self.offer.quote.rate.times(1);
        lines.push(line(BillItem::Machines, working * nodes, "machine-hour", rate, self.rate_basis)?);
        if let Some((hours, rate, basis)) = used.fallback.as_ref().filter(|(hours, _, _)| *hours > 0.0) {
            lines.push(line(BillItem::Fallback, hours * nodes, "machine-hour", *rate, basis)?);
        }
        if used.lost > 0.0 {
            lines.push(line(BillItem::LostWork, used.lost * nodes, "machine-hour", rate, &self.risk_basis.into())?);
        }
        lines.extend(self.kept(elapsed / HOURS_PER_MONTH)?);
        Some(Bill { lines })
    }

    /// What is not machines, when the run takes so long: the same for every way to rent them.
    pub fn beside_machines(&self, elapsed: f64) -> Option<Usd> {
        Some(self.kept(elapsed / HOURS_PER_MONTH)?.iter().map(|line| line.cost).sum())
    }

    /// Disk, storage and egress for so many months.
    fn kept(&self, months: f64) -> Option<Vec<BillLine>> {
        let mut lines = Vec::new();
        if let Some(disk) = &self.charges.disk {
            let quantity = self.charges.on_disk.0 / disk.unit_bytes * f64::from(self.nodes) * months;
            lines.push(line(BillItem::Disk, quantity, disk.unit, disk.price, &disk.basis)?);
        }
        if let Some(storage) = &self.charges.storage {
            let quantity = self.saved.0 * CHECKPOINTS_KEPT / storage.unit_bytes * months;
            lines.push(line(BillItem::CheckpointStorage, quantity, storage.unit, storage.price, &storage.basis)?);
        }
        if let (Some(egress), Some(moved)) = (&self.charges.egress, self.charges.moved) {
            lines.push(line(BillItem::Egress, moved.0 / egress.unit_bytes, egress.unit, egress.price, &egress.basis)?);
        }
        Some(lines)
    }
}

pub(super) fn line(
    item: BillItem,
    quantity: f64,
    unit: &'static str,
    unit_price: Usd,
    basis: &Arc<str>,
) -> Option<BillLine> {
    let cost = Usd::from_dollars(quantity * unit_price.nanos() as f64 / 1e9)?;
    Some(BillLine { item, quantity, unit, unit_price, cost, basis: basis.clone() })
}
