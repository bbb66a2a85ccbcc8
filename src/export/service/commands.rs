//! A script that starts the replicas of a machine that is there already.

use super::flags::{self, Group};
use super::{PORT, Service, counted};
use crate::script::quoted;
use crate::{ExportError, Target};
use gpuplan_workload::ServingEngine;

pub fn render(service: &Service, target: Target, engine: ServingEngine) -> Result<String, ExportError> {
    service.fits(target, &[engine], true)?;
    let words = |words: Vec<String>| words.iter().map(|word| quoted(word).into_owned()).collect::<Vec<_>>().join(" ");
    let program = format!("{} {}", words(flags::program(service)), words(flags::flags(service)));
    let (replicas, gpus) = (service.replicas_per_machine(), service.gpus_per_replica());
    let machines = service.machines_per_replica();
    let how = if machines > 1 {
        format!("on each of the {machines} machines of a replica: NODE_RANK=0.. MASTER_ADDR=address-of-0 bash FILE")
    } else {
        format!("on each of {}: bash FILE", counted(service.machines().nodes, "machine"))
    };
    let body = if machines > 1 {
        let group = Group { machines: &machines.to_string(), rank: "\"$NODE_RANK\"", first: "$MASTER_ADDR" };
        let follower = flags::follower_flags(engine);
        let own = if follower.is_empty() {
            String::new()
        } else {
            format!("if ((NODE_RANK > 0)); then set --{follower}; fi\n")
        };
        format!(
            ": \"${{NODE_RANK:?which machine of its replica this is, from 0}}\" \"${{MASTER_ADDR:?address of machine 0}}\"\n\
             set --\n{own}exec {program} \\\n  {} --host 0.0.0.0 --port \"${{PORT:-{PORT}}}\" \"$@\"\n",
            flags::group_flags(engine, group)
        )
    } else if replicas > 1 {
        format!(
            "# {replicas} replicas side by side, of {gpus} GPUs each; the script ends as soon as one of them does.\n\
             for ((i = 0; i < {replicas}; i++)); do\n  \
             CUDA_VISIBLE_DEVICES=$(seq -s, $((i * {gpus})) $((i * {gpus} + {last}))) \\\n    \
             {program} --host 0.0.0.0 --port $((${{PORT:-{PORT}}} + i)) &\ndone\nwait -n\n",
            last = gpus - 1
        )
    } else {
        format!("exec {program} --host 0.0.0.0 --port \"${{PORT:-{PORT}}}\"\n")
    };
    Ok(format!("#!/usr/bin/env bash\n{}set -euo pipefail\n{body}", service.comments(&[how])))
}
