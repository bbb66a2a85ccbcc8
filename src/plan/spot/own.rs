//! What the user's own launches say of a pool of spot machines.

use crate::context::World;
use gpuplan_market::Offer;
use gpuplan_market::own::{LastSeen, OwnPool, Seen};
use gpuplan_spot::history::{Alike, learned_availability, still_says};

/// Of this pool itself, whatever the size of the gangs; `None`: the user has never asked there.
pub fn seen(world: World, offer: &Offer) -> Option<Seen> {
    alike(world, offer).filter(|(_, is_same)| *is_same).map(|(own, _)| own.seen).reduce(Seen::and)
}

/// Share of time that so many machines are up, from what is assumed and what was seen here and in other zones of the region.
pub fn availability(world: World, offer: &Offer, machines: u32, assumed: f64) -> f64 {
    let alike: Vec<Alike> =
        alike(world, offer).map(|(own, is_same)| Alike { seen: &own.seen, machines: own.machines, is_same }).collect();
    learned_availability(assumed, machines, &alike)
}

/// How this pool was last, for so many machines; `None`: nothing that says so is young enough to count. Where a gang was there is room for a smaller one,
/// and where there was none there is none for a larger one.
pub fn last_seen(world: World, offer: &Offer, machines: u32) -> Option<LastSeen> {
    let says = |own: &OwnPool| {
        let last = own.seen.last.and_then(still_says)?;
        let is_said = if last.is_up { own.machines >= machines } else { own.machines <= machines };
        is_said.then_some(last)
    };
    let all = alike(world, offer).filter(|(_, is_same)| *is_same);
    all.map(|(own, _)| says(own)).fold(None, LastSeen::later)
}

/// What was seen of this type in this region, and whether it was this very pool.
fn alike<'a>(world: World<'a>, offer: &'a Offer) -> impl Iterator<Item = (&'a OwnPool, bool)> {
    let instance = world.hardware.instance(offer.instance);
    let place = &offer.place;
    let is_alike = move |own: &&OwnPool| {
        own.cloud == instance.cloud.to_string() && own.instance_type == instance.name && own.region == *place.region
    };
    let is_same =
        |own: &OwnPool| place.zone_id.as_deref().zip(own.zone_id.as_deref()).is_none_or(|(here, there)| here == there);
    world.market.own_pools.iter().filter(is_alike).map(move |own| (own, is_same(own)))
}
