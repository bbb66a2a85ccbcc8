//! `Device`: what can be timed; `LocalGpu`: what a device says of itself, and which GPU of the catalog that is.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::benchmark::Work;
use crate::readings::Readings;
use gpuplan_hardware::{Gpu, GpuId, Hardware};
use gpuplan_units::Bytes;

#[derive(Clone, Debug, PartialEq)]
pub struct LocalGpu {
    /// As the driver words it, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// What the driver can give out: somewhat less than is on the card.
    pub memory: Bytes,
    pub compute_capability: (u32, u32),
}

/// Why no device can be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error("this build has no feature `{feature}`")]
    NotBuilt { feature: &'static str },
    #[error("no NVIDIA driver on this machine")]
    NoDriver,
    #[error("the driver sees no GPU")]
    NoDevice,
    #[error("`{call}` failed: {detail}")]
    Failed { call: &'static str, detail: String },
}

/// What is measured, as the file records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// As the driver words it.
    pub name: String,
    pub memory_bytes: u64,
    /// Major and minor, such as 9 and 0.
    pub compute_capability: (u32, u32),
    /// GPUs that the driver lists; benchmarks of one GPU run on the first.
    pub gpus: u32,
    /// Versions of driver and libraries, by name.
    pub versions: BTreeMap<String, String>,
}

/// Why one benchmark cannot run here; the others can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Waived(pub String);

/// Something that can be timed. Implementations: a GPU through its driver, and a simulated one for machines without.
///
/// A suite prepares every piece of work once, and then asks for samples of all of them in turn, many times. Operands are
/// random numbers: zeros draw less power and run faster than real data.
pub trait Device {
    fn facts(&self) -> &DeviceFacts;
    /// Compiles, plans and runs the work once or twice, so that samples find everything warm.
    fn prepare(&mut self, work: &Work) -> Result<(), Waived>;
    /// Mean seconds of one call, over at least `least_seconds` of calls in a row. The work was prepared.
    fn sample(&mut self, work: &Work, least_seconds: f64) -> Result<f64, Waived>;
    /// Seconds since the device was opened, by the clock that the time budget is kept on.
    fn elapsed(&self) -> f64;
    /// What may disturb: clocks, heat, power, other tenants; of the time since the device was opened.
    fn readings(&mut self) -> Readings;
}

/// The driver keeps some of the memory, a T4 with error correction nearly a tenth; slices of a card and
/// mobile parts of the same name differ by a quarter and more.
const MEMORY_TOLERANCE: f64 = 0.12;

/// The GPU of the catalog that has this name, about this memory and this compute capability. A device that agrees in the
/// name only, such as a slice of a card, is none of them.
pub fn match_catalog(local: &LocalGpu, hardware: &Hardware) -> Option<GpuId> {
    let id = names(&local.name).find_map(|name| hardware.find_gpu(&name))?;
    let gpu = hardware.gpu(id);
    (has_memory(gpu, local.memory) && has_capability(gpu, local.compute_capability)).then_some(id)
}

/// The name as it stands, then without the words that drivers put before it.
fn names(name: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = name.split_whitespace().collect();
    let brands = words
        .iter()
        .take_while(|word| matches!(word.to_ascii_lowercase().as_str(), "nvidia" | "tesla" | "geforce" | "quadro"))
        .count();
    (0..=brands).map(|skipped| words[skipped..].join(" ")).collect::<Vec<_>>().into_iter()
}

fn has_memory(gpu: &Gpu, memory: Bytes) -> bool {
    (memory.0 / gpu.memory().0 - 1.0).abs() <= MEMORY_TOLERANCE
}

fn has_capability(gpu: &Gpu, (major, minor): (u32, u32)) -> bool {
    gpu.compute_capability == format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(name: &str, mib: f64, compute_capability: (u32, u32)) -> Option<String> {
        let hardware = Hardware::embedded().unwrap();
        let local = LocalGpu { name: name.to_owned(), memory: Bytes::from_mib(mib), compute_capability };
        match_catalog(&local, &hardware).map(|id| hardware.gpu(id).id.clone())
    }

    #[test]
    fn names_that_drivers_give_are_found_in_the_catalog() {
        for (name, mib, capability, id) in [
            ("NVIDIA H100 80GB HBM3", 81_079.0, (9, 0), "h100-sxm5-80"),
            ("NVIDIA H100 PCIe", 81_007.0, (9, 0), "h100-pcie-80"),
            ("NVIDIA H200", 143_156.0, (9, 0), "h200-sxm-141"),
            ("NVIDIA A100-SXM4-40GB", 40_325.0, (8, 0), "a100-sxm4-40"),
            ("NVIDIA A100-SXM4-80GB", 81_038.0, (8, 0), "a100-sxm4-80"),
            ("NVIDIA A100 80GB PCIe", 80_994.0, (8, 0), "a100-pcie-80"),
            ("NVIDIA GeForce RTX 4090", 24_082.0, (8, 9), "rtx-4090"),
            ("NVIDIA L40S", 45_457.0, (8, 9), "l40s"),
            ("NVIDIA L4", 22_478.0, (8, 9), "l4"),
            ("NVIDIA A10G", 22_723.0, (8, 6), "a10g"),
            ("Tesla T4", 14_930.0, (7, 5), "t4"),
            ("Tesla V100-SXM2-16GB", 16_151.0, (7, 0), "v100-sxm2-16"),
        ] {
            assert_eq!(matched(name, mib, capability).as_deref(), Some(id), "{name}");
        }
    }

    #[test]
    fn a_slice_a_mobile_part_and_a_stranger_are_none_of_the_catalog() {
        assert_eq!(matched("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20_000.0, (8, 0)), None);
        assert_eq!(matched("NVIDIA A100-SXM4-40GB", 20_000.0, (8, 0)), None);
        assert_eq!(matched("NVIDIA GeForce RTX 4090 Laptop GPU", 16_000.0, (8, 9)), None);
        assert_eq!(
            matched("NVIDIA H100 80GB HBM3", 81_079.0, (8, 0)),
            None,
            "a capability that the chip does not have"
        );
        assert_eq!(matched("Some Other GPU", 16_000.0, (9, 9)), None);
        assert_eq!(matched("", 0.0, (0, 0)), None);
        assert_eq!(matched("NVIDIA", 16_000.0, (7, 5)), None);
    }
}
