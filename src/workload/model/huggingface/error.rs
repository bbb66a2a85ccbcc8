//! `ConfigError`: why a configuration cannot be used.

/// The largest published configurations are tens of kilobytes.
pub(super) const LARGEST_BYTES: u64 = 4 << 20;

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("the file is larger than {} MiB, which no model configuration is", LARGEST_BYTES >> 20)]
    TooLarge,
    #[error("not a model configuration: {0}")]
    Malformed(String),
    #[error("the model type `{model_type}` is not known")]
    UnknownModelType { model_type: String, suggestion: Option<String> },
    #[error(
        "it is a part of a diffusers pipeline (`{class}`) whose layers are not known; name such a model, as in `--model flux.1-dev`, or state `--params` and `--flops-per-sample` with `--set model.kind=diffusion`"
    )]
    Diffusers { class: String },
    /// The index of a pipeline, whose network is described in a folder beside it.
    #[error("it is the index of a pipeline, and its network is described by `{part}/config.json` beside it")]
    Pipeline { part: &'static str },
    #[error("`{key}` is missing")]
    Missing { key: String },
    #[error("`{key}` is {value}: {why}")]
    Impossible { key: String, value: String, why: String },
}
