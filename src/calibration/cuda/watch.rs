//! `Watch`: one long-lived `nvidia-smi` beside the suite, whose lines become `Readings`. Where there is none, nothing is known.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use crate::readings::{Readings, query};

pub struct Watch {
    child: Option<Child>,
    reader: Option<JoinHandle<Readings>>,
    readings: Readings,
}

impl Watch {
    /// Before anything is allocated. `gpu` is a PCI bus id, so that hidden devices do not shift the count.
    pub fn start(gpu: &str) -> Self {
        let mut readings = Readings::before(
            &once(gpu, "--query-compute-apps=pid", "csv,noheader"),
            &once(gpu, "--query-gpu=memory.used", "csv,noheader,nounits"),
        );
        // A bit field in hexadecimal, where the driver knows the newer word.
        let newer = once(gpu, "--query-gpu=clocks_event_reasons.active", "csv,noheader").trim().starts_with("0x");
        let query = query(if newer { "clocks_event_reasons" } else { "clocks_throttle_reasons" });
        let mut command = Command::new("nvidia-smi");
        command.args(["-i", gpu, &format!("--query-gpu={query}"), "--format=csv,noheader,nounits", "--loop-ms=200"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = child else { return Self { child: None, reader: None, readings } };
        let known = readings.clone();
        let reader = child.stdout.take().map(|lines| {
            thread::spawn(move || {
                BufReader::new(lines).lines().map_while(Result::ok).for_each(|line| readings.add(&line));
                readings
            })
        });
        Self { child: Some(child), reader, readings: known }
    }

    /// Ends the watching with the first call.
    pub fn readings(&mut self) -> Readings {
        self.stop();
        if let Some(Ok(found)) = self.reader.take().map(JoinHandle::join) {
            self.readings = found;
        }
        self.readings.clone()
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Such as `550.54.15`: the driver itself, beside the version of CUDA that it speaks.
pub fn of_driver(gpu: &str) -> Option<String> {
    let text = once(gpu, "--query-gpu=driver_version", "csv,noheader");
    let version = text.lines().next().unwrap_or_default().trim();
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

/// One answer of `nvidia-smi`; empty where it cannot answer.
fn once(gpu: &str, query: &str, format: &str) -> String {
    let mut command = Command::new("nvidia-smi");
    let output = command.args(["-i", gpu, query, &format!("--format={format}")]).stdin(Stdio::null()).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}
