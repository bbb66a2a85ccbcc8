//! A Ray program (`ray job submit -- python FILE`): one agent a machine in a placement group, started again after an interruption.

use serde_json::Value;

use crate::ExportError;
use crate::job::Job;
use crate::script::{Position, script};

pub fn render(job: &Job) -> Result<String, ExportError> {
    let position = Position { node: "\"$RAY_MACHINE\"", nodes: "\"$RAY_MACHINES\"", first: "\"$RAY_FIRST\"" };
    let body = script(job, position)?;
    let how = ["ray job submit --working-dir . -- python FILE; gpuplan has to be on every machine".to_owned()];
    let sweep = job.sweep.as_ref();
    let program = sweep.map_or_else(
        || PROGRAM.to_owned(),
        |sweep| format!("\nRUNS, AT_A_TIME = {}, {}\n{SWEEP}", sweep.runs, sweep.at_a_time),
    );
    let imports = if sweep.is_some() { SWEEP_IMPORTS } else { IMPORTS };
    let counts = format!("MACHINES, GPUS = {}, {}\n", job.machines().nodes, job.machines().gpus_per_node);
    // A JSON text is a Python text.
    let lines: Vec<String> = body.lines().map(|line| format!("    {},\n", Value::from(line))).collect();
    Ok(format!(
        "#!/usr/bin/env python3\n{}{imports}{counts}SCRIPT = \"\\n\".join([\n{}])\n{program}",
        job.comments(&how),
        lines.concat()
    ))
}

const IMPORTS: &str = "\
import os
import signal
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

INTERRUPTED = 75
";

/// Ray gives a task's process SIGTERM when its node is drained; the agent gets it too. A lost machine makes the task fail, and the
/// agents that are left end with 75 by themselves, since they miss its heartbeat.
const PROGRAM: &str = r#"

@ray.remote(max_retries=0)
def address():
    return ray.util.get_node_ip_address()


@ray.remote(max_retries=0)
def machine(number, first):
    place = {"RAY_MACHINE": str(number), "RAY_MACHINES": str(MACHINES), "RAY_FIRST": first}
    agent = subprocess.Popen(["bash", "-c", SCRIPT], env={**os.environ, **place})
    try:
        signal.signal(signal.SIGTERM, lambda *_: agent.terminate())
    except ValueError:
        pass  # Not the main thread: the node's own notice reaches the agent.
    return agent.wait()


def attempt():
    """All machines or none. A failure outranks an interruption: when one program fails, the other agents end with 75."""
    bundles = [{"CPU": 1, "GPU": GPUS}] * MACHINES
    group = placement_group(bundles, strategy="STRICT_SPREAD" if MACHINES > 1 else "PACK")
    try:
        ray.get(group.ready())
        on = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number) for number in range(MACHINES)]
        first = ray.get(address.options(num_cpus=1, scheduling_strategy=on[0]).remote())
        running = [
            machine.options(num_cpus=1, num_gpus=GPUS, scheduling_strategy=on[number]).remote(number, first)
            for number in range(MACHINES)
        ]
        codes = []
        for each in running:
            try:
                codes.append(ray.get(each))
            except ray.exceptions.RayError as error:
                print(f"a machine was lost: {error}", file=sys.stderr)
                codes.append(INTERRUPTED)
        failures = [code for code in codes if code not in (0, INTERRUPTED)]
        return failures[0] if failures else max(codes)
    finally:
        remove_placement_group(group)


if __name__ == "__main__":
    ray.init()
    while (code := attempt()) == INTERRUPTED:
        print("interrupted: all machines start again from the newest checkpoint", file=sys.stderr)
    sys.exit(code)
"#;

const SWEEP_IMPORTS: &str = "\
import os
import signal
import subprocess
import sys

import ray

INTERRUPTED = 75
";

/// Ray holds back what has no GPU yet; a limit beside that keeps to the plan. A lost machine or a notice starts one run again.
const SWEEP: &str = r#"

@ray.remote(max_retries=0)
def one(index):
    agent = subprocess.Popen(["bash", "-c", SCRIPT], env={**os.environ, "GPUPLAN_SWEEP_INDEX": str(index)})
    try:
        signal.signal(signal.SIGTERM, lambda *_: agent.terminate())
    except ValueError:
        pass  # Not the main thread: the node's own notice reaches the agent.
    return agent.wait()


def sweep():
    """The numbers of the runs that failed."""
    waiting, running, failed = list(range(RUNS)), {}, []
    while waiting or running:
        while waiting and len(running) < AT_A_TIME:
            index = waiting.pop(0)
            running[one.options(num_cpus=1, num_gpus=GPUS).remote(index)] = index
        done, _ = ray.wait(list(running))
        index = running.pop(done[0])
        try:
            code = ray.get(done[0])
        except ray.exceptions.RayError as error:
            print(f"run {index} was lost: {error}", file=sys.stderr)
            code = INTERRUPTED
        if code == INTERRUPTED:
            waiting.append(index)
        elif code != 0:
            failed.append(index)
    return failed


if __name__ == "__main__":
    ray.init()
    failed = sweep()
    if failed:
        sys.exit(f"{len(failed)} of {RUNS} runs failed: {failed}")
"#;
