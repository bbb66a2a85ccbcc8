//! What a run is, what its controller hears and what it wants: the words between the state machine and the world.

use crate::controller::rental::Rentals;
use crate::ports::launch_error::LaunchError;
use crate::ports::machine::{Machine, MachineId, Pool};
use gpuplan_spot::policy::{Limits, Policy};
use gpuplan_units::UsdPerHour;

/// A place to rent at, and one machine's rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Rentable {
    pub pool: Pool,
    pub rate: UsdPerHour,
    /// Charged at least for a machine that was started. Seconds.
    pub minimum_seconds: u32,
}

/// What the run is and what it may do; it does not change.
#[derive(Clone, Debug)]
pub struct Terms {
    pub run: String,
    /// Machines of a gang.
    pub nodes: u32,
    /// In the order of `limits.pools`.
    pub spot: Vec<Rentable>,
    /// Cheapest first.
    pub on_demand: Vec<Rentable>,
    /// Work, deadline, budget and rates for all machines together.
    pub limits: Limits,
    pub policy: Policy,
    /// No machine lives longer. Seconds.
    pub lifetime: f64,
    /// Time for all machines of a gang to be created. Seconds.
    pub gang_limit: f64,
    /// A run that says nothing for so long is looked after. Seconds.
    pub silence: f64,
}

/// A machine to create. The call may be repeated: the token makes it one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub epoch: u64,
    pub node: u32,
    pub choice: Rentable,
    pub token: String,
    pub name: String,
    /// Seconds until the machine has to end by itself, from the first call.
    pub lifetime: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Create(Order),
    Destroy(MachineId),
    /// Ask the clouds for every machine of the run.
    List,
    /// Send `Event::Clock` then, unless a later action says another time. Seconds of the run.
    Wake(f64),
    Say(String),
}

/// What a journal knows of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResumeState {
    /// The highest that was ordered.
    pub epoch: u64,
    /// How many machines were ordered.
    pub orders: u64,
    pub done: f64,
    pub interruptions: u32,
    pub rentals: Rentals,
    /// Of the last order.
    pub last_pool: Option<Pool>,
    /// The last order has no answer in the journal.
    pub has_open_order: bool,
}

/// What the agent of a run says in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub epoch: u64,
    /// Share of the work that is safe.
    pub done: f64,
    /// The program runs, or ran, so every machine of the gang takes part; or its data is being fetched.
    pub has_started: bool,
    pub outcome: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Completed,
    /// The machine is being taken away; the run goes on elsewhere.
    Interrupted,
    /// The program itself failed for good.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "an event lives for one step")]
pub enum Event {
    Clock,
    /// The answer to an order, by its token. It may come late, twice, or for an order that is given up.
    Answered {
        token: String,
        outcome: Result<Machine, LaunchError>,
    },
    /// Every machine of the run that the clouds list.
    Listed(Vec<Machine>),
    Destroyed(MachineId),
    Reported(Report),
    Stop,
}

/// How a run ended. Nothing of it costs money any more.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    Completed,
    Failed(String),
    Stopped,
    OutOfBudget,
    /// No place may be asked any more, and what the last one said.
    Refused {
        refusal: LaunchError,
        place: String,
    },
}
