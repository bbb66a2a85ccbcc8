//! `launch`: from a plan to machines that are led to the end of the run.

pub mod adopt;
pub mod agreed;
pub mod any_zone;
pub mod block;
pub mod data;
pub mod delivery;
pub mod keep_alive;
pub mod leading;
pub mod on;
pub mod renters;

use std::io::{BufRead, IsTerminal};
use std::process::{Command, Stdio};

use clap::Args;
use jiff::Timestamp;

use crate::args::{LimitsArguments, PriceArguments, WorkloadArguments};
use crate::calibrations::MeasuredArguments;
use crate::diagnostic::{Diagnostic, Exit};
use crate::launch::agreed::{Chosen, run_name, store_address};
use crate::launch::delivery::{Delivery, DeliveryArguments, Receiver};
use crate::launch::keep_alive::KeepAlive;
use crate::launch::leading::led;
use crate::launch::on::OnArguments;
use crate::launch::renters::{fake_cloud, no_launcher, of_run};
use crate::patience::{before_asking, meanwhile};
use crate::plan::{Answered, compute, nothing_fits};
use crate::printer::Printer;
use crate::runs::runtime;
use crate::settings::Settings;
use crate::workload::{self, Recorded};
use gpuplan_clouds::fake::{self, Scenario};
use gpuplan_launch::{Journal, RunSpec};
use gpuplan_plan::explanation::comparison::find;
use gpuplan_plan::{Plan, World, plan_id};
use gpuplan_report::format::{rate, seen, usd};
use gpuplan_report::plan_text::wrap;
use gpuplan_report::sentences::spot::promise;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::sweep::name as swept;
use gpuplan_runstore::{Run, Store, StoreError};
use gpuplan_spot::AvailabilityModel;
use gpuplan_units::{Bytes, Hours, UsdPerHour};
use gpuplan_workload::file::WorkloadFile;

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
    /// The plan to launch, by its id [default: the recommended one]
    #[arg(long, value_name = "ID")]
    pub plan: Option<String>,
    /// Name of the run [default: the workload's name and the time]
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Where checkpoints are kept: s3://bucket/prefix on AWS, gs://bucket/prefix on Google Cloud
    #[arg(long, value_name = "URI")]
    pub store: Option<String>,
    /// No machine lives longer than this
    #[arg(long, value_name = "TIME")]
    pub lifetime: Option<String>,
    #[command(flatten)]
    pub delivery: DeliveryArguments,
    #[command(flatten)]
    pub on: OnArguments,
    /// A tag on everything rented
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub tags: Vec<String>,
    /// What goes wrong at the fake cloud: default, calm, no-notice, quota, sold-out, or a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub fake_scenario: Option<String>,
    /// Show what would be rented and end
    #[arg(long)]
    pub dry_run: bool,
    /// Ask for spot machines in all zones of a region at once, and let the cloud choose [AWS: CreateFleet, price-capacity-optimized]
    #[arg(long)]
    pub any_zone: bool,
    /// Buy the capacity block that the plan stands on: paid up front, used or not [AWS, with --purchase capacity-block]
    #[arg(long)]
    pub buy_capacity_block: bool,
    /// Let the cloud start the next machine when one is taken, so that nobody has to lead the run [AWS, spot, one machine]
    #[arg(long, value_name = "GROUP")]
    pub keep_alive: Option<KeepAlive>,
    /// Lead the run in the background
    #[arg(long)]
    pub detach: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// The training command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn run(arguments: &LaunchArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    workload::is_no_service(&arguments.workload, "launch")?;
    if let Some(engine) = &arguments.on.on {
        return on::run(engine, arguments, settings, printer);
    }
    let recorded = Recorded::find(arguments.workload.file.as_deref())?;
    let mut limits = workload::limits(&arguments.limits);
    let is_fake = limits.clouds.iter().any(|cloud| cloud == fake::CLOUD);
    limits.clouds.retain(|cloud| cloud != fake::CLOUD);
    let file = workload::read(&arguments.workload)?.overlay(WorkloadFile { limits, ..WorkloadFile::default() });
    let planning = || compute(&file, &arguments.prices, &arguments.measured, settings, printer);
    let answered = before_asking(printer, "planning", planning)?;
    let wanted = arguments.plan.as_deref().or(recorded.as_ref().map(|recorded| recorded.id.as_str()));
    let plan = choose(&answered, wanted)?;
    let chosen = Chosen { answered: &answered, plan: &plan, limits: &answered.limits, is_fake };
    may_be_rented(&chosen, settings, arguments.prices.accept_stale_prices)?;
    let name = run_name(arguments, &answered, &file, settings)?;
    let address = store_address(arguments, chosen.cloud(), settings)?;
    let run = open(&address, &name)?;
    let data = answered.resolved.workload.data.as_ref();
    let receiver = Receiver { cloud: chosen.cloud(), store: &address, run: &run };
    let preparing = || Delivery::prepare(&arguments.delivery, &arguments.command, data, &receiver);
    let delivery = before_asking(printer, "looking at what goes along", preparing)?;
    let asked =
        any_zone::collapsed(chosen.specified(arguments, name, address, delivery.job.clone())?, arguments.any_zone)?;
    let asked = keep_alive::narrowed(asked, arguments.keep_alive)?;
    let asked = block::chosen(asked, &chosen, arguments.buy_capacity_block, settings, printer)?;
    let was = recorded.as_ref().filter(|recorded| wanted == Some(recorded.id.as_str())).map(|recorded| recorded.rate);
    tell(&asked, &chosen, &delivery, was, settings, printer);
    if arguments.dry_run {
        return Ok(Exit::Done);
    }
    let policy = asked.policy(&AvailabilityModel::prior());
    confirm(arguments.yes, "gpuplan launch -y ...")?;
    // Its time counts from the yes, however long somebody thought about it.
    let mut spec = RunSpec { started_at: block::begins_at(&asked, Timestamp::now()), ..asked };
    let launchers = of_run(&spec, settings)?;
    if is_fake {
        let scenario = scenario(arguments.fake_scenario.as_deref().unwrap_or("default"))?;
        spec.silence_seconds = scenario.silence_seconds * fake::SPEED;
        fake_cloud(settings)?.plays(&scenario).map_err(|error| Diagnostic::unexpected(&error))?;
    }
    meanwhile(printer, || "sending agent and folder to the store".to_owned(), || delivery.send(&run, printer))?;
    let mut journal = journal(settings)?;
    if !journal.begin(&spec).map_err(|error| Diagnostic::unexpected(&error))? {
        return Err(Diagnostic::new(Exit::Usage, format!("there is a run `{}` already", spec.run))
            .hint(format!("gpuplan watch {}", spec.run)));
    }
    // With it the run can be led from anywhere: `gpuplan adopt`.
    let text = spec.write().map_err(|error| Diagnostic::unexpected(&error))?;
    if runtime()?.block_on(run.keep_spec(&text)).map_err(|error| store_of(&error))?.is_some() {
        printer.note(&format!(
            "warning: {} has a run `{}` already, and this one goes on from its checkpoints",
            spec.store, spec.run
        ));
    }
    let spec = block::bought(spec, &launchers, &mut journal, printer)?;
    if spec.is_kept {
        return keep_alive::handed_over(&spec, &launchers, &mut journal, settings, printer, arguments.detach);
    }
    if arguments.detach {
        detached(&spec.run, settings, printer)
    } else {
        led(&spec, policy, launchers, &mut journal, settings, printer)
    }
}

/// The plan that was asked for, as it stands today.
fn choose(answered: &Answered, wanted: Option<&str>) -> Result<Plan, Diagnostic> {
    let Some(best) = &answered.set.recommendation else { return Err(nothing_fits(&answered.set)) };
    let Some(wanted) = wanted else { return Ok(best.clone()) };
    let world = World {
        hardware: &answered.catalogs.hardware,
        market: &answered.catalogs.market,
        correction: &answered.correction,
    };
    let found = find(&answered.set, wanted, |plan| plan_id(world, plan)).cloned();
    found.ok_or_else(|| {
        Diagnostic::new(Exit::NoPlanFits, format!("`{wanted}` is not among the plans of today"))
            .hint(format!("--plan {}  is recommended now", plan_id(world, best)))
            .hint("`gpuplan plan` shows them all")
    })
}

/// A cloud that rents, and a price that is not stale.
fn may_be_rented(chosen: &Chosen, settings: &Settings, accept_stale: bool) -> Result<(), Diagnostic> {
    if chosen.is_fake {
        return Ok(());
    }
    let (cloud, offer) = (chosen.cloud(), chosen.answered.catalogs.market.offer(chosen.plan.offer));
    if offer.is_stale(chosen.limits.now.unwrap_or(settings.now)) && !accept_stale {
        let why = format!("the price of the recommended machine at {cloud} is stale; nothing is launched on it");
        return Err(Diagnostic::new(Exit::StalePrices, why)
            .hint("gpuplan refresh")
            .hint("--accept-stale-prices launches all the same"));
    }
    if gpuplan_clouds::LAUNCHERS.contains(&cloud) { Ok(()) } else { Err(no_launcher(cloud)) }
}

/// Everything that a yes means.
fn tell(
    spec: &RunSpec,
    chosen: &Chosen,
    delivery: &Delivery,
    was: Option<UsdPerHour>,
    settings: &Settings,
    printer: &Printer,
) {
    let (plan, offer) = (chosen.plan, chosen.answered.catalogs.market.offer(chosen.plan.offer));
    let first = &spec.places().next().expect("what is launched has a place").pool;
    let worst = spec.worst_case().map_or_else(|| "more than can be counted".to_owned(), usd);
    let others = (spec.spot.len() + spec.on_demand.len()).saturating_sub(1);
    let was = was
        .filter(|was| *was != offer.quote.rate)
        .map_or_else(String::new, |was| format!(" ({} when it was planned)", rate(was)));
    let mut lines = vec![
        format!("run       {}", spec.run),
        format!("machine   {} x {first}, {others} more places to fail over to", spec.nodes),
        format!(
            "price     {}{was} an hour a machine, {}{}",
            rate(offer.quote.rate),
            seen(&offer.quote, settings.now),
            bid_words(spec)
        ),
        format!("cost      {} expected, {} at 90 %; at worst {worst}", usd(plan.cost.expected), usd(plan.cost.p90)),
        format!("life      no machine lives longer than {}", Hours(spec.lifetime_hours)),
        format!("store     {}", spec.store),
    ];
    if delivery.bytes() > 0 {
        lines.push(format!(
            "sent      {} to the store, agent and folder, unless they are there",
            Bytes(delivery.bytes() as f64)
        ));
    }
    lines.extend(block::words(spec).map(|words| format!("block     {words}")));
    lines.extend(spec.job.sweep.map(|sweep| {
        let (first, last) = (swept(&spec.run, 0, sweep.runs), swept(&spec.run, sweep.runs - 1, sweep.runs));
        format!(
            "sweep     {} runs, {first} to {last}, {} beside each other on the machine, one bill",
            sweep.runs, sweep.parallel
        )
    }));
    lines.extend(delivery.job.container.iter().map(|image| format!("container {image}")));
    lines.extend(delivery.job.data.iter().map(|data| {
        let sent = if delivery.sends_data() { ", sent to the store first" } else { "" };
        let how = if data.is_mounted { "mounted from" } else { "from" };
        format!("data      {} files, {}, {how} {}{sent}", data.files, Bytes(data.bytes as f64), data.address)
    }));
    lines.extend(
        plan.spot.as_ref().and_then(|spot| spot.promise.as_ref()).map(|made| format!("promise   {}", promise(made))),
    );
    lines.push(if chosen.is_fake {
        "cloud     fake: nothing is rented, machines are processes here, ten minutes of theirs are a second of yours".to_owned()
    } else if spec.is_kept {
        keep_alive::WORDS.to_owned()
    } else {
        "led       from here: while nobody leads, nothing is relaunched; `gpuplan watch` goes on, `watch --unit` keeps on".to_owned()
    });
    let wrapped: Vec<String> = lines.iter().map(|line| wrap(line, settings.width, "          ")).collect();
    printer.note(&wrapped.join("\n"));
}

/// Whether a spot machine may become dearer than was planned.
fn bid_words(spec: &RunSpec) -> String {
    let Some(first) = spec.spot.first() else { return String::new() };
    match first.most_usd_per_hour {
        Some(most) => format!("; on spot never more than ${most}, where the cloud would take the machine away"),
        None => format!("; {} takes no highest price for spot machines, and may change its own", first.pool.cloud),
    }
}

pub fn confirm(yes: bool, hint: &str) -> Result<(), Diagnostic> {
    if yes {
        return Ok(());
    }
    let asks = std::io::stdin();
    if !asks.is_terminal() {
        return Err(Diagnostic::new(Exit::Usage, "nobody is here to say yes").hint(hint));
    }
    Printer.note("go on? [y/N]");
    let mut line = String::new();
    asks.lock().read_line(&mut line).map_err(|error| Diagnostic::unexpected(&error))?;
    if ["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()) {
        Ok(())
    } else {
        Err(Diagnostic::new(Exit::Usage, "nothing was done"))
    }
}

/// The same as `watch`, without this terminal.
fn detached(run: &str, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let log = settings.home.state_file("leaders").ok_or_else(no_home)?.join(format!("{run}.log"));
    let failed = |error: std::io::Error| Diagnostic::file(&log, &error).hint(format!("gpuplan watch {run}"));
    log.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
    let (out, program) = (std::fs::File::create(&log).map_err(failed)?, std::env::current_exe().map_err(failed)?);
    let errors = out.try_clone().map_err(failed)?;
    let mut leader = Command::new(program);
    std::os::unix::process::CommandExt::process_group(&mut leader, 0);
    leader.args(["watch", run]).stdin(Stdio::null()).stdout(out).stderr(errors).spawn().map_err(failed)?;
    printer.note(&format!("gpuplan: {run} is led in the background and says its words into {}", log.display()));
    printer.data(&format!("{run}\n"))
}

fn scenario(name: &str) -> Result<Scenario, Diagnostic> {
    let read = match std::fs::read_to_string(name) {
        Ok(text) => Scenario::read(&text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Scenario::named(name),
        Err(error) => return Err(Diagnostic::file(name.as_ref(), &error)),
    };
    read.map_err(|error| Diagnostic::new(Exit::Usage, error.to_string()).hint("--fake-scenario default"))
}

pub fn journal(settings: &Settings) -> Result<Journal, Diagnostic> {
    let path = settings.home.state_file("launches.sqlite").ok_or_else(no_home)?;
    Journal::open(&path).map_err(|error| Diagnostic::new(Exit::Unexpected, error.to_string()))
}

fn no_home() -> Diagnostic {
    Diagnostic::new(Exit::Usage, "there is no folder to keep a journal in, and nothing is launched without one")
        .hint("set HOME or GPUPLAN_HOME")
}

pub fn unknown_run(run: &str) -> Diagnostic {
    Diagnostic::new(Exit::Usage, format!("no run is called `{run}`")).hint("gpuplan status")
}

pub fn store(spec: &RunSpec) -> Result<Run, Diagnostic> {
    open(&spec.store, &spec.run)
}

pub fn open(address: &str, run: &str) -> Result<Run, Diagnostic> {
    let keys = if address.starts_with("s3://") { runtime()?.block_on(gpuplan_clouds::store_keys()) } else { None };
    let store = Store::signed(address, keys).map_err(|error| store_of(&error))?;
    Ok(Run::new(store, Layout::new(run).map_err(|error| Diagnostic::new(Exit::Usage, error.to_string()))?))
}

/// What a store said, for a person.
pub fn store_of(error: &StoreError) -> Diagnostic {
    match error {
        StoreError::Address { .. } => Diagnostic::new(Exit::Usage, error.to_string()),
        StoreError::Denied { .. } => Diagnostic::new(Exit::CloudRefused, error.to_string()).hint("gpuplan doctor"),
        _ => Diagnostic::new(Exit::Unexpected, error.to_string()),
    }
}
