//! What to type for a task by a name that others use for it.

use crate::file::WorkloadFileError;
use crate::file::scalar::{invalid_near, not_among, shown};

/// A task by a name that others use for it, or one that is not planned.
pub(super) fn unknown_task(text: &str, words: &[&str]) -> WorkloadFileError {
    let word = text.trim().to_ascii_lowercase();
    let detail = |why: &str| format!("`{}` is not known; choose one of {}{why}", shown(text), words.join(", "));
    match word.as_str() {
        "sft" | "instruct" | "instruction-tuning" | "finetuning" | "fine-tuning" | "full" | "dreambooth" => {
            invalid_near("training.task", detail(""), ["full-fine-tune".to_owned(), "lora".to_owned()])
        }
        "pretraining" | "pre-train" | "pre-training" | "from-scratch" => {
            invalid_near("training.task", detail(""), ["pretrain".to_owned()])
        }
        "dpo" | "ipo" | "orpo" | "simpo" | "cpo" | "kto" | "reward" | "distill" | "distillation" => {
            let objective = format!(
                "`{}` is what a step minimises, and no task of its own: --task full-fine-tune (or lora) with \
                 --set training.objective={word}",
                shown(text)
            );
            invalid_near("training.task", objective, Vec::new())
        }
        "grpo" | "ppo" | "rlhf" | "rlvr" | "rl" => {
            let phases = format!(
                "`{}` is planned in phases, rollouts under [serving] and updates under [training]: start from examples/grpo-7b.toml, \
                 or from examples/ppo-13b.toml for PPO with its critic",
                shown(text)
            );
            invalid_near("training.task", phases, Vec::new())
        }
        "serve" | "serving" | "inference" => {
            invalid_near("training.task", detail("; a served model is stated under [serving] of a file"), Vec::new())
        }
        "embed" | "embedding" | "embeddings" | "generate" | "generation" | "batch-inference" | "predict"
        | "evaluate" => {
            let requests = format!(
                "`{}` trains nothing: in place of --task and --samples say --requests 1M --prompt-tokens 500, or state the same under \
                 [serving] of a file, as in examples/embed-a-billion.toml",
                shown(text)
            );
            invalid_near("training.task", requests, Vec::new())
        }
        _ => not_among("training.task", text, words),
    }
}
