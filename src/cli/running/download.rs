//! `download`: what a run saved.

use std::path::PathBuf;

use clap::Args;

use crate::runs::agent_reports;
use crate::runs::journal::find_run;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_agent::Framework;
use gpuplan_agent::checkpoint::restore::Restore;
use gpuplan_agent::checkpoint::scan::Place;

#[derive(Debug, Args)]
pub struct DownloadArguments {
    /// Name the run
    pub run: String,
    /// Download into this new folder [default: the name of the run]
    pub folder: Option<PathBuf>,
    /// Choose a run of a sweep, from 0
    #[arg(long, value_name = "I")]
    pub index: Option<u32>,
}

/// The newest checkpoint that verifies, file by file.
pub fn run(arguments: &DownloadArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let kept = find_run(&arguments.run, session)?;
    if kept.spec.job.sweep.is_some() && arguments.index.is_none() {
        let why = format!("{} is a sweep: each of its runs has checkpoints of its own", arguments.run);
        return Err(Diagnostic::usage(why).hint(format!("gpuplan download {} --index 0", arguments.run)));
    }
    let store = agent_reports::run_or_part(&kept, arguments.index)?;
    let folder = arguments.folder.clone().unwrap_or_else(|| PathBuf::from(store.name()));
    // A restore moves aside whatever else it finds in the folder.
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Diagnostic::usage(format!("{} is not empty", folder.display()))
            .hint(format!("gpuplan download {} NEW_FOLDER", arguments.run)));
    }
    let restore = Restore {
        run: &store,
        folder: &folder,
        place: Place::Told,
        job: None,
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
