//! Counters through NVML: all that `nvidia-smi` prints, and what goes over PCIe and NVLink, read by a thread of its own.

#![allow(
    unsafe_code,
    reason = "the wrapper cannot ask for the counters of all links; the one block says why it is sound"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, park_timeout, spawn};
use std::time::Duration;

use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::struct_wrappers::device::FieldValueSample;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};

use crate::counters::nvlink::{KIB, LinkRates};
use crate::samples::GpuSample;

/// A driver that is queried at a fixed pace, and the last sample of each GPU.
pub struct NvmlCounters {
    latest: Arc<Mutex<Vec<GpuSample>>>,
    is_over: Arc<AtomicBool>,
    /// A look at PCIe takes 20 ms a direction and GPU (NVML API reference, `nvmlDeviceGetPcieThroughput`), so that it has a
    /// thread of its own.
    reader: Option<JoinHandle<()>>,
}

impl NvmlCounters {
    /// The error says why no GPU can be read.
    pub fn start(interval: Duration) -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| format!("NVML cannot be used: {error}"))?;
        let count = nvml.device_count().map_err(|error| format!("NVML counts no GPUs: {error}"))?;
        if count == 0 {
            return Err("the driver sees no GPU".to_owned());
        }
        let (latest, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (shared, stop) = (Arc::clone(&latest), Arc::clone(&is_over));
        let reader = spawn(move || {
            let mut links = LinkRates::default();
            while !stop.load(Ordering::Relaxed) {
                // A GPU that falls off the bus is missing from the next samples.
                let samples = (0..count)
                    .filter_map(|index| Some(sample(index, &nvml.device_by_index(index).ok()?, &mut links)))
                    .collect();
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = samples;
                park_timeout(interval);
            }
        });
        Ok(Self { latest, is_over, reader: Some(reader) })
    }

    /// What it last said; nothing before its first look.
    pub fn latest(&self) -> Vec<GpuSample> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for NvmlCounters {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.thread().unpark();
            // A reader that panicked has nothing more to say.
            let _ = reader.join();
        }
    }
}

fn sample(index: u32, device: &Device, links: &mut LinkRates) -> GpuSample {
    let share = |percent: u32| f64::from(percent.min(100)) / 100.0;
    let use_of = device.utilization_rates().ok();
    let memory = device.memory_info().ok();
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
    let pcie = |counter| device.pcie_throughput(counter).ok().map(|kib| f64::from(kib) * KIB);
    if let Some((seconds, bytes)) = link_bytes(device) {
        links.record(index, seconds, bytes);
    }
    GpuSample {
        index,
        name: device.name().unwrap_or_default(),
        busy: use_of.as_ref().map(|rates| share(rates.gpu)),
        memory_bus_busy: use_of.as_ref().map(|rates| share(rates.memory)),
        memory_used_bytes: memory.as_ref().map(|memory| memory.used as f64),
        memory_total_bytes: memory.as_ref().map(|memory| memory.total as f64),
        power_watts: device.power_usage().ok().map(watts),
        power_limit_watts: device.enforced_power_limit().ok().map(watts),
        temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
        clock_mhz: device.clock_info(Clock::SM).ok().map(f64::from),
        clock_max_mhz: device.max_clock_info(Clock::SM).ok().map(f64::from),
        throttle_reasons: device.current_throttle_reasons().ok().map(|reasons| reasons.bits()),
        pcie_receive_bytes_per_second: pcie(PcieUtilCounter::Receive),
        pcie_send_bytes_per_second: pcie(PcieUtilCounter::Send),
        nvlink_bytes_per_second: links.rate(index),
    }
}

/// Scope of a counter that means all links of the GPU together (`nvml.h`, comment of the NVLink throughput counters).
const ALL_LINKS: u32 = u32::MAX;

/// Bytes over NVLink in both directions since the driver was loaded, and when that was, in seconds since 1970; `None` where
/// there is no NVLink, or a driver that does not count.
fn link_bytes(device: &Device) -> Option<(f64, f64)> {
    let ask = device.nvml().lib().nvmlDeviceGetFieldValues.as_ref().ok()?;
    let mut values =
        [NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX].map(|field| nvmlFieldValue_t {
            fieldId: field,
            scopeId: ALL_LINKS,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        });
    // SAFETY: the library that made the handle is loaded and borrowed by the device; it writes as many values as it is told, all of
    // which live through the call.
    let code = unsafe { ask(device.handle(), values.len() as i32, values.as_mut_ptr()) };
    if code != 0 {
        return None;
    }
    let [sent, received] = values.map(|value| FieldValueSample::try_from(value).ok());
    let (sent, received) = (sent?, received?);
    let bytes = |sample: &FieldValueSample| match sample.value.as_ref().ok()? {
        SampleValue::U64(kib) => Some(*kib as f64 * KIB),
        SampleValue::U32(kib) => Some(f64::from(*kib) * KIB),
        _ => None,
    };
    Some((received.timestamp as f64 / 1e6, bytes(&sent)? + bytes(&received)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_says_so() {
        // With one there are GPUs, or a reason.
        match NvmlCounters::start(Duration::from_secs(1)) {
            Ok(counters) => assert!(counters.reader.is_some()),
            Err(why) => assert!(why.contains("NVML") || why.contains("no GPU"), "{why}"),
        }
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn counters_of_a_real_gpu_are_sane() {
        let counters = NvmlCounters::start(Duration::from_millis(200)).unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let samples = counters.latest();
        assert!(!samples.is_empty());
        for gpu in samples {
            assert!(
                gpu.memory_total_bytes.unwrap() > 1e9
                    && gpu.memory_used_bytes.unwrap() < gpu.memory_total_bytes.unwrap(),
                "{gpu:?}"
            );
            assert!(gpu.busy.is_none_or(|busy| (0.0..=1.0).contains(&busy)) && gpu.clock_mhz.unwrap() > 0.0, "{gpu:?}");
        }
    }
}
