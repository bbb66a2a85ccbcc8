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

/// What a launch needs in an AWS account and its first region, as Terraform.
pub const SETUP: &str = concat!(
    "# What gpuplan needs in an AWS account: a bucket for runs, a role for machines, a security group without a way in.\n",
    "# Written by `gpuplan setup aws --print`. Nothing here costs money until a run stores something.\n\n",
    include_str!("setup/region.tf"),
    "\n",
    include_str!("setup/account.tf"),
);
/// What another region needs: bucket, role and policy are those of the first one.
pub const SETUP_REGION: &str = concat!(
    "# Another region for machines of gpuplan: a security group without a way in. Bucket, role and policy are those of the first \
     region.\n",
    "# Written by `gpuplan setup aws --region REGION` where another region was set up before. Nothing here costs money.\n\n",
    include_str!("setup/region.tf"),
);
