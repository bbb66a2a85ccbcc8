//! OpenRLHF (openrlhf/cli) and verl (verl/trainer/config).

use super::hugging_face::ANY;
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{GpusPerMachine, Machines, Model, NotPlanned, Switch};
use crate::recipe::usual::REINFORCEMENT;
use crate::recipe::words::{EPOCHS, GLOBAL_BATCH, LENGTH, MICRO_BATCH};
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
        ("ref_pretrain", NotPlanned(REINFORCEMENT)),
        ("beta", NotPlanned(REINFORCEMENT)),
    ],
    nothing: &[
        "max_samples",
        "save_path",
        "zero_stage",
        "save_hf_model",
        "dataset_probs",
        "input_key",
        "apply_chat_template",
    ],
    complete: open_rlhf,
    ..ANY
};

/// Its adapters have rank 0 where nothing is said.
fn open_rlhf(_: &[Entry], asked: &mut JobRequest, _: Names) {
    let training = &mut asked.workload.training;
    let task = if training.lora.rank.is_some() { "lora" } else { "full-fine-tune" };
    training.task.get_or_insert_with(|| task.to_owned());
}

/// verl, verl/trainer/config.
pub const VERL: Dialect = Dialect {
    stack: "",
    settings: &[
        ("actor_rollout_ref.model.path", Model),
        ("trainer.n_gpus_per_node", GpusPerMachine),
        ("trainer.nnodes", Machines),
    ],
    nothing: &["trainer", "data", "actor_rollout_ref", "algorithm"],
    has_common: false,
    complete: |_, asked, _| {
        asked.not_planned.get_or_insert_with(|| REINFORCEMENT.to_owned());
    },
};
