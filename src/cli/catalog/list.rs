//! `catalog`: selects the rows to list; `check` exits with 1 if a row must be fixed.

use clap::Subcommand;

use crate::arguments::global::OutputFormat;
use crate::catalog::local_gpus;
use crate::catalog::publish::{self, PublishArguments};
use crate::catalog::snapshot::{self, CatalogRefreshArguments, ImportArguments};
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::{Catalogs, Session};
use gpuplan_hardware::rules::{self, Finding, Severity};
use gpuplan_hardware::{CloudId, GpuId, GpuSelector};
use gpuplan_market::check;
use gpuplan_plan::limits;
use gpuplan_report::catalog::hosts::{self, HostLine};
use gpuplan_report::catalog::{self, CatalogCounts, CheckReport, InstanceLine, Listed, ModelLine};
use gpuplan_units::names::plain;

#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// List GPUs with memory, peak throughput, links and sources
    Gpus {
        /// List only GPUs that match, such as A100 or 80GB+
        gpus: Option<String>,
        /// List the GPUs of this machine instead, with their catalog ids
        #[arg(long, conflicts_with = "gpus")]
        here: bool,
    },
    /// List instance types with GPUs, CPUs, network and how they are sold
    Instances {
        /// List only instance types whose GPUs match, such as A100:8 or 80GB+
        gpus: Option<String>,
        /// List only this cloud (repeat for several)
        #[arg(long = "cloud", value_name = "CLOUD", value_delimiter = ',')]
        clouds: Vec<String>,
    },
    /// List machines without GPUs, which phases of kind `processing` run on
    Hosts {
        /// List only this cloud (repeat for several)
        #[arg(long = "cloud", value_name = "CLOUD", value_delimiter = ',')]
        clouds: Vec<String>,
    },
    /// List named models
    Models {
        /// List only names that contain this
        name: Option<String>,
    },
    /// Check every row against the integrity rules
    Check,
    /// Rewrite the price files of a catalog folder with current prices from the clouds
    Refresh(CatalogRefreshArguments),
    /// Sign what the price cache holds as a file that other installations read (feed.toml)
    Publish(PublishArguments),
    /// Import the prices of a SkyPilot or gpuhunt catalog file
    Import(ImportArguments),
}

pub fn run(what: &CatalogCommand, session: &Session) -> Result<Exit, Diagnostic> {
    match what {
        CatalogCommand::Gpus { here: true, .. } => local_gpus::run(&session.hardware()?, session),
        CatalogCommand::Gpus { gpus, here: false } => list_gpus(gpus.as_deref(), session),
        CatalogCommand::Instances { gpus, clouds } => list_instances(gpus.as_deref(), clouds, session),
        CatalogCommand::Hosts { clouds } => list_hosts(clouds, session),
        CatalogCommand::Models { name } => list_models(name.as_deref(), session),
        CatalogCommand::Check => check_catalog(session),
        CatalogCommand::Refresh(arguments) => snapshot::refresh(arguments, session),
        CatalogCommand::Publish(arguments) => publish::run(arguments, session),
        CatalogCommand::Import(arguments) => snapshot::import(arguments, session),
    }
}

fn list_gpus(gpus: Option<&str>, session: &Session) -> Result<Exit, Diagnostic> {
    let hardware = session.hardware()?;
    let selector = gpus.map(|text| GpuSelector::parse(text, &hardware)).transpose()?;
    let is_asked_for = |index: usize| {
        selector.as_ref().is_none_or(|selector| selector.matches_gpu(GpuId(index as u16), &hardware.gpus()[index]))
    };
    let rows: Vec<_> =
        hardware.gpus().iter().enumerate().filter(|(index, _)| is_asked_for(*index)).map(|(_, gpu)| gpu).collect();
    print(&rows, &catalog::GPU_COLUMNS, session, catalog::gpus)
}

fn list_instances(gpus: Option<&str>, clouds: &[String], session: &Session) -> Result<Exit, Diagnostic> {
    let hardware = session.hardware()?;
    let selector = gpus.map(|text| GpuSelector::parse(text, &hardware)).transpose()?;
    let clouds: Vec<CloudId> = clouds.iter().map(|name| limits::cloud(name, &hardware)).collect::<Result<_, _>>()?;
    let rows: Vec<InstanceLine> = hardware
        .instances()
        .iter()
        .filter(|instance| clouds.is_empty() || clouds.contains(&instance.cloud))
        .filter(|instance| {
            let (id, node) = (instance.node.gpu, &instance.node);
            selector.as_ref().is_none_or(|selector| {
                selector.matches_gpu(id, hardware.gpu(id))
                    && selector.matches_count(node.devices())
                    && selector.matches_share(node.gpus)
            })
        })
        .map(|instance| InstanceLine::new(instance, &hardware))
        .collect();
    print(&rows, &catalog::INSTANCE_COLUMNS, session, catalog::instances)
}

fn list_hosts(clouds: &[String], session: &Session) -> Result<Exit, Diagnostic> {
    let hardware = session.hardware()?;
    let clouds: Vec<CloudId> = clouds.iter().map(|name| limits::cloud(name, &hardware)).collect::<Result<_, _>>()?;
    let selected = hardware.hosts().iter().filter(|host| clouds.is_empty() || clouds.contains(&host.cloud));
    let rows: Vec<HostLine> = selected.map(HostLine::new).collect();
    print(&rows, &hosts::HOST_COLUMNS, session, hosts::machines)
}

fn list_models(name: Option<&str>, session: &Session) -> Result<Exit, Diagnostic> {
    let models = session.models()?;
    let wanted = plain(name.unwrap_or_default());
    let has = |text: &str| plain(text).contains(&wanted);
    let mut rows: Vec<ModelLine> = models
        .rows()
        .iter()
        .filter(|row| has(&row.id) || has(&row.name) || has(&row.family) || row.aliases.iter().any(|alias| has(alias)))
        .map(ModelLine::new)
        .collect();
    // A revision of the Hub is the model whose sizes it has, as `--model` reads it.
    if let (true, Some((row, _))) = (rows.is_empty(), name.and_then(|name| models.named(name))) {
        rows.push(ModelLine::new(row));
    }
    if let (true, Some(name)) = (rows.is_empty(), name) {
        let nearest = models.nearest(name).map_or(String::new(), |near| format!("; did you mean `{}`?", near.id));
        session.printer.note(&format!("no model's name contains `{name}`{nearest}"));
    }
    print(&rows, &catalog::MODEL_COLUMNS, session, catalog::models)
}

/// The rows in the requested format.
fn print<T: Listed>(
    rows: &[T],
    columns: &[(&str, &str)],
    session: &Session,
    table: impl Fn(&[T], u16) -> String,
) -> Result<Exit, Diagnostic> {
    match session.output {
        OutputFormat::Json => session.printer.data(&catalog::json(rows)),
        OutputFormat::Csv => session.printer.data(&catalog::csv(rows, columns).map_err(Diagnostic::unexpected)?),
        OutputFormat::Table if rows.is_empty() => {
            session.printer.note("no row of the catalog matches");
            Ok(Exit::Done)
        }
        OutputFormat::Table => session.printer.data(&table(rows, session.width)),
    }
}

/// By the lists of machines that the clouds gave before, else those of the snapshot.
fn offered_there(catalogs: &Catalogs, session: &Session) -> Result<Vec<Finding>, Diagnostic> {
    let Catalogs { hardware, market } = catalogs;
    let mut lists = market.offered.clone();
    lists.extend(session.machine_lists(hardware)?);
    let denied = lists.iter().filter_map(|(cloud, list)| check::offered_there(market, hardware, cloud, list));
    Ok(denied.chain(check::not_listed(market, hardware, &lists)).collect())
}

fn check_catalog(session: &Session) -> Result<Exit, Diagnostic> {
    let catalogs = session.snapshot()?;
    let models = session.models()?;
    let mut findings = rules::check(&catalogs.hardware);
    findings.extend(check::check(&catalogs.market, &catalogs.hardware, session.now));
    findings.extend(offered_there(&catalogs, session)?);
    let counts = CatalogCounts::new(&catalogs.hardware, &catalogs.market, &models);
    let report = CheckReport::new(&findings, counts);
    let text = match session.output {
        OutputFormat::Json => report.json(),
        OutputFormat::Csv => report.csv().map_err(Diagnostic::unexpected)?,
        OutputFormat::Table => report.text(session.width),
    };
    session.printer.data(&text)?;
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    Ok(if findings.iter().any(is_error) { Exit::Unexpected } else { Exit::Done })
}
