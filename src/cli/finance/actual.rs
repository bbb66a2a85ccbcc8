//! A portfolio against the ledger: what was planned, what was spent, and how both are shown.

use std::fs;
use std::path::Path;

use crate::arguments::global::OutputFormat;
use crate::finance::entries::{differ, enter, sum_up};
use crate::finance::gather::from_journal;
use crate::runs::ledger::open_ledger;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_budget::Budget;
use gpuplan_budget::portfolio::Portfolio;
use gpuplan_budget::spent::{CostFilter, Spent};
use gpuplan_budget::status::{BudgetStatus, Planned};
use gpuplan_report::finance::status_text;

/// What was planned: a recorded budget, else that of today.
pub fn planned(recorded: Option<&Path>, today: &Budget) -> Result<Planned, Diagnostic> {
    let Some(path) = recorded else { return Ok(Planned::of_today(today)) };
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    let planned = Planned::read(&text).map_err(|error| {
        Diagnostic::usage(format!("{}: {error}", path.display()))
            .hint("gpuplan budget FILE --output json >planned.json")
    })?;
    // Approved amounts of a currency stay what was approved at its rate alone.
    if let (Some(then), Some(now)) = (&planned.exchange, &today.exchange)
        && (then.currency, then.usd_per_unit) != (now.currency, now.usd_per_unit)
    {
        return Err(Diagnostic::usage(format!(
            "{} was approved in {}, and the portfolio is in {}: amounts would not be those that were approved",
            path.display(),
            then.words(),
            now.words()
        ))
        .hint(format!(
            "currency = \"{}\" and exchange = {{ usd_per_unit = \"{}\", source = \"{}\", as_of = {} }}",
            then.currency, then.usd_per_unit, then.source, then.as_of
        )));
    }
    Ok(planned)
}

/// What was spent since its first month, by the runs that were launched from here, the ledger and imported bills.
pub fn spent(portfolio: &Portfolio, session: &Session) -> Result<Spent, Diagnostic> {
    let gathered = from_journal(session)?;
    for note in &gathered.notes {
        session.printer.note(note);
    }
    let mut ledger = open_ledger(session)?;
    let entered = enter(&gathered, &mut ledger, session.now)?;
    if !entered.differing.is_empty() {
        session.printer.warning(&differ(&entered.differing).message);
    }
    let others = !portfolio.shared.is_empty();
    let since = CostFilter { since: Some(portfolio.start.begin()), others, ..CostFilter::default() };
    sum_up(&ledger, entered.open, &since)
}

pub fn show_status(status: &BudgetStatus, session: &Session) -> Result<Exit, Diagnostic> {
    match session.output {
        OutputFormat::Json => session.printer.data(&status_text::json(status)),
        OutputFormat::Csv => session.printer.data(&status_text::csv(status)),
        OutputFormat::Table if session.markdown => session.printer.data(&status_text::markdown(status)),
        OutputFormat::Table => session.printer.data(&status_text::text(status, session.width)),
    }
}
