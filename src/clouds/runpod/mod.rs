//! RunPod: prices and stock of its secure cloud by data centre. The community tier is hosts of strangers and is left out.

pub mod gpu_types;
pub mod stock;

use gpuplan_market::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "runpod";

pub fn sources() -> Sources {
    Sources { prices: vec![Box::new(gpu_types::GpuTypes::from_environment())], ..Sources::default() }
}
