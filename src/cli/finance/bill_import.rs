//! `costs import`: reads the bill of a cloud, keeps it in the ledger, and compares it with what was charged here.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::panic;
use std::path::{Path, PathBuf};

use clap::Args;
use flate2::read::MultiGzDecoder;

use crate::arguments::global::OutputFormat;
use crate::finance::entries::{enter, sum_up};
use crate::finance::gather::from_journal;
use crate::runs::ledger::open_ledger;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::with_progress;
use gpuplan_budget::bill::compare::compare;
use gpuplan_budget::bill::delivery::Loss;
use gpuplan_budget::bill::dimensions::RunTag;
use gpuplan_budget::bill::sums::{Known, Sums};
use gpuplan_budget::bill::{BillError, Format, ImportedBill, columnar, is_columnar, read};
use gpuplan_budget::exchange::ExchangeRate;
use gpuplan_budget::spent::{CostFilter, CostLine};
use gpuplan_budget::{Charge, Ledger};
use gpuplan_report::finance::bill as report;
use gpuplan_report::text::format::usd;
use gpuplan_runstore::store::Hash;

/// Read at once from a file.
const BUFFER: usize = 1 << 20;

/// Changes when more is kept of a line, so that the same files imported again are another delivery.
const KEPT: &str = "with dimensions";

/// Letters of the hash of an import.
const HASH: usize = 16;

/// Beginning of a file of gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Read this export of a bill, all its parts at once: CSV or JSON lines, plain or gzip, or Parquet
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Name the format of the export: cur, focus, google or azure [default: recognized by its columns]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Let this delivery count for its billing period even where it has fewer lines or charges than the one imported before
    #[arg(long)]
    pub replace: bool,
    /// Convert a bill in another currency at this rate: EUR=1.0842, in dollars for one unit (repeat for several)
    #[arg(long = "rate", value_name = "CURRENCY=USD", requires = "rate_source")]
    pub rates: Vec<String>,
    /// Say where the rates are from, such as `ECB, 2026-10-30`; it is kept with every amount
    #[arg(long, value_name = "TEXT", requires = "rates")]
    pub rate_source: Option<String>,
    /// Tell runs apart by this tag or label, such as the cluster's name that another program sets [default: gpuplan:run]
    #[arg(long, value_name = "NAME")]
    pub run_tag: Option<String>,
}

pub fn run(arguments: &ImportArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let format = arguments.format.as_deref().map(format).transpose()?;
    // The prices are dropped before the bill takes their room.
    let hardware = session.catalogs()?.hardware;
    let (sums, hash, formats) =
        with_progress(&session.printer, || "reading the bill".to_owned(), || read_all(arguments, format))?;
    // What was charged is known as well as can be before the two are compared.
    let gathered = from_journal(session)?;
    for note in &gathered.notes {
        session.printer.note(note);
    }
    let mut ledger = open_ledger(session)?;
    let entering = enter(&gathered, &mut ledger, session.now)?;
    let runs: BTreeSet<String> = ledger.runs()?.into_values().map(|run| run.run).collect();
    let known = Known { runs: &runs, hardware: &hardware };
    let names: Vec<String> = arguments.files.iter().map(|path| name(path)).collect();
    let source = format!("{} {}{}", formats.join("+"), names.join(" "), stated_rates(arguments).unwrap_or_default());
    let bills = sums.bills(&hash, &source, &known);
    let is_new = keep(&bills, arguments.replace, &mut ledger, session)?;
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
        OutputFormat::Table if differences.is_empty() => {
            let tag = arguments.run_tag.as_deref().unwrap_or("gpuplan:run");
            let kept = if bills.is_empty() { "" } else { "; kept, and `gpuplan costs --all` counts them" };
            let lines = if sums.lines == 1 { "line" } else { "lines" };
            session.printer.note(&format!("{} {lines} read, none with the tag `{tag}`{kept}", sums.lines));
            if sums.unread > 0 {
                session.printer.note(&format!(
                    "of {} of them the amount is not known: it cannot be read, or is in a currency without --rate",
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
            Ok(Exit::Done)
        }
        OutputFormat::Table => session.printer.data(&report::text(&read, session.width)),
    }
}

fn format(text: &str) -> Result<Format, Diagnostic> {
    Format::parse(text).ok_or_else(|| {
        Diagnostic::usage(format!("`{text}` is not a known export format; try cur, focus, google or azure"))
            .hint("gpuplan costs import FILE --format cur")
    })
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// True if any of it did not count before.
fn keep(bills: &[ImportedBill], replace: bool, ledger: &mut Ledger, session: &Session) -> Result<bool, Diagnostic> {
    let delivered = ledger.deliver(bills, replace, session.now)?;
    if !delivered.losses.is_empty() {
        return Err(shrinks(&delivered.losses));
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
        let Loss { cloud, month, missing, kept_lines, lines, kept_usd, usd: billed, .. } = loss;
        let days = if *missing > 0 { format!("; {missing} sums of a run and day would be gone") } else { String::new() };
        format!(
            "the bill of {cloud} {month} would shrink from {} to {} and from {kept_lines} to {lines} lines of runs{days}",
            usd(*kept_usd),
            usd(*billed)
        )
    });
    let words: Vec<String> = words.collect();
    Diagnostic::usage(format!("{}; nothing was kept", words.join("\n  "))).hint(
        "name all files of the bill in one command; if this one is right as it is: gpuplan costs import FILE --replace",
    )
}

/// As they are kept with every amount; `None`: none is stated.
fn stated_rates(arguments: &ImportArguments) -> Option<String> {
    let source = arguments.rate_source.as_ref()?;
    Some(format!(" at {} ({source})", arguments.rates.join(" ")))
}

/// Sums of all files, their hash and their formats.
fn read_all(
    arguments: &ImportArguments,
    format: Option<Format>,
) -> Result<(Sums, String, Vec<&'static str>), Diagnostic> {
    let (mut sums, mut hash, mut formats) = (Sums::default(), Hash::default(), Vec::new());
    hash.update(KEPT.as_bytes());
    if let Some(name) = &arguments.run_tag {
        sums.mark = RunTag::named(name);
        // The same files by another tag are another delivery.
        hash.update(name.as_bytes());
    }
    for rate in &arguments.rates {
        let read = ExchangeRate::parse(rate).ok_or_else(|| {
            Diagnostic::usage(format!("`{rate}` is not a rate of exchange")).hint("--rate EUR=1.0842")
        })?;
        sums.rates.extend([read]);
    }
    // The same files at another rate are another delivery.
    hash.update(stated_rates(arguments).unwrap_or_default().as_bytes());
    for path in &arguments.files {
        let unreadable = |error: &io::Error| Diagnostic::file(path, error);
        let file = File::open(path).map_err(|error| unreadable(&error))?;
        if path.is_dir() {
            return Err(
                Diagnostic::usage(format!("{} is a folder", path.display())).hint("gpuplan costs import FILE FILE")
            );
        }
        let mut bytes = BufReader::with_capacity(BUFFER, Hashing { file, hash: &mut hash });
        let beginning = bytes.fill_buf().map_err(|error| unreadable(&error))?;
        let (is_packed, is_columnar) = (beginning.starts_with(&GZIP), is_columnar(beginning));
        let format = if is_columnar {
            io::copy(&mut bytes, &mut io::sink()).map_err(|error| unreadable(&error))?;
            let file = File::open(path).map_err(|error| unreadable(&error))?;
            quietly(|| columnar::read(&name(path), format, file, &mut sums))
        } else {
            let unpacked: Box<dyn BufRead + '_> = if is_packed {
                Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(bytes)))
            } else {
                Box::new(bytes)
            };
            read(&name(path), format, unpacked, &mut sums)
        };
        let format = format.map_err(|error| refused(&error))?;
        if !formats.contains(&format.name()) {
            formats.push(format.name());
        }
    }
    let digest = hash.hex();
    Ok((sums, digest[..HASH].to_owned(), formats))
}

/// Without the message of a panic that is caught and reported as an error.
fn quietly<T>(read: impl FnOnce() -> T) -> T {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let done = read();
    panic::set_hook(usual);
    done
}

fn rate_hint(currency: &str) -> String {
    format!("--rate {currency}=RATE --rate-source \"ECB, 2026-10-30\", in dollars for one unit")
}

fn refused(error: &BillError) -> Diagnostic {
    let diagnostic = Diagnostic::usage(error);
    match error {
        BillError::Unknown { .. } => diagnostic
            .hint("export every charge: AWS Data Exports (CUR or FOCUS), the detailed export of Google Cloud, cost and usage details of Azure")
            .hint("where a known export has other columns, `gpuplan costs import FILE --format cur` says what is missing"),
        BillError::Missing { column, .. } => {
            diagnostic.hint(format!("make the export again with the column `{column}`; nothing was kept"))
        }
        BillError::NoRate { currency, .. } => diagnostic
            .hint(rate_hint(currency))
            .hint("nothing of it was kept"),
        BillError::Cell { .. } | BillError::Place { .. } | BillError::TooLarge { .. } => {
            diagnostic.hint("nothing of it was kept")
        }
    }
}

/// What was charged here in the months of the bills: entered, and what grows still.
fn charged(ledger: &Ledger, open: Vec<Charge>, bills: &[ImportedBill]) -> Result<Vec<Charge>, Diagnostic> {
    let months: BTreeSet<&str> = bills.iter().map(|bill| bill.month.as_str()).collect();
    let mut charged = Vec::new();
    for month in months {
        let (since, until) = month_of(month)
            .ok_or_else(|| Diagnostic::unexpected(format!("`{month}` is not a valid month; try 2026-10")))?;
        let asked = CostFilter { since: Some(since), until: Some(until), ..CostFilter::default() };
        let lines = sum_up(ledger, open.clone(), &asked)?.lines;
        charged.extend(lines.into_iter().filter(|line: &CostLine| !line.of_bill).map(|line| line.charge));
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

/// Bytes as they are read, and their hash.
struct Hashing<'a> {
    file: File,
    hash: &'a mut Hash,
}

impl Read for Hashing<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(into)?;
        self.hash.update(&into[..length]);
        Ok(length)
    }
}
