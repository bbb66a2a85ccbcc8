//! The process group of the program: who of it is asked to save and end, and who still works once its first process is gone.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use rustix::process::{Pid, Signal, kill_process};

use crate::process::tree;

/// Shells and filters that end when their input does. Killed earlier they take the writer's output away, and a program that says
/// something while it saves dies of that.
const FILTERS: [&str; 20] = [
    "awk",
    "bash",
    "cat",
    "cut",
    "dash",
    "gawk",
    "grep",
    "head",
    "logger",
    "mawk",
    "perl",
    "pv",
    "rotatelogs",
    "sed",
    "sh",
    "tail",
    "tee",
    "tr",
    "ts",
    "zsh",
];

/// Signals every process of the group, but not what reads the output of another one in a pipeline.
pub fn signal(group: i32, signal: Signal) {
    let mut told = BTreeSet::new();
    // What is born meanwhile has a parent that was told; the second round is for what that parent had begun.
    for _ in 0..2 {
        let Ok(members) = tree::group_members(group) else {
            // Nobody can be told apart: all are asked.
            if let Some(group) = Pid::from_raw(group) {
                let _ = rustix::process::kill_process_group(group, signal);
            }
            return;
        };
        let readers = readers_of_pipelines(&members);
        for pid in members.into_iter().filter(|pid| !readers.contains(pid)) {
            if told.insert(pid)
                && let Some(pid) = Pid::from_raw(pid)
            {
                // Whoever ended meanwhile needs no signal.
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Whether anything of the group still works. A table that cannot be read says nothing, so it is taken for work: there is a deadline.
pub fn is_alive(group: i32) -> bool {
    tree::group_members(group).map_or(true, |members| !members.is_empty())
}

/// Names of what is left, for people.
pub fn names(group: i32) -> io::Result<Vec<String>> {
    Ok(tree::group_members(group)?.into_iter().filter_map(name).collect())
}

fn readers_of_pipelines(members: &[i32]) -> BTreeSet<i32> {
    let pipe = |pid: i32, descriptor: u32| {
        let link = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
        link.to_str().filter(|target| target.starts_with("pipe:")).map(str::to_owned)
    };
    let written: Vec<(i32, String)> = members
        .iter()
        .flat_map(|pid| [1, 2].into_iter().filter_map(|number| Some((*pid, pipe(*pid, number)?))))
        .collect();
    let reads_another = |pid: &i32| {
        let own = pipe(*pid, 0);
        own.is_some_and(|own| written.iter().any(|(writer, pipe)| writer != pid && *pipe == own))
    };
    let is_filter = |pid: &i32| name(*pid).is_some_and(|name| FILTERS.contains(&name.as_str()));
    members.iter().copied().filter(|pid| is_filter(pid) && reads_another(pid)).collect()
}

fn name(pid: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim().to_owned())
}
