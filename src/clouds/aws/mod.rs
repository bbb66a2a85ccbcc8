//! Amazon Web Services. Only the files that name the SDK need the feature `aws`.

pub mod errors;
pub mod spot;
#[cfg(feature = "aws")]
pub mod spot_prices;

use crate::clouds::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "aws";

/// What a launch needs in an AWS account, as Terraform.
pub const SETUP: &str = include_str!("setup.tf");

#[cfg(feature = "aws")]
pub fn sources() -> Sources {
    Sources { prices: vec![Box::new(spot_prices::SpotPrices::from_environment())], ..Sources::default() }
}

#[cfg(not(feature = "aws"))]
pub fn sources() -> Sources {
    Sources { needs_feature: Some(CLOUD), ..Sources::default() }
}
