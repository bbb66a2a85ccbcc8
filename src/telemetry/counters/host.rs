//! Reads the counters of a process, of all that descend from it and of the machine from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::Instant;

use crate::counters::host_text::{
    Counters, KernelUnits, parse_io, parse_net_dev, parse_stat, process_family, rates_between,
};
use crate::samples::HostSample;

/// Counters of a run, from one look to the next.
pub struct HostCounters {
    root: i32,
    begun: Instant,
    last: Counters,
    units: KernelUnits,
    strangers: UnrelatedProcesses,
}

/// Processes that do not belong to a family, so that a look reads only the family and who is new. A machine with hundreds of cores has
/// thousands of processes of its own, and to read them all every few seconds takes one percent of a core (14 us each, measured).
///
/// Who is no descendant never becomes one. That a number is used again by one between two looks goes unnoticed, so nothing that has
/// to be exact may rest on this.
#[derive(Clone, Debug, Default)]
pub struct UnrelatedProcesses(BTreeSet<i32>);

impl UnrelatedProcesses {
    /// Numbers of all processes that may belong to the family.
    pub fn others(&mut self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all: BTreeSet<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        self.0.retain(|pid| all.contains(pid));
        all.difference(&self.0).copied().collect()
    }

    /// All that were read and are not of the family.
    pub fn learn(&mut self, read: impl Iterator<Item = i32>, family: &BTreeSet<i32>) {
        self.0.extend(read.filter(|pid| !family.contains(pid)));
    }
}

impl HostCounters {
    /// Of the process `root` and its family.
    pub fn new(root: i32) -> Self {
        let units = KernelUnits {
            ticks_per_second: rustix::param::clock_ticks_per_second() as f64,
            page_bytes: rustix::param::page_size() as f64,
        };
        let (begun, mut strangers) = (Instant::now(), UnrelatedProcesses::default());
        let last = read(root, 0.0, &mut strangers);
        Self { root, begun, last, units, strangers }
    }

    /// What happened since the last look.
    pub fn look(&mut self) -> HostSample {
        let now = read(self.root, self.begun.elapsed().as_secs_f64(), &mut self.strangers);
        let sample = rates_between(&self.last, &now, self.units);
        self.last = now;
        sample
    }
}

/// Cores that this process, and so its children, may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

fn read(root: i32, at_seconds: f64, strangers: &mut UnrelatedProcesses) -> Counters {
    let pids = strangers.others().into_iter();
    // A process may end between two reads; it is then simply not there.
    let mut all: BTreeMap<i32, _> = pids
        .filter_map(|pid| Some((pid, parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect();
    let parents = all.iter().map(|(pid, process)| (*pid, process.parent)).collect();
    let family = process_family(root, &parents);
    strangers.learn(all.keys().copied(), &family);
    all.retain(|pid, process| {
        family.contains(pid)
            && match fs::read_to_string(format!("/proc/{pid}/io")) {
                Ok(text) => {
                    process.disk = parse_io(&text);
                    true
                }
                Err(error) => error.kind() != io::ErrorKind::NotFound,
            }
    });
    let network = fs::read_to_string("/proc/net/dev").ok().and_then(|text| parse_net_dev(&text));
    Counters { at_seconds, processes: all, network }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_busy_child_is_seen_at_work() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut counters = HostCounters::new(child.id() as i32);
        // On a loaded machine it may wait long for its turn.
        let patience = Instant::now() + Duration::from_mins(1);
        let sample = loop {
            std::thread::sleep(Duration::from_millis(400));
            let sample = counters.look();
            if sample.cores_used > 0.05 || Instant::now() > patience {
                break sample;
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(sample.cores_used > 0.05 && sample.cores_used < 2.0, "{sample:?}");
        assert!(sample.memory_bytes > 0.0 && sample.processes[0].0 == "sh");
    }

    #[test]
    fn who_is_born_after_the_first_look_belongs_to_the_family() {
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "read go; sleep 600 & echo born; wait"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut counters = HostCounters::new(child.id() as i32);
        assert_eq!(counters.last.processes.len(), 1);
        assert!(counters.strangers.0.contains(&(std::process::id() as i32)));
        io::Write::write_all(&mut child.stdin.take().unwrap(), b"go\n").unwrap();
        io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut [0; 5]).unwrap();
        counters.look();
        let family: Vec<i32> = counters.last.processes.keys().copied().collect();
        assert_eq!(family.len(), 2, "{family:?}");
        for pid in family {
            std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        }
        child.wait().unwrap();
    }
}
