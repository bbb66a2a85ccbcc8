//! Who leads a run: this process, for people elsewhere, and a process elsewhere, for people here.

use crate::session::diagnostic::Diagnostic;
use gpuplan_launch::LeadError;

/// User and machine, for people elsewhere.
pub fn this_leader() -> String {
    let user =
        ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "somebody".to_owned());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "a machine without a name" } else { host.trim() };
    format!("{user} on {host}")
}

pub fn led_elsewhere(run: &str, error: &LeadError) -> Diagnostic {
    Diagnostic::usage(format!("{run}: {error}, with another journal; two leaders would end each other's machines"))
        .hint("--take-over  leads it from here, and the other one stops leading")
        .hint("launch --run NAME  takes another name")
}
