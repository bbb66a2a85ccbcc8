//! Directives of batch systems beside Slurm, as far as they ask for GPUs: Grid Engine (qsub(1), `#$ -l gpu=2`) and PBS
//! (`#PBS -l select=2:ncpus=16:ngpus=4`).

use crate::{Choice, Gpus, JobRequest, chips};
use gpuplan_hardware::Hardware;

/// Names under which administrators of Grid Engine count GPUs.
const OF_GRID_ENGINE: [&str; 3] = ["gpu", "gpus", "ngpus"];

/// Reads what the lines of a script ask for.
pub fn read(text: &str, asked: &mut JobRequest, hardware: &Hardware) {
    for line in text.lines() {
        let (of_pbs, rest) = match (line.strip_prefix("#PBS "), line.strip_prefix("#$ ")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => continue,
        };
        let Some(list) = rest.trim().strip_prefix("-l").map(str::trim) else { continue };
        for request in list.split(',') {
            if of_pbs { chunks(request, asked, hardware) } else { resource(request, asked) }
        }
    }
}

fn gpus(count: u32, asked: &mut JobRequest) {
    if asked.choices.is_empty() {
        asked.choices.push(Choice { gpus: Some(Gpus::PerMachine(count)), ..Choice::default() });
    }
}

/// `gpus=2`: of the machine.
fn resource(request: &str, asked: &mut JobRequest) {
    let Some((key, value)) = request.split_once('=').filter(|(key, _)| OF_GRID_ENGINE.contains(key)) else { return };
    match number(value) {
        Some(count) => {
            gpus(count, asked);
            asked.nodes.get_or_insert(1..=1);
            asked.understand(&format!("-l {key}"), value);
        }
        None => asked.leave_unread(&format!("-l {key}"), value),
    }
}

/// `select=2:ncpus=16:ngpus=4:gpu_model=a100`: so many alike.
fn chunks(request: &str, asked: &mut JobRequest, hardware: &Hardware) {
    let Some(chunk) = request.strip_prefix("select=") else { return };
    // Chunks of several kinds are machines of several kinds.
    let mut parts = chunk.split(':');
    let (Some(nodes), false) = (parts.next().and_then(number), chunk.contains('+')) else {
        return asked.leave_unread("-l select", chunk);
    };
    let parts: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let value = |name: &str| parts.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let Some(count) = value("ngpus").and_then(number) else { return };
    gpus(count, asked);
    asked.nodes.get_or_insert(nodes..=nodes);
    let named = value("gpu_model").or_else(|| value("gpu_type")).and_then(|name| chips::find(name, hardware));
    if let (Some(choice), Some(named)) = (asked.choices.first_mut(), named) {
        choice.chips = Some(named);
    }
    asked.understand("-l select", chunk);
}

fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobKind;

    #[test]
    fn gpus_are_counted_where_a_directive_counts_them() {
        let hardware = Hardware::embedded().unwrap();
        let one = |line: &str| {
            let mut asked = JobRequest::new(JobKind::Script);
            read(&format!("#!/bin/bash\n{line}\npython train.py\n"), &mut asked, &hardware);
            let choice = asked.choices.first().cloned().unwrap_or_default();
            (choice.gpus, choice.chips.is_some(), asked.nodes, asked.unread.len())
        };
        assert_eq!(one("#$ -l gpus=2"), (Some(Gpus::PerMachine(2)), false, Some(1..=1), 0));
        assert_eq!(one("#$ -l h_rt=24:00:00,gpu=1"), (Some(Gpus::PerMachine(1)), false, Some(1..=1), 0));
        let pbs = one("#PBS -l select=2:ncpus=16:ngpus=4:gpu_model=a100");
        assert_eq!(pbs, (Some(Gpus::PerMachine(4)), true, Some(2..=2), 0));
        assert_eq!(one("#PBS -l select=1:ncpus=4").0, None);
        assert_eq!(one("#PBS -l select=1:ngpus=1+1:ncpus=4").3, 1);
        assert_eq!(one("#$ -l gpus=$N").3, 1);
        assert_eq!(one("#$ -pe omp 8"), (None, false, None, 0));
    }
}
