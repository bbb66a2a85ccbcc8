//! vLLM and SGLang, which serve a model.

use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Model, Nothing};
use crate::recipe::usual::SERVING;

/// vLLM and SGLang.
pub const SERVE: Dialect = Dialect {
    stack: "",
    settings: &[("model", Model), ("model_path", Model), ("quantization", Nothing)],
    nothing: &[
        "host",
        "port",
        "tensor_parallel_size",
        "tp",
        "tp_size",
        "pipeline_parallel_size",
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
        "seed",
    ],
    has_common: false,
    complete: |_, asked, _| {
        asked.not_planned.get_or_insert_with(|| SERVING.to_owned());
    },
};
