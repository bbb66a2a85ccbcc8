//! The store of a run: opened with the keys of this user.

use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::runtime::runtime;
use gpuplan_launch::RunSpec;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::{Run, Store, StoreError};

pub fn store_of_run(spec: &RunSpec) -> Result<Run, Diagnostic> {
    open_store(&spec.store, &spec.run)
}

pub fn open_store(address: &str, run: &str) -> Result<Run, Diagnostic> {
    let keys = if address.starts_with("s3://") { runtime()?.block_on(gpuplan_clouds::store_keys()) } else { None };
    let store = Store::signed(address, keys)?;
    Ok(Run::new(store, Layout::new(run).map_err(Diagnostic::usage)?))
}

/// One that is only named.
pub fn unasked_store(address: &str, run: &str) -> Result<Run, Diagnostic> {
    Ok(Run::new(Store::open(address)?, Layout::new(run).map_err(Diagnostic::usage)?))
}

impl From<StoreError> for Diagnostic {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Address { .. } => Self::usage(error),
            StoreError::Denied { .. } => Self::new(Exit::CloudRefused, error.to_string()).hint("gpuplan doctor"),
            _ => Self::unexpected(error),
        }
    }
}
