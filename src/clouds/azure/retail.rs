//! From pages of Azure's retail price list to offers. Pure: a page in, rows out, the rows in force as offers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::listing::{Listing, Rows};
use crate::price;
use gpuplan_market::Purchase;
use gpuplan_units::UsdPerHour;

/// Id of this source in an offer.
pub const SOURCE: &str = "azure-retail-prices";

/// Hours of a year of a reservation: 365 days.
const HOURS_OF_A_YEAR: i128 = 8760;

/// Words in a product's or a meter's name that make it another product than a Linux machine that is ours alone.
const OTHER_PRODUCTS: [&str; 5] = ["Windows", "CloudServices", "Cloud Services", "Dedicated", "Low Priority"];

/// One page. Unknown fields are ignored; an answer without a list is none.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Page {
    pub items: Rows<RetailRow>,
    pub next_page_link: Option<String>,
}

/// One price as Azure words it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RetailRow {
    currency_code: Value,
    retail_price: Value,
    arm_region_name: Value,
    effective_start_date: Value,
    meter_name: Value,
    product_name: Value,
    sku_name: Value,
    unit_of_measure: Value,
    #[serde(rename = "type")]
    kind: Value,
    arm_sku_name: Value,
    reservation_term: Value,
    tier_minimum_units: Value,
}

impl RetailRow {
    /// The terms, or `None` for a row that prices something else than an hour of a Linux machine in dollars.
    fn purchase(&self) -> Option<Purchase> {
        let names = [&self.meter_name, &self.product_name, &self.sku_name].map(text);
        let is_other = names.iter().any(|name| OTHER_PRODUCTS.iter().any(|word| name.contains(word)));
        let is_tiered = self.tier_minimum_units.as_f64().is_some_and(|units| units > 0.0);
        if is_other || is_tiered || text(&self.currency_code) != "USD" || text(&self.unit_of_measure) != "1 Hour" {
            return None;
        }
        let is_spot = names.iter().any(|name| name.ends_with(" Spot"));
        match (text(&self.kind), text(&self.reservation_term), is_spot) {
            ("Consumption", "", true) => Some(Purchase::Spot),
            ("Consumption", "", false) => Some(Purchase::OnDemand),
            ("Reservation", "1 Year", false) => Some(Purchase::Commitment { years: 1 }),
            ("Reservation", "3 Years", false) => Some(Purchase::Commitment { years: 3 }),
            _ => None,
        }
    }

    /// Whether it prices an hour of a Linux machine on such terms.
    pub fn is_sold_as(&self, terms: impl Fn(Purchase) -> bool) -> bool {
        self.purchase().is_some_and(terms)
    }

    /// Size and region, where it names both.
    pub fn place(&self) -> Option<(&str, &str)> {
        let (size, region) = (text(&self.arm_sku_name), text(&self.arm_region_name));
        (!size.is_empty() && !region.is_empty()).then_some((size, region))
    }

    /// A reservation's row says `1 Hour` too, and its price is for the whole term.
    fn rate(&self, purchase: Purchase) -> Result<UsdPerHour, String> {
        match purchase {
            Purchase::Commitment { years } => {
                price::hourly(price::amount(&self.retail_price)?, 1, HOURS_OF_A_YEAR * i128::from(years))
            }
            _ => price::rate(&self.retail_price),
        }
    }

    /// Since when the row is in force; a row that does not say it counts as the oldest.
    fn since(&self) -> Result<Option<Timestamp>, String> {
        match text(&self.effective_start_date) {
            "" => Ok(None),
            date => date.parse().map(Some).map_err(|_| format!("`{date}` is not a date; the price is left out")),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Adds the rows in force in one region. Of several rows for the same machine and terms the one that began last is in force;
/// of two that began together the dearer is taken, and a note says so.
pub fn list(rows: &Rows<RetailRow>, region: &str, listing: &mut Listing) {
    listing.unreadable(region, rows.unreadable);
    let mut pools: BTreeMap<(&str, Purchase), Vec<&RetailRow>> = BTreeMap::new();
    for row in
        rows.read.iter().filter(|row| text(&row.arm_region_name) == region && !text(&row.arm_sku_name).is_empty())
    {
        if let Some(purchase) = row.purchase() {
            pools.entry((text(&row.arm_sku_name), purchase)).or_default().push(row);
        }
    }
    for ((name, purchase), rows) in pools {
        let Some(instance) = listing.named(name) else { continue };
        let place = format!("{region}, {name}");
        match in_force(&rows, purchase, listing.answered_at) {
            Ok(Price { rate, since, other }) => {
                if let Some(other) = other {
                    listing.note(
                        &place,
                        format!("two {purchase} prices of one date, {other} and {rate}; the higher is taken"),
                    );
                }
                if let Some(offer) = listing.offer(instance, Some(region), purchase, Ok(rate)) {
                    offer.flags = since.map(|since| format!("in_force_since={since}")).unwrap_or_default().into();
                }
            }
            Err(detail) => listing.note(&place, format!("{purchase}: {detail}")),
        }
    }
}

struct Price {
    rate: UsdPerHour,
    since: Option<Timestamp>,
    /// A lower price of the same date.
    other: Option<UsdPerHour>,
}

fn in_force(rows: &[&RetailRow], purchase: Purchase, now: Timestamp) -> Result<Price, String> {
    let mut found: Option<Price> = None;
    let mut refused = "the price begins in the future; it is left out".to_owned();
    for row in rows {
        let since = match row.since() {
            Ok(since) if since.is_some_and(|since| since > now) => continue,
            Ok(since) => since,
            Err(detail) => {
                refused = detail;
                continue;
            }
        };
        let rate = match row.rate(purchase) {
            Ok(rate) => rate,
            Err(detail) => {
                refused = detail;
                continue;
            }
        };
        found = match found {
            Some(known) if known.since > since => Some(known),
            Some(known) if known.since == since && known.rate != rate => {
                Some(Price { rate: known.rate.max(rate), since, other: Some(known.rate.min(rate)) })
            }
            Some(known) if known.since == since => Some(known),
            _ => Some(Price { rate, since, other: None }),
        };
    }
    found.ok_or(refused)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;
    use gpuplan_market::PriceAnswer;

    const NOW: &str = "2026-08-01T00:00:00Z";

    fn read(rows: &[Value]) -> PriceAnswer {
        let page: Page = serde_json::from_value(json!({ "Items": rows })).unwrap();
        let mut listing = Listing::new(&HARDWARE, "azure", SOURCE, NOW.parse().unwrap());
        list(&page.items, "eastus", &mut listing);
        listing.answer()
    }

    fn row(changes: Value) -> Value {
        let mut row = json!({
            "currencyCode": "USD", "retailPrice": 98.32, "armRegionName": "eastus", "effectiveStartDate": "2026-01-01T00:00:00Z",
            "meterName": "ND96isr H100 v5", "productName": "Virtual Machines NDsrH100v5 Series", "skuName": "ND96isr H100 v5",
            "unitOfMeasure": "1 Hour", "type": "Consumption", "armSkuName": "Standard_ND96isr_H100_v5", "tierMinimumUnits": 0.0
        });
        for (key, value) in changes.as_object().unwrap() {
            row[key] = value.clone();
        }
        row
    }

    fn rates(answer: &PriceAnswer) -> Vec<(Purchase, String)> {
        answer.offers.iter().map(|offer| (offer.purchase, offer.quote.rate.to_string())).collect()
    }

    #[test]
    fn spot_list_and_reserved_prices_are_told_apart() {
        let answer = read(&[
            row(json!({})),
            row(json!({ "retailPrice": 29.5, "meterName": "ND96isr H100 v5 Spot", "skuName": "ND96isr H100 v5 Spot" })),
            row(json!({ "retailPrice": 551_000.0, "type": "Reservation", "reservationTerm": "1 Year" })),
            row(json!({ "retailPrice": 1_130_000.0, "type": "Reservation", "reservationTerm": "3 Years" })),
            row(json!({ "retailPrice": 1.0, "type": "Reservation", "reservationTerm": "5 Years" })),
            row(json!({ "retailPrice": 50.0, "type": "DevTestConsumption" })),
        ]);
        let expected = [
            (Purchase::OnDemand, "98.32"),
            (Purchase::Spot, "29.50"),
            // The price of the term / 8760 and / 26280 hours, rounded up.
            (Purchase::Commitment { years: 1 }, "62.899543379"),
            (Purchase::Commitment { years: 3 }, "42.99847793"),
        ];
        assert_eq!(rates(&answer), expected.map(|(purchase, rate)| (purchase, rate.to_owned())));
        assert_eq!(&*answer.offers[0].flags, "in_force_since=2026-01-01T00:00:00Z");
        assert_eq!(answer.notes, []);
    }

    #[test]
    fn the_recorded_page_has_one_price_and_three_traps() {
        let page: Page = serde_json::from_str(include_str!("../../../tests/fixtures/azure/retail_page.json")).unwrap();
        assert_eq!(page.next_page_link.as_deref(), Some("https://prices.azure.com/api/retail/prices?$skip=100"));
        let priced: Vec<_> = page
            .items
            .read
            .iter()
            .filter_map(|row| Some((text(&row.arm_sku_name), row.purchase()?, row.rate(Purchase::Spot))))
            .collect();
        assert_eq!(priced.len(), 2, "Low Priority and Cloud Services are other products");
        assert_eq!(priced[0].0, "Standard_D2s_v5");
        assert_eq!(priced[0].2.as_ref().unwrap().to_string(), "0.0412");
        assert!(priced[1].2.as_ref().unwrap_err().contains("zero"));
    }

    #[test]
    fn the_row_in_force_is_the_price_whatever_the_order() {
        let old = row(json!({ "retailPrice": 110, "effectiveStartDate": "2025-01-01T00:00:00Z" }));
        let next = row(json!({ "retailPrice": 1, "effectiveStartDate": "2026-09-01T00:00:00Z" }));
        let undated = row(json!({ "retailPrice": 2, "effectiveStartDate": null }));
        for rows in [
            vec![old.clone(), row(json!({})), next.clone(), undated.clone()],
            vec![undated, next.clone(), row(json!({})), old],
        ] {
            assert_eq!(rates(&read(&rows)), [(Purchase::OnDemand, "98.32".to_owned())]);
        }
        let answer = read(&[next]);
        assert!(answer.offers.is_empty() && answer.notes[0].detail.contains("future"), "{answer:?}");
        let answer = read(&[row(json!({})), row(json!({ "retailPrice": 90 })), row(json!({}))]);
        assert_eq!(rates(&answer), [(Purchase::OnDemand, "98.32".to_owned())]);
        assert_eq!(answer.notes[0].detail, "two on-demand prices of one date, 90.00 and 98.32; the higher is taken");
    }

    #[test]
    fn other_products_regions_and_currencies_give_nothing() {
        for changes in [
            json!({ "productName": "Virtual Machines NDsrH100v5 Series Windows" }),
            json!({ "productName": "NDsrH100v5 Series Cloud Services" }),
            json!({ "productName": "NDsrH100v5 Series Dedicated Host" }),
            json!({ "meterName": "ND96isr H100 v5 Low Priority" }),
            json!({ "currencyCode": "EUR" }),
            json!({ "unitOfMeasure": "1/Month" }),
            json!({ "armRegionName": "westus" }),
            json!({ "armSkuName": "" }),
            json!({ "armSkuName": null }),
            json!({ "tierMinimumUnits": 100 }),
        ] {
            let answer = read(&[row(changes.clone())]);
            assert!(answer.offers.is_empty() && answer.notes.is_empty(), "{changes}: {answer:?}");
        }
        for price in [json!(0), json!(null), json!("N/A*"), json!(-62), json!({})] {
            let answer = read(&[row(json!({ "retailPrice": price }))]);
            assert!(answer.offers.is_empty() && answer.notes.len() == 1, "{price}");
        }
        assert_eq!(read(&[row(json!({ "armSkuName": "Standard_NC1" }))]).notes.len(), 1);
    }

    proptest! {
        #[test]
        fn any_price_and_date_are_read_or_refused(price in any::<f64>(), text in ".{0,20}", date in ".{0,30}") {
            for price in [json!(price), json!(text)] {
                let answer = read(&[row(json!({ "retailPrice": price, "effectiveStartDate": date }))]);
                prop_assert!(answer.offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
                prop_assert!(answer.offers.len() + answer.notes.len() == 1);
            }
        }

        #[test]
        fn no_part_of_a_page_is_one(text in ".{0,200}", cut in 0.0_f64..1.0) {
            prop_assert!(serde_json::from_str::<Page>(&text).is_err());
            let whole = json!({ "Items": [row(json!({}))], "NextPageLink": null }).to_string();
            prop_assert_eq!(serde_json::from_str::<Page>(&whole).unwrap().items.read.len(), 1);
            prop_assert!(serde_json::from_str::<Page>(&whole[..(cut * whole.len() as f64) as usize]).is_err());
        }
    }
}
