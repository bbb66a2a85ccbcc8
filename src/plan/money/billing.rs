//! From the hours that machines are used to the lines of a bill.

use crate::money::bill::{Basis, Bill, BillItem, BillLine, HOURS_PER_MONTH, MACHINE_HOUR};
use crate::money::drift::Drift;
use crate::money::pricer::Booked;
use crate::money::side_charges::{Rate, SideCharges};
use crate::training::run::RunTime;
use gpuplan_market::Offer;
use gpuplan_units::{Bytes, MINIMUM_BILLED_SECONDS, Usd, billed_seconds};

/// Checkpoints kept in the bucket: the newest and the one before, in case the newest is torn.
const CHECKPOINTS_KEPT: f64 = 2.0;

/// Everything a bill needs besides the hours.
pub struct BillInput<'a> {
    pub offer: &'a Offer,
    /// Since its price was seen.
    pub drift: Drift,
    pub nodes: u32,
    /// In the bucket: one checkpoint of everything that saves.
    pub saved: Bytes,
    pub charges: &'a SideCharges,
    /// What the lost hours rest on.
    pub loss_basis: &'static str,
}

/// Hours that a bill is for.
#[derive(Clone, Debug, Default)]
pub struct UsedHours {
    /// On the offer's machines, without what is lost.
    pub working: f64,
    /// On the offer's machines: saving, redone work and restarts.
    pub lost: f64,
    /// On machines to fall back to.
    pub fallback: Option<FallbackHours>,
    /// From the request to the last save; what is stored is paid for as long.
    pub elapsed: f64,
}

/// Hours on on-demand machines that stand in for spot ones.
#[derive(Clone, Debug)]
pub struct FallbackHours {
    pub hours: f64,
    /// Of one machine, an hour.
    pub rate: Usd,
    pub drift: Drift,
    pub basis: Basis,
}

impl UsedHours {
    /// A run that holds its machines from the first moment to the last.
    pub fn held(working: f64, lost: f64) -> Self {
        Self { working, lost, fallback: None, elapsed: working + lost }
    }

    /// The same, where what was booked is paid for however long it is used.
    pub fn held_or_booked(hours: f64, booked: Option<Booked>) -> Self {
        let working = booked.map_or(hours, |booked| booked.paid_hours);
        Self { working, lost: 0.0, fallback: None, elapsed: hours }
    }

    /// The expected hours of a run on machines that are not taken back.
    pub fn expected(run: &RunTime) -> Self {
        Self::held(run.start() + run.training.expected, run.lost_hours)
    }
}

impl BillInput<'_> {
    /// `None` if a figure is beyond counting.
    pub fn bill(&self, used: &UsedHours) -> Option<Bill> {
        let nodes = f64::from(self.nodes);
        let working = billed_seconds(used.working * 3600.0, MINIMUM_BILLED_SECONDS) / 3600.0;
        let elapsed = working + (used.elapsed - used.working);
        let mut lines = Vec::with_capacity(6);
        let rate = self.offer.quote.rate.times(1);
        let basis = price_basis(self.offer);
        lines.push(BillLine::new(BillItem::Machines, working * nodes, MACHINE_HOUR, rate, basis)?);
        let mut changes = vec![(working + used.lost, rate, self.drift, price_basis(self.offer))];
        if let Some(FallbackHours { hours, rate, drift, basis }) =
            used.fallback.as_ref().filter(|used| used.hours > 0.0)
        {
            lines.push(BillLine::new(BillItem::Fallback, hours * nodes, MACHINE_HOUR, *rate, basis.clone())?);
            changes.push((*hours, *rate, *drift, basis.clone()));
        }
        if used.lost > 0.0 {
            let basis = Basis::LossRate(self.loss_basis);
            lines.push(BillLine::new(BillItem::LostWork, used.lost * nodes, MACHINE_HOUR, rate, basis)?);
        }
        for (hours, rate, drift, basis) in changes.into_iter().filter(|(_, _, drift, _)| drift.expected > 1.0) {
            let more = Usd::from_dollars(rate.dollars() * (drift.expected - 1.0))?;
            lines.push(BillLine::new(BillItem::PriceChange, hours * nodes, MACHINE_HOUR, more, basis)?);
        }
        lines.extend(self.side_lines(elapsed / HOURS_PER_MONTH)?);
        Some(Bill { lines })
    }

    /// What is not machines, when the run takes so long: the same for every way to rent them.
    pub fn side_costs(&self, elapsed: f64) -> Option<Usd> {
        Some(self.side_lines(elapsed / HOURS_PER_MONTH)?.iter().map(|line| line.cost).sum())
    }

    /// Disk, storage and egress for so many months.
    fn side_lines(&self, months: f64) -> Option<Vec<BillLine>> {
        let mut lines = Vec::new();
        let mut add = |item: BillItem, quantity: f64, rate: &Rate| {
            lines.push(BillLine::new(item, quantity, rate.unit, rate.price, rate.basis.clone())?);
            Some(())
        };
        if let Some(disk) = &self.charges.disk {
            add(BillItem::Disk, self.charges.on_disk.0 / disk.unit_bytes * f64::from(self.nodes) * months, disk)?;
        }
        if let Some(storage) = &self.charges.storage {
            add(BillItem::CheckpointStorage, self.saved.0 * CHECKPOINTS_KEPT / storage.unit_bytes * months, storage)?;
        }
        if let (Some(egress), Some(moved)) = (&self.charges.egress, self.charges.moved) {
            add(BillItem::Egress, moved.0 / egress.unit_bytes, egress)?;
        }
        Some(lines)
    }
}

/// Where and when the price of an offer was seen.
pub fn price_basis(offer: &Offer) -> Basis {
    Basis::Price {
        source: offer.source.clone(),
        observed_at: offer.quote.observed_at,
        is_unverified: false,
        is_upper_bound: false,
    }
}
