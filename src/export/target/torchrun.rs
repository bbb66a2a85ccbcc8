//! A script for machines that are there already: started by hand or by any tool, once on each.

use crate::ExportError;
use crate::job::Job;
use crate::script::{Position, script};

pub fn render(job: &Job) -> Result<String, ExportError> {
    let mut how = Vec::new();
    let mut checks = String::new();
    if job.machines().nodes > 1 {
        let count = job
            .nodes_at_least
            .map_or_else(|| job.machines().nodes.to_string(), |least| format!("{least} to {}", job.machines().nodes));
        how.push(format!("on each of {count} machines: NODE_RANK=0.. NNODES=... MASTER_ADDR=address-of-0 bash FILE"));
        checks.push_str(": \"${NODE_RANK:?which machine this is, from 0}\" \"${MASTER_ADDR:?address of machine 0}\"\n");
    } else {
        how.push("bash FILE".to_owned());
    }
    how.push("exit code 75: interrupted, run it again anywhere; 77: budget or lifetime reached".to_owned());
    let nodes = format!("\"${{NNODES:-{}}}\"", job.machines().nodes);
    let body = script(job, Position { node: "\"$NODE_RANK\"", nodes: &nodes, first: "\"$MASTER_ADDR\"" })?;
    Ok(format!("#!/usr/bin/env bash\n{}set -euo pipefail\n{checks}{body}", job.comments(&how)))
}
