//! Prices of spot machines, heard while a run is led: the policy decides with those of the moment.

use crate::controller::Controller;
use crate::controller::phase::{Gang, Phase, Which};
use crate::ports::machine::MachineId;
use gpuplan_units::UsdPerHour;

impl Controller {
    /// Of one machine an hour, in the order of the spot places. What may be paid at most stays as it is: leases are granted of that, the request
    /// has it, and the cloud takes away what has come to cost more.
    pub(super) fn priced(&mut self, now: f64, prices: &[Option<UsdPerHour>]) {
        for (pool, price) in prices.iter().enumerate().take(self.terms.spot.len()) {
            let Some(price) = price else { continue };
            self.terms.spot[pool].rate = *price;
            let nodes = i64::from(self.terms.nodes);
            self.terms.limits.pools[pool].spot = UsdPerHour::from_nanos(price.nanos().saturating_mul(nodes));
            let machines = self.machines_in(pool);
            self.rentals.cost_now(&machines, *price, now);
        }
    }

    /// Spot machines there that a gang has by now.
    fn machines_in(&self, pool: usize) -> Vec<MachineId> {
        let present = match &self.phase {
            Phase::Creating { gang, .. } | Phase::Running { gang, .. } => Some(gang),
            Phase::Choosing { .. } | Phase::Ending { .. } | Phase::Ended(_) => None,
        };
        let gangs = present.into_iter().chain(self.beside.as_ref().map(|beside| &beside.gang));
        let there = gangs.filter(|Gang { which, .. }| *which == Which::Spot(pool));
        there.flat_map(|gang| gang.machines.iter().cloned()).collect()
    }
}
