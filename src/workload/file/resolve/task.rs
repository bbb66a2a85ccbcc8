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
            let both = format!(
                "; `{word}` is an objective: --task full-fine-tune (or lora) with --set training.objective={word}"
            );
            invalid_near("training.task", detail(&both), Vec::new())
        }
        "grpo" | "ppo" | "rlhf" | "rlvr" | "rl" => {
            let phases = "; reinforcement learning is planned in phases, rollouts under [serving] and updates under [training], as in \
                          examples/grpo-7b.toml, and PPO with its critic in examples/ppo-13b.toml";
            invalid_near("training.task", detail(phases), Vec::new())
        }
        "serve" | "serving" | "inference" => {
            invalid_near("training.task", detail("; a served model is stated under [serving] of a file"), Vec::new())
        }
        "embed" | "embedding" | "embeddings" | "generate" | "generation" | "batch-inference" | "predict"
        | "evaluate" => {
            let requests = "; requests to get done are stated under [serving] of a file, as in examples/embed-a-billion.toml, or as \
                            --requests 1M --prompt-tokens 500 without a task";
            invalid_near("training.task", detail(requests), Vec::new())
        }
        _ => not_among("training.task", text, words),
    }
}
