//! A plan made real: which machine to rent next, when to give up on a place, and when to end what runs. Pure but for the edge.

pub mod blocks;
pub mod controller;
pub mod launcher;
pub mod names;
pub mod rental;
#[cfg(test)]
mod simulation;

pub use controller::{Action, Controller, End, Event, Terms};
pub use launcher::{CreateRequest, LaunchError, Launcher, Machine, MachineId, MachineState, Market, Pool, SelfDestruct};
