//! `agent --sweep`: the agent of a sweep runs this program again in place of the command, which carries the runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::running::agent::arguments::{AgentArguments, ON_STALL, SIGNALS};
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use gpuplan_agent::sweep::{SweepSettings, carry};
use gpuplan_clouds_http::variable;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::{Run, Store};
use gpuplan_units::GpuCount;
use gpuplan_workload::Sweep;

/// The agent of the sweep knows how long the machine still has, and ends all in time; its runs may use what it has. The two minutes of AWS, the
/// longest notice of any cloud, with a little to record.
const GRACE: Duration = Duration::from_secs(110);

fn wrong(error: &dyn std::error::Error) -> Diagnostic {
    Diagnostic::usage(error)
}

/// `None` without a sweep.
fn sweep(arguments: &AgentArguments) -> Result<Option<Sweep>, Diagnostic> {
    let Some(runs) = arguments.sweeping.sweep else { return Ok(None) };
    let gpus_per_run = arguments.sweeping.gpus_per_run.as_deref().map(GpuCount::parse).transpose();
    let gpus_per_run =
        gpus_per_run.map_err(|error| wrong(&error).hint("--gpus-per-run 1"))?.unwrap_or(GpuCount::whole(1));
    Ok(Some(Sweep { runs, parallel: arguments.sweeping.parallel.unwrap_or(1), gpus_per_run }))
}

/// The command line of what carries the runs of this sweep.
pub fn carrier(arguments: &AgentArguments, run: &str) -> Result<Option<Vec<String>>, Diagnostic> {
    let Some(sweep) = sweep(arguments)? else { return Ok(None) };
    // A name that is too long for the last run is refused before the first one starts.
    Layout::new(&gpuplan_runstore::sweep::name(run, sweep.runs - 1, sweep.runs)).map_err(|error| wrong(&error))?;
    let Sweep { runs, parallel, gpus_per_run } = sweep;
    let numbers = [
        "--sweep",
        &runs.to_string(),
        "--parallel",
        &parallel.to_string(),
        "--gpus-per-run",
        &gpus_per_run.to_string(),
    ];
    let numbers = numbers.map(str::to_owned);
    let own = ["--carry", "--run", run].map(str::to_owned);
    let words = agent(arguments)?.into_iter().chain(numbers).chain(own).chain(["--".to_owned()]);
    Ok(Some(words.chain(arguments.command.iter().cloned()).collect()))
}

/// This program with the options that all agents of the sweep share. Notices, prices, caps and data are those of the sweep.
fn agent(arguments: &AgentArguments) -> Result<Vec<String>, Diagnostic> {
    let program = std::env::current_exe().map_err(Diagnostic::unexpected)?;
    let seconds = |time: Duration| format!("{}s", time.as_secs_f64());
    let signal = SIGNALS.iter().find(|(_, signal)| *signal == arguments.notice.signal).map_or("TERM", |(name, _)| name);
    let on_stall =
        ON_STALL.iter().find(|(_, what)| *what == arguments.stalls.on_stall).map_or("warn", |(name, _)| name);
    let options = [
        ("--store", arguments.store.clone()),
        ("--framework", arguments.saving.framework.name().to_owned()),
        ("--settle", seconds(arguments.saving.settle)),
        ("--keep-last", arguments.saving.keep_last.to_string()),
        ("--keep-every", arguments.saving.keep_every.to_string()),
        ("--grace", seconds(arguments.notice.grace.max(GRACE))),
        ("--signal", signal.to_owned()),
        ("--notices", "none".to_owned()),
        ("--stall", seconds(arguments.stalls.stall)),
        ("--on-stall", on_stall.to_owned()),
        ("--heartbeat", seconds(arguments.heartbeat)),
        ("--backoff", seconds(arguments.backoff)),
        ("--nvidia-smi", arguments.nvidia_smi.clone()),
    ];
    let mut words = vec![program.to_string_lossy().into_owned(), "agent".to_owned()];
    words.extend(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
    words.extend(
        arguments
            .saving
            .checkpoints
            .iter()
            .flat_map(|folder| ["--checkpoints".to_owned(), folder.display().to_string()]),
    );
    words.extend(arguments.machine.iter().flat_map(|machine| ["--machine".to_owned(), machine.clone()]));
    for (is_set, name) in
        [(arguments.no_logs, "--no-logs"), (arguments.saving.restart_from_nothing, "--restart-from-nothing")]
    {
        words.extend(is_set.then(|| name.to_owned()));
    }
    Ok(words)
}

/// Runs the runs. The agent of the sweep hears how they ended by the exit code.
pub fn carried(arguments: &AgentArguments, printer: &Printer) -> ExitCode {
    let code = made(arguments).and_then(|carrier| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Diagnostic::unexpected)?;
        Ok(runtime.block_on(carry(carrier, Arc::new(*printer))))
    });
    match code {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(diagnostic) => printer.diagnostic(&diagnostic),
    }
}

fn made(arguments: &AgentArguments) -> Result<SweepSettings, Diagnostic> {
    let sweep = sweep(arguments)?.ok_or_else(|| Diagnostic::usage("--carry needs --sweep"))?;
    let folder = std::env::current_dir().map_err(Diagnostic::unexpected)?;
    let run = arguments.run.as_deref().ok_or_else(|| Diagnostic::usage("--carry needs --run"))?;
    let layout = Layout::new(run).map_err(|error| wrong(&error))?;
    let store = Store::open(&arguments.store).map_err(|error| wrong(&error))?;
    let cards = variable("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    Ok(SweepSettings {
        run: Run::new(store, layout),
        sweep,
        checkpoints: folder.join(arguments.saving.folder()),
        folder,
        agent: agent(arguments)?,
        command: arguments.command.clone(),
        cards: cards.split(',').map(str::trim).filter(|card| !card.is_empty()).map(str::to_owned).collect(),
        progress: variable("GPUPLAN_PROGRESS_FILE").map(PathBuf::from),
        pace: arguments.heartbeat,
    })
}
