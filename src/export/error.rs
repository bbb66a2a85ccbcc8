//! `ExportError`: why a plan cannot be written; first of all since a target or a framework is not known by its name.

use std::str::FromStr;

use crate::framework::Framework;
use crate::target::Target;
use gpuplan_plan::document::DocumentError;

/// Why a plan cannot be written so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("`{0}` is not an export target; choose one of {all}", all = Target::words().join(", "))]
    UnknownTarget(String),
    #[error("`{0}` is not a framework that exports have flags for; choose one of {all}", all = Framework::words().join(", "))]
    UnknownFramework(String),
    #[error("the plan cannot be read: {0}")]
    Plan(#[from] DocumentError),
    #[error("the layout {layout} cannot be expressed for {framework}: {why}")]
    Layout { framework: &'static str, layout: String, why: &'static str },
    #[error("--framework {framework} starts on all machines of the plan: {why}")]
    Elastic { framework: &'static str, why: &'static str },
    #[error("`{name}` is not a valid name for {target}: {rule}")]
    Name { name: String, target: Target, rule: &'static str },
    #[error("{target} {why}")]
    Unfit { target: Target, why: String },
    #[error(
        "a sweep of {runs} runs is not a single job; slurm, kubernetes, kueue, skypilot and ray queue it, and `gpuplan launch` starts it"
    )]
    Sweep { runs: u32 },
    #[error(
        "the {runs} runs of this sweep share cards, which the queues of engines do not deal out: plan with --set sweep.gpus_per_run=1, or `gpuplan launch` it"
    )]
    SharedCard { runs: u32 },
    #[error("this plan is for a service, which saves no checkpoints and never ends")]
    Service,
}

impl FromStr for Target {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Self, ExportError> {
        Self::ALL
            .into_iter()
            .find(|target| target.word() == text)
            .ok_or_else(|| ExportError::UnknownTarget(text.to_owned()))
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
