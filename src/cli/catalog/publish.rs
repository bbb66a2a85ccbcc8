//! `catalog publish`: what the price cache holds as one signed file, held against the file of before, with what changed and how far
//! prices move.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::{Catalogs, Session};
use gpuplan_hardware::rules::{self, Finding, Severity};
use gpuplan_market::feed::{Feed, FeedError, PublicKey, SigningKey, screened};
use gpuplan_market::{Market, MonthlyDrift, Offer, Origin, changes, check, drift};
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
    /// Fit how far prices move by these files of earlier months too (repeat)
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub earlier: Vec<PathBuf>,
    /// Believe earlier files that this public key signed, too: the one before a new --key (repeat)
    #[arg(long, value_name = "KEY")]
    pub old_key: Vec<String>,
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
    if let Some(error) = findings(session)?.into_iter().find(|it| it.severity == Severity::Error) {
        return Err(Diagnostic::usage(format!("{}: {}", error.row, error.detail)).hint("gpuplan catalog check"));
    }
    let is_answer = |offer: &&Offer| matches!(offer.quote.origin, Origin::Cached | Origin::Live);
    let tonight: Vec<Offer> = catalogs.market.offers().iter().filter(is_answer).cloned().collect();
    if tonight.is_empty() {
        return Err(Diagnostic::usage("the price cache holds no answer of a cloud").hint("gpuplan refresh"));
    }
    let keys = keys(arguments, &key)?;
    let before = arguments.before.as_deref().map(|path| opened(path, &keys, session)).transpose()?;
    let offers_of = |feed: &Feed| feed.offers(&catalogs.hardware).map_err(Diagnostic::unexpected);
    let last_night = before.as_ref().map(offers_of).transpose()?.unwrap_or_default();
    let mut nights = vec![last_night.clone()];
    for path in &arguments.earlier {
        nights.push(offers_of(&opened(path, &keys, session)?)?);
    }
    let drift = drift::fit(&nights, &tonight, &catalogs.hardware, session.now);
    let screened = screened(tonight, &last_night, &catalogs.hardware).map_err(|lost| {
        let line =
            |(cloud, before, now): &(_, usize, usize)| format!("{cloud}: {now} prices where there were {before}");
        let lines: Vec<String> = lost.iter().map(line).collect();
        Diagnostic::new(Exit::StalePrice, format!("not published, since prices were lost:\n  {}", lines.join("\n  ")))
            .hint("gpuplan refresh --output json lists the sources that did not answer")
    })?;
    let offers: Vec<&Offer> = screened.offers.iter().collect();
    let lists = session.machine_lists(&catalogs.hardware)?;
    let feed = Feed::new(&offers, &lists, drift, &catalogs.hardware, session.now).map_err(Diagnostic::unexpected)?;
    let file = feed.signed(&key).map_err(Diagnostic::unexpected)?;
    if let (Some(path), Some(before)) = (&arguments.changes, &before) {
        let since = before.published_at().map_err(Diagnostic::unexpected)?;
        let Catalogs { hardware, market } = &catalogs;
        let only = |offers: &[Offer]| empty(market).with_offers(offers.to_vec(), hardware);
        let changes = changes::since(&only(&last_night), &only(&screened.offers), &[], since);
        write(path, report::json(&changes, since, hardware).as_bytes())?;
    }
    write(&arguments.file, &file)?;
    let (held_back, signer) = (screened.held_back.len(), key.public().hex());
    let moves: String = feed.drift().iter().map(line).collect();
    session.printer.data(&format!(
        "{moves}{} prices, {held_back} held back, {} bytes, signed by {signer}\n",
        offers.len(),
        file.len()
    ))
}

/// What `catalog check` finds in the catalog under the answers.
fn findings(session: &Session) -> Result<Vec<Finding>, Diagnostic> {
    let Catalogs { hardware, market } = session.snapshot()?;
    let mut findings = rules::check(&hardware);
    findings.extend(check::check(&market, &hardware, session.now));
    Ok(findings)
}

fn line(drift: &MonthlyDrift) -> String {
    let MonthlyDrift { cloud, is_spot, growth, deviation, gone, pairs, months } = drift;
    let terms = if *is_spot { "spot" } else { "on-demand" };
    let percent = |share: f64| 100.0 * share;
    format!(
        "{cloud} {terms}: {:+.1} % a month, ±{:.1} %, {:.1} % gone ({pairs} pairs of {months:.1} months)\n",
        percent(growth.exp_m1()),
        percent(deviation.exp_m1()),
        percent(*gone)
    )
}

/// Whose earlier files are believed.
fn keys(arguments: &PublishArguments, key: &SigningKey) -> Result<Vec<PublicKey>, Diagnostic> {
    let old: Result<Vec<_>, _> = arguments.old_key.iter().map(|text| PublicKey::parse(text)).collect();
    let mut keys = old.map_err(|error| Diagnostic::usage(error.to_string()).hint("a key has 64 hexadecimal digits"))?;
    keys.push(key.public());
    Ok(keys)
}

fn empty(market: &Market) -> Market {
    market.only(|_| false)
}

/// A feed that one of the keys signed.
fn opened(path: &Path, keys: &[PublicKey], session: &Session) -> Result<Feed, Diagnostic> {
    Feed::open(&read(path)?, keys, None, session.now).map_err(|error| {
        let refused = Diagnostic::usage(format!("{}: {error}", path.display()));
        match error {
            FeedError::Unsigned => refused.hint("--old-key KEY names the public key of a signer before this one"),
            _ => refused,
        }
    })
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
