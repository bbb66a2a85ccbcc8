//! `launch`: from a plan to machines that are led to the end of the run.

pub mod adopt;
pub mod agent_options;
pub mod any_zone;
pub mod arguments;
pub mod capacity_block;
pub mod data;
pub mod delivery;
pub mod elsewhere;
pub mod folder;
pub mod keep_alive;
pub mod lead;
pub mod leading_machine;
pub mod on_engine;
pub mod pipeline;
pub mod run_spec;
pub mod warm;

use std::process::{Command, Stdio};

use jiff::Timestamp;

use crate::question::answer::{Answered, compute};
use crate::question::fitting::refused;
use crate::question::workload::{self, Recorded};
use crate::running::launch::arguments::LaunchArguments;
use crate::running::launch::data::Receiver;
use crate::running::launch::delivery::Delivery;
use crate::running::launch::lead::lead_run;
use crate::running::launch::leading_machine::LeadingMachine;
use crate::running::launch::run_spec::{Chosen, run_name, store_address};
use crate::runs::clouds::rental_cloud;
use crate::runs::journal::{no_state_folder, open_journal, record_intent};
use crate::runs::launchers::{fake_cloud, launchers_of_run, no_launcher};
use crate::runs::leader::led_elsewhere;
use crate::runs::store::{open_store, unasked_store};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::{with_early_progress, with_progress};
use crate::session::runtime::runtime;
use gpuplan_clouds::fake::{self, Scenario};
use gpuplan_launch::RunSpec;
use gpuplan_launch::execute::leadership::may_follow;
use gpuplan_plan::explanation::comparison::find;
use gpuplan_plan::{Plan, World, plan_id};
use gpuplan_report::sentences::spot::promise;
use gpuplan_report::text::format::{rate, seen, usd};
use gpuplan_report::text::wrap::wrap;
use gpuplan_runstore::Run;
use gpuplan_runstore::private;
use gpuplan_runstore::sweep::name as swept;
use gpuplan_spot::AvailabilityModel;
use gpuplan_units::{Bytes, Hours, UsdPerHour};
use gpuplan_workload::file::WorkloadFile;

pub fn run(arguments: &LaunchArguments, session: &Session) -> Result<Exit, Diagnostic> {
    workload::is_no_service(&arguments.question.workload, "launch")?;
    if let Some(engine) = &arguments.on.on {
        return on_engine::run(engine, arguments, session);
    }
    let recorded = Recorded::find(arguments.question.workload.file.as_deref())?;
    let mut limits = workload::limits(&arguments.question.limits);
    let is_fake = limits.clouds.iter().any(|cloud| cloud == fake::CLOUD);
    limits.clouds.retain(|cloud| cloud != fake::CLOUD);
    let file =
        workload::read(&arguments.question.workload)?.overlay(WorkloadFile { limits, ..WorkloadFile::default() });
    let planning = || compute(&file, &arguments.question.prices, &arguments.question.measured, session);
    let answered = with_early_progress(&session.printer, "planning", planning)?;
    let wanted = arguments.plan.as_deref().or(recorded.as_ref().map(|recorded| recorded.id.as_str()));
    let plan = choose(&answered, wanted, &file, session)?;
    let chosen = Chosen { answered: &answered, plan: &plan, limits: &answered.limits, is_fake };
    let accepts_stale = arguments.question.prices.accept_stale_prices;
    may_be_rented(&chosen, session, accepts_stale || arguments.dry_run)?;
    let name = run_name(arguments, &answered, &file, session)?;
    let (address, no_store) = match store_address(arguments, chosen.cloud(), session) {
        Err(none) if arguments.dry_run && arguments.store.is_none() => (dry_store(chosen.cloud()), Some(none)),
        found => (found?, None),
    };
    // A dry run asks the bucket nothing, so nobody has to sign in.
    let run = if arguments.dry_run { unasked_store(&address, &name)? } else { open_store(&address, &name)? };
    if !arguments.dry_run && !arguments.take_over {
        refuse_a_second_leader(&run, session)?;
    }
    let data = answered.resolved.workload.data.as_ref();
    let receiver = Receiver { cloud: chosen.cloud(), store: &address, run: &run, is_dry: arguments.dry_run };
    let preparing = || Delivery::prepare(&arguments.delivery, &arguments.command, data, &receiver, &session.printer);
    let delivery = with_early_progress(&session.printer, "checking what is uploaded", preparing)?;
    let asked = any_zone::merge_zones(
        chosen.specified(arguments, name, address, delivery.job.clone())?,
        arguments.machines.any_zone,
    )?;
    let asked = keep_alive::narrow_to_group(asked, arguments.machines.keep_alive)?;
    let asked = capacity_block::plan_block(asked, &chosen, arguments.machines.buy_capacity_block, session)?;
    let was = recorded.as_ref().filter(|recorded| wanted == Some(recorded.id.as_str())).map(|recorded| recorded.rate);
    let leader = LeadingMachine::prepare(arguments.leader, &asked)?;
    let takes_none = arguments.dry_run || arguments.machines.fresh || leader.is_some();
    let asked = if takes_none { asked } else { warm::find(asked, &run, session)? };
    tell(&asked, &chosen, &delivery, was, leader.as_ref(), session);
    if arguments.dry_run {
        let stale = may_be_rented(&chosen, session, accepts_stale).err();
        tell_what_is_missing(stale.into_iter().chain(no_store).chain(delivery.missing), session);
        return Ok(Exit::Done);
    }
    let policy = asked.policy(&AvailabilityModel::prior());
    session.printer.confirm(arguments.yes, "gpuplan launch -y ...")?;
    // Its time counts from the yes, however long somebody thought about it.
    let mut spec = RunSpec { started_at: capacity_block::begins_at(&asked, Timestamp::now()), ..asked };
    let launchers = launchers_of_run(&spec, session)?;
    if is_fake {
        rehearse(arguments, &mut spec, session)?;
    }
    with_progress(
        &session.printer,
        || "sending agent and folder to the store".to_owned(),
        || delivery.send(&run, &session.printer),
    )?;
    let mut journal = record_intent(&spec, &run, session)?;
    let spec = capacity_block::buy(spec, &launchers, &mut journal, &session.printer)?;
    match leader {
        _ if spec.is_kept => keep_alive::hand_over(&spec, &launchers, &mut journal, session, arguments.detach),
        Some(leader) => leader.start(&spec, session),
        None if arguments.detach => detached(&spec.run, arguments.take_over, session),
        None => lead_run(&spec, policy, launchers, &mut journal, arguments.take_over, session),
    }
}

/// The fake cloud plays its scenario, whose machines are silent and listed late for as long as it says.
fn rehearse(arguments: &LaunchArguments, spec: &mut RunSpec, session: &Session) -> Result<(), Diagnostic> {
    let scenario = scenario(arguments.fake_scenario.as_deref().unwrap_or("default"))?;
    spec.silence_seconds = scenario.silence_seconds * fake::SPEED;
    spec.settles_seconds = spec.settles_seconds.max(2.0 * scenario.list_late_seconds * fake::SPEED);
    fake_cloud(session)?.plays(&scenario).map_err(Diagnostic::unexpected)
}

/// What a dry run goes without, and a launch would not.
fn tell_what_is_missing(lacks: impl Iterator<Item = Diagnostic>, session: &Session) {
    for lack in lacks {
        let hints = lack.hints.iter().fold(String::new(), |hints, hint| hints + "\n  hint: " + hint);
        session.printer.note(&format!("a launch needs more: {}{hints}", lack.message));
    }
}

/// Stands for the bucket that a dry run does without.
fn dry_store(cloud: &str) -> String {
    format!("{}://BUCKET", rental_cloud(cloud).map_or("s3", |rental| rental.bucket_scheme))
}

/// Before anything is agreed: somebody else may lead a run of this name.
fn refuse_a_second_leader(run: &Run, session: &Session) -> Result<(), Diagnostic> {
    let Some(leading) = runtime()?.block_on(run.leading())? else { return Ok(()) };
    if may_follow(&leading, &open_journal(session)?.identity()?) {
        return Ok(());
    }
    Err(led_elsewhere(run.name(), &gpuplan_launch::execute::leadership::led_elsewhere(&leading)))
}

/// The plan that was asked for, as it stands today.
fn choose(
    answered: &Answered,
    wanted: Option<&str>,
    file: &WorkloadFile,
    session: &Session,
) -> Result<Plan, Diagnostic> {
    let Some(best) = &answered.set.recommendation else { return Err(refused(answered, file, session)) };
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
fn may_be_rented(chosen: &Chosen, session: &Session, accept_stale: bool) -> Result<(), Diagnostic> {
    if chosen.is_fake {
        return Ok(());
    }
    let (cloud, offer) = (chosen.cloud(), chosen.answered.catalogs.market.offer(chosen.plan.offer));
    if offer.is_stale(chosen.limits.now.unwrap_or(session.now)) && !accept_stale {
        let why = format!("the price of the recommended machine at {cloud} is stale; nothing is launched on it");
        return Err(Diagnostic::new(Exit::StalePrice, why)
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
    leader: Option<&LeadingMachine>,
    session: &Session,
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
        format!(
            "machine   {} x {first}, {others} more place{} to fail over to",
            spec.nodes,
            if others == 1 { "" } else { "s" }
        ),
        format!(
            "price     {}{was} an hour a machine, {}{}",
            rate(offer.quote.rate),
            seen(&offer.quote, session.now),
            bid_words(spec)
        ),
        format!("cost      {} expected, {} at 90 %; at worst {worst}", usd(plan.cost.expected), usd(plan.cost.p90)),
        format!("life      no machine runs longer than {}", Hours(spec.lifetime_hours)),
        format!("store     {}", spec.store),
    ];
    if delivery.bytes() > 0 {
        lines.push(format!(
            "sent      {} to the store, agent and folder, unless they are there",
            Bytes(delivery.bytes() as f64)
        ));
    }
    lines.extend(capacity_block::words(spec).map(|words| format!("block     {words}")));
    lines.extend(spec.job.sweep.map(|sweep| {
        let (first, last) = (swept(&spec.run, 0, sweep.runs), swept(&spec.run, sweep.runs - 1, sweep.runs));
        format!(
            "sweep     {} runs, {first} to {last}, {} at a time on the machine, one bill",
            sweep.runs, sweep.parallel
        )
    }));
    lines.extend(delivery.job.container.iter().map(|image| format!("container {image}{}", delivery.job.login_words())));
    lines.extend(delivery.job.data.iter().map(|data| {
        let sent = if delivery.sends_data() { ", sent to the store first" } else { "" };
        let how = if data.is_mounted { "mounted from" } else { "from" };
        format!("data      {} files, {}, {how} {}{sent}", data.files, Bytes(data.bytes as f64), data.address)
    }));
    lines.extend(
        plan.spot.as_ref().and_then(|spot| spot.promise.as_ref()).map(|made| format!("promise   {}", promise(made))),
    );
    lines.extend(leader.map(LeadingMachine::words));
    lines.extend(warm::words(spec));
    lines.extend(led_words(spec, chosen, leader).map(str::to_owned));
    let wrapped: Vec<String> = lines.iter().map(|line| wrap(line, session.width, "          ")).collect();
    session.printer.note(&wrapped.join("\n"));
}

/// Who leads it, where no machine of its own does.
fn led_words(spec: &RunSpec, chosen: &Chosen, leader: Option<&LeadingMachine>) -> Option<&'static str> {
    if chosen.is_fake {
        Some(
            "cloud     fake: nothing is rented, machines are processes here, ten minutes of theirs are a second of yours",
        )
    } else if spec.is_kept {
        Some(keep_alive::words(spec))
    } else if leader.is_none() {
        Some(
            "led       from here: interrupted machines are replaced only while this command runs; `gpuplan watch` resumes, `watch --unit` survives a reboot",
        )
    } else {
        None
    }
}

/// Whether a spot machine may become dearer than was planned.
fn bid_words(spec: &RunSpec) -> String {
    // Of all places that it may fail over to: each has a highest price of its own, or its cloud takes none.
    if let Some(open) = spec.spot.iter().find(|place| place.most_usd_per_hour.is_none()) {
        return format!("; {} takes no highest price for spot machines, and may change its own", open.pool.cloud);
    }
    let most = spec.spot.iter().filter_map(|place| place.most_usd_per_hour).max();
    most.map_or_else(String::new, |most| {
        format!("; on spot never more than ${most}, where the cloud would take the machine away")
    })
}

/// The same as `watch`, without this terminal.
fn detached(run: &str, take_over: bool, session: &Session) -> Result<Exit, Diagnostic> {
    let log = session.home.state_file("leaders").ok_or_else(no_state_folder)?.join(format!("{run}.log"));
    let failed = |error: std::io::Error| Diagnostic::file(&log, &error).hint(format!("gpuplan watch {run}"));
    log.parent().map_or(Ok(()), private::folder).map_err(failed)?;
    let (out, program) = (std::fs::File::create(&log).map_err(failed)?, std::env::current_exe().map_err(failed)?);
    let errors = out.try_clone().map_err(failed)?;
    let mut leader = Command::new(program);
    std::os::unix::process::CommandExt::process_group(&mut leader, 0);
    leader.args(["watch", run]).args(take_over.then_some("--take-over"));
    leader.stdin(Stdio::null()).stdout(out).stderr(errors).spawn().map_err(failed)?;
    session.printer.note(&format!("gpuplan: {run} is led in the background and logs to {}", log.display()));
    session.printer.data(&format!("{run}\n"))
}

fn scenario(name: &str) -> Result<Scenario, Diagnostic> {
    let read = match std::fs::read_to_string(name) {
        Ok(text) => Scenario::read(&text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Scenario::named(name),
        Err(error) => return Err(Diagnostic::file(name.as_ref(), &error)),
    };
    read.map_err(|error| Diagnostic::usage(&error).hint("--fake-scenario default"))
}
