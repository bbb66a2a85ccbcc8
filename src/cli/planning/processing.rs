//! `plan` of work without GPU: alone, or as one of several phases.

use std::collections::BTreeSet;

use crate::arguments::global::OutputFormat;
use crate::planning::arguments::PlanArguments;
use crate::question::answer::gathered;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::{Catalogs, Session};
use gpuplan_estimate::constants::Fitted;
use gpuplan_estimate::processing::assumed;
use gpuplan_hardware::CloudId;
use gpuplan_plan::document::{AnyDocument, InputsRecord, ProcessingContext as Context, ProcessingDocument};
use gpuplan_plan::money::phases::Taken;
use gpuplan_plan::processing::{ProcessingSet, plan};
use gpuplan_plan::{Limits, Warning};
use gpuplan_report::plan::phases::Answer;
use gpuplan_report::plan::processing;
use gpuplan_report::sentences::rejection;
use gpuplan_report::sentences::words::English;
use gpuplan_report::text::format;
use gpuplan_report::text::json::pretty;
use gpuplan_units::Hours;
use gpuplan_workload::file::{Phase, ResolvedProcessing, WorkloadFile};

/// Candidates named where nothing fits.
const NAMED: usize = 3;

pub fn run(file: &WorkloadFile, arguments: &PlanArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let resolved = resolve(file)?;
    let (catalogs, limits) = gathered(&file.limits, &arguments.question.prices, session)?;
    let headline = session.warn_about_age(&catalogs.market);
    let mut set = plan(&catalogs.hardware, &catalogs.market, &resolved.processing, &limits);
    if arguments.question.prices.live {
        set.warnings.push(Warning::CatalogPricesOfHosts);
    }
    let context = context(file, &resolved, &catalogs, session)?;
    match session.output {
        OutputFormat::Json => session.printer.data(&pretty(&ProcessingDocument::new(&set, &context)))?,
        OutputFormat::Table if set.recommendation.is_some() => session.printer.data(&processing::text(
            &set,
            &context,
            headline.as_deref(),
            session.width,
            arguments.details.then_some(arguments.max_results),
        ))?,
        OutputFormat::Table => Exit::Done,
        OutputFormat::Csv => {
            return Err(Diagnostic::usage("plans of work without GPU cannot be printed as CSV").hint("--output json"));
        }
    };
    if set.recommendation.is_some() { Ok(Exit::Done) } else { Err(nothing_fits(&set, &catalogs, &limits)) }
}

/// The document of work without GPU that is no phase of anything, as `plan --output json` gives it.
pub fn recorded(
    file: &WorkloadFile,
    (catalogs, limits): &(Catalogs, Limits),
    session: &Session,
) -> Result<AnyDocument, Diagnostic> {
    let resolved = resolve(file)?;
    let set = plan(&catalogs.hardware, &catalogs.market, &resolved.processing, limits);
    if set.recommendation.is_none() {
        return Err(nothing_fits(&set, catalogs, limits));
    }
    recorded_set(&set, file, &resolved, catalogs, session)
}

fn recorded_set(
    set: &ProcessingSet,
    file: &WorkloadFile,
    resolved: &ResolvedProcessing,
    catalogs: &Catalogs,
    session: &Session,
) -> Result<AnyDocument, Diagnostic> {
    let context = context(file, resolved, catalogs, session)?;
    Ok(AnyDocument::Processing(Box::new(ProcessingDocument::new(set, &context))))
}

/// For the answer of several phases.
pub fn answer(
    (phase, file): (&Phase, &WorkloadFile),
    deadline: Option<Hours>,
    limits: &Limits,
    catalogs: &Catalogs,
    session: &Session,
    is_recorded: bool,
) -> Result<Answer, Diagnostic> {
    let resolved = resolve(file)?;
    let set = plan(&catalogs.hardware, &catalogs.market, &resolved.processing, limits);
    let Some(best) = &set.recommendation else { return Err(nothing_fits(&set, catalogs, limits)) };
    Ok(Answer {
        name: phase.name.clone(),
        hands_over: phase.hands_over,
        is_served: false,
        is_service: false,
        is_launched: false,
        place: best.on.region(),
        machines: format!("{} x {}", best.nodes, best.on.host.name),
        chips: format!("{} vCPUs", best.nodes * best.on.host.vcpus),
        terms: best.on.purchase.word(),
        rate: best.on.quote.rate,
        seen: format::age(best.on.quote.observed_at, session.now),
        valid_until: best.valid_until(),
        deadline,
        taken: Taken { hours: best.hours, cost: best.cost },
        remark: processing::remark(&set),
        document: is_recorded.then(|| recorded_set(&set, file, &resolved, catalogs, session)).transpose()?,
    })
}

fn resolve(file: &WorkloadFile) -> Result<ResolvedProcessing, Diagnostic> {
    let mut resolved = file.resolve_processing()?;
    resolved.assumed.extend(assumed(&resolved.processing));
    Ok(resolved)
}

fn context<'a>(
    file: &'a WorkloadFile,
    resolved: &'a ResolvedProcessing,
    catalogs: &Catalogs,
    session: &Session,
) -> Result<Context<'a>, Diagnostic> {
    let (catalog_sha256, offers_sha256) = session.catalog_sha256(catalogs)?;
    Ok(Context {
        work: &resolved.processing,
        file,
        assumed: &resolved.assumed,
        now: session.now,
        inputs: InputsRecord {
            catalog_sha256,
            offers_sha256,
            constants_version: Fitted::embedded().version.clone(),
            measured_sha256: None,
            own_runs: Vec::new(),
            own_pools: Vec::new(),
            quotas: Vec::new(),
            policy_sha256: None,
            seed: session.seed,
        },
        words: &English,
    })
}

/// As for machines with GPUs: exit 4 where money alone is in the way, else 3.
fn nothing_fits(set: &ProcessingSet, catalogs: &Catalogs, limits: &Limits) -> Diagnostic {
    let known: BTreeSet<&str> = catalogs.hardware.hosts().iter().map(|host| host.cloud.as_str()).collect();
    if !limits.offers.clouds.is_empty() && !limits.offers.clouds.iter().any(|cloud| known.contains(cloud.as_str())) {
        let known: Vec<&str> = known.into_iter().collect();
        let asked: Vec<&str> = limits.offers.clouds.iter().map(CloudId::as_str).collect();
        let detail =
            format!("the catalog has no machines without GPU of {}, but of {}", asked.join(", "), known.join(", "));
        return Diagnostic::new(Exit::NoPlanFits, detail)
            .hint("allow another cloud, or give `--catalog-dir DIR` with hosts/CLOUD.csv and host-prices/CLOUD.csv");
    }
    let (exit, mut message) = if set.only_money {
        (
            Exit::OverBudget,
            "only the money limit is in the way: every plan on machines without GPU costs more".to_owned(),
        )
    } else {
        (Exit::NoPlanFits, "no machine without GPU fits".to_owned())
    };
    for nearest in set.rejected.iter().take(NAMED) {
        message.push_str(&format!("\n  nearest: {}: {}", nearest.what, rejection::sentence(&nearest.why)));
    }
    let diagnostic = Diagnostic::new(exit, message);
    match set.rejected.first() {
        Some(nearest) => diagnostic.hint(rejection::fix(&nearest.why)),
        None => diagnostic.hint("this catalog has no machines without GPU: give one with `--catalog-dir DIR`"),
    }
}
