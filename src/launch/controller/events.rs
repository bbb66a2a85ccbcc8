//! What a run is, what its controller hears and what it wants: the words between the state machine and the world.

use std::sync::Arc;

use crate::controller::liveness::Sign;
use crate::controller::rental::Rentals;
use crate::names::Launch;
use crate::ports::launch_error::LaunchError;
use crate::ports::machine::{Machine, MachineId, Pool};
use gpuplan_runstore::Ledger;
use gpuplan_spot::policy::{Limits, Policy};
use gpuplan_units::{Usd, UsdPerHour};

/// A place to rent at, and one machine's rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Rentable {
    pub pool: Pool,
    pub rate: UsdPerHour,
    /// Charged at least for a machine that was started. Seconds.
    pub minimum_seconds: u32,
    /// What an hour of one machine may cost at most: the bid, and its disk.
    pub most: UsdPerHour,
    /// Paid once for each machine: data that it fetches from another cloud.
    pub start: Usd,
}

/// What the run is and what it may do. Prices of spot are those that were heard last; nothing else of it changes.
#[derive(Clone, Debug)]
pub struct Terms {
    pub launch: Launch,
    /// Machines of a gang.
    pub nodes: u32,
    /// In the order of `limits.pools`.
    pub spot: Vec<Rentable>,
    /// Cheapest first.
    pub on_demand: Vec<Rentable>,
    /// Work, deadline, budget and rates for all machines together.
    pub limits: Limits,
    pub policy: Policy,
    /// Where the very first order goes, if the policy wants a machine on those terms: one waits there that costs no boot.
    pub first: Option<Pool>,
    /// What the run may cost, whatever happens; `None`: what it costs was paid up front.
    pub bound: Option<Usd>,
    /// No machine lives longer. Seconds.
    pub lifetime: f64,
    /// Time for all machines of a gang to be created. Seconds.
    pub gang_limit: f64,
    /// A run that says nothing for so long is looked after. Seconds.
    pub silence: f64,
    /// A call without a clear answer may still create a machine, and lists may miss it, for so long. Seconds.
    pub settles: f64,
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
    /// What the run has granted, with the lease of this machine: written into its store before the call.
    pub ledger: Ledger,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Create(Box<Order>),
    Destroy(MachineId),
    /// Tell the machines of the present gang to save and end.
    Notify,
    /// Ask the clouds for every machine of the run.
    List,
    /// Send `Event::Clock` then, unless a later action says another time. Seconds of the run.
    Wake(f64),
    Say(String),
}

/// A machine that may still cost money: of which gang, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    pub machine: MachineId,
    pub epoch: u64,
    pub pool: Pool,
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
    /// Machines that may still cost money.
    pub standing: Vec<Standing>,
    /// As the store has it; `None`: it has none, or the run is from before there were leases.
    pub ledger: Option<Ledger>,
    /// When the last order was sent that has no answer in the journal, if there is one. Seconds of the run.
    pub open_since: Option<f64>,
}

/// When nothing can appear any more of what was ordered without a clear answer; `None`: every order has one. Whoever says that no
/// machine is left lists until then. Seconds of the run.
pub fn settles_at(past: &ResumeState, terms: &Terms) -> Option<f64> {
    past.open_since.map(|since| since + terms.settles)
}

impl ResumeState {
    /// The balance of a run, as far as a journal knows what came of its orders: by token, the machine or why there is none.
    pub fn settled(&self, mut ledger: Ledger, answers: &[(String, String)]) -> Ledger {
        for (token, answer) in answers {
            match self.rentals.0.iter().find(|rental| rental.machine.0 == *answer) {
                Some(rental) => {
                    ledger.is_had_by(token, answer);
                    if let Some(until) = rental.until {
                        ledger.settle(answer, until);
                    }
                }
                None => ledger.void(token),
            }
        }
        ledger
    }

    /// The latest moment that it knows of: it is later than that now. Seconds of the run.
    pub fn latest(&self) -> f64 {
        let known = self.rentals.0.iter().flat_map(|rental| [Some(rental.since), rental.until]).flatten();
        known.chain(self.open_since).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// What the agent of a run says in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub epoch: u64,
    /// The same as before: the agent has said nothing since.
    pub sign: Sign,
    /// Share of the work that is safe.
    pub done: f64,
    /// A checkpoint of the run is in the store, however far it got.
    pub has_saved: bool,
    /// The program runs, or ran, so every machine of the gang takes part; or its data is being fetched.
    pub has_started: bool,
    pub outcome: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Completed,
    /// The machine is being taken away; the run goes on elsewhere.
    Interrupted,
    /// The life or the money that a machine was given is over; the run goes on elsewhere as far as there is more.
    CapReached,
    /// The program itself failed for good.
    Failed(String),
    /// It was stalled, and that ends the run, on however many machines.
    GivenUp(String),
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
    /// Every machine of the run that the clouds list, all of them together. What was created after they were asked may be missing.
    Listed {
        machines: Arc<[Machine]>,
        /// Seconds of the run.
        asked_at: f64,
    },
    Destroyed(MachineId),
    /// The store was read, and the gang said this last.
    Reported(Report),
    /// The store was read, and nothing in it is of the present gang.
    Silent,
    /// The store did not answer: whether the gang says anything is unknown.
    Unreadable,
    /// Another leader had granted the number of this lease, before it was deposed: the order was not sent.
    Granted(Ledger),
    /// What one machine of each spot place costs an hour now, in their order; `None`: nobody said.
    Priced(Vec<Option<UsdPerHour>>),
    /// End the run, and let its program save before.
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
