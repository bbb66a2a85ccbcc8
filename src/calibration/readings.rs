//! `Readings`: clocks, throttling, heat, power and other tenants while something was measured, and what is worth a warning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of the measured GPU, over the whole suite; `None` where the driver does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Readings {
    /// Clock of the multiprocessors under load: the highest seen, and the highest that the card has. MHz.
    pub clock_mhz: Option<f64>,
    pub clock_limit_mhz: Option<f64>,
    pub temperature_celsius: Option<f64>,
    pub power_watts: Option<f64>,
    pub power_limit_watts: Option<f64>,
    /// Reasons why the clock was held down, in the driver's words.
    pub throttled: Vec<String>,
    /// Memory that others held when the device was opened.
    pub others_bytes: Option<f64>,
    /// Programs of others on the GPU.
    pub others: u32,
}

/// The query of `nvidia-smi` whose lines `Readings::add` reads, in this order. Drivers from 535 on call the flags
/// `clocks_event_reasons`, older ones `clocks_throttle_reasons`, and each may refuse the other's word.
pub fn query(reasons: &str) -> String {
    let flags = ["sw_power_cap", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown"];
    let flags: Vec<String> = flags.iter().map(|flag| format!("{reasons}.{flag}")).collect();
    format!("clocks.sm,clocks.max.sm,temperature.gpu,power.draw,power.limit,{}", flags.join(","))
}

/// Names of the four flags of the query.
const THROTTLES: [&str; 4] = ["power cap", "hardware heat limit", "software heat limit", "power brake"];

/// Memory that an idle driver holds by itself on data-centre cards. Judged.
const IDLE_BYTES: f64 = 1.2e9;

impl Readings {
    /// One line of `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`; cells that say `[N/A]` are left out.
    pub fn add(&mut self, line: &str) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let number =
            |index: usize| cells.get(index).and_then(|cell| cell.parse::<f64>().ok()).filter(|value| value.is_finite());
        let most = |kept: &mut Option<f64>, index: usize| {
            *kept = [*kept, number(index)].into_iter().flatten().reduce(f64::max);
        };
        most(&mut self.clock_mhz, 0);
        most(&mut self.clock_limit_mhz, 1);
        most(&mut self.temperature_celsius, 2);
        most(&mut self.power_watts, 3);
        most(&mut self.power_limit_watts, 4);
        for (index, name) in THROTTLES.iter().enumerate() {
            let is_new = !self.throttled.iter().any(|known| known == name);
            if is_new && cells.get(5 + index) == Some(&"Active") {
                self.throttled.push((*name).to_owned());
            }
        }
    }

    /// What others do on the GPU before anything of ours does: programs that compute, one a line, and memory in use in MiB.
    pub fn before(programs: &str, memory_mib: &str) -> Self {
        let others = programs.lines().filter(|line| line.trim().parse::<u32>().is_ok()).count() as u32;
        let others_bytes =
            memory_mib.trim().parse::<f64>().ok().filter(|mib| mib.is_finite()).map(|mib| mib * f64::from(1 << 20));
        Self { others_bytes, others, ..Self::default() }
    }

    /// Clock, heat and power as far as they are known, such as `1755 of 1980 MHz, 58 C, 699 of 700 W`.
    pub fn summary(&self) -> Option<String> {
        let of = |value: Option<f64>, limit: Option<f64>, unit: &str| {
            let most = limit.map_or_else(String::new, |limit| format!(" of {limit:.0}"));
            value.map(|value| format!("{value:.0}{most} {unit}"))
        };
        let parts = [
            of(self.clock_mhz, self.clock_limit_mhz, "MHz"),
            of(self.temperature_celsius, None, "C"),
            of(self.power_watts, self.power_limit_watts, "W"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// What a reader of the figures should know.
    pub fn warnings(&self) -> Vec<String> {
        let mut said = Vec::new();
        if !self.throttled.is_empty() {
            let power = self.power_watts.map_or(String::new(), |watts| format!(" at {watts:.0} W"));
            let heat = self.temperature_celsius.map_or(String::new(), |celsius| format!(" and {celsius:.0} C"));
            said.push(format!("the clock was held down by: {}{power}{heat}", self.throttled.join(", ")));
        }
        if self.others > 0 {
            said.push(format!("programs of others ran on this GPU ({}): the figures are theirs as well", self.others));
        } else if let Some(bytes) = self.others_bytes.filter(|bytes| *bytes > IDLE_BYTES) {
            said.push(format!(
                "{:.1} GB of its memory were in use before: somebody else may be computing",
                bytes / 1e9
            ));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_nvidia_smi_are_read_and_add_up() {
        let mut readings = Readings::before("", " 4\n");
        readings.add("210, 1980, 34, 71.20, 700.00, Not Active, Not Active, Not Active, Not Active");
        readings.add("1755, 1980, 58, 698.90, 700.00, Active, Not Active, Not Active, Not Active");
        assert_eq!(
            (readings.clock_mhz, readings.temperature_celsius, readings.power_watts),
            (Some(1755.0), Some(58.0), Some(698.9))
        );
        assert_eq!(readings.throttled, ["power cap"]);
        assert_eq!(readings.others_bytes, Some(4.0 * 1_048_576.0));
        assert_eq!(readings.summary().unwrap(), "1755 of 1980 MHz, 58 C, 699 of 700 W");
        assert_eq!(readings.warnings(), ["the clock was held down by: power cap at 699 W and 58 C"]);
    }

    #[test]
    fn what_the_driver_does_not_say_is_left_out() {
        let mut readings = Readings::default();
        readings.add("1590, 1590, 40, [N/A], [N/A], [N/A], Not Active, Not Active, Not Active");
        assert_eq!((readings.power_watts, readings.throttled.len()), (None, 0));
        assert_eq!(
            (readings.summary().unwrap().as_str(), Readings::default().summary()),
            ("1590 of 1590 MHz, 40 C", None)
        );
        assert!(readings.warnings().is_empty());
        assert!(
            Readings::before("4711\n4712\n", "9000").warnings()[0]
                .starts_with("programs of others ran on this GPU (2)")
        );
        assert!(Readings::before("[Not Found]", "9000").warnings()[0].starts_with("9.4 GB of its memory"));
    }

    proptest! {
        /// Cells that are numbers raise what was read before and never lower it; others change nothing.
        #[test]
        fn any_line_raises_or_leaves_what_is_known(
            line in prop_oneof![".{0,200}", "(-?[0-9]{1,4}([.][0-9])?|\\[N/A\\])(, ?(-?[0-9]{1,4}|\\[N/A\\]|Active)){0,9}"],
        ) {
            let mut readings = Readings::before(&line, &line);
            let others = readings.others;
            readings.add("1000, 2000, 50, 300, 700, Active");
            let before = readings.clone();
            readings.add(&line);
            let cells = line.split(',').map(|cell| cell.trim().parse::<f64>().ok().filter(|value| value.is_finite()));
            let kept = [before.clock_mhz, before.clock_limit_mhz, before.temperature_celsius, before.power_watts, before.power_limit_watts];
            let found =
                [readings.clock_mhz, readings.clock_limit_mhz, readings.temperature_celsius, readings.power_watts, readings.power_limit_watts];
            for ((kept, found), cell) in kept.into_iter().zip(found).zip(cells.chain(std::iter::repeat(None))) {
                prop_assert_eq!(found, cell.map_or(kept, |cell| kept.map(|kept| kept.max(cell))), "{}", line);
            }
            prop_assert!(readings.throttled.starts_with(&before.throttled) && readings.throttled.len() <= THROTTLES.len());
            prop_assert!(others as usize <= line.lines().count() && readings.others == others);
        }
    }
}
