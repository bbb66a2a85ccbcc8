//! `catalog refresh` and `catalog import`: a catalog folder rebuilt from the clouds' answers, and other tools' files as offers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::question::live::{self, Request};
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::{Catalogs, Session};
use gpuplan_hardware::CloudId;
use gpuplan_market::import::{self, CatalogFile};
use gpuplan_market::{Offer, PriceAnswer};
use gpuplan_plan::limits;
use gpuplan_report::catalog::snapshot::{self, Changes, ROW_FLOOR};
use gpuplan_runstore::sha256;

#[derive(Debug, Args)]
pub struct CatalogRefreshArguments {
    /// Rewrite this folder, which has SNAPSHOT.toml and prices/
    pub folder: PathBuf,
    /// Fetch only from this cloud (repeat for several)
    #[arg(long = "cloud", value_name = "CLOUD")]
    pub clouds: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Import this CSV file: SkyPilot's vms.csv or a gpuhunt catalog
    pub file: PathBuf,
    /// Name the cloud that the file prices
    #[arg(long, value_name = "CLOUD")]
    pub cloud: String,
    /// State the day of its prices, which the file does not contain
    #[arg(long, value_name = "DAY")]
    pub as_of: String,
}

/// Writes the price files of a catalog folder anew. A file that would lose rows stays as it is, and the command fails.
pub fn refresh(arguments: &CatalogRefreshArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let mut catalogs = session.catalogs()?;
    let manifest_path = arguments.folder.join("SNAPSHOT.toml");
    let manifest = fs::read_to_string(&manifest_path).map_err(|error| Diagnostic::file(&manifest_path, &error))?;
    let clouds =
        arguments.clouds.iter().map(|name| limits::cloud(name, &catalogs.hardware)).collect::<Result<_, _>>()?;
    let wanted = Request { clouds, lists_again: true, ..Request::default() };
    let answers = live::ask_clouds(&mut catalogs, session, &wanted)?;
    let Catalogs { hardware, market } = catalogs;
    answers.warn(&session.printer);
    let addresses: BTreeMap<String, String> =
        answers.sources.iter().map(|source| (source.about.id.to_owned(), source.address.clone())).collect();
    let answered: Vec<CloudId> = hardware
        .clouds()
        .into_iter()
        .filter(|cloud| answers.answer.offers.iter().any(|offer| hardware.instance(offer.instance).cloud == *cloud))
        .collect();
    if answered.is_empty() {
        return Err(
            Diagnostic::new(Exit::CloudRefused, "no cloud answered; the folder is unchanged").hint("gpuplan doctor")
        );
    }
    let market = answers.merge_into(market, &hardware);
    let (mut sources, mut refused) = (BTreeMap::new(), Vec::new());
    for cloud in answered {
        let path = arguments.folder.join(format!("prices/{cloud}.csv"));
        let before = match fs::read_to_string(&path) {
            Ok(text) => text,
            // The first prices of this cloud.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Diagnostic::file(&path, &error)),
        };
        let after =
            snapshot::prices(&cloud, market.offers(), &hardware, session.now).map_err(Diagnostic::unexpected)?;
        let changes = snapshot::changes(&before, &after);
        let changes = changes.map_err(|error| Diagnostic::usage(format!("{}: {error}", path.display())))?;
        let (old, new) = (rows(&before), rows(&after));
        if (new as f64) < ROW_FLOOR * old as f64 {
            refused.push(format!("{cloud}: {new} rows are fewer than {:.0} % of the {old} before", ROW_FLOOR * 100.0));
            continue;
        }
        replace(&path, &after)?;
        session.printer.data(&format!("{}\n", line(&cloud, &changes)))?;
        note_sources(&cloud, market.offers(), &hardware, session, &addresses, &mut sources);
    }
    sources.retain(|id, _| !manifest.contains(&format!("id = \"{id}\"")));
    let taken = format!("taken_at = \"{}\"", session.now);
    let lines: Vec<&str> =
        manifest.lines().map(|line| if line.starts_with("taken_at = ") { taken.as_str() } else { line }).collect();
    let (head, tail) = split_before_rows(&lines);
    let text = format!("{head}\n{}{tail}\n", snapshot::manifest_entries(&sources, session.now));
    replace(&manifest_path, &text)?;
    if refused.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Diagnostic::new(
        Exit::StalePrice,
        format!("not updated, since a refresh must not lose rows:\n  {}", refused.join("\n  ")),
    )
    .hint("gpuplan refresh --output json lists the sources that did not answer"))
}

/// Reads another tool's catalog and keeps its prices as the user's own, until the next import of the same file.
pub fn import(arguments: &ImportArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let hardware = session.hardware()?;
    let cloud = limits::cloud(&arguments.cloud, &hardware)?;
    let text = fs::read_to_string(&arguments.file).map_err(|error| Diagnostic::file(&arguments.file, &error))?;
    let as_of =
        arguments.as_of.parse().or_else(|_| format!("{}T00:00:00Z", arguments.as_of).parse()).map_err(|_| {
            Diagnostic::usage(format!("`{}` is not a valid day for --as-of; try 2026-11-01", arguments.as_of))
                .hint("write it as `--as-of 2026-11-01`")
        })?;
    let name = arguments.file.file_name().unwrap_or_default().to_string_lossy();
    let source = format!("{}{name}", import::IMPORTED);
    let imported = import::read(CatalogFile { cloud: &cloud, text: &text, as_of, source: &source }, &hardware)
        .map_err(|error| Diagnostic::usage(format!("{}: {error}", arguments.file.display())))?;
    for note in &imported.notes {
        session.printer.warning(&note.to_string());
    }
    let count = imported.offers.len();
    let Some(mut cache) = session.cache() else {
        return Err(Diagnostic::usage("there is no folder to keep the prices in").hint("set HOME or GPUPLAN_HOME"));
    };
    let answer = PriceAnswer { offers: imported.offers, ..PriceAnswer::default() };
    let stored = cache.forget(&source).and_then(|()| cache.store(&source, &cloud, &answer, &hardware, session.now));
    stored.map_err(Diagnostic::unexpected)?;
    session.printer.data(&format!(
        "{count} prices of {cloud} as of {} are kept as `{source}`; newer answers of the cloud replace them\n",
        arguments.as_of
    ))
}

fn rows(csv: &str) -> usize {
    csv.lines().count().saturating_sub(1)
}

fn line(cloud: &CloudId, changes: &Changes) -> String {
    let Changes { added, gone, dearer, cheaper, same } = changes;
    format!("{cloud}: {added} new, {gone} gone, {dearer} dearer, {cheaper} cheaper, {same} as before")
}

/// Rows of each source that answered, with a hash of them.
fn note_sources(
    cloud: &CloudId,
    offers: &[Offer],
    hardware: &gpuplan_hardware::Hardware,
    session: &Session,
    addresses: &BTreeMap<String, String>,
    sources: &mut BTreeMap<String, (String, usize, String)>,
) {
    let mut by_source: BTreeMap<&str, Vec<&Offer>> = BTreeMap::new();
    for offer in offers
        .iter()
        .filter(|offer| hardware.instance(offer.instance).cloud == *cloud && !offer.quote.origin.is_of_the_snapshot())
    {
        by_source.entry(&offer.source).or_default().push(offer);
    }
    for (source, offers) in by_source {
        let row =
            |offer: &&Offer| format!("{} {:?} {} {}", offer.instance.0, offer.place, offer.purchase, offer.quote.rate);
        let text = offers.iter().map(row).collect::<Vec<_>>().join("\n");
        let address = addresses.get(source).cloned().unwrap_or_default();
        sources.insert(snapshot::source_id(offers[0], session.now), (address, offers.len(), sha256(text.as_bytes())));
    }
}

/// The table of row counts stands at the end of a manifest, and entries of sources must come before it.
fn split_before_rows(lines: &[&str]) -> (String, String) {
    let at = lines.iter().position(|line| line.starts_with("[rows]")).unwrap_or(lines.len());
    let tail = lines[at..].join("\n");
    (lines[..at].join("\n"), if tail.is_empty() { tail } else { format!("\n{tail}") })
}

/// Written to a temporary file that then replaces it, so that a reader never sees half of it.
fn replace(path: &Path, text: &str) -> Result<(), Diagnostic> {
    let temporary = path.with_extension("new");
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| Diagnostic::usage(format!("cannot write {}: {error}", path.display())))
}
