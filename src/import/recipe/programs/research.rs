//! fairseq (fairseq/options.py, dataclass/configs.py) and OpenCLIP (src/open_clip_train/params.py).

use super::hugging_face::ANY;
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Choice, Either, Gpus, Model, NotPlanned, Nothing, Number};
use crate::recipe::words::{ACCUMULATION, EPOCHS, LENGTH, MICRO_BATCH, PRECISION, RECOMPUTE, STEPS, value};
use crate::{JobRequest, Names};

/// fairseq. `max_tokens` limits a batch by its tokens, so how many sequences it has depends on the data.
pub const FAIRSEQ: Dialect = Dialect {
    settings: &[
        ("arch", Model),
        ("batch_size", MICRO_BATCH),
        ("max_sentences", MICRO_BATCH),
        ("update_freq", ACCUMULATION),
        ("tokens_per_sample", LENGTH),
        ("max_update", STEPS),
        ("max_epoch", EPOCHS),
        ("distributed_world_size", Gpus),
    ],
    nothing: &[
        "task",
        "save_dir",
        "user_dir",
        "criterion",
        "label_smoothing",
        "warmup_updates",
        "clip_norm",
        "adam_betas",
        "ddp_backend",
        "log_format",
        "tensorboard_logdir",
        "fp16_init_scale",
        "fp16_no_flatten_grads",
        "share_decoder_input_output_embed",
        "source_lang",
        "target_lang",
    ],
    complete: fairseq,
    ..ANY
};

/// It starts from nothing unless it names weights.
fn fairseq(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    let has_weights = ["restore_file", "finetune_from_model"].iter().any(|key| value(entries, key).is_some());
    let task = if has_weights { "full-fine-tune" } else { "pretrain" };
    asked.workload.training.task.get_or_insert_with(|| task.to_owned());
}

/// OpenCLIP trains an encoder of pictures and one of texts against each other: its model is no classifier of that name.
pub const OPEN_CLIP: Dialect = Dialect {
    settings: &[
        ("model", Model),
        ("batch_size", MICRO_BATCH),
        ("accum_freq", ACCUMULATION),
        ("train_num_samples", Number(|file| &mut file.data.samples)),
        (
            "precision",
            Choice(
                PRECISION,
                &[
                    ("amp", "amp-fp16"),
                    ("amp_bf16", "bf16"),
                    ("amp_bfloat16", "bf16"),
                    ("bf16", "bf16"),
                    ("pure_bf16", "pure-bf16"),
                    ("fp32", "fp32"),
                ],
            ),
        ),
        ("grad_checkpointing", Either(RECOMPUTE, "full", "none")),
        ("dataset_type", NotPlanned("the estimate knows no contrastive training of two encoders (CLIP)")),
        ("pretrained", Nothing),
    ],
    nothing: &[
        "val_data",
        "val_num_samples",
        "imagenet_val",
        "workers",
        "warmup",
        "wd",
        "beta1",
        "beta2",
        "name",
        "save_frequency",
        "save_most_recent",
        "zeroshot_frequency",
        "gather_with_grad",
        "local_loss",
        "aug_cfg",
        "logs",
    ],
    complete: |_, _, _| {},
    ..ANY
};
