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
    /// Requests that write all checkpoints of the run.
    pub requests: f64,
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

/// What a line rests on, before anybody asks for it.
enum RestsOn<'a> {
    Offer,
    Losses,
    Fallback(&'a Basis),
    Side(&'a Rate),
}

/// One line of a bill without its cost.
struct Part<'a> {
    item: BillItem,
    quantity: f64,
    unit: &'static str,
    price: Usd,
    rests_on: RestsOn<'a>,
}

impl BillInput<'_> {
    /// `None` if a figure is beyond counting.
    pub fn bill(&self, used: &UsedHours) -> Option<Bill> {
        let mut lines = Vec::with_capacity(8);
        self.parts(used, |Part { item, quantity, unit, price, rests_on }| {
            let basis = match rests_on {
                RestsOn::Offer => price_basis(self.offer),
                RestsOn::Losses => Basis::LossRate(self.loss_basis),
                RestsOn::Fallback(basis) => basis.clone(),
                RestsOn::Side(rate) => rate.basis.clone(),
            };
            lines.push(BillLine::new(item, quantity, unit, price, basis)?);
            Some(())
        })?;
        Some(Bill { lines })
    }

    /// The same added up, without the lines: to the nano-dollar the total of `bill`.
    pub fn total(&self, used: &UsedHours) -> Option<Usd> {
        let mut total = Usd::ZERO;
        self.parts(used, |part| {
            total = total + BillLine::cost(part.quantity, part.price)?;
            Some(())
        })?;
        Some(total)
    }

    /// What is not machines, when the run takes so long: the same for every way to rent them.
    pub fn side_costs(&self, elapsed: f64) -> Option<Usd> {
        let mut total = Usd::ZERO;
        self.side_parts(elapsed / HOURS_PER_MONTH, &mut |part| {
            total = total + BillLine::cost(part.quantity, part.price)?;
            Some(())
        })?;
        Some(total)
    }

    fn parts(&self, used: &UsedHours, mut add: impl FnMut(Part) -> Option<()>) -> Option<()> {
        let nodes = f64::from(self.nodes);
        let working = billed_seconds(used.working * 3600.0, MINIMUM_BILLED_SECONDS) / 3600.0;
        let elapsed = working + (used.elapsed - used.working);
        let rate = self.offer.quote.rate.times(1);
        let time = |item, hours: f64, price, rests_on| Part {
            item,
            quantity: hours * nodes,
            unit: MACHINE_HOUR,
            price,
            rests_on,
        };
        let fallback = used.fallback.as_ref().filter(|used| used.hours > 0.0);
        add(time(BillItem::Machines, working, rate, RestsOn::Offer))?;
        if let Some(fallback) = fallback {
            add(time(BillItem::Fallback, fallback.hours, fallback.rate, RestsOn::Fallback(&fallback.basis)))?;
        }
        if used.lost > 0.0 {
            add(time(BillItem::LostWork, used.lost, rate, RestsOn::Losses))?;
        }
        let own = (working + used.lost, rate, self.drift, RestsOn::Offer);
        let other = fallback.map(|it| (it.hours, it.rate, it.drift, RestsOn::Fallback(&it.basis)));
        for (hours, rate, drift, rests_on) in std::iter::once(own).chain(other) {
            if drift.expected > 1.0 {
                let more = Usd::from_dollars(rate.dollars() * (drift.expected - 1.0))?;
                add(time(BillItem::PriceChange, hours, more, rests_on))?;
            }
        }
        self.side_parts(elapsed / HOURS_PER_MONTH, &mut add)
    }

    /// Disk, storage, its requests and egress for so many months.
    fn side_parts(&self, months: f64, add: &mut impl FnMut(Part) -> Option<()>) -> Option<()> {
        let mut part = |item: BillItem, quantity: f64, rate: &Rate| {
            add(Part { item, quantity, unit: rate.unit, price: rate.price, rests_on: RestsOn::Side(rate) })
        };
        if let Some(disk) = &self.charges.disk {
            part(BillItem::Disk, self.charges.on_disk.0 / disk.unit_bytes * f64::from(self.nodes) * months, disk)?;
        }
        if let Some(storage) = &self.charges.storage {
            part(BillItem::CheckpointStorage, self.saved.0 * CHECKPOINTS_KEPT / storage.unit_bytes * months, storage)?;
        }
        if let Some(rate) = self.charges.requests.as_ref().filter(|_| self.requests > 0.0) {
            part(BillItem::StoreRequests, self.requests, rate)?;
        }
        if let (Some(egress), Some(moved)) = (&self.charges.egress, self.charges.moved) {
            part(BillItem::Egress, moved.0 / egress.unit_bytes, egress)?;
        }
        Some(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_market::Market;

    #[test]
    fn the_total_is_that_of_the_lines_to_the_nano_dollar() {
        let market = Market::embedded(&Hardware::embedded().unwrap()).unwrap();
        let basis = Basis::LossRate("a test");
        let rate = |price: &str| {
            let price = Usd::parse(price).unwrap();
            Some(Rate { price, unit_bytes: 1e9, unit: "GB-month", basis: basis.clone() })
        };
        let charges = SideCharges {
            disk: rate("0.081"),
            storage: rate("0.0231"),
            requests: rate("0.000005"),
            egress: rate("0.087"),
            moved: Some(Bytes(3.3e11)),
            on_disk: Bytes(7.7e11),
        };
        let bare = SideCharges::default();
        for (at, offer) in market.offers().iter().enumerate().step_by(37) {
            let drift = Drift { expected: 1.0 + (at % 5) as f64 / 30.0, p90: 1.4, gone: 0.0 };
            let fallback = FallbackHours {
                hours: (at % 3) as f64 * 1.7,
                rate: offer.quote.rate.times(3),
                drift,
                basis: basis.clone(),
            };
            let input = BillInput {
                offer,
                drift,
                nodes: 1 + at as u32 % 7,
                saved: Bytes(1.6e10),
                requests: 3.1 * (at % 5) as f64,
                charges: if at % 2 == 0 { &charges } else { &bare },
                loss_basis: "a test",
            };
            let used = UsedHours {
                working: 0.003 * at as f64,
                lost: (at % 4) as f64 / 3.0,
                fallback: Some(fallback),
                elapsed: 0.004 * at as f64,
            };
            let bill = input.bill(&used).unwrap();
            assert_eq!(input.total(&used).unwrap(), bill.total(), "{bill:?}");
            let sides: Usd = bill.lines.iter().filter(|line| line.unit != MACHINE_HOUR).map(|line| line.cost).sum();
            let elapsed =
                billed_seconds(used.working * 3600.0, MINIMUM_BILLED_SECONDS) / 3600.0 + used.elapsed - used.working;
            assert_eq!(input.side_costs(elapsed).unwrap(), sides);
        }
    }
}
