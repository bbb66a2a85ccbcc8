//! fairseq (fairseq/options.py, dataclass/configs.py), OpenCLIP (src/open_clip_train/params.py) and Llama Cookbook
//! (src/llama_cookbook/configs/training.py, formerly llama-recipes).

use super::hugging_face::{ANY, adapters};
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{
    Choice, Either, Gpus, Model, ModelOrKind, NotPlanned, Nothing, Number, Objective, Optimizer, Precision, Rank,
};
use crate::recipe::usual::{OBJECTIVES, OPTIMIZERS, PREFIX};
use crate::recipe::words::{
    ACCUMULATION, EPOCHS, GLOBAL_BATCH, LENGTH, MICRO_BATCH, PRECISION, RECOMPUTE, STEPS, TASK, pretrains, value,
};
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

/// It starts from nothing unless it names weights. A task of somebody's own (`user_dir`) may load some by any word.
fn fairseq(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    if entries.iter().any(|entry| entry.key.ends_with("user_dir")) {
        return;
    }
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

/// GaLore's program of pre-training (torchrun_main.py) and those that took it over, from ReLoRA on: a batch for each process and one of all, and
/// weights in the format of `dtype`, which is bf16 unless it says otherwise.
pub const GALORE: Dialect = Dialect {
    settings: &[
        ("batch_size", MICRO_BATCH),
        ("total_batch_size", GLOBAL_BATCH),
        ("gradient_accumulation", ACCUMULATION),
        ("dtype", Choice(PRECISION, &[("bfloat16", "pure-bf16"), ("bf16", "pure-bf16"), ("float32", "fp32")])),
    ],
    nothing: &["eval_every", "save_every", "save_dir", "grad_clipping", "activation_checkpointing", "scheduler"],
    complete: |_, asked, _| pretrains(asked),
    ..ANY
};

/// The reference of DPO (eric-mitchell/direct-preference-optimization, config/config.yaml): whole models, and the batch of all with its accumulation.
pub const DPO_REFERENCE: Dialect = Dialect {
    settings: &[
        ("model", Model),
        ("loss", Objective(OBJECTIVES)),
        ("batch_size", GLOBAL_BATCH),
        ("model.fsdp_policy_mp", Choice(PRECISION, &[("bfloat16", "bf16"), ("float16", "amp-fp16")])),
    ],
    nothing: &[
        "exp_name",
        "datasets",
        "eval_batch_size",
        "trainer",
        "sample_during_eval",
        "do_first_eval",
        "eval_every",
        "loss",
    ],
    complete: |_, asked, _| {
        asked.workload.training.task.get_or_insert_with(|| "full-fine-tune".to_owned());
    },
    ..ANY
};

/// diffusion-pipe (tdrussell/diffusion-pipe, examples/main_example.toml): whole models, unless it has an adapter.
pub const DIFFUSION_PIPE: Dialect = Dialect {
    settings: &[
        ("micro_batch_size_per_gpu", MICRO_BATCH),
        ("model.diffusers_path", Model),
        ("model.ckpt_path", Model),
        ("model.transformer_path", Model),
        ("model.type", ModelOrKind),
        ("model.dtype", Choice(PRECISION, &[("bfloat16", "bf16"), ("float16", "amp-fp16"), ("float32", "fp32")])),
        ("adapter.type", Choice(TASK, &[("lora", "lora")])),
        ("adapter.rank", Rank),
        ("optimizer.type", Optimizer(OPTIMIZERS)),
        ("activation_checkpointing", Either(RECOMPUTE, "full", "none")),
    ],
    nothing: &[
        "dataset",
        "gradient_clipping",
        "partition_method",
        "save_dtype",
        "caching_batch_size",
        "steps_per_print",
        "save_every_n_epochs",
        "checkpoint_every_n_minutes",
        "eval_every_n_epochs",
        "eval_before_first_step",
        "eval_micro_batch_size_per_gpu",
        "eval_gradient_accumulation_steps",
        "model.timestep_sample_method",
        "adapter.dtype",
        "optimizer",
    ],
    complete: |_, asked, _| {
        asked.workload.training.task.get_or_insert_with(|| "full-fine-tune".to_owned());
    },
    ..ANY
};

/// mlx-lm (mlx_lm/lora.py): `num_layers` is how many of the layers have adapters.
pub const MLX: Dialect = Dialect {
    settings: &[
        ("fine_tune_type", Choice(TASK, &[("lora", "lora"), ("full", "full-fine-tune")])),
        ("batch_size", MICRO_BATCH),
        ("iters", STEPS),
        ("lora_parameters.rank", Rank),
        ("grad_checkpoint", Either(RECOMPUTE, "full", "none")),
    ],
    nothing: &[
        "train",
        "data",
        "adapter_path",
        "lora_parameters",
        "steps_per_report",
        "steps_per_eval",
        "val_batches",
        "save_every",
        "test",
    ],
    complete: |_, _, _| {},
    ..ANY
};

/// Llama Cookbook: whole models, unless adapters are asked for.
pub const LLAMA_COOKBOOK: Dialect = Dialect {
    settings: &[
        ("batch_size_training", MICRO_BATCH),
        ("context_length", LENGTH),
        ("fsdp_config.pure_bf16", Precision("pure-bf16")),
        ("quantization", Choice(|file| &mut file.training.base_weights, &[("4bit", "nf4"), ("8bit", "int8")])),
        // On unless it is switched off; the format is another key's.
        ("mixed_precision", Nothing),
    ],
    nothing: &[
        "enable_fsdp",
        "peft_method",
        "low_cpu_fsdp",
        "dist_checkpoint_root_folder",
        "dist_checkpoint_folder",
        "save_model",
        "save_metrics",
        "save_optimizer",
        "run_validation",
        "use_fast_kernels",
        "use_wandb",
        "batching_strategy",
        "val_batch_size",
        "num_workers_dataloader",
        "custom_dataset",
    ],
    complete: llama_cookbook,
    ..ANY
};

fn llama_cookbook(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    let has_adapters = asked.workload.training.task.as_deref() == Some("lora");
    if has_adapters && value(entries, "peft_method").is_some_and(|method| method != "lora") {
        asked.not_planned.get_or_insert_with(|| PREFIX.to_owned());
    }
    asked.workload.training.task.get_or_insert_with(|| "full-fine-tune".to_owned());
    adapters(entries, asked, names);
}
