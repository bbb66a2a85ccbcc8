//! `StoreError`: why the store did not do it, and what the errors of `object_store` come to.

use std::io;

use object_store::Error;

/// Why the store did not do it, by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The user mends the address.
    #[error("`{address}` is not a valid store: {detail}")]
    Address { address: String, detail: String },
    /// Somebody mends the credentials; meanwhile it is tried again.
    #[error("the store denies access to {key}: {detail}")]
    Denied { key: String, detail: String },
    /// It is tried again.
    #[error("the store did not answer for {key}: {detail}")]
    Unavailable { key: String, detail: String },
    /// It was listed and is gone or was cut short.
    #[error("{key} is not in the store")]
    Missing { key: String },
    /// It is there, and what is in it is not what it should be. Nobody may take it for nothing.
    #[error("{key} cannot be read: {detail}")]
    Unreadable { key: String, detail: String },
    /// It was listed and is another now.
    #[error("{key} changed in the meantime")]
    Changed { key: String },
    /// The disk of this machine.
    #[error("{path}: {source}")]
    Local { path: String, source: io::Error },
}

impl StoreError {
    /// Whether the same request may succeed later: the store was away, or somebody mends the credentials.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Denied { .. })
    }
}

pub fn refused(key: &str, error: &Error) -> StoreError {
    let key = key.to_owned();
    match error {
        Error::NotFound { .. } => StoreError::Missing { key },
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            StoreError::Denied { key, detail: words(error) }
        }
        _ => StoreError::Unavailable { key, detail: words(error) },
    }
}

/// An error on one line of bounded length. Queries, where signatures stand, are cut off.
pub fn words(error: &Error) -> String {
    let text = error.to_string();
    let shown = text.split_whitespace().map(|word| word.split('?').next().unwrap_or_default());
    shown.collect::<Vec<_>>().join(" ").chars().take(300).collect()
}
