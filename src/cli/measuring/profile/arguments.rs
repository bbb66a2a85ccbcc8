//! Arguments of `profile run` and `profile trace`.

use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::question::workload;
use gpuplan_telemetry::gpus::NVIDIA_SMI;
use gpuplan_units::{Hours, Seconds};

#[derive(Debug, Args)]
pub struct RunArguments {
    /// Between two looks at the counters
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// How a step looks in the log, as a regular expression with a group named step, seconds, milliseconds or rate
    #[arg(long, value_name = "PATTERN")]
    pub steps: Option<String>,
    /// The workload that the command is, for measured MFU and for `plan --profile`
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Where the profile is written
    #[arg(long, value_name = "FILE", default_value = "gpuplan-profile.json")]
    pub out: PathBuf,
    /// Also write every sample as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// Also keep the last sample in a file for Prometheus (node_exporter's textfile collector)
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Also write an event file for TensorBoard
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// Also write a run into MLflow's file store
    #[arg(long, value_name = "DIR")]
    pub mlflow: Option<PathBuf>,
    /// The program that tells of NVIDIA GPUs
    #[arg(long, value_name = "PROGRAM", hide = true, default_value = NVIDIA_SMI)]
    pub nvidia_smi: String,
    /// The training command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TraceArguments {
    /// The trace
    pub file: PathBuf,
    /// The workload that was traced, for measured MFU and for `plan --profile`
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// GPU and count of the run, such as H100:8, where the trace does not say
    #[arg(short, long = "gpus", visible_alias = "gpu", value_name = "GPUS")]
    pub gpus: Option<String>,
    /// Also write the profile to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// At least a tenth of a second: `nvidia-smi` itself needs some of it.
fn interval(text: &str) -> Result<Duration, String> {
    let hours = Hours::parse(text).map_err(|error| error.to_string())?;
    let seconds = Seconds::from(hours).0;
    if text.trim().parse::<f64>().is_ok() || !(0.1..=3600.0).contains(&seconds) {
        return Err("say a time from 0.1s to 1h, with its unit".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_a_unit_and_a_sane_length() {
        assert_eq!(
            [interval("500ms"), interval("0.5s")],
            [Ok(Duration::from_millis(500)), Ok(Duration::from_millis(500))]
        );
        for text in ["1", "0.01s", "2h", "", "soon"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
