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

/// Whether its `#SBATCH` lines stand in a here-document behind its first command: it writes batch scripts, and is none.
pub fn is_generator(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_start);
    let first = lines.find(|line| line.starts_with("#SBATCH") || (!line.is_empty() && !line.starts_with('#')));
    first.is_some_and(|line| !line.starts_with("#SBATCH")) && text.contains("<<") && is_script(text)
}

pub fn read(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Slurm);
    job(text, Vec::new(), Vec::new(), &mut asked, names)?;
    Ok(asked)
}

/// Reads the `#SBATCH` lines of a script: options of each component of a heterogeneous job (Slurm, "Heterogeneous Job Support"), mostly one.
fn directives(text: &str, asked: &mut JobRequest, names: Names) -> Result<Vec<Options>, ImportError> {
    let mut components = Vec::new();
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
        if matches!(directive.as_slice(), [word] if word == "hetjob" || word == "packjob") {
            components.push(std::mem::take(&mut options));
            continue;
        }
        for (key, value) in options_given(directive) {
            apply_option(&key, &value, &mut options, asked, names)?;
        }
    }
    components.push(options);
    Ok(components)
}

/// Machines of all components, where those with GPUs are of one kind.
fn together(components: Vec<Options>, asked: &mut JobRequest) -> Result<(), ImportError> {
    let mut components = components.into_iter();
    if let Some(first) = components.next() {
        combine(first, asked)?;
    }
    for component in components {
        let mut further = JobRequest::new(JobKind::Slurm);
        combine(component, &mut further)?;
        if further.choices.is_empty() {
            asked.note_without_effect("hetjob", "a component without GPUs");
        } else if asked.choices.is_empty() {
            (asked.choices, asked.nodes) = (further.choices, further.nodes);
        } else if let (true, Some(some), Some(more)) = (asked.choices == further.choices, &asked.nodes, &further.nodes)
        {
            let sum = |one: &u32, other: &u32| one.saturating_add(*other);
            asked.nodes = Some(sum(some.start(), more.start())..=sum(some.end(), more.end()));
        } else {
            let detail = "its components ask for different machines, which have to be priced one by one";
            return Err(invalid("hetjob", detail));
        }
    }
    Ok(())
}

/// `sbatch [options] SCRIPT` and `sbatch [options] --wrap COMMAND` of a script that hands a job to Slurm: the options win over the directives of
/// what is submitted (sbatch(1)), and the variables of the script reach it.
pub fn submitted(command: &shell::Command, script: &shell::Script, asked: &mut JobRequest, names: Names) {
    let words = &command.words[1..];
    if asked.kind != JobKind::Script {
        return asked.leave_unread("sbatch", "a further job");
    }
    asked.kind = JobKind::Slurm;
    let mut given = options_given(words.to_vec());
    let file = given.iter().position(|(key, _)| key == options::NO_OPTION);
    // What stands behind the script is for the script.
    let path = file.and_then(|at| given.drain(at..).next()).map(|(_, path)| path);
    let wrapped = given.iter().position(|(key, _)| key == "wrap").map(|at| given.remove(at).1);
    let mut variables = script.variables();
    let exported = given.iter().filter(|(key, _)| key == "export").flat_map(|(_, value)| value.split(','));
    variables.extend(exported.filter_map(|one| one.split_once('=')).map(|(name, value)| (name.into(), value.into())));
    // NeMo-RL's `ray.sub` runs what its variable `COMMAND` holds.
    let handed = || variables.iter().find(|(name, _)| name == "COMMAND").map(|(_, command)| command.clone());
    let is_unknown = path.as_deref().is_none_or(shell::is_unknown);
    let written = || script.written_job().filter(|_| is_unknown);
    let file = || script.file(path.as_deref()?).or_else(written);
    let text = wrapped.or_else(|| command.input.clone()).or_else(file).or_else(handed);
    if let (None, Some(path)) = (&text, &path) {
        asked.leave_unread(path, "a script that is not there");
    }
    if let Err(error) = job(text.as_deref().unwrap_or_default(), given, variables, asked, names) {
        asked.leave_unread("sbatch", error);
    }
}

/// A batch script that another script writes and does not submit itself.
pub fn written(text: &str, script: &shell::Script, asked: &mut JobRequest, names: Names) {
    asked.kind = JobKind::Slurm;
    if let Err(error) = job(text, Vec::new(), script.variables(), asked, names) {
        asked.leave_unread("#SBATCH", error);
    }
}

/// Reads what a script is submitted with, on the command line and in its own lines.
fn job(
    text: &str,
    given: Vec<(String, String)>,
    outer: Vec<(String, String)>,
    asked: &mut JobRequest,
    names: Names,
) -> Result<(), ImportError> {
    let mut components = directives(text, asked, names)?;
    if let Some(first) = components.first_mut() {
        for (key, value) in given {
            apply_option(&key, &value, first, asked, names)?;
        }
    }
    let is_stated = components.iter().any(|options| options.nodes.is_some() || options.has_open_nodes);
    let tasks_per_node = components.iter().find_map(|options| options.tasks_per_node);
    together(components, asked)?;
    let all: Vec<(String, String)> = outer.into_iter().chain(variables(asked)).collect();
    command::read(text, &all, asked, names);
    // Megatron has a process for each GPU (megatron/training/initialize.py), and without a launcher they are Slurm's tasks.
    let is_megatron = asked.workload.training.framework.as_deref() == Some("megatron");
    if let (true, true, None) = (is_megatron, asked.choices.is_empty(), asked.launch.gpus_per_machine) {
        asked.launch.gpus_per_machine = tasks_per_node.filter(|tasks| *tasks > 1 && asked.launch.gpus.is_none());
    }
    whole_machines(is_stated, asked);
    Ok(())
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
