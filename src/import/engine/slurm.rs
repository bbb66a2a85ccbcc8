//! A batch script of Slurm: its `#SBATCH` lines (sbatch(1)), and the commands behind them.

use crate::error::invalid;
use crate::{Choice, Gpus, ImportError, JobKind, JobRequest, Names, command, shell};
use gpuplan_workload::assumption::JobAssumption;
use options::{Options, apply_option, combine, options_given};

pub mod options;
mod tests;

pub fn is_script(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("#SBATCH"))
}

pub fn read(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Slurm);
    let mut options = Options::default();
    let mut has_begun = false;
    for line in text.lines() {
        let Some(directive) = line.strip_prefix("#SBATCH") else {
            has_begun |= !line.trim().is_empty() && !line.starts_with('#');
            continue;
        };
        if has_begun {
            asked.leave_unread(
                "#SBATCH",
                format!("{} (behind the first command, where Slurm reads none)", directive.trim()),
            );
            continue;
        }
        // A backslash at its end joins nothing: Slurm reads line by line.
        let directive = shell::split(directive.trim_end().trim_end_matches('\\'))
            .ok_or_else(|| invalid("#SBATCH", format!("a quote is never closed in `{}`", line.trim())))?;
        for (key, value) in options_given(directive) {
            apply_option(&key, &value, &mut options, &mut asked, names)?;
        }
    }
    let (is_stated, tasks_per_node) = (options.nodes.is_some(), options.tasks_per_node);
    combine(options, &mut asked)?;
    command::read(text, &variables(&asked), &mut asked, names);
    // Megatron has a process for each GPU (megatron/training/initialize.py), and without a launcher they are Slurm's tasks.
    let is_megatron = asked.workload.training.framework.as_deref() == Some("megatron");
    if let (true, true, None) = (is_megatron, asked.choices.is_empty(), asked.launch.gpus_per_machine) {
        asked.launch.gpus_per_machine = tasks_per_node.filter(|tasks| *tasks > 1 && asked.launch.gpus.is_none());
    }
    whole_machines(is_stated, &mut asked);
    Ok(asked)
}

/// What Slurm sets for the script (sbatch(1), "Output environment variables"), where the directives say it.
fn variables(asked: &JobRequest) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut set =
        |names: &[&str], value: u32| all.extend(names.iter().map(|name| ((*name).to_owned(), value.to_string())));
    if let Some(nodes) = asked.nodes.as_ref().filter(|nodes| nodes.start() == nodes.end()) {
        set(&["SLURM_NNODES", "SLURM_JOB_NUM_NODES"], *nodes.start());
    }
    if let Some(Gpus::PerMachine(gpus)) = asked.choices.first().and_then(|choice| choice.gpus) {
        set(&["SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"], gpus);
    }
    all
}

/// A job that takes whole machines without counting their GPUs: as many as its command starts processes on each.
fn whole_machines(is_stated: bool, asked: &mut JobRequest) {
    let stated = asked.nodes.clone();
    if !is_stated && asked.launch.machines.is_some() {
        asked.nodes = None;
    }
    asked.take_machines_of_launcher();
    if asked.nodes.is_none() {
        asked.nodes = stated;
    } else if !is_stated && asked.launch.machines.is_some() {
        asked.assumed.retain(|one| *one != JobAssumption::OneMachine);
    }
    // Machines without a count of GPUs are named by the one who asks.
    if asked.choices.is_empty() && is_stated {
        asked.choices.push(Choice::default());
    }
}
