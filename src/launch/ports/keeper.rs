//! `Keeper`: the port of a cloud that keeps a run at one machine by itself, so that a run goes on while nobody leads it.

use jiff::Timestamp;

use crate::ports::launch_error::LaunchError;
use crate::ports::machine::{CreateRequest, Pool};
use gpuplan_market::BoxFuture;

/// A group of one machine to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepRequest {
    /// As the group starts it, again and again until `expires_at`. The token makes a repeated call the same group.
    pub machine: CreateRequest,
    /// Where: one region, one machine type, one market.
    pub pools: Vec<Pool>,
}

/// A group that starts a machine whenever it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub id: String,
    pub run: String,
    pub cloud: String,
    pub region: String,
    /// No machine is started after, and the last one is ended then.
    pub expires_at: Timestamp,
    /// As `Launcher::owner` names them; empty where it does not say.
    pub owner: String,
}

impl Group {
    /// It starts no machine any more, though the cloud may list it yet.
    pub fn is_past(&self, now: Timestamp) -> bool {
        self.expires_at < now
    }
}

/// Contract:
/// - A group ends itself and its machine at `expires_at`, by the cloud's own doing: no machine of it has to be alive for that.
/// - Its machines carry the marks of the run, and end the group for good once the run is over: a boot script that finds
///   `GPUPLAN_END_GROUP` calls it before the machine ends. Interruptions leave the group as it is.
/// - `groups` gives those that still start machines, of a run or of any, in every region of the account; a region that does not answer
///   makes it an error. One past its time may be among them until it is dissolved.
/// - `dissolve` ends the group and then its machine. One that is unknown is done. It may be repeated.
pub trait Keeper: Send + Sync {
    fn keep(&self, request: KeepRequest) -> BoxFuture<'_, Result<Group, LaunchError>>;

    fn groups<'a>(&'a self, run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Group>, LaunchError>>;

    fn dissolve<'a>(&'a self, group: &'a Group) -> BoxFuture<'a, Result<(), LaunchError>>;
}
