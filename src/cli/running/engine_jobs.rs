//! `status`, `logs`, `stop` and `down` of runs that were handed to an engine.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::runs::journal::{journal, journal_said, kept, unknown_run};
use crate::runs::store::{open, store_of};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::meanwhile;
use crate::session::runtime::runtime;
use gpuplan_launch::journal::handed::KeptJob;
use gpuplan_launch::{Engine, EngineError, JobId, JobState, JobStatus, Journal};
use gpuplan_report::format::rate;
use gpuplan_units::Usd;

/// Between two looks for more output.
pub const FOLLOW: Duration = Duration::from_secs(2);

/// Looks at a job that was told to end, and the pause between them: it has its grace to save.
const LOOKS: u32 = 300;

const PAUSE: Duration = Duration::from_secs(1);

pub fn is_handed(run: &str, session: &Session) -> Result<bool, Diagnostic> {
    Ok(journal(session)?.handed(run).map_err(|error| journal_said(&error))?.is_some())
}

fn found(run: &str, journal: &Journal) -> Result<KeptJob, Diagnostic> {
    journal.handed(run).map_err(|error| journal_said(&error))?.ok_or_else(|| unknown_run(run))
}

fn engine_of(kept: &KeptJob) -> Result<Box<dyn Engine>, Diagnostic> {
    let name = &kept.work.engine;
    gpuplan_clouds::engine(name)
        .ok_or_else(|| Diagnostic::new(Exit::Usage, format!("this program knows no engine `{name}`")))
}

/// The engine's name of the job; of a submission without an answer it is looked for. `None`: the engine never got it.
fn job_of(kept: &KeptJob, engine: &dyn Engine, journal: &mut Journal) -> Result<Option<JobId>, Diagnostic> {
    if let Some(job) = &kept.job {
        return Ok(Some(job.clone()));
    }
    let (work, runtime) = (&kept.work, runtime()?);
    let found = runtime.block_on(engine.find(work)).map_err(|error| of_engine(&error, &work.run))?;
    if let Some(job) = &found {
        journal.handed_as(&work.run, job).map_err(|error| journal_said(&error))?;
    }
    Ok(found)
}

/// Rows of `status`, as contract 6 words them. One run, or all.
pub fn rows(run: Option<&str>, session: &Session) -> Result<Vec<Value>, Diagnostic> {
    let mut journal = journal(session)?;
    let mut all = journal.all_handed().map_err(|error| journal_said(&error))?;
    all.retain(|kept| run.is_none_or(|run| kept.work.run == run));
    let mut rows = Vec::new();
    for kept in all {
        let asking = || format!("asking {} about {}", kept.work.engine, kept.work.run);
        let status = match kept.end {
            Some(_) => None,
            None => meanwhile(&session.printer, asking, || asked(&kept, &mut journal)).unwrap_or_else(|diagnostic| {
                session
                    .printer
                    .warning(&format!("{}: {}; it is shown as the journal has it", kept.work.run, diagnostic.message));
                None
            }),
        };
        let kept = journal.handed(&kept.work.run).map_err(|error| journal_said(&error))?.unwrap_or(kept);
        rows.push(row(&kept, status.as_ref()));
    }
    Ok(rows)
}

/// What the engine says now; an end is kept.
fn asked(kept: &KeptJob, journal: &mut Journal) -> Result<Option<JobStatus>, Diagnostic> {
    let engine = engine_of(kept)?;
    let Some(job) = job_of(kept, &*engine, journal)? else { return Ok(None) };
    let status =
        runtime()?.block_on(engine.status(&kept.work, &job)).map_err(|error| of_engine(&error, &kept.work.run))?;
    if status.state.is_over() && status.state != JobState::Gone {
        journal
            .end_handed(&kept.work.run, word(status.state), status.relaunches, Timestamp::now())
            .map_err(|error| journal_said(&error))?;
    }
    Ok(Some(status))
}

/// The contract's word.
fn word(state: JobState) -> &'static str {
    match state {
        JobState::Waiting => "launching",
        JobState::Running => "running",
        JobState::Interrupted => "interrupted",
        JobState::Completed => "completed",
        // A job that is nowhere any more did not say that it completed.
        JobState::Failed | JobState::Gone => "failed",
        JobState::Stopped => "stopped",
    }
}

fn row(kept: &KeptJob, status: Option<&JobStatus>) -> Value {
    let work = &kept.work;
    let state = kept.end.as_deref().or(status.map(|status| word(status.state))).unwrap_or("launching");
    let is_over = kept.end.is_some() || status.is_some_and(|status| status.state.is_over());
    let machine = if is_over {
        "gone"
    } else if state == "running" {
        "running"
    } else {
        "starting"
    };
    let words = status.map_or("", |status| status.words.as_str());
    let place = format!("{} {words}", work.engine);
    let machines: Vec<Value> =
        kept.job.iter().map(|job| json!({ "id": job.0, "state": machine, "pool": place.trim_end() })).collect();
    // Without a rate nobody knows what it costs, which is not nothing.
    let cost: Option<Usd> = work
        .rate
        .zip(status.and_then(|status| status.machine_seconds))
        .and_then(|(rate, seconds)| rate.for_hours(1, seconds / 3600.0));
    json!({
        "run": work.run,
        "state": state,
        "machines": machines,
        "relaunches": status.and_then(|status| status.relaunches).or(kept.relaunches),
        "cost_usd": cost,
        "expected_cost_usd": work.expected_cost,
        "progress": (state == "completed").then_some(1.0),
        "started_at": work.handed_at,
        "ended_at": kept.ended_at,
        "store": work.store,
        "engine": work.engine,
        "job": kept.job.as_ref().map(|job| &job.0),
    })
}

pub fn logs(run: &str, node: u32, follow: bool, session: &Session) -> Result<Exit, Diagnostic> {
    let mut journal = journal(session)?;
    let (mut said, runtime) = (0, runtime()?);
    loop {
        let kept = found(run, &journal)?;
        let engine = engine_of(&kept)?;
        let Some(job) = job_of(&kept, &*engine, &mut journal)? else { return Err(never_got_it(&kept)) };
        // Whether it had ended is asked first: what it said last is read after.
        let is_over = kept.end.is_some() || asked(&kept, &mut journal)?.is_none_or(|status| status.state.is_over());
        let output =
            runtime.block_on(engine.logs(&kept.work, &job, node)).map_err(|error| of_engine(&error, &kept.work.run))?;
        // A life that began anew may have said less than the last one.
        said = if output.len() < said { 0 } else { said };
        session.printer.data(&String::from_utf8_lossy(output.get(said..).unwrap_or_default()))?;
        said = output.len();
        if is_over || !follow {
            return Ok(Exit::Done);
        }
        std::thread::sleep(FOLLOW);
    }
}

fn never_got_it(kept: &KeptJob) -> Diagnostic {
    let run = &kept.work.run;
    Diagnostic::new(Exit::Usage, format!("{} has no job of {run}: its submission never arrived", kept.work.engine))
        .hint(format!("gpuplan stop {run}"))
}

pub fn stop(run: &str, session: &Session) -> Result<Exit, Diagnostic> {
    let end = stopped(run, session)?;
    session.printer.data(&format!("{run}: {end}\n"))
}

/// Ends the job, looks until it has ended, and says how.
fn stopped(run: &str, session: &Session) -> Result<String, Diagnostic> {
    let mut journal = journal(session)?;
    let kept = found(run, &journal)?;
    if let Some(end) = kept.end {
        return Ok(format!("had ended already ({end})"));
    }
    let engine = engine_of(&kept)?;
    let Some(job) = job_of(&kept, &*engine, &mut journal)? else {
        journal.end_handed(run, "stopped", None, Timestamp::now()).map_err(|error| journal_said(&error))?;
        return Ok("no job of it ever arrived, none is left".to_owned());
    };
    let (work, runtime) = (&kept.work, runtime()?);
    let ending = || format!("ending job {} of {}, which has its grace to save", job.0, work.engine);
    let last = meanwhile(&session.printer, ending, || {
        let unclear = |error| of_engine(&error, run);
        let mut status = runtime.block_on(engine.status(work, &job)).map_err(unclear)?;
        if !status.state.is_over() {
            runtime.block_on(engine.stop(work, &job)).map_err(unclear)?;
        }
        for _ in 0..LOOKS {
            status = runtime.block_on(engine.status(work, &job)).map_err(unclear)?;
            if status.state.is_over() {
                return Ok(status);
            }
            runtime.block_on(async { tokio::time::sleep(PAUSE).await });
        }
        let why = format!("job {} of {} has not ended yet ({})", job.0, work.engine, status.words);
        Err(Diagnostic::new(Exit::MayStillCost, why).hint(format!("gpuplan stop {run}")))
    })?;
    // The engine forgets a job that was deleted: this is how it ended.
    let end = if last.state == JobState::Gone { "stopped" } else { word(last.state) };
    journal.end_handed(run, end, last.relaunches, Timestamp::now()).map_err(|error| journal_said(&error))?;
    Ok(format!("job {} of {} is {end}, nothing is left", job.0, work.engine))
}

/// Ends a run and deletes what it stored.
pub fn down(run: &str, yes: bool, session: &Session) -> Result<Exit, Diagnostic> {
    let work = found(run, &journal(session)?)?.work;
    session.printer.note(&format!("checkpoints and output of {run} in {} are deleted for good", work.store));
    session.printer.confirm(yes, "gpuplan down -y ...")?;
    let end = stopped(run, session)?;
    let (runtime, store) = (runtime()?, open(&work.store, run)?);
    let deleting = || format!("deleting what {run} stored");
    let deleted = meanwhile(&session.printer, deleting, || runtime.block_on(store.delete_all()))
        .map_err(|error| store_of(&error))?;
    journal(session)?.forget_handed(run).map_err(|error| journal_said(&error))?;
    session.printer.data(&format!("{run}: {end}, {deleted} objects deleted\n"))
}

/// What an engine said, for a person.
pub fn of_engine(error: &EngineError, run: &str) -> Diagnostic {
    match error {
        EngineError::Missing { install, .. } => Diagnostic::new(Exit::Usage, format!("{error}; install {install}")),
        EngineError::Refused { .. } => Diagnostic::new(Exit::CloudRefused, error.to_string()),
        EngineError::Unclear { .. } => {
            Diagnostic::new(Exit::MayStillCost, format!("{error}; the job may be there all the same"))
                .hint(format!("gpuplan status {run}"))
        }
    }
}
