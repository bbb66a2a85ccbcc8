//! DeepSpeed: its JSON configuration, for `--to deepspeed` and for programs that `deepspeed.initialize` starts from.

use serde_json::{Map, Value, json};

use crate::ExportError;
use crate::framework::Framework;
use crate::framework::invocation::{Invocation, configuration_path, flag, torchrun};
use crate::job::Job;
use gpuplan_workload::{Precision, Recompute, Shard};

pub const FILE: &str = "deepspeed.json";

/// JSON has no comments: what stands at the head of other files is a key that DeepSpeed does not look at.
pub fn render(job: &Job) -> Result<String, ExportError> {
    let plain = Job { to_edit: Vec::new(), framework: Framework::Deepspeed, ..job.clone() };
    let mut all = configuration(job)?;
    all["_comment"] = json!(plain.summary());
    Ok(format!("{all:#}\n"))
}

pub fn invocation(job: &Job) -> Result<Invocation, ExportError> {
    let mut flags = vec!["--deepspeed".to_owned()];
    flag(&mut flags, "deepspeed_config", configuration_path(job, FILE));
    Ok(Invocation {
        launcher: torchrun(job),
        flags,
        configuration: Some((FILE, pretty(job)?)),
        checkpoints: "deepspeed",
        ..Invocation::default()
    })
}

/// The configuration as a file holds it.
pub fn pretty(job: &Job) -> Result<String, ExportError> {
    Ok(format!("{:#}\n", configuration(job)?))
}

/// Keys of DeepSpeed's "Configuration JSON" page. `train_batch_size` follows from the two that are given.
fn configuration(job: &Job) -> Result<Value, ExportError> {
    job.only_data_parallel("deepspeed")?;
    let (layout, plan) = (job.layout(), &job.plan.layout);
    let mut all = Map::new();
    all.insert("train_micro_batch_size_per_gpu".to_owned(), json!(plan.micro_batch));
    all.insert("gradient_accumulation_steps".to_owned(), json!(job.micro_steps()));
    let mut zero = json!({ "stage": job.zero_stage() });
    if job.zero_stage() > 0 {
        zero["overlap_comm"] = json!(true);
        zero["contiguous_gradients"] = json!(true);
    }
    if job.zero_stage() == 3 {
        zero["stage3_gather_16bit_weights_on_model_save"] = json!(true);
    }
    if layout.shard == Shard::Hsdp {
        // MiCS: shards inside a group, copies between groups.
        zero["mics_shard_size"] = json!(layout.sharded_over());
        zero["mics_hierarchical_params_gather"] = json!(layout.sharded_over() > job.machines().gpus_per_node);
    }
    all.insert("zero_optimization".to_owned(), zero);
    match job.training.precision {
        Precision::Bf16 | Precision::PureBf16 => {
            all.insert("bf16".to_owned(), json!({ "enabled": true }));
        }
        Precision::Fp16 | Precision::AmpFp16 => {
            all.insert("fp16".to_owned(), json!({ "enabled": true, "loss_scale": 0 }));
        }
        Precision::Fp32 | Precision::Tf32 => {}
        _ => {
            return Err(job.misfit(
                "deepspeed",
                "it has no key for 8 bits or fewer; --framework megatron has arguments for them",
            ));
        }
    }
    if plan.recompute == Recompute::Offload {
        all.insert("activation_checkpointing".to_owned(), json!({ "cpu_checkpointing": true }));
    }
    if job.training.is_compiled {
        all.insert("compile".to_owned(), json!({ "deepcompile": false }));
    }
    Ok(Value::Object(all))
}
