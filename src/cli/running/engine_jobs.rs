//! `status`, `logs`, `stop` and `down` of runs that were submitted to an engine.

use std::time::Duration;

use jiff::Timestamp;

use crate::runs::journal::ended_state;
use crate::runs::journal::{open_journal, unknown_run};
use crate::runs::store::open_store;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_launch::journal::handed::SubmissionRecord;
use gpuplan_launch::{Engine, EngineError, JobId, JobState, JobStatus, Journal};
use gpuplan_report::runs::{Activity, MachineLine, MachineState, RunLine, RunState, SubmissionLine};

/// Between two looks for more output.
pub const FOLLOW: Duration = Duration::from_secs(2);

/// How often a stopped job is polled, and the pause between polls: it has its grace to save.
const LOOKS: u32 = 300;

const PAUSE: Duration = Duration::from_secs(1);

pub fn is_submitted(run: &str, session: &Session) -> Result<bool, Diagnostic> {
    Ok(open_journal(session)?.handed(run)?.is_some())
}

fn found(run: &str, journal: &Journal) -> Result<SubmissionRecord, Diagnostic> {
    journal.handed(run)?.ok_or_else(|| unknown_run(run))
}

fn engine_of(kept: &SubmissionRecord) -> Result<Box<dyn Engine>, Diagnostic> {
    let name = &kept.work.engine;
    gpuplan_clouds::engine(name).ok_or_else(|| Diagnostic::usage(format!("this program knows no engine `{name}`")))
}

/// The engine's name of the job; of a submission without an answer it is looked for. `None`: the engine never got it.
fn job_of(kept: &SubmissionRecord, engine: &dyn Engine, journal: &mut Journal) -> Result<Option<JobId>, Diagnostic> {
    if let Some(job) = &kept.job {
        return Ok(Some(job.clone()));
    }
    let (work, runtime) = (&kept.work, runtime()?);
    let found = runtime.block_on(engine.find(work)).map_err(|error| engine_error(&error, &work.run))?;
    if let Some(job) = &found {
        journal.submitted_as(&work.run, job)?;
    }
    Ok(found)
}

/// Lines of `status`: one run, or all.
pub fn lines(run: Option<&str>, session: &Session) -> Result<Vec<RunLine>, Diagnostic> {
    let mut journal = open_journal(session)?;
    let mut all = journal.submissions()?;
    all.retain(|kept| run.is_none_or(|run| kept.work.run == run));
    let mut lines = Vec::new();
    for kept in all {
        let asking = || format!("asking {} about {}", kept.work.engine, kept.work.run);
        let status = match kept.end {
            Some(_) => None,
            None => {
                with_progress(&session.printer, asking, || poll(&kept, &mut journal)).unwrap_or_else(|diagnostic| {
                    session.printer.warning(&format!(
                        "{}: {}; it is shown as the journal has it",
                        kept.work.run, diagnostic.message
                    ));
                    None
                })
            }
        };
        let kept = journal.handed(&kept.work.run)?.unwrap_or(kept);
        lines.push(line(&kept, status.as_ref()));
    }
    Ok(lines)
}

/// What the engine reports now; an end is recorded.
fn poll(kept: &SubmissionRecord, journal: &mut Journal) -> Result<Option<JobStatus>, Diagnostic> {
    let engine = engine_of(kept)?;
    let Some(job) = job_of(kept, &*engine, journal)? else { return Ok(None) };
    let status =
        runtime()?.block_on(engine.status(&kept.work, &job)).map_err(|error| engine_error(&error, &kept.work.run))?;
    if status.state.is_over() && status.state != JobState::Gone {
        journal.end_submission(&kept.work.run, run_state(status.state).word(), status.relaunches, Timestamp::now())?;
    }
    Ok(Some(status))
}

fn run_state(state: JobState) -> RunState {
    match state {
        JobState::Waiting => RunState::Launching,
        JobState::Running => RunState::Running,
        JobState::Interrupted => RunState::Interrupted,
        JobState::Completed => RunState::Completed,
        // A job that the engine has lost did not report that it completed.
        JobState::Failed | JobState::Gone => RunState::Failed,
        JobState::Stopped => RunState::Stopped,
    }
}

fn line(kept: &SubmissionRecord, status: Option<&JobStatus>) -> RunLine {
    let work = &kept.work;
    let now = status.map_or(RunState::Launching, |status| run_state(status.state));
    let state = kept.end.as_deref().map_or(now, ended_state);
    let is_over = kept.end.is_some() || status.is_some_and(|status| status.state.is_over());
    let machine = match state {
        _ if is_over => MachineState::Gone,
        RunState::Running => MachineState::Running,
        _ => MachineState::Starting,
    };
    let pool = format!("{} {}", work.engine, status.map_or("", |status| status.words.as_str()));
    let job = kept.job.as_ref().map(|job| job.0.clone());
    let machines = job.iter().map(|id| MachineLine {
        id: id.clone(),
        state: machine,
        pool: pool.trim_end().to_owned(),
        epoch: None,
    });
    RunLine {
        run: work.run.clone(),
        state,
        machines: machines.collect(),
        relaunches: status.and_then(|status| status.relaunches).or(kept.relaunches),
        // Without a rate nobody knows what it costs, which is not nothing.
        cost_usd: work
            .rate
            .zip(status.and_then(|status| status.machine_seconds))
            .and_then(|(rate, seconds)| rate.for_hours(1, seconds / 3600.0)),
        expected_cost_usd: work.expected_cost,
        progress: (state == RunState::Completed).then_some(1.0),
        started_at: work.handed_at,
        ended_at: kept.ended_at,
        store: work.store.clone(),
        submission: Some(SubmissionLine { engine: work.engine.clone(), job }),
        activity: Activity::default(),
    }
}

pub fn logs(run: &str, node: u32, follow: bool, session: &Session) -> Result<Exit, Diagnostic> {
    let mut journal = open_journal(session)?;
    let (mut said, runtime) = (0, runtime()?);
    loop {
        let kept = found(run, &journal)?;
        let engine = engine_of(&kept)?;
        let Some(job) = job_of(&kept, &*engine, &mut journal)? else { return Err(never_got_it(&kept)) };
        // Its state is polled before its output, so that the last output is not missed.
        let is_over = kept.end.is_some() || poll(&kept, &mut journal)?.is_none_or(|status| status.state.is_over());
        let output = runtime
            .block_on(engine.logs(&kept.work, &job, node))
            .map_err(|error| engine_error(&error, &kept.work.run))?;
        // After a restart the output may be shorter than before.
        said = if output.len() < said { 0 } else { said };
        session.printer.data(&String::from_utf8_lossy(output.get(said..).unwrap_or_default()))?;
        said = output.len();
        if is_over || !follow {
            return Ok(Exit::Done);
        }
        std::thread::sleep(FOLLOW);
    }
}

fn never_got_it(kept: &SubmissionRecord) -> Diagnostic {
    let run = &kept.work.run;
    Diagnostic::usage(format!("{} has no job of {run}: it was never submitted", kept.work.engine))
        .hint(format!("gpuplan stop {run}"))
}

pub fn stop(run: &str, session: &Session) -> Result<Exit, Diagnostic> {
    let end = stopped(run, session)?;
    session.printer.data(&format!("{run}: {end}\n"))
}

/// Ends the job, polls until it has ended, and returns how it ended.
fn stopped(run: &str, session: &Session) -> Result<String, Diagnostic> {
    let mut journal = open_journal(session)?;
    let kept = found(run, &journal)?;
    if let Some(end) = kept.end {
        return Ok(format!("had already ended ({end})"));
    }
    let engine = engine_of(&kept)?;
    let Some(job) = job_of(&kept, &*engine, &mut journal)? else {
        journal.end_submission(run, "stopped", None, Timestamp::now())?;
        return Ok("it was never submitted, and no job is left".to_owned());
    };
    let (work, runtime) = (&kept.work, runtime()?);
    let ending = || format!("ending job {} of {}, which has its grace to save", job.0, work.engine);
    let last = with_progress(&session.printer, ending, || {
        let unclear = |error| engine_error(&error, run);
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
    let end = if last.state == JobState::Gone { "stopped" } else { run_state(last.state).word() };
    journal.end_submission(run, end, last.relaunches, Timestamp::now())?;
    Ok(format!("job {} of {} is {end}, nothing is left", job.0, work.engine))
}

/// Ends a run and deletes what it stored.
pub fn down(run: &str, yes: bool, session: &Session) -> Result<Exit, Diagnostic> {
    let work = found(run, &open_journal(session)?)?.work;
    session.printer.note(&format!("checkpoints and output of {run} in {} will be deleted permanently", work.store));
    session.printer.confirm(yes, "gpuplan delete -y ...")?;
    let end = stopped(run, session)?;
    let (runtime, store) = (runtime()?, open_store(&work.store, run)?);
    let deleting = || format!("deleting what {run} stored");
    let deleted = with_progress(&session.printer, deleting, || runtime.block_on(store.delete_all()))?;
    open_journal(session)?.forget_submission(run)?;
    session.printer.data(&format!("{run}: {end}, {deleted} objects deleted\n"))
}

/// What an engine said, for a person.
pub fn engine_error(error: &EngineError, run: &str) -> Diagnostic {
    match error {
        EngineError::Missing { install, .. } => Diagnostic::usage(format!("{error}; install {install}")),
        EngineError::Refused { .. } => Diagnostic::new(Exit::CloudRefused, error.to_string()),
        EngineError::Unclear { .. } => {
            Diagnostic::new(Exit::MayStillCost, format!("{error}; the job may be there all the same"))
                .hint(format!("gpuplan status {run}"))
        }
    }
}
