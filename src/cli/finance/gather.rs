//! Charges of runs: read from the stores of a team, or from those of runs launched from this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::Value;

use crate::runs::journal::journal_if_any;
use crate::runs::launchers::clock;
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::runtime::runtime;
use gpuplan_budget::actual::{RunCharge, RunFacts, UncountableCharge};
use gpuplan_budget::spent::{ActualRun, RunKnown};
use gpuplan_budget::{Charge, Item};
use gpuplan_launch::RunSpec;
use gpuplan_launch::spec::SpecError;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::sha256;
use gpuplan_runstore::{Phase, Run, Store, StoreError};
use gpuplan_units::Usd;

/// Runs that are read at the same time.
const AT_ONCE: usize = 16;

/// Letters of the hash that tells two runs of one name apart.
const KEY: usize = 12;

/// How long a store may take to answer for one run, where the rest is known without it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A run with its charges.
pub struct Reckoned {
    pub known: RunKnown,
    pub found: Vec<RunCharge>,
}

/// Why the money of a run is not known.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("its specification cannot be read: {0}")]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Uncountable(#[from] UncountableCharge),
}

impl From<Unread> for Diagnostic {
    fn from(error: Unread) -> Self {
        match error {
            Unread::Store(error) => error.into(),
            error => Self::unexpected(&error).hint("see who changed the store of the run; what the ledger has stands"),
        }
    }
}

#[derive(Default)]
pub struct Gathered {
    pub runs: Vec<Reckoned>,
    /// What could not be read, for people.
    pub notes: Vec<String>,
}

/// Every run below the addresses.
pub fn from_store(addresses: &[String], session: &Session) -> Result<Gathered, Diagnostic> {
    let (runtime, mut gathered) = (runtime()?, Gathered::default());
    for address in addresses {
        let store = reading(address, session)?;
        let names = runtime.block_on(store.folders("runs"))?;
        if names.is_empty() {
            gathered.notes.push(format!("{address} has no runs"));
        }
        let mut runs = Vec::new();
        for name in &names {
            match Layout::new(name) {
                Ok(layout) => runs.push(Run::new(store.clone(), layout)),
                Err(error) => gathered.notes.push(format!("warning: {address}: {error}")),
            }
        }
        let reading = async |run: Run| (run.name().to_owned(), facts(run).await);
        for (name, facts) in runtime.block_on(stream::iter(runs).map(reading).buffered(AT_ONCE).collect::<Vec<_>>()) {
            match facts.and_then(|facts| gathered.add(&facts, session.now)) {
                Ok(()) => {}
                // Nothing else of this store would be read either.
                Err(Unread::Store(error)) => return Err(error.into()),
                Err(error) => gathered.notes.push(as_the_ledger_has_it(&name, &error.to_string())),
            }
        }
    }
    gathered.once();
    Ok(gathered)
}

/// Runs that were launched from this machine. A store that does not answer is noted; what the ledger has of its runs stands.
pub fn from_journal(session: &Session) -> Result<Gathered, Diagnostic> {
    let mut gathered = Gathered::default();
    let Some(journal) = journal_if_any(session)? else { return Ok(gathered) };
    let runtime = runtime()?;
    for name in journal.runs()? {
        let Some(kept) = journal.run(&name)? else { continue };
        let read = stored(&kept.spec, session).and_then(|run| Ok(runtime.block_on(facts(run))?));
        if let Err(error) = read.and_then(|facts| Ok(gathered.add(&facts, session.now)?)) {
            gathered.notes.push(as_the_ledger_has_it(&name, &error.message));
        }
    }
    gathered.once();
    Ok(gathered)
}

/// One run that was launched from this machine. A store that does not answer soon is an error.
pub fn charges_of_launch(spec: &RunSpec, session: &Session) -> Result<Gathered, Diagnostic> {
    let run = stored(spec, session)?;
    let read = runtime()?.block_on(async { tokio::time::timeout(TIMEOUT, facts(run)).await });
    let silent = |_| Diagnostic::unexpected(format!("{} did not answer within {} s", spec.store, TIMEOUT.as_secs()));
    let mut gathered = Gathered::default();
    gathered.add(&read.map_err(silent)??, session.now)?;
    Ok(gathered)
}

fn as_the_ledger_has_it(run: &str, why: &str) -> String {
    format!("warning: {run} is shown as the ledger has it: {why}")
}

fn stored(spec: &RunSpec, session: &Session) -> Result<Run, Diagnostic> {
    let layout = Layout::new(&spec.run).map_err(Diagnostic::usage)?;
    Ok(Run::new(reading(&spec.store, session)?, layout))
}

/// One run.
pub fn charges_of_run(run: &Run, now: Timestamp) -> Result<Gathered, Diagnostic> {
    let mut gathered = Gathered::default();
    gathered.add(&runtime()?.block_on(facts(run.clone()))?, now)?;
    Ok(gathered)
}

fn reading(address: &str, session: &Session) -> Result<Store, Diagnostic> {
    if session.offline && address.contains("://") && !address.starts_with("file://") {
        return Err(Diagnostic::usage(format!("{address} cannot be read with --offline")));
    }
    let keys = if address.starts_with("s3://") { runtime()?.block_on(gpuplan_clouds::store_keys()) } else { None };
    Store::reading(address, keys).map_err(|error| match error {
        StoreError::Missing { .. } => Diagnostic::usage(&error).hint("gpuplan costs --store URI"),
        error => error.into(),
    })
}

impl Gathered {
    fn add(&mut self, facts: &RunFacts, now: Timestamp) -> Result<(), Unread> {
        let found = facts.charges(now)?;
        self.runs.push(Reckoned { known: RunKnown::new(facts, actual(facts, &found)), found });
        Ok(())
    }

    /// Two addresses may be one store.
    fn once(&mut self) {
        let mut seen = BTreeSet::new();
        self.runs.retain(|run| seen.insert(run.known.key.clone()));
    }
}

/// How long and how dear a completed run was, where a launch said what it expected.
fn actual(facts: &RunFacts, found: &[RunCharge]) -> Option<ActualRun> {
    let rented = facts.rented.as_ref().filter(|_| facts.is_completed())?;
    let (ended_at, expected) = (rented.ended_at?, facts.expected.as_ref()?);
    let begun = rented.machines.iter().map(|machine| machine.from).min()?;
    let first = expected.prices.first()?;
    let planned = rented.machines.iter().find(|machine| machine.place == first.place).or(rented.machines.first())?;
    let nodes = rented.machines.iter().map(|machine| machine.node + 1).max()?;
    let machines: Vec<&Charge> =
        found.iter().map(|one| &one.charge).filter(|charge| charge.is_machine_time()).collect();
    let worked = machines.iter().filter(|charge| charge.waste.is_none()).map(|charge| charge.quantity).sum::<f64>();
    // What is stored goes on costing after the run, which its forecast has not.
    let of_run = found.iter().filter(|one| one.charge.item != Item::CheckpointStorage);
    Some(ActualRun {
        hours: ended_at.duration_since(begun).as_secs_f64() / 3600.0 * facts.speed,
        machine_hours: machines.iter().map(|charge| charge.quantity).sum(),
        work_hours: worked / f64::from(nodes),
        planned_work_hours: facts.work_hours?,
        nodes,
        cost_usd: of_run.map(|one| one.charge.costs.contracted).sum::<Usd>(),
        machines_usd: Some(machines.iter().map(|charge| charge.costs.contracted).sum::<Usd>()),
        planned_rate_usd: planned.rate_usd_per_hour.times(1),
        interruptions: rented.interruptions,
    })
}

/// Everything that a store knows about one run.
async fn facts(run: Run) -> Result<RunFacts, Unread> {
    let text = run.spec().await?;
    let spec = text.as_deref().map(of_launch).transpose()?.flatten();
    let (mut epochs, mut ended) = (BTreeMap::new(), BTreeSet::new());
    for number in run.epoch_numbers().await? {
        if let Some(epoch) = run.epoch(number).await? {
            epochs.insert(number, epoch);
        }
    }
    let billed = run.billed_all().await?;
    let nodes: BTreeSet<u32> = billed.iter().map(|billed| billed.node).collect();
    for node in nodes {
        if let Some(status) = run.status(node).await?.filter(|status| status.phase == Phase::Ended) {
            ended.insert((status.epoch, node));
        }
    }
    let begun_with = text.or_else(|| {
        epochs.values().next().map(|epoch| serde_json::to_string(epoch).expect("an epoch is written as JSON"))
    });
    // What nobody has begun yet has nothing to be told apart by.
    let hash = sha256(begun_with.unwrap_or_default().as_bytes());
    let rented = if spec.as_ref().is_some_and(|spec| spec.is_kept) { None } else { run.rented().await? };
    let said = run.result().await?.and_then(|result| outcome(&result["outcome"]));
    let outcome = rented.as_ref().and_then(|rented| rented.end.clone()).or(said);
    // Only a launch knows what storage costs.
    let is_priced =
        spec.as_ref().and_then(|spec| spec.expected.as_ref()).is_some_and(|expected| !expected.beside.is_empty());
    let stored = if is_priced { run.stored().await? } else { Vec::new() };
    let disk_gib = spec.as_ref().map(|spec| spec.disk_gib);
    let is_led = spec.as_ref().is_some_and(|spec| !spec.is_kept);
    Ok(RunFacts {
        run: run.name().to_owned(),
        key: hash[..KEY].to_owned(),
        cloud: spec.as_ref().and_then(|spec| spec.clouds().first().map(|cloud| (*cloud).to_owned())),
        tags: spec.iter().flat_map(|spec| spec.tags.iter().cloned()).collect(),
        work_hours: spec.as_ref().map(|spec| spec.work_hours),
        speed: spec.as_ref().map_or(1.0, |spec| clock(spec).speed),
        expected: spec.and_then(|spec| spec.expected),
        epochs,
        billed,
        rented,
        ended,
        outcome,
        is_led,
        disk_gib,
        stored,
    })
}

/// `None`: an agent that no launch began wrote it.
fn of_launch(text: &str) -> Result<Option<RunSpec>, SpecError> {
    let is_agents = serde_json::from_str::<Value>(text).is_ok_and(|spec| spec["written_by"] == "agent");
    if is_agents { Ok(None) } else { RunSpec::read(text).map(Some) }
}

/// As an agent wrote it: a word, or a word with what it means.
fn outcome(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).or_else(|| value.as_object()?.keys().next().cloned())
}
