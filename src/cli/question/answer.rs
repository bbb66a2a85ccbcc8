//! From a workload to its plan set: catalogs, limits and measurements joined.

use crate::arguments::measured::MeasuredArguments;
use crate::arguments::prices::PriceArguments;
use crate::question::measurements::{self, Measurements};
use crate::question::{booking, live, workload};
use crate::runs::quotas;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::{Catalogs, Session};
use gpuplan_estimate::Correction;
use gpuplan_hardware::CloudId;
use gpuplan_market::Capacity;
use gpuplan_plan::document::Context;
use gpuplan_plan::limits::{check_data_place, check_regions, without_region};
use gpuplan_plan::training::what_if::price_findings;
use gpuplan_plan::{Breadth, Context as Question, Limits, PlanSet, World};
use gpuplan_report::sentences::words::English;
use gpuplan_workload::file::{LimitsSection, Resolved, WorkloadFile};

const HOURS_A_YEAR: f64 = 8766.0;
/// Of work, on the best machines. Hours.
const LONGEST_WORK: f64 = 100.0 * HOURS_A_YEAR;

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
    session: &Session,
) -> Result<Answered, Diagnostic> {
    compute_with(file, prices, &Measurements::find(measured, session)?, session)
}

pub fn compute_with(
    file: &WorkloadFile,
    prices: &PriceArguments,
    measured: &Measurements,
    session: &Session,
) -> Result<Answered, Diagnostic> {
    session.read_ahead();
    // What is wrong with the question is told before any cloud is asked.
    let models = session.shared_models()?;
    workload::resolve(file, &models)?;
    let (mut catalogs, limits) = gathered(&file.limits, prices, session)?;
    if prices.live && booking::is_about(&limits) {
        let open = compute_on((booking::opened(&catalogs), limits.clone()), file, measured, session)?;
        catalogs = booking::ask_for(&open.set, catalogs, &limits, session)?;
    }
    compute_on((catalogs, limits), file, measured, session)
}

/// The same on catalogs, limits and measurements that are there.
pub fn compute_on(
    gathered: (Catalogs, Limits),
    file: &WorkloadFile,
    measured: &Measurements,
    session: &Session,
) -> Result<Answered, Diagnostic> {
    compute_as_far_as(Breadth::Everything, gathered, file, measured, session)
}

pub fn compute_as_far_as(
    breadth: Breadth,
    (mut catalogs, limits): (Catalogs, Limits),
    file: &WorkloadFile,
    measured: &Measurements,
    session: &Session,
) -> Result<Answered, Diagnostic> {
    let models = session.shared_models()?;
    let mut resolved = workload::resolve(file, &models)?;
    if let Some(place) = resolved.workload.data.as_ref().and_then(|data| data.place.as_deref()) {
        check_data_place(place, &catalogs.market, &catalogs.hardware)?;
    }
    resolved.assumed.extend(gpuplan_estimate::feeding::assumed(&resolved.workload));
    let correction = measurements::correction(measured, &resolved, &catalogs.hardware, session)?;
    catalogs.market = catalogs.market.seen_by_user(measured.own_pools(&session.printer));
    let world = World { hardware: &catalogs.hardware, market: &catalogs.market, correction: &correction };
    let mut set = gpuplan_plan::plan_from(world, &resolved.workload, &limits, &session.stock, breadth);
    if let Some(profile) = measured.profile() {
        let question = Question { world, workload: &resolved.workload, limits: &limits };
        set.findings = price_findings(question, set.recommendation.as_ref(), &profile.findings);
    }
    if let Some(best) = set.recommendation.as_ref().filter(|best| best.run.work.expected > LONGEST_WORK) {
        return Err(takes_for_ever(best.run.work.expected));
    }
    Ok(Answered { catalogs, resolved, limits, correction, measured_sha256: measured.sha256(), set })
}

/// A slip of the keyboard and no plan: nobody lives to see the end.
fn takes_for_ever(hours: f64) -> Diagnostic {
    let why = format!("the work takes {:.0} years on the best machines that were allowed", hours / HOURS_A_YEAR);
    Diagnostic::new(Exit::NoPlanFits, why)
        .hint("--tokens 1T is a trillion; the largest published trainings took some 40T")
        .hint("--gpus H100:1024..32768 --max-nodes 4096 allows more machines")
}

/// What can be had at which price, and what it must keep to.
pub fn gathered(
    section: &LimitsSection,
    prices: &PriceArguments,
    session: &Session,
) -> Result<(Catalogs, Limits), Diagnostic> {
    gathered_with(&session.capacity(prices.capacity.as_deref())?, section, prices, session)
}

/// The same with other capacity than that of the settings.
pub fn gathered_with(
    capacity: &Capacity,
    section: &LimitsSection,
    prices: &PriceArguments,
    session: &Session,
) -> Result<(Catalogs, Limits), Diagnostic> {
    let mut catalogs = session.catalogs()?;
    let mut limits = Limits::read(section, &catalogs.hardware, session.now)?;
    limits.policy = session.policy(prices.policy.as_deref(), &catalogs.hardware)?;
    limits.seed = session.seed;
    limits.launchable = Some(gpuplan_clouds::LAUNCHERS.iter().map(|cloud| CloudId::new(cloud)).collect());
    limits.offers.accept_stale = prices.accept_stale_prices;
    if prices.live {
        let wanted = live::Request {
            clouds: limits.offers.clouds.clone(),
            gpus: limits.offers.gpus.clone(),
            max_age: live::parse_max_age(prices.max_age.as_deref())?,
            ..live::Request::default()
        };
        let answers = live::ask_clouds(&mut catalogs, session, &wanted)?;
        answers.warn(&session.printer);
        catalogs.market = answers.merge_into(catalogs.market, &catalogs.hardware);
    }
    catalogs.market =
        capacity.apply(catalogs.market, &mut catalogs.hardware, session.now).map_err(Diagnostic::usage)?;
    limits.quotas = quotas::known(session, &catalogs.hardware);
    settle_places(&mut limits, &catalogs)?;
    Ok((catalogs, limits))
}

/// Checks the regions of the limits against what is offered, and takes chips that are offered without any.
pub fn settle_places(limits: &mut Limits, catalogs: &Catalogs) -> Result<(), Diagnostic> {
    check_regions(&limits.offers, &catalogs.market, &catalogs.hardware)?;
    limits.offers.without_region = without_region(&limits.offers, &catalogs.market, &catalogs.hardware);
    Ok(())
}

pub fn context<'a>(
    answered: &'a Answered,
    file: &'a WorkloadFile,
    session: &Session,
) -> Result<Context<'a>, Diagnostic> {
    let (catalog_sha256, offers_sha256) = session.catalog_sha256(&answered.catalogs)?;
    Ok(Context {
        world: World {
            hardware: &answered.catalogs.hardware,
            market: &answered.catalogs.market,
            correction: &answered.correction,
        },
        workload: &answered.resolved.workload,
        file,
        assumed: &answered.resolved.assumed,
        now: session.now,
        catalog_sha256,
        offers_sha256,
        measured_sha256: answered.measured_sha256.clone(),
        seed: session.seed,
        words: &English,
    })
}
