//! vLLM, SGLang and text-generation-inference, which serve a model.

use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Model, Nothing};
use crate::recipe::usual::SERVING;
use crate::recipe::words::value;
use crate::{JobRequest, Names};

/// vLLM, SGLang and text-generation-inference.
pub const SERVE: Dialect = Dialect {
    stack: "",
    settings: &[("model", Model), ("model_path", Model), ("model_id", Model), ("quantization", Nothing)],
    nothing: &[
        "host",
        "port",
        "tensor_parallel_size",
        "tp",
        "tp_size",
        "pipeline_parallel_size",
        "pp",
        "pp_size",
        "data_parallel_size",
        "dp",
        "dp_size",
        "num_shard",
        "enable_dp_attention",
        "trust_remote_code",
        "gpu_memory_utilization",
        "max_model_len",
        "served_model_name",
        "enforce_eager",
        "dist_init_addr",
        "node_rank",
        "disable_log_requests",
        "mem_fraction_static",
        "chat_template",
        "max_num_seqs",
        "tokenizer_path",
        "tool_call_parser",
        "api_key",
        "swap_space",
        "seed",
    ],
    has_common: false,
    complete: serves,
};

fn serves(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    asked.not_planned.get_or_insert_with(|| SERVING.to_owned());
    let count = |keys: &[&str]| keys.iter().find_map(|key| value(entries, key)?.parse::<u32>().ok()).filter(|n| *n > 0);
    // The GPUs that the engine spreads the model over.
    let Some(tensor) = count(&["tensor_parallel_size", "tp", "tp_size", "num_shard"]) else { return };
    let pipeline = count(&["pipeline_parallel_size", "pp", "pp_size"]).unwrap_or(1);
    // SGLang's data parallel attention divides the GPUs of its tensor parallelism.
    let divides = entries.iter().any(|entry| entry.key == "enable_dp_attention");
    let data = count(&["data_parallel_size", "dp", "dp_size"]).filter(|_| !divides).unwrap_or(1);
    asked.launch.gpus = tensor.checked_mul(pipeline).and_then(|all| all.checked_mul(data));
    asked.launch.gpus_per_machine = None;
}
