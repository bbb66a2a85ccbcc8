//! `Energy`: the electricity that rented machines use, and what that emits, in closed form with bands.
//!
//! `kWh = hours of GPUs x rated watts x watts of a whole machine for each of them x PUE`, and `kg = kWh x grams of the grid`. What is left out:
//! the making of the machines, storage and networks between buildings, and what a cloud buys to match its consumption.

use gpuplan_market::Site;
use gpuplan_units::Band;

/// Watts at the plug of a machine, or of a cluster for each of its GPUs, by watts of rated power (TDP) of its GPUs while a model is trained.
/// Best guess and upper limit from machines and clusters that were measured as a whole (8 H100: 1.38 and 1.50; OLMo 3: 1.55; BLOOM: 1.59);
/// the lower limit is that of GPUs that draw as little as in small fine-tunings: `benchmarks/budget/machine_power.csv`. Machines that wait or
/// idle are counted as if they worked.
pub const MACHINE_OVER_RATED: Band = Band { low: 0.85, expected: 1.5, high: 1.6 };

/// Where nobody publishes a PUE: the best building of AWS in 2024, the average of public clouds and that of machines in buildings of one's
/// own, the last two by IDC (US51911924, January 2025), all as AWS quotes them on its page about sustainability.
pub const UNKNOWN_PUE: Band = Band { low: 1.04, expected: 1.25, high: 1.63 };

/// Of all machines of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Energy {
    /// At the meter of the building.
    pub kwh: Band,
    /// Kilograms of CO2-equivalents; `None`: it is not known where the electricity comes from.
    pub co2e_kg: Option<Band>,
}

impl Energy {
    /// Of so many hours of GPUs, each rented for one hour whether it works or not, with this rated power in watts.
    pub fn consumed(gpu_hours: f64, rated_watts: f64, site: Option<&Site>) -> Self {
        let rated = gpu_hours * rated_watts / 1000.0;
        let pue = site.and_then(|site| site.pue.as_ref());
        let kwh = MACHINE_OVER_RATED
            .times(pue.map_or(UNKNOWN_PUE, |pue| Band::around(pue.value, 1.0, 1.0)))
            .map(|factor| factor * rated);
        let grams = site.and_then(|site| site.grid.as_ref()?.g_per_kwh());
        Self { kwh, co2e_kg: grams.map(|grams| kwh.times(grams).map(|grams| grams / 1000.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{CloudId, Hardware};
    use gpuplan_market::Market;

    /// Watts over rated watts of the rows of one kind, ascending.
    fn measured(of: &str) -> Vec<f64> {
        let text = include_str!("../../benchmarks/budget/machine_power.csv");
        let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
        let number = |text: &str| text.parse::<f64>().unwrap();
        // Only the first cell and the last have commas in them.
        let cells = |line: &str| line[line.find("\",").unwrap() + 2..].split(',').map(str::to_owned).collect();
        let rows = rows.map(cells).filter(|cells: &Vec<String>| cells[2] == of);
        let mut ratios: Vec<f64> = rows.map(|cells| number(&cells[3]) / number(&cells[4])).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    #[test]
    fn a_machine_draws_what_machines_were_measured_to_draw() {
        let (whole, gpus) = (measured("whole"), measured("gpu"));
        assert!(whole.len() >= 4 && gpus.len() >= 10);
        let Band { low, expected, high } = MACHINE_OVER_RATED;
        let middle = f64::midpoint(whole[whole.len() / 2 - 1], whole[whole.len() / 2]);
        assert!((middle - expected).abs() < 0.05, "the median is {middle}");
        assert!(whole.iter().all(|ratio| (low..=high).contains(ratio)), "{whole:?}");
        assert!((whole[whole.len() - 1] - high).abs() < 0.02);
        // A tenth of the way up what GPUs alone draw, beside those that draw most.
        let least = expected * gpus[1] / gpus[gpus.len() - 1];
        assert!((least - low).abs() < 0.02, "the least is {least}");
    }

    #[test]
    fn energy_is_hours_times_power_and_emissions_are_unknown_where_the_grid_is() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let site = |cloud: &str, region: &str| market.sites.find(&CloudId::new(cloud), region);
        let energy = Energy::consumed(1000.0, 700.0, site("aws", "us-east-1"));
        // 1,000 h x 0.7 kW x 1.5 x 1.15; x 369.865 g.
        assert!((energy.kwh.expected - 1207.5).abs() < 1e-9, "{energy:?}");
        assert!((energy.co2e_kg.unwrap().expected - 446.612).abs() < 0.01, "{energy:?}");
        let (kwh, kg) = (energy.kwh, energy.co2e_kg.unwrap());
        assert!(kwh.low < kwh.expected && kwh.expected < kwh.high && kg.low < kg.expected && kg.expected < kg.high);
        let nowhere = Energy::consumed(1000.0, 700.0, None);
        assert_eq!(nowhere.co2e_kg, None, "unknown is not zero");
        assert!(nowhere.kwh.high / nowhere.kwh.expected > kwh.high / kwh.expected, "and less is known of the building");
        let france = Energy::consumed(1000.0, 700.0, site("gcp", "europe-west9")).co2e_kg.unwrap();
        assert!(france.expected < kg.expected / 8.0, "nuclear power: {france:?}");
    }
}
