//! Nebius: its public or keyed price interface.

use crate::clouds::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "nebius";

pub fn sources() -> Sources {
    Sources::default()
}
