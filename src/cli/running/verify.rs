//! `verify`: reads every checkpoint that a run keeps, and says which of them can be restored.

use clap::Args;

use crate::runs::agent_reports;
use crate::runs::journal::find_run;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_runstore::scrub::{Depth, Looked, Scrubbed};
use gpuplan_units::Bytes;

/// Faults of one checkpoint that are named.
const NAMED: usize = 3;

#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// Name the run
    pub run: String,
    /// Choose a run of a sweep, from 0
    #[arg(long, value_name = "I")]
    pub index: Option<u32>,
    /// Look at sizes alone, and read no data
    #[arg(long)]
    pub quick: bool,
}

pub fn run(arguments: &VerifyArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let kept = find_run(&arguments.run, session)?;
    let (store, runtime) = (agent_reports::run_or_part(&kept, arguments.index)?, runtime()?);
    let depth = if arguments.quick { Depth::Sizes } else { Depth::Hashes };
    let (order, mut looked, mut sound) = (runtime.block_on(store.restore_order())?, Looked::new(), 0);
    for name in &order {
        let reading = || format!("reading step {} of epoch {}", name.step, name.epoch);
        let scrubbed =
            with_progress(&session.printer, reading, || runtime.block_on(store.scrub(*name, depth, &mut looked)))?;
        sound += usize::from(scrubbed.faults.is_empty());
        session.printer.data(&line(&scrubbed, depth))?;
    }
    match (sound, order.len()) {
        (_, 0) => Err(Diagnostic::unexpected(format!("{} has no checkpoint", store.name()))
            .hint(format!("gpuplan logs {}", arguments.run))),
        (sound, all) if sound == all => Ok(Exit::Done),
        (sound, all) => {
            Err(Diagnostic::unexpected(format!("{sound} of {all} checkpoints of {} can be restored", store.name()))
                .hint("a bucket with versioning may still have what is gone; gpuplan doctor reads its rules"))
        }
    }
}

fn line(scrubbed: &Scrubbed, depth: Depth) -> String {
    let Scrubbed { name, files, bytes, faults } = scrubbed;
    let what = match (faults.len(), depth) {
        (0, Depth::Hashes) => format!("{files} files, {}, every one as it was committed", Bytes(*bytes as f64)),
        (0, Depth::Sizes) => {
            format!("{files} files, {}, every one there; contents were not read", Bytes(*bytes as f64))
        }
        (count, _) => {
            let more = if count > NAMED { format!("; and {} more", count - NAMED) } else { String::new() };
            format!("cannot be restored: {}{more}", faults[..count.min(NAMED)].join("; "))
        }
    };
    format!("step {} (epoch {}): {what}\n", name.step, name.epoch)
}
