//! `report --watch`: the page of all runs and one of each, written into a folder again and again. Static files: a bucket or a screen on a wall will do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use crate::finance::run_page;
use crate::running::agent::arguments::duration;
use crate::running::{idle, status};
use crate::runs::journal::{open_journal, unknown_run};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_launch::journal::RunRecord;
use gpuplan_report::page::html::{Living, living};
use gpuplan_report::page::overview::{self, SeenPrice, WatchedRun};
use gpuplan_report::page::run::{self as run_of, RunFacts};
use gpuplan_report::runs::RunLine;

/// The page that a server shows for a folder.
const INDEX: &str = "index.html";

#[derive(Debug, Args)]
pub struct WatchArguments {
    /// Write the pages of all runs, or that of the named one, into this folder again and again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "out", "plan"])]
    pub watch: Option<PathBuf>,
    /// Wait so long between two times of --watch
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = duration, requires = "watch")]
    pub every: Duration,
    /// Write the pages of --watch once, for a scheduler to repeat
    #[arg(long, requires = "watch")]
    pub once: bool,
}

/// Until somebody interrupts it; the page of one run, until that has ended.
pub fn run(
    folder: &Path,
    run: Option<&Path>,
    arguments: &WatchArguments,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let name = match run.map(Path::to_str) {
        None => None,
        Some(Some(name)) => Some(name),
        Some(None) => return Err(unknown_run(&run.unwrap_or(folder).display().to_string())),
    };
    fs::create_dir_all(folder).map_err(|error| Diagnostic::unwritten(folder, &error))?;
    let begun = Timestamp::now();
    let mut pages = Pages { folder, seconds: arguments.every.as_secs().max(1), ended: BTreeMap::new() };
    let mut is_first = true;
    loop {
        // A stated clock goes on from where it was stated.
        let now = session.now + Timestamp::now().duration_since(begun);
        match pages.write(name, &session.at(now)) {
            Ok(runs) => {
                if is_first {
                    let runs = overview::runs_of(runs);
                    session.printer.note(&format!("wrote {} ({runs})", folder.join(INDEX).display()));
                }
                if arguments.once || (name.is_some() && !pages.ended.is_empty()) {
                    return Ok(Exit::Done);
                }
                is_first = false;
            }
            Err(diagnostic) if is_first || arguments.once => return Err(diagnostic),
            // A store that is away for a minute must not end what a wall shows.
            Err(diagnostic) => {
                session.printer.warning(&format!("{}; the pages stay as they are", diagnostic.message));
            }
        }
        std::thread::sleep(arguments.every);
    }
}

struct Pages<'a> {
    folder: &'a Path,
    seconds: u64,
    /// Runs of which nothing changes any more, so that their stores are read once.
    ended: BTreeMap<String, RunFacts>,
}

impl Pages<'_> {
    /// How many runs they are of.
    fn write(&mut self, name: Option<&str>, session: &Session) -> Result<usize, Diagnostic> {
        let (list, failures) = status::look(name, session)?;
        for failure in failures {
            session.printer.note(&failure);
        }
        let journal = open_journal(session)?;
        let mut all = Vec::new();
        for line in list.runs() {
            let kept = journal.run(&line.run)?.filter(|_| line.submission.is_none());
            let facts = kept.as_ref().map(|kept| self.facts(kept, session)).transpose()?;
            let page = match (name, &facts) {
                (None, None) => None,
                (Some(run), None) => {
                    return Err(Diagnostic::usage(format!(
                        "`{run}` is a job of an engine, of whose machines nothing is known"
                    ))
                    .hint(format!("gpuplan status {run}")));
                }
                (Some(_), Some(_)) => Some(INDEX.to_owned()),
                (None, Some(_)) => Some(format!("run-{}.html", line.run)),
            };
            if let (Some(page), Some(facts)) = (&page, &facts) {
                let up = name.is_none().then_some(INDEX);
                let report = run_of::report(facts, session.now);
                self.put(page, &living(&report, Living { seconds: self.seconds, up }))?;
            }
            all.push(watched(line, kept.as_ref(), facts, page, session));
        }
        let runs = all.len();
        if name.is_none() {
            let newest = session.catalogs()?.market.newest();
            let report = overview::report(all, newest, session.now);
            self.put(INDEX, &living(&report, Living { seconds: self.seconds, up: None }))?;
        }
        Ok(runs)
    }

    fn facts(&mut self, kept: &RunRecord, session: &Session) -> Result<RunFacts, Diagnostic> {
        let run = &kept.spec.run;
        // A name may be used again once its first run is deleted.
        if let Some(known) = self.ended.get(run).filter(|known| known.started_at == kept.spec.started_at) {
            return Ok(known.clone());
        }
        let facts = run_page::facts(kept, session)?;
        if kept.end.is_some() {
            self.ended.insert(run.clone(), facts.clone());
        }
        Ok(facts)
    }

    /// Whole or not at all: whoever reads it meanwhile has the page of before.
    fn put(&self, page: &str, text: &str) -> Result<(), Diagnostic> {
        let (path, new) = (self.folder.join(page), self.folder.join(format!(".{page}.new")));
        let unwritten = |error: std::io::Error| Diagnostic::unwritten(&path, &error);
        fs::write(&new, text).map_err(unwritten)?;
        fs::rename(&new, &path).map_err(unwritten)
    }
}

fn watched(
    line: &RunLine,
    kept: Option<&RunRecord>,
    facts: Option<RunFacts>,
    page: Option<String>,
    session: &Session,
) -> WatchedRun {
    let team = kept.and_then(|kept| kept.spec.tags.iter().find(|(tag, _)| tag == "team"));
    let price = kept.and_then(|kept| kept.spec.expected.as_ref()).and_then(|expected| expected.prices.first());
    // A store that cannot be asked says nothing of its machines.
    let open = kept.filter(|kept| kept.end.is_none());
    let idle = open.and_then(|kept| idle::idle_machines(kept, session).ok().flatten());
    WatchedRun {
        line: line.clone(),
        facts,
        page,
        team: team.map(|(_, team)| team.clone()),
        idle,
        price: price.map(|price| SeenPrice { source: price.source.clone(), observed_at: price.observed_at }),
    }
}
