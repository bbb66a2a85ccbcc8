//! Amazon Web Services. Only the files that name the SDK need the feature `aws`.

pub mod account;
pub mod catalog;
pub mod errors;
pub mod feeds;
#[cfg(feature = "aws")]
pub mod launcher;
pub mod notices;
pub mod prices;
mod sources;

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
    "\n",
    include_str!("setup/run_roles.tf"),
);
/// What another region needs: bucket, role and policy are those of the first one.
pub const SETUP_REGION: &str = concat!(
    "# Another region for machines of gpuplan: a security group without a way in. Bucket, role and policy are those of the first \
     region.\n",
    "# Written by `gpuplan setup aws --region REGION` where another region was set up before. Nothing here costs money.\n\n",
    include_str!("setup/region.tf"),
);
