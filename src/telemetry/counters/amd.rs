//! Counters of AMD's GPUs, as the kernel's driver shows them in files, a figure each.
//!
//! Names and units are those of the kernel's documentation (`Documentation/gpu/amdgpu/thermal.rst` and `driver-misc.rst`, and
//! `Documentation/hwmon/sysfs-interface.rst`). What a card or a version of the driver does not have is unknown.

use std::fs;
use std::path::{Path, PathBuf};

use crate::samples::GpuSample;

/// A folder for each card of whatever maker.
pub const CARDS: &str = "/sys/class/drm";
/// AMD's number as a maker of PCI devices.
const AMD: &str = "0x1002";

/// The cards of this machine. Reading a dozen small files takes no thread of its own.
pub struct AmdCounters {
    cards: Vec<PathBuf>,
}

impl AmdCounters {
    /// The cards that lie in `folder`. The error says why no GPU can be read.
    pub fn start(folder: &Path) -> Result<Self, String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        // `card1-HDMI-A-1` and `renderD128` are parts of cards.
        let number = |name: &str| name.strip_prefix("card")?.parse::<u32>().ok();
        let mut cards: Vec<(u32, PathBuf)> = entries
            .filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path().join("device"))))
            .filter(|(_, card)| {
                text(card, "vendor").as_deref() == Some(AMD) && card.join("mem_info_vram_total").exists()
            })
            .collect();
        cards.sort();
        if cards.is_empty() {
            return Err(format!("no AMD GPU in {}", folder.display()));
        }
        Ok(Self { cards: cards.into_iter().map(|(_, card)| card).collect() })
    }

    /// What each card says now.
    pub fn latest(&self) -> Vec<GpuSample> {
        (0..).zip(&self.cards).map(|(index, card)| sample(index, card)).collect()
    }
}

fn sample(index: u32, card: &Path) -> GpuSample {
    let share = |name: &str| number(card, name).map(|percent| percent.clamp(0.0, 100.0) / 100.0);
    let monitor = fs::read_dir(card.join("hwmon")).ok().and_then(|mut found| Some(found.next()?.ok()?.path()));
    let sensor = |names: &[&str]| names.iter().find_map(|name| number(monitor.as_deref()?, name));
    let watts = |micro: f64| micro / 1e6;
    let clocks = text(card, "pp_dpm_sclk").unwrap_or_default();
    let (clock, most) = megahertz(&clocks);
    let model = text(card, "product_name").filter(|name| !name.is_empty());
    GpuSample {
        index,
        name: model.unwrap_or_else(|| format!("AMD GPU {}", text(card, "device").unwrap_or_default())),
        busy: share("gpu_busy_percent"),
        memory_bus_busy: share("mem_busy_percent"),
        memory_used_bytes: number(card, "mem_info_vram_used"),
        memory_total_bytes: number(card, "mem_info_vram_total"),
        power_watts: sensor(&["power1_average", "power1_input"]).map(watts),
        power_limit_watts: sensor(&["power1_cap"]).map(watts),
        // The junction, which is what a card is held down by, before its edge.
        temperature_celsius: sensor(&["temp2_input", "temp1_input"]).map(|thousandths| thousandths / 1e3),
        clock_mhz: clock,
        clock_max_mhz: most,
        ..GpuSample::default()
    }
}

/// The clock in use, which has a star, and the highest, of lines such as `1: 1700Mhz *`.
fn megahertz(text: &str) -> (Option<f64>, Option<f64>) {
    let (mut now, mut most) = (None, None::<f64>);
    for line in text.lines() {
        let Some((_, clock)) = line.split_once(':') else { continue };
        let digits: String =
            clock.trim().chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect();
        let Ok(clock) = digits.parse::<f64>() else { continue };
        most = Some(most.map_or(clock, |most| most.max(clock)));
        if line.trim_end().ends_with('*') {
            now = Some(clock);
        }
    }
    (now, most)
}

fn text(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned())
}

fn number(folder: &Path, name: &str) -> Option<f64> {
    text(folder, name)?.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn a_card_is_read_as_the_kernel_documents_its_files() {
        let folder = machine(&[
            ("card0/device/vendor", "0x1a03\n"),
            ("card1-DP-1/status", "disconnected\n"),
            ("card10/device/vendor", "0x1002\n"),
            ("card10/device/mem_info_vram_total", "68702699520\n"),
            ("card10/device/device", "0x740c\n"),
            ("card2/device/vendor", "0x1002\n"),
            ("card2/device/product_name", "AMD Instinct MI250X\n"),
            ("card2/device/gpu_busy_percent", "97\n"),
            ("card2/device/mem_busy_percent", "41\n"),
            ("card2/device/mem_info_vram_total", "68702699520\n"),
            ("card2/device/mem_info_vram_used", "51527024640\n"),
            ("card2/device/pp_dpm_sclk", "0: 500Mhz \n1: 800Mhz *\n2: 1700Mhz \n"),
            ("card2/device/hwmon/hwmon5/power1_average", "407000000\n"),
            ("card2/device/hwmon/hwmon5/power1_cap", "560000000\n"),
            ("card2/device/hwmon/hwmon5/temp1_input", "51000\n"),
            ("card2/device/hwmon/hwmon5/temp2_input", "58000\n"),
        ]);
        let counters = AmdCounters::start(folder.path()).unwrap();
        let [first, second] = &counters.latest()[..] else { panic!("two cards") };
        assert_eq!((first.index, first.name.as_str()), (0, "AMD Instinct MI250X"));
        assert_eq!((first.busy, first.memory_bus_busy), (Some(0.97), Some(0.41)));
        assert_eq!(
            (first.memory_used_bytes, first.memory_total_bytes),
            (Some(51_527_024_640.0), Some(68_702_699_520.0))
        );
        assert_eq!((first.power_watts, first.power_limit_watts), (Some(407.0), Some(560.0)));
        assert_eq!(
            (first.temperature_celsius, first.clock_mhz, first.clock_max_mhz),
            (Some(58.0), Some(800.0), Some(1700.0))
        );
        // Card 10 comes after card 2, and what it does not say is unknown.
        assert_eq!(
            (second.index, second.name.as_str(), second.busy, second.power_watts),
            (1, "AMD GPU 0x740c", None, None)
        );
    }

    #[test]
    fn a_machine_without_one_says_so() {
        let folder = machine(&[("card0/device/vendor", "0x10de\n"), ("card0/device/mem_info_vram_total", "1\n")]);
        assert!(AmdCounters::start(folder.path()).is_err_and(|why| why.starts_with("no AMD GPU in ")));
        assert!(AmdCounters::start(Path::new("/nonexistent")).is_err());
        assert_eq!(megahertz("S: 19Mhz *\n0: 132Mhz\n1: 2100Mhz\n"), (Some(19.0), Some(2100.0)));
        assert_eq!(megahertz("nonsense"), (None, None));
    }
}
