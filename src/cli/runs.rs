//! `status`, `logs`, `fetch` and `ssh`: what runs, what it costs and says, what it saved, and the way to its machines.

pub mod standing;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::args::OutputFormat;
use crate::diagnostic::{Diagnostic, Exit};
use crate::launch::renters::{Launchers, clock, fake_cloud, launchers};
use crate::launch::{journal, keep_alive, store_of, unknown_run};
use crate::launch_on;
use crate::patience::meanwhile;
use crate::printer::Printer;
use crate::runs::standing::Standing;
use crate::settings::Settings;
use gpuplan_agent::Framework;
use gpuplan_agent::checkpoint::restore::Restore;
use gpuplan_clouds::{aws, fake, gcp};
use gpuplan_launch::journal::{JournalError, Kept};
use gpuplan_launch::{LaunchError, Launcher, Machine, MachineState};
use gpuplan_report::format::usd;
use gpuplan_report::table::{Column, render};
use gpuplan_units::Usd;

/// Between two looks for more output.
pub const FOLLOW: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Only this run
    pub run: Option<String>,
}

#[derive(Debug, Args)]
pub struct LogsArguments {
    /// Name of the run
    pub run: String,
    /// Which run of a sweep, from 0 [default: what the sweep itself says]
    #[arg(long, value_name = "I", conflicts_with = "node")]
    pub index: Option<u32>,
    /// Which of its machines, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub node: u32,
    /// Go on until the run has ended
    #[arg(short, long)]
    pub follow: bool,
}

#[derive(Debug, Args)]
pub struct FetchArguments {
    /// Name of the run
    pub run: String,
    /// New folder for its newest checkpoint [default: the name of the run]
    pub folder: Option<PathBuf>,
    /// Which run of a sweep, from 0
    #[arg(long, value_name = "I")]
    pub index: Option<u32>,
}

#[derive(Debug, Args)]
pub struct SshArguments {
    /// Name of the run
    pub run: String,
    /// Which of its machines, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub node: u32,
}

pub fn journal_said(error: &JournalError) -> Diagnostic {
    Diagnostic::new(Exit::Unexpected, error.to_string())
}

pub fn runtime() -> Result<Runtime, Diagnostic> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| Diagnostic::unexpected(&error))
}

pub fn kept(run: &str, settings: &Settings) -> Result<Kept, Diagnostic> {
    journal(settings)?.run(run).map_err(|error| journal_said(&error))?.ok_or_else(|| unknown_run(run))
}

/// A cloud, and what it says of its machines.
pub type Listed = (String, Result<Vec<Machine>, LaunchError>);

/// What every cloud says of a run, or of all runs, asked at the same time.
pub fn listed(clouds: &Launchers, run: Option<&str>) -> Result<Vec<Listed>, Diagnostic> {
    let ask = async |cloud: &dyn Launcher| (cloud.cloud().to_owned(), cloud.list(run).await);
    Ok(runtime()?.block_on(join_all(clouds.iter().map(|cloud| ask(&**cloud)))))
}

pub fn status(arguments: &StatusArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let journal = journal(settings)?;
    let handed = launch_on::rows(arguments.run.as_deref(), settings, printer)?;
    let names = match &arguments.run {
        Some(_) if !handed.is_empty() => Vec::new(),
        Some(run) => vec![run.clone()],
        None => journal.runs().map_err(|error| journal_said(&error))?,
    };
    let mut runs = Vec::new();
    for name in names {
        keep_alive::noticed(&name, &journal, settings, printer)?;
        runs.push(journal.run(&name).map_err(|error| journal_said(&error))?.ok_or_else(|| unknown_run(&name))?);
    }
    // Only machines that may still run are asked after.
    let open = runs.iter().filter(|kept| kept.machines.iter().any(|machine| !machine.is_over));
    let clouds = launchers(open.flat_map(|kept| kept.spec.clouds()), settings)?;
    let mut machines = Vec::new();
    let asking = || "asking the clouds what runs".to_owned();
    for (cloud, answer) in meanwhile(printer, asking, || listed(&clouds, arguments.run.as_deref()))? {
        match answer {
            Ok(listed) => {
                for machine in listed.iter().filter(|machine| machine.is_overdue(jiff::Timestamp::now())) {
                    let (id, run, end) = (&machine.id, &machine.run, machine.expires_at);
                    printer.note(&format!(
                        "warning: {id} of {run} should have ended itself at {end:.0}; `gpuplan gc -y` ends it"
                    ));
                }
                machines.extend(listed);
            }
            Err(error) => {
                printer.note(&format!(
                    "warning: {cloud} does not say what runs ({error}): its machines are shown as the journal has them"
                ));
                machines.extend(runs.iter().flat_map(|kept| supposed(kept, &cloud)));
            }
        }
    }
    let said = meanwhile(printer, || "reading what the runs say".to_owned(), || standing::said(&runs, settings))?;
    for (kept, said) in runs.iter().zip(&said) {
        if let Some(why) = &said.silent {
            printer.warning(&format!("{}: {why}; it is shown as the journal has it", kept.spec.run));
        }
    }
    // What an engine has says nothing of its own.
    let of_rows: Vec<Option<&Standing>> = handed.iter().map(|_| None).chain(said.iter().map(Some)).collect();
    let own = runs.iter().zip(&said).map(|(kept, said)| row(kept, &machines, said));
    let rows: Vec<Value> = handed.into_iter().chain(own).collect();
    if settings.output == OutputFormat::Json {
        return printer.data(&format!("{:#}\n", Value::Array(rows)));
    }
    if rows.is_empty() {
        printer.note("no run was launched from here");
        return Ok(Exit::Done);
    }
    for (kept, said) in runs.iter().zip(&said) {
        for (index, failed) in said.failed() {
            let why = failed.why.as_deref().unwrap_or("nobody says why");
            printer.note(&format!("failed: {} ({why}); gpuplan logs {} --index {index}", failed.run, kept.spec.run));
        }
    }
    printer.data(&table(&rows, &of_rows, settings.width))
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

pub fn logs(arguments: &LogsArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    if launch_on::is_handed(&arguments.run, settings)? {
        return launch_on::logs(arguments, settings, printer);
    }
    let mut kept = kept(&arguments.run, settings)?;
    let (store, runtime) = (standing::part(&kept, arguments.index)?, runtime()?);
    let mut said = 0;
    loop {
        // Whether it had ended is asked first: what it said last is read after.
        let is_over = kept.end.is_some();
        let output = runtime.block_on(store.output(arguments.node)).map_err(|error| store_of(&error))?;
        printer.data(&String::from_utf8_lossy(output.get(said..).unwrap_or_default()))?;
        said = output.len();
        if is_over || !arguments.follow {
            return Ok(Exit::Done);
        }
        std::thread::sleep(FOLLOW);
        kept = self::kept(&arguments.run, settings)?;
    }
}

/// The newest checkpoint that verifies, file by file.
pub fn fetch(arguments: &FetchArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let kept = kept(&arguments.run, settings)?;
    if kept.spec.job.sweep.is_some() && arguments.index.is_none() {
        let why = format!("{} is a sweep: each of its runs has checkpoints of its own", arguments.run);
        return Err(Diagnostic::new(Exit::Usage, why).hint(format!("gpuplan fetch {} --index 0", arguments.run)));
    }
    let store = standing::part(&kept, arguments.index)?;
    let folder = arguments.folder.clone().unwrap_or_else(|| PathBuf::from(store.name()));
    // What a restore finds beside its checkpoint it puts aside.
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Diagnostic::new(Exit::Usage, format!("{} is not empty", folder.display()))
            .hint(format!("gpuplan fetch {} NEW_FOLDER", arguments.run)));
    }
    let restore = Restore {
        run: &store,
        folder: &folder,
        framework: Framework::Auto,
        epoch: kept.past.epoch,
        node: 0,
        restart_from_nothing: false,
        logger: printer,
    };
    let (runtime, fetching) = (runtime()?, || format!("fetching into {}", folder.display()));
    let restored =
        meanwhile(printer, fetching, || runtime.block_on(restore.newest())).map_err(|error| store_of(&error))?;
    match (restored.name, restored.path) {
        (Some(name), Some(path)) => {
            printer
                .note(&format!("gpuplan: step {} of epoch {}, every file as it was committed", name.step, name.epoch));
            printer.data(&format!("{}\n", path.display()))
        }
        _ => Err(Diagnostic::new(Exit::Unexpected, format!("{} has no checkpoint that can be used", arguments.run))
            .hint(format!("gpuplan logs {}", arguments.run))),
    }
}

/// The clouds' own ways in: none needs an open port.
pub fn ssh(arguments: &SshArguments, settings: &Settings) -> Result<Exit, Diagnostic> {
    let kept = kept(&arguments.run, settings)?;
    let newest = kept.machines.iter().rfind(|machine| !machine.is_over && machine.node == arguments.node);
    let machine = newest.ok_or_else(|| {
        Diagnostic::new(Exit::Usage, format!("{} has no machine {} now", arguments.run, arguments.node))
            .hint("gpuplan status")
    })?;
    let id = machine.id.0.as_str();
    let mut way = match kept.spec.stand_in.as_deref().unwrap_or(&machine.pool.cloud) {
        fake::CLOUD => {
            let mut shell = Command::new("sh");
            shell.current_dir(fake_cloud(settings)?.folder_of(&machine.id));
            shell
        }
        aws::CLOUD => {
            let mut session = Command::new("aws");
            session.args(["ssm", "start-session", "--region", &machine.pool.region, "--target", id]);
            session
        }
        gcp::CLOUD => {
            let (zone, name) = id.rsplit_once('/').unwrap_or((machine.pool.place(), id));
            let mut session = Command::new("gcloud");
            session.args(["compute", "ssh", name, "--zone", zone, "--tunnel-through-iap"]);
            session
        }
        other => return Err(Diagnostic::new(Exit::Usage, format!("no way into machines of {other} is known"))),
    };
    let program = way.get_program().to_string_lossy().into_owned();
    let ended = way.status().map_err(|error| {
        Diagnostic::new(Exit::Usage, format!("`{program}` cannot be run: {error}"))
            .hint("it is the cloud's own tool; install it and sign in")
    })?;
    if ended.success() {
        Ok(Exit::Done)
    } else {
        Err(Diagnostic::new(Exit::Unexpected, format!("`{program}` ended with {ended}")))
    }
}
