//! What AWS is asked for prices and risks, and whether an account is in sight.

#[cfg(not(feature = "aws"))]
use crate::CLOUD;
#[cfg(feature = "aws")]
use crate::account::{AwsAccount, places, session};
#[cfg(feature = "aws")]
use crate::catalog::machine_list::ListedMachines;
use crate::feeds;
#[cfg(feature = "aws")]
use crate::feeds::addresses;
use crate::feeds::addresses::Addresses;
#[cfg(feature = "aws")]
use crate::prices::{capacity_blocks, on_demand, placement_scores, spot_prices};
use gpuplan_clouds_http::variable;
use gpuplan_market::Sources;

/// Variables and files that the AWS tools take an account from.
const SIGNS_OF_AN_ACCOUNT: [&str; 6] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SHARED_CREDENTIALS_FILE",
];
const FILES_OF_AN_ACCOUNT: [&str; 2] = [".aws/credentials", ".aws/config"];

/// The account's own sources, and the public ones where they may be reached. Public prices say less and load longer, so they
/// are asked only where no account is in sight; how often capacity is reclaimed is public and nowhere else.
pub fn sources() -> Sources {
    let mut sources = account_sources();
    let is_set = |name: &str| variable(name).is_some();
    if let Some(addresses) = Addresses::choose(variable("GPUPLAN_AWS_ENDPOINT"), is_set) {
        sources.risks.push(Box::new(feeds::SpotAdvisor::new(addresses.clone())));
        if !has_account() {
            sources.prices.push(Box::new(feeds::SpotFeed::new(addresses.clone())));
            sources.prices.push(Box::new(feeds::PriceMaps::new(addresses)));
        }
    }
    sources
}

pub fn has_account() -> bool {
    let home = variable("HOME").map(std::path::PathBuf::from);
    let has_file = home.is_some_and(|home| FILES_OF_AN_ACCOUNT.iter().any(|file| home.join(file).exists()));
    cfg!(feature = "aws") && (has_file || SIGNS_OF_AN_ACCOUNT.iter().any(|name| variable(name).is_some()))
}

#[cfg(feature = "aws")]
fn account_sources() -> Sources {
    let session = session::Session::from_environment();
    let mut sources = Sources {
        machines: vec![Box::new(ListedMachines::new(session.clone()))],
        prices: vec![
            Box::new(spot_prices::SpotPrices::new(session.clone())),
            Box::new(capacity_blocks::CapacityBlocks::new(session.clone())),
        ],
        risks: vec![Box::new(placement_scores::PlacementScores::new(session.clone()))],
        account: Some(Box::new(AwsAccount::new(session.clone()))),
        tried: places::tried(),
        needs_feature: None,
    };
    if addresses::may_ask_price_list(|name| variable(name).is_some()) {
        sources.prices.push(Box::new(on_demand::ListedPrices::new(session)));
    }
    sources
}

#[cfg(not(feature = "aws"))]
fn account_sources() -> Sources {
    Sources { needs_feature: Some(CLOUD), ..Sources::default() }
}
