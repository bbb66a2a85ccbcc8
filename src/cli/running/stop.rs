//! `stop`, `down` and `gc`: how machines are ended, and how none is left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};

use crate::arguments::global::OutputFormat;
use crate::finance::entries;
use crate::running::agent::arguments::duration;
use crate::running::engine_jobs;
use crate::running::idle;
use crate::running::launch::elsewhere::leader_elsewhere;
use crate::running::launch::{leading_machine, warm};
use crate::running::notice;
use crate::running::overdue::{Overdue, is_past, overdue, say_unknown};
use crate::running::terminate::{
    dissolve_groups, list_alive, list_groups, list_until_settled, no_answer, rents_at, still_running, terminate_all,
    terminate_run,
};
use crate::runs::agent_reports::runs_of_sweep;
use crate::runs::groups;
use crate::runs::journal::{find_run, open_journal};
use crate::runs::launchers::{Launchers, launchers, launchers_of_run};
use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_launch::journal::RunRecord;
use gpuplan_launch::{End, Group, Journal, Machine};
use gpuplan_report::runs::{StrayLine, StrayList};

#[derive(Debug, Args)]
pub struct StopArguments {
    /// Name the run
    pub run: String,
    /// End the machines at once, without time for the program to save
    #[arg(long)]
    pub at_once: bool,
    /// Wait until the run has done nothing for so long: no step, no checkpoint, no work of its GPUs and processes
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub idle: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct DownArguments {
    /// Name the run
    pub run: String,
    /// Skip the confirmation
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct GcArguments {
    /// Look only at this cloud; `fake` is the one on this machine [default: every cloud with credentials]
    #[arg(long = "cloud", value_name = "CLOUD")]
    pub clouds: Vec<String>,
    /// Terminate what is found without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Include machines that others rented with the same account
    #[arg(long)]
    pub everyone: bool,
    /// With --yes, terminate machines of runs that this computer knows nothing of, too: another of yours may lead them
    #[arg(long, requires = "yes")]
    pub unknown_runs: bool,
}

/// From the end of a run in the journal until nothing that was ordered for it can begin any more: a call of a minute, a list of another, and clocks
/// that differ. Judgement.
const LATE: SignedDuration = SignedDuration::from_mins(5);

pub fn stop(arguments: &StopArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if engine_jobs::is_submitted(&arguments.run, session)? {
        if arguments.idle.is_some() {
            let why = "how busy a job of an engine is stands in no store that gpuplan reads";
            return Err(Diagnostic::usage(why).hint(format!("gpuplan stop {}", arguments.run)));
        }
        return engine_jobs::stop(&arguments.run, session);
    }
    let mut kept = find_run(&arguments.run, session)?;
    if let Some(idle) = arguments.idle {
        idle::wait(&arguments.run, idle, session)?;
        kept = find_run(&arguments.run, session)?;
        if let Some(end) = &kept.end {
            return session.printer.data(&format!("{}: {end}\n", arguments.run));
        }
    }
    let mut saved = 0;
    if !arguments.at_once {
        // Those that save end themselves.
        let clouds = launchers_of_run(&kept.spec, session)?;
        saved = list_alive(&clouds, Some(&arguments.run)).map_or(0, |alive| alive.len());
        notice::give(&kept, session)?;
    }
    let ended = terminate_run(&kept, &End::Stopped, session)?.max(saved) + stop_leader(&kept, session)?;
    session.printer.data(&format!("{}: {ended} machines ended, none is left\n", arguments.run))
}

/// Ends the machine that led the run, if it has one of its own: it would notice within seconds that there is nothing to lead.
fn stop_leader(kept: &RunRecord, session: &Session) -> Result<usize, Diagnostic> {
    match leading_run(kept, session)? {
        Some(leader) if leader.end.is_none() => terminate_run(&leader, &End::Stopped, session),
        _ => Ok(0),
    }
}

/// The run whose command leads this one.
fn leading_run(kept: &RunRecord, session: &Session) -> Result<Option<RunRecord>, Diagnostic> {
    let run = &kept.spec.run;
    let found = open_journal(session)?.run(&leading_machine::name(run))?;
    Ok(found.filter(|found| found.spec.leads.as_ref() == Some(run)))
}

/// Ends a run and deletes what it stored.
pub fn down(arguments: &DownArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if engine_jobs::is_submitted(&arguments.run, session)? {
        return engine_jobs::down(&arguments.run, arguments.yes, session);
    }
    let kept = find_run(&arguments.run, session)?;
    warm::refuse_while_lent(&kept, session)?;
    session.printer.note(&format!(
        "checkpoints and output of {} in {} will be deleted permanently",
        arguments.run, kept.spec.store
    ));
    session.printer.confirm(arguments.yes, "gpuplan delete -y ...")?;
    let leader = leading_run(&kept, session)?;
    let (mut ended, mut deleted) = (0, 0);
    // Who leads it goes last: without it nothing would be led that is left.
    for kept in [kept].into_iter().chain(leader) {
        ended += terminate_run(&kept, &End::Stopped, session)?;
        deleted += delete_stored(&kept, session)?;
        open_journal(session)?.forget(&kept.spec.run)?;
    }
    session.printer.data(&format!("{}: {ended} machines ended, {deleted} objects deleted\n", arguments.run))
}

/// Everything that the run has in its store, and returns how many objects there were.
fn delete_stored(kept: &RunRecord, session: &Session) -> Result<usize, Diagnostic> {
    let (runtime, store) = (runtime()?, store_of_run(&kept.spec)?);
    // What was spent stays spent.
    entries::enter_before_deletion(&store, session)?;
    let deleting = || format!("deleting what {} stored", kept.spec.run);
    with_progress(&session.printer, deleting, || {
        let mut deleted = 0;
        // Runs of a sweep are runs of their own in the store; its own objects go last, so that they are found again.
        for run in runs_of_sweep(kept)?.iter().chain([&store]) {
            deleted += runtime.block_on(run.delete_all())?;
        }
        Ok(deleted)
    })
}

pub fn gc(arguments: &GcArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let clouds = if arguments.clouds.is_empty() {
        launchers(gpuplan_clouds::with_account(), session)?
    } else {
        launchers(arguments.clouds.iter().map(String::as_str), session)?
    };
    let looking = || "listing the machines of every cloud".to_owned();
    let (mut strays, alive) = with_progress(&session.printer, looking, || {
        Ok::<_, Diagnostic>((list_groups(&clouds, None)?, list_alive(&clouds, None)?))
    })?;
    let mut journal = open_journal(session)?;
    let alive = list_until_settled(&clouds, alive, &journal, session)?;
    let kept_alive = strays.iter().map(|group| is_kept_alive(&journal, &group.run)).collect::<Result<Vec<_>, _>>()?;
    let mut kept_alive = kept_alive.into_iter();
    strays.retain(|group| !kept_alive.next().expect("every group was looked up") || is_past(&clouds, group));
    let mut unknown = unknown_machines(&mut journal, &clouds, alive, session)?;
    if !arguments.everyone {
        let found = unknown.len();
        unknown = own_machines(&clouds, unknown)?;
        if unknown.len() < found {
            session.printer.note(&format!(
                "{} machines of other people are left out; --everyone shows them",
                found - unknown.len()
            ));
        }
        strays = own_groups(&clouds, strays)?;
    }
    let (strays, strays_left) =
        not_elsewhere(strays, &journal, arguments, |group| (group.run.as_str(), is_past(&clouds, group), None))?;
    let (unknown, left) = not_elsewhere(unknown, &journal, arguments, |machine| {
        (machine.run.as_str(), overdue(&clouds, machine) == Overdue::Yes, Some(machine.created_at))
    })?;
    if arguments.yes {
        let ending = || "terminating machines, and checking that they are gone".to_owned();
        let left = with_progress(&session.printer, ending, || {
            // Before their machines: else the next ones are started at once.
            dissolve_groups(&clouds, &strays, "gpuplan gc -y")?;
            terminate_all(&clouds, &unknown, None, &session.printer)
        })?;
        if !left.is_empty() {
            return Err(still_running(&left, "gpuplan gc -y"));
        }
    }
    let lines = lines_of(&strays, &unknown);
    let elsewhere = lines_of(&strays_left, &left);
    let list = StrayList::new(lines, elsewhere.clone(), arguments.yes);
    if session.output == OutputFormat::Json {
        return session.printer.data(&list.json());
    }
    session.printer.data(&list.text())?;
    let names: Vec<&str> = clouds.iter().map(|launcher| launcher.cloud()).collect();
    if !elsewhere.is_empty() {
        say_unknown_runs(&elsewhere, arguments.yes, session);
    }
    if unknown.is_empty() && strays.is_empty() && elsewhere.is_empty() {
        session.printer.note(&format!("{}: every machine with gpuplan's tag belongs to a known run", names.join(", ")));
    } else if !(arguments.yes || unknown.is_empty() && strays.is_empty()) {
        session.printer.note("hint: gpuplan gc -y terminates them");
    }
    Ok(Exit::Done)
}

/// Groups, and machines, that were found.
fn lines_of(groups: &[Group], machines: &[Machine]) -> Vec<StrayLine> {
    let groups = groups.iter().map(|group| StrayLine {
        id: group.id.clone(),
        run: group.run.clone(),
        pool: format!("{}/{}, starts machines", group.cloud, group.region),
    });
    let machines = machines.iter().map(|machine| StrayLine {
        id: machine.id.0.clone(),
        run: machine.run.clone(),
        pool: machine.pool.to_string(),
    });
    groups.chain(machines).collect()
}

/// What may be ended, and what may be at work for a run of another computer of the same user, which has a journal of its own. `of`: the run, whether
/// it is past its time, and when it began. A run that ended here before it began is not the one that it belongs to.
fn not_elsewhere<T>(
    found: Vec<T>,
    journal: &Journal,
    arguments: &GcArguments,
    of: impl Fn(&T) -> (&str, bool, Option<Timestamp>),
) -> Result<(Vec<T>, Vec<T>), Diagnostic> {
    let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
    for one in found {
        let (run, is_past, began_at) = of(&one);
        let kept = journal.run(run)?;
        let is_later = |kept: &RunRecord| kept.ended_at.is_some_and(|end| began_at.is_some_and(|at| at > end + LATE));
        let is_known = kept.is_some_and(|kept| !is_later(&kept));
        if is_known || is_past || arguments.unknown_runs { here.push(one) } else { elsewhere.push(one) }
    }
    Ok((here, elsewhere))
}

fn say_unknown_runs(found: &[StrayLine], is_asked: bool, session: &Session) {
    let runs: BTreeSet<&str> = found.iter().map(|line| line.run.as_str()).collect();
    let runs = runs.into_iter().collect::<Vec<_>>().join(", ");
    let left = if is_asked { ", and what it has is left" } else { "" };
    session.printer.note(&format!(
        "warning: nothing on this computer knows {runs}{left}: another computer of yours may lead it; `gpuplan take-over RUN --store URI` does \
         so from here, `gpuplan gc -y --unknown-runs` terminates all of it"
    ));
}

/// A colleague's journal may know what this one does not.
fn own_machines(clouds: &Launchers, machines: Vec<Machine>) -> Result<Vec<Machine>, Diagnostic> {
    let mut own = Vec::new();
    for cloud in clouds {
        let mut here = machines.iter().filter(|machine| rents_at(cloud.cloud(), machine)).peekable();
        if here.peek().is_some() {
            let me = runtime()?.block_on(cloud.owner()).map_err(|error| no_answer(cloud.cloud(), &error))?;
            own.extend(here.filter(|machine| machine.owner == me).cloned());
        }
    }
    Ok(own)
}

/// Machines that no run of the journal knows as its own and running, and those that should have ended themselves.
fn unknown_machines(
    journal: &mut Journal,
    clouds: &Launchers,
    machines: Vec<Machine>,
    session: &Session,
) -> Result<Vec<Machine>, Diagnostic> {
    let (mut unknown, mut led_elsewhere) = (Vec::new(), BTreeMap::new());
    for machine in machines {
        let mut is_known = journal.knows(&machine.id)?
            || is_kept_alive(journal, &machine.run)?
            || warm::waits_for_any(journal, &machine.id)?;
        if !is_known {
            is_known = match led_elsewhere.get(&machine.run) {
                Some(is_led) => *is_led,
                None => is_led_elsewhere(journal, &machine.run, session)?,
            };
            led_elsewhere.insert(machine.run.clone(), is_known);
        }
        match overdue(clouds, &machine) {
            _ if !is_known => unknown.push(machine),
            Overdue::Yes => unknown.push(machine),
            Overdue::Unknown => say_unknown(&machine, &session.printer),
            Overdue::No => {}
        }
    }
    Ok(unknown)
}

/// A machine that a group has just started is not in the journal yet.
fn is_kept_alive(journal: &Journal, run: &str) -> Result<bool, Diagnostic> {
    let kept = journal.run(run)?;
    kept.map_or(Ok(false), |kept| groups::is_kept(&kept, journal))
}

/// What another leader of the run has just rented is not in the journal yet.
fn is_led_elsewhere(journal: &mut Journal, run: &str, session: &Session) -> Result<bool, Diagnostic> {
    let Some(kept) = journal.run(run)? else { return Ok(false) };
    Ok(leader_elsewhere(&kept, journal, session)?.is_some_and(|leading| !leading.is_over))
}

fn own_groups(clouds: &Launchers, groups: Vec<Group>) -> Result<Vec<Group>, Diagnostic> {
    let mut own = Vec::new();
    for cloud in clouds {
        let mut here = groups.iter().filter(|group| group.cloud == cloud.cloud()).peekable();
        if here.peek().is_some() {
            let me = runtime()?.block_on(cloud.owner()).map_err(|error| no_answer(cloud.cloud(), &error))?;
            own.extend(here.filter(|group| group.owner == me).cloned());
        }
    }
    Ok(own)
}
