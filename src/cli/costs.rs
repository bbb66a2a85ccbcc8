//! `costs`: what runs have cost, from their stores and the ledger, and what the clouds' bills say of it.

pub mod gather;
pub mod import;
pub mod mine;

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::args::OutputFormat;
use crate::budget::focus;
use crate::costs::gather::{Gathered, from_journal, from_store, of_run};
use crate::costs::import::ImportArguments;
use crate::diagnostic::{Diagnostic, Exit};
use crate::patience::meanwhile;
use crate::printer::Printer;
use crate::settings::Settings;
use gpuplan_budget::ledger::{Differing, Ledger, LedgerError};
use gpuplan_budget::spent::{Asked, By, Line, RunKnown, Spent};
use gpuplan_budget::{Charge, Item};
use gpuplan_report::costs::{self as report, Shown};
use gpuplan_report::focus::FocusVersion;
use gpuplan_report::format::usd;
use gpuplan_runstore::Run;

/// File of the ledger, among what is remembered.
pub const LEDGER: &str = "ledger.sqlite";
/// Charges of the store that differ from the ledger and are named; more are counted.
const MOST_NAMED: usize = 5;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example: gpuplan costs --store s3://bucket/prefix --by team --since 2026-10-01 --until 2026-11-01"
)]
pub struct CostsArguments {
    #[command(subcommand)]
    pub what: Option<CostsCommand>,
    /// Only the runs of this store (repeat for several) [default: those launched from here, and all that the ledger has]
    #[arg(long = "store", value_name = "URI")]
    pub stores: Vec<String>,
    /// Rows: run, team, day or tag:NAME
    #[arg(long, value_name = "WHAT", default_value = "run")]
    pub by: String,
    /// Money spent from then on: 2026-10-01, 2026-10-01T06:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Money spent before then
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Only this cloud (repeat for several); `fake` shows what was rehearsed
    #[arg(long = "cloud", value_name = "CLOUD")]
    pub clouds: Vec<String>,
    /// Print every charge that is closed as a row of FOCUS 1.2, 1.3 or 1.4 (CSV)
    #[arg(long, value_name = "VERSION")]
    pub focus: Option<FocusVersion>,
}

#[derive(Debug, Subcommand)]
pub enum CostsCommand {
    /// Compare a cloud's bill with what was charged here, and keep it
    Import(ImportArguments),
}

pub fn run(arguments: &CostsArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    if let Some(CostsCommand::Import(arguments)) = &arguments.what {
        return import::run(arguments, settings, printer);
    }
    let by = By::parse(&arguments.by).ok_or_else(|| {
        Diagnostic::new(Exit::Usage, format!("--by `{}` is no kind of row: run, team, day or tag:NAME", arguments.by))
            .hint("gpuplan costs --by team")
    })?;
    let mut asked = Asked {
        since: time("--since", arguments.since.as_deref())?,
        until: time("--until", arguments.until.as_deref())?,
        ..Asked::default()
    };
    if let Some((since, until)) = asked.since.zip(asked.until).filter(|(since, until)| since >= until) {
        return Err(Diagnostic::new(Exit::Usage, format!("--since {since} is not before --until {until}"))
            .hint("gpuplan costs --since 2026-10-01 --until 2026-11-01"));
    }
    asked.clouds.clone_from(&arguments.clouds);
    let gathered = meanwhile(
        printer,
        || "reading the stores of the runs".to_owned(),
        || {
            if arguments.stores.is_empty() { from_journal(settings) } else { from_store(&arguments.stores, settings) }
        },
    )?;
    let mut ledger = open(settings)?;
    let entered = enter(&gathered, &mut ledger, settings.now)?;
    if !arguments.stores.is_empty() {
        asked.runs = Some(gathered.runs.iter().map(|run| run.known.key.clone()).collect());
    }
    let spent = spent(&ledger, entered.open, &asked)?;
    let shown = Shown { spent: &spent, by: &by, asked: &asked, stores: &arguments.stores, now: settings.now };
    for note in &gathered.notes {
        printer.note(note);
    }
    if spent.rehearsals > 0 {
        printer.note(&format!(
            "{} runs rehearsed on the fake cloud and cost nothing; `gpuplan costs --cloud fake` shows them",
            spent.rehearsals
        ));
    }
    match (arguments.focus, settings.output) {
        (Some(version), _) => printer.data(&rows(version, &spent, printer)?)?,
        (None, OutputFormat::Json) => printer.data(&report::json(&shown))?,
        (None, OutputFormat::Csv) => printer.data(&report::csv(&shown))?,
        (None, OutputFormat::Table) if spent.lines.is_empty() => {
            printer.note("nothing was spent that this program knows of");
            printer.note("hint: `gpuplan costs --store URI` reads the runs of a store");
            Exit::Done
        }
        (None, OutputFormat::Table) => printer.data(&report::text(&shown, settings.width))?,
    };
    if entered.differing.is_empty() { Ok(Exit::Done) } else { Err(differ(&entered.differing)) }
}

/// Charges of runs, without those that still grow and without the lines of a bill, which stand beside them.
fn rows(version: FocusVersion, spent: &Spent, printer: &Printer) -> Result<String, Diagnostic> {
    let (open, closed): (Vec<&Line>, Vec<&Line>) =
        spent.lines.iter().filter(|line| !line.of_bill).partition(|line| line.so_far);
    if !open.is_empty() {
        printer.note(&format!(
            "{} charges still grow and are left out; they come once their machines have ended",
            open.len()
        ));
    }
    let closed: Vec<Charge> = closed.into_iter().map(|line| line.charge.clone()).collect();
    focus(version, &closed)
}

/// What a store says now and what the ledger kept: both are named, and the ledger is right.
fn differ(differing: &[Differing]) -> Diagnostic {
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
    Diagnostic::new(Exit::Unexpected, message)
        .hint("nothing is ever priced again: see who changed or copied the store of the run")
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
        let entered = ledger.enter(&closed, now).map_err(|error| ledger_said(&error))?;
        ledger.know(&run.known, now).map_err(|error| ledger_said(&error))?;
        // Of what was stored in a month, less is seen once it was deleted.
        entering
            .differing
            .extend(entered.differing.into_iter().filter(|differing| differing.kept.item != Item::CheckpointStorage));
        entering.open.extend(open.into_iter().map(|found| found.charge));
    }
    Ok(entering)
}

/// Once a run has ended, the next plan and the next sum know it. What cannot be read now is entered by whoever asks next.
pub fn after(run: &Run, settings: &Settings, printer: &Printer) {
    let entered =
        of_run(run, Timestamp::now()).and_then(|gathered| enter(&gathered, &mut open(settings)?, Timestamp::now()));
    if let Err(error) = entered {
        printer.warning(&format!(
            "what {} cost is not in the ledger: {}; `gpuplan costs` enters it",
            run.name(),
            error.message
        ));
    }
}

/// Before the store of a run is deleted: what it cost is entered, whether or not it ended as it should.
pub fn remember(run: &Run, settings: &Settings, printer: &Printer) -> Result<(), Diagnostic> {
    let mut gathered = of_run(run, settings.now)?;
    for found in gathered.runs.iter_mut().flat_map(|run| &mut run.found) {
        found.is_open = false;
    }
    let entered = enter(&gathered, &mut open(settings)?, settings.now)?;
    if !entered.differing.is_empty() {
        printer.warning(&differ(&entered.differing).message);
    }
    Ok(())
}

pub fn spent(ledger: &Ledger, open: Vec<Charge>, asked: &Asked) -> Result<Spent, Diagnostic> {
    let said = |error: LedgerError| ledger_said(&error);
    let (charges, bills) = (ledger.charges().map_err(said)?, ledger.bills().map_err(said)?);
    let known: BTreeMap<String, RunKnown> = ledger.runs().map_err(said)?;
    // What was entered as a whole before stands; what grows is not in it.
    let entered: BTreeSet<&str> = charges.iter().map(|charge| charge.id.as_str()).collect();
    let open = open.into_iter().filter(|charge| !entered.contains(charge.id.as_str())).collect();
    Ok(Spent::new(charges, open, &bills, known, asked))
}

pub fn open(settings: &Settings) -> Result<Ledger, Diagnostic> {
    let path = settings.home.state_file(LEDGER).ok_or_else(|| {
        Diagnostic::new(Exit::Usage, "there is no folder to keep a ledger in").hint("set HOME or GPUPLAN_HOME")
    })?;
    Ledger::open(&path).map_err(|error| {
        let mut diagnostic = ledger_said(&error);
        diagnostic.message = format!("{}: {}", path.display(), diagnostic.message);
        diagnostic
    })
}

pub fn ledger_said(error: &LedgerError) -> Diagnostic {
    let diagnostic = Diagnostic::new(Exit::Unexpected, error.to_string());
    match error {
        LedgerError::Newer(_) => Diagnostic { exit: Exit::Usage, ..diagnostic }
            .hint("install the newer program, or set GPUPLAN_HOME to another folder"),
        LedgerError::Foreign(_) => Diagnostic { exit: Exit::Usage, ..diagnostic }
            .hint("move the file away, or set GPUPLAN_HOME to another folder"),
        LedgerError::Full => diagnostic.hint("make room on the disk, then run the same command again"),
        LedgerError::Database(_) | LedgerError::Folder(_) | LedgerError::Row { .. } => diagnostic,
    }
}

/// A day, which begins at midnight UTC, or a moment.
fn time(flag: &str, text: Option<&str>) -> Result<Option<Timestamp>, Diagnostic> {
    let Some(text) = text else { return Ok(None) };
    let of_day = |day: Date| day.to_zoned(TimeZone::UTC).map(|midnight| midnight.timestamp());
    let read = text.parse::<Timestamp>().or_else(|_| text.parse::<Date>().and_then(of_day));
    read.map(Some).map_err(|_| {
        Diagnostic::new(Exit::Usage, format!("{flag} `{text}` is no day and no time"))
            .hint(format!("gpuplan costs {flag} 2026-10-01"))
    })
}
