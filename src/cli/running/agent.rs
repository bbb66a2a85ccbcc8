//! `agent`: wires the checkpoint-resume wrapper to the store, to this machine's notices and to the terminal.

pub mod arguments;
mod sweep;
mod waiting;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{Parser, Subcommand};
use regex_lite::Regex;

use crate::running::agent::arguments::{AgentArguments, CheckpointArguments};
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use gpuplan_agent::rules::outcome::{AGENT_FAULT, FENCED, INTERRUPTED};
use gpuplan_agent::supervise::settings::{
    CheckpointSettings, LeaseSettings, NoticeSettings, ProgramSettings, StallSettings, TeamSettings,
};
use gpuplan_agent::supervise::{AgentError, Settings, supervise};
use gpuplan_agent::watch::renewals;
use gpuplan_agent::{Caps, ClaimError, Data, Logger, MetricQuestion, NoticeSource, Notifier, Rank, Stream};
use gpuplan_clouds::notices;
use gpuplan_clouds::reader::Reader;
use gpuplan_runstore::history::Keep;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::{HandOff, LeaseTerm, Run, Store, StoreError};
use gpuplan_units::money::MoneyError;
use gpuplan_units::{Usd, UsdPerHour};

impl Logger for Printer {
    fn say(&self, line: &str) {
        self.note(&format!("gpuplan: {line}"));
    }

    fn pass(&self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Out => self.pass(bytes, false),
            Stream::Err => self.pass(bytes, true),
        }
    }
}

/// The program with this one command, written as in the whole program.
#[derive(Debug, Parser)]
#[command(name = "gpuplan", version, about = "Run a training command so that no checkpoint is lost")]
struct Alone {
    #[command(subcommand)]
    command: Only,
}

#[derive(Debug, Subcommand)]
enum Only {
    /// Run a training command so that no checkpoint is lost: restore, upload, react to interruption notices, resume
    Agent(Box<AgentArguments>),
}

/// Runs the program that has no other command.
pub fn alone() -> ExitCode {
    match Alone::try_parse() {
        Ok(Alone { command: Only::Agent(arguments) }) => run(&arguments, false, &Printer::default()),
        Err(error) => Printer::default().clap(&error),
    }
}

/// Runs the command to its end. The exit code is the command's, or one of the agent's own (docs/agent.md).
pub fn run(arguments: &AgentArguments, offline: bool, printer: &Printer) -> ExitCode {
    if arguments.sweeping.carry {
        return sweep::carried(arguments, printer);
    }
    if let Some(order) = &arguments.waiting.await_next {
        return waiting::until_next(order, arguments, printer);
    }
    let hand_off = match arguments.hand_off.as_deref().map(read_hand_off).transpose() {
        Ok(hand_off) => hand_off,
        Err(diagnostic) => return printer.diagnostic(&diagnostic),
    };
    let code = supervised(arguments, hand_off.as_ref(), offline, printer);
    if let Some(command) =
        arguments.at_end.as_deref().or(hand_off.as_ref().and_then(|hand_off| hand_off.at_end.as_deref()))
    {
        let ended = std::process::Command::new("sh").args(["-c", command]).status();
        if !ended.is_ok_and(|status| status.success()) {
            printer.warning("the command of --at-end failed; this machine may go on costing money");
        }
    }
    code
}

fn supervised(arguments: &AgentArguments, hand_off: Option<&HandOff>, offline: bool, printer: &Printer) -> ExitCode {
    let outcome = settings(arguments, hand_off, offline).and_then(|settings| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(Diagnostic::unexpected)?;
        let outcome = runtime.block_on(supervise(settings, Arc::new(*printer)));
        // A read that hangs must not hold up the end.
        runtime.shutdown_background();
        Ok(outcome)
    });
    match outcome {
        Ok(Ok(outcome)) => ExitCode::from(outcome.code()),
        Ok(Err(fault)) => {
            let diagnostic = Diagnostic::unexpected(fault.to_string());
            printer.diagnostic(&match fault {
                AgentError::NothingVerifies(_) => diagnostic.hint(
                    "look at runs/RUN/events in the store; gpuplan agent --restart-from-nothing ... gives them up",
                ),
                _ => diagnostic,
            });
            ExitCode::from(code_of(&fault))
        }
        Err(diagnostic) => printer.diagnostic(&diagnostic),
    }
}

/// Where the store is only away, another machine may have more luck.
fn code_of(fault: &AgentError) -> u8 {
    match fault {
        AgentError::Claim(ClaimError::Alive { .. } | ClaimError::Deposed { .. }) => FENCED,
        AgentError::Staging(error) if error.is_for_now() => INTERRUPTED,
        AgentError::Store(StoreError::Unavailable { .. })
        | AgentError::Claim(ClaimError::Store(StoreError::Unavailable { .. })) => INTERRUPTED,
        _ => AGENT_FAULT,
    }
}

fn read_hand_off(file: &Path) -> Result<HandOff, Diagnostic> {
    let wrong = |error: &dyn std::error::Error| Diagnostic::usage(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    HandOff::read(&text).map_err(|error| wrong(&error))
}

fn settings(arguments: &AgentArguments, hand_off: Option<&HandOff>, offline: bool) -> Result<Settings, Diagnostic> {
    let wrong = |error: &dyn std::error::Error| Diagnostic::usage(error);
    let refuse = |error: String| Diagnostic::usage(error);
    let here = std::env::current_dir().map_err(Diagnostic::unexpected)?;
    let folder_name = || here.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let given = arguments
        .run
        .clone()
        .filter(|name| !name.is_empty())
        .or_else(|| hand_off.and_then(|hand_off| hand_off.run.clone()));
    let layout = Layout::new(&given.unwrap_or_else(folder_name));
    let layout = layout.map_err(|error| wrong(&error).hint("gpuplan agent --store URI --run NAME -- COMMAND"))?;
    in_reach(&arguments.store, "the store", offline)?;
    let store = Store::open(&arguments.store).map_err(|error| wrong(&error))?;
    let caps = caps(arguments, hand_off)?;
    let carrier = sweep::carrier(arguments, layout.run())?;
    let notices: Vec<Arc<dyn NoticeSource>> =
        if offline { Vec::new() } else { notices::sources(&arguments.notice.notices).map_err(refuse)? };
    let job = (arguments.saving.checkpoints.is_none() && carrier.is_none()).then(|| here.clone());
    let CheckpointArguments { checkpoints: _, framework, settle, keep_last, keep_every, restart_from_nothing } =
        &arguments.saving;
    Ok(Settings {
        run: Run::new(store, layout),
        store: arguments.store.clone(),
        program: ProgramSettings {
            command: arguments.command.clone(),
            carrier,
            signal: arguments.notice.signal,
            grace: arguments.notice.grace,
            first_pause: (!arguments.no_restart).then_some(arguments.backoff),
            keep_output: !arguments.no_logs,
        },
        data: data(arguments, &here, offline)?,
        checkpoints: CheckpointSettings {
            folder: here.join(arguments.saving.folder()),
            job,
            framework: *framework,
            settle: *settle,
            keep: Keep { last: *keep_last, every: *keep_every },
            restart_from_nothing: *restart_from_nothing,
        },
        team: TeamSettings {
            rank: rank(arguments, hand_off)?,
            ordered_by: hand_off.and_then(|hand_off| hand_off.ordered_by.clone()),
            address: arguments.team.address,
            heartbeat: arguments.heartbeat,
            force: arguments.force,
            machine: arguments.machine.clone(),
        },
        caps,
        lease: lease(hand_off, caps)?,
        stall: StallSettings {
            after: Some(arguments.stalls.stall).filter(|stall| !stall.is_zero()),
            action: arguments.stalls.on_stall,
        },
        notices: NoticeSettings { sources: notices, file: arguments.notice.notice_from.clone() },
        notifier: notifier(arguments, hand_off, offline)?,
        improvement: question(arguments, caps)?,
        nvidia_smi: arguments.nvidia_smi.clone(),
    })
}

/// Whether there is data at the address is checked once the run is owned, so that the answer is in its log.
pub fn data(arguments: &AgentArguments, here: &Path, offline: bool) -> Result<Option<Data>, Diagnostic> {
    let Some(address) = &arguments.input.data else { return Ok(None) };
    in_reach(address, "the data", offline)?;
    let folder = std::path::absolute(here.join(&arguments.input.data_folder)).map_err(Diagnostic::unexpected)?;
    Ok(Some(Data { address: address.clone(), folder }))
}

fn in_reach(address: &str, what: &str, offline: bool) -> Result<(), Diagnostic> {
    if offline && address.contains("://") && !address.starts_with("file://") {
        let why = format!("{what} is in the network, which --offline (or GPUPLAN_OFFLINE) forbids");
        return Err(Diagnostic::usage(why));
    }
    Ok(())
}

fn caps(arguments: &AgentArguments, hand_off: Option<&HandOff>) -> Result<Caps, Diagnostic> {
    let wrong = |error: MoneyError| Diagnostic::usage(error);
    let budget = arguments.spending.budget.as_deref().map(Usd::parse).transpose().map_err(wrong)?;
    let rate = arguments.spending.rate.as_deref().map(UsdPerHour::parse).transpose().map_err(wrong)?;
    if rate.is_some_and(|rate| rate.nanos() == 0) {
        return Err(Diagnostic::usage("0 is not a valid price for --rate; leave it out if the price is unknown"));
    }
    let rate = rate.or_else(|| hand_off.and_then(|hand_off| hand_off.rate_usd_per_hour));
    let budget = budget.or_else(|| hand_off.and_then(|hand_off| hand_off.budget_usd));
    if budget.is_some() && rate.is_none() {
        return Err(Diagnostic::usage("a budget needs --rate: without a price, spending cannot be counted"));
    }
    let agreed = hand_off.and_then(|hand_off| hand_off.lifetime_seconds).map(Duration::from_secs);
    let billing = hand_off.map(|hand_off| hand_off.billing).unwrap_or_default();
    let machine_ends = arguments.ends_at.map(until);
    Ok(Caps { budget, rate, billing, lifetime: arguments.spending.lifetime.or(agreed), machine_ends })
}

/// A machine that was granted a share lives on it term by term.
fn lease(hand_off: Option<&HandOff>, caps: Caps) -> Result<Option<LeaseSettings>, Diagnostic> {
    let agreed = hand_off.and_then(|hand_off| hand_off.lease.clone()).zip(caps.machine_ends);
    let Some((LeaseTerm { order, term_seconds, file }, share_ends)) = agreed else { return Ok(None) };
    let file = std::path::absolute(file).map_err(Diagnostic::unexpected)?;
    let wrong = |error| Diagnostic::usage(format!("{}, which says when this lease ends: {error}", file.display()));
    let ends = renewals::end_of(&file).map_err(wrong)?;
    Ok(Some(LeaseSettings { order, term: Duration::from_secs(term_seconds), ends, share_ends, file }))
}

/// From now until that second since 1970.
fn until(second: u64) -> Duration {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(second).saturating_sub(since_1970)
}

fn rank(arguments: &AgentArguments, hand_off: Option<&HandOff>) -> Result<Rank, Diagnostic> {
    let node = arguments.team.node.or(hand_off.map(|hand_off| hand_off.node)).unwrap_or(0);
    let nodes = arguments.team.nodes.or(hand_off.map(|hand_off| hand_off.nodes)).unwrap_or(1);
    if node >= nodes {
        return Err(Diagnostic::usage(format!("--node {node} is none of --nodes {nodes}, which count from 0")));
    }
    Ok(Rank { node, nodes })
}

fn question(arguments: &AgentArguments, caps: Caps) -> Result<Option<MetricQuestion>, Diagnostic> {
    let Some((metric, limit)) = arguments.spending.metric.as_deref().zip(arguments.spending.worth.as_deref()) else {
        return Ok(None);
    };
    let metric = Regex::new(metric).map_err(|error| Diagnostic::usage(format!("--metric: {error}")))?;
    if metric.captures_len() < 2 {
        return Err(Diagnostic::usage("--metric needs a group around the number, as in 'loss: ([0-9.]+)'"));
    }
    if caps.rate.is_none() {
        return Err(Diagnostic::usage("--worth needs --rate: without a price, the cost of an improvement is unknown"));
    }
    let limit = Usd::parse(limit).map_err(Diagnostic::usage)?;
    Ok(Some(MetricQuestion { metric, higher_is_better: arguments.spending.higher_is_better, limit }))
}

fn notifier(
    arguments: &AgentArguments,
    hand_off: Option<&HandOff>,
    offline: bool,
) -> Result<Option<Arc<dyn Notifier>>, Diagnostic> {
    let url = arguments.notify.as_deref().or(hand_off.and_then(|hand_off| hand_off.notify.as_deref()));
    let Some(url) = url.filter(|_| !offline) else { return Ok(None) };
    Ok(Some(Arc::from(Reader::parse(url).and_then(Reader::notifier).map_err(Diagnostic::usage)?)))
}
