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
    /// Since when the rate holds, where it has moved, and what was paid until then.
    pub moved: Option<(f64, Usd)>,
}

impl Rental {
    pub fn cost(&self, now: f64) -> Usd {
        let seconds = billed_seconds(
            (self.until.map_or(now, |until| until.min(now)) - self.since).max(0.0),
            self.minimum_seconds,
        );
        let (before, paid) = self.moved.map_or((0.0, Usd::ZERO), |(at, paid)| (at - self.since, paid));
        let rest = self.rate.for_hours(1, (seconds - before).max(0.0) / 3600.0);
        rest.map_or(BEYOND_COUNTING, |rest| paid + rest)
    }

    /// From now on an hour of it costs this.
    fn costs(&mut self, rate: UsdPerHour, now: f64) {
        if self.until.is_some() || self.moved.is_none() && self.rate == rate {
            return;
        }
        let (from, before) = self.moved.unwrap_or((self.since, Usd::ZERO));
        let paid = self.rate.for_hours(1, (now - from).max(0.0) / 3600.0).map_or(BEYOND_COUNTING, |usd| before + usd);
        (self.rate, self.moved) = (rate, Some((now.max(from), paid)));
    }

    /// What an hour has cost on average: until its end, or until its price was heard last.
    pub fn mean_rate(&self) -> UsdPerHour {
        let Some((at, _)) = self.moved else { return self.rate };
        let until = self.until.unwrap_or(at);
        let hours = (until - self.since) / 3600.0;
        let mean = Usd::from_dollars(self.cost(until).dollars() / hours);
        mean.and_then(|mean| i64::try_from(mean.nanos()).ok()).map_or(self.rate, UsdPerHour::from_nanos)
    }
}

/// Every machine that a run has rented.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rentals(pub Vec<Rental>);

impl Rentals {
    /// Whether it was not known: renting what is rented already changes nothing.
    pub fn add(&mut self, rental: Rental) -> bool {
        let is_new = !self.knows(&rental.machine);
        if is_new {
            self.0.push(rental);
        }
        is_new
    }

    /// The machine was rented, whatever became of it.
    pub fn knows(&self, machine: &MachineId) -> bool {
        self.0.iter().rev().any(|known| known.machine == *machine)
    }

    pub fn end(&mut self, machine: &MachineId, now: f64) {
        if let Some(rental) = self.0.iter_mut().find(|rental| rental.until.is_none() && rental.machine == *machine) {
            rental.until = Some(now);
        }
    }

    /// These machines cost so much an hour from now on.
    pub fn cost_now(&mut self, machines: &[MachineId], rate: UsdPerHour, now: f64) {
        for rental in self.0.iter_mut().filter(|rental| machines.contains(&rental.machine)) {
            rental.costs(rate, now);
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
            moved: None,
        };
        let all = Rentals(vec![rental(0.0, Some(1000.0)), rental(1000.0, None), rental(1990.0, None)]);
        assert_eq!(all.spent(2000.0), Usd::from_dollars(1.0 + 1.0 + 0.06).unwrap());
        assert!(all.spent(f64::INFINITY).dollars() > 1e9, "what cannot be counted is not free");
        let waits = Rentals(vec![rental(0.0, Some(5000.0))]);
        assert_eq!(waits.spent(1000.0), Usd::from_dollars(1.0).unwrap(), "what is to come is not spent yet");
    }

    #[test]
    fn a_rental_whose_price_moves_costs_what_each_of_its_hours_did() {
        let (machine, rate) = (MachineId("m".to_owned()), |text| UsdPerHour::parse(text).unwrap());
        let rental = Rental {
            machine: machine.clone(),
            rate: rate("0.918"),
            minimum_seconds: 60,
            since: 0.0,
            until: None,
            moved: None,
        };
        let mut all = Rentals(vec![rental]);
        let of = std::slice::from_ref(&machine);
        all.cost_now(of, rate("0.918"), 1800.0);
        assert_eq!(all.0[0].moved, None, "nothing has moved");
        all.cost_now(of, rate("1.846"), 3600.0);
        all.cost_now(of, rate("1.846"), 5400.0);
        assert_eq!(all.spent(7200.0), Usd::from_dollars(0.918 + 1.846).unwrap());
        // What is kept of it says the same of the time until its price was heard last.
        let mean = all.0[0].mean_rate().dollars();
        assert!((mean * 1.5 - (0.918 + 0.923)).abs() < 1e-8, "{mean}");
        all.end(&machine, 7200.0);
        all.cost_now(of, rate("9"), 7300.0);
        assert_eq!(all.spent(9000.0), Usd::from_dollars(0.918 + 1.846).unwrap());
        assert!((all.0[0].mean_rate().dollars() - 1.382).abs() < 1e-8);
    }
}
