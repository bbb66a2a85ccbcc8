//! `catalog publish`: what the price cache holds as one signed file, held against the file of before, with what changed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::{Catalogs, Session};
use gpuplan_hardware::rules::{self, Severity};
use gpuplan_market::changes;
use gpuplan_market::feed::{Feed, SigningKey, screened};
use gpuplan_market::{Market, Offer, Origin};
use gpuplan_report::catalog::changes as report;

#[derive(Debug, Args)]
pub struct PublishArguments {
    /// Write the signed file here
    pub file: PathBuf,
    /// Sign with this key: PKCS #8, as `openssl genpkey -algorithm ed25519 -outform DER -out feed.key` makes it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Hold the prices against this file of before; lost rows are refused, jumps that no second source confirms are held back
    #[arg(long, value_name = "FILE")]
    pub before: Option<PathBuf>,
    /// Write what changed since then here, as JSON
    #[arg(long, value_name = "FILE", requires = "before")]
    pub changes: Option<PathBuf>,
}

/// Asks nobody: `gpuplan refresh` does.
pub fn run(arguments: &PublishArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let catalogs = session.catalogs()?;
    let key = SigningKey::from_pkcs8(&read(&arguments.key)?).map_err(|error| {
        Diagnostic::usage(format!("{}: {error}", arguments.key.display()))
            .hint("openssl genpkey -algorithm ed25519 -outform DER -out feed.key")
    })?;
    if let Some(error) = rules::check(&catalogs.hardware).into_iter().find(|it| it.severity == Severity::Error) {
        return Err(Diagnostic::usage(format!("{}: {}", error.row, error.detail)).hint("gpuplan catalog check"));
    }
    let is_answer = |offer: &&Offer| matches!(offer.quote.origin, Origin::Cached | Origin::Live);
    let tonight: Vec<Offer> = catalogs.market.offers().iter().filter(is_answer).cloned().collect();
    if tonight.is_empty() {
        return Err(Diagnostic::usage("the price cache holds no answer of a cloud").hint("gpuplan refresh"));
    }
    let before = arguments.before.as_deref().map(|path| opened(path, &key, session)).transpose()?;
    let last_night = match &before {
        Some(feed) => feed.offers(&catalogs.hardware).map_err(Diagnostic::unexpected)?,
        None => Vec::new(),
    };
    let screened = screened(tonight, &last_night, &catalogs.hardware).map_err(|lost| {
        let line =
            |(cloud, before, now): &(_, usize, usize)| format!("{cloud}: {now} prices where there were {before}");
        let lines: Vec<String> = lost.iter().map(line).collect();
        Diagnostic::new(Exit::StalePrice, format!("not published, since prices were lost:\n  {}", lines.join("\n  ")))
            .hint("gpuplan refresh --output json lists the sources that did not answer")
    })?;
    let offers: Vec<&Offer> = screened.offers.iter().collect();
    let lists = session.machine_lists(&catalogs.hardware)?;
    let feed = Feed::new(&offers, &lists, &catalogs.hardware, session.now).map_err(Diagnostic::unexpected)?;
    let file = feed.signed(&key).map_err(Diagnostic::unexpected)?;
    if let (Some(path), Some(before)) = (&arguments.changes, &before) {
        let since = before.published_at().map_err(Diagnostic::unexpected)?;
        let Catalogs { hardware, market } = &catalogs;
        let only = |offers: &[Offer]| empty(market).with_offers(offers.to_vec(), hardware);
        let changes = changes::since(&only(&last_night), &only(&screened.offers), &[], since);
        write(path, report::json(&changes, since, hardware).as_bytes())?;
    }
    write(&arguments.file, &file)?;
    session.printer.data(&format!(
        "{} prices, {} held back, {} bytes, signed by {}\n",
        offers.len(),
        screened.held_back.len(),
        file.len(),
        key.public().hex()
    ))
}

fn empty(market: &Market) -> Market {
    market.only(|_| false)
}

/// A feed that the same key signed.
fn opened(path: &Path, key: &SigningKey, session: &Session) -> Result<Feed, Diagnostic> {
    Feed::open(&read(path)?, &[key.public()], None, session.now)
        .map_err(|error| Diagnostic::usage(format!("{}: {error}", path.display())))
}

fn read(path: &Path) -> Result<Vec<u8>, Diagnostic> {
    fs::read(path).map_err(|error| Diagnostic::file(path, &error))
}

/// Written to a temporary file that then replaces it, so that a reader never sees half of it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    let temporary = path.with_extension("new");
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| Diagnostic::usage(format!("cannot write {}: {error}", path.display())))
}
