//! `Rental`: a machine that is paid for, from when, at which rate; and what all of them cost.

use crate::ports::machine::MachineId;
use gpuplan_units::{Usd, UsdPerHour, billed_seconds};

/// What cannot be counted is more than any budget: where `Usd::from_dollars` stops.
const BEYOND_COUNTING: Usd = Usd::from_nanos(10_i128.pow(30));

/// A machine from its creation to its end, in seconds of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Rental {
    pub machine: MachineId,
    pub rate: UsdPerHour,
    /// Charged at least. Seconds.
    pub minimum_seconds: u32,
    pub since: f64,
    /// `None`: it may still cost money.
    pub until: Option<f64>,
}

impl Rental {
    pub fn cost(&self, now: f64) -> Usd {
        let seconds = billed_seconds((self.until.unwrap_or(now) - self.since).max(0.0), self.minimum_seconds);
        self.rate.for_hours(1, seconds / 3600.0).unwrap_or(BEYOND_COUNTING)
    }
}

/// Every machine that a run has rented.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rentals(pub Vec<Rental>);

impl Rentals {
    /// Whether it was not known: renting what is rented already changes nothing.
    pub fn add(&mut self, rental: Rental) -> bool {
        let is_new = !self.0.iter().any(|known| known.machine == rental.machine);
        if is_new {
            self.0.push(rental);
        }
        is_new
    }

    pub fn end(&mut self, machine: &MachineId, now: f64) {
        if let Some(rental) = self.0.iter_mut().find(|rental| rental.machine == *machine && rental.until.is_none()) {
            rental.until = Some(now);
        }
    }

    /// Those that may still cost money.
    pub fn open(&self) -> impl Iterator<Item = &Rental> {
        self.0.iter().filter(|rental| rental.until.is_none())
    }

    pub fn spent(&self, now: f64) -> Usd {
        self.0.iter().fold(Usd::ZERO, |sum, rental| sum + rental.cost(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rental_costs_until_it_ends_and_a_minute_at_least() {
        let rental = |since, until| Rental {
            machine: MachineId("m".to_owned()),
            rate: UsdPerHour::parse("3.60").unwrap(),
            minimum_seconds: 60,
            since,
            until,
        };
        let all = Rentals(vec![rental(0.0, Some(1000.0)), rental(1000.0, None), rental(1990.0, None)]);
        assert_eq!(all.spent(2000.0), Usd::from_dollars(1.0 + 1.0 + 0.06).unwrap());
        assert!(all.spent(f64::INFINITY).dollars() > 1e9, "what cannot be counted is not free");
    }
}
