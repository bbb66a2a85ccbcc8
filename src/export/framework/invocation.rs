//! `Invocation`: how a framework is started with a layout: launcher, flags, variables and configuration files.

use std::fmt;

use crate::job::Job;

/// How a framework is started with the layout of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Words of the command before the user's own.
    pub launcher: Vec<String>,
    /// Words after the user's own.
    pub flags: Vec<String>,
    /// Variables of the program.
    pub variables: Vec<(String, String)>,
    /// Name and text of a file that the launcher or a flag names; it lies at `configuration_path`.
    pub configuration: Option<(&'static str, String)>,
    /// Names of the agent's `--framework`, by which it knows a complete checkpoint.
    pub checkpoints: &'static str,
}

/// `torchrun` on one machine of several: where and which it is stands in the variables that it reads itself, `PET_NNODES`,
/// `PET_NODE_RANK`, `PET_MASTER_ADDR` and `PET_MASTER_PORT` (PyTorch, torch/distributed/argparse_util.py), so the command is the
/// same on every machine and in every life of the run.
pub fn torchrun(job: &Job) -> Vec<String> {
    let mut words = vec!["torchrun".to_owned()];
    if job.machines().nodes == 1 {
        words.push("--standalone".to_owned());
    }
    words.push(format!("--nproc-per-node={}", job.machines().gpus_per_node));
    words
}

/// Where a configuration lies on a machine: its own disk, since a shared folder would be written by all at once.
pub fn configuration_path(job: &Job, name: &str) -> String {
    format!("/tmp/gpuplan-{}-{name}", job.run)
}

/// `--name value`, both words.
pub fn flag(flags: &mut Vec<String>, name: &str, value: impl fmt::Display) {
    flags.extend([format!("--{name}"), value.to_string()]);
}
