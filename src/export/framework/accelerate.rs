//! Accelerate: its configuration file, for `--to accelerate` and for programs that `accelerate launch` starts.

use serde_json::{Value, json};

use crate::framework::Framework;
use crate::framework::invocation::{Invocation, configuration_path};
use crate::job::Job;
use crate::{ExportError, yaml};
use gpuplan_workload::{Precision, Recompute, Shard};

const FILE: &str = "accelerate.yaml";

/// The number of the machine and the first machine's address are given to `accelerate launch` on each machine.
pub fn render(job: &Job) -> Result<String, ExportError> {
    let how = if job.machines().nodes == 1 {
        "accelerate launch --config_file accelerate.yaml train.py".to_owned()
    } else {
        "accelerate launch --config_file accelerate.yaml --machine_rank N --main_process_ip FIRST train.py".to_owned()
    };
    let plain = Job { to_edit: Vec::new(), framework: Framework::Accelerate, ..job.clone() };
    Ok(plain.comments(&[how]) + &yaml::document(&configuration(job)?))
}

pub fn invocation(job: &Job) -> Result<Invocation, ExportError> {
    let mut launcher: Vec<String> = ["accelerate", "launch", "--config_file"].map(str::to_owned).to_vec();
    launcher.push(configuration_path(job, FILE));
    if job.machines().nodes > 1 {
        // Set by the script of the machine.
        launcher.extend(["--machine_rank", "$NODE", "--main_process_ip", "$FIRST"].map(str::to_owned));
    }
    let configuration = Some((FILE, yaml::document(&configuration(job)?)));
    Ok(Invocation { launcher, configuration, checkpoints: "auto", ..Invocation::default() })
}

/// Keys of `ClusterConfig` (accelerate, commands/config/config_args.py).
fn configuration(job: &Job) -> Result<Value, ExportError> {
    job.only_data_parallel("accelerate")?;
    let (layout, machines) = (job.layout(), job.machines());
    let kind = match layout.shard {
        Shard::None if layout.data == 1 => "NO",
        Shard::None => "MULTI_GPU",
        // Its FSDP always shards gradients; DeepSpeed has the lower stages.
        Shard::Zero1 | Shard::Zero2 => "DEEPSPEED",
        Shard::Zero3 | Shard::Hsdp => "FSDP",
    };
    let precision = match job.training.precision {
        Precision::Fp32 | Precision::Tf32 => "no",
        Precision::Bf16 | Precision::PureBf16 => "bf16",
        Precision::Fp16 | Precision::AmpFp16 => "fp16",
        Precision::Fp8 => "fp8",
        _ => return Err(job.misfit("accelerate", "it does not support this precision; --framework megatron does")),
    };
    let mut all = json!({
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "mixed_precision": precision,
        "num_machines": machines.nodes,
        "num_processes": machines.nodes * machines.gpus_per_node,
        "machine_rank": 0,
        "main_process_port": 29500,
        "rdzv_backend": "static",
        "main_training_function": "main",
        "use_cpu": false,
    });
    match kind {
        "FSDP" => all["fsdp_config"] = fsdp(job),
        "DEEPSPEED" => {
            all["deepspeed_config"] = json!({
                "zero_stage": job.zero_stage(),
                "gradient_accumulation_steps": job.micro_steps(),
                "zero3_init_flag": false,
            });
        }
        _ => {}
    }
    if job.training.is_compiled {
        all["dynamo_config"] = json!({ "dynamo_backend": "INDUCTOR" });
    }
    Ok(all)
}

fn fsdp(job: &Job) -> Value {
    let strategy = if job.layout().shard == Shard::Hsdp { "HYBRID_SHARD" } else { "FULL_SHARD" };
    json!({
        "fsdp_sharding_strategy": strategy,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_activation_checkpointing": job.plan.layout.recompute != Recompute::None,
        "fsdp_use_orig_params": true,
        "fsdp_offload_params": false,
    })
}
