//! The account that AWS is asked as: its keys and clients, who it is, what it may do and how much it may start.

#[cfg(feature = "aws")]
mod aws_account;
#[cfg(feature = "aws")]
mod bucket;
pub mod dry_run;
#[cfg(feature = "aws")]
pub mod keys;
#[cfg(feature = "aws")]
pub mod permissions;
pub mod places;
#[cfg(feature = "aws")]
pub mod session;
#[cfg(feature = "aws")]
pub mod signed;
pub mod vcpu_quotas;
#[cfg(feature = "aws")]
pub mod whole_answers;

#[cfg(feature = "aws")]
pub use aws_account::{AwsAccount, find, running};
