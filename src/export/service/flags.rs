//! A served plan in the words of vLLM and SGLang.

use super::Service;
use gpuplan_workload::{ServingEngine, StoredFormat};

/// What the estimate takes of a GPU's memory (`MEMORY_SHARE` in src/estimate/serving), said since vLLM's default moves. What SGLang's flag
/// divides is another thing, which it chooses by the GPU.
const MEMORY_SHARE: &str = "0.9";
/// Where machines of one SGLang replica meet.
const MEETING_PORT: u16 = 20_000;

/// How machines of one replica find each other, as words of a shell.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    pub machines: &'a str,
    pub rank: &'a str,
    pub first: &'a str,
}

/// The program itself.
pub fn program(service: &Service) -> Vec<String> {
    let words: &[&str] = match service.engine {
        ServingEngine::Sglang => &["python3", "-m", "sglang.launch_server", "--model-path"],
        _ => &["vllm", "serve"],
    };
    words.iter().map(|word| (*word).to_owned()).chain([service.model.clone()]).collect()
}

/// Flags of a replica, without where it listens.
pub fn flags(service: &Service) -> Vec<String> {
    let (layout, groups) = (&service.plan.layout.degrees, service.attention_groups);
    let pipeline = layout.pipeline.max(1);
    let each_stage = service.gpus_per_replica() / pipeline;
    let mut all: Vec<String> = Vec::new();
    let mut add = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
    let batch = service.serving.serving.batch_limit;
    if service.engine == ServingEngine::Sglang {
        // Its attention groups divide the GPUs of its tensor parallelism.
        add("--tp-size", each_stage.to_string());
        if pipeline > 1 {
            add("--pp-size", pipeline.to_string());
        }
        if service.expert_parallel {
            add("--ep-size", each_stage.to_string());
        }
        if groups > 1 {
            add("--dp-size", groups.to_string());
        }
        add("--max-running-requests", batch.to_string());
        add("--context-length", service.longest.to_string());
    } else {
        add("--tensor-parallel-size", (each_stage / groups).max(1).to_string());
        if pipeline > 1 {
            add("--pipeline-parallel-size", pipeline.to_string());
        }
        if groups > 1 {
            add("--data-parallel-size", groups.to_string());
        }
        add("--max-num-seqs", batch.to_string());
        add("--max-model-len", service.longest.to_string());
        add("--gpu-memory-utilization", MEMORY_SHARE.to_owned());
    }
    if service.asked.weights == StoredFormat::Fp8 && !service.is_stored_so {
        add("--quantization", "fp8".to_owned());
    }
    if service.asked.kv_cache == StoredFormat::Fp8 {
        add("--kv-cache-dtype", "fp8_e4m3".to_owned());
    }
    match service.engine {
        ServingEngine::Sglang if groups > 1 => all.push("--enable-dp-attention".to_owned()),
        ServingEngine::Vllm if service.expert_parallel => all.push("--enable-expert-parallel".to_owned()),
        _ => {}
    }
    all.extend(service.more.iter().cloned());
    all
}

/// Flags by which the machines of one replica meet.
pub fn group_flags(engine: ServingEngine, group: Group) -> String {
    let Group { machines, rank, first } = group;
    match engine {
        ServingEngine::Sglang => {
            format!("--nnodes {machines} --node-rank {rank} --dist-init-addr \"{first}:{MEETING_PORT}\"")
        }
        _ => format!("--nnodes {machines} --node-rank {rank} --master-addr \"{first}\""),
    }
}

/// What a machine that is not the first of its replica adds: there vLLM answers nobody.
pub fn follower_flags(engine: ServingEngine) -> &'static str {
    if engine == ServingEngine::Vllm { " --headless" } else { "" }
}
