//! The page of a run: its machines as the journal of launches has them, its money as its store and the ledger have it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::finance::gather::charges_of_launch;
use crate::runs::journal::open_journal;
use crate::runs::launchers::clock;
use crate::runs::ledger::{LEDGER, open_ledger};
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::progress::with_progress;
use gpuplan_budget::Charge;
use gpuplan_launch::Market;
use gpuplan_launch::journal::RunRecord;
use gpuplan_report::page::document::Report;
use gpuplan_report::page::run::{self as page, OtherCharge, Rented, RunFacts, RunPlan};
use gpuplan_units::Usd;

pub fn report(kept: &RunRecord, session: &Session) -> Result<Report, Diagnostic> {
    Ok(page::report(&facts(kept, session)?, session.now))
}

/// Everything that is known of a run.
pub fn facts(kept: &RunRecord, session: &Session) -> Result<RunFacts, Diagnostic> {
    let events = open_journal(session)?.said(&kept.spec.run)?;
    let money = money(kept, session)?;
    Ok(as_of(kept, events, &money, session.now))
}

/// What a run was charged, and what of it can still grow.
struct Money {
    charges: Vec<Charge>,
    open: BTreeSet<String>,
    missing: Option<String>,
}

/// What was entered in the ledger stands; what grows still, and what nobody entered yet, is read from the store.
fn money(kept: &RunRecord, session: &Session) -> Result<Money, Diagnostic> {
    let spec = &kept.spec;
    let has_ledger = session.home.state_file(LEDGER).is_some_and(|path| path.is_file());
    let entered =
        if has_ledger { open_ledger(session)?.charges().map_err(Diagnostic::unexpected)? } else { Vec::new() };
    // A name may be used again once its first run is deleted.
    let mut charges: Vec<Charge> = entered
        .into_iter()
        .filter(|charge| charge.allocation.run.as_deref() == Some(&spec.run) && charge.start >= spec.started_at)
        .collect();
    let known: BTreeSet<String> = charges.iter().map(|charge| charge.id.clone()).collect();
    let read = with_progress(
        &session.printer,
        || format!("reading the store of {}", spec.run),
        || charges_of_launch(spec, session),
    );
    let mut open = BTreeSet::new();
    let mut missing = match spec.expected.as_ref().map(|expected| expected.beside.is_empty()) {
        Some(false) => None,
        _ => Some(
            "Disks, storage and data: this launch kept no prices of them, as on a stand-in of a cloud and by older versions".to_owned(),
        ),
    };
    match read {
        Ok(gathered) => {
            for found in
                gathered.runs.into_iter().flat_map(|run| run.found).filter(|found| !known.contains(&found.charge.id))
            {
                if found.is_open {
                    open.insert(found.charge.id.clone());
                }
                charges.push(found.charge);
            }
        }
        Err(error) => {
            missing = Some(format!("Of charges beside machines only what the ledger has is shown: {}", error.message));
        }
    }
    Ok(Money { charges, open, missing })
}

/// The run as the journal has it, with its money.
fn as_of(kept: &RunRecord, events: Vec<(Timestamp, String)>, money: &Money, at: Timestamp) -> RunFacts {
    let spec = &kept.spec;
    let clock = clock(spec);
    // Seconds of the run, as everything in the journal.
    let now = clock.of(at);
    let rentals = &kept.past.rentals.0;
    let last = rentals.iter().filter_map(|rental| rental.until).fold(0.0, f64::max);
    let hours = if kept.end.is_some() { last } else { now.max(last) } / 3600.0;
    let machines = kept.machines.iter().filter_map(|machine| {
        let rental = rentals.iter().find(|rental| rental.machine == machine.id)?;
        let is_of_it =
            |charge: &&Charge| charge.is_machine_time() && charge.resource.id.as_ref() == Some(&machine.id.0);
        // A machine that still runs is told as of now by the journal, and as of its last word by the store.
        let charges: Vec<Charge> = match rental.until {
            Some(_) => money
                .charges
                .iter()
                .filter(is_of_it)
                .filter(|charge| !money.open.contains(&charge.id))
                .cloned()
                .collect(),
            None => Vec::new(),
        };
        let cost = if charges.is_empty() {
            rental.cost(now)
        } else {
            charges.iter().map(|charge| charge.costs.contracted).sum::<Usd>()
        };
        Some(Rented {
            id: machine.id.0.clone(),
            epoch: machine.epoch,
            node: machine.node,
            place: format!("{} {}", machine.pool.cloud, machine.pool.place()),
            instance_type: machine.pool.instance_type.clone(),
            is_on_spot: machine.pool.market == Market::Spot,
            rate: rental.rate,
            from: rental.since / 3600.0,
            until: rental.until.map(|until| until / 3600.0),
            cost,
            charges,
        })
    });
    let beside = money.charges.iter().filter(|charge| !charge.is_machine_time()).map(|charge| OtherCharge {
        from: clock.of(charge.start) / 3600.0,
        until: clock.of(charge.end) / 3600.0,
        is_open: money.open.contains(&charge.id),
        charge: charge.clone(),
    });
    RunFacts {
        name: spec.run.clone(),
        state: kept.end.clone().unwrap_or_else(|| "not ended".to_owned()),
        started_at: spec.started_at,
        ended_at: kept.ended_at,
        plan: RunPlan {
            cost: spec.expected_cost_usd,
            hours: spec.expected.as_ref().map(|expected| expected.hours.expected),
            budget: spec.budget_usd,
            deadline_hours: spec.deadline_hours,
        },
        done: if kept.end.as_deref() == Some("completed") { 1.0 } else { kept.past.done },
        interruptions: kept.past.interruptions,
        store: spec.store.clone(),
        machines: machines.collect(),
        beside: beside.collect(),
        beside_missing: money.missing.clone(),
        hours,
        events,
    }
}
