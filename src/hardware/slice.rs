//! `Slice`: a part of a GPU with memory and multiprocessors of its own (MIG), as the owner of a GPU may cut it.

use crate::gpu::Gpu;
use gpuplan_units::{Bytes, GpuCount};

/// Parts that a GPU can be cut into, the smallest first: name, share of the multiprocessors, share of the memory.
type Cut = &'static [(&'static str, (u8, u8), f64)];

/// GPUs with seven compute slices and eight of memory (NVIDIA MIG user guide, "Supported MIG Profiles": A100, H100, H200, B200, GB200).
const SEVENTHS: Cut =
    &[("1g", (1, 7), 0.125), ("1g", (1, 7), 0.25), ("2g", (2, 7), 0.25), ("3g", (3, 7), 0.5), ("4g", (4, 7), 0.5)];
/// With four of both (the same page: A30; "Supported GPUs": RTX PRO 6000).
const QUARTERS: Cut = &[("1g", (1, 4), 0.25), ("2g", (2, 4), 0.5)];

/// A part of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// As `nvidia-smi` calls it, such as `1g.10gb`.
    pub profile: String,
    /// Multiprocessors of it and of the whole.
    pub processors: (u8, u8),
    pub memory: Bytes,
}

impl Gpu {
    /// The smallest slice of this GPU that holds so much; `None`: it cannot be cut, or only the whole does.
    pub fn slice_for(&self, needed: Bytes) -> Option<Slice> {
        let held = |(_, _, share): &&(&str, (u8, u8), f64)| needed.0 <= self.memory().0 * share;
        self.cut().iter().find(held).map(|(name, processors, share)| Slice {
            profile: format!("{name}.{:.0}gb", (self.memory_label_gb * share + 0.5).floor()),
            processors: *processors,
            memory: Bytes(self.memory().0 * share),
        })
    }

    /// Memory of a part with this share of the multiprocessors: that of the smallest slice with it where the GPU can be cut so, else the same
    /// share of the memory, as virtual GPUs have it.
    pub fn memory_of(&self, part: GpuCount) -> Bytes {
        let is_it = |(_, (some, all), _): &&(&str, (u8, u8), f64)| {
            (f64::from(*some) / f64::from(*all) - part.as_f64()).abs() < 1e-9
        };
        let share = self.cut().iter().find(is_it).map_or(part.as_f64(), |(_, _, share)| *share);
        Bytes(self.memory().0 * share)
    }

    fn cut(&self) -> Cut {
        match self.family.as_str() {
            "A100" | "H100" | "H200" | "H20" | "GH200" | "B200" | "B300" | "GB200" => SEVENTHS,
            "A30" | "RTX-PRO-6000" => QUARTERS,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::Hardware;
    use gpuplan_units::{Bytes, GpuCount};

    #[test]
    fn a_seventh_has_an_eighth_of_the_memory() {
        let hardware = Hardware::embedded().unwrap();
        let share = |gpu: &str, part: &str| {
            let gpu = hardware.gpu(hardware.find_gpu(gpu).unwrap());
            gpu.memory_of(GpuCount::parse(part).unwrap()).0 / gpu.memory().0
        };
        assert_eq!((share("h100-sxm5-80", "1/7"), share("h100-sxm5-80", "3/7")), (0.125, 0.5));
        assert_eq!(
            (share("rtx-pro-6000-blackwell-se", "1/4"), share("rtx-pro-6000-blackwell-se", "1/8")),
            (0.25, 0.125)
        );
        assert_eq!((share("a100-sxm4-80", "1/10"), share("l4", "1/4")), (0.1, 0.25));
    }

    #[test]
    fn the_smallest_slice_that_holds_it_has_the_name_of_the_guide() {
        let hardware = Hardware::embedded().unwrap();
        let slice = |gpu: &str, gib: f64| {
            let gpu = hardware.gpu(hardware.find_gpu(gpu).unwrap());
            gpu.slice_for(Bytes::from_gib(gib)).map(|slice| (slice.profile, slice.processors))
        };
        let named = |name: &str, of: (u8, u8)| Some((name.to_owned(), of));
        // Names of the guide: 1g.5gb, 1g.10gb, 1g.18gb, 1g.23gb, 1g.24gb; 3g.71gb and 3g.90gb.
        assert_eq!(slice("a100-sxm4-40", 4.0), named("1g.5gb", (1, 7)));
        assert_eq!(slice("h100-sxm5-80", 4.0), named("1g.10gb", (1, 7)));
        assert_eq!(slice("h100-sxm5-80", 15.0), named("1g.20gb", (1, 7)));
        assert_eq!(slice("h200-sxm-141", 4.0), named("1g.18gb", (1, 7)));
        assert_eq!(slice("h200-sxm-141", 60.0), named("3g.71gb", (3, 7)));
        assert_eq!(slice("b200-sxm-180", 4.0), named("1g.23gb", (1, 7)));
        assert_eq!(slice("rtx-pro-6000-blackwell-se", 4.0), named("1g.24gb", (1, 4)));
        assert_eq!((slice("h100-sxm5-80", 60.0), slice("l4", 1.0)), (None, None));
    }
}
