//! From RunPod's GPU types in a data centre to offers. Pure.

use serde::Deserialize;
use serde_json::Value;

use crate::listing::{Gpus, Listing, Rows};
use crate::price;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Availability, Purchase, Suspicion};
use gpuplan_units::UsdPerHour;

/// Id of this source in an offer.
pub const SOURCE: &str = "runpod-gpu-types";

/// What GraphQL answers. Its errors come with status 200.
#[derive(Debug, Deserialize)]
pub struct Reply<T> {
    pub data: Option<T>,
    #[serde(default)]
    pub errors: Vec<Value>,
}

/// GPUs of a machine that are asked about.
const COUNTS: [u16; 4] = [1, 2, 4, 8];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataCenters {
    pub data_centers: Rows<DataCenter>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DataCenter {
    pub id: String,
    pub listed: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuTypes {
    pub gpu_types: Rows<GpuTypeRow>,
}

/// A GPU, its price, and what a data centre has of it in machines of one to eight.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GpuTypeRow {
    id: String,
    memory_in_gb: Value,
    secure_cloud: bool,
    /// For one GPU and hour.
    secure_price: Value,
    max_gpu_count_secure_cloud: Value,
    x1: Option<Lowest>,
    x2: Option<Lowest>,
    x4: Option<Lowest>,
    x8: Option<Lowest>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Lowest {
    /// For one GPU and hour.
    minimum_bid_price: Value,
    stock_status: Value,
}

impl GpuTypeRow {
    /// What it is sold as, by numbers of GPUs.
    pub fn gpus(&self) -> impl Iterator<Item = Gpus<'_>> {
        let most = self.max_gpu_count_secure_cloud.as_u64().unwrap_or(0);
        let counts = COUNTS.into_iter().filter(move |count| self.secure_cloud && u64::from(*count) <= most);
        counts.map(|count| Gpus { name: &self.id, memory_gb: self.memory_in_gb.as_f64(), count })
    }

    /// Machines of this GPU that are in the catalog, with what the data centre says of each.
    fn machines(&self, listing: &mut Listing) -> Vec<(InstanceId, u16, Option<&Lowest>)> {
        let said = |count| match count {
            1 => self.x1.as_ref(),
            2 => self.x2.as_ref(),
            4 => self.x4.as_ref(),
            _ => self.x8.as_ref(),
        };
        let machine = |gpus: Gpus| Some((listing.with_gpus(gpus.name, gpus.memory_gb, gpus.count)?, gpus.count));
        self.gpus().filter_map(machine).map(|(instance, count)| (instance, count, said(count))).collect()
    }
}

fn for_all(price_of_one: &Value, gpus: u16) -> Result<UsdPerHour, String> {
    price::hourly(price::amount(price_of_one)?, i128::from(gpus), 1)
}

/// What a data centre has: at the list price, and at the floor of the auction for what may be taken away again.
pub fn list(rows: &Rows<GpuTypeRow>, data_center: &str, listing: &mut Listing) {
    listing.unreadable(data_center, rows.unreadable);
    for row in &rows.read {
        for (instance, gpus, lowest) in row.machines(listing) {
            let Some(lowest) = lowest else { continue };
            let Some(stock) = lowest.stock_status.as_str().filter(|stock| !stock.is_empty() && *stock != "None") else {
                continue;
            };
            let flags = format!("stock={}", stock.to_ascii_lowercase());
            if let Some(offer) =
                listing.offer(instance, Some(data_center), Purchase::OnDemand, for_all(&row.secure_price, gpus))
            {
                offer.availability = Availability::Seen;
                offer.flags = flags.into();
            }
            if lowest.minimum_bid_price.is_null() {
                continue;
            }
            if let Some(offer) =
                listing.offer(instance, Some(data_center), Purchase::Spot, for_all(&lowest.minimum_bid_price, gpus))
            {
                offer.suspicions.push(Suspicion::BidFloor);
            }
        }
    }
}

/// What no data centre has, at its list price. To be called with all data centres read.
pub fn list_sold_out(rows: &Rows<GpuTypeRow>, listing: &mut Listing) {
    for row in &rows.read {
        for (instance, gpus, _) in row.machines(listing) {
            if !listing.has(instance, Purchase::OnDemand) {
                listing.sold_out(instance, Purchase::OnDemand, for_all(&row.secure_price, gpus));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;
    use gpuplan_market::PriceAnswer;

    fn read(rows: Value) -> PriceAnswer {
        let reply: Reply<GpuTypes> = serde_json::from_value(json!({ "data": { "gpuTypes": rows } })).unwrap();
        let rows = reply.data.unwrap().gpu_types;
        let mut listing = Listing::new(&HARDWARE, "runpod", SOURCE, Timestamp::UNIX_EPOCH);
        list(&rows, "EU-RO-1", &mut listing);
        list_sold_out(&rows, &mut listing);
        listing.answer()
    }

    fn row(price: &Value, bid: &Value, stock: &Value) -> Value {
        let lowest = json!({ "minimumBidPrice": bid, "stockStatus": stock });
        json!({ "id": "NVIDIA H100 80GB HBM3", "memoryInGb": 80, "secureCloud": true, "securePrice": price, "maxGpuCountSecureCloud": 8,
                "x1": { "minimumBidPrice": null, "stockStatus": null }, "x2": null, "x8": lowest })
    }

    #[test]
    fn a_price_of_one_gpu_becomes_that_of_the_machine() {
        let answer = read(json!([row(&json!(3.29), &json!(2.69), &json!("High"))]));
        let found: Vec<_> = answer
            .offers
            .iter()
            .map(|offer| {
                (
                    &*offer.place.region,
                    offer.purchase,
                    offer.quote.rate.to_string(),
                    offer.availability,
                    offer.suspicions.clone(),
                )
            })
            .collect();
        let sold_out = |rate: &str| {
            ("any", Purchase::OnDemand, rate.to_owned(), Availability::SoldOut, vec![Suspicion::PlaceUnknown])
        };
        let expected = [
            sold_out("3.29"),
            sold_out("6.58"),
            sold_out("13.16"),
            ("EU-RO-1", Purchase::OnDemand, "26.32".to_owned(), Availability::Seen, vec![]),
            ("EU-RO-1", Purchase::Spot, "21.52".to_owned(), Availability::Unknown, vec![Suspicion::BidFloor]),
        ];
        assert_eq!(found, expected);
        assert_eq!(&*answer.offers[3].flags, "stock=high");
    }

    #[test]
    fn no_stock_no_price_and_unknown_gpus_give_no_live_offer() {
        for stock in [json!(null), json!("None"), json!("")] {
            let answer = read(json!([row(&json!(3.29), &json!(2.69), &stock)]));
            assert!(answer.offers.iter().all(|offer| offer.availability == Availability::SoldOut), "{stock}");
        }
        for price in [json!(null), json!(0), json!("N/A*"), json!(-1)] {
            let answer = read(json!([row(&price, &json!(null), &json!("Low"))]));
            assert!(answer.offers.is_empty() && !answer.notes.is_empty(), "{price}");
        }
        let answer = read(
            json!([{ "id": "NVIDIA GeForce RTX 3070", "memoryInGb": 8, "secureCloud": true, "maxGpuCountSecureCloud": 1 }]),
        );
        assert_eq!(answer.notes[0].detail, "1 machine type is not in the catalog: 1 x NVIDIA GeForce RTX 3070");
        assert_eq!(read(json!([{ "id": "NVIDIA L4", "secureCloud": false }])).notes, []);
    }

    proptest! {
        #[test]
        fn any_price_is_read_or_refused(price in any::<f64>(), text in ".{0,40}") {
            for price in [json!(price), json!(text)] {
                let answer = read(json!([row(&price, &price, &json!("Low"))]));
                prop_assert!(answer.offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
            }
            // `{}` is an answer without data, which is refused where it is read.
            let is_read = serde_json::from_str::<Reply<GpuTypes>>(&text).is_ok();
            prop_assert!(!is_read || text.trim().starts_with('{'), "{text}");
        }
    }
}
