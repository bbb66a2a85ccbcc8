//! Why a plan was chosen and others were not, what to do to run it well, and what else to know: enums with their figures.
//! `report::sentences` makes the words.

pub mod advice;
pub mod annotate;
pub mod comparison;
pub mod evidence;
pub mod input_wait;
pub mod reason;
pub mod rejection;
pub mod warning;

pub use advice::Advice;
pub use evidence::{Evidence, EvidenceKind};
pub use reason::Reason;
pub use rejection::{Rejected, Rejection, RejectionReason};
pub use warning::Warning;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::input_wait::{InputWait, SlowestPart};
    use crate::limits::policy::{BrokenRule, PolicyViolation};
    use gpuplan_units::{Bytes, GpuCount, Hours, Usd};
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    /// The JSON of a value, which reads back as the same.
    fn written<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> Value {
        let json = serde_json::to_value(value).unwrap();
        assert_eq!(serde_json::from_value::<T>(json.clone()).unwrap(), *value);
        json
    }

    #[test]
    fn everything_is_an_object_with_its_kind_and_its_figures() {
        let usd = |text: &str| Usd::parse(text).unwrap();
        let violation = PolicyViolation::MaxP90Usd { p90_usd: usd("1000.51"), limit_usd: usd("1000.50") };
        let policy = Rejection::Policy(BrokenRule { line: 8, violation });
        let json = written(&policy);
        assert_eq!((&json["kind"], &json["line"]), (&json!("policy"), &json!(8)));
        assert_eq!(json["violation"]["rule"], "max_p90_usd");
        assert_eq!(json["violation"]["p90_usd"], "1000.51");
        let late = Rejection::Deadline { needed_hours: Hours(30.5), deadline_hours: Hours(24.0), confidence: 0.9 };
        let expected = json!({"kind": "deadline", "needed_hours": 30.5, "deadline_hours": 24.0, "confidence": 0.9});
        assert_eq!(written(&late), expected);
        let gpus_per_run = GpuCount::parse("1/2").unwrap();
        written(&Rejection::SweepRunTooLarge { gpus_per_run, gpus: 8 });
        written(&Rejection::OwnedUntil { until: "2026-12-24T00:00:00Z".parse().unwrap() });
        let cheaper = Warning::CheaperOffer { offer: "aws/p5 in us-east-1a".to_owned(), why: late };
        assert_eq!(written(&cheaper)["why"]["kind"], "deadline");
        let slowest = SlowestPart::CopiesAndDecoders { samples_per_second: 900.0 };
        let waiting = InputWait {
            slowest,
            limit: "gpu decode".to_owned(),
            wanted_samples_per_second: 1200.0,
            is_sweep: false,
            waiting_share: 0.25,
            waiting_cost_usd: usd("7.50"),
        };
        let json = written(&Reason::InputWait(waiting.clone()));
        assert_eq!((&json["kind"], &json["slowest"]["part"]), (&json!("input-wait"), &json!("copies-and-decoders")));
        assert_eq!(written(&Advice::InputWait(waiting))["waiting_cost_usd"], "7.50");
        let disk_bytes = Bytes(8e12);
        written(&Advice::StageOnLocalDisk { data_bytes: Bytes(1e12), disk_bytes });
    }

    #[test]
    fn a_candidate_that_passed_more_filters_or_missed_by_less_is_nearer() {
        let late = |hours: f64| Rejection::Deadline {
            needed_hours: Hours(hours),
            deadline_hours: Hours(24.0),
            confidence: 0.9,
        };
        assert!(late(30.0).is_nearer_than(&Rejection::SoldOut) && !Rejection::SoldOut.is_nearer_than(&late(30.0)));
        assert!(late(25.0).is_nearer_than(&late(30.0)) && !late(30.0).is_nearer_than(&late(30.0)));
    }
}
