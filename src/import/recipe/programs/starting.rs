//! Files of Accelerate and DeepSpeed, which say how to start and to shard.

use super::hugging_face::ANY;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::Precision;
use crate::recipe::words::{ACCUMULATION, GLOBAL_BATCH};

/// Accelerate's file of how to start.
pub const ACCELERATE: Dialect = Dialect {
    stack: "",
    settings: &[("deepspeed_config.gradient_accumulation_steps", ACCUMULATION)],
    nothing: &[
        "compute_environment",
        "debug",
        "deepspeed_config",
        "distributed_type",
        "downcast_bf16",
        "machine_rank",
        "main_training_function",
        "same_network",
        "tpu_env",
        "tpu_use_cluster",
        "tpu_use_sudo",
        "use_cpu",
        "fsdp_config",
        "enable_cpu_affinity",
        "gpu_ids",
        "rdzv_backend",
    ],
    ..ANY
};

pub const DEEPSPEED: Dialect = Dialect {
    stack: "deepspeed",
    settings: &[
        ("train_batch_size", GLOBAL_BATCH),
        ("bf16.enabled", Precision("bf16")),
        ("fp16.enabled", Precision("amp-fp16")),
    ],
    nothing: &[
        "zero_optimization",
        "tensor_parallel",
        "_comment",
        "fp16",
        "bf16",
        "gradient_clipping",
        "zero_allow_untested_optimizer",
        "steps_per_print",
        "wall_clock_breakdown",
    ],
    ..ANY
};
