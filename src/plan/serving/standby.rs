//! `Standby`: a service on spot machines, what is spare and what takes over where they are gone.

use gpuplan_market::OfferId;
use gpuplan_units::Hours;

/// A service on spot machines: where they stand and what takes over where they are gone.
#[derive(Clone, Debug)]
pub struct Standby {
    /// Cheapest first.
    pub places: Vec<StandbyPlace>,
    pub spare: u32,
    /// Share of time that too few replicas run, because lost ones have not started again.
    pub short: f64,
    /// Share of time that the places have spot machines; else on-demand ones stand in.
    pub up: f64,
    /// Mean time that a place keeps its machines.
    pub spell: Hours,
    pub fallback: OfferId,
}

/// Machines of a service in one place.
#[derive(Clone, Copy, Debug)]
pub struct StandbyPlace {
    pub offer: OfferId,
    pub nodes: u32,
}
