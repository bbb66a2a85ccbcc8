//! `Framework`: who trains, and how it is told the layout: launcher, flags, variables and configuration files.

use std::fmt;
use std::str::FromStr;

use crate::job::Job;
use crate::{ExportError, accelerate, deepspeed, lightning, megatron, plain, torchtitan, trainer};
use gpuplan_workload::Layout;

/// Frameworks with flags of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// The command as it is: nothing is added.
    None,
    /// PyTorch DDP or FSDP in the user's own words: the layout is given as variables.
    Fsdp,
    Accelerate,
    Deepspeed,
    Megatron,
    Torchtitan,
    /// TrainingArguments of Hugging Face transformers.
    HfTrainer,
    /// LightningCLI.
    Lightning,
}

/// How a framework is told the layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Words of the command before the user's own.
    pub launcher: Vec<String>,
    /// Words after the user's own.
    pub flags: Vec<String>,
    /// Variables of the program.
    pub variables: Vec<(String, String)>,
    /// Name and text of a file that the launcher or a flag names; it lies at `configuration_path`.
    pub configuration: Option<(&'static str, String)>,
    /// Names of the agent's `--framework`, by which it knows a complete checkpoint.
    pub checkpoints: &'static str,
}

impl Framework {
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Fsdp,
        Self::Accelerate,
        Self::Deepspeed,
        Self::Megatron,
        Self::Torchtitan,
        Self::HfTrainer,
        Self::Lightning,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fsdp => "fsdp",
            Self::Accelerate => "accelerate",
            Self::Deepspeed => "deepspeed",
            Self::Megatron => "megatron",
            Self::Torchtitan => "torchtitan",
            Self::HfTrainer => "hf-trainer",
            Self::Lightning => "lightning",
        }
    }

    pub fn words() -> Vec<&'static str> {
        Self::ALL.map(Self::word).to_vec()
    }

    /// By the name in the workload; without one a layout that splits layers is Megatron's, another plain PyTorch's.
    pub fn of_workload(named: &str, layout: &Layout) -> Result<Self, ExportError> {
        let splits_layers = layout.model_parallel() > 1 || layout.context > 1 || layout.expert > 1;
        match named {
            "" if splits_layers => Ok(Self::Megatron),
            "" | "fsdp-compile" | "pytorch-eager" | "litgpt" | "torchtune" => Ok(Self::Fsdp),
            "megatron-deepspeed" | "nemo" => Ok(Self::Megatron),
            other => other.parse(),
        }
    }

    /// Stands for the user's program where none was given.
    pub fn placeholder(self) -> &'static [&'static str] {
        match self {
            // Of torchtitan the user's part is its configuration, of Lightning the sub-command too.
            Self::Torchtitan => &["train.toml"],
            Self::Lightning => &["train.py", "fit"],
            Self::Megatron => &["pretrain_gpt.py"],
            _ => &["train.py"],
        }
    }

    pub fn told(self, job: &Job) -> Result<Told, ExportError> {
        if job.nodes_at_least.is_some() && !matches!(self, Self::None | Self::Megatron) {
            let why = "it would train with another batch on fewer machines; --framework megatron keeps it, and `none` leaves it to you";
            return Err(job.misfit(self.word(), why));
        }
        match self {
            Self::None => Ok(Told { checkpoints: "auto", ..Told::default() }),
            Self::Fsdp => plain::told(job),
            Self::Accelerate => accelerate::told(job),
            Self::Deepspeed => deepspeed::told(job),
            Self::Megatron => megatron::told(job),
            Self::Torchtitan => torchtitan::told(job),
            Self::HfTrainer => trainer::told(job),
            Self::Lightning => lightning::told(job),
        }
    }
}

impl fmt::Display for Framework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Framework {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Self, ExportError> {
        Self::ALL
            .into_iter()
            .find(|framework| framework.word() == text)
            .ok_or_else(|| ExportError::UnknownFramework(text.to_owned()))
    }
}

/// `torchrun` on one machine of several: where and which it is stands in the variables that it reads itself, `PET_NNODES`,
/// `PET_NODE_RANK`, `PET_MASTER_ADDR` and `PET_MASTER_PORT` (PyTorch, torch/distributed/argparse_util.py), so the command is the
/// same on every machine and in every life of the run.
pub fn torchrun(job: &Job) -> Vec<String> {
    let mut words = vec!["torchrun".to_owned()];
    if job.plan.nodes == 1 {
        words.push("--standalone".to_owned());
    }
    words.push(format!("--nproc-per-node={}", job.plan.gpus_per_node));
    words
}

/// Where a configuration lies on a machine: its own disk, since a shared folder would be written by all at once.
pub fn configuration_path(job: &Job, name: &str) -> String {
    format!("/tmp/gpuplan-{}-{name}", job.run)
}

/// `--name value`, both words.
pub fn flag(flags: &mut Vec<String>, name: &str, value: impl fmt::Display) {
    flags.extend([format!("--{name}"), value.to_string()]);
}
