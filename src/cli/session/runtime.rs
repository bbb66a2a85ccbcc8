//! The runtime that asks clouds and stores.

use tokio::runtime::Runtime;

use crate::session::diagnostic::Diagnostic;

pub fn runtime() -> Result<Runtime, Diagnostic> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Diagnostic::unexpected)
}
