//! Arguments of `agent`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use gpuplan_agent::{Framework, OnStall, Signal};
use gpuplan_clouds::notices;
use gpuplan_telemetry::gpus::NVIDIA_SMI;
use gpuplan_units::{Hours, Seconds};
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

pub const ON_STALL: [(&str, OnStall); 3] = [("warn", OnStall::Warn), ("stop", OnStall::Stop), ("kill", OnStall::Kill)];

pub fn on_stall(text: &str) -> Result<OnStall, String> {
    let found = ON_STALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, what)| *what).ok_or_else(|| "say warn, stop or kill".to_owned())
}

/// Signals that a program can take as a wish to save. The others kill it or mean something else.
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
