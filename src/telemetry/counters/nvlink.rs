//! What goes over NVLink: counters that only grow, from which a rate follows by looking twice.

use std::collections::BTreeMap;

/// Counters are in units of this many bytes, through NVML and in the texts of `nvidia-smi`.
pub const KIB: f64 = 1024.0;

/// The last look at each GPU's counter, and the rates between the last two.
#[derive(Clone, Debug, Default)]
pub struct LinkRates {
    /// Seconds of a clock that does not go back, and bytes.
    last: BTreeMap<u32, (f64, f64)>,
    rates: BTreeMap<u32, f64>,
}

impl LinkRates {
    /// `bytes` went over the links of `gpu` in both directions until `seconds`. Without two looks, or where the counter or the
    /// clock went back (a driver that was loaded anew), nothing is known.
    pub fn record(&mut self, gpu: u32, seconds: f64, bytes: f64) {
        match self.last.insert(gpu, (seconds, bytes)) {
            Some((then, known)) if seconds > then && bytes >= known => {
                self.rates.insert(gpu, (bytes - known) / (seconds - then))
            }
            _ => self.rates.remove(&gpu),
        };
    }

    /// Bytes a second over NVLink, both ways; `None` for a GPU without it.
    pub fn rate(&self, gpu: u32) -> Option<f64> {
        self.rates.get(&gpu).copied()
    }
}

/// Bytes by GPU in both directions, of all links together, from `nvidia-smi nvlink -gt d`. A GPU whose links are off, or whose
/// driver does not count (`N/A`), is not in it.
pub fn link_bytes(text: &str) -> BTreeMap<u32, f64> {
    let mut all = BTreeMap::new();
    let mut gpu = None;
    for row in text.lines() {
        if let Some(rest) = row.trim_start().strip_prefix("GPU ") {
            gpu = rest.split(':').next().and_then(|index| index.trim().parse::<u32>().ok());
        }
        let counted = row.split_once("Data Tx:").or_else(|| row.split_once("Data Rx:")).and_then(|(_, amount)| {
            let kib = amount.trim().strip_suffix("KiB")?.trim_end().parse::<u64>().ok()?;
            Some(kib as f64 * KIB)
        });
        if let Some((gpu, bytes)) = gpu.zip(counted) {
            *all.entry(gpu).or_insert(0.0) += bytes;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_of_a_gpu_add_up_in_both_directions() {
        let text = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n\t Link 0: Data Tx: 100 KiB\n\t Link 0: Data Rx: 20 KiB\n\
            \t Link 1: Data Tx: 3 KiB\n\t Link 1: Data Rx: 4 KiB\nGPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-2)\n\
            \t Link 0: Data Tx: N/A\n\t Link 0: Data Rx: N/A\nGPU 2: NVIDIA L4 (UUID: GPU-3)\n";
        assert_eq!(link_bytes(text).into_iter().collect::<Vec<_>>(), [(0, 127.0 * KIB)]);
        for text in [
            "",
            "NVML: Unable to retrieve NVLink information as all links are inActive",
            "Data Tx: 5 KiB",
            "GPU x:\nData Rx: 5 KiB",
        ] {
            assert!(link_bytes(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_rate_needs_two_looks_and_a_counter_that_grows() {
        let mut rates = LinkRates::default();
        rates.record(0, 10.0, 1e9);
        assert_eq!(rates.rate(0), None);
        rates.record(0, 12.0, 5e9);
        assert_eq!((rates.rate(0), rates.rate(1)), (Some(2e9), None));
        rates.record(0, 14.0, 1e9);
        assert_eq!(rates.rate(0), None, "the driver was loaded anew");
        rates.record(0, 14.0, 2e9);
        assert_eq!(rates.rate(0), None, "no time went by");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(GPU [0-9]{1,3}: x\n|Link 0: Data [TR]x: [0-9]{0,25} KiB\n|\\PC{0,20}\n){0,8}") {
            prop_assert!(link_bytes(&text).values().all(|bytes| bytes.is_finite() && *bytes >= 0.0));
        }
    }
}
