//! A plan made real: which machine to rent next, when to give up on a place, and when to end what runs. Pure but for the edge.

pub mod boot;
pub mod clock;
pub mod controller;
pub mod execute;
pub mod job;
pub mod journal;
pub mod names;
pub mod ports;
pub mod rented;
pub mod spec;
pub mod warm;

pub use clock::Clock;
pub use controller::events::{Action, End, Event, Rentable, Terms};
pub use controller::{Controller, events, rental};
pub use execute::{LeadContext, LeadError, LeaderCommand, Progress, lead};
pub use job::{Data, Job, Parcel, Secret};
pub use journal::Journal;
pub use ports::engine::{Engine, EngineError, JobId, JobState, JobStatus, Submission};
pub use ports::keeper::{Group, KeepRequest, Keeper};
pub use ports::launch_error::{LaunchError, Reach};
pub use ports::launcher::{Launcher, SelfDestruct};
pub use ports::machine::{Access, CreateRequest, Machine, MachineId, MachineState, Market, Pool, Role, WarmMachine};
pub use ports::{block, engine, keeper, launch_error, launcher, machine};
pub use spec::RunSpec;
pub use warm::Shared;
