//! `Launcher`: the port that a cloud implements so that machines can be rented.

use jiff::Timestamp;

use crate::ports::block::Seller;
use crate::ports::keeper::Keeper;
pub use crate::ports::launch_error::{LaunchError, Reach};
pub use crate::ports::machine::{Access, CreateRequest, Machine, MachineId, MachineState, Market, Pool, Role};
use gpuplan_market::BoxFuture;
use gpuplan_units::UsdPerHour;

/// How a machine ends by itself at `expires_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfDestruct {
    /// A timer that the boot script arms before anything else, and a machine that ends as it shuts down.
    Timer,
    /// The cloud's own limit.
    Cloud,
}

/// A cloud that rents machines: the least that it must do.
///
/// Contract:
/// - `create` is repeated with the same token after an unclear answer and gives the same machine, even where its boot script and
///   expiry were made anew: those of the first call count. It puts every tag into the creating call. SDK retries are off: the
///   controller decides.
/// - `list` gives every machine with the tag of a run, or of any run, in every region of the account; machines that are gone may
///   be left out. It may be late by a minute: what was just created may be missing.
/// - `destroy` of a machine that is gone, or unknown, is done; where the cloud may only not know yet what was created just now, the
///   answer is unclear. It may be repeated.
/// - No secret stands in an error.
pub trait Launcher: Send + Sync {
    fn cloud(&self) -> &str;

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>>;

    fn list<'a>(&'a self, run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>>;

    /// The machine of an order, by its token, however late lists are; one of another cloud is none.
    fn find<'a>(&'a self, pool: &'a Pool, token: &'a str) -> BoxFuture<'a, Result<Option<Machine>, LaunchError>> {
        let _ = pool;
        Box::pin(async move { Ok(self.list(None).await?.into_iter().find(|machine| machine.token == token)) })
    }

    fn destroy<'a>(&'a self, machine: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>>;

    /// The machine has another end from now on, no later than that it was created with: what its cloud ends it by where it misses its own is moved
    /// there. It may be repeated. False: it stands where it stood, and `warnings` says why. Where a cloud has a fixed limit, or none, nothing moves.
    fn ends_by<'a>(&'a self, machine: &'a Machine, at: Timestamp) -> BoxFuture<'a, bool> {
        let _ = (machine, at);
        Box::pin(async { true })
    }

    /// The run is over, and none of its machines is left: what was made for it beside them goes. It may be repeated, and the run may begin again.
    fn forget<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<(), LaunchError>> {
        let _ = access;
        Box::pin(async { Ok(()) })
    }

    /// What went wrong beside the answers since this was asked last, for people.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Who rents here. Machines of one account may be those of several people.
    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>>;

    /// What a spot machine costs an hour now in each of these places, with the zones that may be taken where a pool names none; `None`: nobody
    /// says. A cloud whose prices move while machines run takes a highest price with each order: what a run may cost rests on that.
    fn spot_prices<'a>(
        &'a self,
        places: &'a [(Pool, Vec<String>)],
    ) -> BoxFuture<'a, Result<Vec<Option<UsdPerHour>>, LaunchError>> {
        Box::pin(async { Ok(vec![None; places.len()]) })
    }

    /// What the cloud's own clock says, by its last answer. `None`: it has not said it, and nothing that was to end by now may be taken for
    /// overdue: this computer's clock may be wrong.
    fn time(&self) -> Option<Timestamp> {
        None
    }

    /// `None`: a machine here lives until somebody ends it.
    fn self_destruct(&self) -> Option<SelfDestruct>;

    /// `None`: nothing here is sold up front.
    fn seller(&self) -> Option<&dyn Seller> {
        None
    }

    /// `None`: nothing here starts a machine anew while nobody leads.
    fn keeper(&self) -> Option<&dyn Keeper> {
        None
    }
}
