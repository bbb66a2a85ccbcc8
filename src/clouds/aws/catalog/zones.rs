//! Ids of zones by the names that this account has for them.

use std::collections::HashMap;

use aws_sdk_ec2::Client;

use crate::account::session::Account;
use gpuplan_market::SourceNote;

/// Without an answer nothing is misplaced: whoever needs an id drops the row.
pub async fn zone_ids(
    account: &Account,
    client: &Client,
    region: &str,
    notes: &mut Vec<SourceNote>,
) -> HashMap<String, String> {
    match client.describe_availability_zones().all_availability_zones(true).send().await {
        Ok(answer) => {
            let zones = answer.availability_zones().iter();
            zones.filter_map(|zone| Some((zone.zone_name()?.to_owned(), zone.zone_id()?.to_owned()))).collect()
        }
        Err(error) => {
            let detail = format!("no zone ids: {}", account.error(region, &error));
            notes.push(SourceNote { place: region.to_owned(), detail });
            HashMap::new()
        }
    }
}
