//! Processes of this machine: who we are, who descends from us, and the end of a whole tree, orphans in other sessions included.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::process::control_group::{ControlGroup, end_left_behind};
use gpuplan_runstore::Owner;
use gpuplan_telemetry::host::UnrelatedProcesses;

/// Variable that every process below an agent inherits, in whatever session: run, store, machine and agent.
pub const MARK: &str = "GPUPLAN_MARK";
/// Another after every start of the machine (random(4)).
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// Another in every container that counts its processes from 1 (pid_namespaces(7)).
const NAMESPACE: &str = "/proc/self/ns/pid";
/// A killed process is gone within milliseconds unless it waits for a broken disk.
const DIES_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// A row of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    /// Process group.
    group: i32,
    is_dead: bool,
    /// Of processor time, with that of its children that ended.
    ticks: u64,
    start_ticks: u64,
}

/// Processes that lose their parent become ours, so that none escapes by ending its session.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    {
        // Where the kernel refuses, a killed tree may leave orphans to the next agent, which finds them by their mark.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
}

/// This process, without a control group. `machine` replaces boot and namespace, for tests. An error where the kernel does not say
/// which boot and process this is: by a made-up answer two machines would take each other for the same.
pub fn myself(machine: Option<&str>) -> io::Result<Owner> {
    let named = |path: &str, error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
    let line =
        |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(|error| named(path, error));
    let boot = || {
        Ok::<_, io::Error>(format!(
            "{}/{}",
            line(BOOT)?,
            fs::read_link(NAMESPACE).map_err(|error| named(NAMESPACE, error))?.display()
        ))
    };
    let pid = std::process::id() as i32;
    let own = read_process(pid)
        .ok_or_else(|| io::Error::other("/proc/self/stat: it does not say when this process was started"))?;
    Ok(Owner {
        machine: machine.map_or_else(boot, |machine| Ok(machine.to_owned()))?,
        // Only people read it.
        host: line("/proc/sys/kernel/hostname").unwrap_or_else(|_| "a host without a name".to_owned()),
        pid,
        start_ticks: own.start_ticks,
        control_group: None,
    })
}

/// Whether this very process still runs, here.
pub fn is_alive(owner: &Owner) -> bool {
    is_running(owner.pid, owner.start_ticks)
}

pub fn is_running(pid: i32, start_ticks: u64) -> bool {
    read_process(pid).is_some_and(|process| !process.is_dead && process.start_ticks == start_ticks)
}

/// Kills everything that descends from this process or is in its control group, and waits until it is gone.
pub fn end_descendants(group: Option<&ControlGroup>) -> io::Result<()> {
    group.map_or(Ok(()), ControlGroup::end)?;
    end("processes below this one", descendants_of_this)
}

fn descendants_of_this() -> io::Result<Vec<Process>> {
    Ok(descendants(std::process::id() as i32, &without_tools(processes()?)))
}

/// What descends from this process in that process group, the dead left out.
pub fn group_members(group: i32) -> io::Result<Vec<i32>> {
    let below = descendants_of_this()?;
    Ok(below.iter().filter(|process| process.group == group).map(|process| process.pid).collect())
}

/// What this agent runs for itself, as `nvidia-smi`: its own children in its own process group. The program has another group,
/// and so has all that it starts.
fn without_tools(mut all: Vec<Process>) -> Vec<Process> {
    let (own, group) = (std::process::id() as i32, rustix::process::getpgrp().as_raw_nonzero().get());
    all.retain(|process| process.parent != own || process.group != group);
    all
}

/// Collects orphans that ended, except `ours` and the agent's own tools, whose end somebody waits for. Gives the processor time of
/// all that runs below this process: one look at the processes serves both.
pub fn tend(ours: Option<i32>, strangers: &mut UnrelatedProcesses) -> Duration {
    let own = std::process::id() as i32;
    let read: Vec<Process> = strangers.others().into_iter().filter_map(read_process).collect();
    let family = family_of(own, &read);
    strangers.learn(read.iter().map(|process| process.pid), &family);
    let all = without_tools(read);
    for process in all.iter().filter(|process| process.parent == own && process.is_dead && Some(process.pid) != ours) {
        if let Some(pid) = Pid::from_raw(process.pid) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
    // The kernel counts for programs in hundredths of a second on every architecture (proc_pid_stat(5), `sysconf(_SC_CLK_TCK)`).
    Duration::from_millis(descendants(own, &all).iter().map(|process| process.ticks).sum::<u64>() * 10)
}

/// Kills a former owner of the run on this machine, its control group, and everything that carries its mark or another of the
/// run (`prefix`).
pub fn end_predecessor(owner: Option<&Owner>, prefix: &str, own_mark: &str) -> io::Result<()> {
    let own = std::process::id() as i32;
    end("processes of the former owner", || {
        let is_former = |process: &Process| {
            let is_owner =
                owner.is_some_and(|owner| (owner.pid, owner.start_ticks) == (process.pid, process.start_ticks));
            is_owner || mark_of(process.pid).is_some_and(|mark| mark != own_mark && mark.starts_with(prefix))
        };
        Ok(processes()?
            .into_iter()
            .filter(|process| !process.is_dead && process.pid != own && is_former(process))
            .collect())
    })?;
    owner.and_then(|owner| owner.control_group.as_deref()).map_or(Ok(()), end_left_behind)
}

/// Kills what `find` finds until it finds nothing: while one is killed another may be born. A table that cannot be read is not empty.
fn end(what: &str, find: impl Fn() -> io::Result<Vec<Process>>) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        let found = find();
        let is_late = begun.elapsed() > DIES_WITHIN;
        match &found {
            Ok(found) if found.is_empty() => return Ok(()),
            Ok(found) if is_late => {
                let pids: Vec<i32> = found.iter().map(|process| process.pid).collect();
                return Err(io::Error::other(format!("{what} cannot be killed: {pids:?}")));
            }
            Err(error) if is_late => return Err(io::Error::other(format!("{what} cannot be found: /proc: {error}"))),
            Ok(found) => found.iter().for_each(kill),
            Err(_) => {}
        }
        std::thread::sleep(PAUSE);
    }
}

/// Kills this very process: its number may be another's by now, what a descriptor stands for may not.
#[cfg(target_os = "linux")]
fn kill(process: &Process) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    // Whoever ended meanwhile is what was wanted.
    let _ = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(_) if read_process(process.pid).is_none_or(|now| now.start_ticks != process.start_ticks) => Ok(()),
        Ok(descriptor) => pidfd_send_signal(descriptor, Signal::KILL),
        Err(_) => kill_process(pid, Signal::KILL),
    };
}

/// Elsewhere there is neither such a descriptor nor a `/proc` in which anybody could be found.
#[cfg(not(target_os = "linux"))]
fn kill(process: &Process) {
    let _ = Pid::from_raw(process.pid).map(|pid| kill_process(pid, Signal::KILL));
}

/// How often the kernel has killed for lack of memory since it started.
pub fn memory_kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")).and_then(|count| count.trim().parse().ok())
}

/// A process that ends while the table is read is not in it.
fn processes() -> io::Result<Vec<Process>> {
    let entries = fs::read_dir("/proc")?.collect::<io::Result<Vec<_>>>()?;
    Ok(entries.iter().filter_map(|entry| read_process(entry.file_name().to_str()?.parse().ok()?)).collect())
}

fn read_process(pid: i32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads a `stat` line (proc_pid_stat(5)). The name in brackets may hold spaces and brackets, so it is cut at the last one.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_whitespace().collect();
    let is_dead = matches!(*fields.first()?, "Z" | "X" | "x");
    let group = fields.get(2)?.parse().ok()?;
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group,
        is_dead,
        ticks,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

fn descendants(root: i32, all: &[Process]) -> Vec<Process> {
    let family = family_of(root, all);
    let is_below = |process: &&Process| process.pid != root && !process.is_dead && family.contains(&process.pid);
    all.iter().filter(is_below).copied().collect()
}

/// The process itself and all that descend from it.
fn family_of(root: i32, all: &[Process]) -> BTreeSet<i32> {
    let mut family = BTreeSet::from([root]);
    loop {
        let before = family.len();
        family.extend(
            all.iter()
                .filter(|process| family.contains(&process.parent))
                .map(|process| process.pid)
                .collect::<Vec<_>>(),
        );
        if family.len() == before {
            return family;
        }
    }
}

fn mark_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let name = format!("{MARK}=");
    let found = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(name.as_bytes()))?;
    Some(String::from_utf8_lossy(found).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name() {
        let line = "7 (a) b (c) S 3 9 7 0 -1 4194560 1 0 0 0 5 6 1 2 20 0 1 0 4242 1 1";
        assert_eq!(
            parse(7, line),
            Some(Process { pid: 7, parent: 3, group: 9, is_dead: false, ticks: 14, start_ticks: 4242 })
        );
        assert!(parse(7, &line.replace(" S ", " Z ")).unwrap().is_dead);
        for cut in ["", "7 (a", "7 (a) S", "7 (a) S x"] {
            assert_eq!(parse(7, cut), None, "{cut}");
        }
    }

    #[test]
    fn descendants_are_found_over_generations() {
        let process = |pid, parent| Process { pid, parent, group: 1, is_dead: pid == 9, ticks: 0, start_ticks: 0 };
        let all = [process(5, 4), process(4, 2), process(2, 1), process(3, 1), process(9, 5), process(6, 3)];
        assert_eq!(descendants(2, &all).iter().map(|process| process.pid).collect::<Vec<_>>(), [5, 4]);
    }

    #[test]
    fn this_process_is_alive_and_its_namesake_is_not() {
        let me = myself(None).unwrap();
        assert!(is_alive(&me) && me.machine.len() > 10);
        assert!(!is_alive(&Owner { start_ticks: me.start_ticks + 1, ..me }));
    }
}
