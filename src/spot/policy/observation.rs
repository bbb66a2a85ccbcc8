//! `Observation`: the pools as far as the controller knows them.

/// A pool as far as the controller knows it. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolView {
    /// What the last probe found.
    pub up: bool,
    /// How long probes have found the same.
    pub age: f64,
    /// Share of time that it was up lately: exponentially weighted, half-life one day.
    pub availability: f64,
    /// So many times as often as pools of its age it takes machines away, as far as its losses tell; 1 before there are any, and for a job on one pool.
    pub frailty: f64,
}

/// The world as far as the controller knows it.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    pub pools: &'a [PoolView],
    /// On-demand capacity can be had, as far as the last attempt says.
    pub on_demand: bool,
}
