//! `plan`: reads a workload, makes the plan set, prints it, and turns an empty answer into an exit code with advice.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::args::{OutputFormat, PlanArguments, PriceArguments};
use crate::calibrations::{MeasuredArguments, Measurements};
use crate::diagnostic::{Diagnostic, Exit};
use crate::live;
use crate::plan_file;
use crate::plan_from;
use crate::plan_phases;
use crate::plan_processing;
use crate::printer::Printer;
use crate::profile;
use crate::settings::{Catalogs, Settings};
use crate::workload;
use gpuplan_estimate::Correction;
use gpuplan_plan::document::{AnyDocument, Context, DocumentError, PlanDocument};
use gpuplan_plan::training::what_if::price_findings;
use gpuplan_plan::{Context as Question, Limits, PlanSet, Rejected, Rejection, World};
use gpuplan_report::sentences::rejection;
use gpuplan_report::sentences::words::English;
use gpuplan_report::{plan_csv, plan_text};
use gpuplan_workload::file::{LimitsSection, Resolved, WorkloadFile};

pub fn run(arguments: &PlanArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    match (&arguments.locked, &arguments.from) {
        (Some(path), _) => locked(path, arguments, settings, printer),
        (None, Some(path)) => plan_from::run(path, arguments, settings, printer),
        (None, None) => {
            let mut file = workload::read(&arguments.workload)?;
            file =
                file.overlay(WorkloadFile { limits: workload::limits(&arguments.limits), ..WorkloadFile::default() });
            let measured = Measurements::find(&arguments.measured, settings)?;
            answer_all(&file, &measured, arguments, settings, printer)
        }
    }
}

/// Catalogs, workload and plan set of one question.
pub struct Answered {
    pub catalogs: Catalogs,
    pub resolved: Resolved,
    /// Those of the file, the flags and policy.toml together.
    pub limits: Limits,
    /// What was measured, here or elsewhere.
    pub correction: Correction,
    pub measured_sha256: Option<String>,
    pub set: PlanSet,
}

/// The whole computation, without a word printed but the age of the prices.
pub fn compute(
    file: &WorkloadFile,
    prices: &PriceArguments,
    measured: &MeasuredArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Answered, Diagnostic> {
    compute_with(file, prices, &Measurements::find(measured, settings)?, settings, printer)
}

fn compute_with(
    file: &WorkloadFile,
    prices: &PriceArguments,
    measured: &Measurements,
    settings: &Settings,
    printer: &Printer,
) -> Result<Answered, Diagnostic> {
    // What is wrong with the question is told before any cloud is asked.
    workload::resolve(file, &settings.models()?)?;
    let gathered = gathered(&file.limits, prices, settings, printer)?;
    compute_on(gathered, file, measured, settings, printer)
}

/// The same on catalogs, limits and measurements that are there.
pub fn compute_on(
    (catalogs, limits): (Catalogs, Limits),
    file: &WorkloadFile,
    measured: &Measurements,
    settings: &Settings,
    printer: &Printer,
) -> Result<Answered, Diagnostic> {
    let mut resolved = workload::resolve(file, &settings.models()?)?;
    resolved.assumed.extend(gpuplan_estimate::feeding::assumed(&resolved.workload));
    let correction = profile::correction(measured, &resolved, &catalogs.hardware, settings, printer)?;
    let world = World { hardware: &catalogs.hardware, market: &catalogs.market, correction: &correction };
    let mut set = gpuplan_plan::plan(world, &resolved.workload, &limits);
    if let Some(profile) = measured.profile() {
        let question = Question { world, workload: &resolved.workload, limits: &limits };
        set.findings = price_findings(question, set.recommendation.as_ref(), &profile.findings);
    }
    Ok(Answered { catalogs, resolved, limits, correction, measured_sha256: measured.sha256(), set })
}

/// What can be had at which price, and what it must keep to.
pub fn gathered(
    section: &LimitsSection,
    prices: &PriceArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<(Catalogs, Limits), Diagnostic> {
    let mut catalogs = settings.catalogs(printer)?;
    let mut limits = Limits::read(section, &catalogs.hardware, settings.now)?;
    limits.policy = settings.policy(prices.policy.as_deref(), &catalogs.hardware)?;
    limits.seed = settings.seed;
    limits.offers.accept_stale = prices.accept_stale_prices;
    if prices.live {
        let wanted = live::Wanted {
            clouds: limits.offers.clouds.clone(),
            max_age: live::age(prices.max_age.as_deref())?,
            ..live::Wanted::default()
        };
        let said = live::ask_clouds(&catalogs.market, &catalogs.hardware, settings, printer, &wanted)?;
        said.warn(printer);
        catalogs.market = said.over(catalogs.market, &catalogs.hardware);
    }
    catalogs.market = settings.with_capacity(prices.capacity.as_deref(), catalogs.market, &mut catalogs.hardware)?;
    Ok((catalogs, limits))
}

/// Of one workload, or of its phases.
fn answer_all(
    file: &WorkloadFile,
    measured: &Measurements,
    arguments: &PlanArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Diagnostic> {
    if file.processing.is_some() && file.phase.is_empty() {
        plan_processing::run(file, arguments, settings, printer)
    } else if file.phase.is_empty() {
        answer(file, measured, arguments, settings, printer)
    } else {
        plan_phases::run(file, measured, arguments, settings, printer)
    }
}

fn answer(
    file: &WorkloadFile,
    measured: &Measurements,
    arguments: &PlanArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Diagnostic> {
    let answered = compute_with(file, &arguments.prices, measured, settings, printer)?;
    let headline = settings.warn_about_age(&answered.catalogs.market, printer);
    let context = context(&answered, file, settings)?;
    match settings.output {
        OutputFormat::Json => printer.data(&pretty(&PlanDocument::new(&answered.set, &context)))?,
        OutputFormat::Csv => printer.data(&plan_csv::text(&answered.set, &context))?,
        OutputFormat::Table if answered.set.recommendation.is_some() => printer.data(&plan_text::text(
            &answered.set,
            &context,
            headline.as_deref(),
            settings.width,
            arguments.max_results,
        ))?,
        OutputFormat::Table => Exit::Done,
    };
    if answered.set.recommendation.is_some() { Ok(Exit::Done) } else { Err(nothing_fits(&answered.set)) }
}

pub fn context<'a>(
    answered: &'a Answered,
    file: &'a WorkloadFile,
    settings: &Settings,
) -> Result<Context<'a>, Diagnostic> {
    let (catalog_sha256, offers_sha256) = settings.catalog_sha256(&answered.catalogs)?;
    Ok(Context {
        world: World {
            hardware: &answered.catalogs.hardware,
            market: &answered.catalogs.market,
            correction: &answered.correction,
        },
        workload: &answered.resolved.workload,
        file,
        assumed: &answered.resolved.assumed,
        now: settings.now,
        catalog_sha256,
        offers_sha256,
        measured_sha256: answered.measured_sha256.clone(),
        seed: settings.seed,
        words: &English,
    })
}

/// A JSON output, indented.
pub fn pretty(output: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(output).expect("an output has text keys");
    format!("{text}\n")
}

/// Exit 4 where money alone is in the way, else 3; both with what came nearest and what would let it in.
pub fn nothing_fits(set: &PlanSet) -> Diagnostic {
    let (exit, message) = if set.only_policy {
        (Exit::OnlyMoney, "only policy.toml is in the way: without it there is a plan")
    } else if set.only_money {
        (Exit::OnlyMoney, "only the money limit is in the way: every plan that runs costs more")
    } else {
        (Exit::NoPlanFits, "no plan fits")
    };
    let mut message = message.to_owned();
    let by_policy = |rejected: &&Rejected| !set.only_policy || matches!(rejected.why, Rejection::Policy(_));
    let candidates = if set.only_policy { &set.rejected } else { &set.nearest };
    for nearest in candidates.iter().filter(by_policy).take(3) {
        message.push_str(&format!("\n  nearest: {}: {}", nearest.what, rejection::sentence(&nearest.why)));
    }
    let diagnostic = Diagnostic::new(exit, message);
    match candidates.iter().find(by_policy) {
        Some(nearest) => diagnostic.hint(rejection::fix(&nearest.why)),
        None => diagnostic,
    }
}

/// The same question, asked of the same catalog at the same moment, gives the same bytes.
fn locked(path: &Path, arguments: &PlanArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    let refused = |error: DocumentError| plan_file::refused(path, &error);
    let recorded = AnyDocument::read(&text).map_err(refused)?;
    let file = recorded.workload_file().map_err(refused)?;
    let inputs = recorded.inputs();
    let mut settings = settings.clone();
    (settings.now, settings.seed, settings.output) = (recorded.generated_at(), inputs.seed, OutputFormat::Json);
    let (catalog, offers) = settings.catalog_sha256(&settings.catalogs(printer)?)?;
    let version = gpuplan_estimate::constants::Fitted::embedded().version.clone();
    let mut gone = Vec::new();
    for (what, then, now) in [
        ("catalog", &inputs.catalog_sha256, catalog),
        ("offers", &inputs.offers_sha256, offers),
        ("estimate constants", &inputs.constants_version, version),
    ] {
        if *then != now {
            gone.push(format!("the {what} of then ({}) are gone; this program has {}", short(then), short(&now)));
        }
    }
    // The runs stand in the plan: today's ledger may have more.
    let measured = Measurements::find(&arguments.measured, &settings)?.with_own_runs(inputs.own_runs.clone());
    if inputs.measured_sha256 != measured.sha256() {
        gone.push(
            "it rested on other measurements than today's: give the same with --calibration and --profile".to_owned(),
        );
    }
    if !gone.is_empty() {
        return Err(Diagnostic::new(Exit::StalePrices, gone.join("\n  "))
            .hint("run the program version that made the plan, or give its catalog with `--catalog-dir DIR`"));
    }
    answer_all(&file, &measured, arguments, &settings, printer)
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
