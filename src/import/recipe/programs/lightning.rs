//! Lightning: what LightningCLI and Hydra hand to its `Trainer` (lightning/pytorch/trainer/trainer.py, cli.py of 2.6.6).

use super::hugging_face::ANY;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{self, Cards, Choice, Machines};
use crate::recipe::words::{ACCUMULATION, EPOCHS, PRECISION, STEPS};

/// Numbers and short names are aliases (lightning/fabric/plugins/precision/precision.py, `_PRECISION_INPUT_STR_ALIAS_CONVERSION`).
pub const FORMATS: &[(&str, &str)] = &[
    ("bf16-mixed", "bf16"),
    ("bf16", "bf16"),
    ("16-mixed", "amp-fp16"),
    ("16", "amp-fp16"),
    ("bf16-true", "pure-bf16"),
    ("32-true", "fp32"),
    ("32", "fp32"),
    ("transformer-engine", "fp8"),
];

const SETTINGS: &[(&str, Setting)] = &[
    ("trainer.devices", Cards),
    ("trainer.gpus", Cards),
    ("trainer.num_nodes", Machines),
    ("trainer.precision", Choice(PRECISION, FORMATS)),
    ("trainer.max_steps", STEPS),
    ("trainer.max_epochs", EPOCHS),
    ("trainer.accumulate_grad_batches", ACCUMULATION),
];

/// The batch of a data module is that of a process or of all, as whoever wrote it liked: it is asked for.
pub const LIGHTNING: Dialect = Dialect {
    stack: "lightning",
    settings: SETTINGS,
    nothing: &[
        "trainer",
        "seed_everything",
        "ckpt_path",
        "optimizer",
        "lr_scheduler",
        "callbacks",
        "logger",
        "hydra",
        "paths",
        "extras",
        "tags",
        "task_name",
        "test",
    ],
    ..ANY
};
