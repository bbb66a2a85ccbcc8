//! What to type for a task by a name that others use for it.

use crate::file::WorkloadFileError;
use crate::file::scalar::{invalid_near, not_among, shown};
use crate::stack::Stacks;

/// A task by a name that others use for it, or one that is not planned.
pub(super) fn unknown_task(text: &str, words: &[&str]) -> WorkloadFileError {
    let word = text.trim().to_ascii_lowercase();
    let detail = |why: &str| format!("`{}` is not known; choose one of {}{why}", shown(text), words.join(", "));
    match word.as_str() {
        "sft" | "instruct" | "instruction-tuning" | "finetuning" | "fine-tuning" | "full" | "dreambooth" => {
            invalid_near("training.task", detail(""), ["full-fine-tune".to_owned(), "lora".to_owned()])
        }
        "classification"
        | "sequence-classification"
        | "text-classification"
        | "token-classification"
        | "ner"
        | "regression"
        | "contrastive"
        | "sentence-transformers" => {
            let head = "; a head of a few columns is next to nothing beside the model";
            invalid_near("training.task", detail(head), ["full-fine-tune".to_owned(), "lora".to_owned()])
        }
        "cpt" | "continued-pretraining" | "continual-pretraining" | "domain-adaptation" => {
            invalid_near("training.task", detail(""), ["full-fine-tune".to_owned(), "pretrain".to_owned()])
        }
        "pretraining" | "pre-train" | "pre-training" | "from-scratch" => {
            invalid_near("training.task", detail(""), ["pretrain".to_owned()])
        }
        "dpo" | "ipo" | "orpo" | "simpo" | "cpo" | "kto" | "reward" | "reward-model" | "distill" | "distillation" => {
            let objective = format!(
                "`{}` is what a step minimises, and no task of its own: --task full-fine-tune (or lora) with \
                 --set training.objective={word}",
                shown(text)
            );
            invalid_near("training.task", objective, Vec::new())
        }
        "grpo" | "gspo" | "dapo" | "rloo" | "reinforce" | "ppo" | "rlhf" | "rlvr" | "rl" => {
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
        "embedding" | "embeddings" | "reranker" | "reranking" => {
            let both = format!(
                "`{}` is no task: a model for it is trained with --task full-fine-tune (or lora); to use one, in place of --task and \
                 --samples say --requests 1M --prompt-tokens 500 --answer-tokens 0",
                shown(text)
            );
            invalid_near("training.task", both, Vec::new())
        }
        "embed" | "generate" | "generation" | "batch-inference" | "predict" | "evaluate" => {
            let requests = format!(
                "`{}` trains nothing: in place of --task and --samples say --requests 1M --prompt-tokens 500, or state the same under \
                 [serving] of a file, as in examples/embed-a-billion.toml",
                shown(text)
            );
            invalid_near("training.task", requests, Vec::new())
        }
        _ if Stacks::embedded().find(&word).is_some() => {
            let framework = format!(
                "`{}` is what trains and no task: --framework {word} with --task lora (or qlora, full-fine-tune, pretrain)",
                shown(text)
            );
            invalid_near("training.task", framework, Vec::new())
        }
        _ => not_among("training.task", text, words),
    }
}
