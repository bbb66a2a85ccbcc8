//! A batch script of Slurm (`sbatch FILE`): one agent a machine under `srun`, put back into the queue as often as it is interrupted.

use crate::job::{CapacityType, Job, MARGIN, prefixed_lines};
use crate::script::{Position, script};
use crate::{ExportError, Target};

pub fn render(job: &Job) -> Result<String, ExportError> {
    let machines = job.machines();
    if job.nodes_at_least.is_some_and(|least| least == 0 || least > machines.nodes) {
        let why = format!("needs --min-nodes between 1 and {}, the number of machines in the plan", machines.nodes);
        return Err(ExportError::Unfit { target: Target::Slurm, why });
    }
    let nodes =
        job.nodes_at_least.map_or_else(|| machines.nodes.to_string(), |least| format!("{least}-{}", machines.nodes));
    let mut options = vec![
        format!("--job-name={}", job.run),
        format!("--nodes={nodes}"),
        "--ntasks-per-node=1".to_owned(),
        format!("--gpus-per-node={}", machines.gpus_per_node),
        format!("--time={}", limit(job.likely_hours())),
        // Back into the queue when it is preempted or a machine fails; what it said before is kept.
        "--requeue".to_owned(),
        "--open-mode=append".to_owned(),
        // Before the time limit, to the tasks: the agent takes it as a notice.
        format!("--signal=USR1@{}", job.grace_seconds() + MARGIN),
    ];
    if machines.gpus_per_node >= 8 {
        options.push("--exclusive".to_owned());
    }
    if let Some(sweep) = &job.sweep {
        options.push(format!("--array=0-{}%{}", sweep.runs - 1, sweep.at_a_time));
    }
    let mut how = vec![
        "sbatch FILE; partition and account are the cluster's own: sbatch --partition=... --account=... FILE"
            .to_owned(),
    ];
    if job.capacity_type() != CapacityType::NonPreemptible {
        how.push("the plan is on spot machines: take a partition of such nodes".to_owned());
    }
    let options = prefixed_lines("#SBATCH ", &options);
    let position = Position { node: "\"$SLURM_NODEID\"", nodes: "\"$SLURM_NNODES\"", first: "\"$FIRST_NODE\"" };
    let body: String = script(job, position)?;
    let first = if job.sweep.is_some() {
        "export GPUPLAN_SWEEP_INDEX=\"$SLURM_ARRAY_TASK_ID\"\n"
    } else if machines.nodes > 1 {
        "FIRST_NODE=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\nexport FIRST_NODE\n"
    } else {
        ""
    };
    Ok(format!(
        "#!/usr/bin/env bash\n{options}{}set -u\n{first}\n# On each machine.\n{}\n{TAIL}",
        job.comments(&how),
        functions(&body, machines.nodes)
    ))
}

/// What `srun` starts on each machine.
fn functions(body: &str, nodes: u32) -> String {
    if nodes == 1 {
        format!("machine() {{\n{body}}}\nexport -f machine\n")
    } else {
        format!("agent() {{\n{body}}}\n{RANKED}")
    }
}

/// `srun` gives the highest exit code of all machines. When a program fails on one, the agents of the others end with 75, so a
/// failure has to be higher than that. Signals are passed on; one of them ends the first wait and not the agent.
const RANKED: &str = "\
machine() {
  agent &
  local agent=$! code
  trap 'kill -TERM \"$agent\"' TERM
  trap 'kill -USR1 \"$agent\"' USR1
  wait \"$agent\"
  while kill -0 \"$agent\" 2>/dev/null; do wait \"$agent\"; done
  wait \"$agent\"
  code=$?
  case $code in 0 | 7[5-7]) exit \"$code\" ;; *) exit 99 ;; esac
}
export -f agent machine
";

/// `srun` passes signals on at the start of a preemption, which a batch script alone does not (measured on Slurm 22.05). The first
/// machine that ends does not take the others with it: agents end together, and each has something to save.
const TAIL: &str = "\
srun --kill-on-bad-exit=0 --wait=0 bash -c machine
code=$?
# Interrupted: what was committed is safe, and the job goes back into the queue.
if [ \"$code\" -eq 75 ]; then
  scontrol requeue \"$SLURM_JOB_ID\" && sleep 60
fi
exit \"$code\"
";

/// Days, hours, minutes and seconds of Slurm.
fn limit(hours: u32) -> String {
    format!("{}-{:02}:00:00", hours / 24, hours % 24)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::pod::INTERRUPTED;

    #[test]
    fn a_limit_is_in_days_and_hours() {
        assert_eq!((limit(1).as_str(), limit(49).as_str()), ("0-01:00:00", "2-01:00:00"));
        assert!(TAIL.contains(&format!("-eq {INTERRUPTED} ")));
    }
}
