//! A dstack task (`dstack apply -f FILE`): spot policy, retry and price cap of the plan.

use serde_json::json;

use crate::job::{CapacityType, Job};
use crate::script::{Position, script};
use crate::target::attached::machine_type;
use crate::{ExportError, Target, yaml};

/// A machine may cost so much more than the plan said before nothing is rented: prices move between planning and renting. Judgement.
const PRICE_ROOM: f64 = 1.2;

pub fn render(job: &Job) -> Result<String, ExportError> {
    let machines = job.machines();
    let name = job.dns_name(Target::Dstack, 40)?;
    let position =
        Position { node: "\"$DSTACK_NODE_RANK\"", nodes: "\"$DSTACK_NODES_NUM\"", first: "\"$DSTACK_MASTER_NODE_IP\"" };
    let policy = match job.capacity_type() {
        CapacityType::Spot => "spot",
        CapacityType::SpotOrOnDemand => "auto",
        CapacityType::NonPreemptible => "on-demand",
    };
    let fallback = job.plan.spot.as_ref().and_then(|spot| spot.fallback_rate_usd_per_hour);
    let dearest = fallback.map_or(machines.rate_usd_per_hour, |fallback| fallback.max(machines.rate_usd_per_hour));
    let mut task = json!({
        "type": "task",
        "name": name,
        "nodes": machines.nodes,
        "commands": [script(job, position)?],
        "resources": {
            "gpu": { "name": gpu_name(job), "memory": format!("{}GB", job.gpu.memory_label_gb), "count": machines.gpus_per_node },
        },
        "spot_policy": policy,
        "max_price": (dearest.dollars() * PRICE_ROOM * 100.0).ceil() / 100.0,
        // Code 75 is an error to dstack, so errors are retried too; the agent has given up crash loops itself.
        "retry": { "on_events": ["no-capacity", "interruption", "error"], "duration": format!("{}h", job.likely_hours()) },
        "max_duration": format!("{}h", job.lifetime_hours()),
        "stop_duration": job.grace_seconds() + crate::job::MARGIN,
    });
    if machines.nodes > 1 {
        task["startup_order"] = json!("master-first");
        task["stop_criteria"] = json!("all-done");
    }
    if job.image != "IMAGE" {
        task["image"] = json!(job.image);
    }
    let mut how = vec!["dstack apply -f FILE; gpuplan has to be in the image".to_owned()];
    match backend_type(&machines.cloud) {
        Some(backend) => {
            task["backends"] = json!([backend]);
            task["regions"] = json!([machines.region]);
            if matches!(backend, "aws" | "gcp" | "azure" | "oci" | "lambda" | "nebius") {
                task["instance_types"] = json!([machine_type(machines)]);
            }
        }
        None => how.push(format!(
            "dstack does not know the cloud {}: any of its clouds with such machines is taken",
            machines.cloud
        )),
    }
    Ok(job.comments(&how) + &yaml::document(&task))
}

/// Names of gpuhunt are the families without `-` (H100, A100, RTX4090).
fn gpu_name(job: &Job) -> String {
    job.gpu.family.replace(['-', ' '], "")
}

/// dstack's word for a cloud (`BackendType`); `None`: it has none.
fn backend_type(cloud: &str) -> Option<&'static str> {
    match cloud {
        "aws" => Some("aws"),
        "gcp" => Some("gcp"),
        "azure" => Some("azure"),
        "oci" => Some("oci"),
        "lambda" => Some("lambda"),
        "nebius" => Some("nebius"),
        "runpod" => Some("runpod"),
        "vast" => Some("vastai"),
        "verda" => Some("verda"),
        "crusoe" => Some("crusoe"),
        "vultr" => Some("vultr"),
        "digitalocean" => Some("digitalocean"),
        "jarvis-labs" => Some("jarvislabs"),
        _ => None,
    }
}
