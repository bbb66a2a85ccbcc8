//! vLLM, SGLang and text-generation-inference, which serve a model.

use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{self, Choice, Flag, Model, Number};
use crate::recipe::setting::Word;
use crate::recipe::words::value;
use crate::{JobRequest, Names};

/// vLLM, SGLang and text-generation-inference.
pub const SERVE: Dialect = Dialect {
    stack: "",
    settings: &[
        ("model", Model),
        ("model_path", Model),
        ("model_id", Model),
        ("quantization", Choice(WEIGHTS, FORMATS)),
        ("quantize", Choice(WEIGHTS, FORMATS)),
        ("kv_cache_dtype", Choice(|file| &mut file.serving.kv_cache, CACHES)),
        ("tensor_parallel_size", TENSOR),
        ("tp", TENSOR),
        ("tp_size", TENSOR),
        ("num_shard", TENSOR),
        ("pipeline_parallel_size", PIPELINE),
        ("pp", PIPELINE),
        ("pp_size", PIPELINE),
        ("enable_expert_parallel", Flag(|file| &mut file.serving.expert_parallel)),
    ],
    nothing: &[
        "host",
        "port",
        "data_parallel_size",
        "dp",
        "dp_size",
        "enable_dp_attention",
        "trust_remote_code",
        "gpu_memory_utilization",
        "max_model_len",
        "context_length",
        "max_total_tokens",
        "enable_prefix_caching",
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
    complete: vllm,
};

pub const SGLANG: Dialect = Dialect { complete: sglang, ..SERVE };

pub const TGI: Dialect = Dialect { complete: tgi, ..SERVE };

const WEIGHTS: Word = |file| &mut file.serving.weights;
const TENSOR: Setting = Number(|file| &mut file.serving.tensor_parallel);
const PIPELINE: Setting = Number(|file| &mut file.serving.pipeline_parallel);
/// Methods of quantization by the format in which they keep weights (vLLM and SGLang, `--quantization`).
const FORMATS: &[(&str, &str)] = &[
    ("fp8", "fp8"),
    ("modelopt", "fp8"),
    ("w8a8_fp8", "fp8"),
    ("w8a8_int8", "int8"),
    ("awq", "int4"),
    ("awq_marlin", "int4"),
    ("gptq", "int4"),
    ("gptq_marlin", "int4"),
    ("mxfp4", "mxfp4"),
    ("modelopt_fp4", "nvfp4"),
];
const CACHES: &[(&str, &str)] =
    &[("fp8", "fp8"), ("fp8_e4m3", "fp8"), ("fp8_e5m2", "fp8"), ("bfloat16", "bf16"), ("bf16", "bf16")];

fn vllm(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    asked.workload.serving.engine = Some("vllm".to_owned());
    gpus(entries, asked);
}

fn sglang(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    gpus(entries, asked);
    let serving = &mut asked.workload.serving;
    serving.engine = Some("sglang".to_owned());
    // Its data parallel attention divides the GPUs of its tensor parallelism.
    let count = |keys: &[&str]| keys.iter().find_map(|key| value(entries, key)?.parse::<u32>().ok());
    let (tensor, groups) =
        (count(&["tensor_parallel_size", "tp", "tp_size"]), count(&["data_parallel_size", "dp", "dp_size"]));
    if let (Some(tensor), Some(groups), Some(_)) =
        (tensor, groups, entries.iter().find(|entry| entry.key == "enable_dp_attention"))
        && groups > 0
        && tensor.is_multiple_of(groups)
    {
        serving.tensor_parallel = Some((tensor / groups).into());
        serving.attention_data_parallel = Some(groups.into());
    }
}

/// text-generation-inference is estimated as vLLM, whose scheduler it resembles most of those that are known.
fn tgi(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    vllm(entries, asked, names);
    asked.leave_unread("text-generation-launcher", "estimated as vLLM");
}

/// Flags that multiply to the GPUs of a server, each under the names of the engines.
const DEGREES: [&[&str]; 3] = [
    &["tensor_parallel_size", "tp", "tp_size", "num_shard"],
    &["pipeline_parallel_size", "pp", "pp_size"],
    &["data_parallel_size", "dp", "dp_size"],
];

fn gpus(entries: &[Entry], asked: &mut JobRequest) {
    let count = |keys: &[&str]| keys.iter().find_map(|key| value(entries, key)?.parse::<u32>().ok()).filter(|n| *n > 0);
    // SGLang's server of pictures and films is told how many it has (`sglang serve --num-gpus 8`).
    if let Some(gpus) = count(&["num_gpus"]) {
        (asked.launch.gpus, asked.launch.gpus_per_machine) = (Some(gpus), None);
        return;
    }
    // The GPUs that the engine spreads the model over; what it is not told is one. A degree that only a run would tell leaves them open.
    let is_named = |keys: &&[&str]| keys.iter().any(|key| value(entries, key).is_some());
    let named: Vec<&[&str]> = DEGREES.into_iter().filter(is_named).collect();
    // SGLang's data parallel attention divides the GPUs of its tensor parallelism.
    let divides = entries.iter().any(|entry| entry.key == "enable_dp_attention");
    let counted = named.iter().filter(|keys| !(divides && keys.contains(&"dp")));
    let gpus = counted.map(|keys| count(keys)).try_fold(1u32, |all, degree| all.checked_mul(degree?));
    let Some(gpus) = gpus.filter(|_| !named.is_empty()) else { return };
    asked.launch.gpus = Some(gpus);
    asked.launch.gpus_per_machine = None;
}
