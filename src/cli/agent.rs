//! `agent`: wires the checkpoint-resume wrapper to the store, to this machine's notices and to the terminal.

mod sweep;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use regex_lite::Regex;

use crate::diagnostic::{Diagnostic, Exit};
use crate::printer::Printer;
use gpuplan_agent::rules::outcome::{AGENT_FAULT, FENCED, INTERRUPTED};
use gpuplan_agent::supervise::settings::{
    CheckpointSettings, NoticeSettings, ProgramSettings, StallSettings, TeamSettings,
};
use gpuplan_agent::supervise::{Fault, Settings, supervise};
use gpuplan_agent::{Caps, ClaimError, Data, Framework, NoticeSource, Notifier, OnStall, Place, Question, Signal};
use gpuplan_agent::{Stream, Talk};
use gpuplan_clouds::notices;
use gpuplan_clouds::webhook::Webhook;
use gpuplan_runstore::history::Keep;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::{HandOff, Run, Store, StoreError};
use gpuplan_telemetry::gpus::NVIDIA_SMI;
use gpuplan_units::money::MoneyError;
use gpuplan_units::{Hours, Seconds, Usd, UsdPerHour};
use gpuplan_workload::sweep::MOST_RUNS;

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
    /// What the command reads, fetched before it starts: a folder, s3://bucket/prefix, gs://bucket/prefix or az://container
    #[arg(long, value_name = "URI")]
    pub data: Option<String>,
    /// Where it goes; the command finds it as GPUPLAN_DATA_DIR
    #[arg(long, value_name = "DIR", default_value = "data", requires = "data")]
    pub data_folder: PathBuf,
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
    /// What asks the command to save and end: TERM, INT, HUP, USR1 or USR2
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal)]
    pub signal: Signal,
    /// Where notices of the machine's end are asked: auto, aws, gcp, azure or none
    #[arg(long, value_name = "CLOUD", default_value = "auto")]
    pub notices: String,
    /// A file whose appearance is a notice, too
    #[arg(long, value_name = "FILE")]
    pub notice_from: Option<PathBuf>,
    /// Most dollars for all machines of the run together; needs --rate
    #[arg(long, value_name = "USD")]
    pub budget: Option<String>,
    /// Price of this machine in dollars an hour
    #[arg(long, value_name = "USD")]
    pub rate: Option<String>,
    /// Stop after so long on this machine
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lifetime: Option<Duration>,
    /// What the launch of this machine agreed on: run, price, billing, limits. Options given here win
    #[arg(long, value_name = "FILE")]
    pub hand_off: Option<PathBuf>,
    /// Which of several machines this is, from 0; the first owns the run
    #[arg(long, value_name = "N", requires = "nodes")]
    pub node: Option<u32>,
    /// Machines that run together, each with an agent of its own
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Of the first machine, for the programs of all [default: that of its default route]
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
    /// Address that gets a JSON message on start, interruption and end, and at 50, 80 and 100 % of the budget
    #[arg(long, env = "GPUPLAN_NOTIFY", hide_env_values = true, value_name = "URL")]
    pub notify: Option<String>,
    /// Without a step, checkpoint, output or work of a processor for so long the program is stalled; 0: never
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    pub stall: Duration,
    /// What becomes of a stalled program: warn, stop (it saves and ends, as at a cap) or kill (which counts as a crash)
    #[arg(long, value_name = "WHAT", default_value = "warn", value_parser = on_stall)]
    pub on_stall: OnStall,
    /// Finds a metric in the output of the program; the first group is the number, as in 'loss: ([0-9.]+)'
    #[arg(long, value_name = "PATTERN", requires = "worth")]
    pub metric: Option<String>,
    /// Most dollars that one more percent of the metric is worth; beyond, stopping is advised. Needs --rate
    #[arg(long, value_name = "USD", requires = "metric")]
    pub worth: Option<String>,
    /// The metric improves as it grows
    #[arg(long)]
    pub higher_is_better: bool,
    /// Leave the program's output alone: it is not kept in the store
    #[arg(long)]
    pub no_logs: bool,
    /// Start from nothing where checkpoints are committed and none of them verifies
    #[arg(long)]
    pub restart_from_nothing: bool,
    /// Run when the agent has ended, whatever the outcome, as in 'shutdown -P now'
    #[arg(long, value_name = "COMMAND")]
    pub at_end: Option<String>,
    /// Between two signs of life in the store
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub heartbeat: Duration,
    /// Pause before the first start after a crash, doubled with each
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub backoff: Duration,
    /// Take the run over at once: nobody else runs it
    #[arg(long)]
    pub force: bool,
    /// The program that tells of NVIDIA GPUs
    #[arg(long, hide = true, value_name = "PROGRAM", default_value = NVIDIA_SMI)]
    pub nvidia_smi: String,
    /// Run the command so many times, each as a run of its own with the index GPUPLAN_SWEEP_INDEX, from 0
    #[arg(long, value_name = "RUNS", conflicts_with_all = ["nodes", "metric"], value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RUNS)))]
    pub sweep: Option<u32>,
    /// Runs of a sweep beside each other, each on GPUs of its own [default: 1]
    #[arg(long, value_name = "N", requires = "sweep", value_parser = clap::value_parser!(u32).range(1..))]
    pub parallel: Option<u32>,
    /// GPUs of each, whole ones or a share such as 1/2 [default: 1]
    #[arg(long, value_name = "GPUS", requires = "sweep")]
    pub gpus_per_run: Option<String>,
    /// Carry the runs of a sweep: what the agent of the sweep runs in place of the command
    #[arg(long, hide = true, requires = "sweep")]
    pub carry: bool,
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

    fn pass(&self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Out => self.pass_out(bytes),
            Stream::Err => self.pass_err(bytes),
        }
    }
}

/// The program with this one command, written as in the whole program.
#[derive(Debug, Parser)]
#[command(name = "gpuplan", version, about = "Runs a training command so that nothing committed is lost")]
struct Alone {
    #[command(subcommand)]
    command: Only,
}

#[derive(Debug, Subcommand)]
enum Only {
    /// Run a command, restore and keep its checkpoints, and hear notices
    Agent(Box<AgentArguments>),
}

/// Runs the program that has no other command.
pub fn alone() -> ExitCode {
    match Alone::try_parse() {
        Ok(Alone { command: Only::Agent(arguments) }) => run(&arguments, false, &Printer),
        Err(error) => Printer.clap(&error),
    }
}

/// Runs the command to its end. The exit code is the command's, or one of the agent's own (docs/agent.md).
pub fn run(arguments: &AgentArguments, offline: bool, printer: &Printer) -> ExitCode {
    if arguments.carry {
        return sweep::carried(arguments, printer);
    }
    let hand_off = match arguments.hand_off.as_deref().map(read_hand_off).transpose() {
        Ok(hand_off) => hand_off,
        Err(diagnostic) => {
            printer.diagnostic(&diagnostic);
            return diagnostic.exit.into();
        }
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
        let runtime = runtime.map_err(|error| Diagnostic::unexpected(&error))?;
        let outcome = runtime.block_on(supervise(settings, Arc::new(*printer)));
        // A read that hangs must not hold up the end.
        runtime.shutdown_background();
        Ok(outcome)
    });
    match outcome {
        Ok(Ok(outcome)) => ExitCode::from(outcome.code()),
        Ok(Err(fault)) => {
            let diagnostic = Diagnostic::new(Exit::Unexpected, fault.to_string());
            printer.diagnostic(&match fault {
                Fault::NothingVerifies(_) => diagnostic.hint(
                    "look at runs/RUN/events in the store; gpuplan agent --restart-from-nothing ... gives them up",
                ),
                _ => diagnostic,
            });
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
        Fault::Staging(error) if error.is_for_now() => INTERRUPTED,
        Fault::Store(StoreError::Unavailable { .. })
        | Fault::Claim(ClaimError::Store(StoreError::Unavailable { .. })) => INTERRUPTED,
        _ => AGENT_FAULT,
    }
}

fn read_hand_off(file: &Path) -> Result<HandOff, Diagnostic> {
    let wrong = |error: &dyn std::error::Error| Diagnostic::new(Exit::Usage, format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    HandOff::read(&text).map_err(|error| wrong(&error))
}

fn settings(arguments: &AgentArguments, hand_off: Option<&HandOff>, offline: bool) -> Result<Settings, Diagnostic> {
    let wrong = |error: &dyn std::error::Error| Diagnostic::new(Exit::Usage, error.to_string());
    let refuse = |error: String| Diagnostic::new(Exit::Usage, error);
    let here = std::env::current_dir().map_err(|error| Diagnostic::unexpected(&error))?;
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
        if offline { Vec::new() } else { notices::sources(&arguments.notices).map_err(refuse)? };
    Ok(Settings {
        run: Run::new(store, layout),
        store: arguments.store.clone(),
        program: ProgramSettings {
            command: arguments.command.clone(),
            carrier,
            signal: arguments.signal,
            grace: arguments.grace,
            first_pause: arguments.backoff,
            keep_output: !arguments.no_logs,
        },
        data: data(arguments, &here, offline)?,
        checkpoints: CheckpointSettings {
            folder: here.join(&arguments.checkpoints),
            framework: arguments.framework,
            settle: arguments.settle,
            keep: Keep { last: arguments.keep_last, every: arguments.keep_every },
            restart_from_nothing: arguments.restart_from_nothing,
        },
        team: TeamSettings {
            rank: place(arguments, hand_off)?,
            address: arguments.address,
            heartbeat: arguments.heartbeat,
            force: arguments.force,
            machine: arguments.machine.clone(),
        },
        caps,
        stall: StallSettings {
            after: Some(arguments.stall).filter(|stall| !stall.is_zero()),
            action: arguments.on_stall,
        },
        notices: NoticeSettings { sources: notices, file: arguments.notice_from.clone() },
        notifier: notifier(arguments, hand_off, offline)?,
        improvement: question(arguments, caps)?,
        nvidia_smi: arguments.nvidia_smi.clone(),
    })
}

/// Whether anything lies there is asked when the run is owned, so that the answer is told where the run is looked after.
fn data(arguments: &AgentArguments, here: &Path, offline: bool) -> Result<Option<Data>, Diagnostic> {
    let Some(address) = &arguments.data else { return Ok(None) };
    in_reach(address, "the data", offline)?;
    let folder =
        std::path::absolute(here.join(&arguments.data_folder)).map_err(|error| Diagnostic::unexpected(&error))?;
    Ok(Some(Data { address: address.clone(), folder }))
}

fn in_reach(address: &str, what: &str, offline: bool) -> Result<(), Diagnostic> {
    if offline && address.contains("://") && !address.starts_with("file://") {
        let why = format!("{what} is in the network, which --offline (or GPUPLAN_OFFLINE) forbids");
        return Err(Diagnostic::new(Exit::Usage, why));
    }
    Ok(())
}

fn caps(arguments: &AgentArguments, hand_off: Option<&HandOff>) -> Result<Caps, Diagnostic> {
    let wrong = |error: MoneyError| Diagnostic::new(Exit::Usage, error.to_string());
    let budget = arguments.budget.as_deref().map(Usd::parse).transpose().map_err(wrong)?;
    let rate = arguments.rate.as_deref().map(UsdPerHour::parse).transpose().map_err(wrong)?;
    if rate.is_some_and(|rate| rate.nanos() == 0) {
        return Err(Diagnostic::new(Exit::Usage, "--rate 0 is no price; leave it out if it is not known"));
    }
    let rate = rate.or_else(|| hand_off.and_then(|hand_off| hand_off.rate_usd_per_hour));
    let budget = budget.or_else(|| hand_off.and_then(|hand_off| hand_off.budget_usd));
    if budget.is_some() && rate.is_none() {
        return Err(Diagnostic::new(Exit::Usage, "a budget needs --rate: without a price nobody knows what is spent"));
    }
    let agreed = hand_off.and_then(|hand_off| hand_off.lifetime_seconds).map(Duration::from_secs);
    let billing = hand_off.map(|hand_off| hand_off.billing).unwrap_or_default();
    Ok(Caps { budget, rate, billing, lifetime: arguments.lifetime.or(agreed) })
}

fn place(arguments: &AgentArguments, hand_off: Option<&HandOff>) -> Result<Place, Diagnostic> {
    let node = arguments.node.or(hand_off.map(|hand_off| hand_off.node)).unwrap_or(0);
    let nodes = arguments.nodes.or(hand_off.map(|hand_off| hand_off.nodes)).unwrap_or(1);
    if node >= nodes {
        return Err(Diagnostic::new(
            Exit::Usage,
            format!("--node {node} is none of --nodes {nodes}, which count from 0"),
        ));
    }
    Ok(Place { node, nodes })
}

fn question(arguments: &AgentArguments, caps: Caps) -> Result<Option<Question>, Diagnostic> {
    let Some((metric, limit)) = arguments.metric.as_deref().zip(arguments.worth.as_deref()) else { return Ok(None) };
    let metric = Regex::new(metric).map_err(|error| Diagnostic::new(Exit::Usage, format!("--metric: {error}")))?;
    if metric.captures_len() < 2 {
        return Err(Diagnostic::new(Exit::Usage, "--metric needs a group around the number, as in 'loss: ([0-9.]+)'"));
    }
    if caps.rate.is_none() {
        return Err(Diagnostic::new(
            Exit::Usage,
            "--worth needs --rate: without a price nobody knows what an improvement costs",
        ));
    }
    let limit = Usd::parse(limit).map_err(|error| Diagnostic::new(Exit::Usage, error.to_string()))?;
    Ok(Some(Question { metric, higher_is_better: arguments.higher_is_better, limit }))
}

fn notifier(
    arguments: &AgentArguments,
    hand_off: Option<&HandOff>,
    offline: bool,
) -> Result<Option<Arc<dyn Notifier>>, Diagnostic> {
    let url = arguments.notify.as_deref().or(hand_off.and_then(|hand_off| hand_off.notify.as_deref()));
    let Some(url) = url.filter(|_| !offline) else { return Ok(None) };
    let webhook = Webhook::new(url).map_err(|error| Diagnostic::new(Exit::Usage, error))?;
    Ok(Some(Arc::new(webhook)))
}

const ON_STALL: [(&str, OnStall); 3] = [("warn", OnStall::Warn), ("stop", OnStall::Stop), ("kill", OnStall::Kill)];

fn on_stall(text: &str) -> Result<OnStall, String> {
    let found = ON_STALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, what)| *what).ok_or_else(|| "say warn, stop or kill".to_owned())
}

/// Signals that a program can take as a wish to save. The others kill it or mean something else.
const SIGNALS: [(&str, Signal); 5] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

fn signal(text: &str) -> Result<Signal, String> {
    let named = text.strip_prefix("SIG").unwrap_or(text);
    let found = SIGNALS.iter().find(|(name, _)| *name == named);
    found.map(|(_, signal)| *signal).ok_or_else(|| "say TERM, INT, HUP, USR1 or USR2".to_owned())
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
