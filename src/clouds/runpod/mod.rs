//! RunPod: prices and stock of its secure cloud by data centre. The community tier is hosts of strangers and is left out.

pub mod gpu_types;
pub mod stock;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "runpod";
