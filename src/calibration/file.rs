//! `Calibration`: what a suite measured on one machine, as the JSON file that `plan --calibration` reads. Versioned.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::benchmark::Benchmark;
use crate::device::DeviceFacts;
use crate::host::HostRates;
use crate::readings::Readings;
use crate::suite::{NotRun, Sampled};

/// Of the file's layout; a file of another version is refused.
pub const VERSION: u32 = 1;

/// What `bench --output json` writes and `--calibration` reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub version: u32,
    /// Name and version of the program that measured.
    pub program: String,
    pub measured_at: Timestamp,
    /// Made up by a simulated card: good for trying things out, and marked wherever it is used.
    pub simulated: bool,
    /// Id of the catalog; `None` for a card that the catalog does not have.
    pub gpu: Option<String>,
    pub device: DeviceFacts,
    /// Whose products were measured; `None`: sizes for comparison only.
    pub workload: Option<MeasuredWorkload>,
    /// `quick` or `full`.
    pub suite: String,
    /// How long it took.
    pub seconds: f64,
    pub readings: Readings,
    pub results: Vec<Sampled>,
    pub waived: Vec<NotRun>,
    pub host: HostRates,
}

/// The workload as it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredWorkload {
    pub model: String,
    pub precision: gpuplan_workload::Precision,
    /// In words, such as `FSDP x8`.
    pub layout: String,
    pub micro_batch: u32,
    pub sequence_length: u32,
}

/// Why text is no calibration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    #[error("not JSON of a calibration: {0}")]
    Syntax(String),
    #[error("it has version {found}; this program reads version {VERSION}")]
    Version { found: u64 },
    #[error("{0}")]
    Senseless(String),
}

impl Calibration {
    pub fn read(text: &str) -> Result<Self, CalibrationError> {
        #[derive(Deserialize)]
        struct Header {
            version: u64,
        }
        let syntax = |error: serde_json::Error| CalibrationError::Syntax(error.to_string());
        let header: Header = serde_json::from_str(text).map_err(syntax)?;
        if header.version != u64::from(VERSION) {
            return Err(CalibrationError::Version { found: header.version });
        }
        let calibration: Self = serde_json::from_str(text).map_err(syntax)?;
        match calibration.nonsense() {
            Some(what) => Err(CalibrationError::Senseless(what)),
            None => Ok(calibration),
        }
    }

    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, texts and lists under keys of text can always be written")
            + "\n"
    }

    /// The first figure that no measurement gives.
    fn nonsense(&self) -> Option<String> {
        let has_weight = |benchmark: &Benchmark| benchmark.weight.is_finite() && benchmark.weight >= 0.0;
        let is_sane =
            |one: &&Sampled| one.statistics.is_sane() && has_weight(&one.benchmark) && one.benchmark.work.is_sane();
        if !(1..=1024).contains(&self.device.gpus) {
            return Some(format!("{} GPUs are in no machine", self.device.gpus));
        }
        let bad = self.results.iter().find(|one| !is_sane(one));
        bad.map(|one| format!("`{}` ({}) has figures that no clock gives", one.benchmark.name, one.benchmark.work))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::device::Device;
    use crate::simulated::tests::simulated;
    use crate::suite::{self, Suite};
    use proptest::prelude::*;

    static MADE: LazyLock<Calibration> = LazyLock::new(made);

    fn made() -> Calibration {
        let mut device = simulated("l4", 3);
        let suite = Suite::quick().unwrap();
        let benchmarks = suite.benchmarks(None, device.facts());
        let outcome = suite::run(&suite, benchmarks, &mut device, &mut |_, _| {});
        Calibration {
            version: VERSION,
            program: "gpuplan 0.0.0".to_owned(),
            measured_at: "2026-08-02T12:00:00Z".parse().unwrap(),
            simulated: true,
            gpu: Some("l4".to_owned()),
            device: device.facts().clone(),
            workload: None,
            suite: "quick".to_owned(),
            seconds: 1.68,
            readings: device.readings(),
            results: outcome.sampled,
            waived: outcome.waived,
            host: HostRates::default(),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let calibration = made();
        assert_eq!(Calibration::read(&calibration.json()).unwrap(), calibration);
    }

    #[test]
    fn other_versions_unknown_keys_and_nonsense_are_refused() {
        let refused = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut value = serde_json::to_value(made()).unwrap();
            change(&mut value);
            Calibration::read(&value.to_string()).unwrap_err().to_string()
        };
        assert_eq!(refused(&|value| value["version"] = 2.into()), "it has version 2; this program reads version 1");
        assert!(refused(&|value| value["colour"] = 1.into()).contains("unknown field `colour`"));
        assert_eq!(refused(&|value| value["device"]["gpus"] = 0.into()), "0 GPUs are in no machine");
        assert!(
            refused(&|value| value["results"][0]["statistics"]["median_seconds"] = 0.into()).contains("no clock gives")
        );
        assert!(
            refused(&|value| value["results"][0]["benchmark"]["work"]["bytes"] = u64::MAX.into())
                .contains("no clock gives")
        );
        assert!(Calibration::read("{}").is_err() && Calibration::read("").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_no_calibration(text in ".{0,300}") {
            prop_assert!(matches!(Calibration::read(&text), Err(CalibrationError::Syntax(why)) if !why.is_empty()));
        }

        /// Another character somewhere: a whole calibration whose figures a clock could give, or an error.
        #[test]
        fn any_damage_is_read_or_refused(at in any::<prop::sample::Index>(), letter in "[-0-9a-z\",.:{}]") {
            let mut text = MADE.json();
            let at = at.index(text.len());
            text.replace_range(at..=at, &letter);
            match Calibration::read(&text) {
                Ok(read) => {
                    prop_assert!(read.results.iter().all(|one| one.statistics.is_sane() && one.benchmark.work.is_sane()), "{text}");
                    prop_assert!(Calibration::read(&read.json()).is_ok_and(|again| again.results.len() == read.results.len()));
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }

        #[test]
        fn a_file_cut_short_is_refused(share in 0.0..0.999_f64) {
            let text = MADE.json();
            let end = (text.len() as f64 * share) as usize;
            prop_assert!(text.is_ascii() && Calibration::read(&text[..end]).is_err());
        }
    }
}
