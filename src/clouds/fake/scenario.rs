//! What goes wrong at the fake cloud: refusals by the order of asking, interruptions by the order of machines.

use serde::{Deserialize, Serialize};

use gpuplan_launch::LaunchError;
use gpuplan_units::UsdPerHour;

/// Times are real seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Codes that the first orders are refused with, as EC2 words them; an empty one lets its order pass.
    pub refuse: Vec<String>,
    /// After how long each machine, in the order of their creation, is taken away; later ones are kept.
    pub interrupt_after_seconds: Vec<f64>,
    /// When no spot machine is to be had and those that run are taken: spans from the start of the course to before their end, as a trace
    /// of availability has them.
    pub no_spot_seconds: Vec<(f64, f64)>,
    /// What a spot machine costs an hour from so long after the start of the course on; before the first, and where there is none, as planned.
    pub spot_usd_per_hour: Vec<(f64, UsdPerHour)>,
    /// Between the notice of it and the end; 0: no notice.
    pub notice_seconds: f64,
    /// What every answer takes.
    pub latency_seconds: f64,
    /// A machine is listed only so long after it was created.
    pub list_late_seconds: f64,
    /// An agent that says nothing for so long is taken for gone.
    pub silence_seconds: f64,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            refuse: Vec::new(),
            interrupt_after_seconds: Vec::new(),
            no_spot_seconds: Vec::new(),
            spot_usd_per_hour: Vec::new(),
            notice_seconds: 0.0,
            latency_seconds: 0.0,
            list_late_seconds: 0.0,
            silence_seconds: 10.0,
        }
    }
}

/// Why a text is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    #[error("no scenario is called `{0}`; there are: {1}")]
    Unknown(String, String),
    #[error("the scenario cannot be read: {0}")]
    Malformed(String),
}

pub(super) const CAPACITY: &str = "InsufficientInstanceCapacity";
const NAMES: [&str; 5] = ["default", "calm", "no-notice", "quota", "sold-out"];

impl Scenario {
    /// Two places without capacity, and one interruption: what a demonstration shows.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        let refuse = |codes: &[&str]| codes.iter().map(|code| (*code).to_owned()).collect();
        let default = Self {
            refuse: refuse(&[CAPACITY, CAPACITY]),
            interrupt_after_seconds: vec![1.5],
            notice_seconds: 5.0,
            ..Self::default()
        };
        Ok(match name {
            "default" => default,
            "calm" => Self::default(),
            "no-notice" => Self { notice_seconds: 0.0, ..default },
            "quota" => {
                Self { refuse: refuse(&["MaxSpotInstanceCountExceeded", "VcpuLimitExceeded"]), ..Self::default() }
            }
            "sold-out" => Self { refuse: vec![CAPACITY.to_owned(); 30], ..Self::default() },
            other => return Err(ScenarioError::Unknown(other.to_owned(), NAMES.join(", "))),
        })
    }

    pub fn read(text: &str) -> Result<Self, ScenarioError> {
        toml::from_str(text).map_err(|error| ScenarioError::Malformed(error.to_string()))
    }

    /// Whether spot machines are to be had, so long after the start of the course.
    pub fn has_spot(&self, seconds: f64) -> bool {
        !self.no_spot_seconds.iter().any(|(from, to)| (*from..*to).contains(&seconds))
    }

    /// What a spot machine costs an hour then, if the scenario says so.
    pub fn spot_price(&self, seconds: f64) -> Option<UsdPerHour> {
        let begun = self.spot_usd_per_hour.iter().filter(|(from, _)| *from <= seconds);
        begun.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, rate)| *rate)
    }

    /// What the order with this number, from 0, is refused with.
    pub fn refusal(&self, order: usize) -> Option<LaunchError> {
        let code = self.refuse.get(order).filter(|code| !code.is_empty())?.clone();
        Some(match code.as_str() {
            "Unsupported" => LaunchError::NotSold { code },
            "MaxSpotInstanceCountExceeded" | "VcpuLimitExceeded" | "InstanceLimitExceeded" => {
                LaunchError::Quota { code, request: "gpuplan doctor".to_owned() }
            }
            "UnauthorizedOperation" | "AuthFailure" | "ExpiredToken" => {
                LaunchError::Credentials { code, detail: "the scenario says so".to_owned() }
            }
            "RequestLimitExceeded" | "InternalError" | "ServiceUnavailable" => LaunchError::Unclear { code },
            "InvalidParameterValue" => LaunchError::Request { code, detail: "the scenario says so".to_owned() },
            _ => LaunchError::Capacity { code },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_scenario_is_there_and_others_are_refused() {
        assert!(NAMES.iter().all(|name| Scenario::named(name).is_ok()));
        assert!(Scenario::named("defualt").unwrap_err().to_string().contains("default"));
        assert!(Scenario::read("refuse = [\"X\"]\ninterrupt = 3").is_err());
        let read = Scenario::read("refuse = [\"\", \"ExpiredToken\"]").unwrap();
        assert!(matches!(read.refusal(1), Some(LaunchError::Credentials { .. })));
        assert!(read.refusal(0).is_none() && read.refusal(2).is_none());
    }
}
