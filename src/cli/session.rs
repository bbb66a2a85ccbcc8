//! `Session`: one call of the program: flags and environment read once, the catalogs that they select, and the terminal.

pub mod diagnostic;
mod feed;
pub mod home;
pub mod input;
pub mod printer;
pub mod progress;
pub mod question;
pub mod runtime;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use jiff::Timestamp;

use crate::arguments::global::{ColorChoice, GlobalArguments, OutputFormat, OutputWord};
use crate::session::diagnostic::Diagnostic;
use crate::session::feed::Found;
use crate::session::home::Home;
use crate::session::input::read_text;
use crate::session::printer::{Printer, terminal_width};
use gpuplan_embedded::{ARCHIVES, Archive};
use gpuplan_hardware::sheet::DESCRIBED;
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_market::{Cache, CacheError, Capacity, MachineList, Market};
use gpuplan_plan::Policy;
use gpuplan_plan::limits::KnownQuota;
use gpuplan_plan::spot::Stock;
use gpuplan_report::text::style::Style;
use gpuplan_runstore::sha256;
use gpuplan_units::Hours;
use gpuplan_workload::{Models, Stacks};

/// A table narrower than this cannot be read.
const NARROWEST: u16 = 60;

/// Width where there is no terminal and nobody set `COLUMNS`.
const WIDTH_OFF_TERMINAL: u16 = 160;

/// Prices older than this are worth a warning, older than the second the first line of every plan.
const OLD: Hours = Hours(30.0 * 24.0);

const VERY_OLD: Hours = Hours(180.0 * 24.0);

#[derive(Clone, Debug)]
pub struct Session {
    pub output: OutputFormat,
    /// For a page or a comment, instead of the table.
    pub markdown: bool,
    pub now: Timestamp,
    pub seed: u64,
    pub offline: bool,
    pub width: u16,
    /// Of what is printed for people.
    pub style: Style,
    pub home: Home,
    pub printer: Printer,
    catalog_dir: Option<PathBuf>,
    /// What was known of the user's accounts when an answer was made that is made again; `None`: what is kept here counts.
    pub quotas: Option<Vec<KnownQuota>>,
    /// Futures of spot that this call has drawn: phases and runs of a portfolio share them.
    pub stock: Stock,
    ahead: Ahead,
}

/// The snapshot, read by a thread of its own until somebody needs it.
type Ahead = Arc<Mutex<Option<JoinHandle<Result<Catalogs, Diagnostic>>>>>;

/// Every catalog a command may need.
#[derive(Clone)]
pub struct Catalogs {
    pub hardware: Hardware,
    pub market: Market,
}

impl Session {
    pub fn new(arguments: &GlobalArguments) -> Result<Self, Diagnostic> {
        let now = match &arguments.now {
            None => Timestamp::now(),
            Some(text) => text.parse().map_err(|error| {
                Diagnostic::usage(format!("`{text}` is not a valid time for --now: {error}"))
                    .hint("write it as 2026-08-01T00:00:00Z")
            })?,
        };
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let width = columns.or_else(terminal_width).unwrap_or(WIDTH_OFF_TERMINAL).max(NARROWEST);
        Ok(Self {
            output: match arguments.output {
                OutputWord::Table | OutputWord::Markdown => OutputFormat::Table,
                OutputWord::Json => OutputFormat::Json,
                OutputWord::Csv => OutputFormat::Csv,
            },
            markdown: arguments.output == OutputWord::Markdown,
            now,
            seed: arguments.seed,
            offline: arguments.offline,
            width,
            style: style(arguments.color),
            home: Home::from_environment(),
            printer: Printer::new(arguments.output == OutputWord::Json).with_verbosity(arguments.verbosity()),
            catalog_dir: arguments.catalog_dir.clone(),
            quotas: None,
            stock: Stock::default(),
            ahead: Ahead::default(),
        })
    }

    /// The same with the catalog files of this folder.
    pub fn of_catalog(&self, folder: &Path) -> Self {
        Self { catalog_dir: Some(folder.to_owned()), ahead: Ahead::default(), ..self.clone() }
    }

    /// The same at another time.
    pub fn at(&self, now: Timestamp) -> Self {
        Self { now, ..self.clone() }
    }

    /// The same where this is what is known of the user's accounts.
    pub fn knowing(&self, quotas: Vec<KnownQuota>) -> Self {
        Self { quotas: Some(quotas), ..self.clone() }
    }

    /// The folder that replaces the embedded catalog.
    pub fn catalog_dir(&self) -> Option<&Path> {
        self.catalog_dir.as_deref()
    }

    pub fn hardware(&self) -> Result<Hardware, Diagnostic> {
        match &self.catalog_dir {
            None => Ok(Hardware::embedded()?),
            Some(folder) => Ok(Hardware::from_archive(&archive(folder, "hardware")?)?),
        }
    }

    pub fn models(&self) -> Result<Models, Diagnostic> {
        match &self.catalog_dir {
            None => Ok(Models::embedded()?),
            Some(folder) => Ok(Models::from_archive(&archive(folder, "models")?)?),
        }
    }

    /// The same for a plan, which asks for them several times: those of the program are read once.
    pub fn shared_models(&self) -> Result<Arc<Models>, Diagnostic> {
        static EMBEDDED: OnceLock<Arc<Models>> = OnceLock::new();
        match EMBEDDED.get().filter(|_| self.catalog_dir.is_none()) {
            Some(read) => Ok(Arc::clone(read)),
            None => {
                let read = Arc::new(self.models()?);
                Ok(if self.catalog_dir.is_none() { Arc::clone(EMBEDDED.get_or_init(|| read)) } else { read })
            }
        }
    }

    /// Begins to read the snapshot beside whatever comes first; the next who needs it takes what was read.
    pub fn read_ahead(&self) {
        let reader = self.clone();
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) =
            thread::Builder::new().spawn(move || reader.read_snapshot()).ok();
    }

    /// The snapshot alone.
    pub fn snapshot(&self) -> Result<Catalogs, Diagnostic> {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ahead.map(JoinHandle::join) {
            Some(Ok(read)) => read,
            // A reader that broke off says nothing of the files.
            Some(Err(_)) | None => self.read_snapshot(),
        }
    }

    fn read_snapshot(&self) -> Result<Catalogs, Diagnostic> {
        let hardware = self.hardware()?;
        let market = match &self.catalog_dir {
            None => Market::embedded(&hardware)?,
            Some(folder) => Market::from_archive(&archive(folder, "market")?, &hardware)?,
        };
        Ok(Catalogs { hardware, market })
    }

    /// The snapshot with cached answers of the clouds laid over it.
    pub fn catalogs(&self) -> Result<Catalogs, Diagnostic> {
        let Catalogs { mut hardware, mut market } = self.snapshot()?;
        let newest = market.newest().strftime("%Y-%m-%d");
        self.printer.detail(&format!("snapshot of {} prices, the newest of {newest}", market.offers().len()));
        if let Some(Found { feed, is_new }) = feed::find(&self.home, &self.printer, self.now, self.offline)? {
            self.printer.detail("the feed of prices is laid over it");
            let lists = feed.lists().map_err(Diagnostic::unexpected)?;
            market = taught(market, lists, &mut hardware);
            let offers = feed.offers(&hardware).map_err(Diagnostic::unexpected)?;
            if let Some(mut cache) = is_new.then(|| self.cache()).flatten()
                && let Err(error) = cache.remember(&offers, &hardware)
            {
                self.printer.warning(&format!("{error}; `prices --history` lacks this feed"));
            }
            market = market.merged(offers, &hardware);
            market.drift = feed.drift().to_vec();
        }
        let market = match self.home.price_cache().map(|path| Cache::open_existing(&path)) {
            Some(Ok(Some(cache))) => {
                self.printer.detail("answers of the clouds in the price cache are laid over it");
                overlay(market, &cache, &mut hardware, &self.printer)
            }
            Some(Err(error)) => {
                self.printer.warning(&format!("{error}; the snapshot alone is used"));
                market
            }
            Some(Ok(None)) | None => market,
        };
        Ok(Catalogs { hardware, market })
    }

    /// Which machines each cloud has where, as far as it was asked.
    pub fn machine_lists(&self, hardware: &Hardware) -> Result<Vec<(CloudId, MachineList)>, Diagnostic> {
        let cache = self.home.price_cache().map(|path| Cache::open_existing(&path)).transpose();
        let cache = cache.map_err(Diagnostic::unexpected)?.flatten();
        cache.map_or(Ok(Vec::new()), |cache| lists(&cache, hardware).map_err(Diagnostic::unexpected))
    }

    /// The price cache, made if it is not there. A cache that cannot be used costs speed and nothing else.
    pub fn cache(&self) -> Option<Cache> {
        let path = self.home.price_cache()?;
        let opened = Cache::open(&path);
        if let Err(error) = &opened {
            self.printer.warning(&format!("{error} ({}); answers are not kept", path.display()));
        }
        opened.ok()
    }

    /// Rules of `policy.toml`: the named file, else the one among the settings. `None` without any.
    pub fn policy(&self, named: Option<&Path>, hardware: &Hardware) -> Result<Option<Policy>, Diagnostic> {
        let text = self.settings_file(named, "policy.toml")?;
        let read = |text: String| Policy::read(&text, hardware).map_err(|error| Diagnostic::settings(&error));
        text.map(read).transpose()
    }

    /// The text of `policy.toml`, for the rules of a budget.
    pub fn policy_text(&self, named: Option<&Path>) -> Result<Option<String>, Diagnostic> {
        self.settings_file(named, "policy.toml")
    }

    /// What the user has already: the named file, else the one among the settings.
    pub fn capacity(&self, named: Option<&Path>) -> Result<Capacity, Diagnostic> {
        match self.settings_file(named, "capacity.toml")? {
            Some(text) => Capacity::read(&text).map_err(|error| Diagnostic::settings(&error)),
            None => Ok(Capacity::default()),
        }
    }

    /// A file that was named must be there; one that is only looked for may not be.
    fn settings_file(&self, named: Option<&Path>, usual: &str) -> Result<Option<String>, Diagnostic> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => match self.home.config_file(usual).filter(|path| path.is_file()) {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        self.printer.detail(&format!("reads {}", path.display()));
        read_text(&path).map(Some)
    }

    /// Hashes of the catalog (physics) and of the offers (money) that a plan rests on: the snapshot and what lies over it.
    pub fn catalog_sha256(&self, catalogs: &Catalogs) -> Result<(String, String), Diagnostic> {
        let bytes = |name: &str, embedded: &[u8]| -> Result<Vec<u8>, Diagnostic> {
            match &self.catalog_dir {
                None => Ok(embedded.to_vec()),
                Some(folder) => Ok(archive(folder, name)?.pack()?),
            }
        };
        let mut physics = bytes("hardware", Hardware::embedded_bytes())?;
        // Machines that only their cloud knows are no part of the catalog.
        let described = catalogs.hardware.instances().iter().filter(|instance| instance.source == DESCRIBED);
        physics.extend(described.flat_map(|instance| format!("{instance:?}").into_bytes()));
        physics.extend(bytes("models", Models::embedded_bytes())?);
        // A folder's catalog says nothing of stacks: those of the program hold.
        physics.extend_from_slice(Stacks::embedded_bytes());
        let mut money = bytes("market", Market::embedded_bytes())?;
        money.extend(catalogs.market.laid_over(&catalogs.hardware).map_err(Diagnostic::unexpected)?);
        Ok((sha256(&physics), sha256(&money)))
    }

    /// A line for the head of a plan whose price is so old.
    pub fn very_old_price(&self, observed_at: Timestamp) -> Option<String> {
        let age = Hours(self.now.duration_since(observed_at).as_secs_f64() / 3600.0);
        (age > VERY_OLD).then(|| {
            let seen = observed_at.strftime("%Y-%m-%d");
            format!("THIS PRICE IS {:.0} DAYS OLD ({seen}): every amount is a rough guide", age.0 / 24.0)
        })
    }

    /// Warns about old prices; the second is a line for the head of a plan.
    pub fn warn_about_age(&self, market: &Market) -> Option<String> {
        let newest = market.newest();
        let age = Hours(self.now.duration_since(newest).as_secs_f64() / 3600.0);
        let taken = newest.strftime("%Y-%m-%d");
        if age > VERY_OLD {
            return Some(format!(
                "PRICES ARE {:.0} DAYS OLD (newest of {taken}): every amount is a rough guide",
                age.0 / 24.0
            ));
        }
        if age > OLD {
            self.printer.warning(&format!(
                "the newest price is {:.0} days old ({taken}); spot prices can have moved by a factor of two",
                age.0 / 24.0
            ));
        }
        None
    }
}

/// <https://no-color.org>: any value that is not empty asks for none.
fn style(choice: ColorChoice) -> Style {
    let refuses = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = || std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    match choice {
        ColorChoice::Always => Style::Ansi,
        ColorChoice::Auto if Printer::stdout_is_terminal() && !refuses() && !is_dumb() => Style::Ansi,
        ColorChoice::Auto | ColorChoice::Never => Style::Plain,
    }
}

/// Which machines each cloud has where, as it last said.
fn lists(cache: &Cache, hardware: &Hardware) -> Result<Vec<(CloudId, MachineList)>, CacheError> {
    let clouds = hardware.clouds().into_iter();
    clouds.filter_map(|cloud| Some(cache.machines(&cloud).transpose()?.map(|(_, list)| (cloud, list)))).collect()
}

/// The machines that the clouds list are known, and what they do not list is not on offer.
fn taught(market: Market, lists: Vec<(CloudId, MachineList)>, hardware: &mut Hardware) -> Market {
    lists.into_iter().fold(market, |market, (cloud, mut list)| {
        list.teach(&cloud, hardware);
        market.where_listed(&cloud, &list, hardware)
    })
}

/// A damaged cache is a warning: everything in it can be asked again.
fn overlay(market: Market, cache: &Cache, hardware: &mut Hardware, printer: &Printer) -> Market {
    let lists = lists(cache, hardware).unwrap_or_else(|error| {
        printer.warning(&format!("{error}; the machines of the snapshot alone are known"));
        Vec::new()
    });
    let market = taught(market, lists, hardware);
    match (cache.offers(hardware), cache.risks(hardware)) {
        (Ok(offers), Ok(known)) => market.merged(offers, hardware).informed(&known.risks, &known.signals),
        (Err(error), _) | (_, Err(error)) => {
            printer.warning(&format!("{error}; the snapshot alone is used. `gpuplan refresh` fills it again"));
            market
        }
    }
}

/// Reads the catalog files of a folder as the build does.
fn archive(folder: &Path, name: &str) -> Result<Archive, Diagnostic> {
    let mut archive = Archive::default();
    let Some(contents) = ARCHIVES.iter().find(|contents| contents.archive == name) else { return Ok(archive) };
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error));
    let at = |path: &Path, error: &dyn std::error::Error| Diagnostic::usage(format!("{}: {error}", path.display()));
    for document in contents.documents {
        let path = folder.join(document).with_extension("toml");
        archive.add_document(document, &read(&path)?).map_err(|error| at(&path, &error))?;
    }
    for table in contents.folders {
        let within = folder.join(table);
        // Catalogs of before know no machines without GPU.
        if gpuplan_embedded::MAY_BE_ABSENT.contains(table) && !within.exists() {
            continue;
        }
        let entries = fs::read_dir(&within).map_err(|error| Diagnostic::file(&within, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| Diagnostic::file(&within, &error))?.path();
            let Some(stem) = path.file_stem().filter(|_| path.extension().is_some_and(|end| end == "csv")) else {
                continue;
            };
            let stem = stem.to_string_lossy().into_owned();
            archive.add_table(&format!("{table}/{stem}"), &read(&path)?).map_err(|error| at(&path, &error))?;
        }
    }
    Ok(archive)
}
