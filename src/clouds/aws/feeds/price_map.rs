//! Reads the documents behind the price page of AWS: what its regions are called there, and what machines cost in one of them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::prices::price_list::ListPrice;
use crate::prices::spot::positive;
use gpuplan_units::UsdPerHour;

/// Id of this source in an offer.
pub const SOURCE: &str = "aws-price-map";

/// Cells that a row must have, if it has them at all, to be a plain machine. The document is that of Linux on shared hosts.
const PLAIN: [(&str, &str); 2] = [("Operating System", "Linux"), ("Pre Installed S/W", "NA")];

/// Every place of AWS, by a key that says no more than the row.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Places(BTreeMap<String, Place>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Place {
    /// Such as `us-east-1`.
    code: String,
    /// As price documents call it, such as `US East (N. Virginia)`.
    name: String,
    /// `AWS Region`, `AWS Local Zone`, ...
    #[serde(rename = "type")]
    kind: String,
}

impl Places {
    /// What price documents call a region.
    pub fn name(&self, region: &str) -> Option<&str> {
        let found = self.0.values().find(|place| place.kind == "AWS Region" && place.code == region);
        found.map(|place| place.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// What machines cost on demand in one region.
#[derive(Debug, Deserialize)]
pub struct PriceMap {
    #[serde(default)]
    manifest: Manifest,
    /// Rows by the name of the region, and by a text of their own cells.
    regions: BTreeMap<String, BTreeMap<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
struct Manifest {
    #[serde(rename = "currencyCode")]
    currency: Option<String>,
}

impl PriceMap {
    /// The prices of the machines that `wants` names. A row that cannot be read costs only itself.
    pub fn prices(
        &self,
        region: &str,
        name: &str,
        wants: impl Fn(&str) -> bool,
    ) -> Result<Vec<Result<ListPrice, String>>, String> {
        if let Some(currency) = self.manifest.currency.as_deref().filter(|currency| *currency != "USD") {
            return Err(format!("its prices are in `{currency}`, not in USD"));
        }
        let rows = self.regions.get(name).ok_or_else(|| format!("it has no prices of `{name}`"))?;
        Ok(rows.values().filter_map(|row| price(region, row, &wants).transpose()).collect())
    }
}

/// `None` for what is no plain machine that is wanted, or free: a price of zero stands in for "not sold so".
fn price(region: &str, row: &Value, wants: impl Fn(&str) -> bool) -> Result<Option<ListPrice>, String> {
    let is_plain = PLAIN.iter().all(|(cell, plain)| row[cell].as_str().is_none_or(|text| text == *plain));
    let Some(instance_type) = row["Instance Type"].as_str().filter(|name| is_plain && wants(name)) else {
        return Ok(None);
    };
    let about = |detail: String| format!("{instance_type}: {detail}");
    let text = row["price"].as_str().ok_or_else(|| about("no price".to_owned()))?;
    if UsdPerHour::parse(text) == Ok(UsdPerHour::default()) {
        return Ok(None);
    }
    let rate = positive(text).map_err(about)?;
    Ok(Some(ListPrice { instance_type: instance_type.to_owned(), region: region.to_owned(), rate }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const SAMPLE: &str = include_str!("../../../../tests/fixtures/aws/price_map.json");
    const PLACES: &str = include_str!("../../../../tests/fixtures/aws/places.json");
    const VIRGINIA: &str = "US East (N. Virginia)";

    fn read(text: &str) -> Vec<Result<ListPrice, String>> {
        let map: PriceMap = serde_json::from_str(text).unwrap();
        map.prices("us-east-1", VIRGINIA, |name| name.starts_with('g') || name.starts_with('p')).unwrap()
    }

    #[test]
    fn only_plain_machines_of_the_wanted_types_are_read() {
        let (mut prices, mut errors) = (Vec::new(), Vec::new());
        for row in read(SAMPLE) {
            match row {
                Ok(price) => prices.push((price.instance_type, price.region, price.rate.to_string())),
                Err(error) => errors.push(error),
            }
        }
        let expected = [("g5.xlarge", "1.006"), ("p5.48xlarge", "55.04")]
            .map(|(name, rate)| (name.to_owned(), "us-east-1".to_owned(), rate.to_owned()));
        assert_eq!(prices, expected);
        let unread = "p4d.24xlarge: `N/A` is not an amount in dollars, such as 55.04; the price is left out";
        assert_eq!(errors, ["g6.xlarge: no price", unread]);
    }

    #[test]
    fn regions_have_names_and_other_places_are_none() {
        let places: Places = serde_json::from_str(PLACES).unwrap();
        assert_eq!(places.name("us-east-1"), Some(VIRGINIA));
        assert_eq!(places.name("eu-west-1"), Some("EU (Ireland)"));
        for none in ["us-east-1-atl-2", "xx-nowhere-1", ""] {
            assert_eq!(places.name(none), None, "{none}");
        }
    }

    #[test]
    fn other_money_and_another_region_are_refused_by_name() {
        let map = |value: Value| serde_json::from_value::<PriceMap>(value).unwrap().prices("r", VIRGINIA, |_| true);
        let yuan = json!({"manifest": {"currencyCode": "CNY"}, "regions": {VIRGINIA: {}}});
        assert_eq!(map(yuan).unwrap_err(), "its prices are in `CNY`, not in USD");
        assert_eq!(map(json!({"regions": {}})).unwrap_err(), format!("it has no prices of `{VIRGINIA}`"));
        assert_eq!(map(json!({"regions": {VIRGINIA: {"a": 3, "b": null, "c": {}}}})), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn any_price_is_read_as_it_stands_or_noted(text in ".{0,20}") {
            let rows = read(&json!({"regions": {VIRGINIA: {"g5": {"Instance Type": "g5.xlarge", "price": text}}}}).to_string());
            prop_assert!(rows.iter().flatten().all(|price| UsdPerHour::parse(&text) == Ok(price.rate)), "{rows:?}");
            prop_assert!(rows.len() == 1 || UsdPerHour::parse(&text) == Ok(UsdPerHour::default()));
        }

        #[test]
        fn no_part_of_a_document_is_one(text in ".{0,60}", cut in 0.0_f64..1.0) {
            prop_assert!(serde_json::from_str::<PriceMap>(&text).is_err());
            let whole = SAMPLE.trim_end();
            let part = whole.char_indices().map(|(at, _)| at).nth((cut * whole.chars().count() as f64) as usize);
            prop_assert!(serde_json::from_str::<PriceMap>(&whole[..part.unwrap_or(0)]).is_err());
        }
    }
}
