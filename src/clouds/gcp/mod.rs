//! Google Cloud. Only the files that name the SDK need the feature `gcp`.

pub mod errors;
pub mod history;
#[cfg(feature = "gcp")]
pub mod spot_prices;

use crate::clouds::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "gcp";

/// What a launch needs in a Google Cloud project, as Terraform.
pub const SETUP: &str = include_str!("setup.tf");

#[cfg(feature = "gcp")]
pub fn sources() -> Sources {
    Sources { prices: vec![Box::new(spot_prices::SpotPrices::from_environment())], ..Sources::default() }
}

#[cfg(not(feature = "gcp"))]
pub fn sources() -> Sources {
    Sources { needs_feature: Some(CLOUD), ..Sources::default() }
}
