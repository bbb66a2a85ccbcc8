//! Reads the public spot price feed: one price a machine type and region, with no word on zones.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use crate::prices::spot::positive;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Location, Offer, PriceAnswer, Purchase, SourceNote};

/// Id of this source in an offer.
pub const SOURCE: &str = "aws-spot-feed";

/// Regions of the feed that have the names of before 2012 (as several public readers of it translate them).
const OLD_NAMES: [(&str, &str); 7] = [
    ("us-east", "us-east-1"),
    ("us-west", "us-west-1"),
    ("eu-ireland", "eu-west-1"),
    ("eu-frankfurt", "eu-central-1"),
    ("apac-sin", "ap-southeast-1"),
    ("apac-syd", "ap-southeast-2"),
    ("apac-tokyo", "ap-northeast-1"),
];

#[derive(Debug, Deserialize)]
pub struct SpotFeedDocument {
    config: Config,
}

#[derive(Debug, Deserialize)]
struct Config {
    regions: Vec<Region>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    region: String,
    instance_types: Vec<Group>,
}

/// Machine types of one kind, such as `generalCurrentGen`.
#[derive(Debug, Deserialize)]
struct Group {
    sizes: Vec<Size>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Size {
    /// The whole name, such as `g5.xlarge`.
    size: String,
    value_columns: Vec<Column>,
}

#[derive(Debug, Deserialize)]
struct Column {
    /// `linux` or `mswin`.
    name: String,
    /// Text by currency, such as `0.3247`, `9.0E-4` or `N/A*`.
    prices: BTreeMap<String, String>,
}

impl SpotFeedDocument {
    /// Offers of whole regions. They say nothing of a zone, so whoever has prices of zones has no use for them.
    pub fn answer(&self, instances: &BTreeMap<&str, InstanceId>, observed_at: Timestamp) -> PriceAnswer {
        let mut answer = PriceAnswer::default();
        for region in &self.config.regions {
            let name =
                OLD_NAMES.iter().find(|(old, _)| *old == region.region).map_or(region.region.as_str(), |(_, new)| *new);
            for size in region.instance_types.iter().flat_map(|group| &group.sizes) {
                let Some(instance) = instances.get(size.size.as_str()) else { continue };
                let linux = size.value_columns.iter().find(|column| column.name == "linux");
                let price = linux
                    .and_then(|column| column.prices.get("USD"))
                    .ok_or_else(|| "no price in USD for Linux".to_owned());
                match price.and_then(|text| positive(text)) {
                    Ok(rate) => {
                        let place = Location { region: name.into(), zone_id: None };
                        answer.offers.push(Offer::live(*instance, place, Purchase::Spot, rate, SOURCE, observed_at));
                    }
                    Err(detail) => answer.notes.push(SourceNote { place: format!("{name}, {}", size.size), detail }),
                }
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const RECORDED: &str = include_str!("../../../../tests/fixtures/aws/spot_feed.json");

    fn read(region: &str, groups: &Value, names: &[&'static str]) -> PriceAnswer {
        let document = json!({"vers": 0.01, "config": {"regions": [{"region": region, "instanceTypes": groups}]}});
        let document: SpotFeedDocument = serde_json::from_value(document).unwrap();
        let instances = names.iter().enumerate().map(|(index, name)| (*name, InstanceId(index as u32))).collect();
        document.answer(&instances, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn recorded_prices_are_read_exactly_and_in_their_region() {
        let recorded: Value = serde_json::from_str(RECORDED).unwrap();
        let answer = read("us-east", &recorded["instanceTypes_fragment"], &["c5.12xlarge", "c6g.xlarge", "t3.nano"]);
        let found: Vec<_> =
            answer.offers.iter().map(|offer| (&*offer.place.region, offer.quote.rate.to_string())).collect();
        assert_eq!(
            found,
            [
                ("us-east-1", "0.3247".to_owned()),
                ("us-east-1", "0.0367".to_owned()),
                ("us-east-1", "0.0009".to_owned())
            ]
        );
        assert!(answer.offers.iter().all(|offer| offer.place.zone_id.is_none() && offer.purchase == Purchase::Spot));
        assert_eq!(answer.notes, []);
    }

    fn group(price: &str) -> Value {
        json!([{"type": "x", "sizes": [{"size": "g5.xlarge", "valueColumns": [{"name": "linux", "prices": {"USD": price}}]}]}])
    }

    #[test]
    fn what_is_no_price_is_a_note() {
        for price in ["N/A*", "N/A", "", "0.0000", "-1"] {
            let answer = read("eu-west-3", &group(price), &["g5.xlarge"]);
            assert_eq!((answer.offers.len(), answer.notes.len()), (0, 1), "{price}");
            assert_eq!(answer.notes[0].place, "eu-west-3, g5.xlarge");
        }
    }

    proptest! {
        #[test]
        fn any_price_is_read_or_noted(price in ".{0,20}") {
            let answer = read("eu-west-3", &group(&price), &["g5.xlarge"]);
            prop_assert_eq!(answer.offers.len() + answer.notes.len(), 1);
        }

        #[test]
        fn no_part_of_a_document_is_one(text in ".{0,60}", cut in 0.0_f64..1.0) {
            prop_assert!(serde_json::from_str::<SpotFeedDocument>(&text).is_err());
            let whole = json!({"config": {"regions": [{"region": "us-east", "instanceTypes": group("1.00")}]}}).to_string();
            prop_assert!(serde_json::from_str::<SpotFeedDocument>(&whole).is_ok());
            prop_assert!(serde_json::from_str::<SpotFeedDocument>(&whole[..(cut * whole.len() as f64) as usize]).is_err());
        }
    }
}
