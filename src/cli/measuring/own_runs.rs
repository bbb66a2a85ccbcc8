//! `accuracy --mine`: how wrong the forecasts of this user's own runs were.

use crate::arguments::global::OutputFormat;
use crate::finance::entries::enter;
use crate::finance::gather::from_journal;
use crate::runs::ledger::open_ledger;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_budget::mine::compare;
use gpuplan_report::finance::mine as report;

pub fn run(session: &Session) -> Result<Exit, Diagnostic> {
    let gathered = from_journal(session)?;
    for note in &gathered.notes {
        session.printer.note(note);
    }
    let mut ledger = open_ledger(session)?;
    enter(&gathered, &mut ledger, session.now)?;
    let known = ledger.runs()?;
    let compared = compare(known.values());
    match session.output {
        OutputFormat::Json => session.printer.data(&report::json(&compared, session.now)),
        OutputFormat::Csv => session.printer.data(&report::csv(&compared)),
        OutputFormat::Table if compared.is_empty() => {
            session.printer.note("no run that was launched from a plan has completed, as far as the ledger knows");
            session.printer.note("hint: `gpuplan costs --store URI` enters the runs of a team");
            Ok(Exit::Done)
        }
        OutputFormat::Table => session.printer.data(&report::text(&compared, session.width)),
    }
}
