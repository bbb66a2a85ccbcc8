//! `accuracy --mine`: how wrong the forecasts of this user's own runs were.

use crate::args::OutputFormat;
use crate::costs::gather::from_journal;
use crate::costs::{enter, ledger_said, open};
use crate::diagnostic::{Diagnostic, Exit};
use crate::printer::Printer;
use crate::settings::Settings;
use gpuplan_budget::mine::compare;
use gpuplan_report::mine as report;

pub fn run(settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let gathered = from_journal(settings)?;
    for note in &gathered.notes {
        printer.note(note);
    }
    let mut ledger = open(settings)?;
    enter(&gathered, &mut ledger, settings.now)?;
    let known = ledger.runs().map_err(|error| ledger_said(&error))?;
    let compared = compare(known.values());
    match settings.output {
        OutputFormat::Json => printer.data(&report::json(&compared, settings.now)),
        OutputFormat::Csv => printer.data(&report::csv(&compared)),
        OutputFormat::Table if compared.is_empty() => {
            printer.note("no run that was launched from a plan has completed, as far as the ledger knows");
            printer.note("hint: `gpuplan costs --store URI` enters the runs of a team");
            Ok(Exit::Done)
        }
        OutputFormat::Table => printer.data(&report::text(&compared, settings.width)),
    }
}
