//! Amazon Web Services. Only the files that name the SDK need the feature `aws`.

#[cfg(feature = "aws")]
pub mod account;
pub mod addresses;
pub mod advisor;
pub mod block;
#[cfg(feature = "aws")]
pub mod capacity_blocks;
pub mod dry_run;
pub mod errors;
pub mod feed;
pub mod feeds;
pub mod gather;
#[cfg(feature = "aws")]
pub mod keys;
#[cfg(feature = "aws")]
pub mod launcher;
pub mod machine_types;
pub mod notices;
pub mod offer_file;
#[cfg(feature = "aws")]
pub mod offerings;
#[cfg(feature = "aws")]
pub mod on_demand;
#[cfg(feature = "aws")]
pub mod permissions;
#[cfg(feature = "aws")]
pub mod placement_scores;
pub mod price_list;
#[cfg(feature = "aws")]
pub mod session;
mod sources;
pub mod spot;
#[cfg(feature = "aws")]
pub mod spot_prices;
pub mod spot_series;
pub mod vcpu_quotas;
#[cfg(feature = "aws")]
pub mod whole;
#[cfg(feature = "aws")]
pub mod zones;

pub use sources::{has_account, sources};

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "aws";

/// What a launch needs in an AWS account, as Terraform.
pub const SETUP: &str = include_str!("setup.tf");
/// What a region needs beside what the first one has.
pub const SETUP_REGION: &str = include_str!("setup_region.tf");
