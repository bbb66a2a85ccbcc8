//! Entering what runs cost into the ledger, and adding up what it has.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::finance::gather::{Gathered, charges_of_run};
use crate::runs::ledger::open_ledger;
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use gpuplan_budget::bill::ImportedBill;
use gpuplan_budget::ledger::{Differing, Ledger};
use gpuplan_budget::spent::{CostFilter, RunKnown, Spent};
use gpuplan_budget::{Charge, Item};
use gpuplan_report::text::format::usd;
use gpuplan_runstore::Run;

/// Charges of the store that differ from the ledger and are named; more are counted.
const MOST_NAMED: usize = 5;

/// What the store has now and what the ledger recorded: both are named, and the ledger is right.
pub fn differ(differing: &[Differing]) -> Diagnostic {
    let mut message = format!(
        "{} charges are in the ledger with other amounts; it keeps what it has, and that is shown",
        differing.len()
    );
    for Differing { kept, found } in differing.iter().take(MOST_NAMED) {
        message.push_str(&format!(
            "\n  {}: {} in the ledger, {} in the store now",
            kept.id,
            words(kept.costs.contracted, kept.quantity),
            words(found.costs.contracted, found.quantity)
        ));
    }
    Diagnostic::unexpected(message).hint("nothing is ever priced again: see who changed or copied the store of the run")
}

fn words(amount: gpuplan_units::Usd, hours: f64) -> String {
    format!("{} for {hours:.3} h", usd(amount))
}

/// What was entered, and what grows still.
#[derive(Default)]
pub struct Entering {
    pub open: Vec<Charge>,
    pub differing: Vec<Differing>,
}

/// A run at a time, so that an end in the middle leaves whole runs.
pub fn enter(gathered: &Gathered, ledger: &mut Ledger, now: Timestamp) -> Result<Entering, Diagnostic> {
    let mut entering = Entering::default();
    for run in &gathered.runs {
        let (open, closed): (Vec<_>, Vec<_>) = run.found.iter().cloned().partition(|found| found.is_open);
        let closed: Vec<_> = closed.into_iter().map(|found| found.charge).collect();
        let entered = ledger.enter(&closed, now)?;
        ledger.know(&run.known, now)?;
        // Of what was stored in a month, less is seen once it was deleted.
        entering
            .differing
            .extend(entered.differing.into_iter().filter(|differing| differing.kept.item != Item::CheckpointStorage));
        entering.open.extend(open.into_iter().map(|found| found.charge));
    }
    Ok(entering)
}

/// Once a run has ended, the next plan and the next sum know it. What cannot be read now is entered by whoever asks next.
pub fn enter_ended_run(run: &Run, session: &Session) {
    let entered = charges_of_run(run, Timestamp::now())
        .and_then(|gathered| enter(&gathered, &mut open_ledger(session)?, Timestamp::now()));
    if let Err(error) = entered {
        session.printer.warning(&format!(
            "what {} cost is not in the ledger: {}; `gpuplan costs` enters it",
            run.name(),
            error.message
        ));
    }
}

/// Before the store of a run is deleted: what it cost is entered, whether or not it ended as it should.
pub fn enter_before_deletion(run: &Run, session: &Session) -> Result<(), Diagnostic> {
    let mut gathered = charges_of_run(run, session.now)?;
    for found in gathered.runs.iter_mut().flat_map(|run| &mut run.found) {
        found.is_open = false;
    }
    let entered = enter(&gathered, &mut open_ledger(session)?, session.now)?;
    if !entered.differing.is_empty() {
        session.printer.warning(&differ(&entered.differing).message);
    }
    Ok(())
}

pub fn sum_up(ledger: &Ledger, open: Vec<Charge>, asked: &CostFilter) -> Result<Spent, Diagnostic> {
    summed(ledger, open, &ledger.bills()?, asked)
}

/// What was charged here alone, without what bills say.
pub fn sum_up_own(ledger: &Ledger, open: Vec<Charge>, asked: &CostFilter) -> Result<Spent, Diagnostic> {
    summed(ledger, open, &[], asked)
}

fn summed(ledger: &Ledger, open: Vec<Charge>, bills: &[ImportedBill], asked: &CostFilter) -> Result<Spent, Diagnostic> {
    let charges = ledger.charges()?;
    let known: BTreeMap<String, RunKnown> = ledger.runs()?;
    // What was entered as a whole before stands; what grows is not in it.
    let entered: BTreeSet<&str> = charges.iter().map(|charge| charge.id.as_str()).collect();
    let open = open.into_iter().filter(|charge| !entered.contains(charge.id.as_str())).collect();
    Ok(Spent::new(charges, open, bills, known, asked))
}
