//! `GpuSelector`: the grammar people know from other tools: `H100:8`, `A100:80GB:1..16`, `24GB+`, `H100,H200:8+`.

use std::ops::RangeInclusive;

use crate::catalog::Hardware;
use crate::gpu::{Gpu, GpuId};
use gpuplan_units::names::{did_you_mean, plain};

/// Which GPUs, with how much memory, how many. Empty names mean any chip.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuSelector {
    names: Vec<Name>,
    /// Marketing gigabytes, since that is what people write.
    memory_gb: RangeInclusive<f64>,
    count: Option<RangeInclusive<u32>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Chip(GpuId),
    Family(String),
}

/// Why text selects no GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("no GPU is called `{name}`")]
    UnknownGpu { name: String, suggestion: Option<String> },
    #[error("`{0}` is not a valid choice of GPUs; try H100:8, A100:80GB:1..16 or 24GB+")]
    Malformed(String),
}

impl GpuSelector {
    pub fn parse(text: &str, hardware: &Hardware) -> Result<Self, SelectorError> {
        let malformed = || SelectorError::Malformed(text.to_owned());
        let mut selector = Self { names: Vec::new(), memory_gb: 0.0..=f64::INFINITY, count: None };
        let mut seen_memory = false;
        for (position, part) in text.trim().split(':').enumerate() {
            if let Some(memory) = memory_range(part) {
                if std::mem::replace(&mut seen_memory, true) {
                    return Err(malformed());
                }
                selector.memory_gb = memory;
            } else if let Some(count) = count_range(part) {
                if selector.count.replace(count).is_some() {
                    return Err(malformed());
                }
            } else if position == 0 && !part.trim().is_empty() {
                selector.names = part.split(',').map(|name| find(name.trim(), hardware)).collect::<Result<_, _>>()?;
            } else {
                return Err(malformed());
            }
        }
        Ok(selector)
    }

    pub fn matches_gpu(&self, id: GpuId, gpu: &Gpu) -> bool {
        let named = self.names.is_empty()
            || self.names.iter().any(|name| match name {
                Name::Chip(chip) => *chip == id,
                Name::Family(family) => plain(&gpu.family) == *family,
            });
        named && self.memory_gb.contains(&gpu.memory_label_gb)
    }

    /// The count, where one was given. A machine offers it in `nodes x devices`.
    pub fn count(&self) -> Option<&RangeInclusive<u32>> {
        self.count.as_ref()
    }

    pub fn matches_count(&self, gpus: u32) -> bool {
        self.count.as_ref().is_none_or(|count| count.contains(&gpus))
    }
}

fn find(name: &str, hardware: &Hardware) -> Result<Name, SelectorError> {
    if let Some(gpu) = hardware.gpus().iter().find(|gpu| plain(&gpu.family) == plain(name)) {
        return Ok(Name::Family(plain(&gpu.family)));
    }
    hardware.find_gpu(name).map(Name::Chip).ok_or_else(|| SelectorError::UnknownGpu {
        name: name.to_owned(),
        suggestion: did_you_mean(name, hardware.gpu_names()).map(str::to_owned),
    })
}

/// `80GB`, `24GB+`, `24GB..80GB`.
fn memory_range(part: &str) -> Option<RangeInclusive<f64>> {
    let gb = |text: &str| {
        let text = text.trim().to_ascii_lowercase();
        text.strip_suffix("gb")
            .or_else(|| text.strip_suffix("gib"))?
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|gb| gb.is_finite())
    };
    let part = part.trim();
    if let Some((low, high)) = part.split_once("..") {
        return Some(
            gb(low).or_else(|| low.trim().parse().ok())?..=if high.is_empty() { f64::INFINITY } else { gb(high)? },
        );
    }
    if let Some(low) = part.strip_suffix('+') {
        return Some(gb(low)?..=f64::INFINITY);
    }
    gb(part).map(|exact| exact..=exact)
}

/// `8`, `1..16`, `4+`, `4..`.
fn count_range(part: &str) -> Option<RangeInclusive<u32>> {
    let part = part.trim();
    let positive = |text: &str| text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    if let Some((low, high)) = part.split_once("..") {
        let (low, high) = (positive(low)?, if high.is_empty() { u32::MAX } else { positive(high)? });
        return (low <= high).then_some(low..=high);
    }
    if let Some(low) = part.strip_suffix('+') {
        return Some(positive(low)?..=u32::MAX);
    }
    positive(part).map(|exact| exact..=exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware() -> Hardware {
        Hardware::embedded().unwrap()
    }

    fn chosen(text: &str) -> Vec<String> {
        let hardware = hardware();
        let selector = GpuSelector::parse(text, &hardware).unwrap();
        let matching =
            hardware.gpus().iter().enumerate().filter(|(index, gpu)| selector.matches_gpu(GpuId(*index as u16), gpu));
        matching.map(|(_, gpu)| gpu.id.clone()).collect()
    }

    #[test]
    fn a_family_a_memory_and_a_count() {
        assert_eq!(chosen("A100:80GB:1..16"), ["a100-sxm4-80", "a100-pcie-80"]);
        assert_eq!(chosen("h100-sxm5-80:8"), ["h100-sxm5-80"]);
        assert!(chosen("24GB+").len() > 20);
        assert!(chosen("H100,H200").len() >= 5);
        let selector = GpuSelector::parse("A100:4+", &hardware()).unwrap();
        assert!(selector.matches_count(8) && !selector.matches_count(2));
    }

    #[test]
    fn nonsense_is_named_and_near_misses_are_suggested() {
        let error = GpuSelector::parse("H1000:8", &hardware()).unwrap_err();
        assert!(matches!(error, SelectorError::UnknownGpu { suggestion: Some(_), .. }), "{error:?}");
        for text in ["H100:8:8", "H100:0", "H100:8..4", "", ":", "H100:80GB:80GB", "H100::"] {
            assert!(GpuSelector::parse(text, &hardware()).is_err(), "{text}");
        }
    }
}
