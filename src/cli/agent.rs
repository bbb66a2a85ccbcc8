//! `agent`: wires the checkpoint-resume wrapper to the store, to this machine's notices and to the terminal.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::agent::claim::ClaimError;
use crate::agent::outcome::{AGENT_FAULT, FENCED, INTERRUPTED};
use crate::agent::supervise::{Fault, Settings, Talk, supervise};
use crate::agent::{Caps, Framework, NoticeSource};
use crate::cli::diagnostic::{Diagnostic, Exit};
use crate::cli::printer::Printer;
use crate::clouds::notices;
use crate::runstore::history::Keep;
use crate::runstore::layout::Layout;
use crate::runstore::{Run, Store, StoreError};
use crate::units::{Hours, Seconds, Usd, UsdPerHour};

#[derive(Debug, Args)]
pub struct AgentArguments {
    /// Where checkpoints are kept: file:///folder, s3://bucket/prefix, gs://bucket/prefix or az://container
    #[arg(long, value_name = "URI")]
    pub store: String,
    /// Name of the run in the store [default: the working folder's name]
    #[arg(long, env = "GPUPLAN_RUN_ID", value_name = "NAME")]
    pub run: Option<String>,
    /// Folder that the command saves its checkpoints to
    #[arg(long, value_name = "DIR", default_value = "checkpoints")]
    pub checkpoints: PathBuf,
    /// How a checkpoint is known to be complete: auto, files, hf, lightning, dcp, deepspeed, megatron, orbax
    #[arg(long, default_value = "auto")]
    pub framework: Framework,
    /// Checkpoints without a marker count once nothing in them has changed for so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub settle: Duration,
    /// Checkpoints to keep in the store, newest first
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub keep_last: usize,
    /// Also keep every checkpoint whose step is a multiple of this
    #[arg(long, value_name = "STEPS", default_value_t = 0)]
    pub keep_every: u64,
    /// Time to save and end after SIGTERM, SIGINT, SIGHUP or SIGUSR1, or at a cap; a cloud's notice says its own
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub grace: Duration,
    /// Where notices of the machine's end are asked: auto, aws, gcp, azure or none
    #[arg(long, value_name = "CLOUD", default_value = "auto")]
    pub notices: String,
    /// A file whose appearance is a notice, too
    #[arg(long, value_name = "FILE")]
    pub notice_from: Option<PathBuf>,
    /// Most dollars for all machines of the run together; needs --rate
    #[arg(long, value_name = "USD", requires = "rate")]
    pub budget: Option<String>,
    /// Price of this machine in dollars an hour
    #[arg(long, value_name = "USD")]
    pub rate: Option<String>,
    /// Stop after so long on this machine
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lifetime: Option<Duration>,
    /// Between two signs of life in the store
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub heartbeat: Duration,
    /// Pause before the first start after a crash, doubled with each
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub backoff: Duration,
    /// Take the run over at once: nobody else runs it
    #[arg(long)]
    pub force: bool,
    /// Stand for another machine
    #[arg(long, hide = true, value_name = "NAME")]
    pub machine: Option<String>,
    /// The training command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl Talk for Printer {
    fn say(&self, line: &str) {
        self.note(&format!("gpuplan: {line}"));
    }
}

/// Runs the command to its end. The exit code is the command's, or one of the agent's own (docs/agent.md).
pub fn run(arguments: &AgentArguments, offline: bool, printer: &Printer) -> ExitCode {
    let outcome = settings(arguments, offline).and_then(|settings| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Diagnostic::unexpected(&error))?;
        let outcome = runtime.block_on(supervise(settings, Arc::new(*printer)));
        // A read that hangs must not hold up the end.
        runtime.shutdown_background();
        Ok(outcome)
    });
    match outcome {
        Ok(Ok(outcome)) => ExitCode::from(outcome.code()),
        Ok(Err(fault)) => {
            printer.diagnostic(&Diagnostic::new(Exit::Unexpected, fault.to_string()));
            ExitCode::from(code_of(&fault))
        }
        Err(diagnostic) => {
            printer.diagnostic(&diagnostic);
            diagnostic.exit.into()
        }
    }
}

/// Where the store is only away, another machine may have more luck.
fn code_of(fault: &Fault) -> u8 {
    match fault {
        Fault::Claim(ClaimError::Alive { .. }) => FENCED,
        Fault::Store(StoreError::Unavailable { .. }) | Fault::Claim(ClaimError::Store(StoreError::Unavailable { .. })) => INTERRUPTED,
        _ => AGENT_FAULT,
    }
}

fn settings(arguments: &AgentArguments, offline: bool) -> Result<Settings, Diagnostic> {
    let wrong = |error: &dyn std::error::Error| Diagnostic::new(Exit::Usage, error.to_string());
    let here = std::env::current_dir().map_err(|error| Diagnostic::unexpected(&error))?;
    let folder_name = || here.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = arguments.run.clone().filter(|name| !name.is_empty()).unwrap_or_else(folder_name);
    let layout = Layout::new(&name).map_err(|error| wrong(&error).hint("gpuplan agent --store URI --run NAME -- COMMAND"))?;
    if offline && arguments.store.contains("://") && !arguments.store.starts_with("file://") {
        return Err(Diagnostic::new(Exit::Usage, "the store is in the network, which --offline (or GPUPLAN_OFFLINE) forbids"));
    }
    let store = Store::open(&arguments.store).map_err(|error| wrong(&error))?;
    let budget = arguments.budget.as_deref().map(Usd::parse).transpose().map_err(|error| wrong(&error))?;
    let rate = arguments.rate.as_deref().map(UsdPerHour::parse).transpose().map_err(|error| wrong(&error))?;
    if rate.is_some_and(|rate| rate.nanos() == 0) {
        return Err(Diagnostic::new(Exit::Usage, "--rate 0 is no price; leave it out if it is not known"));
    }
    let notices: Vec<Arc<dyn NoticeSource>> =
        if offline { Vec::new() } else { notices::sources(&arguments.notices).map_err(|error| Diagnostic::new(Exit::Usage, error))? };
    Ok(Settings {
        run: Run::new(store, layout),
        store: arguments.store.clone(),
        command: arguments.command.clone(),
        folder: here.join(&arguments.checkpoints),
        framework: arguments.framework,
        settle: arguments.settle,
        heartbeat: arguments.heartbeat,
        grace: arguments.grace,
        first_pause: arguments.backoff,
        keep: Keep { last: arguments.keep_last, every: arguments.keep_every },
        caps: Caps { budget, rate, lifetime: arguments.lifetime },
        force: arguments.force,
        machine: arguments.machine.clone(),
        notice_from: arguments.notice_from.clone(),
        notices,
    })
}

/// `90s`, `10m`, `36h`; a bare number would be hours, which nobody means for a heartbeat.
fn duration(text: &str) -> Result<Duration, String> {
    if text.trim().parse::<f64>().is_ok_and(|number| number != 0.0) {
        return Err("say the unit, as in 90s, 10m or 36h".to_owned());
    }
    let hours = Hours::parse(text).map_err(|error| error.to_string())?;
    Duration::try_from_secs_f64(Seconds::from(hours).0).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_need_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for text in ["10", "soon", "", "-3s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
