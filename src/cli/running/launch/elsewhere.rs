//! A run that is led from elsewhere, by its cloud or by another leader: what became of it goes into the journal here.

use std::time::Duration;

use jiff::Timestamp;

use crate::runs::journal::find_run;
use crate::runs::launchers::{Launchers, clock, launchers_of_run, list_machines};
use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::runtime::runtime;
use gpuplan_launch::journal::{LogLines, RunRecord};
use gpuplan_launch::rental::Rental;
use gpuplan_launch::spec::Offered;
use gpuplan_launch::{End, Journal, Machine, MachineState, Rentable, RunSpec};
use gpuplan_runstore::{Leading, Phase, Run, StoreError, Verdict};
use gpuplan_units::Usd;

/// A store that takes longer is not waited for.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A run as its machines and its store show it.
#[derive(Debug)]
pub struct Seen {
    /// Share of the work that is safe.
    pub done: f64,
    pub spent: Usd,
    /// Machines that are not gone.
    pub up: Vec<Machine>,
    /// How the run ended, where its agent says so.
    pub outcome: Option<End>,
}

/// Looks at machines and store, and enters what is new into the journal.
pub fn enter(
    before: &RunRecord,
    clouds: &Launchers,
    journal: &mut Journal,
    session: &Session,
) -> Result<Seen, Diagnostic> {
    let (spec, run) = (&before.spec, before.spec.run.as_str());
    let mut machines = Vec::new();
    for (cloud, answer) in list_machines(clouds, Some(run))? {
        machines.extend(answer.map_err(|error| Diagnostic::new(Exit::CloudRefused, format!("{cloud}: {error}")))?);
    }
    let after = enter_new_machines(before, &machines, journal, session)?;
    let (done, outcome) = runtime()?.block_on(read_status(&store_of_run(spec)?, spec))?;
    let mut rentals = after.past.rentals.clone();
    let now = clock(spec).now();
    machines.retain(|machine| machine.state != MachineState::Gone);
    let is_up = |id: &_| machines.iter().any(|machine: &Machine| machine.id == *id);
    // What was rented just now may be missing from a list.
    let is_gone = |rental: &&Rental| rental.since + spec.settles_seconds < now && !is_up(&rental.machine);
    let gone: Vec<_> = rentals.open().filter(is_gone).map(|rental| rental.machine.clone()).collect();
    for machine in &gone {
        rentals.end(machine, now);
    }
    let mut starts: Vec<u64> = after.machines.iter().map(|machine| machine.epoch).collect();
    starts.dedup();
    let relaunches = u32::try_from(starts.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let nothing = LogLines { at: Timestamp::now(), lines: Vec::new() };
    journal.keep(run, &rentals, done, relaunches, &nothing)?;
    Ok(Seen { done, spent: rentals.spent(now), up: machines, outcome })
}

/// Machines that the journal does not know yet. Those of a group each have an epoch of their own, since every one is a start of its own.
fn enter_new_machines(
    before: &RunRecord,
    machines: &[Machine],
    journal: &mut Journal,
    session: &Session,
) -> Result<RunRecord, Diagnostic> {
    let spec = &before.spec;
    let mut new: Vec<&Machine> =
        machines.iter().filter(|machine| !before.machines.iter().any(|known| known.id == machine.id)).collect();
    new.sort_by_key(|machine| machine.created_at);
    for (number, machine) in new.into_iter().enumerate() {
        let is_place = |offered: &&Offered| {
            let (pool, place) = (&machine.pool, &offered.pool);
            pool.market == place.market && (pool.zone_id.is_none() || place.zone_id == pool.zone_id)
        };
        // The price of its zone; elsewhere the dearest that was agreed on.
        let offered =
            spec.places().find(is_place).or_else(|| spec.places().max_by_key(|offered| offered.rate_usd_per_hour));
        let Some(offered) = offered else { continue };
        let choice = Rentable { pool: machine.pool.clone(), ..offered.choice() };
        let start = (before.machines.len() + number + 1) as u64;
        let machine = Machine { epoch: if spec.is_kept { start } else { machine.epoch }, ..machine.clone() };
        journal.found(&spec.run, &machine, &choice, clock(spec).of(machine.created_at))?;
    }
    find_run(&spec.run, session)
}

/// Share of the work that is safe, and how the run ended, where its agent says so.
async fn read_status(store: &Run, spec: &RunSpec) -> Result<(f64, Option<End>), StoreError> {
    let Some(status) = store.status(0).await? else { return Ok((0.0, None)) };
    let step = status.committed.map(|name| name.step).unwrap_or_default() as f64;
    let done = (step / spec.steps.max(1.0)).min(1.0);
    if status.phase != Phase::Ended || status.at < spec.started_at {
        return Ok((done, None));
    }
    if status.is_done == Some(true) {
        return Ok((1.0, Some(End::Completed)));
    }
    let ended = store.result().await?.as_ref().and_then(Verdict::of).map(|verdict| match verdict {
        Verdict::Failed(why) => End::Failed(format!("the command failed: {why}")),
        Verdict::GivenUp(why) => End::Failed(why),
    });
    Ok((done, ended))
}

/// Who leads the run, if that is not this journal: another one, or nobody, as the machine of a leader. A store that does not answer in time says nothing.
pub fn leader_elsewhere(
    kept: &RunRecord,
    journal: &mut Journal,
    session: &Session,
) -> Result<Option<Leading>, Diagnostic> {
    let is_near = kept.spec.store.starts_with("file://") || !session.offline;
    if kept.end.is_some() || kept.spec.is_kept || !is_near {
        return Ok(None);
    }
    let (own, store) = (journal.identity()?, store_of_run(&kept.spec)?);
    let asked = runtime()?.block_on(async { tokio::time::timeout(TIMEOUT, store.leading()).await });
    let leading = asked.ok().and_then(Result::ok).flatten();
    let is_elsewhere = |leading: &Leading| leading.lead.as_ref().is_none_or(|lead| lead.journal != own);
    Ok(leading.filter(|leading| is_elsewhere(leading) || (kept.spec.leads.is_some() && leading.is_over)))
}

/// Before anybody reads the journal of a run that somebody else leads: what became of it since. A cloud that does not answer is said.
pub fn update_journal(run: &str, journal: &mut Journal, session: &Session) -> Result<(), Diagnostic> {
    let Some(kept) = journal.run(run)? else { return Ok(()) };
    let Some(leading) = leader_elsewhere(&kept, journal, session)? else { return Ok(()) };
    let seen = launchers_of_run(&kept.spec, session).and_then(|clouds| enter(&kept, &clouds, journal, session));
    match seen {
        // Whoever leads it has seen to its machines before it said that it is over.
        Ok(Seen { outcome: Some(end), up, .. }) if leading.is_over && up.is_empty() => {
            journal.end(run, &end, Timestamp::now())?;
        }
        Ok(_) => {}
        Err(error) => {
            session.printer.note(&format!("warning: {run} is shown as it was last seen: {}", error.message));
        }
    }
    Ok(())
}
