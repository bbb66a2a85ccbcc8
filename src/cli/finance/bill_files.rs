//! The files of a bill: what is asked of `costs import`, reading them one after the other, and what is wrong with them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::panic;
use std::path::{Path, PathBuf};

use clap::Args;
use flate2::read::MultiGzDecoder;

use crate::session::diagnostic::Diagnostic;
use gpuplan_budget::bill::dimensions::RunTag;
use gpuplan_budget::bill::sums::Sums;
use gpuplan_budget::bill::survey::Pass;
use gpuplan_budget::bill::{BillError, Format, columnar, is_columnar, read};
use gpuplan_budget::exchange::ExchangeRate;
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
    /// Add what does not count yet of these files to what counts of their billing periods: extracts by time, Oracle's reports of six
    /// hours; with --replace the periods begin anew with these files
    #[arg(long)]
    pub incremental: bool,
    /// Convert a bill in another currency at this rate: EUR=1.0842, in dollars for one unit (repeat for several)
    #[arg(long = "rate", value_name = "CURRENCY=USD", requires = "rate_source")]
    pub rates: Vec<String>,
    /// Say where the rates are from, such as `ECB, 2026-10-30`; it is kept with every amount
    #[arg(long, value_name = "TEXT", requires = "rates")]
    pub rate_source: Option<String>,
    /// Take the amounts of lines that name no currency as of this one: USD, or one with a --rate
    #[arg(long, value_name = "CURRENCY")]
    pub currency: Option<String>,
    /// Tell runs apart by this tag or label, such as the cluster's name that another program sets [default: gpuplan:run]
    #[arg(long, value_name = "NAME")]
    pub run_tag: Option<String>,
}

fn format(text: &str) -> Result<Format, Diagnostic> {
    Format::parse(text).ok_or_else(|| {
        Diagnostic::usage(format!("`{text}` is not a known export format; try cur, focus, google or azure"))
            .hint("gpuplan costs import FILE --format cur")
    })
}

pub fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// What was stated beside the files, as it is kept with every amount; `None`: nothing.
pub fn stated_rates(arguments: &ImportArguments) -> Option<String> {
    let rates = arguments.rate_source.as_ref().map(|source| format!(" at {} ({source})", arguments.rates.join(" ")));
    let unnamed = arguments.currency.as_ref().map(|currency| format!(", {currency} where none is named"));
    (rates.is_some() || unnamed.is_some()).then(|| rates.unwrap_or_default() + &unnamed.unwrap_or_default())
}

/// Sums of all files, their hash and their formats.
pub fn read_all(arguments: &ImportArguments, pass: Pass) -> Result<(Sums, String, Vec<&'static str>), Diagnostic> {
    let format = arguments.format.as_deref().map(format).transpose()?;
    let (mut sums, mut hash, mut formats) = (Sums::of(pass), Hash::default(), Vec::new());
    hash.update(KEPT.as_bytes());
    if arguments.incremental {
        // What is left out of the same files is not what they are as a whole.
        hash.update(b"incremental");
    }
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
    // The same files at another rate, or in another currency, are another delivery.
    hash.update(stated_rates(arguments).unwrap_or_default().as_bytes());
    state_currency(arguments, &mut sums)?;
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

/// Of lines that name none.
fn state_currency(arguments: &ImportArguments, sums: &mut Sums) -> Result<(), Diagnostic> {
    let Some(currency) = &arguments.currency else { return Ok(()) };
    if currency.is_empty() || !sums.knows(currency) {
        let why = format!("no rate is stated for `{currency}`, the currency of lines that name none");
        return Err(Diagnostic::usage(why).hint("--currency USD").hint(rate_hint("EUR")));
    }
    sums.unnamed = Some(currency.clone());
    Ok(())
}

pub fn rate_hint(currency: &str) -> String {
    format!("--rate {currency}=RATE --rate-source \"ECB, 2026-10-30\", in dollars for one unit")
}

fn refused(error: &BillError) -> Diagnostic {
    let diagnostic = Diagnostic::usage(error);
    match error {
        BillError::Unknown { .. } => diagnostic
            .hint("export every charge: AWS Data Exports (CUR or FOCUS), the detailed export of Google Cloud, cost and usage details of Azure")
            .hint("where a known export has other columns, `--format cur`, `focus`, `google` or `azure` says which one is missing"),
        BillError::MissingCurrency { column, .. } => diagnostic
            .hint("--currency USD, if all its amounts are in dollars")
            .hint(format!("make the export again with the column `{column}`; nothing was kept")),
        BillError::NoCurrency { .. } => {
            diagnostic.hint("--currency USD, if what names no currency is in dollars").hint("nothing of it was kept")
        }
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
