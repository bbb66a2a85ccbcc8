//! Arguments of `agent`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use gpuplan_agent::{Framework, OnStall, Signal};
use gpuplan_telemetry::gpus::NVIDIA_SMI;
use gpuplan_units::{Hours, Seconds};
use gpuplan_workload::training::sweep::MOST_RUNS;

/// Where a command saves that is not told otherwise.
const CHECKPOINTS: &str = "checkpoints";

#[derive(Debug, Args)]
pub struct AgentArguments {
    /// Keep checkpoints here: file:///folder, s3://bucket/prefix, gs://bucket/prefix or az://container
    #[arg(long, value_name = "URI")]
    pub store: String,
    /// Name the run in the store [default: the working folder's name]
    #[arg(long, env = "GPUPLAN_RUN_ID", value_name = "NAME")]
    pub run: Option<String>,
    #[command(flatten)]
    pub saving: CheckpointArguments,
    #[command(flatten)]
    pub input: DataArguments,
    #[command(flatten)]
    pub notice: NoticeArguments,
    #[command(flatten)]
    pub spending: SpendingArguments,
    #[command(flatten)]
    pub team: TeamArguments,
    #[command(flatten)]
    pub stalls: StallArguments,
    #[command(flatten)]
    pub sweeping: SweepArguments,
    #[command(flatten)]
    pub waiting: WaitingArguments,
    /// Read what the launch of this machine agreed on: run, price, limits. Options given here take precedence
    #[arg(long, value_name = "FILE")]
    pub hand_off: Option<PathBuf>,
    /// Send a JSON message to this address on start, interruption and end, and at 50, 80 and 100 % of the budget
    #[arg(long, env = "GPUPLAN_NOTIFY", hide_env_values = true, value_name = "URL")]
    pub notify: Option<String>,
    /// Do not keep the program's output in the store
    #[arg(long)]
    pub no_logs: bool,
    /// Run this when the agent has ended, whatever the outcome, as in 'shutdown -P now'
    #[arg(long, value_name = "COMMAND")]
    pub at_end: Option<String>,
    /// Write a heartbeat to the store this often
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub heartbeat: Duration,
    /// Pause this long before the first restart after a crash; each further pause is twice as long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub backoff: Duration,
    /// Do not start the command again after it has failed
    #[arg(long)]
    pub no_restart: bool,
    /// Take the run over at once, since no other machine runs it
    #[arg(long)]
    pub force: bool,
    /// Query NVIDIA GPUs with this program
    #[arg(long, hide = true, value_name = "PROGRAM", default_value = NVIDIA_SMI)]
    pub nvidia_smi: String,
    /// Have the command save and end in time before this second since 1970, when the machine ends itself
    #[arg(long, hide = true, value_name = "SECOND")]
    pub ends_at: Option<u64>,
    /// Stand for another machine
    #[arg(long, hide = true, value_name = "NAME")]
    pub machine: Option<String>,
    /// Run this training command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Which checkpoints are kept, and how they are recognized.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checkpoints")]
pub struct CheckpointArguments {
    /// Watch this folder, which the command saves its checkpoints to [default: checkpoints, or where it is seen to save]
    #[arg(long, value_name = "DIR")]
    pub checkpoints: Option<PathBuf>,
    /// Recognize complete checkpoints of this framework: auto, files, hf, lightning, dcp, deepspeed, megatron, orbax
    #[arg(long, default_value = "auto")]
    pub framework: Framework,
    /// Wait this long without a change before a checkpoint without a marker counts as complete
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub settle: Duration,
    /// Keep this many of the latest checkpoints in the store
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub keep_last: usize,
    /// Also keep every checkpoint whose step is a multiple of this
    #[arg(long, value_name = "STEPS", default_value_t = 0)]
    pub keep_every: u64,
    /// Start from scratch if checkpoints are committed and none of them verifies
    #[arg(long)]
    pub restart_from_nothing: bool,
}

impl CheckpointArguments {
    /// Where the command is told to save.
    pub fn folder(&self) -> &Path {
        self.checkpoints.as_deref().unwrap_or(Path::new(CHECKPOINTS))
    }
}

/// How a machine that stays after its run is told what it does next.
#[derive(Debug, Args)]
pub struct WaitingArguments {
    /// Wait for the next run of the machine of this order, and run nothing
    #[arg(long, hide = true, value_name = "TOKEN", requires_all = ["within", "into"])]
    pub await_next: Option<String>,
    /// Wait no longer than this
    #[arg(long, hide = true, value_name = "TIME", value_parser = duration)]
    pub within: Option<Duration>,
    /// Write the boot script of the next run here
    #[arg(long, hide = true, value_name = "FILE")]
    pub into: Option<PathBuf>,
}

/// What the command reads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
pub struct DataArguments {
    /// Fetch this data before the command starts: a folder, s3://bucket/prefix, gs://bucket/prefix or az://container
    #[arg(long, value_name = "URI")]
    pub data: Option<String>,
    /// Fetch the data into this folder; the command finds it in GPUPLAN_DATA_DIR
    #[arg(long, value_name = "DIR", default_value = "data", requires = "data")]
    pub data_folder: PathBuf,
}

/// How the end of the machine is noticed, and how the command is told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Interruptions")]
pub struct NoticeArguments {
    /// Allow this long to save and end after SIGTERM, SIGINT, SIGHUP or SIGUSR1, or at a cap; a cloud's notice states its own
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub grace: Duration,
    /// Ask the command to save and end with this signal: TERM, INT, HUP, USR1 or USR2
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal)]
    pub signal: Signal,
    /// Poll this cloud for interruption notices: auto, aws, gcp, azure or none
    #[arg(long, value_name = "CLOUD", default_value = "auto")]
    pub notices: String,
    /// Treat the appearance of this file as a notice, too
    #[arg(long, value_name = "FILE")]
    pub notice_from: Option<PathBuf>,
}

/// What the run may cost, and what an improvement is worth.
#[derive(Debug, Args)]
#[command(next_help_heading = "Spending")]
pub struct SpendingArguments {
    /// Spend at most this much on all machines of the run together; needs --rate
    #[arg(long, value_name = "USD")]
    pub budget: Option<String>,
    /// State the price of this machine in dollars an hour
    #[arg(long, value_name = "USD")]
    pub rate: Option<String>,
    /// Stop after this time on this machine
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lifetime: Option<Duration>,
    /// Find a metric in the output of the program; the first group is the number, as in 'loss: ([0-9.]+)'
    #[arg(long, value_name = "PATTERN", requires = "worth")]
    pub metric: Option<String>,
    /// Advise to stop once one more percent of the metric costs more than this; needs --rate
    #[arg(long, value_name = "USD", requires = "metric")]
    pub worth: Option<String>,
    /// Treat a higher metric as better
    #[arg(long)]
    pub higher_is_better: bool,
}

/// Which machine of several this is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several machines")]
pub struct TeamArguments {
    /// State which of several machines this is, from 0; the first owns the run
    #[arg(long, value_name = "N", requires = "nodes")]
    pub node: Option<u32>,
    /// Run together with this many machines, each with an agent of its own
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// State the address of the first machine, which all others connect to [default: that of its default route]
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
}

/// When a program counts as stalled, and what happens then.
#[derive(Debug, Args)]
#[command(next_help_heading = "Stalls")]
pub struct StallArguments {
    /// Consider the program stalled after this long without a step, checkpoint, output or CPU work; 0: never
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    pub stall: Duration,
    /// Choose what happens to a stalled program: warn, stop (it saves and ends, as at a cap) or kill (which counts as a crash)
    #[arg(long, value_name = "WHAT", default_value = "warn", value_parser = on_stall)]
    pub on_stall: OnStall,
}

/// The command many times, each as a run of its own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sweeps")]
pub struct SweepArguments {
    /// Run the command this many times, each as a run of its own with the index GPUPLAN_SWEEP_INDEX, from 0
    #[arg(long, value_name = "RUNS", conflicts_with_all = ["nodes", "metric"], value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RUNS)))]
    pub sweep: Option<u32>,
    /// Run this many of a sweep at a time, each on GPUs of its own [default: 1]
    #[arg(long, value_name = "N", requires = "sweep", value_parser = clap::value_parser!(u32).range(1..))]
    pub parallel: Option<u32>,
    /// Give each run this many GPUs, or a share such as 1/2 [default: 1]
    #[arg(long, value_name = "GPUS", requires = "sweep")]
    pub gpus_per_run: Option<String>,
    /// Carry the runs of a sweep: what the agent of the sweep runs in place of the command
    #[arg(long, hide = true, requires = "sweep")]
    pub carry: bool,
}

pub const ON_STALL: [(&str, OnStall); 3] = [("warn", OnStall::Warn), ("stop", OnStall::Stop), ("kill", OnStall::Kill)];

pub fn on_stall(text: &str) -> Result<OnStall, String> {
    let found = ON_STALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, what)| *what).ok_or_else(|| format!("`{text}` is not a valid action; try warn, stop or kill"))
}

/// Signals that a program can take as a request to save. The others kill it or mean something else.
pub const SIGNALS: [(&str, Signal); 5] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

pub fn signal(text: &str) -> Result<Signal, String> {
    let named = text.strip_prefix("SIG").unwrap_or(text);
    let found = SIGNALS.iter().find(|(name, _)| *name == named);
    found
        .map(|(_, signal)| *signal)
        .ok_or_else(|| format!("`{text}` is not a valid signal; try TERM, INT, HUP, USR1 or USR2"))
}

/// `90s`, `10m`, `36h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    // A bare number would be hours, which nobody means for a heartbeat.
    if text.trim().parse::<f64>().is_ok_and(|number| number != 0.0) {
        return Err(format!("`{text}` has no unit; try 90s, 10m or 36h"));
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
