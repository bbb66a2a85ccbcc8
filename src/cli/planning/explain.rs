//! `explain`: one candidate in full; where it was not on the list, the plan is made again for it alone.

use clap::Args;

use crate::arguments::global::OutputFormat;
use crate::arguments::question::QuestionArguments;
use crate::question::answer::{self, Answered};
use crate::question::fitting::refused;
use crate::question::workload;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_accuracy::Published;
use gpuplan_accuracy::nearest::PublishedRuns;
use gpuplan_estimate::likeness::Likeness;
use gpuplan_plan::explanation::comparison::{find, what_would_change, why_not};
use gpuplan_plan::{Limits, Plan, PlanSet, World, plan_id};
use gpuplan_report::plan::explain::{self as report, Comparison};
use gpuplan_workload::file::WorkloadFile;

#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Explain this plan: its id, a GPU, an instance type or a region [default: the recommended plan]
    #[arg(long, value_name = "NAME")]
    pub plan: Option<String>,
}

pub fn run(arguments: &ExplainArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let file = workload::with_limits(&arguments.question.workload, &arguments.question.limits)?;
    let answered = answer::compute(&file, &arguments.question.prices, &arguments.question.measured, session)?;
    session.warn_about_age(&answered.catalogs.market);
    let context = answer::context(&answered, &file, session)?;
    let chosen = match &arguments.plan {
        None => answered.set.recommendation.clone().ok_or_else(|| refused(&answered, &file, session))?,
        Some(name) => look_up(name, &answered, &file, session)?,
    };
    let is_best = answered
        .set
        .recommendation
        .as_ref()
        .is_some_and(|best| plan_id(context.world, best) == plan_id(context.world, &chosen));
    let comparison = if is_best {
        Comparison { is_recommended: true, ..Comparison::default() }
    } else {
        Comparison {
            is_recommended: false,
            why_not: why_not(context.world, &answered.set, &chosen),
            would_change: what_would_change(&answered.set, &chosen),
        }
    };
    let published = Published::embedded().map_err(Diagnostic::unexpected)?;
    let known = PublishedRuns::new(&published, context.world.hardware, &session.models()?);
    let gpu = context.world.hardware.gpu(context.world.hardware.instance(chosen.instance).node.gpu);
    let job = context.workload;
    let likeness = Likeness::new(&job.model, &job.training, gpu, &chosen.step.setting);
    let nearest = job.serving.is_none().then(|| known.nearest(&likeness));
    let nearest = nearest.as_ref();
    match session.output {
        OutputFormat::Table => {
            session.printer.data(&report::text(&chosen, &comparison, nearest, &context, session.width))
        }
        OutputFormat::Json => session.printer.data(&report::json(&chosen, &comparison, nearest, &context)),
        OutputFormat::Csv => {
            Err(Diagnostic::usage("an explanation cannot be printed as CSV").hint("gpuplan explain FILE --output json"))
        }
    }
}

/// A shown plan by id; else the best plan of that GPU, machine or region, whatever else the file prefers.
fn look_up(name: &str, answered: &Answered, file: &WorkloadFile, session: &Session) -> Result<Plan, Diagnostic> {
    let world = World {
        hardware: &answered.catalogs.hardware,
        market: &answered.catalogs.market,
        correction: &answered.correction,
    };
    if let Some(plan) = find(&answered.set, name, |plan| plan_id(world, plan)) {
        return Ok(plan.clone());
    }
    let mut limits = Limits::read(&file.limits, world.hardware, session.now)?;
    let mut nodes = None;
    if let Some((cloud, place, machine, count, purchase)) = parse_id(name) {
        let section = gpuplan_workload::file::LimitsSection {
            clouds: vec![cloud.to_owned()],
            regions: if place == "any" { Vec::new() } else { vec![place.to_owned()] },
            purchase: Some(purchase.to_owned()),
            ..file.limits.clone()
        };
        limits = Limits::read(&section, world.hardware, session.now)?;
        limits.offers.instance_type = Some(machine.to_owned());
        nodes = Some(count);
    } else if world.hardware.instances().iter().any(|instance| instance.name == name) {
        limits.offers.instance_type = Some(name.to_owned());
    } else if world
        .market
        .offers()
        .iter()
        .any(|offer| &*offer.place.region == name || offer.place.zone_id.as_deref() == Some(name))
    {
        limits.offers.regions = vec![name.to_owned()];
    } else {
        limits.offers.gpus = vec![gpuplan_hardware::GpuSelector::parse(name, world.hardware)?];
    }
    limits.seed = session.seed;
    let set = gpuplan_plan::plan(world, &answered.resolved.workload, &limits);
    let wanted = |set: &PlanSet| match nodes {
        None => set.recommendation.clone(),
        Some(count) => set.frontier.iter().chain(&set.alternatives).find(|plan| plan.nodes == count).cloned(),
    };
    wanted(&set).ok_or_else(|| {
        let asked = Answered {
            catalogs: answered.catalogs.clone(),
            resolved: answered.resolved.clone(),
            correction: answered.correction.clone(),
            measured_sha256: None,
            limits,
            set,
        };
        let mut diagnostic = refused(&asked, file, session);
        diagnostic.message = format!("`{name}` cannot carry this workload: {}", diagnostic.message);
        diagnostic
    })
}

/// `cloud/place/type x nodes/purchase`, as plans are named.
fn parse_id(name: &str) -> Option<(&str, &str, &str, u32, &str)> {
    let mut parts = name.split('/');
    let (cloud, place, machine, purchase) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (machine, nodes) = machine.rsplit_once('x')?;
    parts.next().is_none().then_some((cloud, place, machine, nodes.parse().ok()?, purchase))
}
