//! `local_gpus`: the devices of this machine as the driver lists them. Makes no context and takes no memory.

use std::panic::catch_unwind;

use cudarc::driver::result::device;
use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute, CUresult};
use cudarc::driver::{DriverError, result};

use crate::cuda::refusals::words;
use crate::device::{DeviceError, LocalGpu};
use gpuplan_units::Bytes;

/// The library panics where the driver or one of its functions is missing, so its presence is asked first and the calls
/// are fenced: a machine without a GPU is an ordinary machine.
pub fn local_gpus() -> Result<Vec<LocalGpu>, DeviceError> {
    // SAFETY: loads the driver library by its well-known name and drops it again; its loading has no other effect.
    if !unsafe { sys::is_culib_present() } {
        return Err(DeviceError::NoDriver);
    }
    catch_unwind(list).unwrap_or_else(|_| {
        Err(DeviceError::Failed {
            call: "cuInit",
            detail: "the driver library lacks a function that this build needs".to_owned(),
        })
    })
}

fn list() -> Result<Vec<LocalGpu>, DeviceError> {
    result::init().map_err(|error| failed("cuInit", error))?;
    let count = device::get_count().map_err(|error| failed("cuDeviceGetCount", error))?;
    if count == 0 {
        return Err(DeviceError::NoDevice);
    }
    (0..count).map(|ordinal| describe(device::get(ordinal).map_err(|error| failed("cuDeviceGet", error))?)).collect()
}

fn describe(handle: CUdevice) -> Result<LocalGpu, DeviceError> {
    let attribute = |attribute: CUdevice_attribute| {
        // SAFETY: `handle` came from `device::get`.
        let value = unsafe { device::get_attribute(handle, attribute) };
        let value = value.map_err(|error| failed("cuDeviceGetAttribute", error))?;
        u32::try_from(value)
            .map_err(|_| DeviceError::Failed { call: "cuDeviceGetAttribute", detail: format!("gave {value}") })
    };
    // SAFETY: `handle` came from `device::get`.
    let memory = unsafe { device::total_mem(handle) }.map_err(|error| failed("cuDeviceTotalMem", error))?;
    Ok(LocalGpu {
        name: device::get_name(handle).map_err(|error| failed("cuDeviceGetName", error))?,
        memory: Bytes(memory as f64),
        compute_capability: (
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
    })
}

/// A driver without a GPU, and the stub that containers and build machines have instead of one, are no failure.
fn failed(call: &'static str, error: DriverError) -> DeviceError {
    match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => DeviceError::NoDevice,
        CUresult::CUDA_ERROR_STUB_LIBRARY => DeviceError::NoDriver,
        code => DeviceError::Failed { call, detail: words(call, code) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_or_without_a_gpu_gets_an_answer_and_no_panic() {
        match local_gpus() {
            Ok(gpus) => assert!(
                gpus.iter().all(|gpu| gpu.memory.0 > 0.0 && gpu.compute_capability.0 > 0 && !gpu.name.is_empty())
            ),
            Err(error) => assert!(
                matches!(error, DeviceError::NoDriver | DeviceError::NoDevice | DeviceError::Failed { .. }),
                "{error}"
            ),
        }
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn the_gpus_of_this_machine_are_listed() {
        assert!(!local_gpus().unwrap().is_empty());
    }
}
