//! Nebius: its prices are told over gRPC with a service account only, so no live source stands here; the snapshot's prices do.

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "nebius";
