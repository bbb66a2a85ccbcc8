//! `Smi`: one long-lived `nvidia-smi` that prints counters at a fixed pace, read by a thread of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::telemetry::samples::GpuSample;
use crate::telemetry::smi_text::{line, links, queries, refuses_a_field};
use crate::workload::profile::Links;

/// A running `nvidia-smi` and what it last said of each GPU.
pub struct Smi {
    child: Arc<Mutex<Running>>,
    latest: Arc<Mutex<Vec<GpuSample>>>,
}

struct Running {
    child: Child,
    /// Nobody listens any more: nothing is to be started.
    is_over: bool,
}

impl Smi {
    /// `program` is `nvidia-smi`, or what stands for it in a test. The error says why no GPU can be read.
    pub fn start(program: &str, interval: Duration) -> Result<Self, String> {
        let [usual, newer] = queries();
        let (child, output) = spawn(program, &usual, interval)?;
        let child = Arc::new(Mutex::new(Running { child, is_over: false }));
        let latest = Arc::new(Mutex::new(Vec::new()));
        let (running, shared, program) = (Arc::clone(&child), Arc::clone(&latest), program.to_owned());
        // It ends with the output, that is with the child.
        std::thread::spawn(move || {
            if !read(output, &shared) {
                return;
            }
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            if running.is_over {
                return;
            }
            let Ok((child, output)) = spawn(&program, &newer, interval) else { return };
            // The first has ended; it is only collected.
            let _ = std::mem::replace(&mut running.child, child).wait();
            drop(running);
            read(output, &shared);
        });
        Ok(Self { child, latest })
    }

    /// What it last said; nothing before its first line.
    pub fn latest(&self) -> Vec<GpuSample> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it still runs; a machine without a driver ends it at once.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.lock().unwrap_or_else(PoisonError::into_inner).child.try_wait(), Ok(None))
    }
}

impl Drop for Smi {
    fn drop(&mut self) {
        let mut running = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        running.is_over = true;
        // One that ended by itself needs no end.
        let _ = running.child.kill();
        let _ = running.child.wait();
    }
}

fn spawn(program: &str, query: &str, interval: Duration) -> Result<(Child, ChildStdout), String> {
    let mut command = Command::new(program);
    command.arg(format!("--query-gpu={query}")).arg("--format=csv,noheader,nounits");
    command.arg(format!("--loop-ms={}", interval.as_millis().max(1)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no {program}"),
        _ => format!("{program} cannot be started: {error}"),
    })?;
    let output = child.stdout.take().ok_or_else(|| format!("{program} has no output"))?;
    Ok((child, output))
}

/// Takes up lines until they end; whether the program did not know a field.
fn read(output: ChildStdout, latest: &Mutex<Vec<GpuSample>>) -> bool {
    let mut is_refused = false;
    for text in BufReader::new(output).lines().map_while(Result::ok) {
        is_refused |= refuses_a_field(&text);
        let Some(gpu) = line(&text) else { continue };
        let mut known = latest.lock().unwrap_or_else(PoisonError::into_inner);
        match known.iter_mut().find(|known| known.index == gpu.index) {
            Some(known) => *known = gpu,
            None => known.push(gpu),
        }
    }
    is_refused
}

/// How the GPUs of this machine reach each other.
pub fn topology(program: &str) -> Option<Links> {
    let output = Command::new(program).args(["topo", "-m"]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    links(&String::from_utf8_lossy(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// What a script in the place of `nvidia-smi` made known of the first GPU.
    fn heard(script: &str) -> GpuSample {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("nvidia-smi");
        // Written by a process of its own: a file that this one holds open for writing cannot be run by a child of another test.
        let write = ["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod +x \"$2\"", "sh", script, program.to_str().unwrap()];
        assert!(Command::new("sh").args(write).status().unwrap().success());
        let mut smi = Smi::start(program.to_str().unwrap(), Duration::from_millis(50)).unwrap();
        let begun = Instant::now();
        while smi.latest().is_empty() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(smi.is_running());
        smi.latest().remove(0)
    }

    const LINES: &str = "while :; do echo '0, Fake GPU, 50, 20, 100, 1000, 10, 20, 30, 900, 1000, 0x1'; sleep 0.05; done";

    #[test]
    fn lines_of_the_child_become_samples_until_it_is_dropped() {
        assert_eq!(heard(LINES).busy, Some(0.5));
    }

    #[test]
    fn a_driver_that_knows_only_the_newer_name_is_asked_by_it() {
        let refusal = "echo 'Field \"clocks_throttle_reasons.active\" is not a valid field to query.'; exit 2";
        let script = format!("case \"$1\" in *throttle*) {refusal};; esac\n{LINES}");
        assert_eq!(heard(&script).throttle_reasons, Some(1));
    }

    #[test]
    fn a_machine_without_it_says_so() {
        assert_eq!(Smi::start("/nonexistent/nvidia-smi", Duration::from_secs(1)).err().unwrap(), "there is no /nonexistent/nvidia-smi");
    }
}
