//! What the journal knows of a run's machines, in the words of the run's store: there it counts for everybody who adds up money.

use crate::clock::Clock;
use crate::controller::rental::Rental;
use crate::journal::{MachineRecord, RunRecord};
use gpuplan_runstore::rented::VERSION;
use gpuplan_runstore::{AllRented, Rented};

/// Every machine that was rented, with how the run ended.
pub fn all(kept: &RunRecord, clock: &Clock) -> AllRented {
    let now = clock.now();
    let rented = kept.past.rentals.0.iter().map(|rental| {
        let machine = machine_of(kept, rental);
        let pool = &machine.pool;
        Rented {
            machine: rental.machine.0.clone(),
            epoch: machine.epoch,
            node: machine.node,
            cloud: kept.spec.rented_from(&pool.cloud).to_owned(),
            region: pool.region.clone(),
            zone: pool.zone_id.clone(),
            instance_type: pool.instance_type.clone(),
            purchase: pool.market.to_string(),
            place: pool.to_string(),
            rate_usd_per_hour: rental.rate,
            minimum_seconds: rental.minimum_seconds,
            from: clock.at(rental.since),
            to: rental.until.map(|until| clock.at(until)),
            seconds: (rental.until.unwrap_or(now) - rental.since).max(0.0),
        }
    });
    AllRented {
        version: VERSION,
        machines: rented.collect(),
        end: kept.end.clone(),
        ended_at: kept.ended_at,
        interruptions: kept.past.interruptions,
    }
}

fn machine_of<'a>(kept: &'a RunRecord, rental: &Rental) -> &'a MachineRecord {
    let machine = kept.machines.iter().find(|machine| machine.id == rental.machine);
    machine.expect("the journal reads a rental and its machine from one row")
}
