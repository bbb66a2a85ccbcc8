//! What spot machines cost at this moment, for runs that are under way.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::SystemTime;

use aws_sdk_ec2::types::InstanceType;
use futures_util::future::try_join_all;

use crate::account::session::Account;
use crate::catalog::zones::zone_ids;
use crate::errors::launch_error;
use crate::launcher::known::AwsLauncher;
use crate::prices::spot::{SpotPriceRow, positive};
use crate::prices::spot_prices::{PRODUCTS, row};
use gpuplan_launch::{LaunchError, Pool};
use gpuplan_units::UsdPerHour;

/// By machine type and zone id, the price that was written down last.
type Prices = BTreeMap<(String, String), UsdPerHour>;

impl AwsLauncher {
    /// A setup of before prices were asked does not allow it, which is said once: the run goes on by the prices it was planned with.
    pub(super) async fn prices_now(
        &self,
        places: &[(Pool, Vec<String>)],
    ) -> Result<Vec<Option<UsdPerHour>>, LaunchError> {
        let told = self.prices_there(places).await;
        if let Err(LaunchError::Credentials { code, .. }) = &told {
            let mut known = self.known();
            if !std::mem::replace(&mut known.has_no_prices, true) {
                known.warnings.push(format!(
                    "what spot costs now may not be asked ({code}), so decisions go by the prices of the plan; \
                     `gpuplan setup aws` allows ec2:DescribeSpotPriceHistory"
                ));
            }
        }
        told
    }

    async fn prices_there(&self, places: &[(Pool, Vec<String>)]) -> Result<Vec<Option<UsdPerHour>>, LaunchError> {
        let account = &self.account().await?;
        let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (pool, _) in places {
            wanted.entry(&pool.region).or_default().insert(&pool.instance_type);
        }
        let regions = wanted
            .into_iter()
            .map(async |(region, types)| Ok::<_, LaunchError>((region, in_force(account, region, &types).await?)));
        let by_region: BTreeMap<&str, Prices> = try_join_all(regions).await?.into_iter().collect();
        Ok(places.iter().map(|(pool, zones)| price(by_region.get(pool.region.as_str())?, pool, zones)).collect())
    }
}

/// From now on means the price in force now.
async fn in_force(account: &Account, region: &str, types: &BTreeSet<&str>) -> Result<Prices, LaunchError> {
    let client = account.ec2(region);
    let question = client
        .describe_spot_price_history()
        .start_time(SystemTime::now().into())
        .set_instance_types(Some(types.iter().map(|name| InstanceType::from(*name)).collect()))
        .set_product_descriptions(Some(PRODUCTS.map(str::to_owned).to_vec()));
    let (mut pages, mut rows) = (question.into_paginator().send(), Vec::new());
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| launch_error(account.error(region, &error)))?;
        rows.extend(page.spot_price_history().iter().map(row));
    }
    let unnamed = rows.iter().any(|row| row.zone_id.is_none());
    let ids = if unnamed { zone_ids(account, &client, region, &mut Vec::new()).await } else { HashMap::new() };
    Ok(newest(rows, &ids))
}

/// A row that cannot be read, or stands in no zone that is known, says nothing.
fn newest(mut rows: Vec<SpotPriceRow>, ids: &HashMap<String, String>) -> Prices {
    rows.sort_by_key(|row| row.since);
    let read = |row: SpotPriceRow| {
        let zone = row.zone_id.or_else(|| ids.get(&row.zone_name).cloned())?;
        Some(((row.instance_type, zone), positive(&row.price).ok()?))
    };
    rows.into_iter().filter_map(read).collect()
}

/// Where EC2 chooses among zones: the dearest of them, as it was planned.
fn price(prices: &Prices, pool: &Pool, zones: &[String]) -> Option<UsdPerHour> {
    let may_be = |zone: &String| match &pool.zone_id {
        Some(only) => zone == only,
        None => zones.is_empty() || zones.contains(zone),
    };
    let there = prices.iter().filter(|((name, zone), _)| *name == pool.instance_type && may_be(zone));
    there.map(|(_, rate)| *rate).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_launch::Market;
    use jiff::Timestamp;

    #[test]
    fn the_price_is_the_newest_of_the_zones_that_may_be_taken() {
        let row = |name: &str, id: Option<&str>, price: &str, since: i64| SpotPriceRow {
            instance_type: "p3.2xlarge".to_owned(),
            zone_name: name.to_owned(),
            zone_id: id.map(str::to_owned),
            price: price.to_owned(),
            since: Timestamp::from_second(since).ok(),
        };
        let rows = vec![
            row("us-east-2a", Some("use2-az1"), "1.846000", 20),
            row("us-east-2a", Some("use2-az1"), "0.918000", 10),
            row("us-east-2b", None, "0.950000", 10),
            row("us-east-2c", None, "0.100000", 10),
            row("us-east-2b", Some("use2-az2"), "soon", 30),
        ];
        let prices = newest(rows, &HashMap::from([("us-east-2b".to_owned(), "use2-az2".to_owned())]));
        let ask = |zone: Option<&str>, zones: &[&str], name: &str| {
            let pool = Pool {
                cloud: "aws".to_owned(),
                region: "us-east-2".to_owned(),
                zone_id: zone.map(str::to_owned),
                instance_type: name.to_owned(),
                market: Market::Spot,
            };
            let zones: Vec<String> = zones.iter().map(|zone| (*zone).to_owned()).collect();
            price(&prices, &pool, &zones).map(|rate| rate.to_string())
        };
        let said = |text: &str| Some(UsdPerHour::parse(text).unwrap().to_string());
        assert_eq!(ask(Some("use2-az1"), &[], "p3.2xlarge"), said("1.846"));
        assert_eq!(ask(Some("use2-az2"), &[], "p3.2xlarge"), said("0.95"));
        assert_eq!(ask(None, &["use2-az2"], "p3.2xlarge"), said("0.95"));
        assert_eq!(ask(None, &[], "p3.2xlarge"), said("1.846"));
        assert_eq!(ask(Some("use2-az3"), &[], "p3.2xlarge"), None);
        assert_eq!(ask(Some("use2-az1"), &[], "p3.8xlarge"), None);
    }
}
