//! A sample as named numbers: the one list that every export writes.

use crate::samples::Sample;

/// A number with its name, in base units: `gpuplan_gpu_power_watts`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    pub help: &'static str,
    /// Of a GPU; `None`: of the run.
    pub gpu: Option<u32>,
    pub value: f64,
}

/// Everything that is known at this moment.
pub fn metrics(sample: &Sample) -> Vec<Metric> {
    let host = &sample.host;
    let of_run = [
        ("gpuplan_host_cores_used", "Cores that the run keeps busy", Some(host.cores_used)),
        ("gpuplan_host_memory_bytes", "Resident memory of the run's processes", Some(host.memory_bytes)),
        ("gpuplan_host_major_faults_per_second", "Page faults that read from disk", Some(host.major_faults_per_second)),
        ("gpuplan_host_minor_faults_per_second", "Page faults that read nothing", Some(host.minor_faults_per_second)),
        ("gpuplan_host_disk_read_bytes_per_second", "Read from disk by the run", host.disk_read_bytes_per_second),
        ("gpuplan_host_disk_write_bytes_per_second", "Written to disk by the run", host.disk_write_bytes_per_second),
        (
            "gpuplan_host_network_receive_bytes_per_second",
            "Received by the machine",
            host.network_receive_bytes_per_second,
        ),
        ("gpuplan_host_network_send_bytes_per_second", "Sent by the machine", host.network_send_bytes_per_second),
        ("gpuplan_step", "Last optimizer step that the log told of", sample.step.map(|step| step as f64)),
        ("gpuplan_step_seconds", "Time of the last optimizer step", sample.step_seconds),
    ];
    let mut all: Vec<Metric> = of_run
        .into_iter()
        .filter_map(|(name, help, value)| Some(Metric { name, help, gpu: None, value: value? }))
        .collect();
    for gpu in &sample.gpus {
        let of_gpu = [
            ("gpuplan_gpu_busy_ratio", "Share of the interval in which a kernel ran", gpu.busy),
            (
                "gpuplan_gpu_memory_bus_busy_ratio",
                "Share of the interval in which memory was used",
                gpu.memory_bus_busy,
            ),
            ("gpuplan_gpu_memory_used_bytes", "Memory in use", gpu.memory_used_bytes),
            ("gpuplan_gpu_memory_total_bytes", "Memory of the device", gpu.memory_total_bytes),
            ("gpuplan_gpu_power_watts", "Power drawn", gpu.power_watts),
            ("gpuplan_gpu_power_limit_watts", "Power limit", gpu.power_limit_watts),
            ("gpuplan_gpu_temperature_celsius", "Temperature of the chip", gpu.temperature_celsius),
            ("gpuplan_gpu_clock_hertz", "Clock of the multiprocessors", gpu.clock_mhz.map(|mhz| mhz * 1e6)),
            (
                "gpuplan_gpu_throttle_reasons",
                "Why the clock is held down, as bits of NVML",
                gpu.throttle_reasons.map(|bits| bits as f64),
            ),
            ("gpuplan_gpu_pcie_receive_bytes_per_second", "Received over PCIe", gpu.pcie_receive_bytes_per_second),
            ("gpuplan_gpu_pcie_send_bytes_per_second", "Sent over PCIe", gpu.pcie_send_bytes_per_second),
            ("gpuplan_gpu_nvlink_bytes_per_second", "Over NVLink, both ways", gpu.nvlink_bytes_per_second),
        ];
        let known = of_gpu
            .into_iter()
            .filter_map(|(name, help, value)| Some(Metric { name, help, gpu: Some(gpu.index), value: value? }));
        all.extend(known);
    }
    all.retain(|metric| metric.value.is_finite());
    all
}

#[cfg(test)]
pub(crate) fn example() -> Sample {
    use crate::samples::{GpuSample, HostSample};
    let gpu = |index| GpuSample {
        index,
        name: "Fake GPU".to_owned(),
        busy: Some(0.5),
        power_watts: Some(300.25),
        ..GpuSample::default()
    };
    Sample {
        at_unix_seconds: 1_790_000_000.5,
        seconds: 2.0,
        gpus: vec![gpu(0), gpu(1)],
        host: HostSample { cores_used: 1.5, ..HostSample::default() },
        step: Some(7),
        step_seconds: Some(0.25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_is_named() {
        let all = metrics(&example());
        assert_eq!(all.iter().filter(|metric| metric.gpu.is_some()).count(), 4);
        assert!(all.iter().any(|metric| metric.name == "gpuplan_step" && metric.value == 7.0));
    }
}
