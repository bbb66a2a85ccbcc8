//! `launch` and `watch`: from a plan to machines that are led to the end of the run.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::sync::watch;

use crate::cli::args::{LimitsArguments, PriceArguments, WorkloadArguments};
use crate::cli::calibrations::MeasuredArguments;
use crate::cli::diagnostic::{Diagnostic, Exit};
use crate::cli::plan::{Answered, compute, nothing_fits};
use crate::cli::printer::Printer;
use crate::cli::settings::Settings;
use crate::cli::workload;
use crate::clouds::fake::{self, FakeCloud, Scenario};
use crate::launch::spec::{Offered, VERSION};
use crate::launch::{Clock, End, Journal, Launcher, Market, Pool, RunSpec, Wiring, Wish, lead};
use crate::market::{Offer, OfferId, Purchase};
use crate::plan::filters::refuse_offer;
use crate::plan::{Limits, Plan};
use crate::report::format::{rate, seen, usd};
use crate::report::plan_text::wrap;
use crate::runstore::layout::Layout;
use crate::runstore::{Run, Store};
use crate::spot::AvailabilityModel;
use crate::units::{BillingRule, Hours};
use crate::workload::file::WorkloadFile;

/// Places that a run fails over to, of each kind.
const MOST_PLACES: usize = 10;
/// Without a stated life, a machine may live for so many times the hours that nine of ten runs take, and an hour at least.
const LIFE: f64 = 2.0;

#[derive(Debug, Args)]
pub struct LaunchArguments {
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub limits: LimitsArguments,
    #[command(flatten)]
    pub prices: PriceArguments,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    /// Name of the run [default: the workload's name and the time]
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Where checkpoints are kept: file:///folder, s3://bucket/prefix, gs://bucket/prefix or az://container
    #[arg(long, value_name = "URI")]
    pub store: Option<String>,
    /// No machine lives longer than this
    #[arg(long, value_name = "TIME")]
    pub lifetime: Option<String>,
    /// What goes wrong at the fake cloud: default, calm, no-notice, quota, sold-out, or a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub fake_scenario: Option<String>,
    /// Show what would be rented and end
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// The training command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct WatchArguments {
    /// Name of the run
    pub run: String,
}

pub fn run(arguments: &LaunchArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let mut limits = workload::limits(&arguments.limits);
    let is_fake = limits.clouds.iter().any(|cloud| cloud == fake::CLOUD);
    limits.clouds.retain(|cloud| cloud != fake::CLOUD);
    let file = workload::read(&arguments.workload)?.overlay(WorkloadFile { limits, ..WorkloadFile::default() });
    let answered = compute(&file, &arguments.prices, &arguments.measured, settings, printer)?;
    let Some(plan) = answered.set.recommendation.clone() else { return Err(nothing_fits(&answered.set)) };
    let limits = Limits::read(&file.limits, &answered.catalogs.hardware, settings.now)?;
    if !is_fake {
        return Err(no_launcher(&answered, &plan, &limits, settings, arguments.prices.accept_stale_prices));
    }
    let spec = specified(arguments, &answered, &plan, &limits, &file, settings)?;
    tell(&spec, &answered, &plan, settings, printer);
    if arguments.dry_run {
        return Ok(Exit::Done);
    }
    confirm(arguments.yes)?;
    let cloud = fake_cloud(settings)?;
    let scenario = scenario(arguments.fake_scenario.as_deref().unwrap_or("default"))?;
    cloud.plays(&scenario).map_err(|error| Diagnostic::unexpected(&error))?;
    let mut journal = journal(settings)?;
    if !journal.begin(&spec).map_err(|error| Diagnostic::unexpected(&error))? {
        return Err(
            Diagnostic::new(Exit::Usage, format!("there is a run `{}` already", spec.run)).hint(format!("gpuplan watch {}", spec.run))
        );
    }
    led(&spec, cloud, &mut journal, printer)
}

/// Leads a run that was left, from what the journal knows.
pub fn again(arguments: &WatchArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let mut journal = journal(settings)?;
    let kept = journal.run(&arguments.run).map_err(|error| Diagnostic::unexpected(&error))?;
    let kept = kept.ok_or_else(|| unknown_run(&arguments.run))?;
    if let Some(end) = kept.end {
        return Err(Diagnostic::new(Exit::Usage, format!("the run `{}` has ended: {end}", arguments.run)).hint("gpuplan status"));
    }
    led(&kept.spec, fake_cloud(settings)?, &mut journal, printer)
}

pub fn unknown_run(run: &str) -> Diagnostic {
    Diagnostic::new(Exit::Usage, format!("no run is called `{run}`")).hint("gpuplan status")
}

fn led(spec: &RunSpec, cloud: FakeCloud, journal: &mut Journal, printer: &Printer) -> Result<Exit, Diagnostic> {
    let (wish, wishes) = watch::channel(Wish::GoOn);
    let agent = std::env::current_exe().map_err(|error| Diagnostic::unexpected(&error))?;
    let store = store(spec)?;
    let launchers: Vec<Box<dyn Launcher>> = vec![Box::new(cloud)];
    let wiring = Wiring {
        launchers: &launchers,
        journal,
        store: &store,
        model: &AvailabilityModel::prior(),
        clock: Clock { started_at: spec.started_at, speed: fake::SPEED },
        agent: &agent.to_string_lossy(),
        say: &|line| printer.note(&format!("gpuplan: {line}")),
        wish: wishes,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let end = runtime.map_err(|error| Diagnostic::unexpected(&error))?.block_on(async {
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                let _ = wish.send(Wish::Leave);
            }
            // The sender lives as long as the run is led.
            std::future::pending::<()>().await;
        });
        lead(spec, wiring).await
    });
    let run = &spec.run;
    // Whatever stopped the leading, machines that were rented go on until they end themselves.
    let left = |why: String| {
        let left = Diagnostic::new(Exit::MayCostMoney, why).hint(format!("gpuplan watch {run}"));
        Err(left.hint(format!("gpuplan stop {run}")))
    };
    match end {
        Err(error) => left(format!("the run `{run}` is not led any more, and its machines go on: {error}")),
        Ok(end) => ended(end, run, printer, left),
    }
}

fn ended(end: Option<End>, run: &str, printer: &Printer, left: impl Fn(String) -> Result<Exit, Diagnostic>) -> Result<Exit, Diagnostic> {
    match end {
        None => left(format!("the run `{run}` was left: its machines go on, and nothing starts them again")),
        Some(End::Completed) => printer.data(&format!("{run}: completed\n")),
        Some(End::Stopped) => printer.data(&format!("{run}: stopped\n")),
        Some(End::OutOfBudget) => Err(Diagnostic::new(Exit::OnlyMoney, format!("{run}: the budget is used up; what was saved is kept"))),
        Some(End::Failed(why)) => {
            Err(Diagnostic::new(Exit::Unexpected, format!("{run}: the program failed: {why}")).hint(format!("gpuplan logs {run}")))
        }
        Some(End::Refused(why)) => Err(Diagnostic::new(refusal(&why), format!("{run}: {why}")).hint("gpuplan doctor")),
    }
}

fn refusal(why: &str) -> Exit {
    if why.contains("quota") {
        Exit::Quota
    } else if why.contains("not allowed") {
        Exit::CloudRefused
    } else {
        Exit::NoCapacity
    }
}

/// Clouds whose machines this program plans and does not rent yet.
fn no_launcher(answered: &Answered, plan: &Plan, limits: &Limits, settings: &Settings, accept_stale: bool) -> Diagnostic {
    let offer = answered.catalogs.market.offer(plan.offer);
    let cloud = answered.catalogs.hardware.instance(plan.instance).cloud.label();
    if offer.is_stale(limits.now.unwrap_or(settings.now)) && !accept_stale {
        return Diagnostic::new(
            Exit::StalePrices,
            format!("the price of the recommended machine at {cloud} is stale; nothing is launched on it"),
        )
        .hint("gpuplan refresh")
        .hint("--accept-stale-prices launches all the same");
    }
    Diagnostic::new(Exit::Usage, format!("machines of {cloud} are planned and not rented yet"))
        .hint("--cloud fake shows the whole life of a run")
}

fn specified(
    arguments: &LaunchArguments,
    answered: &Answered,
    plan: &Plan,
    limits: &Limits,
    file: &WorkloadFile,
    settings: &Settings,
) -> Result<RunSpec, Diagnostic> {
    let market = &answered.catalogs.market;
    let offered = |id: OfferId| place(answered, market.offer(id));
    let (spot, on_demand): (Vec<Offered>, Vec<Offered>) = match &plan.spot {
        Some(outlook) => {
            let on_demand = if outlook.fallback.is_some() { elsewhere(answered, plan, limits, outlook.fallback) } else { Vec::new() };
            (outlook.pools.iter().map(|pool| offered(pool.offer)).collect(), on_demand)
        }
        None => (Vec::new(), elsewhere(answered, plan, limits, Some(plan.offer))),
    };
    let name = file.name.clone().unwrap_or_else(|| answered.resolved.workload.model.name.clone());
    let run = arguments.run.clone().unwrap_or_else(|| format!("{}-{}", plain(&name), settings.now.strftime("%Y%m%d-%H%M%S")));
    Layout::new(&run).map_err(|error| Diagnostic::new(Exit::Usage, error.to_string()).hint("gpuplan launch --run NAME ..."))?;
    let lifetime = match &arguments.lifetime {
        Some(text) => Hours::parse(text).map_err(|error| Diagnostic::new(Exit::Usage, error.to_string()).hint("--lifetime 48h"))?.0,
        None => (LIFE * plan.run.hours.p90).max(1.0),
    };
    let local = fake_folder(settings)?.join("store");
    Ok(RunSpec {
        version: VERSION,
        run,
        started_at: jiff::Timestamp::now(),
        stand_in: Some(fake::CLOUD.to_owned()),
        nodes: plan.nodes,
        spot,
        on_demand,
        work_hours: plan.run.work.expected,
        deadline_hours: limits.deadline.map(|deadline| deadline.0),
        changeover_hours: plan.run.changeover.0,
        worst_changeover_hours: plan.run.worst_changeover.0,
        budget_usd: limits.budget,
        lifetime_hours: lifetime,
        silence_seconds: fake::SILENCE * fake::SPEED,
        expected_cost_usd: plan.cost.expected,
        steps: plan.run.steps,
        store: arguments.store.clone().unwrap_or_else(|| format!("file://{}", local.display())),
        command: found_here(&arguments.command),
        image: None,
        disk_gib: 100,
        tags: Vec::new(),
    })
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
}

/// A machine of the fake cloud starts in a folder of its own: a program that lies here is named in full.
fn found_here(command: &[String]) -> Vec<String> {
    let absolute = |word: &String| {
        let path = Path::new(word);
        if path.is_relative() && path.is_file() {
            std::path::absolute(path).ok().map(|path| path.to_string_lossy().into_owned())
        } else {
            None
        }
    };
    command.iter().map(|word| absolute(word).unwrap_or_else(|| word.clone())).collect()
}

/// On-demand machines of the same type wherever the limits allow them: the plan's own place first, then the cheapest.
fn elsewhere(answered: &Answered, plan: &Plan, limits: &Limits, first: Option<OfferId>) -> Vec<Offered> {
    let (market, hardware) = (&answered.catalogs.market, &answered.catalogs.hardware);
    let sold = |id: &OfferId| {
        let offer = market.offer(*id);
        let is_same = offer.instance == plan.instance && offer.purchase == Purchase::OnDemand && offer.owned.is_none();
        is_same && refuse_offer(offer, hardware.instance(offer.instance), hardware, limits).is_none()
    };
    let mut ids: Vec<OfferId> = market.offer_ids().filter(sold).collect();
    ids.sort_by_key(|id| (Some(*id) != first, market.offer(*id).quote.rate, *id));
    if let Some(first) = first.filter(|first| !ids.contains(first)) {
        ids.insert(0, first);
    }
    ids.truncate(MOST_PLACES);
    ids.into_iter().map(|id| place(answered, market.offer(id))).collect()
}

fn place(answered: &Answered, offer: &Offer) -> Offered {
    let instance = answered.catalogs.hardware.instance(offer.instance);
    Offered {
        pool: Pool {
            cloud: instance.cloud.to_string(),
            region: offer.place.region.to_string(),
            zone_id: offer.place.zone_id.as_ref().map(ToString::to_string),
            instance_type: instance.name.clone(),
            market: if offer.purchase == Purchase::Spot { Market::Spot } else { Market::OnDemand },
        },
        rate_usd_per_hour: offer.quote.rate,
        billing: BillingRule::PER_SECOND,
    }
}

/// Everything that a yes means.
fn tell(spec: &RunSpec, answered: &Answered, plan: &Plan, settings: &Settings, printer: &Printer) {
    let offer = answered.catalogs.market.offer(plan.offer);
    let first = spec.spot.first().or(spec.on_demand.first()).map(|offered| offered.pool.to_string()).unwrap_or_default();
    let worst = spec.worst_case().map_or_else(|| "more than can be counted".to_owned(), usd);
    let others = (spec.spot.len() + spec.on_demand.len()).saturating_sub(1);
    let mut lines = vec![
        format!("run       {}", spec.run),
        format!("machine   {} x {first}, {others} more places to fail over to", spec.nodes),
        format!("price     {} an hour a machine, {}", rate(offer.quote.rate), seen(&offer.quote, settings.now)),
        format!("cost      {} expected, {} at 90 %; at worst {worst}", usd(plan.cost.expected), usd(plan.cost.p90)),
        format!("life      no machine lives longer than {}", Hours(spec.lifetime_hours)),
        format!("store     {}", spec.store),
    ];
    lines.extend(plan.spot.as_ref().and_then(|spot| spot.promise.as_ref()).map(|promise| format!("promise   {promise}")));
    lines.push("cloud     fake: nothing is rented, machines are processes here, ten minutes of theirs are a second of yours".to_owned());
    let wrapped: Vec<String> = lines.iter().map(|line| wrap(line, settings.width, "          ")).collect();
    printer.note(&wrapped.join("\n"));
}

fn confirm(yes: bool) -> Result<(), Diagnostic> {
    if yes {
        return Ok(());
    }
    let asks = std::io::stdin();
    if !asks.is_terminal() {
        return Err(Diagnostic::new(Exit::Usage, "nobody is here to say yes").hint("gpuplan launch -y ..."));
    }
    Printer.note("rent it? [y/N]");
    let mut line = String::new();
    asks.lock().read_line(&mut line).map_err(|error| Diagnostic::unexpected(&error))?;
    if ["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()) {
        Ok(())
    } else {
        Err(Diagnostic::new(Exit::Usage, "nothing was rented"))
    }
}

fn scenario(name: &str) -> Result<Scenario, Diagnostic> {
    let read = match std::fs::read_to_string(name) {
        Ok(text) => Scenario::read(&text),
        Err(_) => Scenario::named(name),
    };
    read.map_err(|error| Diagnostic::new(Exit::Usage, error.to_string()).hint("--fake-scenario default"))
}

fn fake_folder(settings: &Settings) -> Result<PathBuf, Diagnostic> {
    settings.home.state_file("fake-cloud").ok_or_else(no_home)
}

pub fn fake_cloud(settings: &Settings) -> Result<FakeCloud, Diagnostic> {
    Ok(FakeCloud::at(&fake_folder(settings)?))
}

pub fn journal(settings: &Settings) -> Result<Journal, Diagnostic> {
    let path = settings.home.state_file("launches.sqlite").ok_or_else(no_home)?;
    Journal::open(&path).map_err(|error| Diagnostic::new(Exit::Unexpected, error.to_string()))
}

fn no_home() -> Diagnostic {
    Diagnostic::new(Exit::Usage, "there is no folder to keep a journal in, and nothing is launched without one")
        .hint("set HOME or GPUPLAN_HOME")
}

pub fn store(spec: &RunSpec) -> Result<Run, Diagnostic> {
    let wrong = |error: &dyn std::error::Error| Diagnostic::new(Exit::Usage, error.to_string());
    let store = Store::open(&spec.store).map_err(|error| wrong(&error))?;
    Ok(Run::new(store, Layout::new(&spec.run).map_err(|error| wrong(&error))?))
}
