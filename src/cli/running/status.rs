//! `status`: what runs, where, and what it has cost.

use clap::Args;
use serde_json::{Value, json};

use crate::arguments::global::OutputFormat;
use crate::running::engine_jobs;
use crate::running::launch::keep_alive;
use crate::runs::agent_reports::{self, Standing};
use crate::runs::journal::{journal, journal_said, kept, unknown_run};
use crate::runs::launchers::{clock, launchers, listed};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::meanwhile;
use gpuplan_launch::journal::Kept;
use gpuplan_launch::{Machine, MachineState};
use gpuplan_report::format::usd;
use gpuplan_report::table::{Column, render};
use gpuplan_units::Usd;

#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Only this run
    pub run: Option<String>,
}

pub fn run(arguments: &StatusArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let journal = journal(session)?;
    let handed = engine_jobs::rows(arguments.run.as_deref(), session)?;
    let names = match &arguments.run {
        Some(_) if !handed.is_empty() => Vec::new(),
        Some(run) => vec![run.clone()],
        None => journal.runs().map_err(|error| journal_said(&error))?,
    };
    let mut runs = Vec::new();
    for name in names {
        keep_alive::noticed(&name, &journal, session)?;
        runs.push(journal.run(&name).map_err(|error| journal_said(&error))?.ok_or_else(|| unknown_run(&name))?);
    }
    // Only machines that may still run are asked after.
    let open = runs.iter().filter(|kept| kept.machines.iter().any(|machine| !machine.is_over));
    let clouds = launchers(open.flat_map(|kept| kept.spec.clouds()), session)?;
    let mut machines = Vec::new();
    let asking = || "asking the clouds what runs".to_owned();
    for (cloud, answer) in meanwhile(&session.printer, asking, || listed(&clouds, arguments.run.as_deref()))? {
        match answer {
            Ok(listed) => {
                for machine in listed.iter().filter(|machine| machine.is_overdue(jiff::Timestamp::now())) {
                    let (id, run, end) = (&machine.id, &machine.run, machine.expires_at);
                    session.printer.note(&format!(
                        "warning: {id} of {run} should have ended itself at {end:.0}; `gpuplan gc -y` ends it"
                    ));
                }
                machines.extend(listed);
            }
            Err(error) => {
                session.printer.note(&format!(
                    "warning: {cloud} does not say what runs ({error}): its machines are shown as the journal has them"
                ));
                machines.extend(runs.iter().flat_map(|kept| supposed(kept, &cloud)));
            }
        }
    }
    let said =
        meanwhile(&session.printer, || "reading what the runs say".to_owned(), || agent_reports::said(&runs, session))?;
    for (kept, said) in runs.iter().zip(&said) {
        if let Some(why) = &said.silent {
            session.printer.warning(&format!("{}: {why}; it is shown as the journal has it", kept.spec.run));
        }
    }
    // What an engine has says nothing of its own.
    let of_rows: Vec<Option<&Standing>> = handed.iter().map(|_| None).chain(said.iter().map(Some)).collect();
    let own = runs.iter().zip(&said).map(|(kept, said)| row(kept, &machines, said));
    let rows: Vec<Value> = handed.into_iter().chain(own).collect();
    if session.output == OutputFormat::Json {
        return session.printer.data(&format!("{:#}\n", Value::Array(rows)));
    }
    if rows.is_empty() {
        session.printer.note("no run was launched from here");
        return Ok(Exit::Done);
    }
    for (kept, said) in runs.iter().zip(&said) {
        for (index, failed) in said.failed() {
            let why = failed.why.as_deref().unwrap_or("nobody says why");
            session
                .printer
                .note(&format!("failed: {} ({why}); gpuplan logs {} --index {index}", failed.run, kept.spec.run));
        }
    }
    session.printer.data(&table(&rows, &of_rows, session.width))
}

/// Machines of a cloud that cannot be asked: running, as far as anybody knows.
fn supposed(kept: &Kept, cloud: &str) -> Vec<Machine> {
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

fn table(rows: &[Value], said: &[Option<&Standing>], width: u16) -> String {
    let text = |value: &Value| {
        value.as_str().map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_owned)
    };
    let money = |value: &Value| {
        value.as_str().map_or_else(String::new, |amount| Usd::parse(amount).map_or_else(|_| text(value), usd))
    };
    let columns = [
        Column::left("run", 0),
        Column::left("state", 0),
        Column::left("where", 0),
        Column::right("relaunches", 0),
        Column::right("spent", 0),
        Column::right("expected", 0),
        Column::right("progress", 0),
    ];
    let progress = |row: &Value| {
        let of = row
            .get("sweep")
            .map_or_else(String::new, |sweep| format!(", {} of {} runs", sweep["completed"], sweep["runs"]));
        row["progress"].as_f64().map_or_else(String::new, |done| format!("{:.0} %{of}", done * 100.0))
    };
    let cells = rows.iter().zip(said).map(|(row, said)| {
        let places: Vec<String> = row["machines"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|one| one["state"] != "gone")
            .map(|one| text(&one["pool"]))
            .collect();
        vec![
            text(&row["run"]),
            said.and_then(Standing::phase)
                .filter(|(word, _)| row["phase"] == *word && *word != "running")
                .map_or_else(|| text(&row["state"]), |(_, words)| words),
            places.join(", "),
            text(&row["relaunches"]),
            money(&row["cost_usd"]),
            money(&row["expected_cost_usd"]),
            progress(row),
        ]
    });
    render(&columns, cells, width)
}

/// As contract 6 words it.
fn row(kept: &Kept, listed: &[Machine], said: &Standing) -> Value {
    let state_of =
        |id| listed.iter().find(|machine| machine.id == id).map_or(MachineState::Gone, |machine| machine.state);
    let machines: Vec<Value> = kept
        .machines
        .iter()
        .map(|machine| {
            let state = if machine.is_over { MachineState::Gone } else { state_of(machine.id.clone()) };
            json!({ "id": machine.id, "state": state, "pool": machine.pool.to_string(), "epoch": machine.epoch })
        })
        .collect();
    let alive = machines.iter().filter(|machine| machine["state"] != "gone").count();
    let state = match kept.end.as_deref() {
        Some("out-of-budget") => "stopped",
        Some("refused") => "failed",
        Some(end) => end,
        None if alive == kept.spec.nodes as usize => "running",
        None if kept.past.interruptions > 0 => "interrupted",
        None => "launching",
    };
    let mut epochs: Vec<u64> = kept.machines.iter().map(|machine| machine.epoch).collect();
    epochs.dedup();
    let phase = said.phase().filter(|_| state == "running");
    let mut row = json!({
        "run": kept.spec.run,
        "state": state,
        "machines": machines,
        "relaunches": epochs.len().saturating_sub(1),
        "cost_usd": kept.past.rentals.spent(clock(&kept.spec).now()),
        "expected_cost_usd": kept.spec.expected_cost_usd,
        "progress": if state == "completed" { 1.0 } else { kept.past.done },
        "started_at": kept.spec.started_at,
        "ended_at": kept.ended_at,
        "store": kept.spec.store,
    });
    let more = [("phase", phase.map(|(word, _)| json!(word))), ("staged", said.staged()), ("sweep", said.sweep())];
    for (key, value) in more {
        if let Some(value) = value {
            row[key] = value;
        }
    }
    row
}
