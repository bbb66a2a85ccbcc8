//! `logs`, `fetch` and `ssh`: what a run printed, what it saved, and the way to its machines.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::running::engine_jobs::{self, FOLLOW};
use crate::runs::agent_reports;
use crate::runs::clouds::rental_cloud;
use crate::runs::journal::find_run;
use crate::runs::launchers::fake_cloud;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_agent::Framework;
use gpuplan_agent::checkpoint::restore::Restore;
use gpuplan_clouds::fake;

#[derive(Debug, Args)]
pub struct LogsArguments {
    /// Name the run
    pub run: String,
    /// Choose a run of a sweep, from 0 [default: the output of the sweep itself]
    #[arg(long, value_name = "I", conflicts_with = "node")]
    pub index: Option<u32>,
    /// Choose one of its machines, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub node: u32,
    /// Follow the output until the run has ended
    #[arg(short, long)]
    pub follow: bool,
}

#[derive(Debug, Args)]
pub struct FetchArguments {
    /// Name the run
    pub run: String,
    /// Download into this new folder [default: the name of the run]
    pub folder: Option<PathBuf>,
    /// Choose a run of a sweep, from 0
    #[arg(long, value_name = "I")]
    pub index: Option<u32>,
}

#[derive(Debug, Args)]
pub struct SshArguments {
    /// Name the run
    pub run: String,
    /// Choose one of its machines, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub node: u32,
}

pub fn logs(arguments: &LogsArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if engine_jobs::is_submitted(&arguments.run, session)? {
        return engine_jobs::logs(&arguments.run, arguments.node, arguments.follow, session);
    }
    let mut kept = find_run(&arguments.run, session)?;
    let (store, runtime) = (agent_reports::run_or_part(&kept, arguments.index)?, runtime()?);
    let mut said = 0;
    loop {
        // Its state is read before its output, so that the last output is not missed.
        let is_over = kept.end.is_some();
        let output = runtime.block_on(store.output(arguments.node))?;
        session.printer.data(&String::from_utf8_lossy(output.get(said..).unwrap_or_default()))?;
        said = output.len();
        if is_over || !arguments.follow {
            return Ok(Exit::Done);
        }
        std::thread::sleep(FOLLOW);
        kept = find_run(&arguments.run, session)?;
    }
}

/// The newest checkpoint that verifies, file by file.
pub fn fetch(arguments: &FetchArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let kept = find_run(&arguments.run, session)?;
    if kept.spec.job.sweep.is_some() && arguments.index.is_none() {
        let why = format!("{} is a sweep: each of its runs has checkpoints of its own", arguments.run);
        return Err(Diagnostic::usage(why).hint(format!("gpuplan fetch {} --index 0", arguments.run)));
    }
    let store = agent_reports::run_or_part(&kept, arguments.index)?;
    let folder = arguments.folder.clone().unwrap_or_else(|| PathBuf::from(store.name()));
    // A restore moves aside whatever else it finds in the folder.
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Diagnostic::usage(format!("{} is not empty", folder.display()))
            .hint(format!("gpuplan fetch {} NEW_FOLDER", arguments.run)));
    }
    let restore = Restore {
        run: &store,
        folder: &folder,
        framework: Framework::Auto,
        epoch: kept.past.epoch,
        node: 0,
        restart_from_nothing: false,
        logger: &session.printer,
    };
    let (runtime, fetching) = (runtime()?, || format!("fetching into {}", folder.display()));
    let restored = with_progress(&session.printer, fetching, || runtime.block_on(restore.newest()))?;
    match (restored.name, restored.path) {
        (Some(name), Some(path)) => {
            session
                .printer
                .note(&format!("gpuplan: step {} of epoch {}, every file as it was committed", name.step, name.epoch));
            session.printer.data(&format!("{}\n", path.display()))
        }
        _ => Err(Diagnostic::unexpected(format!("{} has no checkpoint that can be used", arguments.run))
            .hint(format!("gpuplan logs {}", arguments.run))),
    }
}

/// A shell by the cloud's own tool.
pub fn ssh(arguments: &SshArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let kept = find_run(&arguments.run, session)?;
    let newest = kept.machines.iter().rfind(|machine| !machine.is_over && machine.node == arguments.node);
    let machine = newest.ok_or_else(|| {
        Diagnostic::usage(format!("{} has no machine {} now", arguments.run, arguments.node)).hint("gpuplan status")
    })?;
    let cloud = kept.spec.stand_in.as_deref().unwrap_or(&machine.pool.cloud);
    let mut shell = if cloud == fake::CLOUD {
        let mut shell = Command::new("sh");
        shell.current_dir(fake_cloud(session)?.folder_of(&machine.id));
        shell
    } else {
        let known =
            rental_cloud(cloud).ok_or_else(|| Diagnostic::usage(format!("gpuplan cannot open a shell at {cloud}")))?;
        (known.shell)(&machine.pool, &machine.id.0)
    };
    let program = shell.get_program().to_string_lossy().into_owned();
    let ended = shell.status().map_err(|error| {
        Diagnostic::usage(format!("`{program}` cannot be run: {error}"))
            .hint("it is the cloud's own tool; install it and sign in")
    })?;
    if ended.success() {
        Ok(Exit::Done)
    } else {
        Err(Diagnostic::unexpected(format!("`{program}` ended with {ended}")))
    }
}
