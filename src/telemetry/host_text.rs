//! Texts of `/proc` as counters, and two readings of them as a sample.

use std::collections::{BTreeMap, BTreeSet};

use crate::samples::HostSample;

/// Counters of one process (`proc_pid_stat(5)`, `proc_pid_io(5)`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessCounters {
    pub parent: i32,
    pub name: String,
    /// User and system time. Ticks.
    pub ticks: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub resident_pages: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Seconds of any clock that does not jump.
    pub at_seconds: f64,
    pub processes: BTreeMap<i32, ProcessCounters>,
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// What the kernel counts in.
#[derive(Clone, Copy, Debug)]
pub struct KernelUnits {
    pub ticks_per_second: f64,
    pub page_bytes: f64,
}

/// Reads `/proc/PID/stat`. The name in brackets may hold brackets and spaces, so it is cut at the last one.
pub fn stat(text: &str) -> Option<ProcessCounters> {
    let (head, tail) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(ProcessCounters {
        parent: fields.get(1)?.parse().ok()?,
        name,
        minor_faults: number(7)?,
        major_faults: number(9)?,
        ticks: number(11)?.saturating_add(number(12)?),
        resident_pages: number(21)?,
        ..ProcessCounters::default()
    })
}

/// Bytes really read and written, of `/proc/PID/io`.
pub fn io(text: &str) -> (u64, u64) {
    let of = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok()).unwrap_or(0)
    };
    (of("read_bytes"), of("write_bytes"))
}

/// Bytes received and sent by all interfaces but loopback, of `/proc/net/dev`.
pub fn network(text: &str) -> (u64, u64) {
    let mut sums = (0_u64, 0_u64);
    for (name, counters) in text.lines().filter_map(|line| line.split_once(':')) {
        if name.trim() == "lo" {
            continue;
        }
        let fields: Vec<u64> = counters.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        sums.0 = sums.0.saturating_add(fields.first().copied().unwrap_or(0));
        sums.1 = sums.1.saturating_add(fields.get(8).copied().unwrap_or(0));
    }
    sums
}

/// The process and all that descend from it.
pub fn family(root: i32, parents: &BTreeMap<i32, i32>) -> BTreeSet<i32> {
    let mut family = BTreeSet::from([root]);
    loop {
        let before = family.len();
        let children: Vec<i32> =
            parents.iter().filter(|(_, parent)| family.contains(parent)).map(|(pid, _)| *pid).collect();
        family.extend(children);
        if family.len() == before {
            return family;
        }
    }
}

/// What happened between two readings. A process that ended between them takes its last share with it.
pub fn between(earlier: &Counters, later: &Counters, units: KernelUnits) -> HostSample {
    let seconds = (later.at_seconds - earlier.at_seconds).max(1e-3);
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
    let mut cores: BTreeMap<&str, f64> = BTreeMap::new();
    let mut sample = HostSample::default();
    for (pid, now) in &later.processes {
        let none = ProcessCounters::default();
        // A number may be given to a new process; its counters then begin anew.
        let then = earlier.processes.get(pid).filter(|then| then.ticks <= now.ticks).unwrap_or(&none);
        let used = rate(now.ticks, then.ticks) / units.ticks_per_second;
        sample.cores_used += used;
        *cores.entry(&now.name).or_default() += used;
        sample.minor_faults_per_second += rate(now.minor_faults, then.minor_faults);
        sample.major_faults_per_second += rate(now.major_faults, then.major_faults);
        sample.disk_read_bytes_per_second += rate(now.read_bytes, then.read_bytes);
        sample.disk_write_bytes_per_second += rate(now.written_bytes, then.written_bytes);
        sample.memory_bytes += now.resident_pages as f64 * units.page_bytes;
    }
    sample.network_receive_bytes_per_second = rate(later.received_bytes, earlier.received_bytes);
    sample.network_send_bytes_per_second = rate(later.sent_bytes, earlier.sent_bytes);
    sample.processes = cores.into_iter().map(|(name, used)| (name.to_owned(), used)).collect();
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "42 (pt data) worker) S 7 42 42 0 -1 4194560 100 0 3 0 250 50 0 0 20 0 1 0 4242 1000000 512 18446744073709551615";
    const UNITS: KernelUnits = KernelUnits { ticks_per_second: 100.0, page_bytes: 4096.0 };

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let found = stat(STAT).unwrap();
        assert_eq!((found.parent, found.name.as_str(), found.ticks), (7, "pt data) worker", 300));
        assert_eq!((found.minor_faults, found.major_faults, found.resident_pages), (100, 3, 512));
        assert_eq!(stat("42 (x) S"), None);
    }

    #[test]
    fn bytes_of_disk_and_network_are_read() {
        assert_eq!(io("rchar: 9\nwchar: 8\nsyscr: 1\nread_bytes: 4096\nwrite_bytes: 512\n"), (4096, 512));
        let text = "Inter-|   Receive\n face |bytes\n    lo: 99 1 0 0 0 0 0 0 99 1 0 0 0 0 0 0\n  eth0: 1000 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n";
        assert_eq!(network(text), (1000, 200));
    }

    #[test]
    fn two_readings_become_rates() {
        let process = |ticks| ProcessCounters {
            name: "python".to_owned(),
            ticks,
            resident_pages: 10,
            ..ProcessCounters::default()
        };
        let at = |at_seconds, processes: &[(i32, u64)], received_bytes| Counters {
            at_seconds,
            processes: processes.iter().map(|(pid, ticks)| (*pid, process(*ticks))).collect(),
            received_bytes,
            sent_bytes: 0,
        };
        // Process 2 is new; process 3 took the number of one that had used more.
        let sample = between(&at(0.0, &[(1, 100), (3, 500)], 0), &at(2.0, &[(1, 300), (2, 50), (3, 50)], 4000), UNITS);
        assert!((sample.cores_used - 1.5).abs() < 1e-12, "{}", sample.cores_used);
        assert_eq!(sample.network_receive_bytes_per_second, 2000.0);
        assert_eq!(sample.memory_bytes, 3.0 * 40_960.0);
        assert_eq!(sample.processes, [("python".to_owned(), 1.5)]);
    }

    #[test]
    fn a_family_spans_generations() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1)]);
        assert_eq!(family(2, &parents), BTreeSet::from([2, 3, 4]));
    }

    proptest! {
        #[test]
        fn counters_of_any_process_are_read_whatever_it_is_called(
            (name, parent) in ("\\PC{0,15}", any::<i32>()),
            (user, system) in (any::<u64>(), any::<u64>()),
            (minor_faults, major_faults, resident_pages) in any::<(u64, u64, u64)>(),
        ) {
            let line = format!(
                "42 ({name}) S {parent} 42 42 0 -1 4194560 {minor_faults} 0 {major_faults} 0 {user} {system} 0 0 20 0 1 0 4242 1 {resident_pages} 1"
            );
            let ticks = user.saturating_add(system);
            let read = ProcessCounters { parent, name, ticks, minor_faults, major_faults, resident_pages, ..ProcessCounters::default() };
            prop_assert_eq!(stat(&line), Some(read));
        }

        #[test]
        fn bytes_are_read_from_their_lines_alone(bytes in any::<[u64; 4]>(), other in "[a-z]{1,8}") {
            let [read, written, received, sent] = bytes;
            prop_assert_eq!(io(&format!("{other}x: 7\nread_bytes: {read}\nwrite_bytes: {written}\n")), (read, written));
            let interface = |name: &str| format!("  {name}: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n");
            let both = interface("lo") + &interface(&format!("{other}0"));
            prop_assert_eq!((network(&both), network(&interface("lo"))), ((received, sent), (0, 0)));
        }

        #[test]
        fn text_that_is_no_line_of_the_kernel_has_no_counters(text in "[^:)]*") {
            prop_assert_eq!((stat(&text), io(&text), network(&text)), (None, (0, 0), (0, 0)));
        }
    }
}
