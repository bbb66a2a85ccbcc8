//! From capacity block offerings to offers: an upfront fee becomes a rate. Names no SDK.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::prices::spot::Region;
use gpuplan_hardware::InstanceId;
use gpuplan_launch::block::LAST_MINUTES;
use gpuplan_market::{Availability, Booking, Location, Offer, Purchase, SourceNote};
use gpuplan_units::{Usd, UsdPerHour};

/// Id of this source in an offer.
pub const SOURCE: &str = "aws-capacity-blocks";

/// One offering as EC2 words it; every field may be missing.
#[derive(Clone, Debug, Default)]
pub struct Block {
    pub id: String,
    pub instance_type: String,
    pub zone_name: String,
    pub machines: i32,
    pub hours: i32,
    pub starts: Option<Timestamp>,
    pub ends: Option<Timestamp>,
    /// For all machines and hours together, as text.
    pub upfront_fee: String,
    pub currency: String,
}

/// UltraServers of a machine type that is sold in no smaller unit: the type to ask for, and how many. `None`: it is sold one by one.
/// 9 or 18 machines are one NVLink domain (EC2 user guide, "UltraServers": u-p6e-gb200x36 and u-p6e-gb200x72 have 36 and 72 GPUs, each
/// p6e-gb200.36xlarge four).
pub fn ultraservers(instance_type: &str, machines: u32) -> Option<Ultraservers> {
    let sizes = match instance_type {
        "p6e-gb200.36xlarge" => [("u-p6e-gb200x36", 9), ("u-p6e-gb200x72", 18)],
        _ => return None,
    };
    let (name, of) = if machines <= sizes[0].1 { sizes[0] } else { sizes[1] };
    Some(Ultraservers { name, count: machines.div_ceil(of), machines_each: of })
}

/// So many UltraServers of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ultraservers {
    pub name: &'static str,
    pub count: u32,
    pub machines_each: u32,
}

impl Block {
    /// Machines and hours that are paid for.
    fn size(&self) -> Result<(u32, u32), String> {
        match (u32::try_from(self.machines), u32::try_from(self.hours)) {
            (Ok(machines @ 1..), Ok(hours @ 1..)) => Ok((machines, hours)),
            _ => Err("it says no machines or no hours; the fee is left out".to_owned()),
        }
    }

    /// When its machines are there.
    fn booking(&self) -> Result<Booking, String> {
        let (machines, paid_hours) = self.size()?;
        let starts_at = self.starts.ok_or("it does not say when it starts; the fee is left out")?;
        let span = || starts_at.checked_add(SignedDuration::from_hours(i64::from(paid_hours))).ok();
        let ends_at = self.ends.or_else(span).and_then(|ends| ends.checked_sub(LAST_MINUTES).ok());
        let ends_at = ends_at.ok_or("it ends beyond counting; the fee is left out")?;
        Ok(Booking { starts_at, ends_at, machines, paid_hours })
    }

    /// For one machine, rounded up to the nano-dollar so that no fee is understated.
    fn rate(&self) -> Result<UsdPerHour, String> {
        if self.currency != "USD" {
            return Err(format!("the fee is in `{}`, not in USD; it is left out", self.currency));
        }
        let fee = Usd::parse(&self.upfront_fee).map_err(|error| format!("{error}; the fee is left out"))?;
        if fee == Usd::ZERO {
            return Err("a fee of zero is not a valid price; it is left out".to_owned());
        }
        let (machines, hours) = self.size()?;
        let machine_hours = i128::from(machines) * i128::from(hours);
        let nanos = (fee.nanos() + machine_hours - 1) / machine_hours;
        i64::try_from(nanos)
            .map(UsdPerHour::from_nanos)
            .map_err(|_| "the fee is more than this program can count".to_owned())
    }
}

/// The block of each machine type and zone that starts first, of two the cheaper: it is what can be had next.
pub fn offers(region: &Region, blocks: &[Block]) -> (Vec<Offer>, Vec<SourceNote>) {
    let mut first: BTreeMap<(InstanceId, Arc<str>), Offer> = BTreeMap::new();
    let order = |offer: &Offer| (offer.booking.as_deref().map(|booking| booking.starts_at), offer.quote.rate);
    let mut notes = Vec::new();
    for block in blocks {
        let Some(instance) = region.instances.get(&block.instance_type) else { continue };
        let read = region
            .zone_ids
            .get(&block.zone_name)
            .ok_or_else(|| "no zone id is known for this zone; the fee is left out".to_owned());
        match read.and_then(|zone_id| Ok((zone_id.as_str().into(), block.rate()?, block.booking()?))) {
            Ok((zone_id, rate, booking)) => {
                let zone_id: Arc<str> = zone_id;
                let place = Location { region: region.name.into(), zone_id: Some(Arc::clone(&zone_id)) };
                let mut offer =
                    Offer::live(*instance, place, Purchase::CapacityBlock, rate, SOURCE, region.answered_at);
                offer.flags = format!("block={}", block.id).into();
                offer.booking = Some(Box::new(booking));
                offer.availability = Availability::Seen;
                let key = (*instance, zone_id);
                if first.get(&key).is_none_or(|held| order(&offer) < order(held)) {
                    first.insert(key, offer);
                }
            }
            Err(detail) => {
                notes.push(SourceNote { place: format!("{}, {}", block.zone_name, block.instance_type), detail });
            }
        }
    }
    (first.into_values().collect(), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(fee: &str, hours: i32, machines: i32) -> Block {
        Block {
            id: "cb-1".to_owned(),
            instance_type: "p5e.48xlarge".to_owned(),
            zone_name: "us-east-2a".to_owned(),
            machines,
            hours,
            starts: "2026-08-02T11:30:00Z".parse().ok(),
            ends: None,
            upfront_fee: fee.to_owned(),
            currency: "USD".to_owned(),
        }
    }

    fn read(blocks: &[Block]) -> (Vec<Offer>, Vec<SourceNote>) {
        let zone_ids = [("us-east-2a".to_owned(), "use2-az1".to_owned())].into();
        let instances = [("p5e.48xlarge".to_owned(), InstanceId(3))].into();
        let answered_at = "2026-08-01T00:00:00Z".parse().unwrap();
        offers(
            &Region { name: "us-east-2", zone_ids: &zone_ids, instances: &instances, listed: None, answered_at },
            blocks,
        )
    }

    #[test]
    fn a_fee_becomes_a_rate_that_pays_all_of_it() {
        let (offers, notes) = read(&[block("100.00", 24, 3)]);
        assert_eq!(notes, []);
        assert_eq!(offers[0].quote.rate.nanos(), 1_388_888_889, "100 / 72, rounded up");
        let booking = offers[0].booking.as_deref().unwrap();
        assert_eq!((booking.machines, booking.paid_hours, &*offers[0].flags), (3, 24, "block=cb-1"));
        assert_eq!(booking.ends_at.to_string(), "2026-08-03T11:00:00Z", "machines end half an hour before the block");
        assert_eq!(
            (offers[0].purchase, offers[0].place.zone_id.as_deref()),
            (Purchase::CapacityBlock, Some("use2-az1"))
        );
    }

    #[test]
    fn a_rack_is_sold_whole() {
        let asked = |machines| ultraservers("p6e-gb200.36xlarge", machines).map(|it| (it.name, it.count));
        assert_eq!([1, 9].map(asked), [Some(("u-p6e-gb200x36", 1)); 2]);
        assert_eq!((asked(10), asked(37)), (Some(("u-p6e-gb200x72", 1)), Some(("u-p6e-gb200x72", 3))));
        assert_eq!(ultraservers("p5.48xlarge", 4), None);
    }

    #[test]
    fn the_earliest_block_of_a_zone_is_the_offer() {
        let earlier =
            Block { id: "cb-0".to_owned(), starts: "2026-08-01T11:30:00Z".parse().ok(), ..block("48", 24, 1) };
        let dearer = Block { upfront_fee: "49".to_owned(), id: "cb-2".to_owned(), ..earlier.clone() };
        let (offers, _) = read(&[dearer, block("24", 24, 1), earlier]);
        assert_eq!(offers.len(), 1);
        assert!(offers[0].flags.starts_with("block=cb-0"));
    }

    #[test]
    fn what_is_no_fee_is_a_note() {
        let yuan = Block { currency: "CNY".to_owned(), ..block("1", 24, 1) };
        let elsewhere = Block { zone_name: "us-east-2z".to_owned(), ..block("1", 24, 1) };
        let bad = [
            block("", 24, 1),
            block("0.00", 24, 1),
            block("1", 0, 1),
            block("1", 24, -1),
            block("N/A", 24, 1),
            yuan,
            elsewhere,
            Block { starts: None, ..block("1", 24, 1) },
        ];
        let (offers, notes) = read(&bad);
        assert_eq!((offers.len(), notes.len()), (0, bad.len()));
    }

    proptest! {
        #[test]
        fn a_rate_never_understates_its_fee_by_more_than_a_nano_dollar_an_hour(cents in 1_i64..100_000_000_000, hours in 1..5000, machines in 1..200) {
            let fee = format!("{}.{:02}", cents / 100, cents % 100);
            let rate = block(&fee, hours, machines).rate().unwrap();
            let machine_hours = i128::from(hours) * i128::from(machines);
            let paid = i128::from(rate.nanos()) * machine_hours;
            let fee = Usd::parse(&fee).unwrap().nanos();
            prop_assert!(paid >= fee && paid < fee + machine_hours);
        }

        #[test]
        fn any_block_is_read_or_noted(fee in ".{0,20}", hours in any::<i32>(), machines in any::<i32>()) {
            let (offers, notes) = read(&[block(&fee, hours, machines)]);
            prop_assert_eq!(offers.len() + notes.len(), 1);
        }
    }
}
