//! `Smi`: one long-lived `nvidia-smi` that prints counters at a fixed pace, read by a thread of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::telemetry::samples::GpuSample;
use crate::telemetry::smi_text::{FIELDS, line, links};
use crate::workload::profile::Links;

/// A running `nvidia-smi` and what it last said of each GPU.
pub struct Smi {
    child: Child,
    latest: Arc<Mutex<Vec<GpuSample>>>,
}

impl Smi {
    /// `program` is `nvidia-smi`, or what stands for it in a test. The error says why no GPU can be read.
    pub fn start(program: &str, interval: Duration) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.arg(format!("--query-gpu={}", FIELDS.join(","))).arg("--format=csv,noheader,nounits");
        command.arg(format!("--loop-ms={}", interval.as_millis().max(1)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no {program}"),
            _ => format!("{program} cannot be started: {error}"),
        })?;
        let Some(output) = child.stdout.take() else { return Err(format!("{program} has no output")) };
        let latest = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&latest);
        // It ends with the output, that is with the child.
        std::thread::spawn(move || {
            for text in BufReader::new(output).lines().map_while(Result::ok) {
                let Some(gpu) = line(&text) else { continue };
                let mut known = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match known.iter_mut().find(|known: &&mut GpuSample| known.index == gpu.index) {
                    Some(known) => *known = gpu,
                    None => known.push(gpu),
                }
            }
        });
        Ok(Self { child, latest })
    }

    /// What it last said; nothing before its first line.
    pub fn latest(&self) -> Vec<GpuSample> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it still runs; a machine without a driver ends it at once.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Smi {
    fn drop(&mut self) {
        // One that ended by itself needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How the GPUs of this machine reach each other.
pub fn topology(program: &str) -> Option<Links> {
    let output = Command::new(program).args(["topo", "-m"]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    links(&String::from_utf8_lossy(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    #[test]
    fn lines_of_the_child_become_samples_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("nvidia-smi");
        let script = "#!/bin/sh\nwhile :; do echo '0, Fake GPU, 50, 20, 100, 1000, 10, 20, 30, 900, 1000, 0x1'; sleep 0.05; done\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut smi = Smi::start(program.to_str().unwrap(), Duration::from_millis(50)).unwrap();
        let begun = Instant::now();
        while smi.latest().is_empty() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(smi.is_running());
        assert_eq!(smi.latest()[0].busy, Some(0.5));
    }

    #[test]
    fn a_machine_without_it_says_so() {
        assert_eq!(Smi::start("/nonexistent/nvidia-smi", Duration::from_secs(1)).err().unwrap(), "there is no /nonexistent/nvidia-smi");
    }
}
