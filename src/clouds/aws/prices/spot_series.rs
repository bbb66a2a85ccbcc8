//! `Series`: earlier spot prices of one region, thinned as they arrive so that 90 days of them stay small.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::prices::spot::{Pool, Region, SpotPriceRow};
use gpuplan_market::{Location, PricePoint, Purchase};
use gpuplan_units::UsdPerHour;

/// At most one point a pool in so many seconds: six hours. Spot prices of GPUs move by a few percent in a week.
const BUCKET_SECONDS: i64 = 6 * 3600;

/// The last price of each pool in each six hours.
#[derive(Default)]
pub struct Series {
    points: BTreeMap<(Pool, i64), (Timestamp, UsdPerHour)>,
}

impl Series {
    /// Rows that cannot be read are left out: those of them that are in force have a note of their own among the prices.
    pub fn add(&mut self, region: &Region, rows: &[SpotPriceRow]) {
        for row in rows {
            let (Ok(Some((pool, rate))), Some(since)) = (region.price(row), row.since) else { continue };
            let last = self.points.entry((pool, since.as_second().div_euclid(BUCKET_SECONDS))).or_insert((since, rate));
            if last.0 < since {
                *last = (since, rate);
            }
        }
    }

    /// In the order of pools, each from its oldest point on.
    pub fn into_points(self, region: &str) -> Vec<PricePoint> {
        let point = |(((instance, zone_id), _), (since, rate))| {
            let place = Location { region: region.into(), zone_id: Some(zone_id) };
            PricePoint { instance, place, purchase: Purchase::Spot, since, rate }
        };
        self.points.into_iter().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::InstanceId;
    use std::collections::HashMap;

    #[test]
    fn the_last_price_of_every_six_hours_stays() {
        let instances = [("g5.xlarge".to_owned(), InstanceId(1))].into();
        let region = Region {
            name: "us-east-1",
            zone_ids: &HashMap::new(),
            instances: &instances,
            listed: None,
            answered_at: Timestamp::UNIX_EPOCH,
        };
        let row = |hour: i64, price: &str| SpotPriceRow {
            instance_type: "g5.xlarge".to_owned(),
            zone_id: Some("use1-az1".to_owned()),
            price: price.to_owned(),
            since: Timestamp::from_second(hour * 3600).ok(),
            ..SpotPriceRow::default()
        };
        let mut series = Series::default();
        series.add(&region, &[row(5, "3"), row(1, "1"), row(3, "N/A*"), row(6, "4")]);
        series.add(&region, &[row(2, "2"), SpotPriceRow { since: None, ..row(0, "9") }]);
        let points: Vec<_> = series
            .into_points("us-east-1")
            .into_iter()
            .map(|point| (point.since.as_second() / 3600, point.rate))
            .collect();
        assert_eq!(points, [(5, UsdPerHour::parse("3").unwrap()), (6, UsdPerHour::parse("4").unwrap())]);
    }
}
