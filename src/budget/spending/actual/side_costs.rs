//! What a run paid for besides machines: their disks, what it keeps in its store, and data that left another cloud or region.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::charge::{Charge, Costs, Item, Nature, Resource};
use crate::spending::actual::{NANOS_PER_HOUR, RunCharge, RunFacts, Seen, UncountableCharge};
use gpuplan_plan::money::bill::HOURS_PER_MONTH;
use gpuplan_runstore::{Side, SidePrice};
use gpuplan_units::Usd;

const BYTES_PER_GIB: f64 = 1_073_741_824.0;

impl RunFacts {
    /// Where the launch knew a price; a run that no launch began has none.
    pub(super) fn side_costs(&self, seen: &[Seen], now: Timestamp) -> Result<Vec<RunCharge>, UncountableCharge> {
        let disks = seen.iter().filter_map(|machine| self.disk(machine));
        let fetched = seen.iter().filter_map(|machine| self.data_out(machine));
        disks.chain(fetched).chain(self.stored_by_month(now)).collect()
    }

    fn side_price(&self, of: Side, place: Option<(&str, &str)>) -> Option<&SidePrice> {
        let prices = &self.expected.as_ref()?.beside;
        prices.iter().find(|price| {
            price.of == of && place.is_none_or(|place| place == (price.cloud.as_str(), price.region.as_str()))
        })
    }

    /// The root disk lives as long as its machine.
    fn disk(&self, machine: &Seen) -> Option<Result<RunCharge, UncountableCharge>> {
        let rented = machine.rented?;
        let price = self.side_price(Side::Disk, Some((&rented.cloud, &rented.region)))?;
        let bytes = f64::from(self.disk_gib?) * BYTES_PER_GIB;
        let quantity = bytes / price.unit_bytes * rented.seconds / 3600.0 / HOURS_PER_MONTH;
        let charge = self.side_cost(price, quantity, format!("{}/disk", self.machine_id(machine)));
        let real = SignedDuration::from_secs_f64(rented.seconds / self.speed.max(f64::MIN_POSITIVE));
        let (start, end) = (rented.from, rented.from.checked_add(real).unwrap_or(Timestamp::MAX));
        let assumption = format!("{} GiB for the time of its machine, a month of {HOURS_PER_MONTH} h", self.disk_gib?);
        Some(charge.map(|mut charge| {
            charge.resource.zone.clone_from(&rented.zone);
            RunCharge {
                charge: Charge { item: Item::Disk, start, end, assumption, ..charge },
                is_open: rented.to.is_none(),
            }
        }))
    }

    /// A machine that came so far as to start an agent fetched the data.
    fn data_out(&self, machine: &Seen) -> Option<Result<RunCharge, UncountableCharge>> {
        let (rented, expected) = (machine.rented.filter(|_| !machine.billed.is_empty())?, self.expected.as_ref()?);
        let (price, bytes) = (self.side_price(Side::DataOut, None)?, expected.fetched_bytes?);
        // Where the data lies, nothing is moved.
        if price.is_in(&rented.cloud, &rented.region) {
            return None;
        }
        let charge = self.side_cost(price, bytes / price.unit_bytes, format!("{}/data-out", self.machine_id(machine)));
        let (start, end) = (rented.from, rented.from);
        let assumption = if price.cloud == rented.cloud {
            format!(
                "all of the data, once on each machine, out of {}; no list says what another region is charged",
                price.region
            )
        } else {
            format!("all of the data, once on each machine, out of {}", price.cloud)
        };
        // Who sends it bills it: it has no zone of the machine.
        Some(charge.map(|charge| RunCharge {
            charge: Charge { item: Item::Egress, start, end, assumption, ..charge },
            is_open: rented.to.is_none(),
        }))
    }

    /// Month by month, until it is deleted; months that are over do not grow any more.
    fn stored_by_month(&self, now: Timestamp) -> Vec<Result<RunCharge, UncountableCharge>> {
        let (Some(price), Some(mut from)) =
            (self.side_price(Side::Storage, None), self.stored.iter().map(|stored| stored.since).min())
        else {
            return Vec::new();
        };
        let mut found = Vec::new();
        while let Some((name, next)) = month_and_next(from).filter(|_| from < now) {
            let to = next.min(now);
            let hours = |since: Timestamp| to.duration_since(since.max(from)).as_nanos().max(0) as f64 / NANOS_PER_HOUR;
            let byte_hours: f64 = self.stored.iter().map(|stored| stored.bytes as f64 * hours(stored.since)).sum();
            let quantity = byte_hours / price.unit_bytes / HOURS_PER_MONTH;
            let id = format!("run/{}@{}/storage/{name}", self.run, self.key);
            let assumption =
                "what lies in the store now, since it was written; what was deleted before is not in it; beside the machines".to_owned();
            let of_month = self.side_cost(price, quantity, id);
            found.push(of_month.map(|charge| RunCharge {
                charge: Charge { item: Item::CheckpointStorage, start: from, end: to, assumption, ..charge },
                is_open: to < next,
            }));
            from = next;
        }
        found
    }

    /// At the price of the launch, without a time. The error is the id.
    fn side_cost(&self, price: &SidePrice, quantity: f64, id: String) -> Result<Charge, UncountableCharge> {
        // As the bill of a plan has it: quantity times price, rounded once.
        let Some(cost) = Usd::from_dollars(quantity * price.usd.nanos() as f64 / 1e9) else {
            return Err(UncountableCharge(id));
        };
        Ok(Charge {
            id,
            nature: Nature::Actual,
            item: Item::Other,
            allocation: self.allocation(),
            start: Timestamp::MIN,
            end: Timestamp::MIN,
            resource: Resource {
                cloud: price.cloud.clone(),
                region: Some(price.region.clone()),
                ..Resource::default()
            },
            quantity,
            unit: price.unit.clone(),
            unit_price: price.usd,
            costs: Costs { list: cost, contracted: cost, effective: cost, billed: None },
            waste: None,
            source: price.source.clone(),
            priced_at: Some(price.observed_at),
            assumption: String::new(),
            invoice: None,
        })
    }
}

/// `2026-10`, and the first moment of the month after.
fn month_and_next(at: Timestamp) -> Option<(String, Timestamp)> {
    let first = at.to_zoned(TimeZone::UTC).date().first_of_month();
    let next: Date = first.last_of_month().tomorrow().ok()?;
    Some((first.strftime("%Y-%m").to_string(), next.to_zoned(TimeZone::UTC).ok()?.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_runstore::{AllRented, Billed, Expected, Rented, Stored};
    use gpuplan_units::{Quantiles, UsdPerHour};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn price(of: Side, cloud: &str, usd: &str) -> SidePrice {
        SidePrice {
            of,
            cloud: cloud.to_owned(),
            region: "r".to_owned(),
            usd: Usd::parse(usd).unwrap(),
            unit: if of == Side::DataOut { "GB" } else { "GiB-month" }.to_owned(),
            unit_bytes: if of == Side::DataOut { 1e9 } else { BYTES_PER_GIB },
            source: "list".to_owned(),
            observed_at: at("2026-09-01T00:00:00Z"),
        }
    }

    fn machine(number: u64, region: &str, hours: f64) -> Rented {
        Rented {
            machine: format!("i-{number}"),
            epoch: number,
            node: 0,
            cloud: "aws".to_owned(),
            region: region.to_owned(),
            zone: None,
            instance_type: String::new(),
            purchase: "spot".to_owned(),
            place: String::new(),
            rate_usd_per_hour: UsdPerHour::default(),
            minimum_seconds: 60,
            from: at(&format!("2026-10-0{number}T00:00:00Z")),
            to: Some(at(&format!("2026-10-0{number}T20:00:00Z"))),
            seconds: hours * 3600.0,
        }
    }

    fn facts() -> RunFacts {
        let expected = Expected {
            plan: String::new(),
            gpu: String::new(),
            gpus_per_node: 1.0,
            framework: String::new(),
            cost_usd: Quantiles::default(),
            hours: Quantiles::default(),
            interruptions: 0.0,
            tokens: None,
            prices: Vec::new(),
            basis: None,
            beside: vec![
                price(Side::Disk, "aws", "0.08"),
                price(Side::Storage, "aws", "0.02"),
                price(Side::DataOut, "gcp", "0.12"),
            ],
            fetched_bytes: Some(50e9),
        };
        let agent = Billed {
            epoch: 1,
            node: 0,
            rate_usd_per_hour: UsdPerHour::default(),
            minimum_seconds: 60,
            from: at("2026-10-01T00:10:00Z"),
            elapsed_nanos: 1,
            free_if_interrupted_within_seconds: 0,
            is_interrupted: false,
            started_after_nanos: None,
            saved: None,
        };
        RunFacts {
            run: "a".to_owned(),
            key: "k".to_owned(),
            speed: 1.0,
            expected: Some(expected),
            disk_gib: Some(100),
            billed: vec![agent],
            rented: Some(AllRented {
                machines: vec![machine(1, "r", 73.0), machine(2, "elsewhere", 73.0)],
                ..AllRented::default()
            }),
            stored: vec![Stored { bytes: 1 << 30, since: at("2026-10-11T00:00:00Z") }],
            ..RunFacts::default()
        }
    }

    #[test]
    fn disk_data_and_storage_are_quantity_times_the_price_of_launch() {
        let found = facts().charges(at("2026-11-06T00:00:00Z")).unwrap();
        let found: Vec<RunCharge> = found.into_iter().filter(|one| one.charge.unit != "hour").collect();
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.charge.id.as_str(), one.charge.costs.contracted.to_string(), one.is_open))
            .collect();
        // 100 GiB for a tenth of a month; 50 GB; one GiB for 21 days of October and 5 of November. Nothing where no price is known.
        let expected = [
            ("run/a@k/e1-0-i-1/disk", "0.80", false),
            ("run/a@k/e1-0-i-1/data-out", "6.00", false),
            ("run/a@k/storage/2026-10", "0.0138082", false),
            ("run/a@k/storage/2026-11", "0.0032876", true),
        ];
        assert_eq!(shown.len(), 4, "{shown:?}");
        for ((id, cost, is_open), (wanted, amount, open)) in shown.iter().zip(expected) {
            assert!(*id == wanted && cost.starts_with(amount.trim_end_matches('0')) && *is_open == open, "{shown:?}");
        }
        assert_eq!((found[1].charge.resource.cloud.as_str(), found[0].charge.unit.as_str()), ("gcp", "GiB-month"));
    }

    #[test]
    fn data_of_another_region_is_moved_and_that_of_the_same_is_not() {
        let moved = |region: &str| {
            let mut facts = facts();
            if let Some(expected) = &mut facts.expected {
                expected.beside = vec![SidePrice { region: region.to_owned(), ..price(Side::DataOut, "aws", "0.09") }];
            }
            let found = facts.charges(at("2026-11-06T00:00:00Z")).unwrap();
            let of_data = found.into_iter().map(|one| one.charge).filter(|charge| charge.item == Item::Egress);
            of_data.map(|charge| (charge.costs.contracted.to_string(), charge.assumption)).collect::<Vec<_>>()
        };
        // The machine that fetched is in the region `r`: 50 GB at no more than what the internet costs.
        let found = moved("us-west-2");
        assert_eq!((found.len(), found[0].0.as_str()), (1, "4.50"));
        assert!(found[0].1.contains("out of us-west-2; no list says"), "{}", found[0].1);
        assert_eq!((moved("r"), moved("*")), (Vec::new(), Vec::new()));
    }

    #[test]
    fn what_cannot_be_counted_is_an_error_and_not_free() {
        let mut facts = facts();
        if let Some(expected) = &mut facts.expected {
            expected.fetched_bytes = Some(1e40);
        }
        assert_eq!(
            facts.charges(at("2026-11-06T00:00:00Z")),
            Err(UncountableCharge("run/a@k/e1-0-i-1/data-out".to_owned()))
        );
    }
}
