//! `Notifier`, the port by which people are told what becomes of a run while they look elsewhere.

use serde::Serialize;

use crate::ports::notice::BoxFuture;
use gpuplan_units::Usd;

/// The variable with the password of a mailbox that sends messages. No address has one, since addresses stand in the store of a run.
pub const PASSWORD: &str = "GPUPLAN_SMTP_PASSWORD";

/// Why somebody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Occasion {
    Started,
    /// A notice came; what follows is saving and ending.
    Interrupted,
    Finished,
    /// A share of the budget is spent.
    Budget,
    /// No sign of life.
    Stalled,
    /// The next improvement costs more than the user's limit.
    Advice,
}

/// What is sent. `text` says it all to a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    pub event: Occasion,
    pub run: String,
    pub epoch: u64,
    pub node: u32,
    pub text: String,
    /// Of the whole run; `None` without a price, or while a bill in the store cannot be read.
    pub spent_usd: Option<Usd>,
}

/// A place where people read.
///
/// Contract: `tell` is tried a few times and ends within a minute, and says whether the message arrived. Where it leads is a secret: no error
/// repeats the address.
pub trait Notifier: Send + Sync {
    fn notify<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<(), String>>;
}
