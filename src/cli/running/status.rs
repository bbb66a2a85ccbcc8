//! `status`: what runs, where, and what it has cost.

use std::time::Duration;

use clap::Args;

use crate::arguments::global::OutputFormat;
use crate::running::engine_jobs;
use crate::running::launch::{elsewhere, keep_alive, warm};
use crate::running::overdue::{Overdue, overdue, say_unknown};
use crate::runs::agent_reports::{self, AgentReport};
use crate::runs::journal::{ended_state, open_journal, unknown_run};
use crate::runs::launchers::{clock, launchers, list_machines};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::with_progress;
use gpuplan_launch::journal::RunRecord;
use gpuplan_launch::{Machine, MachineState};
use gpuplan_report::runs::{self, FailedLine, MachineLine, RunLine, RunList, RunState};

#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Show only this run
    pub run: Option<String>,
    /// Show it again whenever it has changed, until every run that is shown has ended
    #[arg(short, long)]
    pub watch: bool,
}

/// Between two looks of `--watch`.
const LOOK: Duration = Duration::from_secs(2);

pub fn run(arguments: &StatusArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let mut shown = String::new();
    loop {
        let (list, failures) = look(arguments.run.as_deref(), session)?;
        let text = match session.output {
            OutputFormat::Json => list.json(),
            _ if list.is_empty() => String::new(),
            _ => list.table(session.width),
        };
        if text != shown {
            for failure in &failures {
                session.printer.note(failure);
            }
            session.printer.data(&text)?;
            shown = text;
        }
        if list.is_empty() && session.output != OutputFormat::Json {
            session.printer.note("no run was launched from this machine");
        }
        if !arguments.watch || list.is_over() {
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK);
    }
}

/// What journal, clouds and stores say, and a line for each run of a sweep that failed.
pub fn look(run: Option<&str>, session: &Session) -> Result<(RunList, Vec<String>), Diagnostic> {
    let mut journal = open_journal(session)?;
    let submitted = engine_jobs::lines(run, session)?;
    let names = match run {
        Some(_) if !submitted.is_empty() => Vec::new(),
        Some(run) => vec![run.to_owned()],
        None => journal.runs()?,
    };
    let mut runs = Vec::new();
    for name in names {
        keep_alive::update_journal(&name, &journal, session)?;
        elsewhere::update_journal(&name, &mut journal, session)?;
        runs.push(journal.run(&name)?.ok_or_else(|| unknown_run(&name))?);
    }
    // Only clouds with machines that may still run are asked.
    let open = runs
        .iter()
        .filter(|kept| kept.machines.iter().any(|machine| !machine.is_over || warm::waits(kept, &machine.id)));
    let clouds = launchers(open.flat_map(|kept| kept.spec.clouds()), session)?;
    let mut machines = Vec::new();
    let asking = || "listing running machines".to_owned();
    // What was taken over bears the tags of the run before.
    let run = run.filter(|_| runs.iter().all(|kept| kept.spec.takes.is_none()));
    for (cloud, answer) in with_progress(&session.printer, asking, || list_machines(&clouds, run))? {
        match answer {
            Ok(listed) => {
                for machine in &listed {
                    let (id, run, end) = (&machine.id, &machine.run, machine.expires_at);
                    match overdue(&clouds, machine) {
                        Overdue::Yes => session.printer.note(&format!(
                            "warning: {id} of {run} should have ended itself at {end:.0}; `gpuplan gc -y` ends it"
                        )),
                        Overdue::Unknown => say_unknown(machine, &session.printer),
                        Overdue::No => {}
                    }
                }
                machines.extend(listed);
            }
            Err(error) => {
                session.printer.note(&format!(
                    "warning: {cloud} does not report which machines run ({error}): they are shown as the journal has them"
                ));
                machines.extend(runs.iter().flat_map(|kept| supposed(kept, &cloud)));
            }
        }
    }
    let reading = || "reading what the runs report".to_owned();
    let reports = with_progress(&session.printer, reading, || agent_reports::read_all(&runs, session))?;
    for (kept, report) in runs.iter().zip(&reports) {
        if let Some(why) = &report.unreadable {
            session.printer.warning(&format!("{}: {why}; it is shown as the journal has it", kept.spec.run));
        }
    }
    let own: Vec<RunLine> = runs.iter().zip(&reports).map(|(kept, report)| line(kept, &machines, report)).collect();
    let failures: Vec<String> = own.iter().flat_map(failures).collect();
    let failures = if session.output == OutputFormat::Json { Vec::new() } else { failures };
    Ok((RunList::new(submitted.into_iter().chain(own).collect()), failures))
}

/// A line for each run of a sweep that failed.
fn failures(line: &RunLine) -> Vec<String> {
    let failed = line.activity.sweep.iter().flat_map(|sweep| &sweep.failed);
    let text = |failed: &FailedLine| {
        let why = failed.why.as_deref().unwrap_or("no reason is known");
        format!("failed: {} ({why}); gpuplan logs {} --index {}", failed.run, line.run, failed.index)
    };
    failed.map(text).collect()
}

/// Machines of a cloud that cannot be asked: assumed to be running.
fn supposed(kept: &RunRecord, cloud: &str) -> Vec<Machine> {
    let rents = kept.spec.clouds().contains(cloud);
    let open = kept.machines.iter().filter(|machine| rents && !machine.is_over);
    open.map(|machine| Machine {
        id: machine.id.clone(),
        run: kept.spec.run.clone(),
        epoch: machine.epoch,
        node: machine.node,
        token: String::new(),
        pool: machine.pool.clone(),
        state: MachineState::Running,
        reason: None,
        was_taken: false,
        created_at: kept.spec.started_at,
        expires_at: kept.spec.started_at,
        owner: String::new(),
    })
    .collect()
}

fn line(kept: &RunRecord, listed: &[Machine], report: &AgentReport) -> RunLine {
    let machines = kept.machines.iter().map(|machine| {
        let found = listed
            .iter()
            .find(|one| one.id == machine.id)
            .filter(|_| !machine.is_over || warm::waits(kept, &machine.id));
        MachineLine {
            id: machine.id.0.clone(),
            state: machine_state(found.map_or(MachineState::Gone, |one| one.state)),
            pool: machine.pool.to_string(),
            epoch: Some(machine.epoch),
        }
    });
    let machines: Vec<MachineLine> = machines.collect();
    let alive = machines.iter().filter(|machine| machine.state != runs::MachineState::Gone).count();
    let state = match kept.end.as_deref() {
        Some(end) => ended_state(end),
        None if alive == kept.spec.nodes as usize => RunState::Running,
        None if kept.past.interruptions > 0 => RunState::Interrupted,
        None => RunState::Launching,
    };
    let mut epochs: Vec<u64> = kept.machines.iter().map(|machine| machine.epoch).collect();
    epochs.dedup();
    RunLine {
        run: kept.spec.run.clone(),
        state,
        machines,
        relaunches: Some(u32::try_from(epochs.len().saturating_sub(1)).unwrap_or(u32::MAX)),
        cost_usd: Some(kept.past.rentals.spent(clock(&kept.spec).now())),
        expected_cost_usd: Some(kept.spec.expected_cost_usd),
        progress: Some(if state == RunState::Completed { 1.0 } else { kept.past.done }),
        started_at: kept.spec.started_at,
        ended_at: kept.ended_at,
        store: kept.spec.store.clone(),
        submission: None,
        activity: report.activity(state == RunState::Running),
    }
}

fn machine_state(state: MachineState) -> runs::MachineState {
    match state {
        MachineState::Starting => runs::MachineState::Starting,
        MachineState::Running => runs::MachineState::Running,
        MachineState::Ending => runs::MachineState::Ending,
        MachineState::Gone => runs::MachineState::Gone,
    }
}
