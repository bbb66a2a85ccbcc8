//! `stop`, `down` and `gc`: how machines are ended, and how none is left behind.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::arguments::global::OutputFormat;
use crate::finance::entries;
use crate::running::engine_jobs;
use crate::running::terminate::{alive, did_not_answer, dissolved, end_all, ended_as, list_groups, rents, still_there};
use crate::runs::agent_reports::swept;
use crate::runs::groups;
use crate::runs::journal::{journal, journal_said, kept};
use crate::runs::launchers::{Launchers, launchers};
use crate::runs::store::{store, store_of};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::meanwhile;
use crate::session::runtime::runtime;
use gpuplan_launch::journal::Kept;
use gpuplan_launch::{End, Group, Journal, Machine};

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

pub fn stop(arguments: &StopArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if engine_jobs::is_handed(&arguments.run, session)? {
        return engine_jobs::stop(&arguments.run, session);
    }
    let kept = kept(&arguments.run, session)?;
    let ended = stopped(&kept, session)?;
    session.printer.data(&format!("{}: {ended} machines ended, none is left\n", arguments.run))
}

fn stopped(kept: &Kept, session: &Session) -> Result<usize, Diagnostic> {
    ended_as(kept, &End::Stopped, session)
}

/// Ends a run and deletes what it stored.
pub fn down(arguments: &DownArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if engine_jobs::is_handed(&arguments.run, session)? {
        return engine_jobs::down(&arguments.run, arguments.yes, session);
    }
    let kept = kept(&arguments.run, session)?;
    session
        .printer
        .note(&format!("checkpoints and output of {} in {} are deleted for good", arguments.run, kept.spec.store));
    session.printer.confirm(arguments.yes, "gpuplan down -y ...")?;
    let ended = stopped(&kept, session)?;
    let (runtime, store) = (runtime()?, store(&kept.spec)?);
    // What was spent stays spent.
    entries::remember(&store, session)?;
    let deleting = || format!("deleting what {} stored", arguments.run);
    let deleted = meanwhile(&session.printer, deleting, || {
        let mut deleted = 0;
        // Runs of a sweep are runs of their own in the store; its own objects go last, so that they are found again.
        for run in swept(&kept)?.iter().chain([&store]) {
            deleted += runtime.block_on(run.delete_all()).map_err(|error| store_of(&error))?;
        }
        Ok::<usize, Diagnostic>(deleted)
    })?;
    journal(session)?.forget(&arguments.run).map_err(|error| journal_said(&error))?;
    session.printer.data(&format!("{}: {ended} machines ended, {deleted} objects deleted\n", arguments.run))
}

pub fn gc(arguments: &GcArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let clouds = if arguments.clouds.is_empty() {
        launchers(gpuplan_clouds::with_account(), session)?
    } else {
        launchers(arguments.clouds.iter().map(String::as_str), session)?
    };
    let looking = || "asking the clouds for every machine".to_owned();
    let (mut strays, alive) = meanwhile(&session.printer, looking, || {
        Ok::<_, Diagnostic>((list_groups(&clouds, None)?, alive(&clouds, None)?))
    })?;
    let journal = journal(session)?;
    let kept_alive = strays.iter().map(|group| is_kept_alive(&journal, &group.run)).collect::<Result<Vec<_>, _>>()?;
    let mut kept_alive = kept_alive.into_iter();
    strays
        .retain(|group| !kept_alive.next().expect("every group was looked up") || group.expires_at < Timestamp::now());
    let mut unknown = strangers(&journal, alive)?;
    if !arguments.everyone {
        let found = unknown.len();
        unknown = of_this_person(&clouds, unknown)?;
        if unknown.len() < found {
            session.printer.note(&format!(
                "{} machines of other people are left out; --everyone shows them",
                found - unknown.len()
            ));
        }
        strays = groups_of_this_person(&clouds, strays)?;
    }
    let mut ended = Vec::new();
    if arguments.yes {
        let ending = || "ending machines, and looking that they are gone".to_owned();
        let left = meanwhile(&session.printer, ending, || {
            // Before their machines: else the next ones are started at once.
            dissolved(&clouds, &strays, "gpuplan gc -y")?;
            end_all(&clouds, &unknown, None, &session.printer)
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
    if session.output == OutputFormat::Json {
        let found = [grouped.clone(), named(&unknown)].concat();
        let ended = if arguments.yes { [grouped, named(&ended)].concat() } else { Vec::new() };
        return session.printer.data(&format!("{:#}\n", json!({ "found": found, "ended": ended })));
    }
    for group in &strays {
        let what = if arguments.yes { "ended" } else { "found" };
        session.printer.data(&format!("{what}: {} of run {} ({})\n", group.id, group.run, place(group)))?;
    }
    for machine in &unknown {
        let what = if arguments.yes { "ended" } else { "found" };
        session.printer.data(&format!("{what}: {} of run {} ({})\n", machine.id, machine.run, machine.pool))?;
    }
    let asked: Vec<&str> = clouds.iter().map(|launcher| launcher.cloud()).collect();
    if unknown.is_empty() && strays.is_empty() {
        session
            .printer
            .note(&format!("{}: every machine that carries our tag belongs to a run of the journal", asked.join(", ")));
    } else if !arguments.yes {
        session.printer.note("hint: gpuplan gc -y ends them");
    }
    Ok(Exit::Done)
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
    kept.map_or(Ok(false), |kept| groups::is_kept(&kept, journal))
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
