//! Arguments of `profile run` and `profile trace`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use gpuplan_telemetry::gpus::NVIDIA_SMI;
use gpuplan_units::{Hours, Seconds};

#[derive(Debug, Args)]
pub struct RunArguments {
    /// Sample the counters this often
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Find steps in the log with this regular expression, which has a group named step, seconds, milliseconds or rate
    #[arg(long, value_name = "PATTERN")]
    pub steps: Option<String>,
    /// Name the workload that the command runs, for measured MFU and for `plan --profile`
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Write the profile to this file
    #[arg(long, value_name = "FILE", default_value = "gpuplan-profile.json")]
    pub out: PathBuf,
    /// Also write every sample to this file as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// Also keep the latest sample in this file for Prometheus (node_exporter's textfile collector)
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Also write a TensorBoard event file into this folder
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// Also write a run into the MLflow database of this folder (mlflow.db)
    #[arg(long, value_name = "DIR")]
    pub mlflow: Option<PathBuf>,
    /// Query NVIDIA GPUs with this program
    #[arg(long, value_name = "PROGRAM", hide = true, default_value = NVIDIA_SMI)]
    pub nvidia_smi: String,
    /// Run this training command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TraceArguments {
    /// Read this trace
    pub file: PathBuf,
    /// Name the workload that was traced, for measured MFU and for `plan --profile`
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// State the GPUs of the run, such as H100:8, where the trace does not
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
    if !(0.1..=3600.0).contains(&seconds) {
        return Err(format!("`{text}` is not a valid interval; try 500ms or 10s, from 0.1s to 1h"));
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
