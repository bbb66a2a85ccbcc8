//! How fast the silicon really is: which GPUs this machine has, what a suite of benchmarks measures on them, and the file
//! that keeps it.

pub mod benchmark;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod file;
pub mod host;
pub mod plausible;
pub mod readings;
pub mod recorded;
pub mod simulated;
pub mod statistics;
pub mod suite;

pub use device::{DeviceError, LocalGpu, match_catalog};
pub use file::Calibration;
pub use simulated::SimulatedDevice;
pub use suite::{Shapes, Suite};

/// The first GPU of this machine, ready to be timed.
#[cfg(feature = "cuda")]
pub fn open_device() -> Result<Box<dyn device::Device>, DeviceError> {
    cuda::CudaDevice::open().map(|device| Box::new(device) as Box<dyn device::Device>)
}

#[cfg(not(feature = "cuda"))]
pub fn open_device() -> Result<Box<dyn device::Device>, DeviceError> {
    Err(DeviceError::NotBuilt { feature: "cuda" })
}

/// The GPUs of this machine, in the driver's order.
#[cfg(feature = "cuda")]
pub fn local_gpus() -> Result<Vec<LocalGpu>, DeviceError> {
    cuda::local::local_gpus()
}

#[cfg(not(feature = "cuda"))]
pub fn local_gpus() -> Result<Vec<LocalGpu>, DeviceError> {
    Err(DeviceError::NotBuilt { feature: "cuda" })
}
