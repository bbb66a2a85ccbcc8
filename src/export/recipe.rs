//! Configurations of training programs that know a model by its name: what Axolotl, LLaMA-Factory and TRL share of a plan.

pub mod axolotl;
pub mod llama_factory;
pub mod trl;

use serde_json::{Map, Value, json};

use crate::assumed::weight_overlap;
use crate::framework::{deepspeed, hf_trainer};
use crate::job::{Job, prefixed_lines};
use crate::{ExportError, yaml};
use gpuplan_workload::{Precision, Recompute, Shard, Task};

/// `lora_alpha` over the rank: twice, as in most of the three projects' own examples. It changes neither time nor memory.
const ALPHA: u32 = 2;
/// The file beside the configuration, which `--to deepspeed` writes.
const DEEPSPEED: &str = "deepspeed.json";

/// Keys that the programs have under different names.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    pub program: &'static str,
    pub model: &'static str,
    pub length: &'static str,
    pub micro_batch: &'static str,
    pub epochs: &'static str,
    pub optimizer: &'static str,
    pub rank: &'static str,
    pub alpha: &'static str,
    pub has_fp8: bool,
}

/// The keys that all three have; what a program does not know is refused.
pub fn shared(job: &Job, names: Names) -> Result<Map<String, Value>, ExportError> {
    job.only_data_parallel(names.program)?;
    let (recipe, plan) = (&job.recipe, &job.plan.layout);
    let mut all = Map::new();
    let mut add = |key: &str, value: Value| all.insert(key.to_owned(), value);
    add(names.model, json!(recipe.model));
    add(names.length, json!(job.training.sequence_length));
    add(names.micro_batch, json!(plan.micro_batch));
    add("gradient_accumulation_steps", json!(job.micro_steps()));
    match (&recipe.epochs, &recipe.steps) {
        (Some(epochs), _) => add(names.epochs, number(epochs)),
        (None, Some(steps)) => add("max_steps", number(steps)),
        (None, None) => None,
    };
    match job.training.precision {
        Precision::Bf16 | Precision::PureBf16 => add("bf16", json!(true)),
        Precision::Fp16 | Precision::AmpFp16 => add("fp16", json!(true)),
        // Where nothing is said, Axolotl and TRL take 16 bits on cards that have them.
        Precision::Tf32 | Precision::Fp32 => {
            if job.training.precision == Precision::Tf32 {
                add("tf32", json!(true));
            }
            add("bf16", json!(false))
        }
        Precision::Fp8 if names.has_fp8 => {
            add("bf16", json!(true));
            add("fp8", json!(true))
        }
        _ => return Err(job.misfit(names.program, "it has no key for this precision; --framework megatron does")),
    };
    if let Some(name) = job.training.optimizer.map(hf_trainer::optimizer) {
        let name = name.ok_or_else(|| job.misfit(names.program, "it does not support this optimizer"))?;
        add(names.optimizer, json!(name));
    }
    if job.training.is_compiled {
        add("torch_compile", json!(true));
    }
    if let Some(rank) = recipe.rank {
        add(names.rank, json!(rank));
        add(names.alpha, json!(rank * ALPHA));
        // TRL drops some where nothing is said.
        if job.stated("lora.dropout") == Some("false") {
            add("lora_dropout", json!(0.0));
        }
    }
    if matches!(job.layout().shard, Shard::Zero1 | Shard::Zero2) {
        add("deepspeed", json!(DEEPSPEED));
    }
    if let Some(workers) = job.stated("data.workers") {
        add("dataloader_num_workers", number(workers));
    }
    add("output_dir", json!("checkpoints"));
    add("save_strategy", json!("steps"));
    add("save_steps", json!(job.save_every_steps()));
    Ok(all)
}

/// Whether attention is computed without a fused kernel. Kernels that only newer cards have stay at the head of the file.
pub fn is_eager(job: &Job) -> bool {
    job.stated("attention") == Some("eager")
}

/// Whether the constants of weights of four bits are quantised once more, where the plan says it. Axolotl and LLaMA-Factory do so by themselves, TRL does not.
pub fn quantizes_twice(job: &Job) -> Option<bool> {
    match job.stated("base_weights")? {
        "nf4-dq" => Some(true),
        "nf4" => Some(false),
        _ => None,
    }
}

/// Whether activations are computed again. The programs recompute whole layers or none.
pub fn recomputes(job: &Job, program: &'static str) -> Result<bool, ExportError> {
    match job.plan.layout.recompute {
        Recompute::None => Ok(false),
        Recompute::Full => Ok(true),
        _ => Err(job.misfit(program, "it recomputes whole layers or none: plan with --recompute full or none")),
    }
}

/// `fsdp` of Hugging Face's `TrainingArguments`; ZeRO 1 and 2 are DeepSpeed's.
pub fn fsdp(job: &Job) -> Option<&'static str> {
    match job.layout().shard {
        Shard::Zero3 => Some("full_shard auto_wrap"),
        Shard::Hsdp => Some("hybrid_shard auto_wrap"),
        Shard::None | Shard::Zero1 | Shard::Zero2 => None,
    }
}

/// Whether adapters are trained, and on weights of four bits.
pub fn adapters(job: &Job) -> (bool, bool) {
    (matches!(job.recipe.task, Task::Lora | Task::Qlora), job.recipe.task == Task::Qlora)
}

/// The file with its head. `left`: what the price assumes and no key says.
pub fn file(job: &Job, all: Map<String, Value>, edit: &[&str], how: &[String]) -> Result<String, ExportError> {
    let mut lines = job.plan_lines();
    lines.extend(edit.iter().map(|what| format!("EDIT {what}")));
    if job.recipe.model_is_open() {
        lines.push(format!("EDIT {} (the weights that you start from)", job.recipe.model));
    }
    let told = ["objective", "packing", "lora.rank", "lora.targets", "base_weights", "data.workers"];
    let is_told = |key: &str, value: &str| {
        told.contains(&key) || matches!((key, value), ("attention", "flash" | "eager") | ("lora.dropout", "false"))
    };
    let other = job.training.other.iter().filter(|(key, value)| !is_told(key, value));
    let mut left: Vec<String> = other.map(|(key, value)| format!("{key} {value}")).collect();
    // Neither DeepSpeed nor Hugging Face's Trainer does.
    left.extend(weight_overlap(job));
    if job.recipe.epochs.is_none() && job.recipe.steps.is_none() {
        left.push(job.recipe.amount.clone().unwrap_or_else(|| "how much is trained".to_owned()));
    }
    if !left.is_empty() {
        lines
            .push(format!("SET in your program: {}. The price assumes it, and nothing below says it", left.join("; ")));
    }
    if matches!(job.layout().shard, Shard::Zero1 | Shard::Zero2) {
        deepspeed::pretty(job)?;
        lines.push(format!("gpuplan export PLAN --to deepspeed --out {DEEPSPEED}"));
    }
    Ok(prefixed_lines("# ", lines.iter().chain(how)) + &yaml::document(&Value::Object(all)))
}

/// Whole numbers are written as such.
fn number(text: &str) -> Value {
    let plain = text.replace('_', "");
    plain
        .parse::<u64>()
        .map(|number| json!(number))
        .or_else(|_| plain.parse::<f64>().map(|number| json!(number)))
        .unwrap_or_else(|_| json!(text))
}
