//! `costs import`: reads the bill of a cloud, keeps it in the ledger, and compares it with what was charged here.

use std::collections::BTreeSet;

use crate::arguments::global::OutputFormat;
use crate::finance::bill_files::{ImportArguments, name, rate_hint, read_all, stated_rates};
use crate::finance::bill_increment::{counting, differs, left_out};
use crate::finance::bill_versions::of_one_delivery;
use crate::finance::entries::{enter, sum_up_own};
use crate::finance::gather::from_journal;
use crate::runs::ledger::open_ledger;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::with_progress;
use gpuplan_budget::bill::ImportedBill;
use gpuplan_budget::bill::compare::compare;
use gpuplan_budget::bill::delivery::Loss;
use gpuplan_budget::bill::increment::Increment;
use gpuplan_budget::bill::sums::{Known, Sums};
use gpuplan_budget::bill::survey::{Pass, Survey};
use gpuplan_budget::spent::CostFilter;
use gpuplan_budget::{Charge, Ledger, LedgerError};
use gpuplan_report::finance::bill as report;
use gpuplan_report::text::format::usd;

pub fn run(arguments: &ImportArguments, session: &Session) -> Result<Exit, Diagnostic> {
    of_one_delivery(&arguments.files)?;
    // The prices are dropped before the bill takes their room.
    let hardware = session.catalogs()?.hardware;
    let mut ledger = open_ledger(session)?;
    let read = with_progress(&session.printer, || "reading the bill".to_owned(), || read_bill(arguments, &ledger))?;
    let Read { mut sums, hash, formats, increment } = read;
    nothing_known(&sums)?;
    // What was charged is known as well as can be before the two are compared.
    let gathered = from_journal(session)?;
    for note in &gathered.notes {
        session.printer.note(note);
    }
    let entering = enter(&gathered, &mut ledger, session.now)?;
    let runs: BTreeSet<String> = ledger.runs()?.into_values().map(|run| run.run).collect();
    let known = Known { runs: &runs, hardware: &hardware };
    let names: Vec<String> = arguments.files.iter().map(|path| name(path)).collect();
    let source = format!("{} {}{}", formats.join("+"), names.join(" "), stated_rates(arguments).unwrap_or_default());
    let mut bills = sums.take_bills(&hash, &source, &known);
    drop(hardware);
    if let Some(increment) = &increment {
        left_out(increment, session);
        increment.mark(&mut bills);
    }
    let is_new = keep(&bills, &sums.pass, arguments.replace, &mut ledger, session)?;
    if let Some(increment) = &increment {
        bills.clear();
        bills = counting(increment, &ledger)?;
    }
    if sums.without_period > 0 {
        session.printer.note(&format!(
            "{} lines of runs state no billing period; they are kept with the month in which their usage began",
            sums.without_period
        ));
    }
    let charged = charged(&ledger, entering.open, &bills)?;
    let differences = compare(&bills, &charged);
    let read = report::BillComparison {
        lines: sums.lines,
        ours: sums.ours,
        unread: sums.unread,
        bills: &bills,
        differences: &differences,
        is_new,
    };
    match session.output {
        OutputFormat::Json => session.printer.data(&report::json(&read)),
        OutputFormat::Csv => session.printer.data(&report::csv(&read)),
        OutputFormat::Table if differences.is_empty() => Ok(without_runs(arguments, &read, &sums, &formats, session)),
        OutputFormat::Table => session.printer.data(&report::text(&read, session.width)),
    }
}

/// A bill of which no amount is known is refused: kept, it would look like a month without cost.
fn nothing_known(sums: &Sums) -> Result<(), Diagnostic> {
    if sums.lines == 0 || sums.unread < sums.lines {
        return Ok(());
    }
    let why = sums.first_unread.as_ref().map_or_else(String::new, |first| format!("; the first: {first}"));
    let lines = if sums.lines == 1 { "the one line".to_owned() } else { format!("any of the {} lines", sums.lines) };
    let diagnostic = Diagnostic::usage(format!("the amount of {lines} is not known{why}"));
    let rated = sums.unrated.iter().fold(diagnostic, |diagnostic, currency| diagnostic.hint(rate_hint(currency)));
    Err(if sums.unrated.is_empty() && sums.first_unread.is_none() {
        rated.hint("--currency USD, if what names no currency is in dollars")
    } else {
        rated
    }
    .hint("nothing of it was kept"))
}

/// Says what was read where no line of it is of a run.
fn without_runs(
    arguments: &ImportArguments,
    read: &report::BillComparison,
    sums: &Sums,
    formats: &[&str],
    session: &Session,
) -> Exit {
    let tag = arguments.run_tag.as_deref().unwrap_or("gpuplan:run");
    let kept = if read.bills.is_empty() { "" } else { "; kept, and `gpuplan costs --all` counts them" };
    let lines = if sums.lines == 1 { "line" } else { "lines" };
    session.printer.note(&format!("{} {lines} read, none with the tag `{tag}`{kept}", sums.lines));
    if sums.unread > 0 {
        session.printer.note(&format!(
            "of {} of them the amount is not known: it cannot be read, names no currency (--currency) or one without --rate",
            sums.unread
        ));
    }
    if let Some(first) = &sums.first_unread {
        session.printer.note(&format!("the first that cannot be read: {first}"));
    }
    for currency in &sums.unrated {
        session.printer.note(&format!("hint: {}", rate_hint(currency)));
    }
    if formats.contains(&"cur") {
        session.printer.note("hint: on AWS the tag is activated under Billing > Cost allocation tags, and is then in exports a day later");
    }
    Exit::Done
}

/// What was read of the files.
struct Read {
    sums: Sums,
    hash: String,
    formats: Vec<&'static str>,
    /// `None`: they are the whole of their billing periods.
    increment: Option<Increment>,
}

/// Once, or twice where only what does not count yet is wanted: what that is shows once all lines were seen.
fn read_bill(arguments: &ImportArguments, ledger: &Ledger) -> Result<Read, Diagnostic> {
    if !arguments.incremental {
        let (sums, hash, formats) = read_all(arguments, Pass::Whole)?;
        return Ok(Read { sums, hash, formats, increment: None });
    }
    let (surveyed, ..) = read_all(arguments, Pass::Survey(Survey::new().map_err(LedgerError::from)?))?;
    let Pass::Survey(mut survey) = surveyed.pass else {
        return Err(Diagnostic::unexpected("the parts of the bill were not told apart"));
    };
    survey.end().map_err(LedgerError::from)?.ok_or_else(|| {
        Diagnostic::usage("the sum of a part is more than this program can count").hint("nothing of it was kept")
    })?;
    let increment = Increment::new(&survey, ledger, arguments.replace)?.map_err(|conflicts| differs(&conflicts))?;
    let (mut sums, hash, formats) = read_all(arguments, Pass::Rest(survey))?;
    if let Pass::Rest(survey) = &mut sums.pass {
        survey.check().map_err(LedgerError::from)?;
    }
    Ok(Read { sums, hash, formats, increment: Some(increment) })
}

/// True if any of it did not count before.
fn keep(
    bills: &[ImportedBill],
    pass: &Pass,
    replace: bool,
    ledger: &mut Ledger,
    session: &Session,
) -> Result<bool, Diagnostic> {
    let delivered = match pass {
        Pass::Rest(survey) => ledger.add_parts(bills, survey, replace, session.now)?,
        Pass::Whole | Pass::Survey(_) => ledger.deliver(bills, replace, session.now)?,
    };
    if !delivered.losses.is_empty() {
        return Err(shrinks(&delivered.losses));
    }
    if delivered.outrun > 0 {
        return Err(Diagnostic::unexpected(
            "another import was kept while this bill was read; nothing of this one was",
        )
        .hint("give the same command again"));
    }
    for old in &delivered.superseded {
        session.printer.note(&format!(
            "the bill of {} {} was imported before, and a newer one has replaced it since, which still counts; --replace goes back to it",
            old.cloud, old.month
        ));
    }
    Ok(delivered.new > 0)
}

/// What would go, period by period.
fn shrinks(losses: &[Loss]) -> Diagnostic {
    let words = losses.iter().map(|loss| {
        let Loss { cloud, month, missing, kept_lines, lines, kept_usd, usd: billed, kept_all_usd, all_usd, .. } = loss;
        let days =
            if *missing > 0 { format!("; {missing} sums of a run and day would be gone") } else { String::new() };
        let all = format!("the bill of {cloud} {month} would shrink from {} to {}", usd(*kept_all_usd), usd(*all_usd));
        if *kept_lines == 0 {
            return all;
        }
        let (kept, billed) = (usd(*kept_usd), usd(*billed));
        format!("{all}, for runs from {kept} to {billed} and from {kept_lines} to {lines} lines{days}")
    });
    let words: Vec<String> = words.collect();
    Diagnostic::usage(format!("{}; nothing was kept", words.join("\n  "))).hint(
        "name all files of the bill in one command; where a file has only what is new: --incremental; if it is right as it is: --replace",
    )
}

/// What was charged here in the months of the bills: entered, and what grows still.
fn charged(ledger: &Ledger, open: Vec<Charge>, bills: &[ImportedBill]) -> Result<Vec<Charge>, Diagnostic> {
    let months: BTreeSet<&str> = bills.iter().map(|bill| bill.month.as_str()).collect();
    let mut charged = Vec::new();
    for month in months {
        let (since, until) = month_of(month)
            .ok_or_else(|| Diagnostic::unexpected(format!("`{month}` is not a valid month; try 2026-10")))?;
        let asked = CostFilter { since: Some(since), until: Some(until), ..CostFilter::default() };
        let lines = sum_up_own(ledger, open.clone(), &asked)?.lines;
        charged.extend(lines.into_iter().map(|line| line.charge));
    }
    Ok(charged)
}

/// Its first moment and that of the next.
fn month_of(month: &str) -> Option<(jiff::Timestamp, jiff::Timestamp)> {
    let first: jiff::civil::Date = format!("{month}-01").parse().ok()?;
    let next = first.checked_add(jiff::Span::new().months(1)).ok()?;
    let of = |day: jiff::civil::Date| day.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|midnight| midnight.timestamp());
    Some((of(first)?, of(next)?))
}
