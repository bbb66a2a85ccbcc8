//! `logs`: what a run printed, all of it or only its end, with no more of it fetched than is shown.

use clap::Args;
use jiff::Timestamp;
use regex_lite::Regex;

use crate::running::engine_jobs::{self, FOLLOW};
use crate::runs::agent_reports;
use crate::runs::journal::find_run;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::runtime::runtime;
use gpuplan_runstore::output::{BATCH, Seen};
use gpuplan_units::{Hours, Seconds};

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
    /// Begin with the last N lines
    #[arg(short = 'n', long, value_name = "N")]
    pub tail: Option<usize>,
    /// Begin with what was said after a time, such as 30m (ago) or 2026-11-23T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Show only lines that match
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<String>,
}

pub fn run(arguments: &LogsArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let grep = arguments.grep.as_deref().map(Regex::new).transpose();
    let grep = grep.map_err(|error| Diagnostic::usage(format!("--grep: {error}")).hint("--grep 'loss: [0-9.]+'"))?;
    let since = arguments.since.as_deref().map(|text| moment(text, session.now)).transpose()?;
    if engine_jobs::is_submitted(&arguments.run, session)? {
        if arguments.tail.is_some() || since.is_some() || grep.is_some() {
            let why = "the engine's own client shows this output, which --tail, --since and --grep do not know";
            return Err(Diagnostic::usage(why).hint(format!("gpuplan logs {} | grep ...", arguments.run)));
        }
        return engine_jobs::logs(&arguments.run, arguments.node, arguments.follow, session);
    }
    let mut kept = find_run(&arguments.run, session)?;
    let (store, runtime) = (agent_reports::run_or_part(&kept, arguments.index)?, runtime()?);
    let (mut seen, mut tail, mut lines) = (Seen::default(), arguments.tail, Lines { grep, begun: Vec::new() });
    loop {
        // Its state is read before its output, so that the last output is not missed.
        let is_over = kept.end.is_some();
        let mut chunks = runtime.block_on(store.new_output(arguments.node, &mut seen))?;
        chunks.retain(|chunk| since.is_none_or(|since| chunk.sent_seconds >= since.as_second()));
        if let Some(count) = tail.take() {
            let text = runtime.block_on(store.last_lines(&chunks, count, |line| lines.is_wanted(line)))?;
            session.printer.data(&lines.shown(&text))?;
        } else {
            for batch in chunks.chunks(BATCH) {
                let text = runtime.block_on(store.output_of(batch))?.concat();
                session.printer.data(&lines.shown(&text))?;
            }
        }
        if is_over || !arguments.follow {
            return session.printer.data(&lines.rest());
        }
        std::thread::sleep(FOLLOW);
        kept = find_run(&arguments.run, session)?;
    }
}

/// `30m` ago, or a moment.
fn moment(text: &str, now: Timestamp) -> Result<Timestamp, Diagnostic> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let wrong = || {
        Diagnostic::usage(format!("`{text}` is not a time")).hint("--since 30m").hint("--since 2026-11-23T18:00:00Z")
    };
    let ago = Hours::parse(text).map_err(|_| wrong())?;
    let ago = jiff::SignedDuration::try_from_secs_f64(Seconds::from(ago).0).map_err(|_| wrong())?;
    now.checked_sub(ago).map_err(|_| wrong())
}

/// Which lines are shown.
struct Lines {
    grep: Option<Regex>,
    /// A line that is not whole yet, where only whole ones can be matched.
    begun: Vec<u8>,
}

impl Lines {
    fn is_wanted(&self, line: &[u8]) -> bool {
        self.grep
            .as_ref()
            .is_none_or(|grep| grep.is_match(String::from_utf8_lossy(line).trim_end_matches(['\n', '\r'])))
    }

    /// Without a pattern everything is shown at once.
    fn shown(&mut self, text: &[u8]) -> String {
        if self.grep.is_none() {
            return String::from_utf8_lossy(text).into_owned();
        }
        self.begun.extend_from_slice(text);
        let whole = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let begun = self.begun.split_off(whole);
        let lines = std::mem::replace(&mut self.begun, begun);
        self.matching(&lines)
    }

    fn matching(&self, text: &[u8]) -> String {
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| self.is_wanted(line));
        String::from_utf8_lossy(&lines.flatten().copied().collect::<Vec<u8>>()).into_owned()
    }

    /// A last line without an end.
    fn rest(&mut self) -> String {
        let begun = std::mem::take(&mut self.begun);
        self.matching(&begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_moment_or_so_long_ago() {
        let now: Timestamp = "2026-11-23T18:00:00Z".parse().unwrap();
        assert_eq!(moment("30m", now).unwrap().to_string(), "2026-11-23T17:30:00Z");
        assert_eq!(moment("2026-11-23T01:02:03Z", now).unwrap().to_string(), "2026-11-23T01:02:03Z");
        for wrong in ["", "soon", "-5m"] {
            assert!(moment(wrong, now).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pattern_sees_whole_lines_wherever_the_output_is_cut() {
        let mut lines = Lines { grep: Some(Regex::new("^loss").unwrap()), begun: Vec::new() };
        assert_eq!(lines.shown(b"step 1\nlo"), "");
        assert_eq!(lines.shown(b"ss: 2\nno loss\nloss: 1"), "loss: 2\n");
        assert_eq!(lines.rest(), "loss: 1");
    }
}
