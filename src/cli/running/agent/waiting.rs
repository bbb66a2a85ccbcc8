//! `agent --await-next`: a machine that stays after its run waits for the next one, whose boot script comes through the store.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::running::agent::arguments::AgentArguments;
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use gpuplan_agent::rules::outcome::INTERRUPTED;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::{NextRun, Run, Store};

/// Between two looks into the store. Judgement.
const PAUSE: Duration = Duration::from_secs(2);
/// Of a short wait, so that it has this many looks.
const LOOKS: u32 = 50;

/// 0 with the boot script of the next run, or `INTERRUPTED` where nobody wanted the machine.
pub fn until_next(order: &str, arguments: &AgentArguments, printer: &Printer) -> ExitCode {
    let within = arguments.waiting.within.unwrap_or_default();
    let into = arguments.waiting.into.as_deref().unwrap_or(Path::new("next.sh"));
    let found = waited(order, within, arguments).and_then(|next| match next {
        Some(next) => std::fs::write(into, next.boot).map(|()| true).map_err(|error| Diagnostic::file(into, &error)),
        None => Ok(false),
    });
    match found {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(INTERRUPTED),
        Err(diagnostic) => printer.diagnostic(&diagnostic),
    }
}

/// A store that does not answer is asked again.
fn waited(order: &str, within: Duration, arguments: &AgentArguments) -> Result<Option<NextRun>, Diagnostic> {
    let layout = Layout::new(arguments.run.as_deref().unwrap_or_default()).map_err(Diagnostic::usage)?;
    let run = Run::new(Store::open(&arguments.store)?, layout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Diagnostic::unexpected)?;
    let (until, pause) = (Instant::now() + within, PAUSE.min(within / LOOKS));
    let next = runtime.block_on(async {
        loop {
            if let Ok(Some(next)) = run.next(order).await {
                return Some(next);
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(pause).await;
        }
    });
    Ok(next)
}
