//! Ending machines and groups, and looking until none is left.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jiff::Timestamp;

use crate::runs::groups;
use crate::runs::journal::open_journal;
use crate::runs::launchers::{Launchers, clock, forget, launchers_of_run, list_machines};
use crate::runs::leader::this_leader;
use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::printer::Printer;
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_clouds::fake;
use gpuplan_launch::execute::leadership::{may_follow, take};
use gpuplan_launch::journal::{LogLines, RunRecord};
use gpuplan_launch::{Clock, End, Group, Journal, LaunchError, Machine, MachineState, Pool, rented};
use gpuplan_runstore::Leading;

/// How often terminated machines are listed, and the pause between: a cloud takes a minute or two.
const LOOKS: u32 = 60;

const PAUSE: Duration = Duration::from_secs(3);
/// A clock is hardly wrong by more than a day. Judgement. Seconds.
const MOST_WRONG: f64 = 25.0 * 3600.0;

/// Ends every machine of a run, and the group that would start another, checks that they are gone, and returns how many there were. What
/// was ordered and not answered may still appear: machines are listed, and asked for by the token of the order, until it has settled.
pub fn terminate_run(kept: &RunRecord, end: &End, session: &Session) -> Result<usize, Diagnostic> {
    let (run, mut journal) = (kept.spec.run.as_str(), open_journal(session)?);
    if kept.end.is_none() {
        // Whoever leads the run sees this and starts nothing any more.
        journal.end(run, end, Timestamp::now())?;
    }
    let clouds = launchers_of_run(&kept.spec, session)?;
    let told = leadership_ends(kept, &mut journal, session);
    let (clock, mut ended) = (clock(&kept.spec), BTreeSet::new());
    let waiting = || format!("terminating the machines of {run}, and checking that they are gone");
    let (left, unheard) = with_progress(&session.printer, waiting, || {
        if kept.spec.is_kept {
            dissolve_groups(&clouds, &list_groups(&clouds, Some(run))?, &format!("gpuplan stop {run}"))?;
        }
        // From now on nothing is ordered, so what is open is known.
        let open = journal.open_orders(run)?;
        let mut unheard: BTreeSet<String> = open.iter().map(|(_, token)| token.clone()).collect();
        let until = journal.run(run)?.and_then(|kept| settles(&kept, clock));
        loop {
            let mut alive = list_alive(&clouds, Some(run))?;
            alive.extend(of_open_orders(&clouds, &open, &alive)?);
            ended.extend(alive.iter().map(|machine| machine.id.clone()));
            unheard.retain(|token| !alive.iter().any(|machine| machine.token == *token));
            let left = terminate_all(&clouds, &alive, Some(run), &session.printer)?;
            if !left.is_empty() || until.is_none_or(|until| Instant::now() >= until) {
                return Ok::<_, Diagnostic>((left, unheard));
            }
            runtime()?.block_on(async { tokio::time::sleep(PAUSE.min(remaining(until))).await });
        }
    })?;
    let mut rentals = journal.run(run)?.map(|kept| kept.past.rentals).unwrap_or_default();
    let now = clock.now();
    let is_left = |id: &_| left.iter().any(|machine| machine.id == *id);
    let gone: Vec<_> = rentals.open().map(|rental| rental.machine.clone()).filter(|id| !is_left(id)).collect();
    for machine in &gone {
        rentals.end(machine, now);
    }
    // One that waited for the next run, which would have been paid for longer.
    for rental in rentals.0.iter_mut().filter(|rental| ended.contains(&rental.machine) && !is_left(&rental.machine)) {
        rental.until = rental.until.map(|until| until.min(now));
    }
    let said = LogLines { at: Timestamp::now(), lines: Vec::new() };
    journal.keep(run, &rentals, kept.past.done, kept.past.interruptions, &said)?;
    // What came of the others stays open in the balance of the run.
    for token in unheard.iter().filter(|_| left.is_empty()) {
        journal.answer(token, "nothing came of it", true)?;
    }
    store_rented(run, &journal, &session.printer)?;
    if !left.is_empty() {
        return Err(still_running(&left, &format!("gpuplan stop {run}")));
    }
    forget(&kept.spec, &clouds, &session.printer)?;
    match told {
        Ok(()) => Ok(ended.len()),
        // Whether anybody leads it elsewhere is unknown, and whoever does takes this for an interruption.
        Err(error) => {
            let why = format!(
                "the machines of {run} are ended, and whoever leads it elsewhere may rent others: {}",
                error.message
            );
            Err(Diagnostic::new(Exit::MayStillCost, why).hint(format!("gpuplan stop {run}")))
        }
    }
}

/// When nothing can appear any more of what the run ordered without an answer; `None`: every order has one.
fn settles(kept: &RunRecord, clock: Clock) -> Option<Instant> {
    let passed = clock.now() - kept.past.open_since?;
    Some(Instant::now() + Duration::from_secs_f64(unsettled(passed, kept.spec.settles_seconds) / clock.speed))
}

/// For how long a call that was sent so long ago may still create a machine that no list shows. It was sent by the clock of the run's store, and this
/// computer's may be ahead of that: what seems to have been sent hours ago may have been sent just now. Seconds of the run.
fn unsettled(passed: f64, settles: f64) -> f64 {
    if (0.0..=settles).contains(&passed) {
        settles - passed
    } else if passed <= MOST_WRONG {
        settles
    } else {
        0.0
    }
}

fn remaining(until: Option<Instant>) -> Duration {
    until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
}

/// Machines that a cloud knows by the token of their order, whatever its list shows yet.
fn of_open_orders(clouds: &Launchers, open: &[(Pool, String)], listed: &[Machine]) -> Result<Vec<Machine>, Diagnostic> {
    let mut found = Vec::new();
    for (pool, token) in open.iter().filter(|(_, token)| !listed.iter().any(|machine| machine.token == *token)) {
        for cloud in clouds {
            let answer = runtime()?.block_on(cloud.find(pool, token));
            found.extend(answer.map_err(|error| no_answer(cloud.cloud(), &error))?);
        }
    }
    found.retain(|machine| machine.state != MachineState::Gone);
    Ok(found)
}

/// Machines as they are once every order of every run that is open now has settled.
pub fn list_until_settled(
    clouds: &Launchers,
    alive: Vec<Machine>,
    journal: &Journal,
    session: &Session,
) -> Result<Vec<Machine>, Diagnostic> {
    let mut until = None;
    for run in journal.runs()? {
        if let Some(kept) = journal.run(&run)? {
            until = until.max(settles(&kept, clock(&kept.spec)));
        }
    }
    if remaining(until).is_zero() {
        return Ok(alive);
    }
    let waiting = || "listing machines until every call without an answer has settled".to_owned();
    with_progress(&session.printer, waiting, || {
        runtime()?.block_on(async { tokio::time::sleep(remaining(until)).await });
        list_alive(clouds, None)
    })
}

/// Nobody leads the run any more, here or elsewhere.
fn leadership_ends(kept: &RunRecord, journal: &mut Journal, session: &Session) -> Result<(), Diagnostic> {
    depose_elsewhere(kept, journal, session);
    let (store, runtime, identity) = (store_of_run(&kept.spec)?, runtime()?, journal.identity()?);
    match runtime.block_on(store.leading())? {
        // It was not to be deposed a moment ago.
        Some(leading) if !may_follow(&leading, &identity) => Err(Diagnostic::unexpected("it leads still")),
        Some(Leading { number, lead: Some(lead), is_over: false }) => {
            runtime.block_on(store.end_lead(number, &lead)).map_err(Diagnostic::from)
        }
        _ => Ok(()),
    }
}

/// Whoever leads the run with another journal leads it no more. Before its machines are told to save: whoever leads takes their end for an
/// interruption, and rents others.
pub fn depose_elsewhere(kept: &RunRecord, journal: &mut Journal, session: &Session) {
    let mut deposing = || {
        let (store, runtime, identity) = (store_of_run(&kept.spec)?, runtime()?, journal.identity()?);
        let leading = runtime.block_on(store.leading())?;
        if leading.is_some_and(|leading| !may_follow(&leading, &identity)) {
            let leadership = runtime.block_on(take(&store, &identity, &this_leader(), true));
            let leadership = leadership.map_err(Diagnostic::unexpected)?;
            // What was ordered elsewhere and boots only now ends itself.
            runtime.block_on(leadership.keeps(&store, None))?;
            runtime.block_on(leadership.leaves(&store))?;
        }
        Ok::<_, Diagnostic>(())
    };
    if let Err(error) = deposing() {
        not_told(kept, &error, session);
    }
}

fn not_told(kept: &RunRecord, error: &Diagnostic, session: &Session) {
    let run = &kept.spec.run;
    session.printer.warning(&format!("{run}: whoever leads it elsewhere could not be told: {}", error.message));
}

/// What the machines cost, into the run's store, where everybody who adds up money finds it.
fn store_rented(run: &str, journal: &Journal, printer: &Printer) -> Result<(), Diagnostic> {
    let Some(kept) = journal.run(run)? else { return Ok(()) };
    let all = rented::all(&kept, &clock(&kept.spec));
    let stored = store_of_run(&kept.spec)
        .and_then(|store| runtime()?.block_on(store.write_rented(all)).map_err(Diagnostic::from));
    if let Err(error) = stored {
        printer.warning(&format!("what the machines of {run} cost is not in its store: {}", error.message));
    }
    Ok(())
}

/// Machines that may cost money. A cloud that does not answer is an error: silence is not emptiness.
pub fn list_alive(clouds: &Launchers, run: Option<&str>) -> Result<Vec<Machine>, Diagnostic> {
    let mut machines = Vec::new();
    for (cloud, answer) in list_machines(clouds, run)? {
        machines.extend(answer.map_err(|error| no_answer(&cloud, &error))?);
    }
    machines.retain(|machine| machine.state != MachineState::Gone);
    Ok(machines)
}

pub fn no_answer(cloud: &str, error: &LaunchError) -> Diagnostic {
    Diagnostic::new(
        Exit::MayStillCost,
        format!("{cloud} does not report which machines run, so some may still cost money: {error}"),
    )
    .hint("gpuplan doctor")
}

pub fn list_groups(clouds: &Launchers, run: Option<&str>) -> Result<Vec<Group>, Diagnostic> {
    runtime()?.block_on(groups::all(clouds, run)).map_err(|error| no_answer("the cloud", &error))
}

pub fn dissolve_groups(clouds: &Launchers, groups: &[Group], hint: &str) -> Result<(), Diagnostic> {
    runtime()?.block_on(groups::dissolve(clouds, groups)).map_err(|error| {
        let ids: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
        let why = format!("these groups may still start machines: {}: {error}", ids.join(", "));
        Diagnostic::new(Exit::MayStillCost, why).hint(hint)
    })
}

/// A machine of the stand-in carries the pool that it stands in for.
pub fn rents_at(cloud: &str, machine: &Machine) -> bool {
    if fake::is_own(&machine.id) { cloud == fake::CLOUD } else { cloud == machine.pool.cloud }
}

/// Ends them and waits until they are gone; returns those that are still there.
pub fn terminate_all(
    clouds: &Launchers,
    machines: &[Machine],
    run: Option<&str>,
    printer: &Printer,
) -> Result<Vec<Machine>, Diagnostic> {
    let runtime = runtime()?;
    let mut left = machines.to_vec();
    for look in 0..LOOKS {
        let each = left.iter().flat_map(|machine| clouds.iter().map(move |cloud| (cloud, machine)));
        let requests = each
            .filter(|(cloud, machine)| rents_at(cloud.cloud(), machine))
            .map(|(cloud, machine)| cloud.destroy(&machine.id));
        let refused = runtime.block_on(join_all(requests)).into_iter().find_map(Result::err);
        let after = list_alive(clouds, run)?;
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

pub fn still_running(left: &[Machine], hint: &str) -> Diagnostic {
    let ids: Vec<&str> = left.iter().map(|machine| machine.id.0.as_str()).collect();
    Diagnostic::new(Exit::MayStillCost, format!("these machines may still cost money: {}", ids.join(", "))).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_makes_nobody_say_too_early_that_none_is_left() {
        assert_eq!([0.0, 50.0, 120.0].map(|passed| unsettled(passed, 120.0)), [120.0, 70.0, 0.0]);
        // By three minutes, an hour and a day; and behind.
        assert_eq!([180.0, 3600.0, 86_400.0, -500.0].map(|passed| unsettled(passed, 120.0)), [120.0; 4]);
        assert_eq!(unsettled(3.0 * 86_400.0, 120.0), 0.0, "nobody waits for what was sent days ago");
    }
}
