//! A SkyPilot task (`sky jobs launch FILE`): a managed job that is recovered after each interruption, at the plan's places in order.

use serde_json::{Value, json};

use crate::job::{CapacityType, Job};
use crate::script::{Position, script};
use crate::swept::INDEX;
use crate::target::pod::INTERRUPTED;
use crate::{ExportError, Target, yaml};

/// Regions to try, of which each is one candidate.
const MOST_REGIONS: usize = 10;
/// Notices that are answered before SkyPilot sees the machine go count as errors. Judgement.
const MOST_RESTARTS: u32 = 20;
/// Room for system, program and checkpoints. GiB; SkyPilot's default is 256.
const DISK_GIB: u32 = 512;

pub fn render(job: &Job) -> Result<String, ExportError> {
    let name = job.dns_name(Target::Skypilot, 40)?;
    let position = Position {
        node: "\"$SKYPILOT_NODE_RANK\"",
        nodes: "\"$SKYPILOT_NUM_NODES\"",
        first: "\"$(echo \"$SKYPILOT_NODE_IPS\" | head -n 1)\"",
    };
    let mut resources = json!({ "ordered": candidates(job)?, "disk_size": DISK_GIB });
    if job.machines().nodes > 1 {
        // EFA, TCPX(O) and the like, where the cloud has them.
        resources["network_tier"] = json!("best");
    }
    resources["job_recovery"] = recovery(job);
    let mut task = json!({
        "name": name,
        "num_nodes": job.machines().nodes,
        "resources": resources,
        "workdir": ".",
        "setup": "command -v gpuplan || { echo 'put the program gpuplan-agent as gpuplan into PATH'; exit 1; }\n",
        "run": script(job, position)?,
    });
    let mut how = "sky jobs launch FILE".to_owned();
    if let Some(sweep) = &job.sweep {
        // `sky jobs launch` has no arrays; its controller queues what does not fit beside the others.
        task["envs"] = json!({ INDEX: "0" });
        how = format!(
            "for i in $(seq 0 {}); do sky jobs launch --detach-run --yes --name {name}-$i --env {INDEX}=$i FILE; done",
            sweep.runs - 1
        );
    }
    Ok(job.comments(&[how]) + &yaml::document(&task))
}

/// The agent has tried again already when it fails. With several machines the code of an interruption says nothing: when a program
/// fails on one, the agents of the others end with it too, and SkyPilot recovers if any machine has it (0.14.1). So restarts are counted.
fn recovery(job: &Job) -> Value {
    if job.machines().nodes == 1 {
        json!({ "strategy": "FAILOVER", "max_restarts_on_errors": 0, "recover_on_exit_codes": [INTERRUPTED] })
    } else {
        json!({ "strategy": "FAILOVER", "max_restarts_on_errors": MOST_RESTARTS })
    }
}

/// The plan's own place, its other pools, and the same machines on-demand where the plan falls back to them.
fn candidates(job: &Job) -> Result<Vec<Value>, ExportError> {
    let machines = job.machines();
    let mut regions = vec![machines.region.as_str()];
    for pool in job.plan.spot.iter().flat_map(|spot| &spot.pools) {
        // One bucket and one layout: the same machines of the same cloud. Zones of a region are SkyPilot's to try.
        let is_same = pool.cloud == machines.cloud && pool.instance_type == machines.instance_type;
        if is_same && !regions.contains(&pool.region.as_str()) {
            regions.push(&pool.region);
        }
    }
    regions.truncate(MOST_REGIONS);
    let cloud = cloud_name(&machines.cloud).ok_or_else(|| ExportError::Unfit {
        target: Target::Skypilot,
        why: format!(
            "does not support the cloud {}; plan with --cloud aws or another cloud that it supports",
            machines.cloud
        ),
    })?;
    let candidate = |region: &str, is_spot: bool| {
        let mut one = json!({ "infra": format!("{cloud}/{region}"), "use_spot": is_spot });
        if job.instance.node.gpus.is_slice() {
            // A slice of a card has no number of whole ones.
            one["instance_type"] = json!(machines.instance_type);
        } else {
            // Its own catalog names the machine type; the plan's has so many processors.
            one["accelerators"] = json!(format!("{}:{}", accelerator(job), machines.gpus_per_node));
            one["cpus"] = json!(format!("{}+", job.instance.vcpus));
        }
        one
    };
    let is_spot = job.capacity_type() != CapacityType::NonPreemptible;
    let mut all: Vec<Value> = regions.into_iter().map(|region| candidate(region, is_spot)).collect();
    if job.capacity_type() == CapacityType::SpotOrOnDemand {
        all.push(candidate(&machines.region, false));
    }
    Ok(all)
}

/// SkyPilot's name of a GPU (`sky show-gpus`): the family, with the memory where a family has several.
fn accelerator(job: &Job) -> String {
    let (family, memory) = (job.gpu.family.as_str(), job.gpu.memory_label_gb);
    match (family, memory as u32) {
        ("A100", 80) => "A100-80GB".to_owned(),
        ("V100", 32) => "V100-32GB".to_owned(),
        _ if job.machines().instance_type == "a3-megagpu-8g" => "H100-MEGA".to_owned(),
        _ => family.to_owned(),
    }
}

/// SkyPilot's word for a cloud (sky/clouds); `None`: it has none.
fn cloud_name(cloud: &str) -> Option<&'static str> {
    match cloud {
        "aws" => Some("aws"),
        "gcp" => Some("gcp"),
        "azure" => Some("azure"),
        "oci" => Some("oci"),
        "lambda" => Some("lambda"),
        "nebius" => Some("nebius"),
        "runpod" => Some("runpod"),
        "vast" => Some("vast"),
        "verda" => Some("verda"),
        "digitalocean" => Some("do"),
        _ => None,
    }
}
