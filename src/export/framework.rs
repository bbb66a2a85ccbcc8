//! `Framework`: what trains, by its name; below it one file a framework, which writes a layout in its words.

pub mod accelerate;
pub mod deepspeed;
pub mod fsdp;
pub mod hf_trainer;
pub mod invocation;
pub mod lightning;
pub mod megatron;
pub mod torchtitan;

use std::fmt;

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

    /// Stands for the user's program where none was given.
    pub fn placeholder(self) -> &'static [&'static str] {
        match self {
            // Of torchtitan the user's part is its configuration, of Lightning the sub-command too.
            Self::Torchtitan => &["--module", "llama3", "--config", "llama3_8b"],
            Self::Lightning => &["train.py", "fit"],
            Self::Megatron => &["pretrain_gpt.py"],
            _ => &["train.py"],
        }
    }
}

impl fmt::Display for Framework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
