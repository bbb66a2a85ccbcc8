//! `Watch`: one long-lived `nvidia-smi` beside the suite, whose lines become `Readings`. Where there is none, nothing is known.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use crate::calibration::readings::{QUERY, Readings};

pub struct Watch {
    child: Option<Child>,
    reader: Option<JoinHandle<Readings>>,
    readings: Readings,
}

impl Watch {
    /// `gpu` is a PCI bus id, so that hidden devices do not shift the count.
    pub fn start(gpu: &str) -> Self {
        let others = programs(gpu);
        let mut command = Command::new("nvidia-smi");
        command.args(["-i", gpu, &format!("--query-gpu={QUERY}"), "--format=csv,noheader,nounits", "--loop-ms=200"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = child else { return Self { child: None, reader: None, readings: Readings::default() } };
        let reader = child.stdout.take().map(|lines| {
            thread::spawn(move || {
                let mut readings = Readings { others, ..Readings::default() };
                BufReader::new(lines).lines().map_while(Result::ok).for_each(|line| readings.add(&line));
                readings
            })
        });
        Self { child: Some(child), reader, readings: Readings::default() }
    }

    /// Ends the watching with the first call.
    pub fn readings(&mut self) -> Readings {
        self.stop();
        if let Some(reader) = self.reader.take() {
            self.readings = reader.join().unwrap_or_default();
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

/// Programs that compute on the GPU before this one does.
fn programs(gpu: &str) -> u32 {
    let mut command = Command::new("nvidia-smi");
    command.args(["-i", gpu, "--query-compute-apps=pid", "--format=csv,noheader"]);
    let output = command.stdin(Stdio::null()).output();
    let own = std::process::id().to_string();
    let is_other = |line: &&str| line.trim().parse::<u32>().is_ok() && line.trim() != own;
    output.map_or(0, |output| String::from_utf8_lossy(&output.stdout).lines().filter(is_other).count() as u32)
}
