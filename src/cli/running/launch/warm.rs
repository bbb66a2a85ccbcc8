//! Machines that a completed run keeps warm: how long, which of them a launch takes over, and why not.

use std::time::Duration;

use jiff::Timestamp;

use crate::running::terminate::no_answer;
use crate::runs::journal::journal_if_any;
use crate::runs::launchers::{clock, launchers, launchers_of_run};
use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::runtime::runtime;
use gpuplan_clouds::fake;
use gpuplan_launch::journal::RunRecord;
use gpuplan_launch::rental::Rental;
use gpuplan_launch::spec::Offered;
use gpuplan_launch::warm::lent_to;
use gpuplan_launch::{Journal, LaunchError, Machine, MachineId, MachineState, RunSpec, WarmMachine};
use gpuplan_runstore::Run;
use gpuplan_units::Hours;

/// Of the time that is left, what is too late to take a machine over: it may be about to end. Judgement.
const TOO_LATE: f64 = 0.1;

/// How long the machine stays, in seconds of its own.
pub fn keep_seconds(keep: Option<Duration>, nodes: u32, is_fake: bool) -> Result<Option<f64>, Diagnostic> {
    if keep.is_some() && nodes > 1 {
        let why =
            format!("one machine is kept warm, and this run takes {nodes}: they were placed together for it alone");
        return Err(Diagnostic::usage(why).hint("--max-nodes 1").hint("leave out --keep-warm"));
    }
    Ok(keep.map(|keep| keep.as_secs_f64() / if is_fake { fake::SPEED } else { 1.0 }))
}

/// Whether the machine may stand there for the next run, whichever run keeps it: its tags are those of the run that rented it.
pub fn waits_for_any(journal: &Journal, machine: &MachineId) -> Result<bool, Diagnostic> {
    for run in journal.runs()? {
        if journal.run(&run)?.is_some_and(|kept| waits(&kept, machine)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether it is this run that keeps it.
pub fn waits(kept: &RunRecord, machine: &MachineId) -> bool {
    let now = clock(&kept.spec).now();
    kept.end.is_some() && rental_of(kept, machine).is_some_and(|rental| rental.until.is_some_and(|until| until > now))
}

fn rental_of<'a>(kept: &'a RunRecord, machine: &MachineId) -> Option<&'a Rental> {
    let keeps = kept.spec.keep_warm_seconds.is_some();
    kept.past.rentals.0.iter().find(|rental| keeps && rental.machine == *machine)
}

/// With a machine to take over, if one waits that fits. Why one that waits does not is said.
pub fn find(asked: RunSpec, store: &Run, session: &Session) -> Result<RunSpec, Diagnostic> {
    let Some(journal) = journal_if_any(session)? else { return Ok(asked) };
    for run in journal.runs()? {
        let Some(kept) = journal.run(&run)?.filter(|kept| kept.machines.iter().any(|one| waits(kept, &one.id))) else {
            continue;
        };
        let said = match refusal(&kept.spec, &asked) {
            Some(why) => Err(why),
            None => offered(&kept, &asked, store, session)?,
        };
        match said {
            Ok(warm) => return Ok(RunSpec { takes: Some(warm), ..asked }),
            Err(why) => session
                .printer
                .note(&format!("the machine that {run} keeps warm is not taken over: {why} (--fresh does not look)")),
        }
    }
    Ok(asked)
}

/// Why no machine of that run is one for this, whatever stands there.
fn refusal(former: &RunSpec, asked: &RunSpec) -> Option<String> {
    let differs = |what: &str| Some(what.to_owned());
    if asked.nodes != 1 || asked.is_kept || asked.block.is_some() {
        return differs("this run takes more than one machine, or one that its cloud starts");
    }
    if former.stand_in != asked.stand_in || former.store != asked.store {
        return differs(&format!("it reads and writes {}, and this run {}", former.store, asked.store));
    }
    if former.image != asked.image {
        return differs("it has another machine image");
    }
    if former.disk_gib != asked.disk_gib {
        return differs(&format!("its disk has {} GiB, and this run takes {}", former.disk_gib, asked.disk_gib));
    }
    if former.tags != asked.tags {
        return differs("it bears other tags");
    }
    if former.job.data.as_ref().is_some_and(|data| data.is_mounted) {
        return differs("a bucket is mounted there");
    }
    None
}

/// What stands there, if it can be this run's.
fn offered(
    kept: &RunRecord,
    asked: &RunSpec,
    store: &Run,
    session: &Session,
) -> Result<Result<WarmMachine, String>, Diagnostic> {
    let (former, now) = (&kept.spec, Timestamp::now());
    // As that run sees its machine, which it may have taken over itself.
    for cloud in launchers_of_run(former, session)? {
        let ask = async { Ok::<_, LaunchError>((cloud.list(Some(&former.run)).await?, cloud.owner().await?)) };
        let (listed, me) = runtime()?.block_on(ask).map_err(|error| no_answer(cloud.cloud(), &error))?;
        let stands = |machine: &Machine| machine.state == MachineState::Running && waits(kept, &machine.id);
        let Some(machine) = listed.into_iter().find(stands) else { continue };
        if machine.owner != me {
            return Ok(Err(format!("{} was rented by {}", machine.id, machine.owner)));
        }
        let from = store.beside(&former.run).map_err(Diagnostic::usage)?;
        if let Some(next) = runtime()?.block_on(from.next(&machine.token))? {
            return Ok(Err(format!("{} has it", next.run)));
        }
        // As it was ordered: a cloud names the zone where an order left that open.
        let ordered = kept.machines.iter().find(|one| one.id == machine.id).map(|one| one.pool.clone());
        let pool = ordered.unwrap_or_else(|| machine.pool.clone());
        let needs = asked.work_hours + asked.worst_changeover_hours;
        let time = clock(former);
        let left = machine.expires_at.duration_since(now).as_secs_f64() * time.speed / 3600.0;
        let place = |spec: &RunSpec| spec.places().find(|place| place.pool == pool).map(Offered::most);
        let Some(most) = place(asked) else { return Ok(Err(format!("{pool} is none of the places of this run"))) };
        if place(former).is_none_or(|before| before > most) {
            return Ok(Err("it was rented for more an hour than this run may pay".to_owned()));
        }
        if left < needs {
            let (left, needs) = (Hours(left), Hours(needs));
            return Ok(Err(format!(
                "it ends itself in {left}, and this run takes {needs}: --lifetime of the run before"
            )));
        }
        let until = rental_of(kept, &machine.id).and_then(|rental| rental.until).unwrap_or_default();
        let until = time.at(time.now() + (until - time.now()) * (1.0 - TOO_LATE));
        let Machine { token, expires_at, id, .. } = machine;
        let run = former.run.clone();
        let rented_by =
            former.takes.as_ref().filter(|taken| taken.machine == id).map(|taken| taken.tagged().to_owned());
        return Ok(Ok(WarmMachine { run, rented_by, token, machine: id, pool, until, expires_at }));
    }
    Ok(Err("it is gone, or another run has it".to_owned()))
}

/// What a yes means for it.
pub fn words(spec: &RunSpec) -> Vec<String> {
    let keeps = spec.keep_warm_seconds.map(|seconds| {
        let speed = clock(spec).speed;
        format!(
            "warm      once completed the machine stays for {} for the next launch, and is paid for; it has the setup's role",
            Hours(seconds * speed / 3600.0)
        )
    });
    let takes = spec.takes.as_ref().map(|warm| {
        format!(
            "taken     {} of {} is taken over at {}: nothing of that run is left on it, what its --setup installed is; no later than {:.0} it ends itself",
            warm.machine, warm.run, warm.pool, warm.expires_at
        )
    });
    keeps.into_iter().chain(takes).collect()
}

/// Its store says whose its machine is by now, so it cannot go before that machine has.
pub fn refuse_while_lent(kept: &RunRecord, session: &Session) -> Result<(), Diagnostic> {
    if kept.spec.keep_warm_seconds.is_none() {
        return Ok(());
    }
    let store = store_of_run(&kept.spec)?;
    for cloud in launchers(kept.spec.clouds(), session)? {
        let name = cloud.cloud().to_owned();
        let lent = runtime()?.block_on(lent_to(cloud, &kept.spec, &store));
        if let Some(next) = lent.map_err(|error| no_answer(&name, &error))? {
            let why = format!("{next} has the machine of {} by now, which its store says", kept.spec.run);
            return Err(Diagnostic::usage(why).hint(format!("gpuplan stop {next}")));
        }
    }
    Ok(())
}
