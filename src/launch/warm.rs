//! Warm machines: one that its completed run keeps for a while, and the next run that takes it over instead of renting another.
//!
//! It bears the tags of the run that rented it to its end. Whose it is by now is said by `next/<token>` in the store of that run, so a cloud
//! needs no more than it does without: `Shared` lists it for the run that has it.

use jiff::Timestamp;

use crate::boot::request::boot_script;
use crate::controller::events::Order;
use crate::ports::block::Seller;
use crate::ports::keeper::Keeper;
use crate::ports::launch_error::LaunchError;
use crate::ports::launcher::{Launcher, SelfDestruct};
use crate::ports::machine::{Access, CreateRequest, Machine, MachineId, MachineState, Pool, WarmMachine};
use crate::spec::RunSpec;
use gpuplan_market::BoxFuture;
use gpuplan_runstore::{NextRun, OrderedBy, Run};
use gpuplan_units::UsdPerHour;

/// Gives the machine that the run is to take over its order; `None`: it is not to be had any more, or not what is ordered. The same order
/// again is answered the same.
pub async fn take_over(
    spec: &RunSpec,
    order: &Order,
    store: &Run,
    launcher: &dyn Launcher,
    ordered_by: &OrderedBy,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<Option<Machine>, LaunchError> {
    let Some(warm) = spec.takes.as_ref().filter(|warm| warm.pool == order.choice.pool) else { return Ok(None) };
    let from = store.beside(&warm.run).map_err(unclear)?;
    let taken = from.next(&warm.token).await.map_err(unclear)?;
    if taken.as_ref().map_or(now > warm.until, |next| next.token != order.token) {
        return Ok(None);
    }
    let listed = launcher.list(Some(warm.tagged())).await?;
    let stands = |machine: &Machine| machine.id == warm.machine && machine.state == MachineState::Running;
    let Some(machine) = listed.into_iter().find(stands) else { return Ok(None) };
    let ends_at = expires_at.min(machine.expires_at);
    if let Some(next) = taken {
        launcher.ends_by(&machine, ends_at).await;
        return Ok(Some(machine_of(machine, warm, &next)));
    }
    // The run before this one may have moved it to its own end. If whoever leads dies after the next line but one, it stands late and not early.
    if warm.rented_by.is_some() && !launcher.ends_by(&machine, machine.expires_at).await {
        return Ok(None);
    }
    let left = machine.expires_at.duration_since(now).as_secs_f64();
    let shorter = Order { lifetime: order.lifetime.min(left), ..order.clone() };
    let next = NextRun {
        run: spec.run.clone(),
        epoch: order.epoch,
        node: order.node,
        token: order.token.clone(),
        at: now,
        expires_at: machine.expires_at,
        boot: boot_script(spec, &shorter, store, ordered_by.clone(), ends_at).await?,
    };
    if !from.give_next(&warm.token, &next).await.map_err(unclear)? {
        return Ok(None);
    }
    launcher.ends_by(&machine, ends_at).await;
    Ok(Some(machine_of(machine, warm, &next)))
}

fn unclear(error: impl ToString) -> LaunchError {
    LaunchError::Unclear { code: error.to_string() }
}

/// As the run knows it that has it now, from when on it pays for it.
fn machine_of(machine: Machine, warm: &WarmMachine, next: &NextRun) -> Machine {
    let NextRun { run, epoch, node, token, at, .. } = next.clone();
    Machine { run, epoch, node, token, created_at: at, pool: warm.pool.clone(), ..machine }
}

/// The run that has a machine of this one by now, and where it still stands: the store of this run says whose it is, so it cannot go.
pub async fn lent_to(cloud: Box<dyn Launcher>, spec: &RunSpec, store: &Run) -> Result<Option<String>, LaunchError> {
    let shared = Shared { cloud, store: store.clone(), keeps: true, takes: spec.takes.clone() };
    for machine in shared.all(Some(&spec.run)).await? {
        if machine.state != MachineState::Gone
            && let Some(next) = shared.follower(&machine).await?
        {
            return Ok(Some(next.run));
        }
    }
    Ok(None)
}

/// A cloud as one run sees it that keeps its machine warm, or has taken one over.
pub struct Shared {
    cloud: Box<dyn Launcher>,
    store: Run,
    keeps: bool,
    takes: Option<WarmMachine>,
}

impl Shared {
    /// The cloud itself where the run does neither.
    pub fn of(cloud: Box<dyn Launcher>, spec: &RunSpec, store: &Run) -> Box<dyn Launcher> {
        let (keeps, takes) = (spec.keep_warm_seconds.is_some(), spec.takes.clone());
        if !keeps && takes.is_none() {
            return cloud;
        }
        Box::new(Self { cloud, store: store.clone(), keeps, takes })
    }

    /// What this run has taken over.
    async fn taken(&self) -> Result<Option<(&WarmMachine, NextRun)>, LaunchError> {
        let Some(warm) = &self.takes else { return Ok(None) };
        let from = self.store.beside(&warm.run).map_err(unclear)?;
        let next = from.next(&warm.token).await.map_err(unclear)?;
        Ok(next.filter(|next| next.run == self.store.name()).map(|next| (warm, next)))
    }

    /// With those that another run has by now.
    async fn all(&self, run: Option<&str>) -> Result<Vec<Machine>, LaunchError> {
        let mut machines = self.cloud.list(run).await?;
        let is_asked = run.is_none_or(|run| run == self.store.name());
        if is_asked && let Some((warm, next)) = self.taken().await? {
            machines.retain(|machine| machine.id != warm.machine);
            let tagged = self.cloud.list(Some(warm.tagged())).await?;
            let taken = tagged.into_iter().filter(|machine| machine.id == warm.machine);
            machines.extend(taken.map(|machine| machine_of(machine, warm, &next)));
        }
        Ok(machines)
    }

    /// The run that has a machine of this one by now.
    async fn follower(&self, machine: &Machine) -> Result<Option<NextRun>, LaunchError> {
        if !self.keeps || machine.run != self.store.name() {
            return Ok(None);
        }
        self.store.next(&machine.token).await.map_err(unclear)
    }

    async fn seen(&self, run: Option<&str>) -> Result<Vec<Machine>, LaunchError> {
        let mut machines = Vec::new();
        for machine in self.all(run).await? {
            if self.follower(&machine).await?.is_none() {
                machines.push(machine);
            }
        }
        Ok(machines)
    }

    async fn found(&self, pool: &Pool, token: &str) -> Result<Option<Machine>, LaunchError> {
        if self.taken().await?.is_some_and(|(_, next)| next.token == token) {
            let seen = self.seen(Some(self.store.name())).await?;
            return Ok(seen.into_iter().find(|machine| machine.token == token));
        }
        self.cloud.find(pool, token).await
    }
}

impl Launcher for Shared {
    fn cloud(&self) -> &str {
        self.cloud.cloud()
    }

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        self.cloud.create(request)
    }

    fn list<'a>(&'a self, run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>> {
        Box::pin(self.seen(run))
    }

    fn find<'a>(&'a self, pool: &'a Pool, token: &'a str) -> BoxFuture<'a, Result<Option<Machine>, LaunchError>> {
        Box::pin(self.found(pool, token))
    }

    fn destroy<'a>(&'a self, machine: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>> {
        self.cloud.destroy(machine)
    }

    fn ends_by<'a>(&'a self, machine: &'a Machine, at: Timestamp) -> BoxFuture<'a, bool> {
        self.cloud.ends_by(machine, at)
    }

    fn forget<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<(), LaunchError>> {
        self.cloud.forget(access)
    }

    fn warnings(&self) -> Vec<String> {
        self.cloud.warnings()
    }

    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>> {
        self.cloud.owner()
    }

    fn spot_prices<'a>(
        &'a self,
        places: &'a [(Pool, Vec<String>)],
    ) -> BoxFuture<'a, Result<Vec<Option<UsdPerHour>>, LaunchError>> {
        self.cloud.spot_prices(places)
    }

    fn time(&self) -> Option<Timestamp> {
        self.cloud.time()
    }

    fn self_destruct(&self) -> Option<SelfDestruct> {
        self.cloud.self_destruct()
    }

    fn seller(&self) -> Option<&dyn Seller> {
        self.cloud.seller()
    }

    fn keeper(&self) -> Option<&dyn Keeper> {
        self.cloud.keeper()
    }
}
