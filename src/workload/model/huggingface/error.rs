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
        "it is a part of a diffusers pipeline (`{class}`), whose sizes do not tell the work of a sample; name such a model, as in `--model flux.1-dev`"
    )]
    Diffusers { class: String },
    #[error("`{key}` is missing")]
    Missing { key: String },
    #[error("`{key}` is {value}: {why}")]
    Impossible { key: String, value: String, why: String },
}
