//! A plan made real: which machine to rent next, when to give up on a place, and when to end what runs. Pure but for the edge.

pub mod block;
pub mod blocks;
pub mod boot;
pub mod clock;
pub mod controller;
pub mod engine;
pub mod events;
pub mod execute;
pub mod job;
pub mod journal;
pub mod keeper;
pub mod launch_error;
pub mod launcher;
pub mod machine;
pub mod names;
mod phase;
pub mod rental;
pub mod rented;
mod request;
pub mod spec;

pub use clock::Clock;
pub use controller::Controller;
pub use engine::{Engine, EngineError, Handed, JobId, JobState, JobStatus};
pub use events::{Action, Choice, End, Event, Terms};
pub use execute::{Standing, Wiring, Wish, lead};
pub use job::{Data, Job, Parcel, Secret};
pub use journal::Journal;
pub use keeper::{Group, KeepRequest, Keeper};
pub use launch_error::{LaunchError, Reach};
pub use launcher::{Launcher, SelfDestruct};
pub use machine::{CreateRequest, Machine, MachineId, MachineState, Market, Pool};
pub use spec::RunSpec;
