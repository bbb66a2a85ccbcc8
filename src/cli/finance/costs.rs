//! `costs`: what runs have cost, from their stores and the ledger, and what the clouds' bills say of it.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::arguments::global::OutputFormat;
use crate::finance::bill_files::ImportArguments;
use crate::finance::bill_import;
use crate::finance::budget::{focus, read_portfolio};
use crate::finance::entries::{differ, enter, sum_up};
use crate::finance::gather::{from_journal, from_store};
use crate::runs::ledger::open_ledger;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::printer::Printer;
use crate::session::progress::with_progress;
use gpuplan_budget::exchange::Exchange;
use gpuplan_budget::spent::{CostFilter, CostGrouping, Spent};
use gpuplan_report::finance::costs::{self as report, CostsReport};
use gpuplan_report::finance::focus::FocusVersion;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CostsArguments {
    #[command(subcommand)]
    pub what: Option<CostsCommand>,
    /// Show only the runs of this store (repeat for several) [default: those launched from this machine, and all in the ledger]
    #[arg(long = "store", value_name = "URI")]
    pub stores: Vec<String>,
    /// Add up by run, phase, team, project, day, month, cloud, region, gpu, instance or tag:NAME
    #[arg(long, value_name = "WHAT", default_value = "run")]
    pub by: String,
    /// Count money spent from then on: 2026-10-01, 2026-10-01T06:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Count money spent before then
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Show only this cloud (repeat for several); `fake` shows rehearsals
    #[arg(long = "cloud", value_name = "CLOUD", value_delimiter = ',')]
    pub clouds: Vec<String>,
    /// Tell phases apart by this portfolio (TOML), for `--by phase`, and show its currency
    #[arg(long, value_name = "FILE")]
    pub portfolio: Option<PathBuf>,
    /// Count the lines of imported bills that are of no run too
    #[arg(long)]
    pub all: bool,
    /// Print every closed charge as a row of FOCUS 1.2, 1.3 or 1.4 (CSV)
    #[arg(long, value_name = "VERSION")]
    pub focus: Option<FocusVersion>,
}

#[derive(Debug, Subcommand)]
pub enum CostsCommand {
    /// Import a cloud's bill and compare it with the charges of your runs
    Import(ImportArguments),
}

pub fn run(arguments: &CostsArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if let Some(CostsCommand::Import(arguments)) = &arguments.what {
        return bill_import::run(arguments, session);
    }
    let by = CostGrouping::parse(&arguments.by).ok_or_else(|| {
        Diagnostic::usage(format!(
            "`{}` is not a valid value of --by; try run, phase, team, project, day, month, cloud, region, gpu, instance or tag:NAME",
            arguments.by
        ))
            .hint("gpuplan costs --by team")
    })?;
    let mut asked = CostFilter {
        since: time("--since", arguments.since.as_deref())?,
        until: time("--until", arguments.until.as_deref())?,
        ..CostFilter::default()
    };
    if let Some((since, until)) = asked.since.zip(asked.until).filter(|(since, until)| since >= until) {
        return Err(Diagnostic::usage(format!("--since {since} is not before --until {until}"))
            .hint("gpuplan costs --since 2026-10-01 --until 2026-11-01"));
    }
    asked.clouds.clone_from(&arguments.clouds);
    asked.others = arguments.all;
    let gathered = with_progress(
        &session.printer,
        || "reading the stores of the runs".to_owned(),
        || {
            if arguments.stores.is_empty() { from_journal(session) } else { from_store(&arguments.stores, session) }
        },
    )?;
    let mut ledger = open_ledger(session)?;
    let entered = enter(&gathered, &mut ledger, session.now)?;
    if !arguments.stores.is_empty() {
        asked.runs = Some(gathered.runs.iter().map(|run| run.known.key.clone()).collect());
    }
    let mut spent = sum_up(&ledger, entered.open, &asked)?;
    let portfolio = arguments.portfolio.as_deref().map(read_portfolio).transpose()?;
    let exchange = portfolio.as_ref().and_then(|portfolio| portfolio.exchange.as_ref());
    if let Some(portfolio) = &portfolio {
        spent.name_phases(portfolio);
    } else if by == CostGrouping::Phase {
        return Err(Diagnostic::usage("--by phase needs the portfolio that has the phases")
            .hint("gpuplan costs --by phase --portfolio examples/portfolio.toml"));
    }
    let (stores, now) = (&arguments.stores, session.now);
    let shown = CostsReport { spent: &spent, by: &by, asked: &asked, stores, now, exchange };
    for note in &gathered.notes {
        session.printer.note(note);
    }
    if spent.rehearsals > 0 {
        session.printer.note(&format!(
            "{} runs rehearsed on the fake cloud and cost nothing; `gpuplan costs --cloud fake` shows them",
            spent.rehearsals
        ));
    }
    match (arguments.focus, session.output) {
        (Some(version), _) => session.printer.data(&rows(version, &spent, exchange, &session.printer)?)?,
        (None, OutputFormat::Json) => session.printer.data(&report::json(&shown))?,
        (None, OutputFormat::Csv) => session.printer.data(&report::csv(&shown))?,
        (None, OutputFormat::Table) if spent.lines.is_empty() => {
            session.printer.note("no spending is known");
            session.printer.note("hint: `gpuplan costs --store URI` reads the runs of a store");
            Exit::Done
        }
        (None, OutputFormat::Table) => session.printer.data(&report::text(&shown, session.width))?,
    };
    if entered.differing.is_empty() { Ok(Exit::Done) } else { Err(differ(&entered.differing)) }
}

/// Every charge once: what a bill has of a run takes the place of what the run recorded itself, and what still grows is left out.
fn rows(
    version: FocusVersion,
    spent: &Spent,
    exchange: Option<&Exchange>,
    printer: &Printer,
) -> Result<String, Diagnostic> {
    let open = spent.lines.iter().filter(|line| line.so_far).count();
    if open > 0 {
        printer.note(&format!("{open} charges still grow and are left out; they come once their machines have ended"));
    }
    focus(version, &spent.closed_once(), exchange)
}

/// A day, which begins at midnight UTC, or a moment.
fn time(flag: &str, text: Option<&str>) -> Result<Option<Timestamp>, Diagnostic> {
    let Some(text) = text else { return Ok(None) };
    let of_day = |day: Date| day.to_zoned(TimeZone::UTC).map(|midnight| midnight.timestamp());
    let read = text.parse::<Timestamp>().or_else(|_| text.parse::<Date>().and_then(of_day));
    read.map(Some).map_err(|_| {
        Diagnostic::usage(format!("`{text}` is not a valid time for {flag}; try 2026-10-01 or 2026-10-01T06:00:00Z"))
            .hint(format!("gpuplan costs {flag} 2026-10-01"))
    })
}
