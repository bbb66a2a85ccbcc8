//! OpenRLHF (openrlhf/cli), verl (verl/trainer/config) and RL2.

use super::hugging_face::ANY;
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{
    Choice, Either, GpusPerMachine, Machines, Model, NotPlanned, Preference, Rank, Switch,
};
use crate::recipe::usual::REINFORCEMENT;
use crate::recipe::words::{EPOCHS, GLOBAL_BATCH, LENGTH, MICRO_BATCH, PRECISION, RECOMPUTE, STEPS};
use crate::{JobRequest, Names};

/// OpenRLHF, openrlhf/cli.
pub const OPEN_RLHF: Dialect = Dialect {
    stack: "",
    settings: &[
        ("pretrain", Model),
        ("max_len", LENGTH),
        ("train_batch_size", GLOBAL_BATCH),
        ("micro_train_batch_size", MICRO_BATCH),
        ("max_epochs", EPOCHS),
        ("flash_attn", Switch(|file| &mut file.training.attention, "flash")),
        ("reward_pretrain", NotPlanned(REINFORCEMENT)),
        ("ref_pretrain", Preference),
        ("beta", Preference),
        // Since its arguments have sections (openrlhf/cli/train_sft.py).
        ("model.model_name_or_path", Model),
        ("data.max_len", LENGTH),
        ("train.batch_size", GLOBAL_BATCH),
        ("train.micro_batch_size", MICRO_BATCH),
        ("train.max_epochs", EPOCHS),
        ("ds.param_dtype", Choice(PRECISION, &[("bf16", "bf16"), ("fp16", "amp-fp16")])),
        ("ds.lora.rank", Rank),
        ("model.gradient_checkpointing_enable", Either(RECOMPUTE, "full", "none")),
    ],
    nothing: &[
        "data",
        "ckpt",
        "logger",
        "eval",
        "ds",
        "adam",
        "max_samples",
        "save_path",
        "zero_stage",
        "save_hf_model",
        "dataset_probs",
        "input_key",
        "apply_chat_template",
    ],
    complete: whole_or_adapters,
    ..ANY
};

/// Its adapters have rank 0 where nothing is said.
fn whole_or_adapters(_: &[Entry], asked: &mut JobRequest, _: Names) {
    let training = &mut asked.workload.training;
    let task = if training.lora.rank.is_some() { "lora" } else { "full-fine-tune" };
    training.task.get_or_insert_with(|| task.to_owned());
}

/// verl, verl/trainer/config.
pub const VERL: Dialect = Dialect {
    stack: "",
    settings: &[
        ("actor_rollout_ref.model.path", Model),
        ("trainer.total_epochs", EPOCHS),
        ("trainer.total_training_steps", STEPS),
        ("trainer.n_gpus_per_node", GpusPerMachine),
        ("trainer.nnodes", Machines),
    ],
    nothing: &["trainer", "data", "actor_rollout_ref", "algorithm"],
    has_common: false,
    complete: |entries, asked, _| {
        // `n_gpus_per_node` and `nnodes` of ppo_trainer.yaml, where verl's own program has no other configuration and the command does not leave
        // them to who starts it.
        let is_own = asked.program.as_deref().is_some_and(|program| program.starts_with("verl."))
            && !asked.unread.iter().any(|one| one.value == crate::ask::ABSENT);
        let is_stated = |key: &str| !is_own || entries.iter().any(|entry| entry.key == key);
        if asked.launch.gpus.is_none() && !is_stated("trainer.n_gpus_per_node") {
            asked.launch.gpus_per_machine.get_or_insert(8);
        }
        if asked.launch.gpus.is_none() && !is_stated("trainer.nnodes") {
            asked.launch.machines.get_or_insert(1);
        }
        asked.not_planned.get_or_insert_with(|| REINFORCEMENT.to_owned());
    },
};

/// RL2, RL2/trainer.
pub const RL2: Dialect = Dialect {
    stack: "",
    settings: &[("actor.model_name", Model)],
    nothing: &["train_data", "test_data", "actor", "critic", "rollout", "adv", "trainer"],
    has_common: false,
    complete: |_, asked, _| {
        asked.not_planned.get_or_insert_with(|| REINFORCEMENT.to_owned());
    },
};

/// RL2's trainers that generate nothing (RL2/trainer/sft.py, dpo.py, rm.py).
pub const RL2_SFT: Dialect = Dialect {
    settings: &[
        ("actor.model_name", Model),
        ("data.batch_size", GLOBAL_BATCH),
        ("data.max_length", LENGTH),
        ("trainer.n_epochs", EPOCHS),
    ],
    nothing: &["data", "actor", "trainer"],
    complete: whole_or_adapters,
    ..RL2
};

/// verl's trainer of supervised fine-tuning (verl/trainer/config/sft_trainer.yaml), of whole models where no rank is stated.
pub const VERL_SFT: Dialect = Dialect {
    stack: "",
    settings: &[
        ("model.partial_pretrain", Model),
        ("model.path", Model),
        ("model.lora_rank", Rank),
        ("model.enable_gradient_checkpointing", Either(RECOMPUTE, "full", "none")),
        ("data.train_batch_size", GLOBAL_BATCH),
        ("data.micro_batch_size_per_gpu", MICRO_BATCH),
        ("data.max_length", LENGTH),
        ("trainer.total_epochs", EPOCHS),
        ("trainer.total_training_steps", STEPS),
        ("trainer.n_gpus_per_node", GpusPerMachine),
        ("trainer.nnodes", Machines),
    ],
    nothing: &["trainer", "data", "optim"],
    has_common: false,
    complete: whole_or_adapters,
};
