//! `catalog`: which rows were asked for; `check` ends with 1 where a row must be mended.

use crate::args::{CatalogCommand, OutputFormat};
use crate::diagnostic::{Diagnostic, Exit};
use crate::here;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::snapshot;
use gpuplan_hardware::rules::{self, Finding, Severity};
use gpuplan_hardware::{CloudId, GpuId, GpuSelector};
use gpuplan_market::check;
use gpuplan_plan::limits;
use gpuplan_report::catalog::{self, CatalogCounts, CheckReport, InstanceLine, Listed, ModelLine};
use gpuplan_report::hosts::{self, HostLine};
use gpuplan_units::names::{did_you_mean, plain};

pub fn run(what: &CatalogCommand, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    match what {
        CatalogCommand::Gpus { here: true, .. } => here::here(&settings.hardware()?, settings, printer),
        CatalogCommand::Gpus { gpus, here: false } => list_gpus(gpus.as_deref(), settings, printer),
        CatalogCommand::Instances { gpus, clouds } => list_instances(gpus.as_deref(), clouds, settings, printer),
        CatalogCommand::Hosts { clouds } => list_hosts(clouds, settings, printer),
        CatalogCommand::Models { name } => list_models(name.as_deref(), settings, printer),
        CatalogCommand::Check => check_catalog(settings, printer),
        CatalogCommand::Refresh(arguments) => snapshot::refresh(arguments, settings, printer),
        CatalogCommand::Import(arguments) => snapshot::import(arguments, settings, printer),
    }
}

fn list_gpus(gpus: Option<&str>, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let hardware = settings.hardware()?;
    let selector = gpus.map(|text| GpuSelector::parse(text, &hardware)).transpose()?;
    let is_asked_for = |index: usize| {
        selector.as_ref().is_none_or(|selector| selector.matches_gpu(GpuId(index as u16), &hardware.gpus()[index]))
    };
    let rows: Vec<_> =
        hardware.gpus().iter().enumerate().filter(|(index, _)| is_asked_for(*index)).map(|(_, gpu)| gpu).collect();
    print(&rows, &catalog::GPU_COLUMNS, settings, printer, catalog::gpus)
}

fn list_instances(
    gpus: Option<&str>,
    clouds: &[String],
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Diagnostic> {
    let hardware = settings.hardware()?;
    let selector = gpus.map(|text| GpuSelector::parse(text, &hardware)).transpose()?;
    let clouds: Vec<CloudId> = clouds.iter().map(|name| limits::cloud(name, &hardware)).collect::<Result<_, _>>()?;
    let rows: Vec<InstanceLine> = hardware
        .instances()
        .iter()
        .filter(|instance| clouds.is_empty() || clouds.contains(&instance.cloud))
        .filter(|instance| {
            let (id, devices) = (instance.node.gpu, instance.node.devices());
            selector
                .as_ref()
                .is_none_or(|selector| selector.matches_gpu(id, hardware.gpu(id)) && selector.matches_count(devices))
        })
        .map(|instance| InstanceLine::new(instance, &hardware))
        .collect();
    print(&rows, &catalog::INSTANCE_COLUMNS, settings, printer, catalog::instances)
}

fn list_hosts(clouds: &[String], settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let hardware = settings.hardware()?;
    let clouds: Vec<CloudId> = clouds.iter().map(|name| limits::cloud(name, &hardware)).collect::<Result<_, _>>()?;
    let asked = hardware.hosts().iter().filter(|host| clouds.is_empty() || clouds.contains(&host.cloud));
    let rows: Vec<HostLine> = asked.map(HostLine::new).collect();
    print(&rows, &hosts::HOST_COLUMNS, settings, printer, hosts::machines)
}

fn list_models(name: Option<&str>, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let models = settings.models()?;
    let wanted = plain(name.unwrap_or_default());
    let has = |text: &str| plain(text).contains(&wanted);
    let rows: Vec<ModelLine> = models
        .rows()
        .iter()
        .filter(|row| has(&row.id) || has(&row.name) || has(&row.family) || row.aliases.iter().any(|alias| has(alias)))
        .map(ModelLine::new)
        .collect();
    if let (true, Some(name)) = (rows.is_empty(), name) {
        let nearest =
            did_you_mean(name, models.names()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        printer.note(&format!("no model's name contains `{name}`{nearest}"));
    }
    print(&rows, &catalog::MODEL_COLUMNS, settings, printer, catalog::models)
}

/// The same rows in whichever format was asked for.
fn print<T: Listed>(
    rows: &[T],
    columns: &[(&str, &str)],
    settings: &Settings,
    printer: &Printer,
    table: impl Fn(&[T], u16) -> String,
) -> Result<Exit, Diagnostic> {
    match settings.output {
        OutputFormat::Json => printer.data(&catalog::json(rows).map_err(|error| Diagnostic::unexpected(&error))?),
        OutputFormat::Csv => {
            printer.data(&catalog::csv(rows, columns).map_err(|error| Diagnostic::unexpected(&error))?)
        }
        OutputFormat::Table if rows.is_empty() => {
            printer.note("nothing in the catalog matches");
            Ok(Exit::Done)
        }
        OutputFormat::Table => printer.data(&table(rows, settings.width)),
    }
}

fn check_catalog(settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let catalogs = settings.snapshot()?;
    let models = settings.models()?;
    let mut findings = rules::check(&catalogs.hardware);
    findings.extend(check::check(&catalogs.market, &catalogs.hardware, settings.now));
    let counts = CatalogCounts::new(&catalogs.hardware, &catalogs.market, &models);
    let report = CheckReport::new(&findings, counts);
    let text = match settings.output {
        OutputFormat::Json => report.json().map_err(|error| Diagnostic::unexpected(&error))?,
        OutputFormat::Csv => report.csv().map_err(|error| Diagnostic::unexpected(&error))?,
        OutputFormat::Table => report.text(settings.width),
    };
    printer.data(&text)?;
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    Ok(if findings.iter().any(is_error) { Exit::Unexpected } else { Exit::Done })
}
