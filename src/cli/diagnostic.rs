//! `Diagnostic`: message, hints, exit code. Every library error becomes one here, with what to type next.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use gpuplan_embedded::EmbeddedError;
use gpuplan_hardware::catalog::HardwareError;
use gpuplan_hardware::selector::SelectorError;
use gpuplan_market::snapshot::MarketError;
use gpuplan_plan::limits::LimitsError;
use gpuplan_workload::file::WorkloadFileError;
use gpuplan_workload::huggingface::ConfigError;
use gpuplan_workload::safetensors::IndexError;

/// Exit codes are part of the interface: scripts and schedulers read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Unexpected = 1,
    Usage = 2,
    NoPlanFits = 3,
    OnlyMoney = 4,
    StalePrices = 5,
    NoCapacity = 6,
    Quota = 7,
    CloudRefused = 8,
    MayCostMoney = 9,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub exit: Exit,
    pub message: String,
    pub hints: Vec<String>,
}

impl Diagnostic {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hints: Vec::new() }
    }

    pub fn unexpected(error: &dyn Error) -> Self {
        Self::new(Exit::Unexpected, error.to_string())
    }

    pub fn file(path: &Path, error: &std::io::Error) -> Self {
        Self::new(Exit::Usage, format!("cannot read {}: {error}", path.display()))
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub fn render(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        if !self.hints.is_empty() {
            text.push('\n');
        }
        for hint in &self.hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        text
    }
}

impl From<EmbeddedError> for Diagnostic {
    fn from(error: EmbeddedError) -> Self {
        Self::new(Exit::Unexpected, error.to_string())
    }
}

impl From<HardwareError> for Diagnostic {
    fn from(error: HardwareError) -> Self {
        Self::new(Exit::Usage, error.to_string())
    }
}

impl From<MarketError> for Diagnostic {
    fn from(error: MarketError) -> Self {
        Self::new(Exit::Usage, error.to_string())
    }
}

impl From<SelectorError> for Diagnostic {
    fn from(error: SelectorError) -> Self {
        let diagnostic = Self::new(Exit::Usage, error.to_string());
        match error {
            SelectorError::UnknownGpu { suggestion: Some(name), .. } => {
                diagnostic.hint(format!("did you mean `{name}`? `gpuplan catalog gpus` lists all"))
            }
            _ => diagnostic.hint("`gpuplan catalog gpus` lists every name"),
        }
    }
}

impl From<LimitsError> for Diagnostic {
    fn from(error: LimitsError) -> Self {
        let diagnostic = Self::new(Exit::Usage, error.to_string());
        match error {
            LimitsError::Gpus(inner) => Self::from(inner),
            LimitsError::UnknownCloud { known, .. } => diagnostic.hint(format!("known clouds: {}", known.join(", "))),
            LimitsError::DeadlinePassed { .. } => {
                diagnostic.hint("give a length of time instead, such as `--deadline 48h`")
            }
            LimitsError::Invalid { .. } => diagnostic,
        }
    }
}

impl From<WorkloadFileError> for Diagnostic {
    fn from(error: WorkloadFileError) -> Self {
        let diagnostic = Self::new(Exit::Usage, error.to_string());
        match error {
            WorkloadFileError::UnknownModel { suggestion: Some(name), .. } => {
                diagnostic.hint(format!("did you mean `{name}`? `gpuplan catalog models` lists all"))
            }
            WorkloadFileError::UnknownModel { .. } => {
                diagnostic.hint("`gpuplan catalog models` lists every name; for another model give `--config FILE` with its config.json")
            }
            WorkloadFileError::Syntax { suggestion: Some(name), .. } => diagnostic.hint(format!("did you mean `{name}`?")),
            WorkloadFileError::Missing { key, .. } if key.starts_with("model") => {
                diagnostic.hint("name one, as in `gpuplan plan --model llama-3.1-8b --task lora --tokens 10M`")
            }
            _ => diagnostic,
        }
    }
}

impl From<ConfigError> for Diagnostic {
    fn from(error: ConfigError) -> Self {
        let diagnostic = Self::new(Exit::Usage, format!("config.json: {error}"));
        match error {
            ConfigError::UnknownModelType { suggestion: Some(name), .. } => {
                diagnostic.hint(format!("did you mean `{name}`?"))
            }
            ConfigError::UnknownModelType { .. } => {
                diagnostic.hint("give the sizes under [model] of the workload file instead")
            }
            _ => diagnostic,
        }
    }
}

impl From<IndexError> for Diagnostic {
    fn from(error: IndexError) -> Self {
        Self::new(Exit::Usage, format!("model.safetensors.index.json: {error}"))
    }
}
