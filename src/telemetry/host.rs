//! Reads the counters of a process, of all that descend from it and of the machine from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use crate::telemetry::host_text::{Counters, KernelUnits, between, family, io, network, stat};
use crate::telemetry::samples::HostSample;

/// Counters of a run, from one look to the next.
pub struct HostCounters {
    root: i32,
    begun: Instant,
    last: Counters,
    units: KernelUnits,
}

impl HostCounters {
    /// Of the process `root` and its family.
    pub fn new(root: i32) -> Self {
        let units =
            KernelUnits { ticks_per_second: rustix::param::clock_ticks_per_second() as f64, page_bytes: rustix::param::page_size() as f64 };
        let begun = Instant::now();
        Self { root, begun, last: read(root, 0.0), units }
    }

    /// What happened since the last look.
    pub fn look(&mut self) -> HostSample {
        let now = read(self.root, self.begun.elapsed().as_secs_f64());
        let sample = between(&self.last, &now, self.units);
        self.last = now;
        sample
    }
}

/// Cores that this process, and so its children, may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

fn read(root: i32, at_seconds: f64) -> Counters {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // A process may end between two reads; it is then simply not there.
    let mut all: BTreeMap<i32, _> =
        pids.filter_map(|pid| Some((pid, stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect();
    let parents = all.iter().map(|(pid, process)| (*pid, process.parent)).collect();
    let family = family(root, &parents);
    all.retain(|pid, _| family.contains(pid));
    for (pid, process) in &mut all {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        (process.read_bytes, process.written_bytes) = io(&text);
    }
    let (received_bytes, sent_bytes) = network(&fs::read_to_string("/proc/net/dev").unwrap_or_default());
    Counters { at_seconds, processes: all, received_bytes, sent_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_child_is_seen_at_work() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut counters = HostCounters::new(child.id() as i32);
        std::thread::sleep(std::time::Duration::from_millis(400));
        let sample = counters.look();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(sample.cores_used > 0.05 && sample.cores_used < 2.0, "{sample:?}");
        assert!(sample.memory_bytes > 0.0 && sample.processes[0].0 == "sh");
    }
}
