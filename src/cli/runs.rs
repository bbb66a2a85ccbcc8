//! `status`, `logs`, `stop` and `gc`: what runs, what it costs and says, how to end it, and how nothing is left behind.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::args::OutputFormat;
use crate::cli::diagnostic::{Diagnostic, Exit};
use crate::cli::launch::{fake_cloud, journal, store, unknown_run};
use crate::cli::printer::Printer;
use crate::cli::settings::Settings;
use crate::clouds::fake::{self, FakeCloud};
use crate::launch::journal::{JournalError, Kept};
use crate::launch::{Clock, End, Journal, LaunchError, Launcher, Machine, MachineState};
use crate::report::format::usd;
use crate::report::table::{Column, render};
use crate::units::Usd;

#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Only this run
    pub run: Option<String>,
}

#[derive(Debug, Args)]
pub struct LogsArguments {
    /// Name of the run
    pub run: String,
    /// Which of its machines, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub node: u32,
}

#[derive(Debug, Args)]
pub struct StopArguments {
    /// Name of the run
    pub run: String,
}

#[derive(Debug, Args)]
pub struct GcArguments {
    /// Only this cloud; `fake` for the one on this machine
    #[arg(long = "cloud", value_name = "CLOUD")]
    pub clouds: Vec<String>,
    /// End what is found without asking
    #[arg(short, long)]
    pub yes: bool,
}

fn unexpected(error: &JournalError) -> Diagnostic {
    Diagnostic::new(Exit::Unexpected, error.to_string())
}

fn waited<T>(call: impl Future<Output = Result<T, LaunchError>>) -> Result<T, Diagnostic> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| Diagnostic::unexpected(&error))?;
    runtime.block_on(call).map_err(|error| Diagnostic::new(Exit::CloudRefused, error.to_string()))
}

pub fn status(arguments: &StatusArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let (journal, cloud) = (journal(settings)?, fake_cloud(settings)?);
    let names = match &arguments.run {
        Some(run) => vec![run.clone()],
        None => journal.runs().map_err(|error| unexpected(&error))?,
    };
    let listed = waited(cloud.list(None))?;
    let mut rows = Vec::new();
    for name in names {
        let kept = journal.run(&name).map_err(|error| unexpected(&error))?.ok_or_else(|| unknown_run(&name))?;
        rows.push(row(&kept, &listed));
    }
    if settings.output == OutputFormat::Json {
        return printer.data(&format!("{:#}\n", Value::Array(rows)));
    }
    if rows.is_empty() {
        printer.note("no run was launched from here");
        return Ok(Exit::Done);
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let money = |value: &Value| value.as_str().and_then(|text| Usd::parse(text).ok()).map_or_else(String::new, usd);
    let columns = [
        Column::left("run", 0),
        Column::left("state", 0),
        Column::left("where", 0),
        Column::right("relaunches", 0),
        Column::right("spent", 0),
        Column::right("expected", 0),
        Column::right("progress", 0),
    ];
    let cells = rows.iter().map(|row| {
        let places: Vec<String> =
            row["machines"].as_array().into_iter().flatten().filter(|one| one["state"] != "gone").map(|one| text(&one["pool"])).collect();
        vec![
            text(&row["run"]),
            text(&row["state"]),
            places.join(", "),
            text(&row["relaunches"]),
            money(&row["cost_usd"]),
            money(&row["expected_cost_usd"]),
            format!("{:.0} %", row["progress"].as_f64().unwrap_or_default() * 100.0),
        ]
    });
    printer.data(&render(&columns, cells, settings.width))
}

/// As contract 6 words it.
fn row(kept: &Kept, listed: &[Machine]) -> Value {
    let state_of = |id| listed.iter().find(|machine| machine.id == id).map_or(MachineState::Gone, |machine| machine.state);
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
    let now = Clock { started_at: kept.spec.started_at, speed: fake::SPEED }.now();
    let mut epochs: Vec<u64> = kept.machines.iter().map(|machine| machine.epoch).collect();
    epochs.dedup();
    json!({
        "run": kept.spec.run,
        "state": state,
        "machines": machines,
        "relaunches": epochs.len().saturating_sub(1),
        "cost_usd": kept.past.rentals.spent(now),
        "expected_cost_usd": kept.spec.expected_cost_usd,
        "progress": if state == "completed" { 1.0 } else { kept.past.done },
        "started_at": kept.spec.started_at,
        "ended_at": kept.ended_at,
        "store": kept.spec.store,
    })
}

pub fn logs(arguments: &LogsArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let kept = journal(settings)?.run(&arguments.run).map_err(|error| unexpected(&error))?.ok_or_else(|| unknown_run(&arguments.run))?;
    let store = store(&kept.spec)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| Diagnostic::unexpected(&error))?;
    let output = runtime.block_on(store.output(arguments.node)).map_err(|error| Diagnostic::unexpected(&error))?;
    printer.data(&String::from_utf8_lossy(&output))
}

pub fn stop(arguments: &StopArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let (mut journal, cloud) = (journal(settings)?, fake_cloud(settings)?);
    let kept = journal.run(&arguments.run).map_err(|error| unexpected(&error))?.ok_or_else(|| unknown_run(&arguments.run))?;
    if kept.end.is_none() {
        // Whoever leads the run sees this and starts nothing any more.
        journal.end(&arguments.run, &End::Stopped, jiff::Timestamp::now()).map_err(|error| unexpected(&error))?;
    }
    let alive: Vec<Machine> = of_run(&cloud, Some(&arguments.run))?;
    let left = end_all(&cloud, &alive, Some(&arguments.run))?;
    let mut rentals = kept.past.rentals;
    let now = Clock { started_at: kept.spec.started_at, speed: fake::SPEED }.now();
    let gone: Vec<_> =
        rentals.open().map(|rental| rental.machine.clone()).filter(|id| !left.iter().any(|machine| machine.id == *id)).collect();
    for machine in &gone {
        rentals.end(machine, now);
    }
    journal.keep(&arguments.run, &rentals, kept.past.done, kept.past.interruptions).map_err(|error| unexpected(&error))?;
    if left.is_empty() {
        return printer.data(&format!("{}: {} machines ended, none is left\n", arguments.run, alive.len()));
    }
    Err(still_there(&left, &format!("gpuplan stop {}", arguments.run)))
}

pub fn gc(arguments: &GcArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    if let Some(other) = arguments.clouds.iter().find(|cloud| *cloud != fake::CLOUD) {
        return Err(
            Diagnostic::new(Exit::Usage, format!("machines of {other} are planned and not rented yet")).hint("gpuplan gc --cloud fake")
        );
    }
    let (journal, cloud) = (journal(settings)?, fake_cloud(settings)?);
    let unknown = strangers(&journal, of_run(&cloud, None)?)?;
    let mut ended = Vec::new();
    if arguments.yes {
        let left = end_all(&cloud, &unknown, None)?;
        if let Some(still) = Some(still_there(&left, "gpuplan gc -y")).filter(|_| !left.is_empty()) {
            return Err(still);
        }
        ended.clone_from(&unknown);
    }
    let named = |machines: &[Machine]| -> Vec<Value> {
        machines.iter().map(|machine| json!({ "id": machine.id, "run": machine.run, "pool": machine.pool.to_string() })).collect()
    };
    if settings.output == OutputFormat::Json {
        return printer.data(&format!("{:#}\n", json!({ "found": named(&unknown), "ended": named(&ended) })));
    }
    for machine in &unknown {
        let what = if arguments.yes { "ended" } else { "found" };
        printer.data(&format!("{what}: {} of run {} ({})\n", machine.id, machine.run, machine.pool))?;
    }
    if unknown.is_empty() {
        printer.note("every machine that carries our tag belongs to a run of the journal");
    } else if !arguments.yes {
        printer.note("hint: gpuplan gc -y ends them");
    }
    Ok(Exit::Done)
}

fn of_run(cloud: &FakeCloud, run: Option<&str>) -> Result<Vec<Machine>, Diagnostic> {
    let listed = waited(cloud.list(run))?;
    Ok(listed.into_iter().filter(|machine| machine.state != MachineState::Gone).collect())
}

/// Machines that no run of the journal knows as its own and running.
fn strangers(journal: &Journal, machines: Vec<Machine>) -> Result<Vec<Machine>, Diagnostic> {
    let mut unknown = Vec::new();
    for machine in machines {
        if !journal.knows(&machine.id).map_err(|error| unexpected(&error))? {
            unknown.push(machine);
        }
    }
    Ok(unknown)
}

/// Ends them and looks again; gives what is still there.
fn end_all(cloud: &FakeCloud, machines: &[Machine], run: Option<&str>) -> Result<Vec<Machine>, Diagnostic> {
    for machine in machines {
        waited(cloud.destroy(&machine.id))?;
    }
    let after = of_run(cloud, run)?;
    Ok(after.into_iter().filter(|machine| machines.iter().any(|ended| ended.id == machine.id)).collect())
}

fn still_there(left: &[Machine], hint: &str) -> Diagnostic {
    let ids: Vec<&str> = left.iter().map(|machine| machine.id.0.as_str()).collect();
    Diagnostic::new(Exit::MayCostMoney, format!("these machines may still cost money: {}", ids.join(", "))).hint(hint)
}
