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
    /// `None`: the kernel does not tell, as of a process of another user.
    pub disk: Option<Traffic>,
}

/// Bytes in either direction, as counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read or received.
    pub inbound: u64,
    /// Written or sent.
    pub outbound: u64,
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Seconds of any clock that does not jump.
    pub at_seconds: f64,
    pub processes: BTreeMap<i32, ProcessCounters>,
    /// `None`: the kernel does not tell.
    pub network: Option<Traffic>,
}

/// What the kernel counts in.
#[derive(Clone, Copy, Debug)]
pub struct KernelUnits {
    pub ticks_per_second: f64,
    pub page_bytes: f64,
}

/// Reads `/proc/PID/stat`. The name in brackets may hold brackets and spaces, so it is cut at the last one.
pub fn parse_stat(text: &str) -> Option<ProcessCounters> {
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

/// Bytes really read and written, of `/proc/PID/io`; `None`: the text does not say both.
pub fn parse_io(text: &str) -> Option<Traffic> {
    let value =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok());
    Some(Traffic { inbound: value("read_bytes")?, outbound: value("write_bytes")? })
}

/// Bytes received and sent by all interfaces but loopback, of `/proc/net/dev`; `None`: no interface is in it, or a line is not
/// as the kernel writes it.
pub fn parse_net_dev(text: &str) -> Option<Traffic> {
    let mut sum: Option<Traffic> = None;
    for (name, counters) in text.lines().filter_map(|line| line.split_once(':')) {
        let mut fields = counters.split_whitespace().map(str::parse::<u64>);
        let (received, sent) = (fields.next()?.ok()?, fields.nth(7)?.ok()?);
        let so_far = sum.get_or_insert_default();
        if name.trim() != "lo" {
            so_far.inbound = so_far.inbound.saturating_add(received);
            so_far.outbound = so_far.outbound.saturating_add(sent);
        }
    }
    sum
}

/// The process and all that descend from it.
pub fn process_family(root: i32, parents: &BTreeMap<i32, i32>) -> BTreeSet<i32> {
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
pub fn rates_between(earlier: &Counters, later: &Counters, units: KernelUnits) -> HostSample {
    let seconds = (later.at_seconds - earlier.at_seconds).max(1e-3);
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
    let mut cores: BTreeMap<&str, f64> = BTreeMap::new();
    let mut sample = HostSample::default();
    // Unknown as soon as one process is.
    let mut disk = Some((0.0, 0.0));
    for (pid, now) in &later.processes {
        // Of a new process all counters were zero.
        let none = ProcessCounters { disk: Some(Traffic::default()), ..ProcessCounters::default() };
        // A number may be given to a new process, whose counters start from zero.
        let then = earlier.processes.get(pid).filter(|then| then.ticks <= now.ticks).unwrap_or(&none);
        let used = rate(now.ticks, then.ticks) / units.ticks_per_second;
        sample.cores_used += used;
        *cores.entry(&now.name).or_default() += used;
        sample.minor_faults_per_second += rate(now.minor_faults, then.minor_faults);
        sample.major_faults_per_second += rate(now.major_faults, then.major_faults);
        disk = disk.zip(now.disk.zip(then.disk)).map(|((read, written), (now, then))| {
            (read + rate(now.inbound, then.inbound), written + rate(now.outbound, then.outbound))
        });
        sample.memory_bytes += now.resident_pages as f64 * units.page_bytes;
    }
    sample.disk_read_bytes_per_second = disk.map(|(read, _)| read);
    sample.disk_write_bytes_per_second = disk.map(|(_, written)| written);
    let network = later.network.zip(earlier.network);
    sample.network_receive_bytes_per_second = network.map(|(now, then)| rate(now.inbound, then.inbound));
    sample.network_send_bytes_per_second = network.map(|(now, then)| rate(now.outbound, then.outbound));
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
        let found = parse_stat(STAT).unwrap();
        assert_eq!((found.parent, found.name.as_str(), found.ticks), (7, "pt data) worker", 300));
        assert_eq!((found.minor_faults, found.major_faults, found.resident_pages), (100, 3, 512));
        assert_eq!(parse_stat("42 (x) S"), None);
    }

    #[test]
    fn bytes_of_disk_and_network_are_read() {
        assert_eq!(
            parse_io("rchar: 9\nwchar: 8\nsyscr: 1\nread_bytes: 4096\nwrite_bytes: 512\n"),
            Some(Traffic { inbound: 4096, outbound: 512 })
        );
        assert_eq!(parse_io("read_bytes: 4096\n"), None, "half of it is not known");
        let text = "Inter-|   Receive\n face |bytes\n    lo: 99 1 0 0 0 0 0 0 99 1 0 0 0 0 0 0\n  eth0: 1000 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n";
        assert_eq!(parse_net_dev(text), Some(Traffic { inbound: 1000, outbound: 200 }));
        assert_eq!((parse_net_dev(""), parse_net_dev("eth0: 1 2 3")), (None, None));
    }

    #[test]
    fn two_readings_become_rates() {
        let process = |ticks| ProcessCounters {
            name: "python".to_owned(),
            ticks,
            resident_pages: 10,
            ..ProcessCounters::default()
        };
        let at = |at_seconds, processes: &[(i32, u64)], received_bytes: Option<u64>| Counters {
            at_seconds,
            processes: processes.iter().map(|(pid, ticks)| (*pid, process(*ticks))).collect(),
            network: received_bytes.map(|inbound| Traffic { inbound, outbound: 0 }),
        };
        // Process 2 is new; process 3 took the number of one that had used more.
        let sample = rates_between(
            &at(0.0, &[(1, 100), (3, 500)], Some(0)),
            &at(2.0, &[(1, 300), (2, 50), (3, 50)], Some(4000)),
            UNITS,
        );
        assert!((sample.cores_used - 1.5).abs() < 1e-12, "{}", sample.cores_used);
        assert_eq!(sample.network_receive_bytes_per_second, Some(2000.0));
        // What the kernel did not tell of every process, or of one of both moments, is unknown and not nothing.
        assert_eq!(sample.disk_read_bytes_per_second, None);
        let silent = rates_between(&at(0.0, &[], None), &at(2.0, &[], Some(4000)), UNITS);
        assert_eq!((silent.network_receive_bytes_per_second, silent.disk_read_bytes_per_second), (None, Some(0.0)));
        assert_eq!(sample.memory_bytes, 3.0 * 40_960.0);
        assert_eq!(sample.processes, [("python".to_owned(), 1.5)]);
    }

    #[test]
    fn a_family_spans_generations() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1)]);
        assert_eq!(process_family(2, &parents), BTreeSet::from([2, 3, 4]));
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
            prop_assert_eq!(parse_stat(&line), Some(read));
        }

        #[test]
        fn bytes_are_read_from_their_lines_alone(bytes in any::<[u64; 4]>(), other in "[a-z]{1,8}") {
            let [read, written, received, sent] = bytes;
            prop_assert_eq!(parse_io(&format!("{other}x: 7\nread_bytes: {read}\nwrite_bytes: {written}\n")), Some(Traffic { inbound: read, outbound: written }));
            let interface = |name: &str| format!("  {name}: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n");
            let both = interface("lo") + &interface(&format!("{other}0"));
            let eth = Traffic { inbound: received, outbound: sent };
            prop_assert_eq!((parse_net_dev(&both), parse_net_dev(&interface("lo"))), (Some(eth), Some(Traffic::default())));
        }

        #[test]
        fn text_that_is_no_line_of_the_kernel_has_no_counters(text in "[^:)]*") {
            prop_assert_eq!((parse_stat(&text), parse_io(&text), parse_net_dev(&text)), (None, None, None));
        }
    }
}
