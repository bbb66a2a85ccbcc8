//! `Smi`: one long-lived `nvidia-smi` that prints counters at a fixed pace, read by a thread of its own; where there is NVLink,
//! a second thread asks for what goes over it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::counters::nvlink::{LinkRates, link_bytes};
use crate::counters::smi_text::{parse_links, parse_sample, queries, refuses_a_field};
use crate::samples::GpuSample;
use gpuplan_workload::profile::Links;

/// A running `nvidia-smi` and the last sample of each GPU.
pub struct Smi {
    child: Arc<Mutex<Running>>,
    latest: Arc<Mutex<Vec<GpuSample>>>,
    links: Arc<Mutex<LinkRates>>,
}

struct Running {
    child: Child,
    /// The one that is being asked for the links.
    asked: Option<Child>,
    /// Nobody listens any more: nothing is to be started.
    is_over: bool,
}

impl Smi {
    /// `program` is `nvidia-smi`, or what stands for it in a test. Links are asked for by a process of its own each time, which an
    /// agent that runs for days does without. The error says why no GPU can be read.
    pub fn start(program: &str, interval: Duration, asks_for_links: bool) -> Result<Self, String> {
        let [usual, newer] = queries();
        let (child, output) = spawn(program, &usual, interval)?;
        let child = Arc::new(Mutex::new(Running { child, asked: None, is_over: false }));
        let latest = Arc::new(Mutex::new(Vec::new()));
        let links = Arc::new(Mutex::new(LinkRates::default()));
        if asks_for_links {
            let (asking, rates, asked) = (Arc::clone(&child), Arc::clone(&links), program.to_owned());
            std::thread::spawn(move || watch_links(&asked, interval.max(LINK_PACE), &asking, &rates));
        }
        let (running, shared, program) = (Arc::clone(&child), Arc::clone(&latest), program.to_owned());
        // It ends with the output, that is with the child.
        std::thread::spawn(move || {
            if !read(output, &shared) {
                return;
            }
            let mut running = locked(&running);
            if running.is_over {
                return;
            }
            let Ok((child, output)) = spawn(&program, &newer, interval) else { return };
            // The first has ended; it is only collected.
            let _ = std::mem::replace(&mut running.child, child).wait();
            drop(running);
            read(output, &shared);
        });
        Ok(Self { child, latest, links })
    }

    /// What it last said; nothing before its first line.
    pub fn latest(&self) -> Vec<GpuSample> {
        let mut samples = locked(&self.latest).clone();
        let links = locked(&self.links);
        for gpu in &mut samples {
            gpu.nvlink_bytes_per_second = links.rate(gpu.index);
        }
        samples
    }

    /// Whether it still runs; a machine without a driver ends it at once.
    pub fn is_running(&mut self) -> bool {
        matches!(locked(&self.child).child.try_wait(), Ok(None))
    }
}

impl Drop for Smi {
    fn drop(&mut self) {
        let mut running = locked(&self.child);
        running.is_over = true;
        // One that ended by itself needs no end.
        let _ = running.child.kill();
        let _ = running.child.wait();
        if let Some(asked) = &mut running.asked {
            let _ = asked.kill();
        }
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Links are asked for no more often: each time a process starts, which takes a core a part of a second.
const LINK_PACE: Duration = Duration::from_secs(1);
/// More than any machine's links print.
const LARGEST_ANSWER: u64 = 1 << 20;

/// Asks until nobody listens any more, or until no GPU has a link.
fn watch_links(program: &str, pace: Duration, running: &Mutex<Running>, rates: &Mutex<LinkRates>) {
    let begun = Instant::now();
    while let Some(text) = ask_for_links(program, running) {
        let counters = link_bytes(&text);
        if counters.is_empty() {
            return;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let mut rates = locked(rates);
        for (gpu, bytes) in counters {
            rates.record(gpu, seconds, bytes);
        }
        drop(rates);
        std::thread::sleep(pace);
    }
}

/// `None`: nobody listens, or the program cannot be asked.
fn ask_for_links(program: &str, running: &Mutex<Running>) -> Option<String> {
    let mut output = {
        let mut running = locked(running);
        if running.is_over {
            return None;
        }
        let mut command = Command::new(program);
        command.args(["nvlink", "-gt", "d"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let output = child.stdout.take();
        running.asked = Some(child);
        output?
    };
    let mut text = String::new();
    let read = output.by_ref().take(LARGEST_ANSWER).read_to_string(&mut text);
    drop(output);
    let mut asked = locked(running).asked.take()?;
    // One that prints on and on is not waited for.
    let _ = asked.kill();
    let _ = asked.wait();
    read.ok().map(|_| text)
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
        let Some(gpu) = parse_sample(&text) else { continue };
        let mut known = locked(latest);
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
    parse_links(&String::from_utf8_lossy(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A script in the place of `nvidia-smi`.
    fn written(folder: &std::path::Path, script: &str) -> String {
        let program = folder.join("nvidia-smi").to_str().unwrap().to_owned();
        // Written by a process of its own: a file that this one holds open for writing cannot be run by a child of another test.
        let write = ["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod +x \"$2\"", "sh", script, &program];
        assert!(Command::new("sh").args(write).status().unwrap().success());
        program
    }

    /// What a script in the place of `nvidia-smi` made known of the first GPU.
    fn heard(script: &str) -> GpuSample {
        let folder = tempfile::tempdir().unwrap();
        let mut smi = Smi::start(&written(folder.path(), script), Duration::from_millis(50), false).unwrap();
        let begun = Instant::now();
        while smi.latest().is_empty() && begun.elapsed() < Duration::from_mins(3) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(smi.is_running());
        smi.latest().remove(0)
    }

    const LINES: &str =
        "while :; do echo '0, Fake GPU, 50, 20, 100, 1000, 10, 20, 30, 900, 1000, 0x1'; sleep 0.05; done";

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
    fn what_goes_over_the_links_is_asked_for_again_and_again() {
        // A counter that grows by 1000 KiB a second in either direction; at what pace it is seen to grow, the machine decides.
        let links = "case \"$1\" in nvlink) echo 'GPU 0: Fake GPU (UUID: GPU-0)'; at=$(date +%s%3N); \
            echo \" Link 0: Data Tx: $at KiB\"; echo \" Link 0: Data Rx: $at KiB\"; exit 0;; esac";
        let folder = tempfile::tempdir().unwrap();
        let program = written(folder.path(), &format!("{links}\n{LINES}"));
        let smi = Smi::start(&program, Duration::from_millis(50), true).unwrap();
        let begun = Instant::now();
        let mut rate = None;
        while rate.is_none() && begun.elapsed() < Duration::from_mins(3) {
            std::thread::sleep(Duration::from_millis(20));
            rate = smi.latest().first().and_then(|gpu| gpu.nvlink_bytes_per_second);
        }
        assert!(rate.is_some_and(|rate| rate.is_finite() && rate > 0.0), "{rate:?}");
    }

    #[test]
    fn a_machine_without_it_says_so() {
        assert_eq!(
            Smi::start("/nonexistent/nvidia-smi", Duration::from_secs(1), true).err().unwrap(),
            "there is no /nonexistent/nvidia-smi"
        );
    }
}
