//! `stop`, `down` and `gc`: how machines are ended, and how none is left behind.

use clap::Args;
use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::OutputFormat;
use crate::costs;
use crate::diagnostic::{Diagnostic, Exit};
use crate::launch::renters::{Launchers, clock, launchers, of_run};
use crate::launch::{confirm, journal, keep_alive, store, store_of};
use crate::launch_on;
use crate::patience::meanwhile;
use crate::printer::Printer;
use crate::runs::standing::swept;
use crate::runs::{journal_said, kept, listed, runtime};
use crate::settings::Settings;
use gpuplan_clouds::fake;
use gpuplan_launch::journal::{Kept, Said};
use gpuplan_launch::rented;
use gpuplan_launch::{End, Group, Journal, LaunchError, Machine, MachineState};

/// Looks at what is left after machines were told to end, and the pause between them. A cloud takes a minute or two.
const LOOKS: u32 = 60;
const PAUSE: std::time::Duration = std::time::Duration::from_secs(3);

#[derive(Debug, Args)]
pub struct StopArguments {
    /// Name of the run
    pub run: String,
}

#[derive(Debug, Args)]
pub struct DownArguments {
    /// Name of the run
    pub run: String,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct GcArguments {
    /// Only this cloud; `fake` for the one on this machine [default: every one with an account in sight]
    #[arg(long = "cloud", value_name = "CLOUD")]
    pub clouds: Vec<String>,
    /// End what is found without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Machines that others rented with the same account, too
    #[arg(long)]
    pub everyone: bool,
}

pub fn stop(arguments: &StopArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    if launch_on::is_handed(&arguments.run, settings)? {
        return launch_on::stop(&arguments.run, settings, printer);
    }
    let kept = kept(&arguments.run, settings)?;
    let ended = stopped(&kept, settings, printer)?;
    printer.data(&format!("{}: {ended} machines ended, none is left\n", arguments.run))
}

fn stopped(kept: &Kept, settings: &Settings, printer: &Printer) -> Result<usize, Diagnostic> {
    ended_as(kept, &End::Stopped, settings, printer)
}

/// Ends every machine of a run, and the group that would start another, looks that they are gone, and gives how many there were.
pub fn ended_as(kept: &Kept, end: &End, settings: &Settings, printer: &Printer) -> Result<usize, Diagnostic> {
    let (run, mut journal) = (kept.spec.run.as_str(), journal(settings)?);
    if kept.end.is_none() {
        // Whoever leads the run sees this and starts nothing any more.
        journal.end(run, end, Timestamp::now()).map_err(|error| journal_said(&error))?;
    }
    let clouds = of_run(&kept.spec, settings)?;
    let waiting = || format!("ending the machines of {run}, and looking that they are gone");
    let (alive, left) = meanwhile(printer, waiting, || {
        if kept.spec.is_kept {
            dissolved(&clouds, &groups(&clouds, Some(run))?, &format!("gpuplan stop {run}"))?;
        }
        let alive = alive(&clouds, Some(run))?;
        let left = end_all(&clouds, &alive, Some(run), printer)?;
        Ok::<_, Diagnostic>((alive, left))
    })?;
    let mut rentals = kept.past.rentals.clone();
    let now = clock(&kept.spec).now();
    let is_left = |id: &_| left.iter().any(|machine| machine.id == *id);
    let gone: Vec<_> = rentals.open().map(|rental| rental.machine.clone()).filter(|id| !is_left(id)).collect();
    for machine in &gone {
        rentals.end(machine, now);
    }
    let said = Said { at: Timestamp::now(), lines: Vec::new() };
    journal
        .keep(run, &rentals, kept.past.done, kept.past.interruptions, &said)
        .map_err(|error| journal_said(&error))?;
    tell_rented(run, &journal, printer)?;
    if left.is_empty() { Ok(alive.len()) } else { Err(still_there(&left, &format!("gpuplan stop {run}"))) }
}

/// What the machines cost, into the run's store, where everybody who adds up money finds it.
fn tell_rented(run: &str, journal: &Journal, printer: &Printer) -> Result<(), Diagnostic> {
    let Some(kept) = journal.run(run).map_err(|error| journal_said(&error))? else { return Ok(()) };
    let all = rented::all(&kept, &clock(&kept.spec));
    let told = store(&kept.spec)
        .and_then(|store| runtime()?.block_on(store.tell_rented(all)).map_err(|error| store_of(&error)));
    if let Err(error) = told {
        printer.warning(&format!("what the machines of {run} cost is not in its store: {}", error.message));
    }
    Ok(())
}

/// Ends a run and deletes what it stored.
pub fn down(arguments: &DownArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    if launch_on::is_handed(&arguments.run, settings)? {
        return launch_on::down(arguments, settings, printer);
    }
    let kept = kept(&arguments.run, settings)?;
    printer.note(&format!("checkpoints and output of {} in {} are deleted for good", arguments.run, kept.spec.store));
    confirm(arguments.yes, "gpuplan down -y ...")?;
    let ended = stopped(&kept, settings, printer)?;
    let (runtime, store) = (runtime()?, store(&kept.spec)?);
    // What was spent stays spent.
    costs::remember(&store, settings, printer)?;
    let deleting = || format!("deleting what {} stored", arguments.run);
    let deleted = meanwhile(printer, deleting, || {
        let mut deleted = 0;
        // Runs of a sweep are runs of their own in the store; its own objects go last, so that they are found again.
        for run in swept(&kept)?.iter().chain([&store]) {
            deleted += runtime.block_on(run.delete_all()).map_err(|error| store_of(&error))?;
        }
        Ok::<usize, Diagnostic>(deleted)
    })?;
    journal(settings)?.forget(&arguments.run).map_err(|error| journal_said(&error))?;
    printer.data(&format!("{}: {ended} machines ended, {deleted} objects deleted\n", arguments.run))
}

pub fn gc(arguments: &GcArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let clouds = if arguments.clouds.is_empty() {
        launchers(gpuplan_clouds::with_account(), settings)?
    } else {
        launchers(arguments.clouds.iter().map(String::as_str), settings)?
    };
    let looking = || "asking the clouds for every machine".to_owned();
    let (mut strays, alive) =
        meanwhile(printer, looking, || Ok::<_, Diagnostic>((groups(&clouds, None)?, alive(&clouds, None)?)))?;
    let journal = journal(settings)?;
    let kept_alive = strays.iter().map(|group| is_kept_alive(&journal, &group.run)).collect::<Result<Vec<_>, _>>()?;
    let mut kept_alive = kept_alive.into_iter();
    strays
        .retain(|group| !kept_alive.next().expect("every group was looked up") || group.expires_at < Timestamp::now());
    let mut unknown = strangers(&journal, alive)?;
    if !arguments.everyone {
        let found = unknown.len();
        unknown = of_this_person(&clouds, unknown)?;
        if unknown.len() < found {
            printer.note(&format!(
                "{} machines of other people are left out; --everyone shows them",
                found - unknown.len()
            ));
        }
        strays = groups_of_this_person(&clouds, strays)?;
    }
    let mut ended = Vec::new();
    if arguments.yes {
        let ending = || "ending machines, and looking that they are gone".to_owned();
        let left = meanwhile(printer, ending, || {
            // Before their machines: else the next ones are started at once.
            dissolved(&clouds, &strays, "gpuplan gc -y")?;
            end_all(&clouds, &unknown, None, printer)
        })?;
        if !left.is_empty() {
            return Err(still_there(&left, "gpuplan gc -y"));
        }
        ended.clone_from(&unknown);
    }
    let named = |machines: &[Machine]| -> Vec<Value> {
        machines
            .iter()
            .map(|machine| json!({ "id": machine.id, "run": machine.run, "pool": machine.pool.to_string() }))
            .collect()
    };
    let grouped: Vec<Value> =
        strays.iter().map(|group| json!({ "id": group.id, "run": group.run, "pool": place(group) })).collect();
    if settings.output == OutputFormat::Json {
        let found = [grouped.clone(), named(&unknown)].concat();
        let ended = if arguments.yes { [grouped, named(&ended)].concat() } else { Vec::new() };
        return printer.data(&format!("{:#}\n", json!({ "found": found, "ended": ended })));
    }
    for group in &strays {
        let what = if arguments.yes { "ended" } else { "found" };
        printer.data(&format!("{what}: {} of run {} ({})\n", group.id, group.run, place(group)))?;
    }
    for machine in &unknown {
        let what = if arguments.yes { "ended" } else { "found" };
        printer.data(&format!("{what}: {} of run {} ({})\n", machine.id, machine.run, machine.pool))?;
    }
    let asked: Vec<&str> = clouds.iter().map(|launcher| launcher.cloud()).collect();
    if unknown.is_empty() && strays.is_empty() {
        printer
            .note(&format!("{}: every machine that carries our tag belongs to a run of the journal", asked.join(", ")));
    } else if !arguments.yes {
        printer.note("hint: gpuplan gc -y ends them");
    }
    Ok(Exit::Done)
}

/// Machines that may cost money. A cloud that does not answer is an error: silence is not emptiness.
fn alive(clouds: &Launchers, run: Option<&str>) -> Result<Vec<Machine>, Diagnostic> {
    let mut machines = Vec::new();
    for (cloud, answer) in listed(clouds, run)? {
        machines.extend(answer.map_err(|error| did_not_answer(&cloud, &error))?);
    }
    machines.retain(|machine| machine.state != MachineState::Gone);
    Ok(machines)
}

fn did_not_answer(cloud: &str, error: &LaunchError) -> Diagnostic {
    Diagnostic::new(
        Exit::MayCostMoney,
        format!("{cloud} does not say what runs, so machines may still cost money: {error}"),
    )
    .hint("gpuplan doctor")
}

/// A colleague's journal may know what this one does not.
fn of_this_person(clouds: &Launchers, machines: Vec<Machine>) -> Result<Vec<Machine>, Diagnostic> {
    let mut own = Vec::new();
    for cloud in clouds {
        let mut here = machines.iter().filter(|machine| rents(cloud.cloud(), machine)).peekable();
        if here.peek().is_some() {
            let me = runtime()?.block_on(cloud.owner()).map_err(|error| did_not_answer(cloud.cloud(), &error))?;
            own.extend(here.filter(|machine| machine.owner == me).cloned());
        }
    }
    Ok(own)
}

/// Machines that no run of the journal knows as its own and running, and those that should have ended themselves.
fn strangers(journal: &Journal, machines: Vec<Machine>) -> Result<Vec<Machine>, Diagnostic> {
    let mut unknown = Vec::new();
    for machine in machines {
        let is_known =
            journal.knows(&machine.id).map_err(|error| journal_said(&error))? || is_kept_alive(journal, &machine.run)?;
        if !is_known || machine.is_overdue(Timestamp::now()) {
            unknown.push(machine);
        }
    }
    Ok(unknown)
}

/// A machine that a group has started just now is one that nobody looked at yet.
fn is_kept_alive(journal: &Journal, run: &str) -> Result<bool, Diagnostic> {
    let kept = journal.run(run).map_err(|error| journal_said(&error))?;
    kept.map_or(Ok(false), |kept| keep_alive::is_kept(&kept, journal))
}

fn groups(clouds: &Launchers, run: Option<&str>) -> Result<Vec<Group>, Diagnostic> {
    runtime()?.block_on(keep_alive::groups(clouds, run)).map_err(|error| did_not_answer("the cloud", &error))
}

fn groups_of_this_person(clouds: &Launchers, groups: Vec<Group>) -> Result<Vec<Group>, Diagnostic> {
    let mut own = Vec::new();
    for cloud in clouds {
        let mut here = groups.iter().filter(|group| group.cloud == cloud.cloud()).peekable();
        if here.peek().is_some() {
            let me = runtime()?.block_on(cloud.owner()).map_err(|error| did_not_answer(cloud.cloud(), &error))?;
            own.extend(here.filter(|group| group.owner == me).cloned());
        }
    }
    Ok(own)
}

fn place(group: &Group) -> String {
    format!("{}/{}, starts machines", group.cloud, group.region)
}

fn dissolved(clouds: &Launchers, groups: &[Group], hint: &str) -> Result<(), Diagnostic> {
    runtime()?.block_on(keep_alive::dissolve(clouds, groups)).map_err(|error| {
        let ids: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
        let why = format!("these groups may still start machines: {}: {error}", ids.join(", "));
        Diagnostic::new(Exit::MayCostMoney, why).hint(hint)
    })
}

/// A machine of the stand-in carries the pool that it stands in for.
fn rents(cloud: &str, machine: &Machine) -> bool {
    if fake::is_own(&machine.id) { cloud == fake::CLOUD } else { cloud == machine.pool.cloud }
}

/// Ends them and looks until they are gone; gives what is still there.
fn end_all(
    clouds: &Launchers,
    machines: &[Machine],
    run: Option<&str>,
    printer: &Printer,
) -> Result<Vec<Machine>, Diagnostic> {
    let runtime = runtime()?;
    let mut left = machines.to_vec();
    for look in 0..LOOKS {
        let each = left.iter().flat_map(|machine| clouds.iter().map(move |cloud| (cloud, machine)));
        let told = each
            .filter(|(cloud, machine)| rents(cloud.cloud(), machine))
            .map(|(cloud, machine)| cloud.destroy(&machine.id));
        let refused = runtime.block_on(join_all(told)).into_iter().find_map(Result::err);
        let after = alive(clouds, run)?;
        left.retain(|machine| after.iter().any(|still| still.id == machine.id));
        if left.is_empty() {
            break;
        }
        if let Some(error) = refused.filter(|error| !matches!(error, LaunchError::Unclear { .. })) {
            printer.note(&format!("warning: {error}"));
            break;
        }
        if look == 0 {
            printer.note(&format!("gpuplan: waiting until {} machines are gone", left.len()));
        }
        runtime.block_on(async { tokio::time::sleep(PAUSE).await });
    }
    Ok(left)
}

fn still_there(left: &[Machine], hint: &str) -> Diagnostic {
    let ids: Vec<&str> = left.iter().map(|machine| machine.id.0.as_str()).collect();
    Diagnostic::new(Exit::MayCostMoney, format!("these machines may still cost money: {}", ids.join(", "))).hint(hint)
}
