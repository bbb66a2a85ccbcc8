//! From EC2's description of a machine type to a sheet that can become a row of the catalog. Names no SDK.

use crate::catalog::machine_types::Cards;
use gpuplan_hardware::MachineSheet;

/// A machine type as EC2 words it; a figure may be missing.
#[derive(Clone, Debug, Default)]
pub struct Described {
    pub name: String,
    pub gpu: String,
    pub vendor: String,
    pub cards: Cards,
    pub vcpus: i32,
    pub memory_mib: i64,
    pub nvme_gb: Option<i64>,
    /// Such as `Up to 25 Gigabit` or `4x 100 Gigabit`.
    pub network: String,
    /// What its first network card sustains. Gb/s.
    pub baseline_gbit: Option<f64>,
    pub architectures: Vec<String>,
    /// Such as `on-demand`, `spot` and `capacity-block`.
    pub usages: Vec<String>,
}

impl Described {
    pub fn sheet(self, as_of: &str) -> MachineSheet {
        let known = ["on-demand", "spot", "capacity-block"];
        let sold: Vec<&str> = known.into_iter().filter(|word| self.usages.iter().any(|usage| usage == word)).collect();
        MachineSheet {
            gpus: self.cards.gpus().to_string(),
            gpu_memory_mib: self.cards.memory_mib.map(f64::from),
            vcpus: u32::try_from(self.vcpus).unwrap_or_default(),
            memory_mib: self.memory_mib as f64,
            local_nvme_gb: Some(self.nvme_gb.unwrap_or_default() as f64),
            network_gbit_per_s: network(&self.network, self.baseline_gbit),
            cpu_architecture: self.architectures.into_iter().next_back().unwrap_or_default(),
            sold_as: sold.join(" "),
            as_of: as_of.to_owned(),
            name: self.name,
            gpu: self.gpu,
            vendor: self.vendor,
        }
    }
}

/// What the network sustains: of `Up to ...`, which is a burst, the baseline. Rates of single cards do not add up to a machine's.
fn network(text: &str, baseline: Option<f64>) -> Option<f64> {
    if text.starts_with("Up to") {
        return baseline;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [rate, "Gigabit"] => rate.parse().ok(),
        [cards, rate, "Gigabit"] => Some(cards.strip_suffix('x')?.parse::<f64>().ok()? * rate.parse::<f64>().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_what_it_sustains() {
        assert_eq!(network("Up to 25 Gigabit", Some(5.0)), Some(5.0));
        assert_eq!(network("3200 Gigabit", Some(100.0)), Some(3200.0));
        assert_eq!(network("4x 100 Gigabit", None), Some(400.0));
        assert_eq!((network("Moderate", None), network("x 1 Gigabit", None)), (None, None));
    }

    #[test]
    fn a_description_becomes_a_sheet() {
        let cards = Cards { count: 0, partition: Some(0.125), memory_mib: Some(2861) };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let described = Described {
            name: "g6f.large".to_owned(),
            gpu: "L4".to_owned(),
            cards,
            vcpus: 2,
            memory_mib: 8192,
            architectures: words(&["i386", "x86_64"]),
            usages: words(&["spot", "on-demand", "something-new"]),
            ..Described::default()
        };
        let sheet = described.sheet("2026-11-24");
        assert_eq!((sheet.gpus.as_str(), sheet.sold_as.as_str()), ("0.125", "on-demand spot"));
        assert_eq!((sheet.local_nvme_gb, sheet.cpu_architecture.as_str()), (Some(0.0), "x86_64"));
    }
}
