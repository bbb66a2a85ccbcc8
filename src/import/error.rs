//! `ImportError`: why a file cannot be read as a job.

/// Why a file cannot be read as a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error(
        "it is not a job of Slurm (#SBATCH), SkyPilot (resources:), dstack (type:, commands:), Docker Compose (services:) or Kubernetes (apiVersion:, kind:), no script that starts a known training program, and no configuration of one"
    )]
    UnknownKind,
    #[error("it is a Helm template; `helm template CHART` first, and give its output")]
    HelmTemplate,
    /// Objects that are no job of a known kind.
    #[error("`kind: {0}` is not read")]
    UnreadKind(String),
    #[error("it is not valid YAML: {0}")]
    Yaml(String),
    #[error("`{key}`: {detail}")]
    Invalid { key: String, detail: String },
    /// It holds several, of which each has to be priced alone.
    #[error("it holds {} jobs ({}); put the one to price into a file of its own", .0.len(), .0.join(", "))]
    Several(Vec<String>),
    #[error("it asks for no GPU")]
    NoGpu,
    /// A count of cards that nobody named.
    #[error("it asks for {0} GPU{plural} and does not say which", plural = if *.0 == 1 { "" } else { "s" })]
    NoGpuName(u32),
    /// Cards with a name that no card of the catalog has.
    #[error("it asks for {count} GPU{plural} called `{name}`, and no GPU of the catalog is called so", plural = if *.count == 1 { "" } else { "s" })]
    UnknownGpu { count: u32, name: String },
}

/// A value that its key does not allow.
pub(crate) fn invalid(key: &str, detail: impl Into<String>) -> ImportError {
    ImportError::Invalid { key: key.to_owned(), detail: detail.into() }
}
