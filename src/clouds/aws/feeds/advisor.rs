//! Reads the spot advisor's document: how much spot capacity was reclaimed in a month, by machine type and region.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use gpuplan_hardware::InstanceId;
use gpuplan_market::{Location, RiskAnswer, RiskEvidence, SourceNote};

/// Id of this source in a risk.
pub const SOURCE: &str = "aws-spot-advisor";

/// The document. Its savings are left alone: they can be negative, and no price may be made of them.
#[derive(Debug, Deserialize)]
pub struct AdvisorDocument {
    ranges: Vec<Range>,
    /// Region, operating system, machine type.
    spot_advisor: BTreeMap<String, BTreeMap<String, BTreeMap<String, AdvisorRow>>>,
}

#[derive(Debug, Deserialize)]
struct Range {
    index: i64,
    label: String,
}

#[derive(Debug, Deserialize)]
struct AdvisorRow {
    /// Index of a range.
    r: i64,
}

impl AdvisorDocument {
    pub fn risks(&self, instances: &BTreeMap<&str, InstanceId>, observed_at: Timestamp) -> RiskAnswer {
        let bands: HashMap<i64, (u8, u8)> =
            self.ranges.iter().filter_map(|range| Some((range.index, band(&range.label)?))).collect();
        let mut answer = RiskAnswer::default();
        for (region, systems) in &self.spot_advisor {
            for (name, row) in systems.get("Linux").into_iter().flatten() {
                let Some(instance) = instances.get(name.as_str()) else { continue };
                let Some((low, high)) = bands.get(&row.r) else {
                    let detail = format!(
                        "the advisor names a band `{}` that it does not explain; the risk stays unknown",
                        row.r
                    );
                    answer.notes.push(SourceNote { place: format!("{region}, {name}"), detail });
                    continue;
                };
                let place = Location { region: region.as_str().into(), zone_id: None };
                let evidence = RiskEvidence {
                    monthly_percent_low: *low,
                    monthly_percent_high: *high,
                    observed_at,
                    source: Arc::from(SOURCE),
                };
                answer.risks.push((*instance, place, Arc::new(evidence)));
            }
        }
        answer
    }
}

/// `<5%`, `5-10%`, `>20%`. The document's own maxima differ from its labels by rounding; the labels are what AWS shows.
fn band(label: &str) -> Option<(u8, u8)> {
    let text = label.trim().strip_suffix('%')?;
    let (low, high) = match (text.strip_prefix('<'), text.strip_prefix('>')) {
        (Some(high), _) => (0, high.parse().ok()?),
        (_, Some(low)) => (low.parse().ok()?, 100),
        _ => text.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)))?,
    };
    (low < high && high <= 100).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RECORDED: &str = include_str!("../../../../tests/fixtures/aws/spot_advisor.json");

    fn read(text: &str) -> RiskAnswer {
        let document: AdvisorDocument = serde_json::from_str(text).unwrap();
        document.risks(&[("p5.48xlarge", InstanceId(1)), ("g5.xlarge", InstanceId(2))].into(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn bands_come_by_region_and_negative_savings_change_nothing() {
        let answer = read(RECORDED);
        assert_eq!(answer.notes, []);
        let row = |(id, place, risk): &(InstanceId, Location, Arc<RiskEvidence>)| {
            (id.0, place.region.to_string(), risk.monthly_percent_low, risk.monthly_percent_high)
        };
        let mut found: Vec<_> = answer.risks.iter().map(row).collect();
        found.sort_unstable();
        let expected = [
            (1, "ca-central-1", 0, 5),
            (1, "us-east-1", 20, 100),
            (2, "ca-central-1", 20, 100),
            (2, "us-east-1", 20, 100),
        ];
        assert_eq!(found, expected.map(|(id, region, low, high)| (id, region.to_owned(), low, high)));
    }

    #[test]
    fn a_band_that_is_not_explained_is_a_note() {
        let answer = read(
            r#"{"ranges": [{"index": 0, "label": "few"}], "spot_advisor": {"x": {"Linux": {"g5.xlarge": {"s": 1, "r": 0}}}}}"#,
        );
        assert_eq!((answer.risks.len(), answer.notes.len()), (0, 1));
    }

    #[test]
    fn labels_are_read_as_shown() {
        let labels = ["<5%", "5-10%", ">20%", "10-5%", "5%", "", "%", "5-200%"];
        let bands = labels.map(band);
        assert_eq!(bands[..3], [Some((0, 5)), Some((5, 10)), Some((20, 100))]);
        assert!(bands[3..].iter().all(Option::is_none), "{bands:?}");
    }

    proptest! {
        #[test]
        fn a_label_is_a_band_that_holds_something_or_none(label in "[<>]?[0-9]{0,3}(-[0-9]{0,3})?%?|.{0,12}", low: u8, high: u8) {
            prop_assert!(band(&label).is_none_or(|(low, high)| low < high && high <= 100), "{label}");
            let is_one = low < high && high <= 100;
            prop_assert_eq!(band(&format!("{low}-{high}%")), is_one.then_some((low, high)));
        }

        #[test]
        fn no_part_of_the_document_is_one(text in ".{0,60}", cut in 0.0_f64..1.0) {
            prop_assert!(serde_json::from_str::<AdvisorDocument>(&text).is_err());
            let part = RECORDED.trim_end().char_indices().map(|(at, _)| at).nth((cut * RECORDED.trim_end().chars().count() as f64) as usize);
            prop_assert!(serde_json::from_str::<AdvisorDocument>(&RECORDED[..part.unwrap_or(0)]).is_err());
        }
    }
}
