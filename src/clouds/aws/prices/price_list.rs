//! From products of the price list interface to on-demand offers. Names no SDK: a product is JSON, which the cloud sends as a text.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::prices::spot::positive;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Location, Offer, OfferQuery, Purchase, SourceNote, Suspicion};
use gpuplan_units::UsdPerHour;

/// Id of this source in an offer.
pub const SOURCE: &str = "aws-price-list";

/// The price of a machine type in a region, as far as it is one.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPrice {
    pub instance_type: String,
    pub region: String,
    pub rate: UsdPerHour,
}

/// Attributes that a product must have to be a plain Linux machine by the hour. The question filters for the same ones.
pub const PLAIN: [(&str, &str); 5] = [
    ("operatingSystem", "Linux"),
    ("preInstalledSw", "NA"),
    ("capacitystatus", "Used"),
    ("tenancy", "Shared"),
    ("marketoption", "OnDemand"),
];

/// Reads one product. `None` for what is no plain machine of a region, or free: a price of zero stands in for "not sold so".
pub fn read(product: &str) -> Result<Option<ListPrice>, String> {
    let product: Value = serde_json::from_str(product).map_err(|error| format!("a product is not JSON: {error}"))?;
    let attribute = |name: &str| product["product"]["attributes"][name].as_str();
    let is_plain = PLAIN.iter().all(|(name, wanted)| attribute(name) == Some(wanted));
    let is_of_a_region = attribute("locationType").is_none_or(|kind| kind == "AWS Region");
    if !is_plain || !is_of_a_region {
        return Ok(None);
    }
    let (Some(instance_type), Some(region)) = (attribute("instanceType"), attribute("regionCode")) else {
        return Err("a product names no machine type or no region".to_owned());
    };
    let place = |detail: String| format!("{instance_type} in {region}: {detail}");
    let mut found: Option<UsdPerHour> = None;
    for dimension in dimensions(&product) {
        if dimension["unit"].as_str() != Some("Hrs") {
            continue;
        }
        let price = dimension["pricePerUnit"].as_object().ok_or_else(|| place("no price".to_owned()))?;
        let Some(text) = price.get("USD").and_then(Value::as_str) else {
            let currencies: Vec<&str> = price.keys().map(String::as_str).collect();
            return Err(place(format!("the price is in {}, not in USD; it is left out", currencies.join(", "))));
        };
        if is_zero(text) {
            continue;
        }
        let rate = positive(text).map_err(place)?;
        if found.is_some_and(|other| other != rate) {
            return Err(place("two prices for one product; both are left out".to_owned()));
        }
        found = Some(rate);
    }
    Ok(found.map(|rate| ListPrice { instance_type: instance_type.to_owned(), region: region.to_owned(), rate }))
}

fn is_zero(text: &str) -> bool {
    UsdPerHour::parse(text) == Ok(UsdPerHour::default())
}

/// terms.OnDemand.*.priceDimensions.*
fn dimensions(product: &Value) -> impl Iterator<Item = &Value> {
    let terms = product["terms"]["OnDemand"].as_object().into_iter().flat_map(|terms| terms.values());
    terms.filter_map(|term| term["priceDimensions"].as_object()).flat_map(|dimensions| dimensions.values())
}

/// Prices collected from products or rows, one for each machine type and region.
pub struct ListPrices<'a> {
    query: &'a OfferQuery<'a>,
    source: &'static str,
    instances: BTreeMap<&'a str, InstanceId>,
    /// `None` where two products give different prices.
    found: BTreeMap<(InstanceId, Arc<str>), Option<UsdPerHour>>,
    pub notes: Vec<SourceNote>,
}

impl<'a> ListPrices<'a> {
    pub fn new(query: &'a OfferQuery<'a>, source: &'static str) -> Self {
        Self { query, source, instances: query.instances(), found: BTreeMap::new(), notes: Vec::new() }
    }

    /// `place` is where a product was found, for the note if it cannot be read.
    pub fn add(&mut self, place: &str, price: Result<Option<ListPrice>, String>) {
        match price {
            Ok(Some(price)) => {
                let Some(instance) = self.instances.get(price.instance_type.as_str()) else { return };
                let rate = self.found.entry((*instance, price.region.as_str().into())).or_insert(Some(price.rate));
                if *rate != Some(price.rate) {
                    *rate = None;
                }
            }
            Ok(None) => {}
            Err(detail) => self.notes.push(SourceNote { place: place.to_owned(), detail }),
        }
    }

    /// A price in a region that nobody asked about is no proof that a zone there has the machine.
    pub fn into_offers(self, answered_at: Timestamp) -> (Vec<Offer>, Vec<SourceNote>) {
        let (mut offers, mut notes) = (Vec::new(), self.notes);
        for ((instance, region), rate) in self.found {
            let Some(rate) = rate else {
                let name = &self.query.hardware.instance(instance).name;
                let detail = format!("the price list has two different prices of {name}; both are left out");
                notes.push(SourceNote { place: region.to_string(), detail });
                continue;
            };
            let is_known = self.query.wanted.get(&region).is_some_and(|wanted| wanted.contains(&instance));
            let place = Location { region, zone_id: None };
            let mut offer = Offer::live(instance, place, Purchase::OnDemand, rate, self.source, answered_at);
            if !is_known {
                offer.suspicions.push(Suspicion::ZoneUnverified);
            }
            offers.push(offer);
        }
        (offers, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{CloudId, Hardware};
    use proptest::prelude::*;
    use serde_json::json;

    const RECORDED: &str = include_str!("../../../../tests/fixtures/aws/get_products.json");

    fn product(price: Value) -> Value {
        let attributes = json!({"instanceType": "g5.xlarge", "regionCode": "eu-west-1", "operatingSystem": "Linux", "tenancy": "Shared",
            "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand", "locationType": "AWS Region"});
        json!({"product": {"attributes": attributes},
            "terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"unit": "Hrs", "pricePerUnit": price}}}}}})
    }

    #[test]
    fn a_product_is_json_in_a_text() {
        let page: Value = serde_json::from_str(RECORDED).unwrap();
        let price = read(page["PriceList"][0].as_str().unwrap()).unwrap().unwrap();
        assert_eq!((price.instance_type.as_str(), price.region.as_str()), ("p5.48xlarge", "us-east-1"));
        assert_eq!(price.rate.to_string(), "55.04");
    }

    #[test]
    fn zero_is_skipped_and_other_money_is_a_note() {
        assert_eq!(read(&product(json!({"USD": "0.0000000000"})).to_string()), Ok(None));
        let error = read(&product(json!({"CNY": "7.5"})).to_string()).unwrap_err();
        assert_eq!(error, "g5.xlarge in eu-west-1: the price is in CNY, not in USD; it is left out");
        for price in [json!({"USD": "soon"}), json!({"USD": "-1"}), json!({"USD": 1.5}), json!({}), json!("1")] {
            assert!(read(&product(price.clone()).to_string()).is_err(), "{price}");
        }
        for text in ["", "{", "[]", "3"] {
            assert!(!matches!(read(text), Ok(Some(_))), "{text}");
        }
    }

    #[test]
    fn other_products_are_no_machines_by_the_hour() {
        for (name, value) in
            [("tenancy", "Dedicated"), ("marketoption", "CapacityBlock"), ("locationType", "AWS Local Zone")]
        {
            let mut product = product(json!({"USD": "1"}));
            product["product"]["attributes"][name] = value.into();
            assert_eq!(read(&product.to_string()), Ok(None), "{name}");
        }
    }

    #[test]
    fn two_prices_are_none_and_an_unknown_region_is_doubted() {
        let hardware = Hardware::embedded().unwrap();
        let id = hardware.find_instance(&CloudId::new("aws"), "g5.xlarge").unwrap();
        let query = OfferQuery::for_instances(&hardware, [("eu-west-1".into(), vec![id])].into());
        let mut prices = ListPrices::new(&query, SOURCE);
        for (region, rate) in
            [("eu-west-1", "1"), ("eu-west-2", "1"), ("eu-west-3", "1"), ("eu-west-1", "1"), ("eu-west-2", "2")]
        {
            let rate = UsdPerHour::parse(rate).unwrap();
            prices.add(
                "",
                Ok(Some(ListPrice { instance_type: "g5.xlarge".to_owned(), region: region.to_owned(), rate })),
            );
        }
        let (offers, notes) = prices.into_offers(Timestamp::UNIX_EPOCH);
        let found: Vec<_> = offers.iter().map(|offer| (&*offer.place.region, offer.suspicions.as_slice())).collect();
        assert_eq!(found, [("eu-west-1", &[][..]), ("eu-west-3", &[Suspicion::ZoneUnverified])]);
        assert_eq!(
            notes[0].to_string(),
            "eu-west-2: the price list has two different prices of g5.xlarge; both are left out"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            prop_assert!(!matches!(read(&text), Ok(Some(_))));
            if let Ok(Some(price)) = read(&product(json!({"USD": text})).to_string()) {
                prop_assert_eq!(UsdPerHour::parse(&text), Ok(price.rate));
            }
        }
    }
}
