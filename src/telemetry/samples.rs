//! `Sample`: one look at GPUs and host; `Summary`: what all of them come to.

use std::collections::BTreeMap;

use serde::Serialize;

use gpuplan_workload::profile::{GpuUsage, HostUsage, Links, ProcessUsage, Usage};

/// Why a clock is held down, as bits (NVML, `nvmlClocksThrottleReasons`, in the NVML API reference).
pub mod reason {
    pub const SOFTWARE_POWER_CAP: u64 = 0x4;
    pub const HARDWARE_SLOWDOWN: u64 = 0x8;
    pub const SOFTWARE_THERMAL: u64 = 0x20;
    pub const HARDWARE_THERMAL: u64 = 0x40;
    pub const POWER_BRAKE: u64 = 0x80;
}

/// Processes named in a profile.
const PROCESSES_SHOWN: usize = 8;
/// A GPU that works less than this idles: the clock between two launches of a starved loop.
const IDLE: f64 = 0.10;
/// A GPU that works more than this is at work, and its clock counts.
const AT_WORK: f64 = 0.50;
/// Cores of which this share works are at their limit. Judged: a pool of workers never fills all of them all of the time.
pub const HOST_FULL: f64 = 0.80;

/// One GPU at one moment. `None`: this GPU or this tool does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GpuSample {
    pub index: u32,
    pub name: String,
    /// Share of the last interval in which any kernel ran.
    pub busy: Option<f64>,
    pub memory_bus_busy: Option<f64>,
    pub memory_used_bytes: Option<f64>,
    pub memory_total_bytes: Option<f64>,
    pub power_watts: Option<f64>,
    pub power_limit_watts: Option<f64>,
    pub temperature_celsius: Option<f64>,
    pub clock_mhz: Option<f64>,
    pub clock_max_mhz: Option<f64>,
    /// Bits of `reason`.
    pub throttle_reasons: Option<u64>,
    pub pcie_receive_bytes_per_second: Option<f64>,
    pub pcie_send_bytes_per_second: Option<f64>,
    pub nvlink_bytes_per_second: Option<f64>,
}

/// The host over the interval before one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostSample {
    pub cores_used: f64,
    /// Cores by name of process.
    pub processes: Vec<(String, f64)>,
    pub major_faults_per_second: f64,
    pub minor_faults_per_second: f64,
    pub memory_bytes: f64,
    /// `None`: the kernel does not tell of every process of the run.
    pub disk_read_bytes_per_second: Option<f64>,
    pub disk_write_bytes_per_second: Option<f64>,
    /// `None`: the kernel does not tell.
    pub network_receive_bytes_per_second: Option<f64>,
    pub network_send_bytes_per_second: Option<f64>,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since 1970.
    pub at_unix_seconds: f64,
    /// Since the command was started.
    pub seconds: f64,
    pub gpus: Vec<GpuSample>,
    pub host: HostSample,
    /// The last step in the log.
    pub step: Option<u64>,
    pub step_seconds: Option<f64>,
}

/// Sums over samples, so that a run of any length needs no more memory than a short one.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    samples: u64,
    first: Option<f64>,
    last: f64,
    stalls: u64,
    host: HostSums,
    processes: BTreeMap<String, f64>,
    gpus: BTreeMap<u32, GpuSums>,
}

#[derive(Clone, Debug, Default)]
struct HostSums {
    cores_used: Mean,
    major_faults: Mean,
    minor_faults: Mean,
    memory_peak: Peak,
    disk_read: Mean,
    disk_write: Mean,
    network_receive: Mean,
    network_send: Mean,
}

#[derive(Clone, Debug, Default)]
struct GpuSums {
    name: String,
    busy: Mean,
    bus: Mean,
    power: Mean,
    clock: Mean,
    by_power: Mean,
    by_heat: Mean,
    receive: Mean,
    send: Mean,
    nvlink: Mean,
    memory_peak: Peak,
    memory_total: Peak,
    power_limit: Peak,
    clock_max: Peak,
    temperature_peak: Peak,
}

/// The highest of the known values.
#[derive(Clone, Copy, Debug, Default)]
struct Peak(Option<f64>);

impl Peak {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0 = Some(self.0.map_or(value, |peak| peak.max(value)));
        }
    }
}

/// The mean of the known values.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.sum += value;
            self.count += 1;
        }
    }

    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl Summary {
    pub fn add(&mut self, sample: &Sample, cores: u32) {
        self.samples += 1;
        self.first.get_or_insert(sample.seconds);
        self.last = sample.seconds;
        let idles = |gpu: &GpuSample| gpu.busy.is_some_and(|busy| busy < IDLE);
        let host_is_full = sample.host.cores_used >= HOST_FULL * f64::from(cores);
        if !sample.gpus.is_empty() && sample.gpus.iter().all(idles) && host_is_full {
            self.stalls += 1;
        }
        self.add_host(&sample.host);
        for gpu in &sample.gpus {
            self.gpus.entry(gpu.index).or_default().add(gpu);
        }
    }

    fn add_host(&mut self, host: &HostSample) {
        let sums = &mut self.host;
        sums.cores_used.add(Some(host.cores_used));
        sums.major_faults.add(Some(host.major_faults_per_second));
        sums.minor_faults.add(Some(host.minor_faults_per_second));
        sums.memory_peak.add(Some(host.memory_bytes));
        sums.disk_read.add(host.disk_read_bytes_per_second);
        sums.disk_write.add(host.disk_write_bytes_per_second);
        sums.network_receive.add(host.network_receive_bytes_per_second);
        sums.network_send.add(host.network_send_bytes_per_second);
        for (name, cores) in &host.processes {
            *self.processes.entry(name.clone()).or_default() += cores;
        }
    }

    /// `None` before the first sample.
    pub fn usage(&self, interval_seconds: f64, cores: u32, links: Option<Links>) -> Option<Usage> {
        if self.samples == 0 {
            return None;
        }
        let count = self.samples as f64;
        let mut processes: Vec<ProcessUsage> = self
            .processes
            .iter()
            .map(|(name, sum)| ProcessUsage { name: name.clone(), cores_used: sum / count })
            .collect();
        processes.sort_by(|a, b| b.cores_used.total_cmp(&a.cores_used));
        processes.truncate(PROCESSES_SHOWN);
        let sums = &self.host;
        // Known in every sample.
        let known = |mean: Mean| mean.get().unwrap_or(0.0);
        let host = HostUsage {
            cores,
            cores_used: known(sums.cores_used),
            processes,
            major_faults_per_second: known(sums.major_faults),
            minor_faults_per_second: known(sums.minor_faults),
            memory_peak_bytes: sums.memory_peak.0.unwrap_or(0.0),
            disk_read_bytes_per_second: sums.disk_read.get(),
            disk_write_bytes_per_second: sums.disk_write.get(),
            network_receive_bytes_per_second: sums.network_receive.get(),
            network_send_bytes_per_second: sums.network_send.get(),
        };
        Some(Usage {
            samples: self.samples,
            interval_seconds,
            seconds: self.last - self.first.unwrap_or(self.last) + interval_seconds,
            host,
            gpus: self.gpus.iter().map(|(index, sums)| sums.usage(*index)).collect(),
            links,
            loader_stall_share: self.stalls as f64 / count,
        })
    }
}

impl GpuSums {
    fn add(&mut self, gpu: &GpuSample) {
        if self.name.is_empty() {
            self.name.clone_from(&gpu.name);
        }
        self.busy.add(gpu.busy);
        self.bus.add(gpu.memory_bus_busy);
        self.power.add(gpu.power_watts);
        self.receive.add(gpu.pcie_receive_bytes_per_second);
        self.send.add(gpu.pcie_send_bytes_per_second);
        self.nvlink.add(gpu.nvlink_bytes_per_second);
        self.clock.add(gpu.clock_mhz.filter(|_| gpu.busy.is_none_or(|busy| busy > AT_WORK)));
        let has = |bits: u64| gpu.throttle_reasons.map(|reasons| if reasons & bits == 0 { 0.0 } else { 1.0 });
        self.by_power.add(has(reason::SOFTWARE_POWER_CAP | reason::POWER_BRAKE));
        self.by_heat.add(has(reason::SOFTWARE_THERMAL | reason::HARDWARE_THERMAL | reason::HARDWARE_SLOWDOWN));
        self.memory_peak.add(gpu.memory_used_bytes);
        self.memory_total.add(gpu.memory_total_bytes);
        self.power_limit.add(gpu.power_limit_watts);
        self.clock_max.add(gpu.clock_max_mhz);
        self.temperature_peak.add(gpu.temperature_celsius);
    }

    fn usage(&self, index: u32) -> GpuUsage {
        GpuUsage {
            index,
            name: self.name.clone(),
            busy: self.busy.get(),
            memory_bus_busy: self.bus.get(),
            memory_peak_bytes: self.memory_peak.0,
            memory_total_bytes: self.memory_total.0,
            power_mean_watts: self.power.get(),
            power_limit_watts: self.power_limit.0,
            clock_mean_mhz: self.clock.get(),
            clock_max_mhz: self.clock_max.0,
            temperature_peak_celsius: self.temperature_peak.0,
            throttled_by_power: self.by_power.get(),
            throttled_by_heat: self.by_heat.get(),
            pcie_receive_bytes_per_second: self.receive.get(),
            pcie_send_bytes_per_second: self.send.get(),
            nvlink_bytes_per_second: self.nvlink.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, busy: f64, cores_used: f64, reasons: u64) -> Sample {
        let gpu = GpuSample {
            busy: Some(busy),
            memory_used_bytes: Some(seconds * 1e9),
            clock_mhz: Some(1000.0 + busy * 900.0),
            throttle_reasons: Some(reasons),
            ..GpuSample::default()
        };
        let host =
            HostSample { cores_used, processes: vec![("python".to_owned(), cores_used)], ..HostSample::default() };
        Sample { seconds, gpus: vec![gpu], host, ..Sample::default() }
    }

    #[test]
    fn samples_become_means_peaks_and_shares() {
        let mut summary = Summary::default();
        assert_eq!(summary.usage(1.0, 8, None), None);
        for each in [
            sample(1.0, 0.05, 7.5, 0),
            sample(2.0, 0.95, 2.5, 0x4),
            sample(3.0, 0.05, 2.0, 0x40),
            sample(4.0, 0.95, 0.0, 0x1),
        ] {
            summary.add(&each, 8);
        }
        let usage = summary.usage(1.0, 8, None).unwrap();
        assert_eq!((usage.samples, usage.seconds, usage.loader_stall_share), (4, 4.0, 0.25));
        let gpu = &usage.gpus[0];
        assert!((gpu.busy.unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(
            (gpu.memory_peak_bytes, gpu.throttled_by_power, gpu.throttled_by_heat),
            (Some(4e9), Some(0.25), Some(0.25))
        );
        // The clock of idle moments does not count.
        assert!((gpu.clock_mean_mhz.unwrap() - 1855.0).abs() < 1e-9);
        assert_eq!(usage.host.cores_used, 3.0);
        assert_eq!(gpu.pcie_receive_bytes_per_second, None);
        // What no sample told is unknown, not zero.
        assert_eq!((gpu.power_mean_watts, gpu.temperature_peak_celsius, gpu.memory_total_bytes), (None, None, None));
        assert_eq!((usage.host.disk_read_bytes_per_second, usage.host.network_send_bytes_per_second), (None, None));
    }
}
